"""V1: verdicts on submissions through the snapshot worker, with 10,000 workloads placed on 100
clusters: the time from question to answer, p99 of all. Of eight submissions five are new services
that have room, one is a service that no cluster admits, with the changes that would admit it, one
waits for room and one for quota, with their places in the queue. The notes have the figures of each.
V1c is the processor time of the worker and its children for one verdict, on the mean.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from federator.advice.plans import verdicts as judging
from federator.api import federatedquota
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
MIX = ("placed", "placed", "refused", "placed", "room", "placed", "quota", "placed")
VERDICT_OF = {"placed": "placed", "refused": "refused", "room": "queued", "quota": "queued"}
CPU = {"placed": "", "refused": "80", "room": "60", "quota": ""}
"""A node has 64 cpu, of which 40 are free."""
FULL = "n24"
"""The namespace, and so the project, without quota."""
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    for row in asyncio.run(_judged(max(planned.NAMESPACES, round(planned.WORKLOADS * scale)))):
        if row.id in wanted:
            yield row


async def _judged(count: int) -> list[Result]:
    state = planned.state_of(planned.placed(count))
    assert state.fleet is not None
    state.fleet = replace(state.fleet, quotas=tuple(map(federatedquota.to_account, _quotas())))
    snapshots = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=600.0)
    took: dict[str, list[float]] = {which: [] for which in VERDICT_OF}
    spent = dict.fromkeys(VERDICT_OF, 0.0)
    try:
        await snapshots(Kind.VERDICT, planned.count_workloads)
        for at in range(VERDICTS):
            which = MIX[at % len(MIX)]
            asked = (_subject(at, which),)
            before, begun = _cpu_s(snapshots.pid), time.monotonic()
            answer = await snapshots(Kind.VERDICT, verdicts.WORK, asked, judging.VERDICT)
            took[which].append(time.monotonic() - begun)
            spent[which] += _cpu_s(snapshots.pid) - before
            _check(answer, which)
    finally:
        await snapshots.close()
    notes: dict[str, float] = {"workloads": count}
    for which, times in took.items():
        notes |= {
            f"{which}_p50_ms": round(_at(times, 0.5) * 1e3, 1),
            f"{which}_p99_ms": round(_at(times, 0.99) * 1e3, 1),
            f"{which}_cpu_ms": round(spent[which] / len(times) * 1e3, 1),
        }
    every = [each for times in took.values() for each in times]
    cpu_ms = sum(spent.values()) / VERDICTS * 1e3
    return [Result("V1", ours=_at(every, 0.99) * 1e3, notes=notes), Result("V1c", ours=cpu_ms)]


def _check(answer: bytes, which: str) -> None:
    row = json.loads(answer)["workloads"][0]
    assert row["verdict"] == VERDICT_OF[which], row
    assert bool(row.get("queue", {}).get("position")) == (row["verdict"] == "queued"), row
    assert which != "refused" or row["fixes"], row


def _quotas() -> Iterator[dict[str, Any]]:
    for name, spec in (
        ("others", {"projects": ["other"], "unknownProjects": "Allow"}),
        ("full", {"projects": [FULL], "tiers": {"OnDemand": {"max": {"cpu": "1"}}}}),
    ):
        yield {"kind": "FederatedQuota", "metadata": {"name": name}, "spec": spec}


def _at(times: list[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


def _cpu_s(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def _subject(at: int, which: str) -> Subject:
    """A service of five copies that is not written yet."""
    obj = planned.workload_of(at, 5)
    obj["metadata"] |= {"name": f"new{at}", "uid": f"new{at}", "generation": 1}
    spaces = [f"n{index:02d}" for index in range(planned.NAMESPACES)]
    obj["metadata"]["namespace"] = FULL if which == "quota" else spaces[at % (len(spaces) - 1)]
    if CPU[which]:
        container = obj["spec"]["template"]["spec"]["containers"][0]
        container["resources"]["requests"]["cpu"] = CPU[which]
    workload = workloads.summarise("PinterestService", obj, None)
    return Subject(workload, Standing(), (obj,), (), {})
