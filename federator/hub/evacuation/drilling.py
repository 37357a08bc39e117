"""The drill that never ends: what would the loss of each cluster come to now, as metrics.

One cluster after the other in the snapshot worker; then again, but not more than once a minute.
Without a worker in slices of a few milliseconds on the event loop, of which it takes a small part.
`federator drill` asks the same at once.
"""

import asyncio
import functools
import heapq
import itertools
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from federator.hub.cache.state import HubState
from federator.hub.placing.placer import Placing
from federator.kube.clock import Clock
from federator.model.ask import Tier
from federator.model.names import WorkloadKey, is_probe
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import Loss, Outcome
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
WORKER_SHARE: Final = 0.05
"""The part of the time in which the worker may drill."""
UNPLACEABLE: Final = "federator_drill_unplaceable_replicas"
RECOVERY: Final = "federator_drill_recovery_seconds"
Elsewhere = Callable[[Loss], Awaitable[Outcome | None]]
"""Drills one loss; None where that is not possible now."""


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


class Drilling:
    """Runs drills while this hub leads."""

    def __init__(self, state: HubState, placing: Placing, *, clock: Clock) -> None:
        self._state = state
        self._placing = placing
        self._clock = clock
        self._entry = functools.partial(trial_entry, state, placing)
        self._outcomes: dict[str, Outcome] = {}
        self.elsewhere: Elsewhere | None = None
        """Drills one loss next to the event loop; None while there is no worker."""

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What the last drill of each cluster came to, by its name."""
        return self._outcomes

    async def run(self) -> None:
        """Until cancelled; then the figures end, for another hub publishes them."""
        if self._state.metrics is None:
            return
        try:
            while True:
                begun_s = self._clock.monotonic()
                for loss in drill.losses(self._state.snapshot(self._clock)):
                    await self._drill(loss)
                left_s = ROUND_S - (self._clock.monotonic() - begun_s)
                await asyncio.sleep(max(left_s, REST_S))
        finally:
            self._outcomes.clear()
            self._publish()

    async def _drill(self, loss: Loss) -> None:
        outcome = await self.outcome(loss)
        before = self._outcomes.get(loss.name)
        self._outcomes = {
            name: earlier for name, earlier in self._outcomes.items() if name in self._state.members
        } | {loss.name: outcome}
        self._publish()
        lacking = sum(unplaced.copies for unplaced in outcome.unplaced)
        was = sum(unplaced.copies for unplaced in before.unplaced) if before is not None else 0
        if bool(lacking) != bool(was):
            log.info("drilled", extra={"cluster": loss.name, "unplaceable": lacking, "before": was})

    async def outcome(self, loss: Loss) -> Outcome:
        """What this loss would come to, on the fleet as it is now."""
        if self.elsewhere is not None:
            begun_s = self._clock.monotonic()
            outcome = await self.elsewhere(loss)
            if outcome is not None:
                took_s = self._clock.monotonic() - begun_s
                await asyncio.sleep(max(REST_S, took_s / WORKER_SHARE))
                return outcome
        return await self._in_slices(loss)

    async def _in_slices(self, loss: Loss) -> Outcome:
        """The same on the event loop. A workload is looked at when its turn comes, so that a
        hundred thousand of them are not kept until then."""
        snapshot, commitments = self._state.snapshot(self._clock), self._state.commitments.copy()
        numbers = itertools.count(self._state.issued + 1)
        tally, clusters = drill.Tally(loss), frozenset(loss.clusters)

        def rehearse(entries: Sequence[Entry]) -> Sequence[Rehearsed]:
            return evacuation.rehearse(
                entries, snapshot, commitments, clusters, numbers.__next__, others=self._entry
            )

        holders, time = await self._holders(clusters), self._clock.processor
        for took_s in drill.in_slices(holders, self._entry, rehearse, tally, time):
            await asyncio.sleep(max(REST_S, took_s / SHARE))
        return tally.outcome(self._state.options.evacuated_copies_a_minute)

    async def _holders(self, clusters: frozenset[str]) -> Iterator[WorkloadKey]:
        """The workloads with anything in these clusters, in the order of an evacuation."""
        # in groups of equal rank: of a hundred thousand nothing is kept here but their keys
        ranked: defaultdict[tuple[int, int], list[list[WorkloadKey]]] = defaultdict(list)
        names, time = iter(list(self._state.records)), self._clock.processor
        while some := list(itertools.islice(names, LISTED)):
            begun_s = time()
            group: defaultdict[tuple[int, int], list[WorkloadKey]] = defaultdict(list)
            for name in some:
                record = self._state.records.get(name)
                if record is None or clusters.isdisjoint(record.clusters):
                    continue
                workload = self._state.workloads.get(record.key)
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
        if self._state.metrics is None:
            return
        self._state.metrics.publish(
            {
                UNPLACEABLE: {
                    (name, tier.value): float(outcome.missing(tier))
                    for name, outcome in self._outcomes.items()
                    for tier in Tier
                },
                RECOVERY: {(name,): outcome.recovery_s for name, outcome in self._outcomes.items()},
            }
        )
