"""The owner garbage collector: background, foreground and orphaning deletion over all kinds of a
cluster.

It keeps the owners and dependents of each uid and looks only at the dependents of changed owners.
The API layer sets the finalizers `foregroundDeletion` and `orphan`; this collector acts on them and
takes them away.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.tools import Key, Tools, with_list
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import ADDED, DELETED, Event, JsonObject

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"

_Item = tuple[tuple[str, str], Key]
"""(group, plural) and key. Not the `ResourceInfo`: a changed CRD makes new ones for the same
objects."""


class Garbage:
    """One collector for a cluster; wants to hear of every change."""

    def __init__(self, tools: Tools, resources: Callable[[], Iterable[ResourceInfo]]) -> None:
        """`resources` lists all kinds served now; asked when an owner of an unknown kind is
        named."""
        self._tools = tools
        self._resources = resources
        self._kinds: set[tuple[str, str]] = set()
        self._infos: dict[tuple[str, str], ResourceInfo] = {}
        self._items: dict[str, _Item] = {}
        self._dependents: dict[str, dict[_Item, None]] = {}
        self._waiting: set[str] = set()
        """Uids of objects being deleted in the foreground."""
        self._checks: Dirty[_Item] = Dirty()
        self._owners: Dirty[_Item] = Dirty()

    def notice(self, event: Event) -> None:
        obj, item = event.current.obj, (event.resource.key, event.key)
        self._infos[item[0]] = event.resource
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences")
        before = (
            event.previous.obj["metadata"].get("ownerReferences")
            if event.previous is not None
            else None
        )
        if event.type is DELETED:
            self._gone(item, metadata["uid"], references)
            return
        if event.type is ADDED:
            self._items[metadata["uid"]] = item
        if references is not before and references != before:
            self._unlink(item, before)
            self._released(before)
            for reference in references or ():
                self._dependents.setdefault(reference["uid"], {})[item] = None
                if reference["uid"] not in self._items or before is not None:
                    self._checks.add(item)
        if "deletionTimestamp" in metadata:
            finalizers = metadata.get("finalizers") or ()
            if FOREGROUND in finalizers or ORPHAN in finalizers:
                self._owners.add(item)
            if FOREGROUND in finalizers:
                self._waiting.add(metadata["uid"])
            else:
                self._waiting.discard(metadata["uid"])
        elif self._waiting and any(
            reference["uid"] in self._waiting for reference in references or ()
        ):
            self._checks.add(item)

    def _gone(self, item: _Item, uid: str, references: list[dict[str, Any]] | None) -> None:
        self._items.pop(uid, None)
        self._waiting.discard(uid)
        for dependent in self._dependents.pop(uid, ()):
            self._checks.add(dependent)
        self._unlink(item, references)
        self._released(references)

    def _released(self, references: list[dict[str, Any]] | None) -> None:
        """Owners that are deleted in the foreground may have waited for the object that had these
        references."""
        for reference in references or ():
            owner = self._items.get(reference["uid"])
            if owner is not None and reference["uid"] in self._waiting:
                self._owners.add(owner)

    def _unlink(self, item: _Item, references: list[dict[str, Any]] | None) -> None:
        for reference in references or ():
            dependents = self._dependents.get(reference["uid"])
            if dependents is not None:
                dependents.pop(item, None)
                if not dependents:
                    del self._dependents[reference["uid"]]

    def _get(self, item: _Item) -> JsonObject | None:
        return self._tools.get(self._infos[item[0]], item[1])

    def steps(self) -> Iterator[None]:
        while self._owners or self._checks:
            for item in self._owners.drain():
                yield from self._release(item)
            for item in self._checks.drain():
                self._check(item)
                yield

    # Owners being deleted

    def _release(self, item: _Item) -> Iterator[None]:
        obj = self._get(item)
        if obj is None or "deletionTimestamp" not in obj["metadata"]:
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        uid = obj["metadata"]["uid"]
        if ORPHAN in finalizers:
            for dependent in list(self._dependents.get(uid, ())):
                self._drop_references(dependent, {uid})
                yield
            self._drop_finalizer(item, ORPHAN)
        elif FOREGROUND in finalizers:
            blocked = False
            for dependent in list(self._dependents.get(uid, ())):
                child = self._get(dependent)
                if child is None:
                    continue
                blocked = blocked or _blocks(child, uid)
                if "deletionTimestamp" not in child["metadata"]:
                    self._checks.add(dependent)
            if not blocked:
                self._drop_finalizer(item, FOREGROUND)
        yield

    def _drop_finalizer(self, item: _Item, finalizer: str) -> None:
        obj = self._get(item)
        if obj is None:
            return
        left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        self._tools.store.update(self._infos[item[0]], with_list(obj, "finalizers", left))

    def _drop_references(self, item: _Item, uids: set[str]) -> None:
        obj = self._get(item)
        if obj is None:
            return
        left = [
            entry
            for entry in obj["metadata"].get("ownerReferences") or ()
            if entry["uid"] not in uids
        ]
        self._tools.store.update(self._infos[item[0]], with_list(obj, "ownerReferences", left))

    # Dependents

    def _check(self, item: _Item) -> None:
        """Deletes an object if all its owners are gone or going, or trims its references."""
        resource, key = self._infos[item[0]], item[1]
        obj = self._get(item)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return
        references = obj["metadata"].get("ownerReferences") or ()
        if not references:
            return
        solid, going, waiting = 0, set(), False
        for reference in references:
            state = self._state_of(reference, key)
            if state == "solid":
                solid += 1
            else:
                going.add(reference["uid"])
                waiting = waiting or state == "waiting"
        if solid:
            if going:
                self._drop_references(item, going)
            return
        finalizers = list(obj["metadata"].get("finalizers") or ())
        if (
            waiting
            and FOREGROUND not in finalizers
            and self._dependents.get(obj["metadata"]["uid"])
        ):
            # The owner waits for this one, so this one must wait for its own dependents.
            self._tools.delete(resource, obj, finalizers=[*finalizers, FOREGROUND])
        else:
            self._tools.delete(resource, obj)

    def _state_of(self, reference: dict[str, Any], key: Key) -> str:
        """solid, waiting (its owner is being deleted in the foreground) or absent."""
        owner = self._items.get(reference["uid"])
        if owner is None:
            group = reference["apiVersion"].rpartition("/")[0]
            return "absent" if self._serves(group, reference["kind"]) else "solid"
        resource, (namespace, name) = self._infos[owner[0]], owner[1]
        if not key[0] and namespace:
            # a namespaced owner of a cluster-scoped object is invalid and never acted upon
            return "solid"
        if (
            name != reference["name"]
            or resource.kind != reference["kind"]
            or namespace not in ("", key[0])
        ):
            return "absent"
        return "waiting" if reference["uid"] in self._waiting else "solid"

    def _serves(self, group: str, kind: str) -> bool:
        """An owner of a kind that is not served cannot be looked up, so nothing is concluded from
        its absence."""
        if (group, kind) not in self._kinds:
            self._kinds = {(resource.group, resource.kind) for resource in self._resources()}
        return (group, kind) in self._kinds


def _blocks(child: JsonObject, uid: str) -> bool:
    return any(
        reference["uid"] == uid and reference.get("blockOwnerDeletion")
        for reference in child["metadata"].get("ownerReferences") or ()
    )
