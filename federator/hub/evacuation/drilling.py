"""The drill that never ends: what would the loss of each cluster come to now, as metrics.

One cluster after the other, a second of them at a time, in the snapshot worker; then again, but
not more than once a minute. Without a worker in slices of a few milliseconds on the event loop, of
which it takes a small part. `federator drill` asks the same at once.
"""

import asyncio
import functools
import heapq
import itertools
import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from federator.hub.cache.state import HubState
from federator.hub.host.controller import Controller, Tools
from federator.hub.placing.placer import Placing
from federator.model.ask import Tier
from federator.model.fleet import FleetSnapshot
from federator.model.names import WorkloadKey, is_probe
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import DrillResult, Loss
from federator.scheduling.entry import Entry
from federator.scheduling.evacuation import Rehearsed

log = logging.getLogger(__name__)

ROUND_S: Final = 60.0
"""Seconds between two rounds over all clusters, or longer where one takes longer."""
LISTED: Final = 256
"""Records that are looked through before other work gets its turn."""
REST_S: Final = 0.25
"""Seconds of other work's turn, or longer after a slice that took long."""
SHARE: Final = 0.01
"""The part of a processor that drills may take on the event loop."""
WORKER_SHARE: Final = 0.015
"""The part of the time in which the worker may drill. A hub at rest takes at most a fiftieth of a
processor (H1 in docs/benchmarks.md), with all else that it does."""
ANSWER_S: Final = 1.0
"""Seconds for which losses are asked together: a question costs the hub a look at every member, so
with many of them one loss is not worth it."""
TOGETHER: Final = 256
"""Losses of one question, however little time they take."""
WAIT_S: Final = 45.0
"""A hub with a worker does not drill before: it has just begun to lead and has more urgent things
to do, and then its worker runs."""
FRESH_S: Final = 10.0
"""So old may the fleet be that a drill on the event loop reads."""
PUBLISH_S: Final = 1.0
"""Seconds between two publications of the figures of all clusters, within a round."""
UNPLACEABLE: Final = "federator_drill_unplaceable_replicas"
RECOVERY: Final = "federator_drill_recovery_seconds"
Elsewhere = Callable[[Sequence[Loss]], Awaitable[Sequence[DrillResult] | None]]
"""Drills the first of these losses, as many as it has time for; None where that is not possible
now."""


def trial_entry(state: HubState, placing: Placing, key: WorkloadKey) -> Entry | None:
    """A workload as it is now, for a rehearsal; None when there is nothing to move. A probe has no
    other place, and ends with the cluster that it probes."""
    workload = state.workloads.get(key)
    if workload is None or workload.deleting or is_probe(key):
        return None
    record, ask = state.record_of(workload), placing.asked(workload)
    if record is None or record.deleting or ask is None or ask.suspended:
        return None
    standing, refused = placing.as_now(workload), state.refusal(workload)
    return Entry(ask=ask, standing=standing, refused=refused)


class Drilling(Controller):
    """Runs drills while this hub leads."""

    def __init__(self, tools: Tools, placing: Placing) -> None:
        super().__init__(tools)
        self._placing = placing
        self._entry = functools.partial(trial_entry, self.state, placing)
        self._outcomes: dict[str, DrillResult] = {}
        self._published_s = -math.inf
        self._together = 1
        """Losses of the next question to the worker."""
        self._fleet: FleetSnapshot | None = None
        """The fleet that drills on the event loop read, until it is too old."""
        self._fleet_s = -math.inf
        self.elsewhere: Elsewhere | None = None
        """Drills next to the event loop; None while there is no worker."""

    @property
    def outcomes(self) -> Mapping[str, DrillResult]:
        """What the last drill of each cluster came to, by its name."""
        return self._outcomes

    async def run(self) -> None:
        """Until cancelled; then the figures end, for another hub publishes them."""
        if self.state.metrics is None:
            return
        try:
            if self.elsewhere is not None:
                await asyncio.sleep(WAIT_S)
            while True:
                begun_s = self.clock.monotonic()
                await self.drill(drill.losses(self._snapshot()))
                left_s = ROUND_S - (self.clock.monotonic() - begun_s)
                await asyncio.sleep(max(left_s, REST_S))
        finally:
            self._outcomes = {}
            self._fleet = None
            self._publish()

    async def drill(self, losses: Sequence[Loss]) -> None:
        """One round: every loss in turn, and its figures."""
        for name in self._outcomes.keys() - self.state.members.keys():
            del self._outcomes[name]
        done = 0
        while done < len(losses):
            outcomes = await self._some(losses[done : done + TOGETHER])
            for outcome in outcomes:
                self._note(outcome)
            done += len(outcomes)
            if self.clock.monotonic() - self._published_s >= PUBLISH_S:
                self._publish()
        self._publish()

    def _note(self, outcome: DrillResult) -> None:
        name, before = outcome.loss.name, self._outcomes.get(outcome.loss.name)
        self._outcomes[name] = outcome
        lacking = sum(unplaced.copies for unplaced in outcome.unplaced)
        was = sum(unplaced.copies for unplaced in before.unplaced) if before is not None else 0
        if bool(lacking) != bool(was):
            log.info("drilled", extra={"cluster": name, "unplaceable": lacking, "before": was})

    async def outcome(self, loss: Loss) -> DrillResult:
        """What this loss would come to, on the fleet as it is now."""
        return (await self._some([loss]))[0]

    async def _some(self, losses: Sequence[Loss]) -> Sequence[DrillResult]:
        """What the first of these losses would come to: as many as the worker answers; one on the
        event loop if there is no worker, or the loss is too large for one answer of it."""
        if self.elsewhere is not None:
            some, begun_s = losses[: self._together], self.clock.monotonic()
            outcomes = await self.elsewhere(some)
            took_s = self.clock.monotonic() - begun_s
            if outcomes:
                fit = int(len(outcomes) * ANSWER_S / took_s) if took_s > 0 else TOGETHER
                self._together = max(1, min(fit, 2 * len(outcomes), TOGETHER))
                await asyncio.sleep(max(REST_S, took_s / WORKER_SHARE))
                return outcomes
            # Without an answer too: a worker that tried in vain has taken the time.
            await asyncio.sleep(took_s / WORKER_SHARE)
        return [await self._in_slices(losses[0])]

    def _snapshot(self) -> FleetSnapshot:
        """The fleet, as it was a moment ago: with a thousand members a look at all of them takes
        longer than the drill of most losses."""
        now_s = self.clock.monotonic()
        if self._fleet is None or now_s - self._fleet_s >= FRESH_S:
            self._fleet, self._fleet_s = self.state.snapshot(self.clock), now_s
        return self._fleet

    async def _in_slices(self, loss: Loss) -> DrillResult:
        """On the event loop. A workload is looked at when its turn comes, so that a hundred
        thousand of them are not kept until then."""
        tally, clusters = drill.Tally(loss), frozenset(loss.clusters)
        time = self.clock.processor
        begun_s, holders = time(), await self._holders(clusters)
        if (first := next(holders, None)) is not None:
            snapshot, commitments = self._snapshot(), self.state.commitments.copy()
            numbers = itertools.count(self.state.issued + 1)

            def rehearse(entries: Sequence[Entry]) -> Sequence[Rehearsed]:
                return evacuation.rehearse(
                    entries, snapshot, commitments, clusters, numbers.__next__, others=self._entry
                )

            every = itertools.chain((first,), holders)
            for took_s in drill.in_slices(every, self._entry, rehearse, tally, time):
                await asyncio.sleep(max(REST_S, took_s / SHARE))
        else:
            await asyncio.sleep((time() - begun_s) / SHARE)
        return tally.outcome(self.state.options.evacuated_copies_a_minute)

    async def _holders(self, clusters: frozenset[str]) -> Iterator[WorkloadKey]:
        """The workloads with anything in these clusters, in the order of an evacuation."""
        # in groups of equal rank: of a hundred thousand nothing is kept here but their keys
        ranked: defaultdict[tuple[int, int], list[list[WorkloadKey]]] = defaultdict(list)
        names, time = iter(list(self.state.records)), self.clock.processor
        while some := list(itertools.islice(names, LISTED)):
            begun_s = time()
            group: defaultdict[tuple[int, int], list[WorkloadKey]] = defaultdict(list)
            for name in some:
                record = self.state.records.get(name)
                if record is None or clusters.isdisjoint(record.clusters):
                    continue
                workload = self.state.workloads.get(record.key)
                if workload is None or workload.ask is None:
                    continue
                if workload.uid == record.workload_uid:
                    group[drill.rank(workload.ask)].append(record.key)
            # Sorted bit by bit, and merged as they are read: all at once would take long.
            for rank, keys in group.items():
                ranked[rank].append(sorted(keys))
            await asyncio.sleep((time() - begun_s) / SHARE)
        return itertools.chain.from_iterable(heapq.merge(*ranked[rank]) for rank in sorted(ranked))

    def _publish(self) -> None:
        if self.state.metrics is None:
            return
        self._published_s = self.clock.monotonic()
        self.state.metrics.publish(
            {
                UNPLACEABLE: {
                    (name, tier.value): float(outcome.missing(tier))
                    for name, outcome in self._outcomes.items()
                    for tier in Tier
                },
                RECOVERY: {(name,): outcome.recovery_s for name, outcome in self._outcomes.items()},
            }
        )
