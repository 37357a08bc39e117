"""C1, C2, C3l and C3m: how fast the simulator is under a production policy, whether its time grows
no faster than the jobs, and what memory it takes. Times are of the processor.

C1 plays a real trace below FEDERATOR_DATA, C2 another one many times side by side; they have no
figure without it. C3l and C3m play jobs that are made here. A run that is not at its end in time
has no figure, and says how far it came.
"""

import dataclasses
import gc
import os
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from federator.hub.cache import policying
from federator.model.ask import Tier
from federator.model.fleet import Capacity, ClusterView, NodeRow
from federator.model.resources import CPU, MEMORY, PODS, Resources
from federator.placement.policy.policies import Rule
from federator.simulate.demand import Work
from federator.simulate.engine import run
from federator.simulate.inputs import Inputs
from federator.simulate.report import forms, measures, page
from federator.simulate.scenario import loading
from tests.bench.harness import Result

PHILLY, LCG = "philly-11-vcs", "lcg-20-sites-6h"
SITES, SITE_JOBS = 170, 188_041
JOBS, CLUSTERS, NODES = 1_000_000, 100, 20
SEED: Final = 1
LIMIT_S: Final = 600.0
"""For one run: the whole bench is to fit in its time."""
POLICY: Final = {
    "apiVersion": "federation.pinterest.com/v1alpha1",
    "kind": "ClusterPlacementPolicy",
    "metadata": {"name": "production"},
    "spec": {
        "workloads": {"kinds": ["PinterestJobSet"]},
        "division": {"strategy": "Capacity"},
        "partial": "Allow",
    },
}
"""What a platform team writes for everybody: by capacity, and some rather than none."""


class _TooSlow(Exception):
    """The run has not ended in time."""


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    gc.set_threshold(200_000, 20, 100)  # as the command does: a million long-lived objects
    if "C1" in wanted:
        yield _of_data("C1", PHILLY, scale)
    if "C2" in wanted:
        yield _of_data("C2", LCG, scale)
    if wanted & {"C3l", "C3m"}:
        yield from _growing(wanted, scale)


def _growing(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    count = max(round(JOBS * scale), 400)
    notes = {"jobs": count, "clusters": CLUSTERS}
    try:
        floor, _ = _timed(_made(count // 4))
        ours, reported = _timed(_made(count))
    except _TooSlow as why:
        yield from (Result(row, failed=str(why)) for row in ("C3l", "C3m") if row in wanted)
        return
    if "C3l" in wanted:
        yield Result("C3l", ours=ours / count * 1e6, floor=floor / (count // 4) * 1e6, notes=notes)
    if "C3m" in wanted:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield Result("C3m", ours=peak, notes={**notes, "report_s": round(reported, 1)})


def _of_data(row: str, name: str, scale: float) -> Result:
    folder = Path(os.environ.get("FEDERATOR_DATA", "../shared/data")) / name
    if not folder.is_dir():
        return Result(row, failed=f"{folder} is absent: set FEDERATOR_DATA")
    inputs = loading.inputs(loading.of_folder(folder), folder, {})
    inputs = _many(inputs) if row == "C2" else inputs
    count = max(round(len(inputs.works) * scale), 1)
    try:
        took, _ = _timed(dataclasses.replace(inputs, works=inputs.works[:count], rules=_rules()))
    except _TooSlow as why:
        return Result(row, failed=str(why))
    return Result(
        row,
        ours=count / took,
        notes={"jobs": count, "clusters": len(inputs.clusters), "seconds": round(took)},
    )


def _rules() -> tuple[Rule, ...]:
    return (policying.rule_of("ClusterPlacementPolicy", POLICY),)


def _many(inputs: Inputs) -> Inputs:
    """The sites as often as there are to be, and the demand of each copy of them; then the same
    again, later.
    """
    names = list(inputs.clusters)
    clusters = {
        f"s{at:03d}": dataclasses.replace(
            inputs.clusters[names[at % len(names)]], name=f"s{at:03d}"
        )
        for at in range(SITES)
    }
    beside, length_s = SITES // len(names), inputs.works[-1].submit_s + 1
    works: list[Work] = []
    for turn in range(-(-SITE_JOBS // len(inputs.works))):
        for work in inputs.works:
            later = work.submit_s + turn // beside * length_s
            works.append(dataclasses.replace(work, id=f"{work.id}-{turn}", submit_s=later))
    works.sort(key=lambda work: work.submit_s)
    return dataclasses.replace(inputs, clusters=clusters, works=tuple(works[:SITE_JOBS]))


def _timed(inputs: Inputs) -> tuple[float, float]:
    """(seconds of the run, seconds of its report in all its forms); every work is told of. Raises
    _TooSlow.
    """
    begun = time.process_time()

    def progress(_now_s: int, _end_s: int | None, submitted: int, works: int) -> None:
        if time.process_time() - begun > LIMIT_S:
            raise _TooSlow(f"{submitted:,} of {works:,} jobs were submitted within {LIMIT_S:g} s")

    outcome = run.run(inputs, progress)
    took = time.process_time() - begun
    if len(outcome.lives) != len(inputs.works):
        raise RuntimeError(
            f"{len(inputs.works)} works were given and {len(outcome.lives)} are told of"
        )
    begun = time.process_time()
    forms.files(measures.measure(outcome), page.Provenance("", "", "", {}))
    return took, time.process_time() - begun


def _made(count: int) -> Inputs:
    """Jobs at one rate, whatever their number: ten a second of 1.8 shards, 2.3 cores and 630 s on
    average hold 26,500 of 64,000 cores, 41 %, from the twentieth minute on, and nobody waits. C2 has
    more than its fleet can hold at once."""
    chance = random.Random(SEED)
    size = Resources({CPU: 32_000, MEMORY: 128 << 30, PODS: 110})
    capacity = Capacity((NodeRow(NODES, size, size),))
    names = [f"c{number:03d}" for number in range(CLUSTERS)]
    works = [
        Work(
            id=f"job-{number}",
            kind="job",
            namespace=f"team-{number % 20}",
            project=f"team-{number % 20}",
            tier=Tier.ON_DEMAND,
            home_cluster=chance.choice(names),
            submit_s=number // 10,
            runtime_s=chance.randint(60, 1200),
            shards=chance.choice((1, 1, 1, 2, 4)),
            cpu_milli=chance.choice((1000, 2000, 4000)),
            memory_mib=chance.choice((2048, 4096, 8192)),
        )
        for number in range(count)
    ]
    views = {name: ClusterView(name, capacity=capacity) for name in names}
    return Inputs("made", views, tuple(works), rules=_rules(), seed=SEED)
