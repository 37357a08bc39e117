"""What the pods of a member use and where, kept up to date event by event: no rescan, however many
pods there are.

Fed by the pod reflector; read by the capacity report (room per node) and the roll-up (troubles per
controller). Plain data on the event loop; nothing here waits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from federator.kube.store import Key
from federator.member.cache.rows import PodRow
from federator.model.names import WorkloadKey
from federator.status.reasons import Trouble


@dataclass(slots=True)
class Crew:
    """The pods of one controller (a ReplicaSet, a Job, a DaemonSet)."""

    bound: int = 0
    """Pods that hold room on a node, ending ones included."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Bound pods by node."""
    troubled: dict[Key, Trouble] = field(default_factory=dict)
    pods: int = 0
    alive: int = 0
    """Pods that have not ended, terminating ones included."""
    terminating: int = 0
    deregistered: int = 0
    """Terminating pods that have left the registry of their service."""
    slice: WorkloadKey | None = None
    """The slice of these pods, set while some are terminating: their controller may be gone."""


@dataclass(slots=True)
class PodBooks:
    """All pods of the member, added up."""

    used: dict[str, dict[str, int]] = field(default_factory=dict)
    """Per node: what bound pods have been given, by resource name."""
    crews: dict[str, Crew] = field(default_factory=dict)
    """By uid of the controlling owner; "" for pods without a controller."""
    waiting: dict[Key, PodRow] = field(default_factory=dict)
    """Pods that want room and have none."""

    def change(self, key: Key, old: PodRow | None, new: PodRow | None) -> None:
        """Follows one pod. Safe to repeat with the same rows swapped back."""
        if old is not None:
            self._count(key, old, -1)
        if new is not None:
            self._count(key, new, 1)

    def _count(self, key: Key, row: PodRow, sign: int) -> None:
        crew = self.crews.get(row.controller_uid)
        if crew is None:
            crew = self.crews[row.controller_uid] = Crew()
        crew.pods += sign
        if not row.ended:
            crew.alive += sign
            crew.terminating += sign * row.deleting
            crew.deregistered += sign * row.deregistered
        if row.holds_room:
            crew.bound += sign
            _add(crew.nodes, row.node, sign)
            used = self.used.setdefault(row.node, {})
            for name, amount in row.shape.requests.items():
                _add(used, name, sign * amount)
            if not used:
                del self.used[row.node]
        if row.trouble is not None:
            if sign > 0:
                crew.troubled[key] = row.trouble
            else:
                crew.troubled.pop(key, None)
        if row.waits:
            if sign > 0:
                self.waiting[key] = row
            else:
                self.waiting.pop(key, None)
        if not crew.pods:
            del self.crews[row.controller_uid]

    def bound(self, controller_uid: str) -> int:
        crew = self.crews.get(controller_uid)
        return crew.bound if crew is not None else 0

    def alive(self, controller_uid: str) -> tuple[int, int]:
        """Its pods that have not ended, and how many of these are terminating."""
        crew = self.crews.get(controller_uid)
        return (crew.alive, crew.terminating) if crew is not None else (0, 0)

    def deregistered(self, controller_uid: str) -> int:
        """Its terminating pods that have left the registry of their service."""
        crew = self.crews.get(controller_uid)
        return crew.deregistered if crew is not None else 0

    def belongs(self, controller_uid: str, key: WorkloadKey) -> None:
        """Its terminating pods are copies of this slice."""
        self.crews[controller_uid].slice = key

    def slice_of(self, controller_uid: str) -> WorkloadKey | None:
        """The slice of terminating pods, also after their controller is gone."""
        crew = self.crews.get(controller_uid)
        return crew.slice if crew is not None else None

    def troubles(self, controller_uid: str) -> Iterator[Trouble]:
        crew = self.crews.get(controller_uid)
        return iter(crew.troubled.values()) if crew is not None else iter(())

    def nodes_of(self, controller_uid: str) -> Mapping[str, int]:
        crew = self.crews.get(controller_uid)
        return crew.nodes if crew is not None else {}


def _add(amounts: dict[str, int], name: str, amount: int) -> None:
    total = amounts.get(name, 0) + amount
    if total:
        amounts[name] = total
    else:
        amounts.pop(name, None)
