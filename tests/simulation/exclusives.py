"""Most of a virtual hour of a job set whose shards may not run twice: members fall silent, are
drained, excluded, declared dead and fenced, hubs die, writes arrive late. Judged by pods alone.

`python -m tests.simulation.exclusives --seeds 0-9`. The rule knows nothing of decisions: no shard
has a pod that may run in two members at once, at no second.
"""

import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import raw
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube import errors
from federator.model import shards
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.faults.links import Cut
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.unit.hub.world import World, jobset

PJS, CLUSTER, NAME = "PinterestJobSet", "MemberCluster", "once"
SPACE: Final = "feed"
SHARDS: Final = 10
PLAYS_S: Final = 1200.0
SETTLES_S: Final = 420.0
"""When all is well again every shard runs within this: pods stop, and a minute passes."""
TWICE: Final = "3 no shard runs twice"
SETTLES: Final = "10 settles"
ENDED: Final = ("Succeeded", "Failed")
ACTS: Final = ("cut", "cut", "heal", "drain", "undrain", "exclude", "dead", "fence", "hub", "late")
PODS: Final = {
    "embedded.federator/run-seconds": "100000",
    "embedded.federator/stop-seconds": "3-25",
}


def shard_of(pod: Mapping[str, Any]) -> int:
    """The shard that a pod of the job set runs."""
    labels = raw.text_map(pod, "metadata", "labels")
    job = labels["batch.kubernetes.io/job-name"]
    index = labels["batch.kubernetes.io/job-completion-index"]
    return int(job.split("-")[-2]) + int(index)


@dataclass
class Run:
    """One world, and what was seen in it."""

    seed: int
    world: World
    members: list[str]
    cut: set[str] = field(default_factory=set)
    homes: dict[int, str] = field(default_factory=dict)
    """Shard -> where it was last seen."""
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def now_s(self) -> float:
        return self.world.federation.clock.monotonic()

    async def running(self) -> dict[int, set[str]]:
        """Shard -> members with a pod of it that has not ended."""
        places: dict[int, set[str]] = {}
        for member in self.members:
            for pod in (await self.world.member(member).list("v1", "pods", namespace=SPACE)).items:
                labels = raw.text_map(pod, "metadata", "labels")
                job = labels.get("batch.kubernetes.io/job-name", "")
                if raw.text(pod, "status", "phase") in ENDED or not job.startswith(NAME):
                    continue
                places.setdefault(shard_of(pod), set()).add(member)
        return places

    async def look(self) -> None:
        """Judges this second."""
        for shard, at in sorted((await self.running()).items()):
            if len(at) > 1:
                what = f"shard {shard} runs in {' and '.join(sorted(at))} (at {self.now_s:.0f} s)"
                raise Broken(self.seed, TWICE, what)
            (home,) = at
            self.seen["moved"] += self.homes.get(shard, home) != home
            self.homes[shard] = home

    async def at_rest(self) -> None:
        """All is well: every shard has a place, as many run as may at once, nothing waits."""
        running = await self.running()
        (decision,) = await self.world.decisions()
        given = {share["cluster"]: share for share in decision["spec"]["shares"]}
        ranges = {name: shards.parse(share["ranges"]) for name, share in given.items()}
        most = sum(min(share["slots"], shards.size(ranges[n])) for n, share in given.items())
        placed = sum(map(shards.size, ranges.values()))
        if placed != SHARDS or len(running) != most or "mayStillRun" in decision["spec"]:
            what = f"{sorted(running)} run, by {decision['spec']['shares']}"
            raise Broken(self.seed, SETTLES, what)


async def _cut(run: Run, name: str, rng: random.Random) -> None:
    """Nothing is heard of a member any more, in one way or another."""
    if name not in run.cut:
        run.cut.add(name)
        how = rng.choice((Cut.REFUSED, Cut.SILENT, Cut.MUTE, Cut.DEAF))
        await run.world.cut(name, how=how)


async def said(run: Run, name: str, word: str) -> None:
    """A person's word about a silence; refused or void where there is none."""
    obj = await run.world.get(CLUSTER, "", name) or {}
    silent = raw.text(obj, "status", "lastHeard")
    if name in run.cut and silent and raw.condition(obj, "Ready").get("status") != "True":
        run.seen[word] += 1
        await run.world.patch(CLUSTER, "", name, {"spec": {word: silent}})


async def _off(run: Run, name: str) -> None:
    """Somebody sees to it that nothing of the job set runs in a member, whoever hears it."""
    obj = await run.world.get(PJS, SPACE, NAME, at=name)
    if obj is not None:
        ref, uid = registry.KINDS[PJS].ref(SPACE, NAME), obj["metadata"]["uid"]
        with contextlib.suppress(errors.NotFound):
            await run.world.member(name).delete(ref, uid=uid, propagation="Foreground")
    for _ in range(120):
        if all(name not in at for at in (await run.running()).values()):
            return
        await asyncio.sleep(1)
    raise Broken(run.seed, SETTLES, f"pods in {name} do not end")


async def _happen(run: Run, rng: random.Random) -> None:
    world = run.world
    while True:
        await asyncio.sleep(rng.uniform(2.0, 60.0))
        name, act = rng.choice(run.members), rng.choice(ACTS)
        run.seen[act] += 1
        match act:
            case "cut":
                await _cut(run, name, rng)
            case "heal":
                for silent in sorted(run.cut):
                    run.cut.discard(silent)
                    world.heal(silent)
            case "drain" | "undrain":
                wish = {"jobsFinishSeconds": 0, "force": True} if act == "drain" else None
                await world.patch(CLUSTER, "", name, {"spec": {"drain": wish}})
            case "exclude":
                some = rng.sample(run.members, rng.randint(0, 1))
                placement = {"clusters": {"exclude": some}, "failover": {"afterSeconds": 30}}
                await world.patch(PJS, SPACE, NAME, {"spec": {"placement": placement}})
            case "dead" | "fence":
                await _cut(run, name, rng)
                await asyncio.sleep(60.0)
                if act == "fence":
                    await _off(run, name)
                await said(run, name, "declaredDead" if act == "dead" else "fenced")
                await asyncio.sleep(60.0)
            case "hub":
                await world.federation.kill("hub")
                await asyncio.sleep(rng.uniform(0.0, 20.0))
                world.federation.start_hub()
            case "late":
                world.lose_reply(name, rng.choice(("POST", "PATCH")), "pinterestjobsets")


async def _end(run: Run) -> None:
    """Everything is well, and everybody welcome."""
    for silent in sorted(run.cut):
        run.world.heal(silent)
    run.cut.clear()
    await welcome(run)


async def welcome(run: Run) -> None:
    """Work may be everywhere."""
    for name in run.members:
        await run.world.patch(CLUSTER, "", name, {"spec": {"drain": None}})
    everywhere: dict[str, Any] = {"spec": {"placement": {"clusters": {"exclude": []}}}}
    await run.world.patch(PJS, SPACE, NAME, everywhere)


async def come_to_rest(run: Run, settles_s: float) -> None:
    """Nothing happens any more, and in the end everything is as it should be."""
    for _ in range(int(settles_s)):
        await run.look()
        await asyncio.sleep(1)
    await run.at_rest()


async def _play(seed: int) -> Counter[str]:
    rng = random.Random(f"{seed}/exclusives")
    members = list("abcd"[: rng.randint(2, 4)])
    pools = [Pool(count=3, cpu="8", memory="32Gi")]
    fleet = FleetSpec(members=[MemberSpec(name=name, nodes=pools) for name in members])
    world = World(fleet, HubOptions(), seed)
    run = Run(seed, world, members)
    try:
        await world.federation.start()
        asked: dict[str, Any] = jobset(SHARDS, SHARDS, annotations=PODS)
        placement = {"failover": {"afterSeconds": 30}}
        await world.create(
            PJS, SPACE, NAME, {**asked, "execution": "Exclusive", "placement": placement}
        )
        await asyncio.sleep(30)
        await play_until(run, PLAYS_S, _happen(run, rng))
        await _end(run)
        await come_to_rest(run, SETTLES_S)
    finally:
        await world.federation.stop()
    return run.seen


CAMPAIGN: Final = Campaign(__doc__ or "", _play)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
