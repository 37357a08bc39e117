"""`federator crd install|print`: applies the CustomResourceDefinitions server-side, or prints
them."""

import asyncio

import click
import yaml

from federator.cli import common
from federator.kube import kubeyaml

SERVED_WITHIN_S = 60.0
"""How long `install` waits until the API server serves every kind. It takes a second; a loaded
server took twenty."""


@click.group()
def crd() -> None:
    """Install or print the CustomResourceDefinitions."""


@crd.command(name="install")
@common.connection_options
def install(kubeconfig: str, context: str) -> None:
    """Apply the CRDs server-side, to the host or to a member, and wait until all are served."""

    async def work(client: "clients.Client") -> None:
        for body in crds.all_crds():
            name = body["metadata"]["name"]
            ref = ObjectRef(
                "apiextensions.k8s.io/v1", "customresourcedefinitions", "", name, body["kind"]
            )
            await client.patch(ref, body, kind="apply", force=True)
            common.say(f"customresourcedefinition.apiextensions.k8s.io/{name} serverside-applied")
        try:
            async with asyncio.timeout(SERVED_WITHIN_S):
                for kind in registry.KINDS.values():
                    if kind.model is not None:
                        await served(client, kind.api_version, kind.plural)
        except TimeoutError:
            raise click.ClickException(
                f"{kind.plural} are not served {SERVED_WITHIN_S:.0f} s after their definition was "
                "applied; see the conditions of `kubectl get crd -o yaml`"
            ) from None

    async def served(client: "clients.Client", api_version: str, plural: str) -> None:
        while True:
            try:
                await client.list(api_version, plural, limit=1)
            except errors.NotFound:
                await asyncio.sleep(0.1)
            except errors.Denied:
                return  # whoever may define kinds need not be allowed to read their objects
            else:
                return

    from federator.kinds import crds, registry
    from federator.kube import client as clients
    from federator.kube import errors
    from federator.model.steps import ObjectRef

    common.run(common.with_host(kubeconfig, context, work))


@crd.command(name="print")
def print_() -> None:
    """Print the CRDs as YAML."""
    from federator.kinds import crds

    text = yaml.dump_all(crds.all_crds(), Dumper=kubeyaml.Dumper, sort_keys=False)
    common.show(text.rstrip())
