"""Writes PlacementInvariant.status: whether each invariant holds now, with an Event when that
changes and a metric.

What workloads hold is compared with the invariants after decisions, workloads, clusters or
invariants have changed, in one sweep over all workloads: a few thousand at a time, and never more
than a twentieth of the time of the event loop. Whether the fleet survives a loss is asked of a
drill, at most once a minute.
"""

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api.placement import placementinvariant
from federator.hub.cache import policying
from federator.hub.cache.router import Changed, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube import errors
from federator.kube.clock import in_slices
from federator.model.fleet import FleetSnapshot, copies_of
from federator.model.kubernetes import diffs
from federator.model.rules.invariant import Invariant, Survives
from federator.placement.policy import holds
from federator.placement.selection import invariants
from federator.scheduling import drill
from federator.scheduling.drill import DrillResult, Loss
from federator.status import conditions
from federator.status.conditions import Condition

log = logging.getLogger(__name__)

SETTLE_S: Final = 2.0
"""Changes that come within so many seconds are looked at together."""
REST: Final = 20.0
"""A sweep is followed by so many times the duration of its comparing without one. How long the host
takes for the statuses does not count."""
DRILL_S: Final = 60.0
"""Seconds between two drills of the losses that invariants name."""
RETRY_S: Final = 5.0
BREACHED: Final = "federator_invariant_breached_workloads"
_HEARD: Final = frozenset(
    {Changed.ASKED, Changed.GONE, Changed.DECISION, Changed.WRITTEN, Changed.ENDED}
)
Row = Mapping[str, Any]


@dataclass(slots=True)
class _Counted:
    """What a sweep found of one invariant."""

    workloads: int = 0
    breached: int = 0
    rows: list[Row] = field(default_factory=list)

    def add(self, rows: list[Row]) -> None:
        self.workloads += 1
        self.breached += bool(rows)
        self.rows += rows
        if len(self.rows) > 4 * placementinvariant.BREACHES_MAX:
            self.rows = self.largest()

    def largest(self) -> list[Row]:
        most = placementinvariant.BREACHES_MAX
        return heapq.nsmallest(most, self.rows, key=placementinvariant.order)


class InvariantStatus(Controller):
    """Works while this hub leads. `lose`: what a loss would come to."""

    def __init__(self, tools: Tools, *, lose: Callable[[Loss], Awaitable[DrillResult]]) -> None:
        super().__init__(tools)
        self._lose = lose
        self._wake, self._drill = asyncio.Event(), asyncio.Event()
        self._losses: dict[tuple[str, int], list[DrillResult]] = {}
        """(label, number of domains) -> what each of their losses would come to."""
        signals = self.state.signals
        signals.invariant.append(self._invariant_changed)
        signals.note.append(self._changed)
        for turn in (MemberTurn.REPORT, MemberTurn.REQUEUE):
            signals.on_member(turn, lambda _: self._stir())

    def _invariant_changed(self) -> None:
        self._wake.set()
        self._drill.set()

    def _changed(self, what: Changed, _: Any) -> None:
        if what in _HEARD:
            self._stir()

    def _stir(self) -> None:
        if self.state.invariants:
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled; then the figures end, for another hub publishes them."""
        self._wake.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sweeps(), name="sweeps of invariants")
                group.create_task(self._drills(), name="drills of invariants")
        finally:
            self._losses.clear()
            self._publish({})

    async def _sweeps(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_S)
            self._wake.clear()
            begun_s, snapshot = self.clock.monotonic(), self.state.snapshot(self.clock)
            compared = await self._compared(snapshot)
            compared_s = self.clock.monotonic() - begun_s
            if not await self._written(compared, snapshot):
                self._wake.set()
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(REST * compared_s)

    async def _compared(self, snapshot: FleetSnapshot) -> list[tuple[Invariant, _Counted]]:
        """Looks at every workload."""
        state = self.state
        rules = sorted(state.invariants.values(), key=lambda each: each.name)
        counted = {invariant.name: _Counted() for invariant in rules}
        async for workload in in_slices(list(state.workloads.values()), self.clock):
            for invariant in rules:
                if workload.ask is not None and invariant.selects(workload.ask):
                    rows = list(self._rows(invariant, workload, snapshot))
                    counted[invariant.name].add(rows)
        self._publish(counted)
        return [(invariant, counted[invariant.name]) for invariant in rules]

    async def _written(
        self, compared: Sequence[tuple[Invariant, _Counted]], snapshot: FleetSnapshot
    ) -> bool:
        """Writes what is new. Returns whether all was written."""
        done = True
        for invariant, counted in compared:
            try:
                await self._write(invariant, counted, snapshot)
            except errors.ApiError as trouble:
                log.info("the status of invariant %s waits: %s", invariant.name, trouble)
                done = False
        return done

    def _rows(
        self, invariant: Invariant, workload: Workload, snapshot: FleetSnapshot
    ) -> Iterator[Row]:
        """What of a workload breaks the invariant."""
        rule, key = invariant.rule, workload.key
        if isinstance(rule, Survives):
            yield from self._lost(rule, workload)
            return
        record = self.state.record_of(workload)
        if record is None or workload.ask is None or rule is None:
            return
        copies = {share.cluster: copies_of(share) for share in record.shares}
        breaches = holds.breaches(rule, workload.ask.at_once, copies, snapshot)
        if not breaches:
            return
        ask = policying.asked(workload, self.state.rules, self.state.bindings())
        if ask is None or not invariants.speaks_of(ask):
            return
        for breach in breaches:
            yield placementinvariant.row(str(key), breach.domain, breach.copies, breach.most)

    def _lost(self, rule: Survives, workload: Workload) -> Iterator[Row]:
        for outcome in self._losses.get((rule.topology_key, rule.loss), ()):
            for lacking in outcome.unplaced:
                if lacking.key == workload.key and lacking.tier in rule.tiers:
                    named = str(lacking.key), outcome.loss.name
                    yield placementinvariant.row(*named, lacking.copies)

    async def _write(
        self, invariant: Invariant, counted: _Counted, snapshot: FleetSnapshot
    ) -> None:
        """Brings one status up to date. Raises ApiError."""
        ref = registry.KINDS[placementinvariant.KIND].ref("", invariant.name)
        try:
            obj = await self.host.get(ref)
        except errors.NotFound:
            return
        meta, live = obj["metadata"], obj.get("status") or {}
        if meta.get("uid") != invariant.uid or meta.get("generation") != invariant.generation:
            return  # its watch brings the present one, and another sweep
        status = placementinvariant.to_status(
            invariant, counted.workloads, counted.breached, counted.largest()
        )
        wanted = self._conditions(invariant, counted, status["message"], snapshot)
        before = conditions.find(live.get("conditions"), placementinvariant.HOLDS) or {}
        status["conditions"] = conditions.merge(
            live.get("conditions"), wanted, self.clock.rfc3339(), placementinvariant.OWNED
        )
        if not (patch := diffs.replacement_patch(live, {**live, **status})):
            return
        body = {
            "metadata": {"uid": invariant.uid, "resourceVersion": meta["resourceVersion"]},
            "status": patch,
        }
        await self.host.patch(ref, body, subresource="status")
        self._announce(invariant, before, wanted[0])

    def _announce(self, invariant: Invariant, before: Mapping[str, Any], now: Condition) -> None:
        """An Event when it breaks, and when it holds again."""
        was = before.get("status")
        if now.status == conditions.FALSE and was != conditions.FALSE:
            self.events.about_invariant(invariant, now.reason, now.message, True)
        elif now.status == conditions.TRUE and was == conditions.FALSE:
            self.events.about_invariant(invariant, now.reason, "it holds again", False)

    def _conditions(
        self, invariant: Invariant, counted: _Counted, message: str, snapshot: FleetSnapshot
    ) -> tuple[Condition, Condition]:
        generation, rule = invariant.generation, invariant.rule
        why = holds.impossible(invariant, snapshot.clusters.values())
        if not why and isinstance(rule, Survives) and not drill.possible(snapshot, rule):
            why = f"spec.rule.survives: more than {drill.LOSSES_MAX} losses would have to be tried"
        valid = Condition(
            placementinvariant.VALID,
            conditions.FALSE if why else conditions.TRUE,
            "NeverHolds" if why else "Valid",
            why,
            generation,
        )
        tried = not isinstance(rule, Survives) or (rule.topology_key, rule.loss) in self._losses
        if counted.breached:
            said = conditions.FALSE, "InvariantBroken", message
        elif tried:
            said = conditions.TRUE, "InvariantHolds", ""
        else:
            said = conditions.UNKNOWN, "NotDrilled", "no drill of its losses has ended yet"
        return Condition(placementinvariant.HOLDS, *said, generation), valid

    def _publish(self, counted: Mapping[str, _Counted]) -> None:
        if self.state.metrics is not None:
            counts: dict[tuple[str, ...], float] = {
                (name,): float(each.breached) for name, each in counted.items()
            }
            self.state.metrics.publish({BREACHED: counts})

    # -- losses ---------------------------------------------------------------

    async def _drills(self) -> None:
        while True:
            self._drill.clear()
            await self._drill_losses()
            named = any(isinstance(each.rule, Survives) for each in self.state.invariants.values())
            try:
                async with asyncio.timeout(DRILL_S if named else None):
                    await self._drill.wait()
            except TimeoutError:
                continue

    async def _drill_losses(self) -> None:
        """Tries the losses that invariants name, on the fleet as it is now."""
        snapshot = self.state.snapshot(self.clock)
        rules = [
            invariant.rule
            for invariant in self.state.invariants.values()
            if isinstance(invariant.rule, Survives) and drill.possible(snapshot, invariant.rule)
        ]
        tried: dict[tuple[str, int], list[DrillResult]] = {}
        for key in dict.fromkeys((rule.topology_key, rule.loss) for rule in rules):
            tried[key] = [await self._lose(loss) for loss in drill.losses(snapshot, *key)]
        if tried != self._losses:
            self._losses = tried
            self._stir()
