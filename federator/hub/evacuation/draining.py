"""Drains and failovers: copies leave clusters that operators want empty (`spec.drain`), deleted or
declared dead (`spec.declaredDead`), or that the governor holds to be lost, at a pace, and never for
nowhere.

A wish is admitted when a rehearsal finds a place for every copy, or when it is forced. A deletion
is a forced wish that nobody can take back; its finalizer does the rest (`deletion.removal`). Then
turns are given (`scheduling.evacuation`): the next decision on a workload that has one may take so
many copies out. Placing decides where they go, dispatching keeps the old ones until the new ones
are ready. Nothing of this is kept but in the status of the MemberCluster: a new leader goes on from
there, and it stops when a user removes the wish.

A cluster that is lost needs no admission, and nothing there is waited for. By a person's word all
leaves it; when it is merely unreachable, what may (`governing`). Slices that it holds are left
until it is heard again: then nothing moves any more, what is decided there stays, and what got
another place is removed as after any move. What left comes home one day (`returning`).
"""

import asyncio
import functools
import itertools
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.api import membercluster
from federator.api.membercluster import (
    DRAIN_REFUSED,
    Removal,
)
from federator.hub.cache import progress
from federator.hub.cache.router import MemberTurn
from federator.hub.evacuation import drain_words
from federator.hub.evacuation.drain_reports import Drained, DrainReports
from federator.hub.evacuation.drilling import trial_entry
from federator.hub.evacuation.governing import Governing
from federator.hub.evacuation.maintaining import Maintaining
from federator.hub.evacuation.returning import Returning
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.hub.placing.move_budget import DRAIN, FAILBACK, FAILOVER
from federator.hub.placing.placer import Placing
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube import clock as clocks
from federator.kube import errors
from federator.kube.clock import in_slices
from federator.kube.control.work_queue import WorkQueue
from federator.model.ask import Ask, Unit
from federator.model.fleet import copies_of, remaining
from federator.model.names import WorkloadKey
from federator.model.policy import FailoverWhen
from federator.model.steps import RequeueAfter
from federator.scheduling import drill, evacuation, governor
from federator.scheduling.evacuation import EvacuationPlan, Moved, Occupant, Rehearsed
from federator.scheduling.governor import Health
from federator.status.conditions import TRUE

log = logging.getLogger(__name__)

FLEET: Final = "the fleet"
"""The one key of the queue: all drains share one budget."""
LOOK_S: Final = 1.0
"""Seconds between two looks while a cluster is to be empty."""
WATCH_S: Final = 5.0
"""The same while nothing moves: members may fall silent, and what is held may be released."""
STUCK_S: Final = 30.0
"""Seconds until a workload that found no other place is asked again."""
CHUNK: Final = 64
"""Workloads decided before other work gets its turn."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What is alike for all workloads in one turn."""

    drained: Mapping[str, Drained]
    lost: frozenset[str]
    """All clusters that are lost, or held to be."""


class Draining(Controller):
    """Admits drains and gives turns; `DrainReports` says how far they are. The grants lie in
    placing's budget."""

    def __init__(self, tools: Tools, placing: Placing, *, governing: Governing) -> None:
        super().__init__(tools)
        self.placing = placing
        self.governing = governing
        self.queue: WorkQueue[str] = self.new_queue("draining")
        self._history: deque[Moved] = deque()
        """Copies that got another place lately, by the monotonic clock."""
        self._granted: dict[WorkloadKey, Moved] = {}
        """Turns that were given and not taken yet."""
        self._stuck: dict[WorkloadKey, float] = {}
        """Workloads that found no other place, and when they are asked again."""
        self.reports = DrainReports(tools, governing)
        self.returning = Returning(tools, placing, governing)
        self.maintaining = Maintaining(tools)
        placing.moves.on_evacuated = self._moved
        self.state.signals.resumed.append(lambda: self.queue.add(FLEET))
        self.state.signals.on_member(MemberTurn.DRAIN, lambda _: self.queue.add(FLEET))

    async def run(self) -> None:
        """Goes on with what was begun, until cancelled."""
        self._history = deque([Moved(self.clock.monotonic(), self._moved_before())])
        self._granted.clear()
        self._stuck.clear()
        self.governing.begin()
        self.returning.begin()
        self.queue.add(FLEET)
        await self.queue.run(self.turn, workers=1)

    async def turn(self, key: str) -> RequeueAfter | None:
        """All clusters that are to be empty."""
        await self.maintaining.look()
        if newly := await self.governing.look():
            self._revoke()
        wished: list[Member] = []
        async for _, member in in_slices(sorted(self.state.members.items()), self.clock):
            self.reports.end(member)
            lost = membercluster.declared_dead(member.obj) or member.unreachable
            if (lost or member.drain is not None) and not member.abandoned:
                wished.append(member)
        if not wished and not self.returning.away:
            self._revoke()
            return RequeueAfter(key, LOOK_S if newly else WATCH_S, "members may fall silent")
        if self.state.paused:
            self._revoke()
            for member in wished:
                if member.draining or member.gone:
                    self.reports.say(member, "Paused", "Nothing is moved until `federator resume`.")
            return RequeueAfter(key, WATCH_S, "the federation is paused")
        admitted: list[Member] = []
        for member in wished:
            if member.gone or member.draining or await self._admit(member, admitted):
                admitted.append(member)
        drained = [
            Drained(member, self.reports.since_s(member), _is_lost(member)) for member in admitted
        ]
        occupants = await self._occupants({cluster.member.name: cluster for cluster in drained})
        now_s = self.clock.monotonic()
        self._forget_before(now_s - evacuation.MINUTE_S)
        given = [*self._history, *self._granted.values()]
        a_minute = self.state.options.evacuated_copies_a_minute
        if any(member.unreachable for member in admitted):
            a_minute = self.governing.a_minute(a_minute) or a_minute
        paced = evacuation.pace(occupants.values(), a_minute, given, now_s)
        self._grant(paced, now_s)
        rate = max(sum(moved.copies for moved in self._history), 0)
        moving = [self.reports.report(cluster, paced, rate, self._in_hand) for cluster in drained]
        for cluster in drained:
            if not cluster.copies and not cluster.gone:
                await self._remove(cluster.member)
        if not any(moving):
            moving.append(self._bring_home(a_minute, now_s))
        wait_s = LOOK_S if any(moving) or newly else WATCH_S
        return RequeueAfter(key, wait_s, "clusters are to be empty")

    async def _remove(self, member: Member) -> None:
        """Deletes the MemberCluster of an empty cluster that is to be removed, in the state in
        which it was read: a drain that was taken back meanwhile is a conflict, and the next look
        finds it. Raises ApiErrors."""
        wish, meta = member.drain, member.obj["metadata"]
        if wish is None or not wish.remove:
            return
        ref = registry.KINDS["MemberCluster"].ref("", member.name)
        try:
            await self.host.delete(ref, uid=meta["uid"], resource_version=meta["resourceVersion"])
        except errors.NotServed:
            raise
        except (errors.Conflict, errors.NotFound):
            return
        log.info("%s is empty, and is removed from the fleet", member.name)

    # -- whether it may begin -------------------------------------------------

    async def _admit(self, member: Member, others: Sequence[Member]) -> bool:
        """Whether a wish may be carried out; says why not, or that it begins."""
        wish = member.drain
        if wish is None or not self.state.ready:
            return False
        if not (member.heard or wish.deleted or _never_joined(member)):
            self.reports.refuse(
                member, "NotHeard", f"It begins when the cluster is reachable: {_why(member)}."
            )
            return False
        total = sum((await self._shares_in(member.name)).values())
        clusters: set[str] = {member.name, *(other.name for other in others)}
        left = [] if wish.force else await self._without_place(clusters)
        if left:
            note = drain_words.of_unplaced(left, remove=wish.remove)
            self.reports.refuse(member, DRAIN_REFUSED, note)
            return False
        if member.drain != wish:
            return False
        begun = {"since": self.clock.rfc3339(), "copies": total, "left": total}
        note = f"{drain_words.copies(total)} are to leave{drain_words.forced(wish)}."
        member.vitals.observe_drain(drain_words.condition(member, TRUE, "Emptying", note), begun)
        if not wish.deleted:  # the Events of its removal say it
            self.events.drain(member, "Draining", note)
        self.reports.tell(member)
        return True

    async def _without_place(self, clusters: set[str]) -> list[Rehearsed]:
        """The workloads that would have no other place if these clusters were empty, the most
        copies first. A workload that was found to be stuck in a forced drain delays no other
        drain."""
        snapshot, commitments = self.state.snapshot(self.clock), self.state.commitments.copy()
        numbers = itertools.count(self.state.issued + 1)
        rehearsed: list[Rehearsed] = []
        entry_of = functools.partial(trial_entry, self.state, self.placing)
        entries = drill.in_order(
            entry for record in await self._holders(clusters) if (entry := entry_of(record.key))
        )
        for start in range(0, len(entries), CHUNK):
            some = entries[start : start + CHUNK]
            rehearsed += evacuation.rehearse(
                some, snapshot, commitments, clusters, numbers.__next__, others=entry_of
            )
            await asyncio.sleep(0)
        left = [
            unplaced for unplaced in rehearsed if unplaced.stays and unplaced.key not in self._stuck
        ]
        return sorted(left, key=lambda unplaced: (-unplaced.stays, unplaced.key))

    # -- workloads there -----------------------------------------------------

    async def _records(self) -> AsyncIterator[Record]:
        """All decisions. Other work gets its turn while they are looked at; a decision that is
        removed meanwhile is left out."""
        records = self.state.records
        async for name in in_slices(records.listed(), self.clock):
            if (record := records.get(name)) is not None:
                yield record

    async def _holders(self, clusters: Iterable[str]) -> list[Record]:
        names = frozenset(clusters)
        return [record async for record in self._records() if not names.isdisjoint(record.clusters)]

    def _workload(self, record: Record) -> Workload | None:
        """The workload of a decision; None when it is gone or goes."""
        workload = self.state.workloads.get(record.key)
        if workload is None or workload.uid != record.workload_uid or workload.deleting:
            return None
        return None if record.deleting else workload

    async def _shares_in(self, cluster: str) -> Counter[WorkloadKey]:
        """Copies that decisions give a cluster."""
        shares: Counter[WorkloadKey] = Counter()
        for record in await self._holders([cluster]):
            workload, share = self._workload(record), record.share_of(cluster)
            if workload is not None and share is not None:
                done = progress.done(self.state, workload, record)
                shares[record.key] += copies_of(remaining(share, done))
        return shares

    async def _occupants(self, drained: Mapping[str, Drained]) -> dict[WorkloadKey, Occupant]:
        """Everybody with copies in these clusters; fills what each of them holds."""
        occupants: dict[WorkloadKey, Occupant] = {}
        lost = (
            name
            for name, member in self.state.members.items()
            if (member.gone or member.health is Health.UNREACHABLE)
            and member.removal is Removal.NONE
        )
        look = _Look(drained, frozenset(lost))
        async for record in self._records():
            if drained.keys().isdisjoint(record.clusters):
                continue
            workload = self._workload(record)
            if workload is None or workload.ask is None:
                continue
            occupants[record.key] = self._occupant(record, workload, look)
        return occupants

    def _occupant(self, record: Record, workload: Workload, look: _Look) -> Occupant:
        ask, key, slices = workload.ask, record.key, self.state.slices_of(record.key)
        assert ask is not None
        copies = under_way = 0
        # what a job set has done runs no more, and need not go
        done = progress.done(self.state, workload, record)
        for name, cluster in look.drained.items():
            share, seen = record.share_of(name), slices.get(name)
            given = copies_of(remaining(share, done)) if share is not None else 0
            if share is not None and cluster.member.removal is not Removal.NONE:
                given = max(given, 1)  # a decision has to drop the share itself
            there = 0
            is_there = seen is not None and seen.serves(self.state.options.fleet, workload.uid)
            if seen is not None and is_there and not cluster.gone:
                jobs = ask.unit is Unit.SHARDS
                there = seen.observation.active if jobs else seen.observation.desired
                there = max(there, 1) if share is None else there  # the slice itself has to go
            goes = max(there - given, 0)
            copies, under_way = copies + given, under_way + goes
            cluster.under_way += goes
            if given or goes:
                cluster.copies[key] = given + goes
        seen_all = slices.values()
        ready = sum(seen.observation.ready or seen.observation.active for seen in seen_all)
        return Occupant(
            key=key,
            tier=ask.tier,
            priority=ask.priority,
            copies=copies,
            under_way=under_way,
            ready=ready,
            wanted=sum(copies_of(share) for share in record.shares),
            whole=ask.unit is Unit.SHARDS,
            stays=self._stays(record, workload, ask, look) if copies else "",
        )

    def _stays(self, record: Record, workload: Workload, ask: Ask, look: _Look) -> str:
        """Why it may not leave now; "" when it may."""
        key = record.key
        if ask.suspended:
            return "it is suspended, and is left as it is"
        if self.state.refusal(workload) is not None:
            return "it may not run as it is written, and is left as it is"
        here = [look.drained[name] for name in sorted(look.drained.keys() & record.clusters)]
        silent = [cluster.member for cluster in here if not (cluster.member.heard or cluster.gone)]
        if silent:
            return f"{silent[0].name} is unreachable: {_why(silent[0])}"
        for name in sorted(record.clusters & look.lost):
            if why := self._held(workload, self.state.members[name]):
                return why
        if record.terms.unit is Unit.SHARDS:
            until_s = max(
                0.0 if cluster.gone else cluster.since_s + _finish_s(cluster.member)
                for cluster in here
            )
            if until_s > self.clock.now():
                until = clocks.stamp(until_s)
                return f"its shards may run on until {until} (spec.drain.jobsFinishSeconds)"
        if self._in_hand(key):
            return "its turn has come"
        if self._stuck.get(key, 0.0) > self.clock.monotonic():
            why = record.terms.message.removesuffix(".")
            return f"it has no other place yet{f': {why}' if why else ''}"
        return ""

    def _held(self, workload: Workload, member: Member) -> str:
        """Why it does not leave a lost cluster by its policy, its kind or the governor; "" when
        none of them is against it."""
        ask = self.placing.asked(workload)
        if ask is None:
            return ""
        if ask.policy.failover.when is FailoverWhen.NEVER:
            return "its policy lets it leave no lost cluster (failover.when is Never)"
        ended = membercluster.fenced(member.obj) or (ask.guarded and member.vitals.lapsed)
        if ask.exclusive and not ended:
            return governor.ONLY_LAPSED if ask.guarded else governor.ONLY_FENCED
        if member.dead:
            return ""
        if not (ask.overlaps or ask.exclusive):
            return governor.ONLY_DEAD
        return self.governing.holds(ask, workload.key, member)

    # -- turns ----------------------------------------------------------------

    def _bring_home(self, a_minute: int, now_s: float) -> bool:
        """Lets copies go back to clusters that they left, when nothing else moves. Returns whether
        any goes."""
        given = [*self._history, *self._granted.values()]
        turns = self.returning.turns(a_minute, given, now_s, self._granted)
        for turn in turns:
            self._granted[turn.key] = Moved(now_s, turn.copies)
            self._look_at(turn.key)
        return bool(turns)

    def _grant(self, paced: EvacuationPlan, now_s: float) -> None:
        for turn in paced.turns:
            self._granted[turn.key] = Moved(now_s, turn.copies)
            self.placing.moves.grant(turn.key, turn.copies)
            self._look_at(turn.key)

    def _look_at(self, key: WorkloadKey) -> None:
        """Queues it, unless its last decision was refused: it comes again by itself then, later
        with each refusal, and finds its turn."""
        if not self.placing.queue.backs_off(key):
            self.placing.queue.add(key)

    def _in_hand(self, key: WorkloadKey) -> bool:
        """Whether it has its turn, or a decision on it is being written: until it is recorded, its
        copies seem to be where they were."""
        return key in self._granted or self.placing.queue.runs(key)

    def _revoke(self) -> None:
        for key in self._granted:
            self.placing.moves.grant(key, 0)
            self.placing.moves.send_home(key, "", 0)
        self._granted.clear()

    def _moved(self, key: WorkloadKey, copies: int) -> None:
        """A decision has used its turn. 0: it had no use for it, because nowhere else is a place.
        Less than 0: it could not be written."""
        now_s = self.clock.monotonic()
        self._granted.pop(key, None)
        if copies:
            self._history.append(Moved(now_s, copies))
            self._stuck.pop(key, None)
            self._count(key, copies)
            self.returning.moved(key)
        elif not self.returning.stays(key):
            self._stuck[key] = now_s + STUCK_S

    def _count(self, key: WorkloadKey, copies: int) -> None:
        workload = self.state.workloads.get(key)
        record = self.state.record_of(workload) if workload is not None else None
        held = [self.state.members.get(name) for name in (record.clusters if record else ())]
        lost = [member for member in held if member is not None and member.gone]
        home = self.returning.is_sent(key)
        if record is not None and (lost or home):
            self.governing.moved(record)
        metrics = self.state.metrics
        if metrics is None or copies <= 0:
            return
        reason = "FailedBack" if home else "FailedOver" if lost else "Drained"
        metrics.child("federator_evacuated_copies_total", reason).inc(copies)
        if not home and any(member.unreachable for member in lost):
            metrics.child("federator_duplicate_risk_total").inc(copies)

    def _moved_before(self) -> int:
        """Copies that drains moved within the last minute, perhaps by another leader. A decision
        that names a drain among its causes counts whole: what it moved is not told apart."""
        since_s = self.clock.now() - evacuation.MINUTE_S
        return sum(
            record.terms.moved
            for record in self.state.policy_use.moved_since(since_s)
            if any(cause.startswith((DRAIN, FAILOVER, FAILBACK)) for cause in record.terms.causes)
        )

    def _forget_before(self, since_s: float) -> None:
        while self._history and self._history[0].at_s <= since_s:
            self._history.popleft()
        now_s = self.clock.monotonic()
        self._stuck = {key: until for key, until in self._stuck.items() if until > now_s}


def _never_joined(member: Member) -> bool:
    """Whether it is to be removed and the hub never reached it: it holds nothing."""
    wish = member.drain
    return wish is not None and wish.remove and not member.identity


def _is_lost(member: Member) -> bool:
    """Whether nothing that it holds is waited for: it is lost, or deleted and unreachable, because
    the governor judges no deleted cluster."""
    unreachable = member.link.reachability.state in (Reachability.UNREACHABLE, Reachability.REFUSED)
    return member.gone or (unreachable and member.removal is not Removal.NONE)


def _finish_s(member: Member) -> int:
    wish = member.drain
    return wish.jobs_finish_s if wish is not None else 0


def _why(member: Member) -> str:
    return member.readiness()[1].removesuffix(".") or "its state is not known yet"
