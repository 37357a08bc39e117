"""What all stand-in controllers of one cluster share: the store, time, chance, the agenda, and the
small writes they have in common.

A controller gets its `Tools` and nothing else. Objects are never changed in place.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from federator.embedded.apply import ownership
from federator.embedded.controllers import kinds as kinds_table
from federator.embedded.controllers.agenda import Agenda
from federator.embedded.controllers.events import Recorder
from federator.embedded.storage import refusals
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import Event, JsonObject, Revision
from federator.embedded.storage.store import Store
from federator.kube.clock import Clock

Key = tuple[str, str]

SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes draws generated names from: no vowels, no look-alikes."""
_GRACE_DEFAULT_S: Final = 30
MANAGER: Final = "kube-controller-manager"
KUBELET: Final = "kubelet"
SCHEDULER: Final = "kube-scheduler"


class Controller(Protocol):
    """One stand-in. `notice` runs inside writes and only takes notes; `steps` does the work in
    small pieces."""

    def notice(self, event: Event) -> None: ...

    def steps(self) -> Iterator[None]:
        """Works until nothing is left, yielding after each piece of work of at most a few dozen
        microseconds."""
        ...


class Tools:
    """The tools of the controllers of one cluster."""

    __slots__ = ("agenda", "clock", "events", "kinds", "rng", "root_ca", "store")

    def __init__(
        self, store: Store, clock: Clock, rng: random.Random, agenda: Agenda, events: int
    ) -> None:
        self.store = store
        self.clock = clock
        self.rng = rng
        self.agenda = agenda
        self.kinds = kinds_table.load()
        self.root_ca = ""
        """PEM certificates by which workloads know the API server; empty while it is not served."""
        self.events = Recorder(store, clock, rng, self.kinds, limit=events)

    def now(self) -> str:
        """The current second as objects carry it."""
        return self.clock.rfc3339()

    def get(self, resource: ResourceInfo, key: Key) -> JsonObject | None:
        revision = self.store.get(resource, key[0], key[1])
        return None if revision is None else revision.obj

    def suffix(self) -> str:
        """Five random characters as the API server appends to generateName."""
        return "".join(self.rng.choices(SUFFIX_ALPHABET, k=5))

    def set_status(
        self,
        resource: ResourceInfo,
        obj: JsonObject,
        status: Mapping[str, Any],
        *,
        annotations: Mapping[str, str] | None = None,
        manager: str = MANAGER,
    ) -> Revision:
        """Replaces the status of `obj`, which must be the stored version, and its annotations where
        they are given.

        Equal ones write nothing. Where fields of the object have owners, the writer becomes the
        owner of these, as on a real server: an annotation without an owner would go with the last
        one that is no longer applied.
        """
        metadata = obj["metadata"]
        if annotations is not None:
            metadata = {**metadata, "annotations": annotations}
        fresh = {**obj, "metadata": metadata, "status": status}
        if metadata.get("managedFields"):
            entries = ownership.track(obj, fresh, manager, resource, self.now(), "status")
            fresh["metadata"] = {**metadata, "managedFields": entries}
        return self.store.update(resource, fresh, same_generation=True)

    def disrupt(
        self, pod: JsonObject, why: tuple[str, str], *, failed: bool = False, manager: str = MANAGER
    ) -> JsonObject:
        """Writes the condition DisruptionTarget with this reason and message, and with `failed` the
        phase; returns the pod as it is stored then."""
        status = dict(pod.get("status") or {})
        row = ("DisruptionTarget", "True", *why)
        entry = stated(None, row, self.now(), lastProbeTime=None)
        others = [each for each in status.get("conditions") or () if each["type"] != entry["type"]]
        status["conditions"] = [*others, entry]
        if failed:
            status["phase"] = "Failed"
        return self.set_status(self.kinds.pods, pod, status, manager=manager).obj

    def delete_pod(self, pod: JsonObject) -> None:
        """Deletes gracefully as the API server does: at once when it never ran or has ended."""
        metadata = pod["metadata"]
        self.store.delete(
            self.kinds.pods, metadata["namespace"], metadata["name"], grace_s=grace_s(pod)
        )

    def delete(
        self, resource: ResourceInfo, obj: JsonObject, finalizers: list[str] | None = None
    ) -> None:
        """Deletes any object; one that is gone or going already is no error."""
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        grace = grace_s(obj) if resource is self.kinds.pods else 0
        try:
            self.store.delete(
                resource, namespace, name, uid=metadata["uid"], grace_s=grace, finalizers=finalizers
            )
        except refusals.Refusal as refusal:
            if refusal.code not in (404, 409):
                raise


def with_list(obj: JsonObject, field: str, left: Sequence[Any]) -> JsonObject:
    """The object with another list in its metadata; without the field where nothing is left."""
    metadata = {**obj["metadata"], field: left}
    if not left:
        del metadata[field]
    return {**obj, "metadata": metadata}


def grace_s(pod: JsonObject) -> int:
    """Seconds a pod is given to stop."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in (
        "Succeeded",
        "Failed",
    ):
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds", _GRACE_DEFAULT_S))


def controller_of(obj: JsonObject) -> Mapping[str, Any] | None:
    """The owner reference with controller: true."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference  # type: ignore[no-any-return]
    return None


def owner_reference(resource: ResourceInfo, owner: JsonObject) -> dict[str, Any]:
    """The controller reference that an owner puts on what it makes."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def stated(
    conditions: list[dict[str, Any]] | None, row: Sequence[str], now: str, **times: str | None
) -> dict[str, Any]:
    """The condition with this type, status, reason and message. While its status stays, so does the
    time of its transition."""
    type_, status, reason, message = row
    have = condition(conditions, type_)
    since = have["lastTransitionTime"] if have is not None and have["status"] == status else now
    made = {"type": type_, "status": status, **times, "lastTransitionTime": since}
    return {**made, "reason": reason, "message": message}


def condition(conditions: list[dict[str, Any]] | None, type_: str) -> dict[str, Any] | None:
    """The condition of one type, or None."""
    for entry in conditions or ():
        if entry["type"] == type_:
            return entry
    return None
