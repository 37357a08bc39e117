"""Outcomes to report on: made by hand or drawn from a seed, without the engine."""

import random
from collections.abc import Sequence

from federator.model.ask import Tier
from federator.simulate.demand import Work
from federator.simulate.outcome import (
    ONE_NODE,
    End,
    Happened,
    Held,
    Life,
    Sample,
    SimulationResult,
    Stay,
    Wait,
)

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}"


def work(
    name: str, submit_s: int = 0, *, project: str = "ads", tier: Tier = Tier.ON_DEMAND, gpu: int = 2
) -> Work:
    return Work(name, "job", project, project, tier, "east", submit_s, 100, 1, 1000, 1024, gpu)


def small(
    lives: Sequence[Life], *, end_s: int = 1000, warm_up_s: int = 0, name: str = "small"
) -> SimulationResult:
    """One cluster of 8 GPUs; what is used by the lives' stays, sampled every 100 s."""

    def sample(at_s: int) -> Sample:
        held = sum(
            stay.copies * (life.work.gpu or 0)
            for life in lives
            for stay in life.stays
            if stay.start_s <= at_s and (stay.end_s is None or at_s < stay.end_s)
        )
        waiting = [
            w
            for x in lives
            for w in x.waits
            if w.start_s <= at_s and (w.end_s is None or at_s < w.end_s)
        ]
        return Sample(
            at_s, {"east": (held,)}, {"east": (8,)}, len(waiting), sum(w.copies for w in waiting)
        )

    samples = tuple(sample(at_s) for at_s in range(0, end_s, 100))
    steps = [
        sample(at_s)
        for at_s in sorted(
            {0} | {at_s for x in lives for s in x.stays for at_s in (s.start_s, s.end_s or end_s)}
        )
    ]
    held = held_of(steps, ("gpu",), warm_up_s, end_s)
    return SimulationResult(
        name, 0, 0, end_s, warm_up_s, end_s, ("gpu",), tuple(lives), samples, held
    )


def held_of(
    steps: Sequence[Sample], resources: Sequence[str], begin_s: int, end_s: int
) -> tuple[Held, ...]:
    """What was held in all, where each step stands until the next."""
    spans = []
    for now, until_s in zip(steps, [*(step.at_s for step in steps[1:]), end_s], strict=True):
        lasted_s = min(until_s, end_s) - max(now.at_s, begin_s)
        if lasted_s > 0:
            spans.append((now, lasted_s))

    def held(cluster: str, at: int, resource: str) -> Held:
        mine = [
            (
                lasted_s,
                sum(now.used[one][at] for one in now.used if cluster in ("", one)),
                sum(now.capacity[one][at] for one in now.capacity if cluster in ("", one)),
            )
            for now, lasted_s in spans
            if not cluster or cluster in now.capacity
        ]
        return Held(
            cluster,
            resource,
            sum(lasted_s for lasted_s, _, _ in mine),
            sum(lasted_s * whole for lasted_s, _, whole in mine),
            sum(lasted_s * used for lasted_s, used, _ in mine),
            max((used for _, used, _ in mine), default=0),
            max((used / whole for _, used, whole in mine if whole), default=0.0),
            begin_s,
        )

    names = sorted({one for now, _ in spans for one in now.capacity})
    return tuple(held(one, at, what) for one in ("", *names) for at, what in enumerate(resources))


def drawn(
    seed: int = 1,
    *,
    works: int = 400,
    clusters: int = 12,
    hostile: bool = False,
    name: str = "",
    slow: float = 1.0,
) -> SimulationResult:
    """An outcome of every kind of thing that a report shows."""
    dice = random.Random(seed)
    names = [f"us-east-{at}" for at in range(clusters)]
    projects = ["ads", "search", "ml-platform", "data", "infra", "web", "growth"]
    subject = "us-east-0"
    if hostile:
        names[0], projects[0], subject = HOSTILE, HOSTILE, HOSTILE
    lives = [_life(dice, at, names, projects, slow) for at in range(works)]
    end_s = 300_000
    samples = []
    for at_s in range(0, end_s, 600):
        wave = 0.35 + 0.3 * ((at_s % 86_400) / 86_400)
        there = [one for one in names if not (one == names[0] and 90_000 <= at_s < 130_000)]
        capacity = dict.fromkeys(there, (64000, 262144, 64))
        used = {
            one: tuple(int(amount * min(wave + dice.random() * 0.4, 1)) for amount in capacity[one])
            for one in there
        }
        waiting = dice.randrange(20)
        lacking = {"gpu": waiting, ONE_NODE: waiting // 3} if waiting else {}
        samples.append(Sample(at_s, used, capacity, waiting, waiting * 2, waiting // 3, lacking))
    return SimulationResult(
        name=name or (HOSTILE if hostile else "losing a zone at the peak"),
        seed=seed,
        start_s=0,
        end_s=end_s,
        warm_up_s=3_600,
        horizon_s=end_s,
        resources=("cpu", "memory", "gpu"),
        lives=tuple(lives),
        samples=tuple(samples),
        held=held_of(samples, ("cpu", "memory", "gpu"), 3_600, end_s),
        happened=(Happened(90_000, "lost", subject, 31), Happened(130_000, "returned", subject)),
        decisions=1234,
        cycles=567,
        price_per_hour=dict.fromkeys(names, 2.5),
        costs={one: round(151_704 * slow) + at for at, one in enumerate(names)},
        assumptions=(
            f"memory was not recorded for {HOSTILE if hostile else 'ads'}, and counts as nothing",
        ),
    )


def _life(dice: random.Random, at: int, names: list[str], projects: list[str], slow: float) -> Life:
    submit_s = dice.randrange(250_000)
    project = dice.choice(projects)
    one = Work(
        f"job-{at}", "job", project, project, dice.choice(list(Tier)), dice.choice(names), submit_s,
        dice.randrange(600, 30_000), dice.choice((1, 1, 2, 4)), 4000, 16_384, dice.choice((0, 1, 8)),
    )  # fmt: skip
    assert one.runtime_s is not None
    reason = dice.choice(
        ("InsufficientCapacity", "InsufficientCapacity", "QuotaExceeded", "SpreadUnsatisfiable")
    )
    kind = dice.random()
    if kind < 0.03:
        return Life(one, End.WAITING, waits=(Wait(submit_s, None, reason, one.shards),))
    wait_s = 0 if kind < 0.6 else int(dice.expovariate(1 / (1_800 * slow)))
    start_s = submit_s + wait_s
    waits = (Wait(submit_s, start_s, reason, one.shards),) if wait_s else ()
    cluster, done_s = dice.choice(names), start_s + one.runtime_s
    if kind > 0.9:
        half = start_s + one.runtime_s // 2
        stays = (
            Stay(cluster, one.shards, start_s, half),
            Stay(names[-1], one.shards, half, done_s),
        )
        return Life(
            one, End.COMPLETED, start_s, done_s, stays, waits, restarts=1, lost_s=one.runtime_s // 2
        )
    return Life(
        one, End.COMPLETED, start_s, done_s, (Stay(cluster, one.shards, start_s, done_s),), waits
    )
