"""Small traces through the whole hub: embedded clusters, hub and member processes on virtual time.

A trace is what a person does to the host, by second. `play` does it and notes every decision that
the hub writes there; `scenario` is the same trace for the simulator.
"""

import asyncio
import json
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api.placement import decisionfacts
from federator.embedded.controllers.kubelet.behaviour import Defaults, Span
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.decision import Reason
from federator.model.steps import ObjectRef
from federator.sandbox import fleetfile
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec
from federator.simulate.scenario.schema import RECORDING_VERSION
from tests import virtual_time

EPOCH_S: Final = 1_790_000_000.0
SETTLED_S: Final = 60.0
"""Virtual seconds in which every member reports, before second 0 of a trace."""
RUN: Final = "embedded.federator/run-seconds"
AT_ONCE: Final = Defaults(start=Span(0, 0), ready=Span(0, 0), stop=Span(0, 0))
"""Pods are ready as soon as they are bound, as in the simulator."""
Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a person does: an object is made, or gets these fields if it is there."""

    at_s: int
    obj: Obj


@dataclass(frozen=True, slots=True)
class Trace:
    """What happens to one federation until `until_s`."""

    fleet: FleetSpec
    acts: Sequence[Act]
    """By time. Those of one second follow each other at once."""
    until_s: int
    rules: Sequence[Obj] = ()
    """Policies and quotas that are there from the beginning."""


@dataclass(slots=True)
class Played:
    """What the hub made of a trace."""

    members: list[Obj]
    """MemberClusters as they reported themselves before second 0."""
    made: list[Obj] = field(default_factory=list)
    """For each act, the object as the host had it then."""
    decided: list[tuple[str, Mapping[str, int]]] = field(default_factory=list)
    """Workload -> what it was given, for each decision that gave it something else than before, by
    their numbers: a batch is decided in their order, and written side by side."""
    lacking: dict[str, str] = field(default_factory=dict)
    """Workload -> why its first decision did not give it all."""


class _Tap:
    """Hears the decisions that a hub writes to its host: as they are there afterwards."""

    def __init__(self, inner: Transport, host: EmbeddedCluster, heard: list[Obj]) -> None:
        self._inner, self._host, self._heard = inner, host, heard
        self._versions: dict[str, str] = {}

    async def request(self, request: Request) -> Response:
        response = await self._inner.request(request)
        if "/placementdecisions" in request.path and request.method in ("POST", "PATCH"):
            decisions = self._host.registry.get("federation.pinterest.com", "placementdecisions")
            for found in self._host.store.items(decisions):
                meta = found.obj["metadata"]
                if self._versions.get(meta["uid"]) != meta["resourceVersion"]:
                    self._versions[meta["uid"]] = meta["resourceVersion"]
                    self._heard.append(dict(found.obj))
        return response

    async def close(self) -> None:
        await self._inner.close()


def play(trace: Trace, seed: int) -> Played:
    """The trace through a hub."""
    return virtual_time.run(_play(trace, seed))


def sketch(trace: Trace) -> Played:
    """What a hub would have before the trace, with uids that no server gave."""
    members: list[Obj] = []
    for member in trace.fleet.members:
        rows = []
        for pool in fleetfile.pools(member):
            size = {**pool.allocatable}
            rows.append({"count": pool.count, "allocatable": size, "free": size})
        obj = fleetfile.member_cluster(member, member.name)
        members.append({**obj, "status": {"capacity": {"nodes": rows}}})
    made: list[Obj] = []
    for act in trace.acts:
        meta = {**act.obj["metadata"], "uid": str(uuid.UUID(int=len(made))), "generation": 1}
        made.append({**act.obj, "metadata": meta})
    return Played(members, made)


async def _play(trace: Trace, seed: int) -> Played:
    clock, heard = Clock(EPOCH_S), list[Obj]()

    def tapped(process: str, cluster: str, inner: Transport) -> Transport:
        hubs = (process, cluster) == ("hub", "host")
        return _Tap(inner, federation.host, heard) if hubs else inner

    federation = Federation(
        fleet=trace.fleet,
        clock=clock,
        rng=random.Random(seed),
        pods=AT_ONCE,
        wrap=tapped,
    )
    host = Client(federation.host.transport(), "host", field_manager="kubectl")
    await federation.start()
    await federation.until_settled(SETTLED_S)
    namespaces = {act.obj["metadata"].get("namespace") for act in trace.acts} - {None}
    for name in sorted(namespaces):
        ref = ObjectRef("v1", "namespaces", "", name, "Namespace")
        await host.create(
            ref, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    for obj in trace.rules:
        await _apply(host, obj)
    await asyncio.sleep(SETTLED_S)
    kind = registry.KINDS["MemberCluster"]
    found = Played(list((await host.list(kind.api_version, kind.plural)).items))
    began_s = clock.monotonic()
    for act in trace.acts:
        await asyncio.sleep(max(began_s + act.at_s - clock.monotonic(), 0.0))
        found.made.append(await _apply(host, act.obj))
    await asyncio.sleep(began_s + trace.until_s - clock.monotonic())
    federation.check()
    await federation.stop()
    _note(found, heard)
    return found


async def _apply(host: Client, obj: Obj) -> Obj:
    kind, meta = registry.KINDS[obj["kind"]], obj["metadata"]
    ref = kind.ref(meta.get("namespace", ""), meta["name"])
    there = {one["metadata"]["name"] for one in await _like(host, obj)}
    if meta["name"] in there:
        return dict(await host.patch(ref, {"spec": obj["spec"]}))
    return dict(await host.create(ref, obj))


async def _like(host: Client, obj: Obj) -> list[Obj]:
    kind, namespace = registry.KINDS[obj["kind"]], obj["metadata"].get("namespace", "")
    found = (await host.list(kind.api_version, kind.plural)).items
    return [one for one in found if one["metadata"].get("namespace", "") == namespace]


def _note(found: Played, heard: Sequence[Obj]) -> None:
    before: dict[str, Mapping[str, int]] = {}
    numbered: list[tuple[int, str, Mapping[str, int]]] = []
    for obj in heard:
        facts = decisionfacts.decision_facts(obj)
        given = {share.cluster: share.count for share in facts.shares if share.count}
        work, reason = str(facts.key), obj["spec"]["reason"]
        if work not in before and reason != Reason.CHOSEN:
            found.lacking[work] = reason
        # A job that is over holds nothing: that is no decision about where it is to run.
        over = not given and facts.key.kind == "PinterestJobSet" and reason != Reason.PREEMPTED
        if before.get(work, {}) != given and not over:
            numbered.append((facts.seq, work, given))
        before[work] = given
    found.decided = [(work, given) for _, work, given in sorted(numbered, key=lambda one: one[0])]


def scenario(trace: Trace, played: Played) -> Obj:
    """The trace as a scenario of the simulator: the objects as the host had them, by the second at
    which they were made. The uids are the host's, because ties are broken by them."""
    works: dict[str, Obj] = {}
    events: list[Obj] = []
    rules = {_name(obj): obj for obj in trace.rules}
    last_s = -1
    for act, made in zip(trace.acts, played.made, strict=True):
        obj = _bare(made)
        if obj["kind"] == "MemberCluster":
            how = "drained" if obj["spec"].get("drain") is not None else "returned"
            events.append({"at": act.at_s, how: [obj["metadata"]["name"]]})
        elif obj["kind"] not in registry.WORKLOADS:
            rules[_name(obj)] = obj
            events.append({"at": act.at_s, **_changed(rules.values(), obj["kind"])})
        elif _name(obj) in works:
            scaled = {"at": act.at_s, "replicas": obj["spec"]["replicas"], "cycle": 1 + act.at_s}
            works[_name(obj)].setdefault("scalings", []).append(scaled)
        else:
            # The hub takes what comes out of silence at once, and what follows upon it together.
            cycle = 2 * act.at_s + (2 if act.at_s == last_s else 1)
            works[_name(obj)] = _work(act.at_s, cycle, obj)
        last_s = act.at_s
    recording = {"version": RECORDING_VERSION, "begin": 0, "works": list(works.values())}
    return {
        "until": trace.until_s,
        "fleet": {"objects": [_bare(one, "status") for one in played.members]},
        **_rules(trace.rules),
        "events": events,
        "demand": {"recording": {**recording, "complete": True}},
    }


def _work(at_s: int, cycle: int, obj: Obj) -> Obj:
    found: Obj = {"submit": at_s, "cycle": cycle, "workload": obj}
    said = obj["spec"]["template"]["metadata"].get("annotations", {})
    if RUN in said:
        found["runtime"] = int(said[RUN])
    if obj["kind"] == "PinterestService":
        found["replicas"] = obj["spec"]["replicas"]
    return found


def _name(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{obj['kind']}/{meta.get('namespace', '')}/{meta['name']}"


def _bare(obj: Obj, *more: str) -> Obj:
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    kept = {name: obj[name] for name in ("apiVersion", "kind", "spec", *more) if name in obj}
    found: Obj = json.loads(json.dumps({**kept, "metadata": meta}))
    return found


def _rules(rules: Sequence[Obj]) -> Obj:
    policies = [obj for obj in rules if obj["kind"] != "FederatedQuota"]
    return {"policies": policies, "quotas": [obj for obj in rules if obj not in policies]}


def _changed(rules: Any, kind: str) -> Obj:
    now = _rules(list(rules))
    if kind == "FederatedQuota":
        return {"quotaChanged": now["quotas"]}
    return {"policyChanged": now["policies"]}
