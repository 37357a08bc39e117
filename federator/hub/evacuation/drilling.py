"""The drill that never ends: what would the loss of each cluster come to now, as metrics.

One cluster after the other, a few workloads at a time, so that it takes a small part of the event
loop; then again, but not more than once a minute. `federator drill` asks the same at once.
"""

import asyncio
import functools
import itertools
import logging
from collections import defaultdict
from typing import Final

from federator.hub.cache.state import HubState
from federator.hub.placing.placer import Placing
from federator.kube.clock import Clock
from federator.model.ask import Tier
from federator.model.names import WorkloadKey
from federator.scheduling import drill, evacuation
from federator.scheduling.drill import Loss, Outcome
from federator.scheduling.entry import Entry

log = logging.getLogger(__name__)

ROUND_S: Final = 60.0
"""Seconds between two rounds over all clusters, or longer where one takes longer."""
CHUNK: Final = 16
"""Workloads decided before other work gets its turn."""
REST_S: Final = 0.25
"""Seconds of other work's turn: a chunk takes ten to twenty milliseconds."""
UNPLACEABLE: Final = "federator_drill_unplaceable_replicas"
RECOVERY: Final = "federator_drill_recovery_seconds"


def trial_entry(state: HubState, placing: Placing, key: WorkloadKey) -> Entry | None:
    """A workload as it is now, for a rehearsal; None when there is nothing to move."""
    workload = state.workloads.get(key)
    if workload is None or workload.deleting:
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
        """What this loss would come to, on the fleet as it is now. A workload is looked at when its
        turn comes, so that a hundred thousand of them are not kept until then."""
        snapshot, commitments = self._state.snapshot(self._clock), self._state.commitments.copy()
        numbers = itertools.count(self._state.issued + 1)
        holders = await self._holders(frozenset(loss.clusters))
        tally = drill.Tally(loss)
        for start in range(0, len(holders), CHUNK):
            chunk = map(self._entry, holders[start : start + CHUNK])
            entries = [entry for entry in chunk if entry is not None]
            tally.add(
                evacuation.rehearse(
                    entries,
                    snapshot,
                    commitments,
                    loss.clusters,
                    numbers.__next__,
                    others=self._entry,
                ),
                {entry.key: entry.ask.tier for entry in entries},
            )
            await asyncio.sleep(REST_S)
        return tally.outcome(self._state.options.evacuated_copies_a_minute)

    async def _holders(self, clusters: frozenset[str]) -> list[WorkloadKey]:
        """The workloads with anything in these clusters, in the order of an evacuation."""
        # in groups of equal rank: of a hundred thousand nothing is kept here but their keys
        ranked: defaultdict[tuple[int, int], list[WorkloadKey]] = defaultdict(list)
        for number, record in enumerate(list(self._state.records.values()), 1):
            if number % (64 * CHUNK) == 0:
                await asyncio.sleep(0)
            workload = self._state.workloads.get(record.key)
            if workload is None or workload.ask is None or clusters.isdisjoint(record.clusters):
                continue
            if workload.uid == record.workload_uid:
                ranked[drill.rank(workload.ask)].append(record.key)
        return [key for group in sorted(ranked) for key in sorted(ranked[group])]

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
