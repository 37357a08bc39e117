"""P1: a plan of one policy over 10,000 workloads on 100 clusters, all of them placed and reported;
and the snapshot worker in which the leader computes it.

A thousand kinds of asks, a third spread over zones, in 25 namespaces. The edit keeps the workloads
of one namespace (P1a: of all) in two of three regions. P1 and P1a are processor time, because a plan
is computed next to the hub's own work. Losses are not compared, as the leader does for more than
2,000 workloads.

P1lag is the event loop of a hub while its worker computes plans of all workloads, beside the same
loop at rest: the time between two turns of a task that waits 5 ms, p99. P1m and P1f are a worker with
100,000 workloads in two clusters each: its memory once it has them, and what 10,000 changes cost the
hub beside what they cost without a worker, and pickling them.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from federator.advice.plans import asked as asking
from federator.advice.trials import never
from federator.api import membercluster
from federator.hub.cache.state import HubState
from federator.hub.options import HubOptions
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.hub.query import planning
from federator.hub.records import decisions, workloads
from federator.hub.records.feed import Op
from federator.hub.snapshot import following, frames
from federator.hub.snapshot.computing import Snapshots
from federator.hub.snapshot.places import Kind
from federator.hub.snapshot.world import StateCopy
from federator.kinds import registry
from federator.kube.clock import Clock, RealClock
from federator.kube.threads import Stop
from federator.model.fleet import FleetSnapshot
from federator.process import malloc
from tests.bench.harness import Result

CLUSTERS = 100
WORKLOADS = 10_000
MANY = 100_000
CHANGES = 10_000
NAMESPACES = 25
PLANS = 2
BEAT_S = 0.005
PINTEREST = "pinterest.com/v1alpha1"
FEDERATION = "federation.pinterest.com/v1alpha1"
Obj = dict[str, Any]


@dataclass(slots=True)
class Fleet(HubState):
    """A hub's memory without connections: its clusters are given."""

    fleet: FleetSnapshot | None = None

    def snapshot(self, clock: Clock) -> FleetSnapshot:
        assert self.fleet is not None
        return self.fleet


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    count = max(NAMESPACES, round(WORKLOADS * scale))
    all_spaces = tuple(f"n{index:02d}" for index in range(NAMESPACES))
    if wanted & {"P1", "P1a", "P1lag"}:
        present = placed(count)
        if "P1" in wanted:
            yield _planned("P1", present, "n03")
        if "P1a" in wanted:
            yield _planned("P1a", present, *all_spaces)
        if "P1lag" in wanted:
            yield asyncio.run(_beside(present, all_spaces))
    if wanted & {"P1m", "P1f"}:
        for result in asyncio.run(_followed(max(1000, round(MANY * scale)))):
            if result.id in wanted:
                yield result


def _planned(row: str, present: Situation, *spaces: str) -> Result:
    begun = time.process_time()
    document = asking.answer(present, {**edit(*spaces), "losses": False}, None, never)
    took = time.process_time() - begun
    summary, count = document["summary"], len(present.workloads)
    notes = {"workloads": count, "changed": summary["workloads"], "moves": summary["moves"]}
    failed = "" if 0 < summary["workloads"] < count else "the edit changes nothing, or all"
    return Result(row, ours=took, notes=notes, failed=failed)


async def _beside(present: Situation, spaces: tuple[str, ...]) -> Result:
    state = state_of(present)
    snapshots = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=600.0)
    body = json.dumps({**edit(*spaces), "losses": False}).encode()
    task = planning.Task(body, {}, frozenset(), None, asking.answer)
    try:
        await snapshots(Kind.WHAT_IF, count_workloads)
        stop = asyncio.Event()
        resting = asyncio.create_task(_beats(stop))
        await asyncio.sleep(5.0)
        stop.set()
        rest = await resting
        stop = asyncio.Event()
        beating = asyncio.create_task(_beats(stop))
        begun = time.monotonic()
        for _ in range(PLANS):
            await snapshots(Kind.PLAN, planning.document, task)
        took = time.monotonic() - begun
        stop.set()
        busy = await beating
    finally:
        await snapshots.close()
    notes = {"plan_s": round(took / PLANS, 2), "turns": len(busy)}
    return Result("P1lag", ours=_p99(busy) * 1e3, floor=_p99(rest) * 1e3, notes=notes)


async def _beats(stop: asyncio.Event) -> list[float]:
    """Seconds between two turns of a task that waits 5 ms."""
    found: list[float] = []
    last = time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(BEAT_S)
        now = time.monotonic()
        found.append(now - last)
        last = now
    return found


def _p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


async def _followed(count: int) -> list[Result]:
    state = _many(count)
    snapshots = Snapshots(lambda: state, RealClock(), shared=1, timeout_s=600.0)
    try:
        begun, cpu = time.monotonic(), time.process_time()
        there = await snapshots(Kind.WHAT_IF, count_workloads)
        loaded_s, loading_s = time.monotonic() - begun, time.process_time() - cpu
        notes = {
            "workloads": there,
            "loaded_s": round(loaded_s, 1),
            "hub_cpu_s": round(loading_s, 2),
        }
        held = Result("P1m", ours=_resident(snapshots.pid) / 1e6, notes=notes)
        changed = list(state.workloads.values())[:CHANGES]
        begun, cpu = time.monotonic(), time.process_time()
        for workload in changed:
            state.observe_workload(workload)
        await snapshots(Kind.WHAT_IF, count_workloads)
        took, lag_s = time.process_time() - cpu, time.monotonic() - begun
    finally:
        await snapshots.close()
    cpu = time.process_time()
    for workload in changed:
        state.observe_workload(workload)
    for at in range(0, len(changed), following.CHUNK):
        some = changed[at : at + following.CHUNK]
        frames.dumps([(Op.WORKLOAD, each.key, each) for each in some])
    alone = time.process_time() - cpu
    notes = {"changes": len(changed), "behind_s": round(lag_s, 2)}
    each = 1e6 / max(len(changed), 1)
    return [held, Result("P1f", ours=took * each, floor=alone * each, notes=notes)]


def count_workloads(world: StateCopy, _: Stop) -> int:
    """A question that costs nothing."""
    return len(world.workloads)


def _resident(pid: int) -> float:
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096.0


def state_of(present: Situation) -> Fleet:
    """A hub's memory with all of this."""
    state = Fleet(HubOptions(), fleet=present.snapshot)
    for workload in present.workloads.values():
        state.observe_workload(workload)
    for record in present.records.values():
        _put(state, record)
    return state


def _put(state: HubState, record: decisions.Record) -> None:
    state.observe_decision(record.key.namespace, record)
    charged = record.commitment(state.workloads[record.key].ask)
    assert charged is not None
    state.commitments.record(charged)


def _many(count: int) -> Fleet:
    """A hub's memory with so many workloads of two copies in two clusters: a thousand are placed,
    and the others are like them."""
    first = offline.read(
        [*map(_cluster, range(CLUSTERS)), *(workload_of(at, 2) for at in range(1000))], 0.0
    )
    decided = [offline.as_object(ask, decision, "created") for ask, decision in first.decide_all()]
    state = Fleet(HubOptions(), fleet=first.snapshot)
    for index in range(count):
        obj = workload_of(index, 2)
        uid = f"00000000-0000-4000-8000-{index:012d}"
        obj["metadata"] |= {"uid": uid, "resourceVersion": str(index), "generation": 1}
        workload = workloads.summarise("PinterestService", obj, None)
        state.observe_workload(workload)
        like = decided[index % len(decided)]
        key = workload.key
        spec = {**like["spec"], "seq": index + 1}
        spec["workload"] = {**spec["workload"], "namespace": key.namespace, "name": key.name}
        spec["workload"]["uid"] = uid
        meta = {"name": decisions.name_of(key, uid), "namespace": key.namespace, "uid": f"d{uid}"}
        _put(state, decisions.summarise({**like, "metadata": meta, "spec": spec}))
    return state


def placed(count: int) -> Situation:
    """The fleet with every workload placed, as a dump of it reads."""
    objs = [*map(_cluster, range(CLUSTERS)), *map(workload_of, range(count))]
    before = offline.read(objs, 0.0)
    decided = before.decide_all()
    highest = max(decision.seq for _, decision in decided)
    decisions = [offline.as_object(ask, decision, "created") for ask, decision in decided]
    reported = [_reported(obj, highest) for obj in objs]
    return offline.read([*reported, *decisions], 0.0)


def edit(*namespaces: str) -> dict[str, Any]:
    """A policy that keeps the workloads of these namespaces in two of three regions."""
    policy = {
        "apiVersion": FEDERATION,
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "two-regions"},
        "spec": {
            "workloads": {"namespaces": list(namespaces)},
            "clusters": {
                "selector": {
                    "matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["r0"]}]
                }
            },
        },
    }
    return {"applied": [policy], "deleted": [], "lost": [], "scaled": [], "losses": True}


def _cluster(index: int) -> Obj:
    whole = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    free = {"cpu": "40", "memory": "160Gi", "pods": "200"}
    rows = [{"count": 20, "allocatable": whole, "free": free}]
    return {
        "apiVersion": FEDERATION,
        "kind": membercluster.KIND,
        "metadata": {
            "name": f"c{index:03d}",
            "labels": {"zone": f"z{index % 6}", "region": f"r{index % 3}"},
        },
        "spec": {},
        "status": {"capacity": {"nodes": rows}},
    }


def workload_of(index: int, replicas: int = 0) -> Obj:
    requests = {"cpu": f"{100 + 50 * (index % 20)}m", "memory": f"{256 + 64 * (index % 16)}Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    spread = [{"topologyKey": "zone", "minDomains": 2}]
    return {
        "apiVersion": registry.KINDS["PinterestService"].api_version,
        "kind": "PinterestService",
        "metadata": {
            "name": f"w{index:05d}",
            "namespace": f"n{index % NAMESPACES:02d}",
            "labels": {"app": f"w{index}"},
        },
        "spec": {
            "replicas": replicas or 1 + index % 12,
            **({"placement": {"spread": spread}} if index % 3 == 0 else {}),
            "template": {"spec": {"containers": [container]}},
        },
    }


def _reported(obj: Obj, seq: int) -> Obj:
    """The object once its member reports all copies, where it is a cluster."""
    if obj["kind"] != membercluster.KIND:
        return obj
    return {**obj, "status": {"capacity": {**obj["status"]["capacity"], "includesSeq": seq}}}
