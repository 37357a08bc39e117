"""`federator crd install|print`: applies the CustomResourceDefinitions server-side, or prints
them."""

import click
import yaml

from federator.cli import common


@click.group()
def crd() -> None:
    """Install or print the CustomResourceDefinitions."""


@crd.command(name="install")
@common.connection_options
def install(kubeconfig: str, context: str) -> None:
    """Apply the CRDs server-side, to the host or to a member."""

    async def work(client: "clients.Client") -> None:
        for body in crds.all_crds():
            name = body["metadata"]["name"]
            ref = ObjectRef(
                "apiextensions.k8s.io/v1", "customresourcedefinitions", "", name, body["kind"]
            )
            await client.patch(ref, body, kind="apply", force=True)
            common.say(f"customresourcedefinition.apiextensions.k8s.io/{name} serverside-applied")

    from federator.kinds import crds
    from federator.kube import client as clients
    from federator.model.steps import ObjectRef

    common.run(common.with_host(kubeconfig, context, work))


@crd.command(name="print")
def print_() -> None:
    """Print the CRDs as YAML."""
    from federator.kinds import crds

    common.show(yaml.safe_dump_all(crds.all_crds(), sort_keys=False).rstrip())
