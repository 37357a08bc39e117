"""Three quarters of a virtual hour of a job set with guards: members fall silent, lose their API
server, come back, are drained, declared dead; hubs change; renewals arrive late; clocks of nodes
are off, within the budget. Judged by what containers do, not by what API servers say of them.

`python -m tests.simulation.guarded --seeds 0-9`. Each pod has the real guard (`runtime.guard`) with
a clock of its own; `Kubelets` ask it as kubelets do, whether anybody can be reached or not. The
rule is that of `exclusives`: no shard runs in two members at any second. Another: what runs later
has the larger FENCE_EPOCH.
"""

import asyncio
import contextlib
import functools
import json
import random
import sys
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import raw
from federator.hub.options import HubOptions
from federator.kube import errors
from federator.model.steps import ObjectRef
from federator.runtime import fencing, reading
from federator.runtime.fencing import Renewal
from federator.runtime.guard import Guard
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.faults.links import Cut
from tests.simulation import exclusives
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.simulation.exclusives import NAME, PJS, PODS, SHARDS, SPACE, Run
from tests.unit.hub.world import World, jobset

SYSTEM: Final = "federator-system"
EPOCHS: Final = "3 epochs rise"
PLAYS_S: Final = 2400.0
SETTLES_S: Final = 600.0
"""A minute until a cluster is renewed that was silent, and what `exclusives` takes."""
ACTS: Final = ("cut", "cut", "api", "stuck", "heal", "drain", "undrain", "dead", "hub", "late")
WANTED: Final = (*ACTS, "moved", "started", "stopped", "declaredDead")
LONG_S: Final = (200.0, 700.0)
"""What is cut stays so for longer than a lease, often."""


@dataclass(slots=True)
class Container:
    """The container of one shard on its node, as its kubelet has it."""

    guard: Guard
    phase_s: int
    """Its probes and its guard's reads begin so many seconds after others'."""
    runs: bool = False
    failures: int = 0
    ends_s: float | None = None


@dataclass
class Kubelets:
    """The nodes of all members: they run what is bound to them, ask guards and stop containers,
    with no API server to tell them anything."""

    world: World
    skew_s: Mapping[str, float]
    """How far the nodes of a member are ahead of the hub; negative: behind."""
    rng: random.Random
    gone: set[str] = field(default_factory=set)
    """Members whose API server nobody in them reaches."""
    containers: dict[str, dict[str, Container]] = field(default_factory=dict)
    """Member -> uid of a pod -> its container."""
    seen: Counter[str] = field(default_factory=Counter)

    def _now(self) -> float:
        return self.world.federation.clock.monotonic()

    def _guard(self, member: str) -> Guard:
        clock, skew_s = self.world.federation.clock, self.skew_s[member]
        ref = ObjectRef("coordination.k8s.io/v1", "leases", SYSTEM, fencing.LEASE, "Lease")

        async def read() -> Renewal:
            if member in self.gone:
                raise reading.Unread("no answer")
            try:
                lease = await self.world.member(member).get(ref)
            except errors.ApiError as trouble:
                raise reading.Unread(str(trouble)) from None
            return reading.renewal_of(json.dumps(lease).encode())

        return Guard(read, clock=clock.monotonic, wall=lambda: clock.now() + skew_s)

    async def second(self, members: Collection[str]) -> None:
        """One second of all nodes."""
        for member in members:
            here = self.containers.setdefault(member, {})
            pods = {}
            for pod in (await self.world.member(member).list("v1", "pods", namespace=SPACE)).items:
                if raw.text(pod, "status", "phase") == "Running":
                    pods[pod["metadata"]["uid"]] = pod
            for uid in [uid for uid in here if uid not in pods]:
                del here[uid]
            for uid, pod in pods.items():
                if uid not in here:
                    here[uid] = Container(self._guard(member), self.rng.randrange(5))
                await self._step(member, pod, here[uid])

    async def _step(self, member: str, pod: Mapping[str, Any], container: Container) -> None:
        now_s = int(self._now())
        if (now_s + container.phase_s) % int(fencing.POLL_S) == 0:
            await container.guard.read()
        good = container.guard.answer("/healthz")[0] == 200
        if not container.runs:
            container.runs = good and container.ends_s is None
            self.seen["started"] += container.runs
        elif container.ends_s is None:
            if (now_s + container.phase_s) % fencing.PROBE_PERIOD_S == 0:
                container.failures = 0 if good else container.failures + 1
            if container.failures >= fencing.PROBE_FAILURES:
                container.ends_s = now_s + fencing.PROBE_TIMEOUT_S + fencing.GRACE_MAX_S
                self.seen["stopped"] += 1
        if container.ends_s is not None and now_s >= container.ends_s:
            container.runs = False
            if member not in self.gone:
                await self._report(member, pod)

    async def _report(self, member: str, pod: Mapping[str, Any]) -> None:
        meta = pod["metadata"]
        ref = ObjectRef("v1", "pods", meta["namespace"], meta["name"], "Pod")
        with contextlib.suppress(errors.NotFound):
            await self.world.member(member).patch(
                ref, {"status": {"phase": "Failed"}}, subresource="status"
            )


@dataclass
class GuardedRun(Run):
    """The same, by what containers do."""

    kubelets: Kubelets = field(init=False)
    epochs: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Shard -> the epoch of its last run, and the member in which that was."""

    async def running(self) -> dict[int, set[str]]:
        places: dict[int, set[str]] = {}
        for member in self.members:
            here = self.kubelets.containers.get(member, {})
            for pod in (await self.world.member(member).list("v1", "pods", namespace=SPACE)).items:
                container = here.get(pod["metadata"]["uid"])
                if container is not None and container.runs:
                    places.setdefault(exclusives.shard_of(pod), set()).add(member)
                    self._judge_epoch(member, pod)
        return places

    def _judge_epoch(self, member: str, pod: Mapping[str, Any]) -> None:
        """A run in another member than the last one has a larger epoch; one that is tried again in
        the same member has no smaller one."""
        shard = exclusives.shard_of(pod)
        env = raw.objects(raw.objects(pod, "spec", "containers")[0], "env")
        epoch = next(int(entry["value"]) for entry in env if entry["name"] == "FENCE_EPOCH")
        last, home = self.epochs.get(shard, (0, ""))
        if epoch < last or (epoch == last and home != member):
            what = f"shard {shard} runs in {member} with epoch {epoch}, after {last} in {home}"
            raise Broken(self.seed, EPOCHS, f"{what} (at {self.now_s:.0f} s)")
        self.epochs[shard] = epoch, member

    async def look(self) -> None:
        await self.kubelets.second(self.members)
        await super().look()


@dataclass(frozen=True, slots=True)
class Script:
    """What differs between worlds."""

    options: HubOptions = field(default_factory=HubOptions)
    behind_s: float | None = None
    """So far all nodes are behind; None: drawn within the budget, ahead or behind."""
    acts: tuple[str, ...] = ACTS
    plays_s: float = PLAYS_S


async def _silence(run: GuardedRun, name: str, act: str, rng: random.Random) -> None:
    """A member is cut off from the hub; its API server is gone for everybody; or a renewal is on
    its way to it when it is cut off, and arrives when nothing else does."""
    if name in run.cut:
        return
    run.cut.add(name)
    world, hubs = run.world, run.world.federation.hub_names
    match act:
        case "cut":
            how = rng.choice((Cut.REFUSED, Cut.SILENT, Cut.MUTE, Cut.DEAF))
            for hub in hubs:
                await world.cut(name, process=hub, how=how)
        case "api":
            run.kubelets.gone.add(name)
            for process in (*hubs, f"member-{name}"):
                await world.cut(name, process=process, how=Cut.REFUSED)
        case "stuck":
            for hub in hubs:
                await world.links.sever(hub, name, Cut.SILENT, late=True)
            try:
                await asyncio.sleep(rng.uniform(120.0, 170.0))
            finally:
                for hub in hubs:
                    await world.cut(name, process=hub, how=Cut.DEAF)
                    world.links.heal(hub, name, Cut.SILENT, late=True)
    await asyncio.sleep(rng.uniform(*LONG_S))


async def _happen(run: GuardedRun, rng: random.Random, acts: tuple[str, ...]) -> None:
    world = run.world
    while True:
        await asyncio.sleep(rng.uniform(2.0, 60.0))
        name, act = rng.choice(run.members), rng.choice(acts)
        run.seen[act] += 1
        match act:
            case "cut" | "api" | "stuck":
                await _silence(run, name, act, rng)
            case "heal":
                _heal(run)
            case "drain" | "undrain":
                wish = {"jobsFinishSeconds": 0, "force": True} if act == "drain" else None
                await world.patch(exclusives.CLUSTER, "", name, {"spec": {"drain": wish}})
            case "dead":
                await _silence(run, name, "cut", rng)
                await exclusives.said(run, name, "declaredDead")
            case "hub":
                hub = rng.choice(world.federation.hub_names)
                await world.federation.kill(hub)
                await asyncio.sleep(rng.uniform(0.0, 60.0))
                world.federation.start_hub(hub)
            case "late":
                world.lose_reply(name, "PATCH", rng.choice(("leases", "pinterestjobsets")))


def _heal(run: GuardedRun) -> None:
    for silent in sorted(run.cut):
        run.world.heal(silent)
    run.cut.clear()
    run.kubelets.gone.clear()


async def _play(seed: int, script: Script) -> Counter[str]:
    rng = random.Random(f"{seed}/guarded")
    members = list("abcd"[: rng.randint(2, 4)])
    pools = [Pool(count=3, cpu="8", memory="32Gi")]
    fleet = FleetSpec(members=[MemberSpec(name=name, nodes=pools) for name in members])
    hubs = 1 + seed % 2
    world = World(fleet, script.options, seed, hubs=hubs, election=hubs > 1)
    run = GuardedRun(seed, world, members)
    budget_s = script.options.fence_skew_s
    skew_s = {
        name: rng.uniform(-budget_s, budget_s) if script.behind_s is None else -script.behind_s
        for name in members
    }
    run.kubelets = Kubelets(world, skew_s, rng, seen=run.seen)
    for cluster in world.federation.members.values():
        cluster.trust("the CA of this cluster")  # guards mount it, as every pod may
    try:
        await world.federation.start()
        asked: dict[str, Any] = jobset(SHARDS, SHARDS, annotations=PODS)
        # Every time that a guard stops it is a failed try.
        more = {"execution": "Exclusive", "guard": True, "backoffLimitPerShard": 1000}
        placement = {"failover": {"afterSeconds": 30}}
        await world.create(PJS, SPACE, NAME, {**asked, **more, "placement": placement})
        await play_until(run, script.plays_s, _happen(run, rng, script.acts))
        _heal(run)
        await exclusives.welcome(run)
        for hub in world.federation.hub_names:
            if hub not in world.federation.tasks:
                world.federation.start_hub(hub)
        await exclusives.come_to_rest(run, SETTLES_S)
    finally:
        await world.federation.stop()
    return run.seen


def campaign(script: Script) -> Campaign:
    """Worlds of this kind."""
    return Campaign(__doc__ or "", functools.partial(_play, script=script), WANTED)


CAMPAIGN: Final = campaign(Script())


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
