"""T1, placement truth: is what we decide what the real scheduler binds, and is what we refuse what
it could not bind?

Three real members with controller manager and scheduler, and stand-in nodes drawn from the openb
fleet, are filled to 60, 80 and 90 % of their cpu with openb pods. Then Deployments of openb's
shapes are asked for, one by one and in a burst. Every refusal is tried: the schedulers get the
missing copies as bare pods, which go again before the next ask.
"""

import asyncio
import collections
import contextlib
import csv
import gzip
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef
from tests.bench.harness import Result
from tests.bench.realfleet import MEMBERS, NAMESPACE, ROOT, RealFleet
from tests.controlplane import build, nodes
from tests.controlplane.plane import ControlPlane

LEVELS = (60, 80, 90)
NODES, ASKS, COPIES_MAX = 40, 16, 16
BOUND_S = 60.0
DECIDED_S = 20.0
SETTLE_S = 5.0
"""The member's report of room is at most this old when nothing moves."""
PROBES_MAX = 30
SEED = 7
GPU = "nvidia.com/gpu"
PODS = 250
IN_FLIGHT = 16

Shape = tuple[int, int, int]
"""(cpu milli, memory MiB, GPUs) of one pod."""


@dataclass(slots=True)
class Machine:
    """A node and what is left of it."""

    name: str
    left: list[int]
    used: int = 0
    """cpu milli of what was bound to it."""


@dataclass(slots=True)
class Ask:
    """A Deployment of so many copies of one shape."""

    name: str
    shape: Shape
    copies: int
    missing: int = 0
    """Copies that were refused."""

    def deployment(self) -> dict[str, Any]:
        labels = {"app": self.name}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "spec": {
                "replicas": self.copies,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": _pod_spec(self.shape)},
            },
        }


@dataclass(slots=True)
class Score:
    """What came of all asks of one level."""

    asked: int = 0
    decided: int = 0
    bound: int = 0
    asks: int = 0
    refused: int = 0
    """Asks that got fewer copies than they wanted ..."""
    wrongly: int = 0
    """... and of which the schedulers could bind more at that moment."""
    missing: int = 0
    would_fit: int = 0
    """Copies refused, and those of them that were bound when tried."""
    why: collections.Counter[str] = field(default_factory=collections.Counter)


def measure(wanted: frozenset[str], scale: float) -> Iterator[Result]:
    """Both rows come from one run."""
    for result in asyncio.run(_measure(scale)):
        if result.id in wanted:
            yield result


async def _measure(scale: float) -> list[Result]:
    data = _data()
    rng = random.Random(SEED)
    shapes = _shapes(data)
    async with _fleet(data, rng, max(4, round(NODES * scale))) as (fleet, machines):
        scores: dict[int, Score] = {}
        for level in LEVELS:
            await _fill(fleet, machines, shapes, level, rng)
            await asyncio.sleep(SETTLE_S)
            scores[level] = await _ask_all(fleet, shapes, level, max(4, round(ASKS * scale)), rng)
    return _results(scores)


def _results(scores: dict[int, Score]) -> list[Result]:
    def total(name: str) -> int:
        return sum(getattr(score, name) for score in scores.values())

    notes = {
        f"{level} %": {
            "asks": score.asks,
            "copies": f"{score.asked} asked, {score.decided} decided, {score.bound} bound",
            "refusals": f"{score.refused} asks, {score.missing} copies; wrongly {score.wrongly} "
            "asks,"
            f" {score.would_fit} copies",
            "why": dict(score.why),
        }
        for level, score in scores.items()
    }
    unbound = 100.0 * (total("decided") - total("bound")) / max(1, total("decided"))
    return [
        Result("T1", unbound, notes=notes),
        Result("T1r", 100.0 * total("wrongly") / max(1, total("asks")), notes=notes),
    ]


# -- the fleet -------------------------------------------------------------------------------------


def _data() -> Path:
    """The openb fleet. Raises build.Unavailable where it is not."""
    found = (
        Path(os.environ.get("FEDERATOR_DATA", ROOT.parent / "shared" / "data")) / "openb-8-clusters"
    )
    if not found.is_dir():
        raise build.Unavailable(
            "The openb data are not there: set FEDERATOR_DATA to the folder that holds them."
        )
    return found


def _shapes(data: Path) -> list[Shape]:
    """openb's pods with whole GPUs or none."""
    with gzip.open(data / "workloads.csv.gz", "rt") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["cpu_milli"] and float(row["gpu"] or 0).is_integer()
        ]
    return [
        (int(row["cpu_milli"]), int(row["memory_mib"]), int(float(row["gpu"] or 0))) for row in rows
    ]


def _machines(
    data: Path, rng: random.Random, member: str, count: int
) -> list[tuple[nodes.Node, Machine]]:
    with (data / "nodes.csv").open() as file:
        rows = rng.sample(list(csv.DictReader(file)), count)
    found = []
    for index, row in enumerate(rows):
        cpu, memory, gpus = (int(row[name]) for name in ("cpu_milli", "memory_mib", "gpu"))
        capacity = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(PODS)} | (
            {GPU: str(gpus)} if gpus else {}
        )
        name = f"{member}-{index:03d}"
        found.append((nodes.Node(name, capacity), Machine(name, [cpu, memory, gpus])))
    return found


@contextlib.asynccontextmanager
async def _fleet(
    data: Path, rng: random.Random, count: int
) -> AsyncIterator[tuple[RealFleet, dict[str, list[Machine]]]]:
    """A host and three members with their nodes, joined; Capacity division."""
    binaries = build.find()
    if binaries is None:
        raise build.Unavailable("There is no real control plane on this machine: run `make kube`.")
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="federator-truth-")))
        plane = stack.enter_context(ControlPlane(binaries))
        members = {
            name: plane.cluster(f"truth-{name}", controllers=True, scheduler=True)
            for name in MEMBERS
        }
        machines: dict[str, list[Machine]] = {}
        for name, cluster in members.items():
            pairs = _machines(data, rng, name, count)
            machines[name] = [machine for _, machine in pairs]
            stack.enter_context(nodes.running(cluster, [node for node, _ in pairs]))
        fleet = RealFleet(plane, home, plane.cluster("truth-host"), members)
        fleet.open()
        try:
            await fleet.join()
            await fleet.clients["host"].raw(
                "DELETE",
                "/apis/federation.pinterest.com/v1alpha1/clusterplacementpolicies/everywhere",
            )
            await fleet.start_hub_and_members()
            yield fleet, machines
        finally:
            for name in ("hub", *(f"member-{name}" for name in MEMBERS)):
                fleet.stop(name)
            await fleet.close()


async def _fill(
    fleet: RealFleet,
    machines: dict[str, list[Machine]],
    shapes: Sequence[Shape],
    level: int,
    rng: random.Random,
) -> None:
    """Binds openb's pods to random nodes that have room until the level's share of each member's
    cpu is asked for.
    """
    for name, own in machines.items():
        total = sum(machine.left[0] + machine.used for machine in own)
        used = sum(machine.used for machine in own)
        made: list[tuple[str, dict[str, Any]]] = []
        tries = 0
        while used * 100 < total * level and tries < 50_000:
            tries += 1
            shape, machine = rng.choice(shapes), rng.choice(own)
            if any(need > left for need, left in zip(shape, machine.left, strict=True)):
                continue
            machine.left = [left - need for need, left in zip(shape, machine.left, strict=True)]
            machine.used += shape[0]
            used += shape[0]
            made.append(
                (f"load-{level}-{len(made)}", _pod_spec(shape) | {"nodeName": machine.name})
            )
        await _make_pods(fleet.clients[name], made)


def _pod_spec(shape: Shape) -> dict[str, Any]:
    cpu, memory, gpus = shape
    asked = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({GPU: str(gpus)} if gpus else {})
    limits = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {
        "containers": [
            {
                "name": "app",
                "image": "registry.example/app:1",
                "resources": {"requests": asked, **limits},
            }
        ],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }


async def _make_pods(client: Client, wanted: Sequence[tuple[str, dict[str, Any]]]) -> None:
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def make(name: str, spec: dict[str, Any]) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
        async with gate:
            await client.create(ObjectRef("v1", "pods", NAMESPACE, name, "Pod"), body)

    await asyncio.gather(*(make(name, spec) for name, spec in wanted))


# -- the asks --------------------------------------------------------------------------------------


async def _ask_all(
    fleet: RealFleet, shapes: Sequence[Shape], level: int, count: int, rng: random.Random
) -> Score:
    """Half of the asks one after another, the other half at once; all are gone at the end."""
    score = Score()
    asks = [
        Ask(f"ask-{level}-{index}", rng.choice(shapes), rng.randint(2, COPIES_MAX))
        for index in range(count)
    ]
    for ask in asks[: count // 2]:
        await _ask(fleet, [ask], score)
    await _ask(fleet, asks[count // 2 :], score)
    await fleet.clients["host"].raw(
        "DELETE", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", timeout_s=60.0
    )
    for name in MEMBERS:
        await _until_gone(fleet.clients[name], f"ask-{level}-")
    return score


async def _ask(fleet: RealFleet, asks: Sequence[Ask], score: Score) -> None:
    """Deployments: what was decided, what was bound, and what the schedulers make of the rest.

    What is tried after a batch has at most the room that the batch was decided on: what fits then
    was refused wrongly.
    """
    host = fleet.clients["host"]
    for ask in asks:
        await host.create(
            ObjectRef("apps/v1", "deployments", NAMESPACE, ask.name, "Deployment"), ask.deployment()
        )
    for ask in asks:
        shares = await _decided(host, ask.name)
        ask.missing = ask.copies - sum(shares.values())
        bound, why = await _bound(fleet, ask.name, shares)
        score.asks += 1
        score.asked += ask.copies
        score.decided += ask.copies - ask.missing
        score.bound += bound
        score.why.update(why)
    for ask in asks:
        if not ask.missing:
            continue
        fits = await _try(fleet, ask)
        score.refused += 1
        score.missing += ask.missing
        score.would_fit += fits
        if fits:
            score.wrongly += 1
            score.why[f"refused, but {fits} of {ask.missing} copies of {ask.shape} fit"] += 1


async def _decided(host: Client, name: str) -> dict[str, int]:
    """Copies by cluster, as decided."""
    deadline = time.monotonic() + DECIDED_S
    while time.monotonic() < deadline:
        if (spec := await _decision(host, name)) is not None:
            return {share["cluster"]: int(share["replicas"]) for share in spec.get("shares") or ()}
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{name} was not decided within {DECIDED_S:g} s")


async def _decision(host: Client, name: str) -> dict[str, Any] | None:
    """The spec of the decision on a workload, None while there is none."""
    found = await host.list(
        "federation.pinterest.com/v1alpha1", "placementdecisions", namespace=NAMESPACE
    )
    return next(
        (obj["spec"] for obj in found.items if obj["spec"]["workload"]["name"] == name), None
    )


async def _bound(
    fleet: RealFleet, name: str, shares: dict[str, int]
) -> tuple[int, collections.Counter[str]]:
    """How many of the decided copies are bound within a minute; and of the others, the scheduler's
    last word and why they were decided anew if they were.
    """
    deadline = time.monotonic() + BOUND_S
    told: dict[tuple[str, str], str] = {}
    while True:
        pods = {cluster: await _pods(fleet.clients[cluster], f"{name}-") for cluster in shares}
        bound = sum(
            min(shares[cluster], sum(map(_is_bound, found))) for cluster, found in pods.items()
        )
        for cluster, found in pods.items():
            for pod in found:
                told[cluster, pod["metadata"]["name"]] = (
                    "" if _is_bound(pod) else _told(pod) or "no word"
                )
        if bound == sum(shares.values()) or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.25)
    why = collections.Counter(f"not bound: {text}" for text in told.values() if text)
    if bound < sum(shares.values()):
        spec = await _decision(fleet.clients["host"], name)
        now = {
            share["cluster"]: int(share["replicas"]) for share in (spec or {}).get("shares") or ()
        }
        why[
            (
                f"{name}: {shares} were decided, now {now} "
                f"({'; '.join((spec or {}).get('causes') or ())})"
            )
        ] += 1
    return bound, why


async def _try(fleet: RealFleet, ask: Ask) -> int:
    """How many of the missing copies the schedulers bind when asked for them all the same; leaves
    nothing behind.
    """
    fits = await asyncio.gather(*(_try_in(fleet.clients[cluster], ask) for cluster in MEMBERS))
    await asyncio.sleep(SETTLE_S)
    return min(sum(fits), ask.missing)


async def _try_in(client: Client, ask: Ask) -> int:
    prefix, count = f"try-{ask.name}-", min(ask.missing, PROBES_MAX)
    await _make_pods(client, [(f"{prefix}{index}", _pod_spec(ask.shape)) for index in range(count)])
    deadline = time.monotonic() + BOUND_S
    while True:
        pods = await _pods(client, prefix)
        if all(_is_bound(pod) or _told(pod) for pod in pods) or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.1)
    for pod in pods:
        with contextlib.suppress(errors.NotFound):
            ref = ObjectRef("v1", "pods", NAMESPACE, pod["metadata"]["name"], "Pod")
            await client.delete(ref, uid=pod["metadata"]["uid"])
    await _until_gone(client, prefix)
    return sum(map(_is_bound, pods))


async def _pods(client: Client, prefix: str) -> list[dict[str, Any]]:
    found = (await client.list("v1", "pods", namespace=NAMESPACE)).items
    return [pod for pod in found if pod["metadata"]["name"].startswith(prefix)]


async def _until_gone(client: Client, prefix: str) -> None:
    """Raises TimeoutError after a minute."""
    async with asyncio.timeout(BOUND_S):
        while await _pods(client, prefix):  # noqa: ASYNC110 - an API server signals nothing to a benchmark
            await asyncio.sleep(0.2)


def _is_bound(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _told(pod: dict[str, Any]) -> str:
    """Why the scheduler has not bound it, "" while it has not said."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason") or "no reason given")[
                :160
            ]
    return ""
