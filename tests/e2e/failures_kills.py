"""Hubs and member processes are killed at random moments while workloads come, grow and go. In the
end everything is as the decisions say, once, and nothing is left of what was deleted.

Told by test_failures.py, and at length by `python -m tests.e2e.failures`. The seed decides what is
asked for and who dies before which request; how far the others are by then is up to the machine.
"""

import random
import time
from collections.abc import Mapping
from typing import Any

from tests.e2e import failures_writes, workloads
from tests.e2e.failures_compare import Asked
from tests.e2e.failures_fleet import HUBS, MEMBERS, FailureFleet, moments

LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "100000"}
"""Shards that are still running when all is compared."""
LATER_S = 1.0
"""A process that was killed is started again so long after the next request, at most."""


def random_kills(
    ground: FailureFleet,
    asked: Asked,
    *,
    count: int,
    kills: int,
    seed: int,
    rest_s: float,
    within_s: float = 120.0,
) -> dict[str, float]:
    """`count` workloads are placed, some are scaled and some deleted meanwhile; before `kills` of
    the requests a process dies, and another life of it begins soon after.
    """
    rng, begun = random.Random(seed), time.time()
    lethal = set(moments(rng, kills, count))
    dead: dict[str, float] = {}
    deaths = dict.fromkeys((*HUBS, *MEMBERS), 0)
    for index in range(count):
        _revive(ground, dead)
        if index in lethal:
            if not (living := _who_matters(ground)):
                _revive(ground, dead, at_once=True)
                living = _who_matters(ground)
            name = rng.choice(living)
            ground.kill(name)
            deaths[name] += 1
            dead[name] = time.monotonic() + rng.uniform(0.0, LATER_S)
        asked.create(_workload(rng, index, asked.namespace))
        if index % 4 == 3:
            _change(rng, asked)
        time.sleep(rng.uniform(0.0, 0.05))
    _revive(ground, dead, at_once=True)
    asked.comes_about(within_s)
    settled_s = time.time() - begun
    writes = failures_writes.since(failures_writes.read(ground.clusters), begun)
    failures_writes.sound(writes, asked.namespace)
    failures_writes.at_rest(ground.clusters, rest_s)
    return {
        "seed": seed,
        "placed": count,
        "settled after s": settled_s,
        "writes": len(writes),
        **deaths,
    }


def _who_matters(ground: FailureFleet) -> list[str]:
    """The hub that leads and the members, as far as they run."""
    return [name for name in (ground.leader(), *MEMBERS) if name in ground.running]


def _revive(ground: FailureFleet, dead: dict[str, float], *, at_once: bool = False) -> None:
    for name, due in list(dead.items()):
        if at_once or time.monotonic() >= due:
            ground.start(name)
            del dead[name]


def _workload(rng: random.Random, index: int, namespace: str) -> Mapping[str, Any]:
    drawn = rng.random()
    if drawn < 0.7:
        return workloads.service(f"svc-{index}", namespace, rng.randint(1, 3))
    if drawn < 0.85:
        return workloads.deployment(f"dep-{index}", namespace, rng.randint(1, 3))
    found = workloads.jobset(f"job-{index}", namespace, rng.randint(2, 6), 2)
    found["spec"]["template"]["metadata"]["annotations"] = dict(LONG)
    return found


def _change(rng: random.Random, asked: Asked) -> None:
    """Scales one of the workloads, or deletes one."""
    kind, name = rng.choice(sorted(asked.wanted))
    if kind == "PinterestJobSet" or rng.random() < 0.4:
        asked.delete(kind, name)
    else:
        asked.scale(kind, name, rng.randint(1, 4))
