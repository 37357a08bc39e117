"""Gives workloads their turns where many are due at once: all of them when a hub begins to lead,
those of a member when it is heard, falls silent or is judged.

In parts: what somebody changes meanwhile would wait behind a hundred thousand turns that find
nothing to do, the loop would stand still, and all their keys at once take tens of megabytes. Called
by the process; only gives signals.
"""

import asyncio
import functools
import random
from collections.abc import Callable, Container, Sequence, Sized
from typing import TypeVar

from federator.hub.cache.router import Changed, MemberTurn, SliceChanged
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.decisions import Record
from federator.kube.control.work_queue import WorkQueue
from federator.model.names import WorkloadKey

T = TypeVar("T")

AT_ONCE = 1000
"""Workloads of a resync that wait for a turn at once."""


class Resync:
    """Works while this hub leads; `members` may be added to at any time."""

    def __init__(
        self,
        state: HubState,
        turns: Sequence[Sized],
        *,
        rng: random.Random,
    ) -> None:
        """`turns`: the queues that a resync must not fill."""
        self.state = state
        self.members: WorkQueue[str] = WorkQueue("surveying", rng=rng, metrics=state.metrics)
        """Members with work that is to be looked at as a whole."""
        self._turns = turns
        state.signals.on_member(MemberTurn.RESYNC, lambda member: self.members.add(member.name))

    async def run(self) -> None:
        """Gives every workload a turn of everything, and from then on those of members, until
        cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._everything(), name="first resync")
            group.create_task(self.members.run(self.member), name="resyncs of members")

    async def _everything(self) -> None:
        workloads, decided = self.state.workloads, self.state.by_workload
        await self._in_parts(
            [*workloads, *(key for key in decided if key not in workloads)], self._look_at
        )

    async def member(self, name: str) -> None:
        """What it holds, what decisions give it or take from it, and all that waits to be
        finalized."""
        member = self.state.members.get(name)
        if member is None:
            return
        held = dict.fromkeys((*member.contents.slice_keys(), *member.contents.own_writes))
        await self._in_parts(list(held), functools.partial(self._touch_in, member))
        await self._in_parts(
            list(self.state.records.values()), functools.partial(self._concerns, member, held)
        )

    async def _in_parts(self, items: Sequence[T], visit: Callable[[T], None]) -> None:
        for start in range(0, len(items), AT_ONCE):
            for item in items[start : start + AT_ONCE]:
                visit(item)
            await asyncio.sleep(0)
            while sum(map(len, self._turns)) >= AT_ONCE:  # noqa: ASYNC110 - hardly ever
                await asyncio.sleep(0.01)

    def _look_at(self, key: WorkloadKey) -> None:
        self.state.changed(Changed.LEADING, key)

    def _concerns(self, member: Member, touched: Container[WorkloadKey], record: Record) -> None:
        """The member has changed: whatever this decision has to do with it is due."""
        if member.name in record.clusters and record.key not in touched:
            self._touch_in(member, record.key)
        if member.name in record.terms.leaving or member.name in record.facts.may_run:
            self.state.changed(Changed.ABANDONED, record.key)
        if record.deleting:
            self.state.changed(Changed.LEFT_BEHIND, record.key)

    def _touch_in(self, member: Member, key: WorkloadKey) -> None:
        """News of one member is acted on there alone. Where every member is resynced, looks in all
        clusters of all of their workloads would grow with the square of the clusters."""
        self.state.signals.slice_changed(SliceChanged.RESYNCED, member, key)
        self.state.changed(Changed.REACHED, key)
