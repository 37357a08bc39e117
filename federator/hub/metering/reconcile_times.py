"""Reconcile latency, the service level of the platform: how long after the hub heard of a change
it was decided, written to every member, made native there, and ready.

    heard --> decided --> written --> made --> ready

Every step is measured from the first moment, so that the last one is the whole. A change begins
when a workload appears or asks for something else, and only while this hub leads: what a new leader
reads at its start was heard by another.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federator.hub.cache.rollout_view import RolloutView
from federator.hub.cache.router import Changed
from federator.hub.cache.state import HubState
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kube.clock import Clock
from federator.model.ask import Unit
from federator.model.names import WorkloadKey, is_probe

MOST = 10_000
"""Changes that are followed at once; the memory for them is bounded, and of a flood of changes the
first are as good a sample as any."""


class Step(StrEnum):
    """How far a change has come."""

    DECIDED = "decided"
    """A decision made for it is on the host."""
    WRITTEN = "written"
    """Every cluster with a share shows a slice that was rendered from it."""
    MADE = "made"
    """Every member process has made the native objects of that slice, and their controllers have
    taken note of them."""
    READY = "ready"
    """All copies are ready. Not measured for shards: when they are done is the user's affair."""


STEPS: Final = tuple(Step)


@dataclass(slots=True)
class Change:
    """A change that has not come to its end."""

    uid: str
    generation: int
    heard_s: float
    steps: int = 0
    """How many of `STEPS` it has taken."""


class ReconcileTimes:
    """Follows changes. Called on the event loop for whatever changes of a workload: a workload
    without an open change costs a look into a dict."""

    def __init__(self, state: HubState, view: RolloutView, *, clock: Clock) -> None:
        self._state = state
        self._view = view
        self._clock = clock
        self._open: dict[WorkloadKey, Change] = {}
        state.signals.note.append(self.note)
        if state.metrics is not None:
            # A series that begins at 1 has no increase for Prometheus: each begins at 0.
            for kind in (row.kind for row in registry.EXPANDED):
                last = _last_step(registry.verbs_of(kind).unit)
                for step in STEPS[: STEPS.index(last) + 1]:
                    state.metrics.child("federator_reconcile_seconds", kind, step)

    def note(self, what: Changed, key: WorkloadKey) -> None:
        """Something changed about a workload."""
        if is_probe(key):
            return  # of a broken cluster it tells nothing of what users wait for
        if what is Changed.ASKED:
            self._heard(key)
        elif key in self._open:
            self._look(key)

    def waiting(self) -> dict[tuple[str, Step], int]:
        """(kind, step) -> number of changes that wait for this step."""
        return Counter((key.kind, STEPS[change.steps]) for key, change in self._open.items())

    def oldest_s(self) -> dict[Step, float]:
        """Step -> age, in seconds, of the oldest change that waits for this step."""
        now_s, ages = self._clock.monotonic(), dict.fromkeys(STEPS, 0.0)
        for change in self._open.values():
            step = STEPS[change.steps]
            ages[step] = max(ages[step], now_s - change.heard_s)
        return ages

    def clear(self) -> None:
        """This hub no longer leads: another one carries the changes on."""
        self._open.clear()

    def _heard(self, key: WorkloadKey) -> None:
        workload = self._state.workloads.get(key)
        if not self._state.ready or workload is None or not _measurable(workload):
            self._open.pop(key, None)
            return
        if len(self._open) < MOST or key in self._open:
            now_s = self._clock.monotonic()
            self._open[key] = Change(workload.uid, workload.generation, now_s)

    def _look(self, key: WorkloadKey) -> None:
        """Takes every step that the workload has come to, and drops what ends or cannot end."""
        change, workload = self._open[key], self._state.workloads.get(key)
        if workload is None or workload.uid != change.uid or not _measurable(workload):
            del self._open[key]
            return
        record = self._state.record_of(workload)
        if record is None or not self._state.is_current(workload, record):
            return
        last = _last_step(workload.verbs.unit)
        while self._has_taken(STEPS[change.steps], workload, record):
            step = STEPS[change.steps]
            change.steps += 1
            if self._state.metrics is not None:
                took_s = self._clock.monotonic() - change.heard_s
                self._state.metrics.child("federator_reconcile_seconds", key.kind, step).observe(
                    took_s
                )
            if step is last or record.terms.shortfall > 0:
                # What lacks room waits for the fleet, not for us; `federator_workloads` counts it.
                del self._open[key]
                return

    def _has_taken(self, step: Step, workload: Workload, record: Record) -> bool:
        if step is Step.DECIDED:
            return True
        slices = self._state.slices_of(workload.key)
        served = self._state.serving(workload, record)
        for share in record.shares:
            member, seen = self._state.holder(share.cluster), slices.get(share.cluster)
            if member is None or seen is None:
                return False
            if not self._view.compared(member, served, share, seen).current:
                return False
            report = seen.observation
            if step is not Step.WRITTEN and report.observed_generation < report.generation:
                return False
            if step is Step.READY and not seen.rolled_out:
                return False
        return True


def _last_step(unit: Unit) -> Step:
    return Step.MADE if unit is Unit.SHARDS else Step.READY


def _measurable(workload: Workload) -> bool:
    ask = workload.ask
    return ask is not None and not ask.suspended and not workload.deleting
