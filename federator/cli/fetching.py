"""Objects for `federator get`, with no more of each in memory than is printed.

A name is one request for one object. Of a list, a table needs the fields of its columns, and JSON
passes on what the server has sent.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from federator.cli import views
from federator.kube import errors
from federator.kube.wire import decode

if TYPE_CHECKING:
    from federator.cli.kindtable import Column, Shown
    from federator.kube.client import Client

AT_ONCE: Final = 8
"""Names that are asked for at the same time."""
IDENTITY: Final = (("metadata", "name"), ("metadata", "namespace"))
Obj: TypeAlias = Mapping[str, Any]
Paths: TypeAlias = dict[str, "Paths"]


@dataclass(frozen=True, slots=True)
class Target:
    """One kind and the names to show; no names means all objects."""

    kind: "Shown"
    names: tuple[str, ...]


async def named(client: "Client", target: Target, where: str) -> list[Obj | str]:
    """The objects of a target's names, in their order; for one that does not exist its name."""
    kind, gate = target.kind, asyncio.Semaphore(AT_ONCE)

    async def read(name: str) -> Obj | str:
        async with gate:
            try:
                return await client.get(kind.ref(where if kind.namespaced else "", name))
            except errors.NotServed:
                raise
            except errors.NotFound:
                return name

    return await asyncio.gather(*map(read, target.names))


async def bodies(
    client: "Client", kind: "Shown", where: str, selector: str
) -> tuple[tuple[bytes, ...], str]:
    """All objects of a kind as JSON, and the version of the list."""
    return await client.list_bytes(
        kind.api_version, kind.plural, where if kind.namespaced else "", label_selector=selector
    )


def whole(listed: Iterable[bytes]) -> list[Obj]:
    """The objects with all their fields."""
    return [decode.obj(body, "list") for body in listed]


def for_columns(kind: "Shown", listed: Sequence[bytes], *, wide: bool) -> list[Obj]:
    """The objects with the fields that the columns of a table show, and no others."""
    decoder = msgspec.json.Decoder(_struct(_paths(views.columns(kind, wide=wide))))

    def shown(body: bytes) -> Obj:
        try:
            fields: Obj = msgspec.to_builtins(decoder.decode(body))
            return fields
        except msgspec.ValidationError:  # a field is something else than the columns take it for
            return decode.obj(body, "list")

    with decode.collector_paused(sum(map(len, listed))):
        return [shown(body) for body in listed]


def _paths(columns: Sequence["Column"]) -> Paths:
    """The fields of the columns as a tree; a selected entry of a list is a leaf."""
    tree: Paths = {}
    steps = [tuple(views.steps(column.json_path)) for column in columns]
    for path in (*IDENTITY, *steps):
        node = tree
        for name in path:
            node = node.setdefault(name, {})
    return tree


def _struct(tree: Paths) -> Any:
    """A type that decodes the fields of a tree and skips all others."""
    if not tree:
        return Any
    fields = [
        (name, _struct(below) | None | msgspec.UnsetType if below else Any, msgspec.UNSET)
        for name, below in tree.items()
    ]
    return msgspec.defstruct("Shown", fields)
