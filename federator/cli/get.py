"""`federator get KIND[,KIND] [NAME...]`: the federated view, read from the host only."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

JSONPATH: Final = "jsonpath="
FORMATS: Final = ("wide", "json", "yaml", "name")


@dataclass(frozen=True, slots=True)
class Target:
    """One kind and the names to show; no names means all objects."""

    kind: "Kind"
    names: tuple[str, ...]


def _checked(context: click.Context, parameter: click.Parameter, output: str) -> str:
    if output in ("", *FORMATS) or output.startswith(JSONPATH):
        return output
    raise click.BadParameter(f"{output!r} is not one of {', '.join(FORMATS)} and jsonpath=TEMPLATE")


@click.command()
@click.argument("kind")
@click.argument("names", nargs=-1)
@click.option(
    "-o",
    "--output",
    default="",
    callback=_checked,
    help="wide, json, yaml, name or jsonpath=TEMPLATE.",
)
@click.option("-l", "--selector", default="", help="Label selector.")
@click.option("-w", "--watch", is_flag=True, help="Keep running and print changes.")
@click.option("--no-headers", is_flag=True, help="Print rows only.")
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
    """Show workloads (psvc, pjs, deploy), cron jobs (pcj), clusters, decisions, policies (pp, cpp)
    and quotas (fq).

    Give several kinds as psvc,pjs, or any number of KIND/NAME.
    """
    targets = targets_of((kind, *names))
    if selector and any(target.names for target in targets):
        common.fail("a name cannot be combined with a label selector")
    if watch and len(targets) > 1:
        common.fail("only one kind at a time can be watched")
    if all_namespaces and any(target.names and target.kind.namespaced for target in targets):
        common.fail("a name cannot be combined with --all-namespaces; choose a namespace with -n")
    where = "" if all_namespaces else namespace or common.default_namespace(kubeconfig, context)
    printer = Printer(
        output, all_namespaces=all_namespaces, no_headers=no_headers, several=len(targets) > 1
    )

    async def work(client: "Client") -> None:
        results, versions, missing = [], {}, False
        for target in targets:
            objs, versions[target.kind.kind], absent = await read(client, target, where, selector)
            results.append((target, objs))
            for name in absent:
                missing = True
                common.say(f'error: {target.kind.plural} "{name}" not found', err=True)
        printer.show(results)
        if watch:
            await follow(
                client, targets[0], where, selector, versions[targets[0].kind.kind], printer
            )
        elif missing:
            sys.exit(1)

    common.run(common.with_federation(kubeconfig, context, work))


def targets_of(words: Sequence[str]) -> list[Target]:
    """Kinds and names of `KIND[,KIND...] [NAME...]` or `KIND/NAME...`. Exits with an error
    otherwise."""
    from federator.cli import views

    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            common.fail("give either KIND NAME... or KIND/NAME..., not both")
        names: dict[str, list[str]] = {}
        for word in words:
            kind, _, name = word.partition("/")
            if not name:
                common.fail(f"{word}: the name is missing")
            names.setdefault(views.kind_named(kind).kind, []).append(name)
        return [
            Target(views.kind_named(kind), tuple(dict.fromkeys(each)))
            for kind, each in names.items()
        ]
    kinds = [views.kind_named(kind) for kind in words[0].split(",")]
    chosen = tuple(dict.fromkeys(words[1:]))
    return [Target(kind, chosen) for kind in dict.fromkeys(kinds)]


async def read(
    client: "Client", target: Target, where: str, selector: str
) -> tuple[list[dict[str, Any]], str, tuple[str, ...]]:
    """(objects, resourceVersion of their list, names that do not exist)."""
    kind = target.kind
    listing = await client.list(
        kind.api_version, kind.plural, where if kind.namespaced else "", label_selector=selector
    )
    by_name = {obj["metadata"]["name"]: obj for obj in listing.items}
    if not target.names:
        return list(listing.items), listing.resource_version, ()
    objs = [by_name[name] for name in target.names if name in by_name]
    return (
        objs,
        listing.resource_version,
        tuple(name for name in target.names if name not in by_name),
    )


class Printer:
    """Prints objects in the chosen format. Later rows keep the column widths of the first table."""

    def __init__(
        self, output: str, *, all_namespaces: bool, no_headers: bool, several: bool
    ) -> None:
        self.output = output
        self.all_namespaces = all_namespaces
        self.no_headers = no_headers
        self.several = several
        self._widths: list[int] = []
        self._rendered = _template(output)

    def show(self, results: Sequence[tuple[Target, list[dict[str, Any]]]]) -> None:
        """Prints the objects of each target. Several names or kinds give a List, however many
        exist."""
        objs = [obj for _, some in results for obj in some]
        if self.output in ("json", "yaml") or self._rendered is not None:
            single = not self.several and len(results[0][0].names) == 1
            if single and not objs:
                return
            listed = {"apiVersion": "v1", "kind": "List", "items": objs}
            self._structured(objs[0] if single else listed)
        elif self.output == "name":
            for target, some in results:
                for obj in some:
                    common.say(name_of(target.kind, obj))
        elif objs:
            shown = [self._table(target.kind, some) for target, some in results if some]
            common.show("\n\n".join(shown))
        elif not any(target.names for target, _ in results):
            common.say("No resources found.", err=True)

    def row(self, kind: "Kind", obj: dict[str, Any]) -> None:
        """Prints one changed object."""
        if self.output in ("json", "yaml"):
            # A stream of documents: without `---` it would be one document with repeated keys.
            common.show("---\n" if self.output == "yaml" else "", nl=False)
            self._structured(obj)
        elif self._rendered is not None:
            self._structured(obj)
        elif self.output == "name":
            common.say(name_of(kind, obj))
        elif self._widths:
            common.say(common.aligned(self._cells(kind, obj), self._widths))
        else:
            common.show(self._table(kind, [obj]))

    def _structured(self, value: Any) -> None:
        if self._rendered is not None:
            common.data(self._rendered(value))
        else:
            common.show(common.dump(value, self.output))

    def _cells(self, kind: "Kind", obj: Mapping[str, Any]) -> list[str]:
        from federator.cli import views

        cells = views.row(kind, obj, wide=self.output == "wide", with_namespace=self.all_namespaces)
        if self.several:
            at = 1 if self.all_namespaces and kind.namespaced else 0
            cells[at] = name_of(kind, obj)
        return cells

    def _table(self, kind: "Kind", objs: Sequence[Mapping[str, Any]]) -> str:
        from federator.cli import views

        headers = views.headers(
            kind, wide=self.output == "wide", with_namespace=self.all_namespaces
        )
        rows = [self._cells(kind, obj) for obj in objs]
        self._widths = common.widths(rows if self.no_headers else [headers, *rows])
        return common.table(headers, rows, no_headers=self.no_headers)


def _template(output: str) -> Callable[[Any], str] | None:
    """A renderer for the template of `jsonpath=`; None for other formats. Exits on an invalid
    template."""
    if not output.startswith(JSONPATH):
        return None
    from federator.cli import jsonpath

    try:
        parts = jsonpath.parse(output.removeprefix(JSONPATH))
    except jsonpath.BadTemplate as bad:
        common.fail(f"-o jsonpath: {bad}")

    def rendered(value: Any) -> str:
        try:
            return jsonpath.render(parts, value)
        except jsonpath.BadTemplate as bad:
            common.fail(f"-o jsonpath: {bad}")

    return rendered


def name_of(kind: "Kind", obj: Mapping[str, Any]) -> str:
    return f"{kind.singular}.{kind.group}/{obj['metadata']['name']}"


async def follow(
    client: "Client", target: Target, where: str, selector: str, version: str, printer: Printer
) -> None:
    """Prints a row for each change until Ctrl-C. Lists again when the server no longer has the
    version."""
    from federator.kube import errors

    kind = target.kind
    while True:
        try:
            async for event in client.watch(
                kind.api_version,
                kind.plural,
                where if kind.namespaced else "",
                resource_version=version,
                label_selector=selector,
            ):
                version = event.object["metadata"].get("resourceVersion", version)
                if event.type == "BOOKMARK" or (
                    target.names and event.object["metadata"]["name"] not in target.names
                ):
                    continue
                printer.row(kind, event.object)
        except errors.Expired:
            version = ""
