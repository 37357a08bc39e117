"""`federator get KIND[,KIND] [NAME...]`: the federated view, from the host only."""

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
class Wanted:
    """One kind, and the names that were asked for; all of them where there are none."""

    kind: "Kind"
    names: tuple[str, ...]


def _checked(context: click.Context, parameter: click.Parameter, output: str) -> str:
    if output in ("", *FORMATS) or output.startswith(JSONPATH):
        return output
    raise click.BadParameter(f"{output!r} is not one of {', '.join(FORMATS)} and jsonpath=TEMPLATE")


@click.command()
@click.argument("kind")
@click.argument("names", nargs=-1)
@click.option("-o", "--output", default="", callback=_checked, help="wide, json, yaml, name or jsonpath=TEMPLATE.")
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

    KIND may be several, as psvc,pjs; or KIND/NAME, as often as you like.
    """
    asked = wanted((kind, *names))
    if selector and any(one.names for one in asked):
        common.fail("a name cannot be combined with a label selector")
    if watch and len(asked) > 1:
        common.fail("one kind at a time can be watched")
    if all_namespaces and any(one.names and one.kind.namespaced for one in asked):
        common.fail("a name cannot be looked for in all namespaces; name one with -n")
    where = "" if all_namespaces else namespace or common.default_namespace(kubeconfig, context)
    printer = Printer(output, all_namespaces=all_namespaces, no_headers=no_headers, several=len(asked) > 1)

    async def work(client: "Client") -> None:
        found, versions, missing = [], {}, False
        for one in asked:
            objs, versions[one.kind.kind], absent = await read(client, one, where, selector)
            found.append((one, objs))
            for name in absent:
                missing = True
                common.say(f'error: {one.kind.plural} "{name}" not found', err=True)
        printer.show(found)
        if watch:
            await follow(client, asked[0], where, selector, versions[asked[0].kind.kind], printer)
        elif missing:
            sys.exit(1)

    common.run(common.with_federation(kubeconfig, context, work))


def wanted(words: Sequence[str]) -> list[Wanted]:
    """Kinds and names of `KIND[,KIND...] [NAME...]` or `KIND/NAME...`. Ends the command for anything else."""
    from federator.cli import views

    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            common.fail("either KIND NAME... or KIND/NAME..., not both")
        names: dict[str, list[str]] = {}
        for word in words:
            kind, _, name = word.partition("/")
            if not name:
                common.fail(f"{word}: the name is missing")
            names.setdefault(views.kind_named(kind).kind, []).append(name)
        return [Wanted(views.kind_named(kind), tuple(dict.fromkeys(each))) for kind, each in names.items()]
    kinds = [views.kind_named(kind) for kind in words[0].split(",")]
    chosen = tuple(dict.fromkeys(words[1:]))
    return [Wanted(kind, chosen) for kind in dict.fromkeys(kinds)]


async def read(
    client: "Client", asked: Wanted, where: str, selector: str
) -> tuple[list[dict[str, Any]], str, tuple[str, ...]]:
    """The objects, the version of the list that they are from, and the names that are not there."""
    kind = asked.kind
    listing = await client.list(
        kind.api_version, kind.plural, where if kind.namespaced else "", label_selector=selector
    )
    by_name = {obj["metadata"]["name"]: obj for obj in listing.items}
    if not asked.names:
        return list(listing.items), listing.resource_version, ()
    found = [by_name[name] for name in asked.names if name in by_name]
    return found, listing.resource_version, tuple(name for name in asked.names if name not in by_name)


class Printer:
    """Prints objects in the chosen format. Rows that come later keep the columns of the table before them."""

    def __init__(self, output: str, *, all_namespaces: bool, no_headers: bool, several: bool) -> None:
        self.output = output
        self.all_namespaces = all_namespaces
        self.no_headers = no_headers
        self.several = several
        self._widths: list[int] = []
        self._rendered = _template(output)

    def show(self, found: Sequence[tuple[Wanted, list[dict[str, Any]]]]) -> None:
        """Several names or kinds stay a list, whatever is found of them."""
        objs = [obj for _, some in found for obj in some]
        if self.output in ("json", "yaml") or self._rendered is not None:
            single = not self.several and len(found[0][0].names) == 1
            if single and not objs:
                return
            listed = {"apiVersion": "v1", "kind": "List", "items": objs}
            self._structured(objs[0] if single else listed)
        elif self.output == "name":
            for asked, some in found:
                for obj in some:
                    common.say(name_of(asked.kind, obj))
        elif objs:
            shown = [self._table(asked.kind, some) for asked, some in found if some]
            common.show("\n\n".join(shown))
        elif not any(asked.names for asked, _ in found):
            common.say("No resources found.", err=True)

    def row(self, kind: "Kind", obj: dict[str, Any]) -> None:
        """One object that has changed."""
        if self.output in ("json", "yaml"):
            # Documents of one stream: without the line between them YAML would be one with its keys repeated.
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

        headers = views.headers(kind, wide=self.output == "wide", with_namespace=self.all_namespaces)
        rows = [self._cells(kind, obj) for obj in objs]
        self._widths = common.widths(rows if self.no_headers else [headers, *rows])
        return common.table(headers, rows, no_headers=self.no_headers)


def _template(output: str) -> Callable[[Any], str] | None:
    """What prints an object by the template of `jsonpath=`. Ends the command for one that cannot be read."""
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


async def follow(client: "Client", asked: Wanted, where: str, selector: str, version: str, printer: Printer) -> None:
    """Prints a row for every change until Ctrl-C; begins anew where the server has forgotten what came before."""
    from federator.kube import errors

    kind = asked.kind
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
                if event.type == "BOOKMARK" or (asked.names and event.object["metadata"]["name"] not in asked.names):
                    continue
                printer.row(kind, event.object)
        except errors.Expired:
            version = ""
