"""V1: verdicts on submissions through the snapshot worker, with 10,000 workloads placed on 100
clusters: the time from question to answer, p99. Of four submissions three are new services that have
room, and one is a service that no cluster admits, with the changes that would admit it. V1c is the
processor time of the worker and its children for one verdict, on the mean.
"""

import asyncio
import os
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

VERDICTS = 400
REFUSED_OF = 4
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    for row in asyncio.run(_judged(max(planned.NAMESPACES, round(planned.WORKLOADS * scale)))):
        if row.id in wanted:
            yield row


async def _judged(count: int) -> list[Result]:
    state = planned.state_of(planned.placed(count))
    snapshots = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=600.0)
    took: dict[str, list[float]] = {"placed": [], "refused": []}
    try:
        await snapshots(Kind.VERDICT, planned.count_workloads)
        before = _cpu_s(snapshots.pid)
        for at in range(VERDICTS):
            expected = "placed" if at % REFUSED_OF else "refused"
            asked = (_subject(at, large=expected == "refused"),)
            begun = time.monotonic()
            answer = await snapshots(Kind.VERDICT, verdicts.WORK, asked, judging.verdict)
            took[expected].append(time.monotonic() - begun)
            assert f'"verdict":"{expected}"'.encode() in answer
        cpu_s = _cpu_s(snapshots.pid) - before
    finally:
        await snapshots.close()
    notes = {"workloads": count} | {
        f"{verdict}_{name}_ms": round(_at(times, share) * 1e3, 1)
        for verdict, times in took.items()
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
    every = took["placed"] + took["refused"]
    cpu_ms = cpu_s / VERDICTS * 1e3
    return [Result("V1", ours=_at(every, 0.99) * 1e3, notes=notes), Result("V1c", ours=cpu_ms)]


def _at(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


def _cpu_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def _subject(at: int, *, large: bool) -> Subject:
    """A service of five copies that is not written yet; no node is as large as a `large` one."""
    obj = planned.workload_of(at, 5)
    obj["metadata"] |= {"name": f"new{at}", "uid": f"new{at}", "generation": 1}
    if large:
        obj["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "80"
    workload = workloads.summarise("PinterestService", obj, None)
    return Subject(workload, Standing(), (obj,), (), {})
