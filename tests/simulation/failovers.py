"""Most of a virtual hour of clusters that fall silent and come back, with failover on: one seeded
world after another, judged by objects and by what was really cut off.

`python -m tests.simulation.failovers --seeds 0-9`. A campaign of its own beside `run`, whose worlds
last minutes: here nothing else is wrong, so that clusters are silent for long enough to be failed
over, and well for long enough to take work back. The rules know nothing of `federator.scheduling`.
"""

import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import raw
from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.simulation.campaigns import Broken, Campaign
from tests.unit.hub.world import World, service

PSVC: Final = "PinterestService"
HOUR_S: Final = 2700.0
LOOK_S: Final = 2.0
GRACE_S: Final = 40.0
PROBE_S: Final = 11.0
"""A probe, with its jitter: what a hub knows of the truth is that old."""
SURE_S: Final = 125.0
"""After this no news that a watch brought before contradicts that a member is gone."""
LATE_S: Final = 20.0
"""A decision that was right when it was made is seen so much later at most."""
EARLY, BRAKE, ANEW = "15 nobody moves early", "15 the brake holds", "15 clocks begin anew"
ONCE, HOME = "15 one move a cooldown", "15 home is steady"
NOWHERE, KEPT, READY = (
    "2 nobody leaves for nowhere",
    "16 what is decided stays",
    "15 make before break",
)
SETTLES: Final = "10 settles"
SETTLES_S: Final = 300.0
"""Slow pods become ready and moves end within this."""
READ, WANTED = ("status", "ready"), ("spec", "replicas")


ACTS: Final = (
    ("one", "one", "few", "all", "flap", "hub", "scale", "heal", "slow"),
    ("all", "all", "one", "heal"),
    ("one", "slow", "heal", "scale"),
    ("one", "flap", "few", "heal"),
)
"""What happens in the worlds of seeds 0, 1, 2, 3, and of 4, 5, 6, 7, and so on."""


@dataclass(frozen=True)
class Policy:
    """What one workload says; in seconds."""

    after_s: int
    cooldown_s: int
    back_s: int

    def fields(self) -> dict[str, Any]:
        return {
            "afterSeconds": self.after_s,
            "cooldownSeconds": self.cooldown_s,
            "failbackAfterSeconds": self.back_s,
        }


@dataclass
class Moved:
    """A move that was seen."""

    at_s: float
    cluster: str
    back: bool
    lost: frozenset[tuple[str, float]]
    """Silences that went on then."""


@dataclass
class Run:
    """One world, and what was seen in it."""

    seed: int
    world: World
    policies: dict[str, Policy]
    members: list[str]
    cut_s: dict[str, float] = field(default_factory=dict)
    """Since when a member is cut off."""
    quiet_s: dict[str, float] = field(default_factory=dict)
    """The same, where a while between that no probe may have noticed does not count."""
    well_s: dict[str, float] = field(default_factory=dict)
    """Since when one that is not is well."""
    all_gone: bool = False
    anew_s: float = float("-inf")
    """When the first was heard after all had been gone for longer than the grace."""
    born_s: float = 0.0
    """When the present hub began."""
    causes: dict[str, tuple[int, dict[str, int]]] = field(default_factory=dict)
    """Workload -> seq and shares of its decision as last seen."""
    moves: dict[str, list[Moved]] = field(default_factory=dict)
    slices: dict[tuple[str, str], str] = field(default_factory=dict)
    """(member, workload) -> uid of its slice."""
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def now_s(self) -> float:
        return self.world.federation.clock.monotonic()

    def broken(self, rule: str, what: str) -> Broken:
        return Broken(self.seed, rule, f"{what} (at {self.now_s:.0f} s)")

    # -- what happens ---------------------------------------------------------

    async def cut(self, name: str) -> None:
        """Nothing is heard of a member any more."""
        if name in self.cut_s:
            return
        self.cut_s[name] = self.now_s
        well_s = self.now_s - self.well_s.pop(name, float("-inf"))
        if well_s > PROBE_S + LATE_S or name not in self.quiet_s:
            self.quiet_s[name] = self.now_s
        await self.world.cut(name)

    def heal(self, name: str) -> None:
        """It is heard again."""
        if name not in self.cut_s:
            return
        if self.all_gone_for(SURE_S):
            self.anew_s = self.now_s
        del self.cut_s[name]
        self.well_s[name] = self.now_s
        self.world.heal(name)

    def all_gone_for(self, seconds: float) -> bool:
        """Whether nobody has been heard for so long."""
        return len(self.cut_s) == len(self.members) and all(
            self.now_s - since_s >= seconds for since_s in self.cut_s.values()
        )

    # -- what is judged -------------------------------------------------------

    async def at_rest(self) -> None:
        """All is well for a while: everybody has a place for all copies, and as many ready as are
        promised; some may be on their way home.
        """
        for name, (_, shares) in self.causes.items():
            obj = await self.world.get(PSVC, "feed", name) or {}
            ready, wanted = (raw.integer(obj, *path) for path in (READ, WANTED))
            placed = sum(shares.values())
            if placed != wanted or ready < wanted - -(-wanted // 4):
                raise self.broken(SETTLES, f"{name}: {placed} placed, {ready} ready of {wanted}")

    async def look(self) -> None:
        """Judges what has changed since the last look."""
        former = {name: shares for name, (_, shares) in self.causes.items()}
        for obj in await self.world.decisions():
            spec = obj["spec"]
            name = spec["workload"]["name"]
            shares = {one["cluster"]: one["replicas"] for one in spec["shares"]}
            before = self.causes.get(name)
            if before is not None and before[0] != spec["seq"]:
                for breach in self._judged(name, spec["causes"][-1], before[1], shares):
                    raise breach
            self.causes[name] = spec["seq"], shares
        await self._look_at_slices(former)

    def _judged(
        self, name: str, cause: str, before: dict[str, int], shares: dict[str, int]
    ) -> Iterator[Broken]:
        fails, returns = cause.startswith("failover from "), cause.startswith("failback to ")
        if not fails and not returns:
            return
        if sum(shares.values()) < sum(before.values()):
            yield self.broken(NOWHERE, f"{name} goes from {before} to {shares}: {cause}")
        policy = self.policies[name]
        if fails:
            self.seen["failover"] += 1
            for cluster, copies in before.items():
                if shares.get(cluster, 0) < copies:
                    yield from self._left(name, cluster, policy)
        else:
            self.seen["failback"] += 1
            yield from self._went_home(name, cause.removeprefix("failback to "), policy)

    def _left(self, name: str, cluster: str, policy: Policy) -> Iterator[Broken]:
        now_s = self.now_s
        silent_s = now_s - self.quiet_s.get(cluster, now_s)
        if cluster in self.cut_s and silent_s < policy.after_s + GRACE_S - PROBE_S - LOOK_S:
            yield self.broken(EARLY, f"{name} leaves {cluster} after {silent_s:.0f} s")
        if now_s - self.born_s < policy.after_s:
            yield self.broken(EARLY, f"{name} leaves {cluster} of a hub that has just begun")
        gone = [one for one, since in self.cut_s.items() if now_s - since > GRACE_S + LATE_S]
        if len(gone) == len(self.members) or (
            len(gone) >= 3 and len(gone) * 100 > 55 * len(self.members)
        ):
            yield self.broken(BRAKE, f"{name} leaves {cluster} while {gone} are gone")
        if cluster in self.cut_s and now_s - self.anew_s < policy.after_s - LATE_S:
            since_s = now_s - self.anew_s
            yield self.broken(ANEW, f"{name} leaves {cluster} {since_s:.0f} s after all were gone")
        yield from self._rested(name, cluster, policy, back=False)

    def _went_home(self, name: str, cluster: str, policy: Policy) -> Iterator[Broken]:
        well_s = self.now_s - self.well_s.get(cluster, self.now_s)
        if cluster in self.cut_s or (cluster in self.well_s and well_s < policy.back_s - LATE_S):
            yield self.broken(HOME, f"{name} goes back to {cluster}, well for {well_s:.0f} s")
        yield from self._rested(name, cluster, policy, back=True)

    def _rested(self, name: str, cluster: str, policy: Policy, *, back: bool) -> Iterator[Broken]:
        """What leaves clusters that were lost together is one move; going home in turns is, too."""
        silence = (cluster, self.quiet_s.get(cluster, 0.0))
        for move in self.moves.get(name, ()):
            same = move.back == back and (move.cluster == cluster if back else silence in move.lost)
            if not same and self.now_s - move.at_s < policy.cooldown_s - LOOK_S:
                ago_s = self.now_s - move.at_s
                yield self.broken(ONCE, f"{name} moves again after {ago_s:.0f} s: {cluster}")
        lost = frozenset((one, since_s) for one, since_s in self.quiet_s.items())
        self.moves.setdefault(name, []).append(Moved(self.now_s, cluster, back, lost))

    async def _look_at_slices(self, former: dict[str, dict[str, int]]) -> None:
        """`former`: the shares at the last look."""
        for member in self.members:
            present = await self._held(member)
            for name, (seq, shares) in self.causes.items():
                before, now = self.slices.get((member, name), ""), present.get(name, "")
                decided = shares.get(member, 0) and former.get(name, {}).get(member, 0)
                if before and now != before and decided and await self._stands(name, seq):
                    raise self.broken(KEPT, f"the slice of {name} in {member} is gone")
                if before and not now:
                    await self._judge_break(name, member, shares)
                self.slices[member, name] = now

    async def _stands(self, name: str, seq: int) -> bool:
        """Whether the decision is still the one that was read."""
        specs = [obj["spec"] for obj in await self.world.decisions()]
        return any(spec["workload"]["name"] == name and spec["seq"] == seq for spec in specs)

    async def _held(self, member: str) -> dict[str, str]:
        kind = registry.KINDS[PSVC]
        found = await self.world.member(member).list(kind.api_version, kind.plural)
        return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found.items}

    async def _judge_break(self, name: str, member: str, shares: dict[str, int]) -> None:
        """A slice went: as many must be ready elsewhere as are promised."""
        self.seen["stale slice removed"] += 1
        ready = 0
        for cluster in shares:
            there = await self.world.get("Deployment", "feed", name, at=cluster)
            ready += raw.integer(there or {}, "status", "readyReplicas")
        promised = sum(shares.values()) - -(-sum(shares.values()) // 4)
        if ready < promised:
            raise self.broken(READY, f"{name} leaves {member} with {ready} ready of {promised}")


def _policy(rng: random.Random) -> Policy:
    return Policy(
        after_s=rng.choice((0, 30, 60, 120)),
        cooldown_s=rng.choice((120, 300, 900)),
        back_s=rng.choice((60, 120, 300)),
    )


async def _happen(run: Run, rng: random.Random) -> None:
    """Members fall silent and come back: alone, together, all at once; hubs die; people scale."""
    while True:
        await asyncio.sleep(rng.uniform(5.0, 120.0))
        match rng.choice(ACTS[run.seed % len(ACTS)]):
            case "one":
                await run.cut(rng.choice(run.members))
            case "few":
                for name in rng.sample(run.members, rng.randint(1, len(run.members) - 1)):
                    await run.cut(name)
            case "all":
                for name in run.members:
                    await run.cut(name)
                await asyncio.sleep(rng.uniform(150.0, 450.0))
                run.heal(rng.choice(run.members))
            case "flap":
                name = rng.choice(run.members)
                for _ in range(6):
                    await run.cut(name)
                    await asyncio.sleep(rng.choice((10.0, 20.0, 60.0)))
                    run.heal(name)
                    await asyncio.sleep(10.0)
            case "hub":
                await run.world.federation.kill("hub")
                await asyncio.sleep(rng.uniform(0.0, 20.0))
                run.born_s = run.now_s
                run.world.federation.start_hub()
            case "scale":
                name = rng.choice(sorted(run.policies))
                count = {"spec": {"replicas": rng.randint(3, 12)}}
                await run.world.patch(PSVC, "feed", name, count)
            case "slow":  # long enough that work comes home
                for name in run.members:
                    run.heal(name)
                await asyncio.sleep(rng.uniform(200.0, 500.0))
            case _:
                for name in list(run.cut_s):
                    if rng.random() < 0.6:
                        run.heal(name)


async def _play(seed: int) -> Counter[str]:
    rng = random.Random(f"{seed}/failovers")
    # where all fall silent at once, few: of many the brake would hold what is judged then
    few = ACTS[seed % len(ACTS)][0] == "all"
    members = list("abcde"[: rng.randint(2, 3 if few else 5)])
    fleet = FleetSpec(
        members=[
            MemberSpec(name=name, nodes=[Pool(count=3, cpu="8", memory="32Gi")]) for name in members
        ]
    )
    policies = {f"web-{number}": _policy(rng) for number in range(4)}
    world = World(fleet, HubOptions(evacuated_copies_a_minute=rng.choice((12, 60, 300))), seed)
    run = Run(seed, world, policies, members)
    try:
        await world.federation.start()
        for name, policy in policies.items():
            placement: dict[str, Any] = {"failover": policy.fields()}
            if name == "web-3":  # it has no other place
                placement["clusters"] = {"names": [members[0]]}
            asked = service(rng.randint(3, 12), cpu="250m", placement=placement)
            slow = {"annotations": {"embedded.federator/ready-delay-seconds": "5-90"}}
            asked["template"]["metadata"] = slow if name == "web-0" else {}
            await world.create(PSVC, "feed", name, asked)
        await asyncio.sleep(SETTLES_S)
        happening = asyncio.create_task(_happen(run, rng), name="what happens")
        while run.now_s < HOUR_S:
            await run.look()
            await asyncio.sleep(LOOK_S)
        happening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await happening
        for name in members:
            run.heal(name)
        while run.now_s < HOUR_S + SETTLES_S:
            await run.look()
            await asyncio.sleep(LOOK_S)
        await run.at_rest()
    finally:
        await world.federation.stop()
    return run.seen


CAMPAIGN: Final = Campaign(__doc__ or "", _play)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
