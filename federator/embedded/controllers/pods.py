"""The pods of one cluster as the controllers need them: small records, grouped by owner, with
running counts.

`PodIndex.notice` turns each change of a pod into one (old, new) pair for its listeners: no
controller ever rescans pods.
"""

from collections.abc import Callable
from typing import Any, Final

from federator.embedded.controllers.tools import controller_of
from federator.embedded.storage.revisions import DELETED, Event, JsonObject

Key = tuple[str, str]

_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class Pod:
    """One pod, parsed once per change. `ready_since` is an RFC 3339 time, empty when not ready."""

    __slots__ = (
        "deleting",
        "finished",
        "key",
        "labels",
        "node",
        "obj",
        "owner",
        "owner_key",
        "phase",
        "ready",
        "ready_since",
        "uid",
    )

    def __init__(self, obj: JsonObject) -> None:
        metadata, status = obj["metadata"], obj.get("status") or {}
        self.obj = obj
        self.key: Key = (metadata["namespace"], metadata["name"])
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.deleting = "deletionTimestamp" in metadata
        owner = controller_of(obj)
        self.owner: tuple[str, str] | None = None
        """(kind, uid) of the controller."""
        self.owner_key: Key | None = None
        if owner is not None:
            self.owner = (owner["kind"], owner["uid"])
            self.owner_key = (self.key[0], owner["name"])
        self.node: str = obj["spec"].get("nodeName") or ""
        self.phase: str = status.get("phase") or "Pending"
        self.finished = self.phase in _FINISHED
        self.ready_since = ""
        if self.phase == "Running":
            for condition in status.get("conditions") or ():
                if condition["type"] == "Ready":
                    if condition["status"] == "True":
                        self.ready_since = condition.get("lastTransitionTime") or ""
                    break
        self.ready = bool(self.ready_since)

    @property
    def active(self) -> bool:
        return not self.finished and not self.deleting

    @property
    def annotations(self) -> dict[str, str]:
        return self.obj["metadata"].get("annotations") or {}

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def status(self) -> dict[str, Any]:
        return self.obj.get("status") or {}


class Group:
    """The pods of one controller. `ready` counts active ready ones; `terminating` deleted ones that
    still run."""

    __slots__ = ("active", "pods", "ready", "terminating")

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.active = 0
        self.ready = 0
        self.terminating = 0

    def count(self, pod: Pod, sign: int) -> None:
        if pod.finished:
            return
        if pod.deleting:
            self.terminating += sign
            return
        self.active += sign
        if pod.ready:
            self.ready += sign


Listener = Callable[[Pod | None, Pod | None], None]
"""(old, new): old is None for an added pod, new is None for a deleted one (then old is its last
state)."""

_EMPTY: Final = Group()


class PodIndex:
    """All pods, by key and by controller. Listeners are called in the order they were added."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Pod] = {}
        self.orphans: dict[str, dict[str, Pod]] = {}
        """Pods without a controller, by namespace."""
        self._groups: dict[str, Group] = {}
        self.listeners: list[Listener] = []

    def group(self, uid: str) -> Group:
        """The pods of the controller with this uid; do not change it."""
        return self._groups.get(uid, _EMPTY)

    def notice(self, event: Event) -> None:
        pod = Pod(event.current.obj)
        old = self.by_key.pop(pod.key, None)
        if event.type is DELETED:
            self._leave(old or pod)
            for listener in self.listeners:
                listener(pod, None)
            return
        self.by_key[pod.key] = pod
        if old is not None:
            self._leave(old, staying=pod)
        self._join(pod)
        for listener in self.listeners:
            listener(old, pod)

    def _join(self, pod: Pod) -> None:
        if pod.owner is None:
            self.orphans.setdefault(pod.key[0], {})[pod.name] = pod
            return
        group = self._groups.get(pod.owner[1])
        if group is None:
            group = self._groups[pod.owner[1]] = Group()
        group.pods[pod.name] = pod
        group.count(pod, 1)

    def _leave(self, pod: Pod, staying: Pod | None = None) -> None:
        if pod.owner is None:
            if staying is not None and staying.owner is None:
                return
            orphans = self.orphans.get(pod.key[0], {})
            orphans.pop(pod.name, None)
            if not orphans:
                self.orphans.pop(pod.key[0], None)
            return
        group = self._groups.get(pod.owner[1])
        if group is None or pod.name not in group.pods:
            return
        group.count(pod, -1)
        if staying is not None and staying.owner == pod.owner:
            return
        del group.pods[pod.name]
        if not group.pods:
            del self._groups[pod.owner[1]]
