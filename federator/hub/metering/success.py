"""The success rate of each cluster, by the slices that its member reports.

While this hub leads, it looks at all shares once a minute and keeps one figure for each cluster.
Single shares have an entry only while they are not ready, within a bound. The figure is copied to
`MemberCluster.status.success`, where the next leader begins with it.
"""

import asyncio
from typing import Final

from federator.api import memberfields
from federator.hub.cache.router import MemberChanged
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Workload
from federator.kube.clock import Clock, TimeSlices
from federator.model import shards
from federator.model.decision import Share
from federator.model.names import WorkloadKey
from federator.scheduling import success
from federator.scheduling.success import Look, Outcome, Rate

LOOK_S: Final = 60.0
"""Seconds between two looks, or longer where one takes long."""
SHARE: Final = 0.004
"""The part of a processor that looks may take: at 200,000 shares one takes 1.2 s."""
UNREADY_S: Final = 300.0
"""A share that is not ready for so long has failed to start."""
UNREADY_MAX: Final = 20_000
"""Shares of which is kept since when they are not ready; of others nothing is said."""
_WAITS: Final = frozenset({"Unschedulable", "GangTimedOut", "FailedCreate", "NamespaceTerminating"})
"""Reasons of slices that lack room or rights: their nodes are not sick."""


class SuccessRates:
    """One per hub."""

    def __init__(self, state: HubState, *, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._unready: dict[tuple[str, WorkloadKey], float] = {}
        """Share -> monotonic time since which it is not ready."""

    async def run(self) -> None:
        """Until cancelled. Begins with what the leader before recorded."""
        self._unready.clear()
        for member in self._state.members.values():
            member.vitals.observe_success(_recorded(member))
        took_s = 0.0
        while True:
            await asyncio.sleep(max(LOOK_S, took_s / SHARE))
            took_s = await self.look()

    async def look(self) -> float:
        """Judges all shares, and changes the rates. Returns the processor seconds that it took."""
        look, seen = Look(), set[tuple[str, WorkloadKey]]()
        slices = TimeSlices(self._clock)
        speaking: dict[tuple[str, str], Member | None] = {}
        for workload in list(self._state.workloads.values()):
            if slices.used_up:
                await slices.give_way()
                speaking.clear()  # others had their turn
            record = self._state.record_of(workload)
            if record is not None and (shares := record.shares):
                kind, outcomes = workload.key.kind, dict[str, Outcome]()
                for share in shares:
                    place = share.cluster, kind
                    if place not in speaking:
                        speaking[place] = self._speaking(*place)
                    outcomes[share.cluster] = self._outcome(workload, share, speaking[place], seen)
                look.note(outcomes)
        for gone in self._unready.keys() - seen:
            del self._unready[gone]
        for name, member in list(self._state.members.items()):
            if slices.used_up:
                await slices.give_way()
            # One that joined since the last look has no rate yet.
            before = (
                member.vitals.success
                if member.vitals.success.as_of_s is not None
                else _recorded(member)
            )
            self._note(member, success.after(before, look.share(name), self._clock.now()))
        return slices.took_s

    def _note(self, member: Member, rate: Rate) -> None:
        before = member.vitals.success
        member.vitals.observe_success(rate)
        if (rate.shown, rate.avoided) != (before.shown, before.avoided):
            self._state.signals.member_changed(MemberChanged.SAID, member)

    def _speaking(self, cluster: str, kind: str) -> Member | None:
        """The member of this name; None where its reports about the kind say nothing of now."""
        member = self._state.members.get(cluster)
        return member if member is not None and member.speaks_of(kind) else None

    def _outcome(
        self,
        workload: Workload,
        share: Share,
        member: Member | None,
        unready: set[tuple[str, WorkloadKey]],
    ) -> Outcome:
        """What the workload does in the cluster of a share; `member` speaks for it. Notes in
        `unready` what is not ready there."""
        if member is None:
            return Outcome.OPEN
        row = member.contents.slice_of(workload.key)
        if row is None or row.deleting or not self._is_current(row, workload, share):
            return Outcome.OPEN
        if (ended := _ended(row)) is not Outcome.OPEN:
            return ended
        due, seen, place = row.due, row.observation, (share.cluster, workload.key)
        if due <= 0 or seen.unschedulable or seen.reason in _WAITS:
            return Outcome.OPEN
        if 10 * seen.ready >= 9 * due:
            return Outcome.GOOD
        if 2 * seen.ready >= due or (
            place not in self._unready and len(self._unready) >= UNREADY_MAX
        ):
            return Outcome.OPEN
        unready.add(place)
        now_s = self._clock.monotonic()
        since_s = self._unready.setdefault(place, now_s)
        return Outcome.BAD if now_s - since_s >= UNREADY_S else Outcome.OPEN

    def _is_current(self, row: SliceSeen, workload: Workload, share: Share) -> bool:
        """Whether the member has observed the share as it is decided."""
        if not row.serves(self._state.options.fleet, workload.uid) or row.mark is None:
            return False
        seen = row.observation
        return row.mark.seq >= share.seq and seen.observed_generation >= seen.generation


def _recorded(member: Member) -> Rate:
    permille = memberfields.success_permille(member.obj)
    return Rate() if permille is None else Rate(permille, None, memberfields.avoided(member.obj))


def _ended(row: SliceSeen) -> Outcome:
    """Of a job: whether most of the shards that have ended there ended well."""
    seen = row.observation
    if not (seen.failed or seen.completed):
        return Outcome.OPEN
    failed, completed = shards.size(seen.failed), shards.size(seen.completed)
    return Outcome.BAD if failed > completed else Outcome.GOOD
