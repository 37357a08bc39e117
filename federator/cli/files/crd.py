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


_member = click.option(
    "--member",
    is_flag=True,
    help="Those of a member: the kinds that it needs, with light schemas.",
)


@crd.command(name="install")
@common.connection_options
@_member
def install(kubeconfig: str, context: str, member: bool) -> None:
    """Apply the CRDs server-side, to the host or to a member, and wait until all are served.

    The host validates what owners write; the light schemas of a member do not. A cluster without
    a hub (`federator member --standalone`) needs those of the host.
    """

    async def work(client: "clients.Client") -> None:
        bodies = crds.member_crds() if member else crds.all_crds()
        if member:
            await refuse_host(client)
        for body in bodies:
            name = body["metadata"]["name"]
            ref = ObjectRef(
                "apiextensions.k8s.io/v1", "customresourcedefinitions", "", name, body["kind"]
            )
            await client.patch(ref, body, kind="apply", force=True)
            common.say(f"customresourcedefinition.apiextensions.k8s.io/{name} serverside-applied")
        try:
            async with asyncio.timeout(SERVED_WITHIN_S):
                for body in bodies:
                    kind = registry.KINDS[body["spec"]["names"]["kind"]]
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
                return  # a user may be allowed to define kinds and not to read their objects
            else:
                return

    async def refuse_host(client: "clients.Client") -> None:
        kind = registry.KINDS["MemberCluster"]
        try:
            members = (await client.list(kind.api_version, kind.plural, limit=1)).items
        except (errors.NotFound, errors.Denied):
            return
        if members:
            raise click.ClickException(
                f"this cluster has MemberClusters ({members[0]['metadata']['name']}, ...): it is a"
                " host, and its schemas check the objects of owners. Run `federator crd install`"
                " without --member; nothing was changed"
            )

    from federator.kinds import crds, registry
    from federator.kube import client as clients
    from federator.kube import errors
    from federator.model.steps import ObjectRef

    common.run(common.with_host(kubeconfig, context, work))


@crd.command(name="print")
@_member
def print_(member: bool) -> None:
    """Print the CRDs as YAML."""
    from federator.kinds import crds

    bodies = crds.member_crds() if member else crds.all_crds()
    text = yaml.dump_all(bodies, Dumper=kubeyaml.Dumper, sort_keys=False)
    common.show(text.rstrip())
