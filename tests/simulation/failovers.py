"""Most of a virtual hour of clusters that fall silent and come back, with failover on: one seeded
world after another, judged by `failoverrules`.

`python -m tests.simulation.failovers --seeds 0-9`. A campaign of its own beside `run`, whose worlds
last minutes: here nothing else is wrong, so that clusters are silent for long enough to be failed
over, and well for long enough to take work back. It fires F22 to F38, each by a name that begins
with its number.
"""

import asyncio
import itertools
import random
import sys
from collections import Counter
from typing import Any, Final

from federator.hub.options import HubOptions
from federator.kube.metrics import Metrics
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.simulation.campaigns import Campaign, play_until
from tests.simulation.disturbances import Disturbances
from tests.simulation.failoverrules import FIRED, LOOK_S, PSVC, SETTLES_S, Policy, Run
from tests.simulation.leaders import Leaders
from tests.unit.hub.world import World, jobset, service

HOUR_S: Final = 2700.0
KINDS: Final = {
    "mixed": ("one", "one", "few", "all", "flap", "hub", "scale", "heal", "slow"),
    "all": ("all", "all", "one", "heal"),
    "one": ("one", "slow", "heal", "scale"),
    "flaps": ("one", "flap", "few", "heal"),
    "blips": ("blip", "blip", "one", "hub", "hub", "few", "heal", "slow"),
    "doubtful": ("deaf", "late", "sluggish", "portal", "few", "heal", "slow"),
    "hubless": ("host", "hubless", "one", "few", "heal"),
    "crowded": ("one", "few", "back", "full", "full", "anew", "heal", "slow"),
}
"""Kinds of worlds, and what happens in each: seeds 0, 1, 2 and so on have them in turn."""
ACTS: Final = tuple(KINDS.values())
ELECTED: Final = range(24, 32)
"""Of forty worlds these have two hubs that stand for election, of which the leader is lost, too."""
MIDWAY: Final = ("midway", "midway", "midway")
BESIDE: Final = 4
"""From this on worlds have a job set and a cluster that has joined twice, too."""
JOBS, DOUBLE = "run", "double"


def _policy(rng: random.Random) -> Policy:
    return Policy(
        after_s=rng.choice((0, 30, 60, 120)),
        cooldown_s=rng.choice((120, 300, 900)),
        back_s=rng.choice((60, 120, 300)),
    )


def _elected(seed: int) -> bool:
    return seed % 40 in ELECTED


def worlds(*kinds: str, elected: bool = False, most: int = 3) -> tuple[int, ...]:
    """The first seeds with a world of one of these kinds, whose hubs stand for election or not."""
    names = tuple(KINDS)
    found = (
        seed
        for seed in itertools.count()
        if names[seed % len(names)] in kinds and _elected(seed) is elected
    )
    return tuple(itertools.islice(found, most))


async def _happen(run: Run, rng: random.Random) -> None:
    """Members fall silent and come back: alone, together, all at once; hubs die; people scale."""
    acts = (*ACTS[run.seed % len(ACTS)], *(MIDWAY if _elected(run.seed) else ()))
    disturbed, leaders = Disturbances(run, rng), Leaders(run, rng)
    while True:
        await asyncio.sleep(rng.uniform(5.0, 120.0))
        act = rng.choice(acts)
        match act:
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
                run.fired("F24 flapping")
                name = rng.choice(run.members)
                for _ in range(6):
                    await run.cut(name)
                    await asyncio.sleep(rng.choice((10.0, 20.0, 60.0)))
                    run.heal(name)
                    await asyncio.sleep(10.0)
            case "hub":
                await disturbed.restart(rng.uniform(0.0, 20.0))
            case "scale":
                name = rng.choice(sorted(run.policies))
                count = {"spec": {"replicas": rng.randint(3, 12)}}
                await run.world.patch(PSVC, "feed", name, count)
            case "slow":  # long enough that work comes home
                for name in list(run.cut_s):
                    run.heal(name)
                await asyncio.sleep(rng.uniform(200.0, 500.0))
            case "heal":
                for name in list(run.cut_s):
                    if rng.random() < 0.6:
                        run.heal(name)
            case "midway":
                await leaders.midway()
            case _:
                await disturbed.act(act)


async def _beside(run: Run) -> None:
    """A job set whose shards may overlap, and a second name for a cluster."""
    world = run.world
    long = {"embedded.federator/run-seconds": "1500"}
    placement = {"failover": {"afterSeconds": 60}}
    asked = {**jobset(12, 12, cpu="250m", annotations=long), "placement": placement}
    await world.create("PinterestJobSet", "feed", JOBS, asked)
    world.federation.aliases[DOUBLE] = run.members[0]
    await asyncio.sleep(1.1)  # stamps of whole seconds say which joined first
    await world.create("MemberCluster", "", DOUBLE, {})
    run.double = DOUBLE
    run.fired("F36 joined twice")


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
    options = HubOptions(evacuated_copies_a_minute=rng.choice((12, 60, 300)))
    world = World(fleet, options, seed, hubs=2 if _elected(seed) else 1)
    world.federation.metrics = Metrics()
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
        if seed % len(ACTS) >= BESIDE:
            await _beside(run)
        await asyncio.sleep(SETTLES_S)
        await play_until(run, HOUR_S, _happen(run, rng), every_s=LOOK_S)
        await run.well()
        while run.now_s < HOUR_S + SETTLES_S:
            await run.look()
            await asyncio.sleep(LOOK_S)
        await run.at_rest()
    finally:
        await world.federation.stop()
    return run.seen


CAMPAIGN: Final = Campaign(__doc__ or "", _play, wanted=FIRED)


if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(sys.argv[1:]))
