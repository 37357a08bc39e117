"""`federator get KIND[,KIND] [NAME...]`: the federated view, read from the host only."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from federator.cli import common
from federator.cli.fetching import Target

if TYPE_CHECKING:
    from federator.cli.kindtable import Shown
    from federator.kube.client import Client

JSONPATH: Final = "jsonpath="
FORMATS: Final = ("wide", "json", "yaml", "name")
Obj: TypeAlias = Mapping[str, Any]


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

    async def work(client: "Client") -> bool:
        shown, results = await asyncio.gather(
            common.print_banner(client),
            asyncio.gather(
                *(read(client, target, where, selector, listed=watch) for target in targets)
            ),
        )
        printer.halted = shown.halted
        printer.show(results)
        missing = [(result.target, name) for result in results for name in result.missing]
        for target, name in missing:
            common.say(f'error: {target.kind.plural} "{name}" not found', err=True)
        if watch:
            await follow(client, results[0], where, selector, printer)
        return not missing

    if not common.run(common.with_host(kubeconfig, context, work)):
        sys.exit(1)


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
            names.setdefault(views.shown_named(kind).kind, []).append(name)
        return [
            Target(views.shown_named(kind), tuple(dict.fromkeys(each)))
            for kind, each in names.items()
        ]
    kinds = [views.shown_named(kind) for kind in words[0].split(",")]
    chosen = tuple(dict.fromkeys(words[1:]))
    return [Target(kind, chosen) for kind in dict.fromkeys(kinds)]


@dataclass(frozen=True, slots=True)
class Result:
    """What there is of a target: objects of names, or a list as JSON."""

    target: Target
    objects: Sequence[Obj] = ()
    listed: Sequence[bytes] = ()
    version: str = ""
    """Of the list."""
    missing: tuple[str, ...] = ()
    """Names that do not exist."""

    def __bool__(self) -> bool:
        return bool(self.objects or self.listed)


async def read(
    client: "Client", target: Target, where: str, selector: str, *, listed: bool
) -> Result:
    """One object for each name, or a list. `listed`: also names are chosen from a list, because a
    watch begins at the version of a list."""
    from federator.cli import fetching

    if target.names and not listed:
        answers = await fetching.named(client, target, where)
        absent = tuple(answer for answer in answers if isinstance(answer, str))
        return Result(
            target, [each for each in answers if not isinstance(each, str)], missing=absent
        )
    bodies, version = await fetching.bodies(client, target.kind, where, selector)
    if not target.names:
        return Result(target, listed=bodies, version=version)
    by_name = {obj["metadata"]["name"]: obj for obj in fetching.whole(bodies)}
    present = [by_name[name] for name in target.names if name in by_name]
    absent = tuple(name for name in target.names if name not in by_name)
    return Result(target, present, version=version, missing=absent)


class Printer:
    """Prints objects in the chosen format. Later rows keep the column widths of the first table."""

    def __init__(
        self, output: str, *, all_namespaces: bool, no_headers: bool, several: bool
    ) -> None:
        self.output = output
        self.all_namespaces = all_namespaces
        self.no_headers = no_headers
        self.several = several
        self.halted = ""
        """Why no change of a spec has an effect now (`banner.Banner.halted`)."""
        self._widths: list[int] = []
        self._rendered = _template(output)

    def show(self, results: Sequence[Result]) -> None:
        """Prints the objects of each target. Several names or kinds give a List, however many
        exist."""
        single = not self.several and len(results[0].target.names) == 1
        if single and not results[0] and self.output not in ("", "wide", "name"):
            return
        if self._rendered is not None:
            objs = [obj for result in results for obj in self._objects(result, whole=True)]
            listed = {"apiVersion": "v1", "kind": "List", "items": objs}
            self._structured(objs[0] if single else listed)
        elif self.output in ("json", "yaml") and single:
            self._structured(results[0].objects[0])
        elif self.output in ("json", "yaml"):
            self._list(results)
        elif self.output == "name":
            for result in results:
                for obj in self._objects(result):
                    common.say(name_of(result.target.kind, obj))
        elif any(results):
            shown = [
                self._table(result.target.kind, self._objects(result))
                for result in results
                if result
            ]
            common.show("\n\n".join(shown))
        elif not any(result.target.names for result in results):
            common.say("No resources found.", err=True)

    def _objects(self, result: Result, *, whole: bool = False) -> Sequence[Obj]:
        """The objects of a result, those of a list with the fields that are printed."""
        from federator.cli import fetching

        if not result.listed:
            return result.objects
        if whole or self.halted:
            return fetching.whole(result.listed)
        kind = result.target.kind
        return fetching.for_columns(kind, result.listed, wide=self.output == "wide")

    def _list(self, results: Sequence[Result]) -> None:
        """A List as JSON or YAML, one object in memory at a time."""
        bodies = (
            body
            for result in results
            for body in (*result.listed, *map(msgspec.json.encode, result.objects))
        )
        if self.output == "yaml":
            first, separator, before = "apiVersion: v1\nkind: List\nitems:\n", "\n", ""
            texts = (common.dump([msgspec.json.decode(body)], "yaml") for body in bodies)
            last, empty = "", "items: []"
        else:
            first = '{\n    "apiVersion": "v1",\n    "kind": "List",\n    "items": [\n'
            separator, before = ",\n", " " * 8
            texts = (_indented(body) for body in bodies)
            last, empty = "\n    ]\n}", '    "items": []\n}'
        started = False
        for text in texts:
            common.show((separator if started else first) + before + text, nl=False)
            started = True
        if not started:
            head = first.rpartition("\n")[0].rpartition("\n")[0]
            common.show(f"{head}\n{empty}")
        else:
            common.show(last)

    def row(self, kind: "Shown", obj: dict[str, Any]) -> None:
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

    def _cells(self, kind: "Shown", obj: Mapping[str, Any]) -> list[str]:
        from federator.cli import views

        wide = self.output == "wide"
        cells = views.row(
            kind, obj, wide=wide, with_namespace=self.all_namespaces, halted=self.halted
        )
        if self.several:
            at = 1 if self.all_namespaces and kind.namespaced else 0
            cells[at] = name_of(kind, obj)
        return cells

    def _table(self, kind: "Shown", objs: Sequence[Mapping[str, Any]]) -> str:
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


def _indented(body: bytes) -> str:
    """An object as an element of a List, after the blanks of its first line."""
    return msgspec.json.format(body, indent=4).decode().replace("\n", "\n" + " " * 8)


def name_of(kind: "Shown", obj: Mapping[str, Any]) -> str:
    return f"{kind.singular}.{kind.group}/{obj['metadata']['name']}"


async def follow(
    client: "Client", begun: Result, where: str, selector: str, printer: Printer
) -> None:
    """Prints a row for each change until Ctrl-C. Lists again when the server no longer has the
    version."""
    from federator.kube import errors

    target, version, kind = begun.target, begun.version, begun.target.kind
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
