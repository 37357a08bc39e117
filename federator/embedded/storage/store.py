"""Versioned objects of one embedded API server: what etcd and the watch cache are to a real one.

Synchronous and without I/O. The REST layer and the stand-in controllers call it; it checks versions
and keeps metadata true (resourceVersion, uid, timestamps, generation, finalizers), and nothing
else: names, schemas and permissions are the REST layer's business. Stored objects are immutable by
agreement: to change one, make new dicts along the changed path.
"""

import random
import uuid
from collections.abc import Iterable

from federator.embedded.storage import refusals
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import (
    ADDED,
    DELETED,
    MODIFIED,
    Callback,
    Event,
    JsonObject,
    Key,
    Revision,
    Shelf,
    Subscription,
    ordered,
)
from federator.kube import clock as clocks

_FIRST_REVISION = 1
_NAMESPACES = ("", "namespaces")
_GRACE = "deletionGracePeriodSeconds"
_UNVERSIONED = frozenset({"apiVersion", "kind", "metadata"})
_CORE_WITHOUT = (
    "namespaces services configmaps secrets serviceaccounts nodes endpoints events"
    " persistentvolumes"
    " persistentvolumeclaims limitranges resourcequotas"
)
_RBAC = "roles rolebindings clusterroles clusterrolebindings"
_WITHOUT_GENERATION = frozenset(
    [("", plural) for plural in _CORE_WITHOUT.split(" ")]
    + [("rbac.authorization.k8s.io", plural) for plural in _RBAC.split(" ")]
    + [
        ("events.k8s.io", "events"),
        ("coordination.k8s.io", "leases"),
        ("autoscaling", "horizontalpodautoscalers"),
    ]
    + [("apps", "controllerrevisions")]
)
"""Built-in resources that carry no metadata.generation (from the registry strategies of
Kubernetes 1.37)."""


class Store:
    """The objects of one server under one version counter. Not for threads."""

    def __init__(self, clock: clocks.Clock, rng: random.Random, *, history: int = 2000) -> None:
        """`history`: how many changes per resource a watch may lag behind before it must list again
        (at least that many).
        """
        self.clock = clock
        self.rng = rng
        self.revision = _FIRST_REVISION
        """The version of the latest write."""
        self._history = history
        self._shelves: dict[tuple[str, str], Shelf] = {}
        self._callbacks_of_all: list[Callback] = []

    # Reading

    def get(self, resource: ResourceInfo, namespace: str, name: str) -> Revision | None:
        """The current version, or None. `namespace` is "" for cluster-scoped resources."""
        shelf = self._shelves.get(resource.key)
        return None if shelf is None else shelf.get((namespace, name))

    def items(self, resource: ResourceInfo, namespace: str | None = None) -> list[Revision]:
        """Current versions ordered by (namespace, name); None means all namespaces."""
        shelf = self._shelves.get(resource.key)
        return [] if shelf is None else shelf.items(namespace)

    def items_at(
        self, resource: ResourceInfo, namespace: str | None, number: int
    ) -> list[Revision]:
        """What `items` answered at version `number`. Raises `Refusal` 410 when history no longer
        reaches back."""
        shelf = self._shelf(resource)
        later = shelf.since(number)
        if not later:
            return shelf.items(namespace)
        spaces = {space: dict(names) for space, names in shelf.spaces.items()}
        for event in reversed(later):
            names = spaces.setdefault(event.key[0], {})
            if event.previous is None:
                names.pop(event.key[1], None)
            else:
                names[event.key[1]] = event.previous
        return ordered(spaces, namespace)

    def open(self, resource: ResourceInfo) -> None:
        """Begins the history of a resource that is served from now on: older versions are too old
        to watch from."""
        shelf = self._shelf(resource)
        if not shelf.events:
            shelf.floor = self.revision

    def count(self, resource: ResourceInfo) -> int:
        """How many objects of this resource exist."""
        shelf = self._shelves.get(resource.key)
        return 0 if shelf is None else sum(len(space) for space in shelf.spaces.values())

    # Watching

    def subscribe(
        self, resource: ResourceInfo, callback: Callback, *, after: int | None = None
    ) -> Subscription:
        """Calls `callback` with every later change, first with those after version `after` when it
        is given.

        The callback runs inside the write: it must only take note (fill a queue, mark a key), never
        write or raise. Raises `Refusal` 410 when `after` is older than the history kept.
        """
        shelf = self._shelf(resource)
        if after is not None:
            for event in shelf.since(after):
                callback(event)
        return Subscription(shelf.callbacks, callback)

    def subscribe_all(self, callback: Callback) -> Subscription:
        """Like `subscribe`, for the changes of every resource from now on."""
        return Subscription(self._callbacks_of_all, callback)

    def compact(self, resource: ResourceInfo | None = None) -> None:
        """Forgets the history of one resource, or of all: watches and chunks from before are
        answered 410."""
        shelves = [self._shelf(resource)] if resource else list(self._shelves.values())
        for shelf in shelves:
            shelf.events.clear()
            shelf.floor = self.revision

    # Writing

    def create(self, resource: ResourceInfo, obj: JsonObject, *, dry_run: bool = False) -> Revision:
        """Stores a new object under its metadata.namespace and name. Raises `Refusal` 409
        AlreadyExists.

        Sets uid, creationTimestamp, generation and resourceVersion; keeps a uid that is given.
        `dry_run` stores nothing and returns what would be stored, without a resourceVersion.
        """
        given = obj["metadata"]
        key = (given.get("namespace", ""), given["name"])
        shelf = self._shelf(resource)
        if shelf.get(key) is not None:
            raise refusals.already_exists(resource.group, resource.plural, key[1])
        metadata = dict(given)
        if not metadata.get("uid"):
            metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = self.clock.rfc3339()
        if resource.key not in _WITHOUT_GENERATION:
            metadata["generation"] = 1
        if dry_run:
            metadata.pop("resourceVersion", None)
            return Revision(_dressed(obj, metadata), self.revision)
        return self._commit(shelf, resource, key, ADDED, obj, metadata, None)

    def restore(self, resource: ResourceInfo, obj: JsonObject) -> Revision:
        """Puts an object back as a backup has it, with its uid, times and generation; only its
        version is a new one."""
        metadata = dict(obj["metadata"])
        key = (metadata.get("namespace", ""), metadata["name"])
        return self._commit(self._shelf(resource), resource, key, ADDED, obj, metadata, None)

    def update(
        self,
        resource: ResourceInfo,
        obj: JsonObject,
        *,
        expect: str | None = None,
        same_generation: bool = False,
        dry_run: bool = False,
    ) -> Revision:
        """Replaces the object that has obj's namespace and name; status and spec alike.

        `expect`: the resourceVersion it must still have, else `Refusal` 409 Conflict; 404 when it
        is not there. The server's fields (uid, creationTimestamp, deletionTimestamp, generation)
        are taken from the stored object. An equal object writes nothing and returns the stored
        revision. Removing the last finalizer of a deleted object removes the object.
        """
        given = obj["metadata"]
        key = (given.get("namespace", ""), given["name"])
        shelf = self._shelf(resource)
        old = shelf.get(key)
        if old is None:
            raise refusals.not_found(resource.group, resource.plural, key[1])
        before = old.obj["metadata"]
        if expect is not None and expect != before["resourceVersion"]:
            raise refusals.conflict(resource.group, resource.plural, key[1], refusals.MODIFIED)
        metadata = dict(given)
        for field in ("uid", "creationTimestamp", "deletionTimestamp", _GRACE, "generation"):
            if field in before:
                metadata[field] = before[field]
            else:
                metadata.pop(field, None)
        metadata["resourceVersion"] = before["resourceVersion"]
        unchanged = metadata == before
        if unchanged and _same_below(old.obj, obj):
            return old
        if (
            not same_generation
            and "generation" in before
            and _bumps_generation(resource, old.obj, obj, metadata)
        ):
            metadata["generation"] = before["generation"] + 1
        if dry_run:
            return Revision(_dressed(obj, metadata), old.number)
        if "deletionTimestamp" in metadata and may_go(obj, metadata):
            # Watchers see the last stored state; the writer gets back what it wrote.
            self._commit(shelf, resource, key, DELETED, old.obj, dict(before), old)
            return Revision(_dressed(obj, metadata), old.number)
        return self._commit(shelf, resource, key, MODIFIED, obj, metadata, old)

    def delete(
        self,
        resource: ResourceInfo,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        expect: str | None = None,
        grace_s: int = 0,
        finalizers: Iterable[str] | None = None,
        marks_first: bool = False,
        dry_run: bool = False,
    ) -> tuple[Revision, bool]:
        """Deletes, or marks as being deleted; returns the last version and whether the object is
        gone.

        `uid`, `expect`: preconditions (409 when they fail). `grace_s` > 0 marks only, until a later
        delete with 0. `finalizers` replaces the finalizers first (orphan, foregroundDeletion).
        `marks_first` makes what goes at once be seen as being deleted before. Raises `Refusal` 404.
        """
        shelf, key = self._shelf(resource), (namespace, name)
        old = shelf.get(key)
        if old is None:
            raise refusals.not_found(resource.group, resource.plural, name)
        before = old.obj["metadata"]
        _check_preconditions(resource, name, before, uid, expect)
        metadata = dict(before)
        if finalizers is not None:
            metadata["finalizers"] = list(finalizers)
            if not metadata["finalizers"]:
                del metadata["finalizers"]
        self._mark(resource, metadata, grace_s)
        if may_go(old.obj, metadata):
            if marks_first and metadata.get(_GRACE) != before.get(_GRACE):
                if dry_run:
                    return Revision(_dressed(old.obj, metadata), old.number), True
                old = self._commit(shelf, resource, key, MODIFIED, old.obj, metadata, old)
                before = old.obj["metadata"]
            if dry_run:
                return old, True
            # Gone at once: the last state a watcher sees is the one that lived, as on a real
            # server.
            return self._commit(shelf, resource, key, DELETED, old.obj, dict(before), old), True
        body = _terminating(old.obj) if resource.key == _NAMESPACES else old.obj
        if dry_run or metadata == before:
            return Revision(_dressed(body, metadata), old.number), False
        return self._commit(shelf, resource, key, MODIFIED, body, metadata, old), False

    def _mark(self, resource: ResourceInfo, metadata: JsonObject, grace_s: int) -> None:
        """Marks metadata as being deleted `grace_s` seconds from now; a later mark may only shorten
        the wait."""
        first, now = "deletionTimestamp" not in metadata, self.clock.now()
        until = now + grace_s
        if not first:
            before = metadata.get(_GRACE, 0)
            if grace_s >= before:
                return
            # The time counts from the first request. What is over already keeps a second, for the
            # kubelet to end it.
            until = clocks.parse(metadata["deletionTimestamp"]) - before + grace_s
            if until < now:
                until, grace_s = now, min(grace_s, 1)
        metadata["deletionTimestamp"] = clocks.stamp(until)
        if resource.key != _NAMESPACES:
            metadata[_GRACE] = grace_s
        if first and "generation" in metadata:
            metadata["generation"] += 1

    def forget(self, resource: ResourceInfo) -> None:
        """Removes every object of a resource at once, finalizers or not: its definition is gone."""
        for revision in self.items(resource):
            key, shelf = revision.key, self._shelf(resource)
            self._commit(
                shelf,
                resource,
                key,
                DELETED,
                revision.obj,
                dict(revision.obj["metadata"]),
                revision,
            )

    def new_uid(self) -> str:
        """A version 4 UUID from the injected generator."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def _shelf(self, resource: ResourceInfo) -> Shelf:
        shelf = self._shelves.get(resource.key)
        if shelf is None:
            shelf = self._shelves[resource.key] = Shelf(_FIRST_REVISION - 1)
        return shelf

    def _commit(  # noqa: PLR0917  # one private writer behind create, update and delete
        self,
        shelf: Shelf,
        resource: ResourceInfo,
        key: Key,
        type_: str,
        obj: JsonObject,
        metadata: JsonObject,
        previous: Revision | None,
    ) -> Revision:
        self.revision = number = self.revision + 1
        metadata["resourceVersion"] = str(number)
        current = Revision(_dressed(obj, metadata), number)
        space = shelf.spaces.setdefault(key[0], {})
        if type_ is DELETED:
            del space[key[1]]
            if not space:
                del shelf.spaces[key[0]]
        else:
            space[key[1]] = current
        event = Event(type_, resource, key, current, previous)
        shelf.keep(event, self._history)
        for callback in tuple(shelf.callbacks):
            callback(event)
        for callback in tuple(self._callbacks_of_all):
            callback(event)
        return current


def _dressed(obj: JsonObject, metadata: JsonObject) -> JsonObject:
    """The object with this metadata; kind, apiVersion and metadata come first, as a real server
    writes them.

    Lists of builtins leave kind and apiVersion out of their items: with this order that is cutting
    off a prefix.
    """
    dressed: JsonObject = {
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
        "metadata": metadata,
    }
    dressed.update(obj)
    dressed["metadata"] = metadata
    return dressed


def may_go(obj: JsonObject, metadata: JsonObject) -> bool:
    """Whether nothing holds a deleted object back: no finalizers, no grace period, no namespace
    content."""
    if metadata.get("finalizers") or metadata.get(_GRACE, 0) > 0:
        return False
    return obj["kind"] != "Namespace" or not (obj.get("spec") or {}).get("finalizers")


def _same_below(old: JsonObject, new: JsonObject) -> bool:
    """Whether two objects are equal outside metadata."""
    if old.keys() != new.keys():
        return False
    return all(
        old[field] is value or old[field] == value
        for field, value in new.items()
        if field != "metadata"
    )


def _bumps_generation(
    resource: ResourceInfo, old: JsonObject, new: JsonObject, metadata: JsonObject
) -> bool:
    """Whether what people ask for changed: anything outside metadata and (where it is a
    subresource) status.

    A Deployment's annotations and an EndpointSlice's labels count as well: their registry
    strategies say so.
    """
    has_status = resource.is_builtin or "status" in resource.subresources
    for field in (old.keys() | new.keys()) - _UNVERSIONED:
        if field == "status" and has_status:
            continue
        ours, theirs = old.get(field), new.get(field)
        if ours is not theirs and ours != theirs:
            return True
    if resource.key == ("apps", "deployments"):
        return bool(old["metadata"].get("annotations") != metadata.get("annotations"))
    if resource.key == ("discovery.k8s.io", "endpointslices"):
        return bool(old["metadata"].get("labels") != metadata.get("labels"))
    return False


def _check_preconditions(
    resource: ResourceInfo, name: str, metadata: JsonObject, uid: str | None, expect: str | None
) -> None:
    why = ""
    if uid is not None and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record"
            f" ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif expect is not None and expect != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({expect}) does not match the"
            " ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
    if why and resource.key == _NAMESPACES:
        wanted, actual = (
            (uid, metadata["uid"]) if "UID" in why else (expect, metadata["resourceVersion"])
        )
        what = "UID" if "UID" in why else "ResourceVersion"
        why = (
            f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta:"
            f" {actual}"
        )
        raise refusals.conflict(resource.group, resource.plural, name, why)
    if why:
        # Delete preconditions name the kind where other conflicts name the resource.
        raise refusals.conflict(resource.group, resource.kind, name, why)


def _terminating(namespace: JsonObject) -> JsonObject:
    return {**namespace, "status": {**(namespace.get("status") or {}), "phase": "Terminating"}}
