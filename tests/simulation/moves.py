"""A virtual hour of moves in a fleet that has room, while replacements take 30 to 300 s to start.
Every trigger of a move: edits of a policy and of a Required one, of labels and taints, drains,
maintenance windows, `federator cluster remove`, deletions of a MemberCluster, rebalances and
failbacks.

`python -m tests.simulation.moves --seeds 0-19`. A campaign of its own beside `run`, because its
worlds have room for every replacement: there no move may lower the number of ready copies of any
service. In `run` a cluster may be full, narrowed or lost at any time, and objects do not show
whether a cluster had room when the hub decided; its rule 15 allows `maxUnavailable`. The rule here
counts what the Deployments of the members report, and knows nothing of `federator.scheduling`. Seed
n begins with the n-th kind of move; a drawn one follows.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from federator.cli.clusters import removal
from federator.cli.planning import rebalance
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.model.names import WorkloadKey
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.simulation.campaigns import Broken, Campaign
from tests.unit.hub.world import World, service
from tests.worlds import EPOCH_S

READY: Final = "15 moves keep what is ready"
ENDS: Final = "10 moves end"
MOVES_S: Final = 1500.0
"""A move ends within this."""
LOOK_S: Final = 2.0
STARTS_S: Final = (30, 300)
KINDS: Final = (
    *("policy", "required", "label", "taint", "drain", "maintenance", "rebalance", "failback"),
    *("removal", "deletion"),
)
LEAVES: Final = ("removal", "deletion")
"""Kinds of moves after which the cluster is no member any more."""
PSVC, CLUSTER, POLICY = "PinterestService", "MemberCluster", "ClusterPlacementPolicy"
NAME: Final = "web"
LABEL: Final = "use"
LOST_S: Final = 120.0
"""A cluster is cut off for so long before its copies have another place."""


class Play:
    """One world and its moves."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed}/moves")
        self.members = list("abcd"[: self.rng.randint(2, 4)])
        pools = [Pool(count=3, cpu="8", memory="32Gi")]
        fleet = FleetSpec(
            members=[
                MemberSpec(name=name, labels={LABEL: NAME}, nodes=pools) for name in self.members
            ]
        )
        pace = self.rng.choice((12, 60, 300))
        self.world = World(fleet, HubOptions(evacuated_copies_a_minute=pace), seed)
        self.copies = {
            f"{NAME}{number or ''}": self.rng.randint(4, 16)
            for number in range(self.rng.randint(1, 3))
        }
        """Service -> its copies."""
        self.seen: Counter[str] = Counter()

    async def begin(self) -> None:
        starts = sorted(self.rng.randint(*STARTS_S) for _ in range(2))
        chosen = {"clusters": {"selector": {"matchLabels": {LABEL: NAME}}}}
        failover = {"afterSeconds": 30, "cooldownSeconds": 30, "failbackAfterSeconds": 60}
        await self.world.create(POLICY, "", "where", {**chosen, "failover": failover})
        delay = {"embedded.federator/start-delay-seconds": f"{starts[0]}-{starts[1]}"}
        for name, copies in self.copies.items():
            asked = service(copies, cpu="250m")
            asked["template"]["metadata"] = {"annotations": delay}
            await self.world.create(PSVC, "feed", name, asked)
        await self.world.settle(MOVES_S)

    async def look(self) -> None:
        """Judges the ready copies of each service in all members."""
        for service_, copies in self.copies.items():
            ready = {name: await self.ready(name, service_) for name in self.members}
            if sum(ready.values()) < copies:
                kinds = " and ".join(kind for kind, _ in self.seen.items())
                shares = await self.world.shares("feed", service_)
                what = f"{service_}: {ready} of {copies} are ready; the decision says {shares}"
                raise Broken(self.seed, READY, f"{kinds}: {what}")

    async def ready(self, cluster: str, name: str = NAME) -> int:
        found = await self.world.get("Deployment", "feed", name, at=cluster)
        return int(((found or {}).get("status") or {}).get("readyReplicas", 0))

    async def until(self, done: Callable[[], Awaitable[bool]]) -> None:
        """Looks all the time until it is done."""
        end_s = self.now_s + MOVES_S
        while not await done():
            await self.look()
            if self.now_s > end_s:
                shares = await self.world.shares("feed", NAME)
                what = f"{dict(self.seen)} goes on; the decision says {shares}"
                raise Broken(self.seed, ENDS, what)
            await asyncio.sleep(LOOK_S)
        await self.look()

    async def rest(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            await self.look()
            await asyncio.sleep(LOOK_S)

    @property
    def now_s(self) -> float:
        return float(self.world.federation.clock.monotonic())

    async def move(self, kind: str) -> None:
        """Makes one move, watches it, and undoes what caused it."""
        shares = await self.world.shares("feed", NAME)
        cluster = self.rng.choice(sorted(name for name, copies in shares.items() if copies))
        self.seen[kind] += 1
        await getattr(self, f"_{kind}")(cluster)

    def empty(self, cluster: str) -> Callable[[], Awaitable[bool]]:
        async def gone() -> bool:
            for name in self.copies:
                there = await self.world.get("Deployment", "feed", name, at=cluster)
                if there is not None or cluster in await self.world.shares("feed", name):
                    return False
            return True

        return gone

    def left(self, cluster: str) -> Callable[[], Awaitable[bool]]:
        empty = self.empty(cluster)

        async def gone() -> bool:
            return await empty() and await self.world.get(CLUSTER, "", cluster) is None

        return gone

    def filled(self, cluster: str) -> Callable[[], Awaitable[bool]]:
        async def back() -> bool:
            share = (await self.world.shares("feed", NAME)).get(cluster, 0)
            return share > 0 and await self.ready(cluster) == share

        return back

    async def member(self, cluster: str, **spec: Any) -> None:
        await self.world.patch(CLUSTER, "", cluster, {"spec": spec})

    async def _policy(self, cluster: str) -> None:
        ref = registry.KINDS[POLICY].ref("", "where")
        others = [name for name in self.members if name != cluster]
        await self.world.host.patch(ref, {"spec": {"clusters": {"names": others}}})
        await self.until(self.empty(cluster))
        await self.world.host.patch(ref, {"spec": {"clusters": {"names": None}}})

    async def _required(self, cluster: str) -> None:
        others = [name for name in self.members if name != cluster]
        asked = {"enforcement": "Required", "clusters": {"names": others}}
        await self.world.create(POLICY, "", "only", asked)
        await self.until(self.empty(cluster))
        await self.world.delete(POLICY, "", "only")

    async def _label(self, cluster: str) -> None:
        await self.world.patch(CLUSTER, "", cluster, {"metadata": {"labels": {LABEL: None}}})
        await self.until(self.empty(cluster))
        await self.world.patch(CLUSTER, "", cluster, {"metadata": {"labels": {LABEL: NAME}}})

    async def _taint(self, cluster: str) -> None:
        await self.member(cluster, taints=[{"key": "old", "effect": "NoExecute"}])
        await self.until(self.empty(cluster))
        await self.member(cluster, taints=[])

    async def _drain(self, cluster: str) -> None:
        await self.member(cluster, drain={})
        await self.until(self.empty(cluster))
        await self.member(cluster, drain=None)

    async def _maintenance(self, cluster: str) -> None:
        begins = datetime.fromtimestamp(EPOCH_S + self.now_s + 180.0, UTC)
        schedule = f"{begins.minute} {begins.hour} {begins.day} {begins.month} *"
        window = {"schedule": schedule, "duration": "25m", "notice": "2m", "drain": {}}
        await self.member(cluster, maintenance=[window])
        await self.until(self.empty(cluster))
        await self.member(cluster, maintenance=[])
        await self.until(self.filled(cluster))

    async def _rebalance(self, cluster: str) -> None:
        await self._drain(cluster)
        await self.rest(60.0)
        keys = {WorkloadKey(PSVC, "feed", name) for name in self.copies}
        await rebalance.ask(self.world.host, keys)
        await self.until(self.filled(cluster))

    async def _failback(self, cluster: str) -> None:
        await self.world.cut(cluster)
        await self.rest(LOST_S + STARTS_S[1])
        self.world.heal()
        await self.until(self.filled(cluster))

    async def _removal(self, cluster: str) -> None:
        host = self.world.host
        await removal.drain(host, await removal.find(host, cluster), force=False)
        await self.until(self.left(cluster))

    async def _deletion(self, cluster: str) -> None:
        await self.world.delete(CLUSTER, "", cluster)
        await self.until(self.left(cluster))


async def _play(seed: int) -> Counter[str]:
    play = Play(seed)
    kinds = [KINDS[seed % len(KINDS)], play.rng.choice(KINDS[: -len(LEAVES)])]
    if kinds[0] in LEAVES and len(play.members) < 3:
        kinds.reverse()  # a removal leaves too few clusters for another move
    try:
        await play.world.federation.start()
        await play.begin()
        for kind in kinds:
            await play.move(kind)
            await play.rest(play.rng.uniform(0.0, 700.0))
    finally:
        await play.world.federation.stop()
    return play.seen


CAMPAIGN: Final = Campaign(__doc__ or "", _play, wanted=KINDS, whole=len(KINDS))


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
