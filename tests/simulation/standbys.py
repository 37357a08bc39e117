"""Forty virtual minutes of two or three hubs of which the leader, or another, or all do not hear a
member; hubs die and begin. Judged by decisions and by what was really cut.

`python -m tests.simulation.standbys --seeds 0-9`. Two rules: nothing leaves a member that a hub
which is well has heard all the time, whoever leads; and what no hub hears is lost as soon as
without witnesses, whatever a dead one said last.
"""

import asyncio
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from federator.hub.options import HubOptions
from tests.faults.links import Cut
from tests.simulation.campaigns import Broken, Campaign, play_until
from tests.unit.hub.world import World, service, small_fleet

PLAYS_S: Final = 2400.0
LOOK_S: Final = 2.0
AFTER_S: Final = 30
GRACE_S: Final = 40.0
SURE_S: Final = 75.0
"""A hub that has been well for so long has given accounts, which the leader has read."""
LATE_S: Final = 90.0
"""After its time a copy has left: bookmarks may contradict silence for so long, and accounts."""
SPARED: Final = "15 nobody leaves whom a standby hears"
LOST: Final = "15 what no hub hears is lost"
ACTS: Final = (
    *("leader", "leader", "standby", "all", "all"),
    *("kill leader", "kill standby", "last word", "last word", "heal"),
)
WANTED: Final = (*ACTS, "failover", "spared")
WORKLOADS: Final = ("web-0", "web-1", "web-2")


@dataclass
class Run:
    """One world, and what was seen in it."""

    seed: int
    world: World
    members: list[str]
    cut_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """(hub, member) -> since when they do not reach each other."""
    well_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """The same, since when they do again."""
    born_s: dict[str, float] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    died_s: float = 0.0
    """When a hub died last, which may have heard what the others do not."""
    leader: str = ""
    led_s: float = 0.0
    """Since when it leads."""
    shares: dict[str, tuple[int, dict[str, int]]] = field(default_factory=dict)
    spared: set[tuple[str, float]] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def now_s(self) -> float:
        return self.world.federation.clock.monotonic()

    def alive(self) -> list[str]:
        return [hub for hub in self.world.federation.hub_names if hub in self.born_s]

    def others(self) -> list[str]:
        return [hub for hub in self.alive() if hub != self.leader]

    async def cut(self, hubs: list[str], member: str, how: Cut) -> None:
        for hub in hubs:
            if (hub, member) not in self.cut_s:
                self.cut_s[hub, member] = self.now_s
                await self.world.cut(member, process=hub, how=how)

    def heal(self) -> None:
        for pair in self.cut_s:
            self.well_s[pair] = self.now_s
        self.cut_s.clear()
        self.world.heal()

    async def kill(self, hub: str, down_s: float) -> None:
        del self.born_s[hub]
        self.died_s = self.now_s
        await self.world.federation.kill(hub)
        await asyncio.sleep(down_s)
        self.world.federation.start_hub(hub)
        self.born_s[hub] = self.now_s

    def note_hubs(self) -> None:
        """Who leads, and who has begun anew by itself."""
        federation = self.world.federation
        for hub in self.alive():
            if federation.lost[hub] != self.lives.get(hub, 0):
                self.lives[hub] = federation.lost[hub]
                self.born_s[hub] = self.now_s
        leading = [hub for hub in self.alive() if federation.processes[hub].state.leading]
        leader = leading[0] if leading else ""
        if leader != self.leader:
            self.leader, self.led_s = leader, self.now_s

    def hearing(self, member: str) -> list[str]:
        """Hubs that have been well, and have heard it, for long enough."""
        since_s = self.now_s - SURE_S
        return [
            hub
            for hub in self.alive()
            if self.born_s[hub] < since_s
            and (hub, member) not in self.cut_s
            and self.well_s.get((hub, member), 0.0) < since_s
        ]

    def unheard_s(self, member: str) -> float:
        """For how long no hub that lives has heard it; 0 while one does."""
        since = [self.cut_s.get((hub, member)) for hub in self.alive()]
        ages = [self.now_s - at for at in since if at is not None]
        return min(*ages, self.now_s - self.died_s) if ages and len(ages) == len(since) else 0.0

    async def look(self) -> None:
        """Judges what has changed since the last look."""
        self.note_hubs()
        for obj in await self.world.decisions():
            spec = obj["spec"]
            name = spec["workload"]["name"]
            now = {share["cluster"]: share["replicas"] for share in spec["shares"]}
            before = self.shares.get(name)
            if before is not None and before[0] != spec["seq"]:
                self._judge(name, spec["causes"][-1], before[1], now)
            self.shares[name] = spec["seq"], now
            for member in now:
                self._judge_silence(name, member)

    def _judge(self, name: str, cause: str, before: dict[str, int], now: dict[str, int]) -> None:
        if not cause.startswith("failover from "):
            return
        self.seen["failover"] += 1
        for member, copies in before.items():
            if now.get(member, 0) < copies and (hearing := self.hearing(member)):
                what = f"{name} leaves {member}, which {', '.join(hearing)} hears"
                raise Broken(self.seed, SPARED, f"{what} ({cause}, at {self.now_s:.0f} s)")

    def _judge_silence(self, name: str, member: str) -> None:
        cut_s = self.cut_s.get((self.leader, member))
        alone_s = self.now_s - max(cut_s, self.led_s) if cut_s is not None else 0.0
        if self.hearing(member) and alone_s > GRACE_S + AFTER_S + LATE_S:
            if (member, self.led_s) not in self.spared:
                self.spared.add((member, self.led_s))
                self.seen["spared"] += 1
            return
        silent_s = min(self.unheard_s(member), self.now_s - self.led_s)
        if self.leader and silent_s > GRACE_S + AFTER_S + 2 * LATE_S:
            what = f"{name} is still in {member}, heard by nobody for {silent_s:.0f} s"
            raise Broken(self.seed, LOST, f"{what} (at {self.now_s:.0f} s)")


async def _happen(run: Run, rng: random.Random) -> None:
    """One member at a time falls silent: of several the brake would hold what is judged."""
    while True:
        await asyncio.sleep(rng.uniform(5.0, 60.0))
        act, member = rng.choice(ACTS), rng.choice(run.members)
        how = rng.choice((Cut.REFUSED, Cut.SILENT))
        run.note_hubs()
        if not run.leader or (run.cut_s and act in ("leader", "standby", "all", "last word")):
            act = "heal"
        others = run.others()
        run.seen[act] += 1
        match act:
            case "leader":
                await run.cut([run.leader], member, how)
                await asyncio.sleep(rng.uniform(60.0, 500.0))
            case "standby" if others:
                await run.cut([rng.choice(others)], member, how)
                await asyncio.sleep(rng.uniform(20.0, 200.0))
            case "all":
                await run.cut(list(run.world.federation.hub_names), member, how)
                await asyncio.sleep(rng.uniform(60.0, 500.0))
            case "last word" if others:
                await run.cut([run.leader], member, how)
                await asyncio.sleep(rng.uniform(60.0, 150.0))
                down_s = rng.uniform(300.0, 450.0)
                await asyncio.gather(*(run.kill(hub, down_s) for hub in run.others()))
            case "kill leader":
                await run.kill(run.leader, rng.uniform(0.0, 60.0))
            case "kill standby" if others:
                await run.kill(rng.choice(others), rng.uniform(0.0, 400.0))
            case _:
                run.heal()
                await asyncio.sleep(rng.uniform(10.0, 200.0))


async def _play(seed: int) -> Counter[str]:
    rng = random.Random(f"{seed}/standbys")
    fleet = small_fleet(rng.randint(3, 5))
    world = World(fleet, HubOptions(), seed, hubs=2 + seed % 2)
    run = Run(seed, world, [member.name for member in fleet.members])
    placement: dict[str, Any] = {"failover": {"afterSeconds": AFTER_S, "cooldownSeconds": 30}}
    try:
        await world.federation.start()
        run.born_s = dict.fromkeys(world.federation.hub_names, run.now_s)
        for name in WORKLOADS:
            asked = service(rng.randint(3, 12), cpu="250m", placement=placement)
            await world.create("PinterestService", "feed", name, asked)
        await asyncio.sleep(60)
        await play_until(run, PLAYS_S, _happen(run, rng), every_s=LOOK_S)
    finally:
        await world.federation.stop()
    return run.seen


CAMPAIGN: Final = Campaign(__doc__ or "", _play, WANTED)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
