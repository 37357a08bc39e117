"""Field ownership: server-side apply with its conflicts, and the tracking of every other write in
`metadata.managedFields`.

Semantics of structured merge as a real server has them (Kubernetes 1.37). A write that touches few
fields costs little: sub-trees that the old and the new object share are skipped. Nothing is changed
in place.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.apply import fieldsets, managers, merging
from federator.embedded.apply.fieldsets import LEAF, Trie
from federator.embedded.apply.managers import Entry
from federator.embedded.apply.patches import same
from federator.embedded.schema import builtins, defaults
from federator.embedded.storage.field_errors import FieldError
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.schema import Node

Object = dict[str, Any]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NEVER_OWNED: Final = frozenset(
    "f:" + name
    for name in (
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    )
)
_IDENTITY: Final = ("name", "namespace", "resourceVersion")
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Untypable(Exception):
    """An applied configuration that does not fit its schema: a real server answers 500 with this
    message."""


@dataclass(frozen=True, slots=True)
class Applied:
    """`obj` is the merged object; the live one itself when nothing changes or there are
    conflicts: fields that other managers own, as printed (`.spec.replicas`)."""

    obj: Object
    conflicts: list[FieldError]


def track(  # noqa: PLR0917 - the order of a write: before, after, manager, what, when, where
    old: Object | None,
    new: Object,
    manager: str,
    info: ResourceInfo,
    now: str,
    subresource: str = "",
) -> list[Entry]:
    """The managedFields of `new` after a create, update or patch by `manager`.

    Give `new` with its defaults but before the strategies (`natives`): what a server generates has
    no owner. `now` is RFC 3339 in whole seconds. Returns [] when there are no owners; then
    managedFields is left out.
    """
    sent = (new.get("metadata") or {}).get("managedFields")
    live = ((old or {}).get("metadata") or {}).get("managedFields") or []
    if not subresource and sent in ([], [{}]):
        # How a client asks that all owners be forgotten.
        entries: list[Entry] = []
    elif subresource or not sent or not all(managers.is_sound(entry) for entry in sent):
        entries = live
    else:
        entries = sent
    if old is not None and not entries:
        # An object without owners stays so until the first apply, so that clients that never
        # apply pay nothing.
        return []
    changed, removed = _differences(_zero(info) if old is None else old, new, info, subresource)
    if subresource == "scale":
        child: Trie = LEAF
        for part in reversed(info.scale.spec.strip(".").split(".") if info.scale else ()):
            child = {f"f:{part}": child}
        if not any(fieldsets.intersection(entry.get("fieldsV1") or {}, child) for entry in entries):
            # A Scale without an owner of its number is an object without owners, and stays so.
            return list(entries)
        if _scaled_to_nothing(new, info):
            # A Scale leaves out a zero, so the zero has no owner.
            return managers.in_order(managers.without(entries, child))
    if changed is None and removed is None:
        return list(entries)
    kept = managers.without(entries, fieldsets.union(changed or LEAF, removed or LEAF))
    own = _ownable(changed) if changed is not None else None
    if own is not None:
        writer = managers.identity(manager, "Update", info, subresource)
        kept = managers.with_update(kept, own, writer, now)
    return managers.in_order(managers.capped(kept))


def _scaled_to_nothing(obj: Object, info: ResourceInfo) -> bool:
    value: Any = obj
    for part in info.scale.spec.strip(".").split(".") if info.scale else ():
        value = value.get(part) if isinstance(value, dict) else None
    return not value


def root_node(info: ResourceInfo) -> Node:
    """The schema of a whole object, metadata included (CRDs do not describe theirs)."""
    if info.is_builtin:
        return info.node
    root: Node | None = info.node.compiled.get("whole")
    if root is None:
        text = {"type": "string"}
        whole = {
            **info.node.raw,
            "properties": {**info.node.raw.get("properties", {}), "apiVersion": text, "kind": text},
        }
        root = Node(whole, None)
        root.fields.update(info.node.fields)
        root.fields["metadata"] = builtins.node(_OBJECT_META)
        info.node.compiled["whole"] = root
    return root


def _zero(info: ResourceInfo) -> Object:
    """What a create is compared with: a builtin's zero value (its structs are there, empty), else
    an empty object."""
    if not info.is_builtin:
        return {"metadata": {}}
    zero: Object | None = info.node.compiled.get("zero")
    if zero is None:
        zero = info.node.compiled["zero"] = defaults.zero(info.node)
    return zero


def _differences(
    old: Object, new: Object, info: ResourceInfo, subresource: str
) -> tuple[Trie | None, Trie | None]:
    """Changed and removed paths, but for those this kind of write may not set: the status, or all
    but the status."""
    changed, removed = fieldsets.compare(
        _writable(old, info, subresource), _writable(new, info, subresource), root_node(info)
    )
    return changed, removed


def _writable(obj: Object, info: ResourceInfo, subresource: str) -> Object:
    if subresource == "status":
        keys = ("metadata", "status") if info.is_builtin else ("status",)
        return _without_resets({key: obj[key] for key in keys if key in obj}, info)
    hidden = (
        ("apiVersion", "kind", "status")
        if "status" in info.subresources
        else ("apiVersion", "kind")
    )
    return {key: value for key, value in obj.items() if key not in hidden}


def _ownable(trie: Trie) -> Trie | None:
    """Without what has no owner: identity, versions, times."""
    meta = trie.get("f:metadata")
    result = {
        key: value
        for key, value in trie.items()
        if key not in ("f:apiVersion", "f:kind", "f:metadata", ".")
    }
    if meta:
        kept = {key: value for key, value in meta.items() if key not in _NEVER_OWNED and key != "."}
        if kept:
            result["f:metadata"] = kept
    return result or None


def apply(  # noqa: PLR0917 - as `track`
    live: Object | None,
    applied: Object,
    manager: str,
    force: bool,
    info: ResourceInfo,
    now: str,
    subresource: str = "",
) -> Applied:
    """Merges an applied configuration (as sent, without defaults) into the live object, by
    ownership.

    `live` None creates. Conflicts are returned, not raised, unless `force` takes the fields over.
    Raises `Untypable`.
    """
    root = root_node(info)
    _check_type(applied, info, root)
    writer = managers.identity(manager, "Apply", info, subresource)
    base: Object = (
        live
        if live is not None
        else {"apiVersion": info.api_version, "kind": info.kind, "metadata": {}}
    )
    stored: list[Entry] = (base.get("metadata") or {}).get("managedFields") or []
    entries = stored
    if live is not None and not stored:
        entries = track(None, live, "before-first-apply", info, now, subresource)
    before = next((entry for entry in entries if managers.is_by(entry, writer)), None)
    others = [entry for entry in entries if entry is not before]
    config = _configured(applied, info, subresource)
    claimed = managers.shared(_ownable(fieldsets.applied(config, root)) or LEAF)
    merged: Object = merging.merged(base, config, root)
    if before is not None and before.get("fieldsV1") is not claimed:
        merged = _pruned(merged, before, claimed, others, root)
    changed, removed = _differences(base, merged, info, subresource)
    if not force and changed is not None and (conflicts := list(_conflicts(others, changed))):
        mine = _applied_before(base, manager, info)
        if left := [conflict for conflict in conflicts if conflict.field not in mine]:
            return Applied(base, left)
    unchanged = live is not None and same(base, merged)
    if not unchanged:
        others = managers.without(others, fieldsets.union(changed or LEAF, removed or LEAF))
    time = (before or {}).get("time") if unchanged else now
    updated = [*others, managers.made(writer, time, claimed)] if claimed else others
    updated = managers.in_order(updated)
    if unchanged and updated == stored:
        return Applied(base, [])
    return Applied(_with_entries(merged, updated, None if subresource == "scale" else applied), [])


def _check_type(applied: Object, info: ResourceInfo, root: Node) -> None:
    problems = list(merging.mismatches(applied, root))
    if problems:
        problem = (
            problems[0]
            if len(problems) == 1
            else "errors:" + "".join(f"\n  {each}" for each in problems)
        )
        meta = applied.get("metadata")
        named = meta if isinstance(meta, dict) else {}
        where = f"{named.get('namespace', '')}/{named.get('name', '')}"
        version = info.api_version if info.group else f"/{info.version}"
        raise Untypable(
            f"failed to create typed patch object ({where}; {version}, Kind={info.kind}): {problem}"
        )


def _configured(applied: Object, info: ResourceInfo, subresource: str) -> Object:
    """The part of a configuration that may be applied here: all but the status, or the status
    alone."""
    if subresource == "status":
        kept = {
            key: value
            for key, value in applied.items()
            if key in ("apiVersion", "kind", "metadata", "status")
        }
        metadata = kept.get("metadata")
        if not info.is_builtin and isinstance(metadata, dict):
            # It says which object and which version of it is meant, and sets nothing.
            kept["metadata"] = {key: metadata[key] for key in _IDENTITY if key in metadata}
        return _without_resets(kept, info)
    if "status" in info.subresources:
        return {key: value for key, value in applied.items() if key != "status"}
    return applied


def _without_resets(tree: Object, info: ResourceInfo) -> Object:
    """Without the metadata that a write of the status does not change."""
    resets = builtins.STATUS_RESETS.get(info.key, ()) if info.is_builtin else ()
    metadata = tree.get("metadata")
    if not resets or not isinstance(metadata, dict):
        return tree
    return {
        **tree,
        "metadata": {key: value for key, value in metadata.items() if key not in resets},
    }


def _pruned(
    merged: Object, before: Entry, claimed: Trie, others: list[Entry], root: Node
) -> Object:
    """Without what this manager applied last time, does not apply now, and no other owns.

    A list item goes with all it holds unless another manager owns the item itself; a declared field
    stays while anything below it is owned.
    """
    owned = fieldsets.with_named_fields(claimed, root)
    for entry in others:
        owned = fieldsets.union(
            owned, fieldsets.with_named_fields(entry.get("fieldsV1") or {}, root)
        )
    last = fieldsets.with_named_fields(before.get("fieldsV1") or {}, root)
    # Metadata is always there, owned or not.
    owned = fieldsets.union(owned, {"f:metadata": LEAF})
    doomed = fieldsets.difference(last, owned)
    if doomed is None:
        return merged
    left: Object = fieldsets.removed_from(merged, doomed, root)
    return left


def _conflicts(others: list[Entry], changed: Trie) -> Iterator[FieldError]:
    """One for every changed path that another manager owns."""
    for entry in sorted(others, key=managers.key):
        overlap = fieldsets.intersection(entry.get("fieldsV1") or {}, changed)
        if overlap is not None:
            why = f"conflict with {managers.printed(entry)}"
            for path in fieldsets.paths(overlap):
                yield FieldError(path, "FieldManagerConflict", why)


def conflict_message(conflicts: list[FieldError]) -> str:
    if len(conflicts) == 1:
        return f"Apply failed with 1 conflict: {conflicts[0].message}: {conflicts[0].field}"
    lines: list[str] = []
    for message in dict.fromkeys(conflict.message for conflict in conflicts):
        lines.append(f"conflicts with {message.removeprefix('conflict with ')}:")
        lines += [f"- {conflict.field}" for conflict in conflicts if conflict.message == message]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _applied_before(base: Object, manager: str, info: ResourceInfo) -> frozenset[str]:
    """Fields that are kubectl's own when it goes from client-side to server-side apply: those that
    it applied and that are still as it left them. What another client has changed since (a scale)
    is a conflict as any other."""
    text = ((base.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if manager != "kubectl" or not text:
        return frozenset()
    try:
        last = json.loads(text)
    except ValueError:
        return frozenset()
    root = root_node(info)
    if not isinstance(last, dict) or last.get("apiVersion") != info.api_version:
        return frozenset()
    if next(iter(merging.mismatches(last, root)), None) is not None:
        return frozenset()
    changed, removed = fieldsets.compare(last, base, root)
    before = fieldsets.difference(
        fieldsets.applied(last, root), fieldsets.union(changed or LEAF, removed or LEAF)
    )
    return frozenset(fieldsets.paths(before or LEAF))


def _with_entries(merged: Object, entries: list[Entry], applied: Object | None) -> Object:
    meta = {
        key: value
        for key, value in (merged.get("metadata") or {}).items()
        if key != "managedFields"
    }
    annotations = meta.get("annotations") or {}
    noted = LAST_APPLIED in annotations and applied is not None
    if noted and any(e["manager"] == "kubectl" for e in entries):
        # kubectl keeps its own note of what it applied; the server keeps it right for older
        # clients.
        text = json.dumps(applied, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
        meta["annotations"] = {**annotations, LAST_APPLIED: text}
    if entries:
        meta["managedFields"] = entries
    return {**merged, "metadata": meta}
