"""A quarter of a virtual hour of tenants who lend, borrow and come back for what is theirs: one seeded world
after another, judged by objects alone.

`python -m tests.simulation.reclaims --seeds 0-9`. A campaign of its own beside `run`: here quotas
are a tree whose accounts reclaim, somebody borrows most of the time, and what goes wrong goes wrong
while some have left and those for whom they left are not there yet. What is judged is in
`reclaimrules`.
"""

import asyncio
import contextlib
import random
import sys
from collections import Counter
from typing import Any, Final

from federator.hub.options import HubOptions
from federator.kube.wire.transport import Request
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.simulation.campaigns import Campaign
from tests.simulation.reclaimrules import Rules
from tests.unit.hub.world import HUB, World, service

PLAY_S: Final = 600.0
SETTLES_S: Final = 420.0
"""After the last fault; the last retry without a hint is 300 s away."""
LOOK_S: Final = 1.0
NODE_CPUS: Final = 8
PROJECTS: Final = ("ads", "feed", "ml")
DECISIONS: Final = "placementdecisions"
EDITS_SHARE: Final = 0.5
EDIT_S: Final = (10.0, 80.0)
PARTS_SHARE: Final = 0.4
DRAIN_S: Final = (20.0, 60.0)
ACTS: Final = (
    *("borrow", "return", "borrow", "return", "low", "high", "gang", "batch", "ordinals"),
    *("hub", "cut", "slow", "lost", "armed", "armed"),
)


class Tenants(World):
    """A world whose decisions are judged as they are written."""

    def __init__(self, seed: int, rng: random.Random) -> None:
        names = "abc"[: rng.randint(2, 3)]
        pools = [Pool(count=2, cpu=str(NODE_CPUS), memory="64Gi")]
        fleet = FleetSpec(
            members=[MemberSpec(name=name, labels={"place": name}, nodes=pools) for name in names]
        )
        self.rules: Rules | None = None
        self.armed = ""
        """What goes wrong as soon as somebody leaves."""
        self.struck = asyncio.Event()
        super().__init__(fleet, HubOptions(), seed)

    def heard(self, process: str, cluster: str, request: Request, status: int) -> None:
        super().heard(process, cluster, request, status)
        wrote = request.method != "GET" and cluster == "host" and status < 300
        if self.rules is None or process != HUB or not wrote or DECISIONS not in request.path:
            return
        if self.rules.written() and self.armed:
            self.struck.set()


class Play:
    """One world and what happens in it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}/reclaims")
        self.world = Tenants(seed, self.rng)
        self.members = sorted(self.world.federation.members)
        tight = self.rng.random() < 0.5
        whole = 2 * NODE_CPUS * len(self.members)
        self.total = whole if tight else whole * 2 // 3
        """What company has, in cpus, of which each copy takes one: all that there is, or less."""
        self.rules = Rules(seed, self.world, self.total)
        self.guaranteed = self.rules.guaranteed
        self.batch = self.gang = 0
        self.editing = random.Random(f"{seed}/edits")
        """Of the edits that ask for more or less of what runs; in every other world."""
        self.edits = self.editing.random() < EDITS_SHARE
        self.parting = random.Random(f"{seed}/parts")
        """Of the worlds in which no account may have more than its guarantee in one of the clusters,
        and of the drains in these."""
        self.part = ""
        if self.parting.random() < PARTS_SHARE:
            self.part = self.rules.part = self.parting.choice(self.members)

    async def begin(self) -> None:
        rng, world = self.rng, self.world
        company = tier(self.total) | self.domains(self.total)
        await world.create("FederatedQuota", "", "company", company)
        spare = rng.choice((0, 0, 3))
        for project in PROJECTS:
            amount = (self.total - spare) // len(PROJECTS)
            within = rng.choice(("Never", "LowerPriority"))
            rules = {"reclaim": "Any", "withinProject": within}
            more = {"parent": "company", "projects": [project], "preemption": rules}
            own = tier(amount) | self.domains(amount, amount) | more
            await world.create("FederatedQuota", "", project, own)
            self.guaranteed[project] = amount
        indivisible = rng.random() < 0.3
        for project in PROJECTS:
            whole = (
                {"placement": {"partial": "RequireAll"}} if indivisible and project == "ml" else {}
            )
            asked = self.service(project, 1, 0, **whole)
            await world.create("PinterestService", project, "web", asked)
            await world.create("PinterestService", project, "api", self.service(project, 1, 100))
        asked = {**self.service("feed", 1, 0), "replicas": rng.randint(1, 4)}
        await world.create("PinterestStatefulSet", "feed", "kv", asked)

    def domains(self, guaranteed: int, part: int | None = None) -> dict[str, Any]:
        """Limits of an account: over all clusters, and in the one that is a part of its own."""
        if not self.part:
            return {}
        everywhere = {"matchExpressions": [{"key": "place", "operator": "Exists"}]}
        named: list[dict[str, Any]] = [
            {"name": "anywhere", "selector": everywhere, **tier(guaranteed)}
        ]
        if part is not None:
            there = {"OnDemand": {"max": {"cpu": str(part)}}}
            selector = {"matchLabels": {"place": self.part}}
            named.append({"name": "part", "selector": selector, "tiers": there})
        return {"domains": named}

    def service(self, project: str, replicas: int, priority: int, **more: Any) -> dict[str, Any]:
        asked = service(replicas, cpu="1", project=project, priority=priority, **more)
        stops = self.rng.choice(("0", "5-30"))
        asked["template"]["metadata"] = {"annotations": {"embedded.federator/stop-seconds": stops}}
        return asked

    async def scale(self, project: str, name: str, replicas: int) -> None:
        kind = "PinterestStatefulSet" if name == "kv" else "PinterestService"
        await self.world.patch(kind, project, name, {"spec": {"replicas": replicas}})

    async def size(self, project: str, name: str, cpus: int) -> None:
        """An edit of a service: so many cpus for each copy."""
        container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": str(cpus)}}}
        edit = {"template": {"spec": {"containers": [container]}}}
        await self.world.patch("PinterestService", project, name, {"spec": edit})

    async def edit(self) -> None:
        rng = self.editing
        while self.edits:
            await asyncio.sleep(rng.uniform(*EDIT_S))
            await self.size(rng.choice(PROJECTS), rng.choice(("web", "api")), rng.choice((1, 2)))
            self.rules.seen["edited"] += 1

    async def drain(self) -> None:
        rng = self.parting
        while self.part:
            await asyncio.sleep(rng.uniform(*DRAIN_S))
            name = rng.choice([other for other in self.members if other != self.part])
            await self.world.patch("MemberCluster", "", name, {"spec": {"drain": {"force": True}}})
            await asyncio.sleep(rng.uniform(*DRAIN_S))
            await self.world.patch("MemberCluster", "", name, {"spec": {"drain": None}})
            self.rules.seen["drained"] += 1

    async def happen(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(2.0, 40.0))
            await self.act(self.rng.choice(ACTS))

    async def act(self, act: str) -> None:
        rng, project = self.rng, self.rng.choice(PROJECTS)
        match act:
            case "borrow":
                await self.scale(project, "web", rng.randint(1, self.total))
            case "return":
                await self.scale(project, "web", self.guaranteed[project] - rng.randint(0, 2))
            case "low":
                await self.scale(project, "web", rng.randint(0, 2))
            case "high":
                await self.scale(project, "api", rng.randint(0, self.guaranteed[project] // 2))
            case "ordinals":
                await self.scale("feed", "kv", rng.randint(0, self.total // 2))
            case "gang" | "batch":
                await self.job(act)
            case "armed":
                self.world.armed = rng.choice(("hub", "cut", "slow", "lost"))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.world.struck.wait(), 60.0)
                self.world.struck.clear()
                wrong, self.world.armed = self.world.armed, ""
                await self.wrong(wrong)
            case _:
                await self.wrong(act)

    async def job(self, which: str) -> None:
        """A training job or a job set of ads or ml, instead of the one before."""
        rng, world, project = self.rng, self.world, self.rng.choice(("ads", "ml"))
        number = getattr(self, which)
        kind = "PinterestTrainingJob" if which == "gang" else "PinterestJobSet"
        for before in PROJECTS:
            if await world.get(kind, before, f"{which}-{number}") is not None:
                await world.delete(kind, before, f"{which}-{number}")
        setattr(self, which, number + 1)
        container = {"name": "main", "image": "t:1", "resources": {"requests": {"cpu": "1"}}}
        run_s = str(rng.choice((20, 120, 600)))
        template: dict[str, Any] = {
            "metadata": {"annotations": {"embedded.federator/run-seconds": run_s}},
            "spec": {"containers": [container]},
        }
        spec: dict[str, Any] = {"project": project, "template": template}
        if which == "gang":
            workers = {"name": "worker", "replicas": rng.randint(1, 5)}
            spec |= {"components": [{"name": "master"}, workers], "gangTimeoutSeconds": 60}
        else:
            template["spec"]["restartPolicy"] = "Never"
            spec |= {"shards": rng.randint(4, 20), "parallelism": rng.randint(2, 8)}
        await world.create(kind, project, f"{which}-{number + 1}", spec)

    async def wrong(self, what: str) -> None:
        rng, world = self.rng, self.world
        self.rules.seen[what] += 1
        self.rules.trouble()
        match what:
            case "hub":
                await world.federation.kill(HUB)
                await asyncio.sleep(rng.uniform(0.0, 20.0))
                world.federation.start_hub()
                self.rules.trouble()
            case "cut":
                name = rng.choice(self.members)
                await world.cut(name)
                await asyncio.sleep(rng.uniform(10.0, 120.0))
                world.heal(name)
                self.rules.trouble()
            case "slow":
                world.hold_up("host", "", rng.uniform(1.0, 8.0))
                await asyncio.sleep(rng.uniform(5.0, 40.0))
                world.clear()
                self.rules.trouble()
            case _:
                world.lose_reply("host", "PUT", DECISIONS)
                self.rules.trouble()

    async def finale(self) -> None:
        """Two of them borrow what the third lends, one of them little, and the third comes back for
        all of it, by its count or by an edit; nothing goes wrong any more."""
        little, much, third = self.rng.sample(PROJECTS, 3)
        await self.scale("feed", "kv", 0)
        for project in PROJECTS:
            await self.scale(project, "api", 0)
            await self.scale(project, "web", 0)
            if self.edits:
                await self.size(project, "web", 1)
                await self.size(project, "api", 1)
        await self.looking(60.0)
        amount = self.guaranteed[third]
        await self.scale(much, "web", self.guaranteed[much] + amount - 2)
        await self.looking(30.0)
        await self.scale(little, "web", self.guaranteed[little] + 2)
        await self.looking(60.0)
        if not self.edits:
            await self.scale(third, "web", amount)
            return
        await self.scale(third, "web", amount // 2)
        await self.looking(120.0)
        await self.size(third, "web", 2)

    async def looking(self, for_s: float) -> None:
        until_s = self.rules.now_s + for_s
        while self.rules.now_s < until_s:
            self.rules.look()
            await asyncio.sleep(LOOK_S)

    async def run(self) -> Counter[str]:
        world, clock = self.world, self.world.federation.clock
        try:
            await world.federation.start()
            await self.begin()
            await world.settle()
            world.rules = self.rules
            self.rules.written()
            happening = asyncio.create_task(self.happen(), name="what happens")
            editing = asyncio.create_task(self.edit(), name="edits")
            draining = asyncio.create_task(self.drain(), name="drains")
            tasks = (happening, editing, draining)
            until_s = clock.monotonic() + PLAY_S
            while clock.monotonic() < until_s:
                self.rules.look()
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(LOOK_S)
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            world.heal()
            world.clear()
            for name in self.members:
                await world.patch("MemberCluster", "", name, {"spec": {"drain": None}})
            if HUB not in world.federation.tasks:
                world.federation.start_hub()
            self.rules.trouble()
            await self.finale()
            await self.looking(SETTLES_S)
            self.rules.at_rest()
        finally:
            await world.federation.stop()
        return self.rules.seen


def tier(cpus: int) -> dict[str, Any]:
    return {"tiers": {"OnDemand": {"guaranteed": {"cpu": str(cpus)}}}}


async def _play(seed: int) -> Counter[str]:
    return await Play(seed).run()


CAMPAIGN: Final = Campaign(__doc__ or "", _play)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
