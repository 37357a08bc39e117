"""How stored objects are shown: whole, as metadata only, or as rows of a Table; in the version that
was asked for.

The Accept header chooses (`application/json;as=Table;v=v1;g=meta.k8s.io`). Whole objects are passed
on as the bytes the store already holds; nothing is copied or decoded for them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from federator.embedded.schema import event_groups
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import ApiRequest
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject, Revision
from federator.embedded.tables import tables

_encode = msgspec.json.Encoder().encode
_JSON_RANGES = frozenset({"application/json", "application/*", "*/*", ""})


def media_ranges(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The ranges of an Accept header in order, each with its parameters."""
    ranges = []
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        ranges.append((kind, {key.strip(): value.strip() for key, _, value in pairs}))
    return ranges


@functools.lru_cache(maxsize=256)
def chosen_form(accept: str) -> tuple[str, str]:
    """("", "") for whole objects, else (`Table` | `PartialObjectMetadata` | `...List`, version).

    The first acceptable range decides. Raises `Refusal` 406 when no range is JSON.
    """
    if not accept:
        return ("", "")
    for kind, parameters in media_ranges(accept):
        if kind not in _JSON_RANGES:
            continue
        form = parameters.get("as", "")
        if not form:
            return ("", "")
        supported = form in {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
        if (
            supported
            and parameters.get("g") == "meta.k8s.io"
            and parameters.get("v") in {"v1", "v1beta1"}
        ):
            return (form, parameters["v"])
    raise refusals.Refusal(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json,"
        " application/json;stream=watch",
        {},
    )


@dataclass(frozen=True, slots=True)
class View:
    """One chosen way of showing objects of one resource."""

    info: ResourceInfo
    form: str
    """"" | Table | PartialObjectMetadata."""
    version: str
    include: str
    """What a table row carries besides cells: Metadata | Object | None."""
    now: Callable[[], float]
    """Epoch seconds, for ages in tables."""

    def single(self, revision: Revision) -> bytes:
        """The body that shows one object."""
        if self.form == "Table":
            return _encode(self._table([revision], revision.obj["metadata"]["resourceVersion"]))
        return self._plain(revision)

    def event(self, type_: str, revision: Revision, headers: bool) -> bytes:
        """One line of a watch. Table events carry their column definitions when `headers` is set
        (the first event)."""
        if self.form != "Table":
            body = self._plain(revision)
        else:
            table = self._table([revision], revision.obj["metadata"]["resourceVersion"])
            if not headers:
                table["columnDefinitions"] = None
            body = _encode(table)
        return b'{"type":"%s","object":%s}\n' % (type_.encode(), body)

    def bookmark(self, number: int, *, initial_end: bool, headers: bool) -> bytes:
        """A BOOKMARK line; `initial_end` marks the end of streamed initial events."""
        metadata: JsonObject = {"resourceVersion": str(number)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        stub = Revision(
            {"kind": self.info.kind, "apiVersion": self.info.api_version, "metadata": metadata},
            number,
        )
        if self.form == "Table":
            table = self._table([], str(number))
            row = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }
            table["rows"] = [{"cells": [], "object": row}]
            if not headers:
                table["columnDefinitions"] = None
            return b'{"type":"BOOKMARK","object":%s}\n' % _encode(table)
        return self.event("BOOKMARK", stub, headers)

    def many(self, revisions: list[Revision], metadata: JsonObject) -> bytes:
        """The body of a list: items joined from their stored bytes."""
        if self.form == "Table":
            table = self._table(revisions, metadata["resourceVersion"], whole=True)
            table["metadata"] = metadata
            if not revisions and "Created At" in [
                column["name"] for column in table["columnDefinitions"]
            ]:
                # The common printer of kinds without one of their own makes no list of nothing, and
                # that of definitions neither.
                table["rows"] = None
            return _encode(table)
        if self.form:
            kind, version = "PartialObjectMetadataList", f"meta.k8s.io/{self.version}"
        else:
            kind, version = self.info.list_kind, self.info.api_version
        items = b",".join(self._items(revisions))
        head = _encode({"kind": kind, "apiVersion": version, "metadata": metadata})
        return b'%s,"items":[%s]}' % (head[:-1], items)

    def _items(self, revisions: list[Revision]) -> list[bytes]:
        """The items of a list. Lists of builtins leave kind and apiVersion out of them, which are
        the first bytes."""
        whole = [self._plain(revision) for revision in revisions]
        if not self.info.is_builtin or self.form:
            return whole
        prefix = b'{"kind":"%s","apiVersion":"%s",' % (
            self.info.kind.encode(),
            self.info.api_version.encode(),
        )
        cut = len(prefix)
        return [b"{" + item[cut:] if item.startswith(prefix) else item for item in whole]

    def _plain(self, revision: Revision) -> bytes:
        if self.form:
            return _encode(tables.partial(revision.obj, self.version))
        if revision.obj["apiVersion"] == self.info.api_version:
            return revision.encoded()
        return _encode(event_groups.outward(self.info, revision.obj))

    def _table(
        self, revisions: list[Revision], resource_version: str, *, whole: bool = False
    ) -> JsonObject:
        return tables.table(
            self.info,
            [event_groups.outward(self.info, revision.obj) for revision in revisions],
            resource_version,
            include=self.include or "Metadata",
            now=self.now(),
            whole=whole,
        )


def view(request: ApiRequest, info: ResourceInfo, now: Callable[[], float]) -> View:
    """The view that a request's Accept header and `includeObject` choose."""
    form, version = chosen_form(request.headers.get("accept", ""))
    if form == "PartialObjectMetadataList":
        form = "PartialObjectMetadata"
    include: Any = request.param("includeObject")
    return View(info, form, version, include, now)
