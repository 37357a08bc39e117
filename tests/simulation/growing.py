"""Half a virtual hour in a fleet with autoscalers, while services come, grow, shrink and go.

`python -m tests.simulation.growing --seeds 0-19`. The rule counts on its own: what decisions give to
a cluster that can grow is never more than all its nodes hold at their most, as its MemberCluster
states them, whenever it gets more and has fewer nodes. Free room and promises are of that volume
too, so a node that is promised twice breaks the rule. Seed n has the n-th fault: none, nodes that
never come, that come smaller than stated, or that come and vanish; from seed 50 on a price changes.
A decision records no price but one that was stated. At the end copies run on all nodes that came,
and late nodes have an Event.
"""

import asyncio
import dataclasses
import random
import sys
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from federator.hub.options import HubOptions
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool, ScaleUp
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.unit.hub.world import World, service

ONCE: Final = "2 nodes are promised once"
ENDS: Final = "10 growth ends"
STATED: Final = "11 prices are those that were stated"
FAULTS: Final = ("none", "never", "smaller", "vanish")
PRICE: Final = "price"
"""The fault of seeds 50 to 99 of each hundred."""
PSVC: Final = "PinterestService"
NODE_CPU: Final = 8
SLACK_CPU: Final = 3
"""One copy: a member's scheduler may put pods on other nodes than the hub assumed. A copy that fits
on no node then stays decided until it is given up, and others get the pieces that it cannot use."""
MINUTES: Final = 3
HALF_HOUR_S: Final = 1800.0
REST_S: Final = 900.0
SMALLER: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}


class Play:
    """One world and its services."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.fault = PRICE if seed % 100 >= 50 else FAULTS[seed % len(FAULTS)]
        self.rng = random.Random(f"{seed}/growing")
        self.most = {name: self.rng.randint(2, 5) for name in "ab"[: self.rng.randint(1, 2)]}
        """Cluster that can grow -> its nodes at most."""
        members = [MemberSpec(name="c", nodes=[_pool()])]
        members += [MemberSpec(name=name, nodes=[_pool(most)]) for name, most in self.most.items()]
        self.world = World(FleetSpec(members=members), HubOptions(), seed)
        self.cpus: dict[str, int] = {}
        """Service -> cpus of a copy."""
        self.given: Counter[str] = Counter()
        """Cluster -> cpus that decisions gave it at the last look."""
        self.prices = {Decimal("0.5")}
        """Of a node, as they were stated until now."""
        self.seen: Counter[str] = Counter({self.fault: 1})

    @property
    def now_s(self) -> float:
        return float(self.world.federation.clock.monotonic())

    def begin(self) -> None:
        """The autoscalers deliver as the fault says."""
        changed: dict[str, dict[str, Any]] = {
            "none": {},
            "never": {"start_s": None},
            "smaller": {"allocatable": SMALLER},
            "vanish": {"lives_s": 600.0},
            PRICE: {},
        }
        for name in self.most:
            controllers = self.world.federation.members[name].controllers
            assert controllers is not None
            scaler = controllers.scaler
            assert scaler is not None
            scaler.pools = [
                dataclasses.replace(pool, **changed[self.fault]) for pool in scaler.pools
            ]

    async def happens(self) -> None:
        """Services come in twos, so that one batch decides on both."""
        number = 0
        while self.now_s < HALF_HOUR_S - REST_S:
            for _ in range(2):
                name, cpu = f"s{number}", self.rng.choice((2, 3))
                number += 1
                self.cpus[name] = cpu
                asked = service(self.rng.randint(2, 14), cpu=str(cpu))
                await self.world.create(PSVC, "feed", name, asked)
            await asyncio.sleep(self.rng.uniform(20.0, 240.0))
            if self.fault == PRICE:
                await self.reprice()
            name = self.rng.choice(sorted(self.cpus))
            if self.rng.random() < 0.3:
                await self.world.delete(PSVC, "feed", name)
                del self.cpus[name]
            else:
                replicas = {"replicas": self.rng.randint(1, 10)}
                await self.world.patch(PSVC, "feed", name, {"spec": replicas})
            await asyncio.sleep(self.rng.uniform(5.0, 120.0))

    async def reprice(self) -> None:
        """The nodes of one cluster cost something else from now on."""
        name, price = self.rng.choice(sorted(self.most)), self.rng.choice(("0.25", "0.75", "3"))
        self.prices.add(Decimal(price))
        member = await self.world.get("MemberCluster", "", name)
        assert member is not None
        classes = [{**each, "pricePerHour": price} for each in member["spec"]["scaleUp"]]
        await self.world.patch("MemberCluster", "", name, {"spec": {"scaleUp": classes}})

    async def look(self) -> None:
        """Judges what all decisions give to each cluster that can grow."""
        given: Counter[str] = Counter()
        for decision in await self.world.decisions():
            spec = decision["spec"]
            cpu = self.cpus.get(spec["workload"]["name"], 0)
            self.seen["promised"] += bool(spec.get("scaleUp"))
            for added in spec.get("scaleUp", ()):
                self._judge_price(added)
            for share in spec["shares"]:
                given[share["cluster"]] += share["replicas"] * cpu
        for name, most in self.most.items():
            grown, self.given[name] = given[name] > self.given[name], given[name]
            nodes = await self.world.member(name).list("v1", "nodes")
            if not grown or len(nodes.items) >= most:
                continue  # nothing new is promised: copies wait as room is in pieces, or vanished
            if given[name] > most * NODE_CPU + SLACK_CPU:
                what = f"{name} has {most} nodes at most, and copies of {given[name]} cpus"
                raise Broken(self.seed, ONCE, what)

    def _judge_price(self, added: Mapping[str, Any]) -> None:
        """The price of all nodes that a decision has to wait for."""
        nodes, price = added["nodes"], added.get("pricePerHour")
        if price is None or Decimal(price) not in {nodes * each for each in self.prices}:
            raise Broken(self.seed, STATED, f"{nodes} nodes at {price}, of {sorted(self.prices)}")

    async def end(self) -> None:
        """What came is used, and what did not is told."""
        events = await self.world.host.list("events.k8s.io/v1", "events")
        late = sum(event.get("reason") == "ScaleUpLate" for event in events.items)
        self.seen["late"] += late
        if self.fault == "never" and self.seen["promised"] and not late:
            raise Broken(self.seed, ENDS, "nodes never came, and nothing was said of it")
        if self.fault not in ("none", PRICE):
            return
        for name in self.cpus:
            shares = sum((await self.world.shares("feed", name)).values())
            ready = await self.world.ready_replicas("feed", name)
            if ready != shares:
                raise Broken(self.seed, ENDS, f"{ready} of {shares} copies of {name} are ready")


def _pool(most: int | None = None) -> Pool:
    pool = Pool(count=1, cpu=str(NODE_CPU), memory="32Gi")
    if most is None:
        return pool
    return pool.model_copy(
        update={"scale_up": ScaleUp(max=most, minutes=MINUTES, pricePerHour="0.5")}
    )


async def _play(seed: int) -> Counter[str]:
    play = Play(seed)
    try:
        await play.world.federation.start()
        play.begin()
        await play_until(play, HALF_HOUR_S, play.happens(), every_s=5.0)
        await play.end()
    finally:
        await play.world.federation.stop()
    return play.seen


CAMPAIGN: Final = Campaign(
    __doc__ or "", _play, wanted=(*FAULTS, "promised", "late"), whole=2 * len(FAULTS)
)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
