"""The simulator decides as the hub does: small traces go through both, and the decisions are the same
in the same order.

What may differ, and why:

* When. The hub hears of an end after the member's kubelet, the member process and its report: some
  seconds. So nothing in these traces happens while a report is on its way (`APART_S`).
* Quota before room. The end of a job frees its quota with the status of its slice, and its room
  with the next report of its member: what waits for quota is decided between the two by the hub,
  and with both by the simulator. So where quota is short one cluster is enough here.
* Which copy of a batch is first. What comes out of silence is decided at once, and what follows
  upon it together: `live.scenario` says so to the simulator, as recordings do.
* Nodes inside a member. The embedded scheduler binds to the emptiest node, the simulator as
  kube-scheduler does; so nodes stand alone here, or each copy fills one.
* Making way. In the hub a job that leaves for another's quota ends first, so the other waits some
  seconds; in the simulator it has its quota in the next cycle of the same second.
* Jobs in parts. A shard of a live job set runs as soon as it has a place, a simulated job when all
  have; so jobs are gangs here.
"""

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from federator.simulate.engine import run
from federator.simulate.outcome import SimulationResult
from federator.simulate.scenario import loading
from tests.simulation import live
from tests.simulation.live import RUN, Act, Obj, Played, Trace
from tests.unit.simulate import conservation

APART_S: Final = 20
"""Seconds in which every report has arrived, and a chain of jobs has not fallen further behind."""
GANG: Final = {"division": {"strategy": "Capacity", "maxClusters": 1}, "partial": "RequireAll"}
FEDERATION: Final = "federation.pinterest.com/v1alpha1"


def fleet(*nodes: tuple[int, int]) -> FleetSpec:
    """Members a, b, ... with so many nodes of so many cores."""
    pools = [Pool(count=count, cpu=str(cpu), memory="64Gi") for count, cpu in nodes]
    members = zip("abcdef"[: len(pools)], pools, strict=True)
    return FleetSpec(members=[MemberSpec(name=name, nodes=[pool]) for name, pool in members])


def job(name: str, team: str, shards: int, cpu: int, runtime_s: int, **spec: Any) -> Obj:
    amount = {"shards": shards, "parallelism": shards, "placement": GANG}
    pods = _pods(cpu, {RUN: str(runtime_s)}, restartPolicy="Never")
    return _object("PinterestJobSet", name, team, {**amount, "template": pods, **spec})


def service(name: str, team: str, copies: int, cpu: int, **spec: Any) -> Obj:
    pods = _pods(cpu, {})
    return _object("PinterestService", name, team, {"replicas": copies, "template": pods, **spec})


def _pods(cpu: int, annotations: Mapping[str, str], **spec: Any) -> Obj:
    requests = {"cpu": str(cpu), "memory": "1Gi"}
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": requests},
    }
    return {
        "metadata": {"annotations": dict(annotations)},
        "spec": {"containers": [container], **spec},
    }


def _object(kind: str, name: str, team: str, spec: Obj) -> Obj:
    meta = {"name": name, "namespace": team}
    return {"apiVersion": "pinterest.com/v1beta1", "kind": kind, "metadata": meta, "spec": spec}


def rule(kind: str, name: str, **spec: Any) -> Obj:
    return {"apiVersion": FEDERATION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def limits(cpu: int) -> Obj:
    return {tier: {"max": {"cpu": str(cpu)}} for tier in ("Reserved", "OnDemand", "Preemptible")}


def quota(name: str, cpu: int, **spec: Any) -> Obj:
    tenant = {"projects": [name], "namespaces": [name]}
    return rule("FederatedQuota", name, **tenant, tiers=limits(cpu), **spec)


def guaranteed(name: str, cpu: int) -> Obj:
    """An account that lends its guarantee, and takes it back."""
    tenant = {"projects": [name], "namespaces": [name], "parent": "company"}
    tiers = {"OnDemand": {"guaranteed": {"cpu": str(cpu)}}}
    return rule("FederatedQuota", name, **tenant, tiers=tiers, preemption={"reclaim": "Any"})


def drained(cluster: str, how: Obj | None) -> Obj:
    """The wish that a member be empty, or that it takes work again."""
    return rule("MemberCluster", cluster, drain=how)


def acts(*given: tuple[int, Obj]) -> Sequence[Act]:
    return [Act(at_s, obj) for at_s, obj in given]


def simulated(trace: Trace, played: Played) -> SimulationResult:
    """The simulator's outcome, after everything in it was found to add up."""
    inputs = loading.inputs(live.scenario(trace, played), Path("trace.yaml"), {})
    outcome = run.run(inputs)
    assert conservation.broken(inputs, outcome) == []
    return outcome


def agree(trace: Trace, seed: int) -> SimulationResult:
    """Fails unless hub and simulator take the same decisions in the same order."""
    played = live.play(trace, seed)
    outcome = simulated(trace, played)
    assert crowded(outcome, trace) == []
    decided = [(one.work, dict(one.clusters)) for one in outcome.placed]
    assert decided == played.decided
    lacking = {
        life.work.id: life.waits[0].reason
        for life in outcome.lives
        if life.waits and life.waits[0].start_s == life.work.submit_s
    }
    made_way = any(life.preempted for life in outcome.lives)
    at_once = {life.work.id for life in outcome.lives if made_way and life.wait_s == 0}
    gangs = {life.work.id for life in outcome.lives if life.work.kind != "service"}
    assert lacking == {
        work: "GangIncomplete" if work in gangs and why == "AtMaximum" else why
        for work, why in played.lacking.items()
        if work not in at_once
    }
    return outcome


def crowded(outcome: SimulationResult, trace: Trace) -> list[str]:
    """Works that begin or end shortly before something else happens."""
    instants: dict[int, str] = {act.at_s: "" for act in trace.acts}
    for life in outcome.lives:
        for at_s in (life.end_s, *(stay.start_s for stay in life.stays)):
            if at_s is not None:
                instants.setdefault(at_s, life.work.id)
    instants[trace.until_s] = ""
    pairs = itertools.pairwise(sorted(instants.items()))
    return [later[1] or sooner[1] for sooner, later in pairs if later[0] - sooner[0] < APART_S]


def loosened(trace: Trace) -> Trace:
    """The trace with jobs that run longer, so that what happens lies apart."""
    for _ in range(100):
        found = [name for name in crowded(simulated(trace, live.sketch(trace)), trace) if name]
        if not found:
            return trace
        trace = replace(trace, acts=[_longer(act, found[0]) for act in trace.acts])
    return trace


def _longer(act: Act, work: str) -> Act:
    if (
        "/".join((act.obj["kind"], act.obj["metadata"]["namespace"], act.obj["metadata"]["name"]))
        != work
    ):
        return act
    obj: Obj = json.loads(json.dumps(act.obj))
    said = obj["spec"]["template"]["metadata"]["annotations"]
    said[RUN] = str(int(said[RUN]) + APART_S + 3)
    return Act(act.at_s, obj)


TRACES: Final = {
    "gangs wait by tier, priority and age": Trace(
        fleet((1, 8), (1, 8)),
        acts(
            (60, job("first", "ads", 4, 2, 1000)),
            (120, job("second", "ads", 4, 2, 1400)),
            (180, job("low", "ads", 4, 2, 700)),
            (240, job("high", "search", 4, 2, 610, tier="Reserved")),
            (300, job("reserved", "vision", 2, 4, 450, tier="Reserved")),
            (360, job("narrow", "vision", 1, 2, 400, tier="Preemptible")),
        ),
        4000,
    ),
    "services take what there is, and grow": Trace(
        fleet((1, 8), (1, 4), (1, 6)),
        acts(
            (60, job("batch", "ads", 3, 2, 900)),
            (120, service("web", "search", 9, 1)),
            (180, service("api", "vision", 6, 2)),
            (240, job("waits", "ads", 2, 2, 300)),
        ),
        2000,
    ),
    "a quota holds back until it is raised": Trace(
        fleet((1, 16), (1, 16)),
        acts(
            (60, job("one", "ads", 2, 2, 1500)),
            (120, job("two", "ads", 2, 2, 1500)),
            (180, service("web", "ads", 4, 1)),
            (240, job("other", "search", 2, 2, 500)),
            (600, quota("ads", 12)),
        ),
        1500,
        (quota("ads", 6), quota("search", 64)),
    ),
    "a policy spreads, and is changed": Trace(
        fleet((1, 16), (1, 16), (1, 8)),
        acts(
            (60, service("web", "ads", 6, 1)),
            (120, service("api", "ads", 4, 2)),
            (600, rule("ClusterPlacementPolicy", "two", clusters={"names": ["a", "b"]})),
            (900, service("late", "ads", 3, 1)),
        ),
        1500,
        (rule("ClusterPlacementPolicy", "two", clusters={"names": ["a", "c"]}),),
    ),
    "a burst is decided by tier and shares": Trace(
        fleet((1, 8), (1, 6)),
        acts(
            *((60, job(f"ads-{at}", "ads", 1, 2, 400 + 130 * at)) for at in range(5)),
            (60, job("reserved", "search", 2, 2, 333, tier="Reserved")),
            *((60, job(f"vision-{at}", "vision", 2, 1, 300 + 150 * at)) for at in range(4)),
        ),
        2500,
    ),
    "a service is scaled up beyond the room, and down": Trace(
        fleet((1, 6), (1, 6)),
        acts(
            (60, service("web", "ads", 3, 1)),
            (120, service("api", "search", 4, 1)),
            (300, service("web", "ads", 12, 1)),
            (600, service("api", "search", 2, 1)),
            (900, service("web", "ads", 5, 1)),
            (1200, job("late", "vision", 4, 1, 200)),
        ),
        1800,
    ),
    "a tree of quotas lends and borrows": Trace(
        fleet((1, 32)),
        acts(
            (60, job("one", "ads", 4, 2, 900)),
            (120, job("two", "ads", 2, 2, 700)),
            (180, job("three", "search", 2, 2, 800)),
            (240, service("web", "search", 6, 1)),
            (300, job("four", "ads", 1, 1, 400)),
        ),
        2000,
        (
            rule("FederatedQuota", "company", tiers=limits(14)),
            quota("ads", 12, parent="company"),
            quota("search", 10, parent="company"),
        ),
    ),
    "what was lent is taken back": Trace(
        fleet((1, 64)),
        acts(
            (60, job("old", "ads", 2, 2, 2500)),
            (120, job("young", "ads", 4, 2, 700)),
            (180, service("web", "search", 3, 1)),
            (400, job("lender", "search", 3, 2, 500)),
            (600, job("low", "ads", 1, 1, 400)),
        ),
        3500,
        (
            rule("FederatedQuota", "company"),
            guaranteed("ads", 6),
            guaranteed("search", 9),
        ),
    ),
    "a cluster is drained, and taken back": Trace(
        fleet((1, 64), (1, 64), (1, 64)),
        acts(
            (60, service("web", "ads", 45, 1)),
            (120, job("short", "search", 4, 2, 400)),
            (180, service("api", "search", 15, 1)),
            (300, drained("a", {})),
            (600, job("late", "vision", 4, 2, 300)),
            (700, drained("a", None)),
            (800, service("new", "vision", 20, 1)),
        ),
        1500,
    ),
    "a node has room for one copy": Trace(
        fleet((3, 4), (2, 4), (4, 4)),
        acts(
            (60, job("wide", "ads", 4, 3, 800)),
            (120, service("web", "search", 3, 3)),
            (180, job("again", "ads", 4, 3, 500)),
            (240, job("small", "vision", 1, 3, 700)),
        ),
        2500,
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_decided_on_alike_by_the_hub_and_the_simulator(name: str) -> None:
    outcome = agree(TRACES[name], 1)

    assert len(outcome.placed) >= 4
    assert any(life.waits for life in outcome.lives) or name.startswith(("a policy", "a cluster"))


def drawn(seed: int) -> Trace:
    """Twelve works on three members, with less room than they ask for."""
    chance = random.Random(seed)
    filled = chance.random() < 0.5
    nodes = [(chance.randint(2, 4), 4) if filled else (1, chance.choice((6, 8, 12))) for _ in "abc"]
    given, at_s = [], 0
    for number in range(12):
        at_s += chance.choice((60, 90, 240))
        name, team = f"w{number}", f"team-{chance.randint(0, 2)}"
        cpu = 3 if filled else chance.choice((1, 2, 3))
        spec: Obj = {}
        if chance.random() < 0.3:
            spec["tier"] = chance.choice(("Reserved", "Preemptible"))
        if chance.random() < 0.2:
            given.append((at_s, service(name, team, chance.randint(1, 3), cpu, **spec)))
        else:
            shards, runtime_s = chance.choice((1, 1, 2, 3, 4)), chance.randint(300, 1500)
            given.append((at_s, job(name, team, shards, cpu, runtime_s, **spec)))
    return Trace(fleet(*nodes), acts(*given), at_s + 1000)


@pytest.mark.long
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000))
@example(seed=1)
@example(seed=3)
@example(seed=5)
@example(seed=11)
def test_any_trace_is_decided_on_alike_by_the_hub_and_the_simulator(seed: int) -> None:
    agree(loosened(drawn(seed)), seed)
