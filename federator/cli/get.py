"""`federator get KIND [NAME...]`: the federated view, from the host only."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.api.kinds import Kind
    from federator.kube.client import Client


@click.command()
@click.argument("kind")
@click.argument("names", nargs=-1)
@click.option("-o", "--output", default="", type=click.Choice(["", "wide", "json", "yaml", "name"]), help="Format.")
@click.option("-l", "--selector", default="", help="Label selector.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print what changes.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@common.namespace_options
@common.connection_options
def get(
    kind: str,
    names: tuple[str, ...],
    output: str,
    selector: str,
    watch: bool,
    no_headers: bool,
    namespace: str,
    all_namespaces: bool,
    kubeconfig: str,
    context: str,
) -> None:
    """Workloads (psvc, pjs, deploy), clusters, decisions, policies (pp, cpp) and quotas (fq) of the federation.

    KIND may also be KIND/NAME.
    """
    from federator.cli import views

    kind, slash, one = kind.partition("/")
    wanted = views.kind_named(kind)
    chosen = (*([one] if slash else []), *names)
    where = (
        "" if all_namespaces or not wanted.namespaced else namespace or common.default_namespace(kubeconfig, context)
    )

    async def work(client: "Client") -> None:
        listing = await client.list(wanted.api_version, wanted.plural, where, label_selector=selector)
        objs = [obj for obj in listing.items if not chosen or obj["metadata"]["name"] in chosen]
        show(wanted, objs, output, all_namespaces=all_namespaces, no_headers=no_headers, asked=len(chosen))
        missing = sorted(set(chosen) - {obj["metadata"]["name"] for obj in objs})
        for name in missing:
            click.echo(f'error: {wanted.plural} "{name}" not found', err=True)
        if watch:
            await follow(
                client, wanted, where, selector, frozenset(chosen), listing.resource_version, output, all_namespaces
            )
        elif missing:
            sys.exit(1)

    common.run(common.with_host(kubeconfig, context, work))


def show(
    kind: "Kind",
    objs: list[dict[str, Any]],
    output: str,
    *,
    all_namespaces: bool,
    no_headers: bool,
    asked: int,
) -> None:
    """Prints objects in the chosen format; `asked` is how many names were given: several stay a list, whatever is
    found."""
    from federator.cli import views

    if output in ("json", "yaml"):
        value: Any = objs[0] if asked == 1 and len(objs) == 1 else {"apiVersion": "v1", "kind": "List", "items": objs}
        click.echo(common.dump(value, output))
    elif output == "name":
        for obj in objs:
            click.echo(name_of(kind, obj))
    elif objs:
        wide = output == "wide"
        click.echo(views.text(kind, objs, wide=wide, with_namespace=all_namespaces, no_headers=no_headers))
    elif not asked:
        click.echo("No resources found.", err=True)


def name_of(kind: "Kind", obj: Mapping[str, Any]) -> str:
    return f"{kind.singular}.{kind.group}/{obj['metadata']['name']}"


async def follow(
    client: "Client",
    kind: "Kind",
    namespace: str,
    selector: str,
    chosen: frozenset[str],
    version: str,
    output: str,
    all_namespaces: bool,
) -> None:
    """Prints a row for every change until Ctrl-C; begins anew where the server has forgotten what came before."""
    from federator.cli import views
    from federator.kube import errors

    wide = output == "wide"
    while True:
        try:
            async for event in client.watch(
                kind.api_version, kind.plural, namespace, resource_version=version, label_selector=selector
            ):
                version = event.object["metadata"].get("resourceVersion", version)
                if event.type == "BOOKMARK" or (chosen and event.object["metadata"]["name"] not in chosen):
                    continue
                if output in ("json", "yaml"):
                    # Documents of one stream: without the line between them YAML would be one with its keys repeated.
                    click.echo(("---\n" if output == "yaml" else "") + common.dump(event.object, output))
                elif output == "name":
                    click.echo(name_of(kind, event.object))
                else:
                    cells = views.row(kind, event.object, wide=wide, with_namespace=all_namespaces)
                    click.echo("   ".join(cells))
        except errors.Expired:
            version = ""
