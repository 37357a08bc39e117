"""Eight virtual minutes of clusters that are well, broken or full, all probed on a schedule and
at a gate, while hubs die.

`python -m tests.simulation.probing --seeds 0-11`. What is judged, by objects alone: a probe passes
only where its pods of both revisions were ready in the cluster; a broken cluster fails, a full one
is busy, and a well one passes; a cluster takes no work of users before it has passed; a probe evicts
no pod; nothing is left of one that has ended. Cluster a of seed n has the n-th state.
"""

import asyncio
import random
import sys
from collections import Counter
from typing import Any, Final

from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.model import names
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.unit.hub import probes
from tests.unit.hub.world import HUB, World, service, small_fleet

TOLD: Final = "38 probes tell a broken cluster from a busy one"
PODS: Final = "38 a probe passes with its pods"
GATE: Final = "38 a cluster takes work after a passed probe"
EVICTS: Final = "38 a probe evicts no pod"
LEFT: Final = "38 nothing is left of a probe"
STATES: Final = ("well", *probes.BROKEN, "full")
WHOLE_S: Final = 480.0
LOOK_S: Final = 0.5
EVERY_S: Final = 120.0
OUTCOMES: Final = {"well": "Passed", "full": "Busy"}
"""State of a cluster -> what its probes come to; Failed for the others."""


class Play:
    """One world, its clusters and what their probes came to."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, random.Random(f"{seed}/probing")
        options = HubOptions(workload_probe_interval_s=EVERY_S, workload_probes_at_once=2)
        self.world = World(small_fleet(2, nodes=1), options, seed)
        first = STATES[seed % len(STATES)]
        self.states = {"a": first, "b": self.rng.choice(STATES)}
        self.seen: Counter[str] = Counter()
        self.ready: dict[str, set[tuple[str, str]]] = {name: set() for name in self.states}
        """Cluster -> (tier, revision) of pods that were ready since its probe began."""
        self.began: dict[str, str] = {}
        self.ended: dict[str, str] = {}

    @property
    def now_s(self) -> float:
        return float(self.world.federation.clock.monotonic())

    async def begin(self) -> None:
        """Everything is as drawn before the first hub starts: all clusters are new under a gate."""
        federation = self.world.federation
        federation.start_clusters()
        await federation.install()
        gate = {"workloadProbe": {"gate": True}}
        await self.world.create("ClusterStandard", "", "probed", gate)
        for name, state in self.states.items():
            if state == "full":
                await probes.full(self.world, name)
            elif state != "well":
                await probes.BROKEN[state](self.world, name)
        federation.start_members()
        await asyncio.sleep(5.0)
        federation.start_hub()

    async def happens(self) -> None:
        """Users ask for a copy in each cluster, and in two worlds of three a hub dies, or two."""
        for name in self.states:
            only = {"clusters": {"names": [name]}}
            await self.world.create(
                "PinterestService", "feed", f"web-{name}", service(1, "1m", placement=only)
            )
        for _ in range(self.seed % 3):
            await asyncio.sleep(self.rng.uniform(5.0, 150.0))
            await self.world.federation.kill(HUB)
            self.seen["hub died"] += 1
            await asyncio.sleep(self.rng.uniform(0.0, 20.0))
            self.world.federation.start_hub()

    async def look(self) -> None:
        for name in self.states:
            obj = await self.world.get("MemberCluster", "", name)
            assert obj is not None
            probe = (obj.get("status") or {}).get("probe") or {}
            if probe.get("runningSince"):
                await self._pods(name)
            self._probe(name, probe)

    async def _pods(self, name: str) -> None:
        """Notes which pods of probes are ready now."""
        for pod in (await self.world.member(name).list("v1", "pods", names.PROBES)).items:
            conditions = (pod.get("status") or {}).get("conditions") or ()
            if not any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
                continue
            container = pod["spec"]["containers"][0]
            tier = pod["metadata"]["name"].partition("-")[0]
            self.ready[name] |= {
                (tier, pair["value"])
                for pair in container.get("env") or ()
                if pair["name"] == "FEDERATOR_PROBE_REVISION"
            }

    def _probe(self, name: str, probe: dict[str, Any]) -> None:
        """Judges a result that is new."""
        running = probe.get("runningSince", "")
        if running and running != self.began.get(name):
            self.began[name] = running
            self.ready[name].clear()
        ended, result = probe.get("finishedAt", ""), probe.get("result", "")
        if not ended or ended == self.ended.get(name):
            return
        self.ended[name] = ended
        self.seen[result] += 1
        state, message = self.states[name], probe.get("message", "")
        wanted = OUTCOMES.get(state, "Failed")
        tiers = {tier["tier"].lower() for tier in probe["tiers"]}
        shown = {(tier, revision) for tier in tiers for revision in "12"}
        if result == "Passed" and not shown <= self.ready[name]:
            what = f"{name} ({state}) passed; ready were only {sorted(self.ready[name])}"
            raise Broken(self.seed, PODS, what)
        if result != wanted:
            raise Broken(self.seed, TOLD, f"{name} is {state}: {result} {message}")

    async def end(self) -> None:
        """What has to be so at the end."""
        for name, state in self.states.items():
            if name not in self.ended:
                raise Broken(self.seed, TOLD, f"{name} ({state}) has no result")
            shares = await self.world.shares("feed", f"web-{name}")
            if bool(shares) != (state == "well"):
                raise Broken(self.seed, GATE, f"{name} is {state} and has {shares}")
            if state == "full":
                pods = (await self.world.member(name).list("v1", "pods", "default")).items
                if [pod["status"]["phase"] for pod in pods] != ["Running"]:
                    raise Broken(self.seed, EVICTS, f"{name}: {len(pods)} pods of others")
        await self._nothing_is_left()

    async def _nothing_is_left(self) -> None:
        """The hub dies during a probe, and the next one has none to begin."""
        row = registry.KINDS["PinterestService"]
        async with asyncio.timeout(2 * EVERY_S):
            while not (await self.world.host.list(row.api_version, row.plural, names.PROBES)).items:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_S)
        await self.world.federation.kill(HUB)
        self.world.federation.hub_options = HubOptions()
        await self.world.delete("ClusterStandard", "", "probed")
        self.world.federation.start_hub()
        await asyncio.sleep(60.0)
        for kind in ("PinterestService", "PinterestJobSet", "PlacementDecision"):
            row = registry.KINDS[kind]
            for name in ("host", *self.states):
                if kind == "PlacementDecision" and name != "host":
                    continue
                at = self.world.host if name == "host" else self.world.member(name)
                if (await at.list(row.api_version, row.plural, names.PROBES)).items:
                    raise Broken(self.seed, LEFT, f"{kind} in {name}")


async def _play(seed: int) -> Counter[str]:
    play = Play(seed)
    try:
        await play.begin()
        await play_until(play, WHOLE_S, play.happens(), every_s=LOOK_S)
        await play.end()
    finally:
        await play.world.federation.stop()
    return play.seen


CAMPAIGN: Final = Campaign(
    __doc__ or "",
    _play,
    wanted=("Passed", "Failed", "Busy", "hub died"),
    whole=2 * len(STATES),
)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
