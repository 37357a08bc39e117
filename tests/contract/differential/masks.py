"""Takes out of a transcript what must differ between two servers: uids, times, versions and drawn names.

Versions become their rank among all versions of objects in the transcript, so that their order is compared; the version
of a list only says whether it is as new as everything heard before.
"""

import re
from collections.abc import Sequence
from typing import Any

from tests.contract.differential.kinds import Object
from tests.contract.differential.sides import Said

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"^(\d+[smh])+( \(x\d+.*)?$|^<invalid>$")
_VERSIONS = re.compile(r"(resource ?version\w*[^0-9\"]{1,24}|object meta: |current: |too old resource version: \d* ?\(?)\d+", re.I)
_GENERATED = re.compile(r"(?<=gen-)[a-z0-9]{5}\b")
_ADDRESS = re.compile(r"\b10\.(0|96|97|98|99|1[01]\d)\.\d+\.\d+\b")
_NODE_PORT = re.compile(r"\b3[0-2]\d{3}\b")
_LISTS = ("items", "rows")


class Masker:
    """Masks the transcript of one side."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._names: dict[str, dict[str, str]] = {}
        self._ranks: dict[int, int] = {}
        self._newest = 0

    def transcript(self, said: Sequence[Said]) -> list[Object]:
        """Status, headers and body of each answer, masked."""
        versions: set[int] = set()
        for each in said:
            _collect(each.body, versions)
        self._ranks = {version: rank for rank, version in enumerate(sorted(versions), start=1)}
        return [self._one(each) for each in said]

    def _one(self, said: Said) -> Object:
        found = {"status": said.status, "headers": self._tree(said.headers), "body": self._tree(said.body)}
        heard: set[int] = set()
        _collect(said.body, heard)
        self._newest = max(self._newest, *heard, 0)
        return found

    def _tree(self, value: Any, name: str = "") -> Any:
        if isinstance(value, list):
            return [self._tree(item, name) for item in value]
        if isinstance(value, str):
            return self._text(value, name)
        if name == "nodePort" and isinstance(value, int) and value >= 30000:
            return self._named("port", str(value))
        if not isinstance(value, dict):
            return value
        is_list = any(key in value for key in _LISTS)
        found = {}
        for key in sorted(value):
            child = value[key]
            if key == "metadata" and is_list and isinstance(child, dict):
                found[key] = self._list_metadata(child)
            elif key == "resourceVersion" and isinstance(child, str) and child.isdigit():
                found[key] = f"version-{self._ranks.get(int(child), '?')}"
            elif key == "f:metadata" or key == "fieldsV1":
                found[self._text(key, "")] = self._tree(child, key)
            else:
                found[self._text(key, "")] = self._tree(child, key)
        return found

    def _list_metadata(self, metadata: Object) -> Object:
        found = {key: self._tree(value, key) for key, value in metadata.items() if key != "resourceVersion"}
        if "continue" in found:
            found["continue"] = "TOKEN"
        version = str(metadata.get("resourceVersion", ""))
        if version.isdigit():
            found["resourceVersion"] = "fresh" if int(version) >= self._newest else "stale"
        return found

    def _text(self, text: str, name: str) -> str:
        text = text.replace(self._namespace, "NS")
        if name == "cells" and _AGE.match(text):
            return "AGE"
        text = _UID.sub(lambda match: self._named("uid", match[0]), text)
        text = _TIME.sub(lambda match: "MICROTIME" if match[1] else "TIME", text)
        text = _GENERATED.sub(lambda match: self._named("drawn", match[0]), text)
        text = _ADDRESS.sub(lambda match: self._named("address", match[0]), text)
        text = _VERSIONS.sub(lambda match: f"{match[1]}N", text)
        return _NODE_PORT.sub(lambda match: self._named("port", match[0]), text)

    def _named(self, sort: str, value: str) -> str:
        known = self._names.setdefault(sort, {})
        return known.setdefault(value, f"{sort}-{len(known) + 1}")


def _collect(value: Any, into: set[int]) -> None:
    """All versions of objects below `value`; those of lists are left out."""
    if isinstance(value, list):
        for item in value:
            _collect(item, into)
    elif isinstance(value, dict):
        is_list = any(key in value for key in _LISTS)
        for key, child in value.items():
            if key == "resourceVersion" and isinstance(child, str) and child.isdigit():
                into.add(int(child))
            elif not (key == "metadata" and is_list):
                _collect(child, into)
