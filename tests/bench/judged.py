"""V1: verdicts on submissions through the snapshot worker, with 10,000 workloads placed on 100
clusters: the time from question to answer, p99. Each is a new service that has room.
"""

import asyncio
import time
from collections.abc import Iterator

from federator.advice.plans import verdicts as judging
from federator.hub.query import verdicts
from federator.hub.query.advising import Subject
from federator.hub.records import workloads
from federator.hub.snapshot.computing import Snapshots
from federator.hub.snapshot.places import Kind
from federator.kube.clock import RealClock
from federator.process import malloc
from federator.scheduling.entry import Standing
from tests.bench import planned
from tests.bench.harness import Result

VERDICTS = 300


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    yield asyncio.run(_judged(max(planned.NAMESPACES, round(planned.WORKLOADS * scale))))


async def _judged(count: int) -> Result:
    state = planned.state_of(planned.placed(count))
    snapshots = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=600.0)
    took: list[float] = []
    try:
        await snapshots(Kind.VERDICT, planned.count_workloads)
        for at in range(VERDICTS):
            asked = (_subject(at),)
            begun = time.monotonic()
            answer = await snapshots(Kind.VERDICT, verdicts.document, asked, judging.verdict)
            took.append(time.monotonic() - begun)
            assert b'"verdict":"placed"' in answer
    finally:
        await snapshots.close()
    took.sort()
    notes = {"workloads": count, "p50_ms": round(took[len(took) // 2] * 1e3, 1)}
    return Result("V1", ours=took[len(took) * 99 // 100] * 1e3, notes=notes)


def _subject(at: int) -> Subject:
    """A service of five copies that is not written yet."""
    obj = planned.workload_of(at, 5)
    obj["metadata"] |= {"name": f"new{at}", "uid": f"new{at}", "generation": 1}
    workload = workloads.summarise("PinterestService", obj, None)
    return Subject(workload, Standing(), (obj,), (), {})
