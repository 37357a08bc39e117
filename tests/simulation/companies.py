"""A quarter of a virtual hour of services with affinity and anti-affinity between them, which come,
grow, shrink and go while clusters are drained and come back.

`python -m tests.simulation.companies --seeds 0-19`. The rule reads objects only, and is written down
a second time from docs/reference/policies.md (Other workloads): copies begin only in a cluster in
which the required terms of the workload's own policy hold, and into which no other workload's
anti-affinity keeps it from. It is judged in the order of decisions, as each look finds them.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from federator.hub.options import HubOptions
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.unit.hub.world import World, service

COMPANY: Final = "2 copies begin in the right company"
PSVC: Final = "PinterestService"
ZONES: Final = {"a": "z1", "b": "z1", "c": "z2", "d": "z3"}
APPS: Final = ("cache", "front", "loud")
LENGTH_S: Final = 900.0
REST_S: Final = 60.0
Copies = dict[str, Counter[str]]
"""Service -> cluster -> copies."""


class Play:
    """One world and its services."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed}/companies")
        pool = Pool(count=2, cpu="8", memory="32Gi")
        members = [
            MemberSpec(name=name, labels={"zone": zone}, nodes=[pool])
            for name, zone in ZONES.items()
        ]
        self.world = World(FleetSpec(members=members), HubOptions(), seed)
        self.apps: dict[str, str] = {}
        """Service -> its label."""
        self.terms: dict[str, tuple[bool, str, str]] = {}
        """Service -> whether it keeps away, from which label, by which key; "" for clusters."""
        self.drained: set[str] = set()
        self.copies: Copies = {}
        self.seqs: dict[str, int] = {}
        self.seen: Counter[str] = Counter()

    @property
    def now_s(self) -> float:
        return float(self.world.federation.clock.monotonic())

    async def happens(self) -> None:
        """Some services select each other; all are in one namespace."""
        number = 0
        while self.now_s < LENGTH_S - REST_S:
            await self._create(f"s{number}")
            number += 1
            await asyncio.sleep(self.rng.uniform(2.0, 90.0))
            name = self.rng.choice(sorted(self.apps))
            act = self.rng.random()
            if act < 0.25:
                await self.world.delete(PSVC, "feed", name)
                await asyncio.sleep(15.0)  # until its copies are gone
                del self.apps[name]
                self.terms.pop(name, None)
            elif act < 0.6:
                replicas = {"replicas": self.rng.randint(1, 6)}
                await self.world.patch(PSVC, "feed", name, {"spec": replicas})
            elif act < 0.7:
                await self._drain()
            await asyncio.sleep(self.rng.uniform(2.0, 60.0))

    async def _create(self, name: str) -> None:
        """A service under a policy of its own. Few clusters each leave domains for others."""
        self.apps[name] = self.rng.choice(APPS)
        rules: dict[str, Any] = {"division": {"maxClusters": self.rng.randint(1, 2)}}
        if self.rng.random() < 0.7:
            away, app = self.rng.random() < 0.6, self.rng.choice(APPS)
            key = self.rng.choice(("", "zone"))
            term = {"selector": {"matchLabels": {"app": app}}, "topologyKey": key}
            rules["workloadAffinity"] = {
                "antiAffinity" if away else "affinity": [{k: v for k, v in term.items() if v}]
            }
            self.terms[name] = away, app, key
        await self.world.create("PlacementPolicy", "feed", name, rules)
        spec = service(self.rng.randint(1, 5), placement={"policyRef": name})
        await self.world.create(PSVC, "feed", name, spec, labels={"app": self.apps[name]})

    async def _drain(self) -> None:
        """A cluster is drained, or the one that is comes back."""
        name = next(iter(self.drained), None)
        if name is not None:
            await self.world.patch("MemberCluster", "", name, {"spec": {"drain": None}})
            self.drained.discard(name)
            return
        name = self.rng.choice(sorted(ZONES))
        self.drained.add(name)
        await self.world.patch("MemberCluster", "", name, {"spec": {"drain": {"force": True}}})

    async def look(self) -> None:
        """Judges the decisions that were made since the last look, one after the other."""
        before = {name: Counter(copies) for name, copies in self.copies.items()}
        found: Copies = {}
        made: list[tuple[int, str]] = []
        for decision in await self.world.decisions():
            spec = decision["spec"]
            name = spec["workload"]["name"]
            found[name] = Counter({each["cluster"]: each["replicas"] for each in spec["shares"]})
            if self.seqs.get(name) != spec["seq"]:
                self.seqs[name] = spec["seq"]
                made.append((spec["seq"], name))
            rejected = spec.get("verdicts", {}).get("rejected", ())
            self.seen["kept out"] += any(each["reason"] == "WorkloadAffinity" for each in rejected)
        for _, name in sorted(made):
            held = self.copies.get(name, Counter())
            begins = {cluster for cluster, count in found[name].items() if count > held[cluster]}
            if name in self.apps:
                # what another one had may be gone before this decision, or after it
                worlds = (self.copies, before, {**self.copies, **found}, found)
                allowed = set().union(*(self._allowed(name, each) for each in worlds))
                if begins - allowed:
                    what = f"{name} ({self.apps[name]}) begins in {sorted(begins - allowed)}"
                    raise Broken(self.seed, COMPANY, f"{what}: {self.terms}, {self.copies}")
                self.seen["near" if not self.terms.get(name, (True,))[0] else "away"] += (
                    name in self.terms and bool(begins)
                )
            self.copies[name] = found[name]
        for name in self.copies.keys() - found.keys():
            del self.copies[name]

    def _allowed(self, name: str, copies: Mapping[str, Counter[str]]) -> set[str]:
        """The clusters in which new copies of a service may begin."""
        others = {each: here for each, here in copies.items() if each != name and each in self.apps}
        return {cluster for cluster in ZONES if self._lets(name, cluster, others)}

    def _lets(self, name: str, cluster: str, others: Mapping[str, Counter[str]]) -> bool:
        if name in self.terms:
            away, app, key = self.terms[name]
            theirs = [here for each, here in others.items() if self.apps[each] == app]
            if away:
                if any(self._beside(cluster, here, key) for here in theirs):
                    return False
            else:
                there = [place for here in theirs for place in +here if place not in self.drained]
                alone = not there and self.apps[name] == app
                if not alone and not any(_same(cluster, place, key) for place in there):
                    return False
        return not any(
            self._beside(cluster, here, self.terms[each][2])
            for each, here in others.items()
            if each in self.terms and self.terms[each][0] and self.terms[each][1] == self.apps[name]
        )

    def _beside(self, cluster: str, here: Counter[str], key: str) -> bool:
        return any(_same(cluster, place, key) for place in +here)


def _same(cluster: str, other: str, key: str) -> bool:
    return cluster == other if not key else ZONES[cluster] == ZONES[other]


async def _play(seed: int) -> Counter[str]:
    play = Play(seed)
    try:
        await play.world.federation.start()
        await play_until(play, LENGTH_S, play.happens(), every_s=2.0)
    finally:
        await play.world.federation.stop()
    return play.seen


CAMPAIGN: Final = Campaign(__doc__ or "", _play, wanted=("kept out", "near", "away"), whole=4)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
