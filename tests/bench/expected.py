"""X1, X1w, X1h: expected starts against what became of them, on a real trace.

As one federation Philly at half its capacity lets nobody wait, so every team stays in its own
cluster here. Some of those that begin to wait are asked when they may be expected to start, as
`federator queue` asks, and are scored when they have started: X1 how many outside the interval, X1w
how wide it was beside the wait. Jobs say to run between once and four times as long as they do; for
X1h they say nothing, and only what has ended before is known.
"""

import contextlib
import dataclasses
import heapq
import math
import os
import random
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from federator.hub.cache import policying
from federator.model.names import WorkloadKey
from federator.scheduling import ordering
from federator.scheduling.cycle import Cycle
from federator.scheduling.waiting import starts
from federator.scheduling.waiting.releases import Ran, Releases
from federator.scheduling.waiting.starts import Interval
from federator.simulate.demand import Work
from federator.simulate.engine import run
from federator.simulate.engine.simulation import Simulation
from federator.simulate.inputs import Inputs
from federator.simulate.scenario import loading
from tests.bench.harness import Result

PHILLY: Final = "philly-11-vcs"
JOBS: Final = 9_000
SEED: Final = 1
LONGEST: Final = 4.0
"""Times its run time that a job says at most."""
EVERY: Final = 8
"""Of those that begin to wait, every such one is asked."""
LIMIT_S: Final = 50.0


class _Enough(Exception):
    """The time is over; what has started by then is scored."""


@dataclasses.dataclass(slots=True)
class Scores:
    """What was expected of some works, and when they started."""

    asked: dict[WorkloadKey, tuple[float, Interval | None]] = dataclasses.field(
        default_factory=dict
    )
    """Work -> (when it was asked, the answer)."""
    started: dict[WorkloadKey, float] = dataclasses.field(default_factory=dict)
    releases: Releases = dataclasses.field(default_factory=Releases)
    _seen: set[WorkloadKey] = dataclasses.field(default_factory=set)
    _ends: list[tuple[float, str, int, int | None]] = dataclasses.field(default_factory=list)

    def watch(self, world: Simulation, made: Cycle) -> None:
        while self._ends and self._ends[0][0] <= world.now_s:
            _, project, ran_s, said_s = heapq.heappop(self._ends)
            self.releases.add(Ran(project, ran_s, said_s))
        for key in made.keys:
            running = world.live.get(key)
            if running is None:
                continue
            if running.start_s is not None:
                work = running.work
                runtime_s = work.runtime_s or 0
                end = (world.now_s + runtime_s, work.project, runtime_s, work.deadline_s)
                heapq.heappush(self._ends, end)
                if key in self.asked:
                    self.started.setdefault(key, float(running.start_s))
            elif running.missing and key not in self._seen:
                self._seen.add(key)
                if len(self._seen) % EVERY == 0:
                    self.asked[key] = float(world.now_s), self._answer(world, key)

    def _answer(self, world: Simulation, key: WorkloadKey) -> Interval | None:
        commitments, snapshot = world.commitments, world.snapshot()
        asks = [running.ask for running in world.live.values() if running.missing]
        ordered = ordering.order(asks, commitments, commitments.open(snapshot))
        missing = {ask.uid: ask.slots for ask in asks}
        answers = starts.expected(
            ordered, commitments, commitments.open(snapshot), missing, self.releases
        )
        return answers.get(world.live[key].ask.uid)

    def result(self) -> tuple[float, float, int]:
        """(share of the starts outside their interval in %, median width by wait, starts)."""
        rows = [
            (asked_s, answer, self.started[key])
            for key, (asked_s, answer) in self.asked.items()
            if key in self.started
        ]
        outside = sum(
            answer is None or not answer.low_s - 1 <= start_s <= answer.high_s + 1
            for _, answer, start_s in rows
        )
        widths = [
            (answer.high_s - answer.low_s) / (start_s - asked_s)
            for asked_s, answer, start_s in rows
            if answer is not None and start_s > asked_s
        ]
        return outside / len(rows) * 100, statistics.median(widths), len(rows)


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    folder = Path(os.environ.get("FEDERATOR_DATA", "../shared/data")) / PHILLY
    rows = wanted & {"X1", "X1w", "X1h"}
    if not folder.is_dir():
        why = f"{folder} is absent: set FEDERATOR_DATA"
        yield from (Result(row, failed=why) for row in sorted(rows))
        return
    if rows & {"X1", "X1w"}:
        outside, width, starts = scored(folder, LONGEST, scale)
        if "X1" in rows:
            yield Result("X1", ours=outside, notes={"starts": starts})
        if "X1w" in rows:
            yield Result("X1w", ours=width, notes={"starts": starts})
    if "X1h" in rows:
        outside, width, starts = scored(folder, 0, scale)
        yield Result("X1h", ours=outside, notes={"starts": starts, "width": round(width, 2)})


def scored(folder: Path, longest: float, scale: float) -> tuple[float, float, int]:
    """`longest`: jobs say that they run between once and so many times as long as they do; 0: they
    say nothing."""
    scenario = loading.of_folder(folder)
    scenario["fleet"]["capacity"] = "1/2"
    inputs, chance = loading.inputs(scenario, folder, {}), random.Random(SEED)
    works = tuple(
        dataclasses.replace(work, deadline_s=_said(work, chance.uniform(1, longest)))
        if longest
        else work
        for work in inputs.works[: max(round(JOBS * scale), 1)]
    )
    inputs = dataclasses.replace(inputs, works=works, rules=_homes(inputs))
    scores, begun = Scores(), time.perf_counter()

    def progress(*_: object) -> None:
        if time.perf_counter() - begun > LIMIT_S:
            raise _Enough

    with contextlib.suppress(_Enough):
        run.run(inputs, progress, scores.watch)
    return scores.result()


def _said(work: Work, times: float) -> int | None:
    return None if work.runtime_s is None else math.ceil(work.runtime_s * times)


def _homes(inputs: Inputs) -> tuple[Any, ...]:
    """Every team has its own cluster."""
    return tuple(
        policying.rule_of(
            "ClusterPlacementPolicy",
            {
                "apiVersion": "federation.pinterest.com/v1alpha1",
                "kind": "ClusterPlacementPolicy",
                "metadata": {"name": f"home-{name}"},
                "spec": {"workloads": {"namespaces": [name]}, "clusters": {"names": [name]}},
            },
        )
        for name in inputs.clusters
    )
