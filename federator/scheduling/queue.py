"""The inadmissible workloads of a queue: which hints requeue them, and when each is retried without
one. It has no task and no clock; the caller keeps the time."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.scheduling import queueing_hints
from federator.scheduling.entry import Entry
from federator.scheduling.queueing_hints import Hint, HintKind, Waiting
from federator.scheduling.waiting.reservations import Reservation
from federator.scheduling.waiting.room_claims import Claims, RoomClaim

NOTHING: Final[Mapping[str, Reservation]] = MappingProxyType({})
"""No room is reserved."""
NO_ROOM: Final[Claims] = MappingProxyType({})
"""Nobody has left for anybody's want of room."""
NOBODY: Final[Mapping[WorkloadKey, Entry]] = MappingProxyType({})
"""Nobody has left for anybody."""


class Queue:
    """The inadmissible workloads. The work queue decides which keys are due, and in which order
    namespaces take turns."""

    def __init__(self) -> None:
        self._inadmissible: dict[WorkloadKey, Waiting] = {}
        self._attempts: dict[WorkloadKey, int] = {}
        """How often each was decided since it began to wait."""
        self._for_room: dict[WorkloadKey, Ask] = {}
        self.reservations: Mapping[str, Reservation] = NOTHING
        """Cluster -> the reservation that the last cycle made there."""
        self._claims: dict[WorkloadKey, Entry] = {}
        self._room_claims: dict[WorkloadKey, RoomClaim] = {}

    def __contains__(self, key: WorkloadKey) -> bool:
        return key in self._inadmissible

    def __len__(self) -> int:
        return len(self._inadmissible)

    def keys(self) -> Iterable[WorkloadKey]:
        """All inadmissible workloads."""
        return self._inadmissible.keys()

    def for_room(self) -> Iterable[Ask]:
        """Those that hold nothing and wait for room, in any order."""
        return self._for_room.values()

    @property
    def claims(self) -> Mapping[WorkloadKey, Entry]:
        """The preemptors for which victims give up quota, until their own next turn, as they were
        decided on. No amount is set aside: each cycle judges them too, before the heads, so that
        what was freed is used up for workloads that are due before them."""
        return self._claims

    @property
    def room_claims(self) -> Claims:
        """The preemptors with victims that have freed room, which may not be seen free yet. Only a
        workload that is before them may have it."""
        return self._room_claims

    def requeued_by(self, *hints: Hint) -> list[WorkloadKey]:
        """The workloads that one of these hints may help, in order."""
        if not hints:
            return []
        return queueing_hints.requeued(hints, self._inadmissible.values())

    def retry_after_s(self, key: WorkloadKey) -> float:
        """Seconds until an inadmissible workload is retried: hints may be missed."""
        return queueing_hints.retry_after_s(self._attempts.get(key, 0))

    def settle(
        self,
        decided: Iterable[WorkloadKey],
        inadmissible: Mapping[WorkloadKey, Waiting],
        reservations: Mapping[str, Reservation] = NOTHING,
        claims: Mapping[WorkloadKey, Entry] = NOBODY,
        room_claims: Claims = NO_ROOM,
    ) -> None:
        """Records the result of a cycle: for the workloads that it decided what they wait for and
        what they claim, and all reservations of room."""
        self.reservations = reservations
        for key in decided:
            if key not in inadmissible:
                self.forget(key)
                continue
            self._claims.pop(key, None)
            self._room_claims.pop(key, None)
            self._attempts[key] = self._attempts.get(key, 0) + 1
            waiting = self._inadmissible[key] = inadmissible[key]
            if waiting.ask is not None:
                self._for_room[key] = waiting.ask
            else:
                self._for_room.pop(key, None)
        self._claims |= {key: claims[key] for key in claims if key in inadmissible}
        self._room_claims |= {key: room_claims[key] for key in room_claims if key in inadmissible}

    def forget(self, key: WorkloadKey) -> tuple[Hint, ...]:
        """The workload is gone, suspended, or lacks nothing. Returns hints for the workloads that
        may have the room that was kept for it, or the quota that its victims left."""
        claim = self._room_claims.pop(key, None) if self._room_claims else None
        freed = self._claims.pop(key, None) is not None if self._claims else False
        if self._inadmissible:  # mostly nobody waits: then there is nothing to look for
            self._inadmissible.pop(key, None)
            self._attempts.pop(key, None)
            self._for_room.pop(key, None)
        if not self.reservations and claim is None and not freed:
            return ()
        reservations = [
            name for name, reserved in self.reservations.items() if reserved.ask.key == key
        ]
        every = dict.fromkeys([*reservations, *(claim.copies if claim is not None else ())])
        rooms = [Hint(HintKind.ROOM, name) for name in every]
        return (*rooms, Hint(HintKind.QUOTA)) if freed else tuple(rooms)
