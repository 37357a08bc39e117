"""Entries of `metadata.managedFields`: the manager, its operation, the time, and the paths it owns.

Entries and their tries are shared between objects and versions, and never changed in place. Used by
`ownership` alone.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from federator.embedded.apply import fieldsets
from federator.embedded.apply.fieldsets import LEAF, Trie
from federator.embedded.storage.resources import ResourceInfo

Entry = dict[str, Any]

MAX_UPDATERS: Final = 10
"""Update entries an object may have; the oldest beyond that are merged into one called
`ancient-changes`."""

_SHARED: dict[bytes, Trie] = {}
"""Tries by their JSON: thousands of pods of one template own the same fields. Emptied when it
outgrows its limit."""
_SHARED_LIMIT: Final = 4096


def shared(trie: Trie) -> Trie:
    """The one trie with these paths that everybody uses."""
    key = msgspec.json.encode(trie)
    shared_trie = _SHARED.get(key)
    if shared_trie is None:
        if len(_SHARED) >= _SHARED_LIMIT:
            _SHARED.clear()
        shared_trie = _SHARED[key] = trie
    return shared_trie


def is_sound(entry: Any) -> bool:
    """Whether a client's entry can be read at all; with one that cannot, the stored entries are
    kept instead."""
    return (
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and isinstance(entry.get("apiVersion"), str)
        and entry["apiVersion"] != ""
        and entry.get("fieldsType") == "FieldsV1"
    )


def identity(manager: str, operation: str, info: ResourceInfo, subresource: str) -> Entry:
    """What identifies a writer (the time and the fields are left out)."""
    writer: Entry = {"manager": manager, "operation": operation, "apiVersion": info.api_version}
    if subresource:
        writer["subresource"] = subresource
    return writer


def is_by(entry: Mapping[str, Any], writer: Mapping[str, Any]) -> bool:
    """Whether an entry is of this writer. For updates the API version counts too, for applies it
    does not."""
    same_version = writer["operation"] == "Apply" or entry.get("apiVersion") == writer["apiVersion"]
    return same_version and all(
        entry.get(field, "") == writer.get(field, "")
        for field in ("manager", "operation", "subresource")
    )


def made(writer: Entry, time: str | None, fields: Trie) -> Entry:
    """An entry in the field order of the API."""
    entry = {key: writer[key] for key in ("manager", "operation", "apiVersion")}
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields
    if writer.get("subresource"):
        entry["subresource"] = writer["subresource"]
    return entry


def without(entries: list[Entry], gone: Trie) -> list[Entry]:
    """The entries without some paths; entries that own nothing any more are dropped."""
    kept = []
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        left = fieldsets.difference(fields, gone)
        if left is fields:
            kept.append(entry)
        elif left is not None:
            kept.append({**entry, "fieldsV1": shared(left)})
    return kept


def with_update(entries: list[Entry], fields: Trie, writer: Entry, now: str) -> list[Entry]:
    """The entries with paths added to a writer's own."""
    for index, entry in enumerate(entries):
        if is_by(entry, writer):
            together = shared(fieldsets.union(entry.get("fieldsV1") or {}, fields))
            return [*entries[:index], made(writer, now, together), *entries[index + 1 :]]
    return [*entries, made(writer, now, shared(fields))]


def in_order(entries: list[Entry]) -> list[Entry]:
    """Applies first, then updates; each by time, manager, version, sub-resource."""
    if len(entries) < 2:
        return entries
    fields = ("operation", "time", "manager", "apiVersion", "subresource")
    return sorted(entries, key=lambda entry: tuple(entry.get(field) or "" for field in fields))


def capped(entries: list[Entry]) -> list[Entry]:
    """The entries with the oldest updates merged when there are too many."""
    updates = [entry for entry in entries if entry.get("operation") == "Update"]
    if len(updates) <= MAX_UPDATERS:
        return entries
    oldest_first = sorted(
        updates, key=lambda entry: (entry.get("time", ""), entry.get("manager", ""))
    )
    ancient = oldest_first[: len(updates) - MAX_UPDATERS + 1]
    merged: dict[str, Entry] = {}
    for entry in ancient:
        version = entry.get("apiVersion", "")
        kept = merged[version]["fieldsV1"] if version in merged else LEAF
        fields = fieldsets.union(kept, entry.get("fieldsV1") or LEAF)
        writer = {"manager": "ancient-changes", "operation": "Update", "apiVersion": version}
        merged[version] = made(writer, entry.get("time"), fields)
    return [entry for entry in entries if entry not in ancient] + list(merged.values())


def key(entry: Mapping[str, Any]) -> str:
    """What messages about several managers are ordered by: the text that a real server knows a
    manager by."""
    fields = ["manager", "operation", "apiVersion", "subresource"]
    if entry.get("operation") == "Apply":
        fields.remove("apiVersion")
    return msgspec.json.encode(
        {field: entry[field] for field in fields if entry.get(field)}
    ).decode()


def printed(entry: Mapping[str, Any]) -> str:
    """A manager as messages name it: `"one"`, `"two" using apps/v1`."""
    text = json.dumps(entry.get("manager", ""), ensure_ascii=False)
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    return (
        f"{text} using {entry.get('apiVersion', '')}"
        if entry.get("operation") == "Update"
        else text
    )
