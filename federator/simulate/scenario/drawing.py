"""Demand and fleets that are drawn with a seed, of the shape of real traces: day and week, bursts
of equal jobs, long tails of run times, few tenants with most of the demand.

Chance is drawn by the seed and the name of the stream or cluster, and the values of a mapping in
the order of their names: the same fields and seed give the same works in every process, in whatever
order the fields are written.
"""

import bisect
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from federator.model.ask import Tier
from federator.model.kubernetes import quantity
from federator.model.quickly import likewise
from federator.model.resources import CPU, MEMORY
from federator.simulate.demand import Failing, Scaling, Work
from federator.simulate.scenario.schema import (
    Cluster,
    Curve,
    Failures,
    FleetGenerator,
    PerShard,
    Rhythm,
    Stream,
)

STEP_S: Final = 900
"""Within a quarter of an hour submissions are even."""
DAY_S: Final = 86400
WEEK_S: Final = 7 * DAY_S
BURST_LEAST: Final = 2
ANY: Final = "any"
_LIKE: Final = likewise(Work, "id", "submit_s", "runtime_s")


def clusters(given: FleetGenerator, seed: int) -> list[Cluster]:
    """The clusters of a generator, region by region and zone by zone in turn."""
    zones = [
        f"{region}{chr(ord('a') + zone)}" for zone in range(given.zones) for region in given.regions
    ]
    made = []
    for index in range(given.clusters):
        zone = zones[index % len(zones)]
        suffix = f"-{index // len(zones) + 1}" if given.clusters > len(zones) else ""
        name = f"{zone}{suffix}"
        chance = random.Random(f"fleet:{seed}:{name}")
        size = round(math.exp(chance.uniform(math.log(given.least), math.log(given.most))))
        labels = {"region": zone[:-1], "zone": zone}
        node = given.node.model_copy(update={"count": size})
        made.append(
            Cluster.model_construct(
                name=name,
                labels=labels,
                taints=[],
                usable=Fraction(1),
                nodes=[node],
                packs=False,
                price=given.price,
            )
        )
    return made


def works(stream: Stream, seed: int, until_s: int | None = None) -> list[Work]:
    """The works of a stream by submission. Services follow their curve until `until_s`, without it
    until the last one may be submitted.
    """
    chance = random.Random(f"demand:{seed}:{stream.name}")
    draw = _Draw(stream, chance)
    moments = _Moments(stream.rhythm, stream.over, chance)
    made: list[Work] = []
    while len(made) < stream.works:
        start = moments.next()
        if not (stream.bursts.share and chance.random() < _first_of_burst(stream)):
            made.append(draw.work(start))
            continue
        size = min(
            chance.randint(BURST_LEAST, max(stream.bursts.size, BURST_LEAST)),
            stream.works - len(made),
        )
        like = draw.work(start)
        made.append(like)
        for _ in range(size - 1):
            at = min(start + chance.randint(0, stream.bursts.within), stream.over)
            made.append(draw.like(like, at))
    made.sort(key=lambda work: work.submit_s)
    if stream.failures is not None:
        made = _failing(made, stream.failures, f"failures:{seed}:{stream.name}")
    if stream.curve is not None:
        end_s = stream.over if until_s is None else until_s
        made = [_following(stream.curve, work, end_s) for work in made]
    return made


def _following(curve: Curve, service: Work, end_s: int) -> Work:
    """The service with what it asks for at first and later."""
    at_s = service.submit_s
    steps = (
        _daily(curve, service.shards, end_s)
        if curve.daily is not None
        else _by_points(curve, end_s)
    )
    first = service.shards
    later: list[Scaling] = []
    for step_s, copies in steps:
        if step_s <= at_s:
            first = copies
        elif copies != (later[-1].copies if later else first):
            later.append(Scaling(step_s, copies))
    return replace(service, shards=first, curve=tuple(later))


def _by_points(curve: Curve, end_s: int) -> Iterator[tuple[int, int]]:
    """(second, copies) by time; what holds before the first point of a period is the last of the
    one before.
    """
    points, every_s = curve.at(), curve.every
    if every_s is None:
        yield from (point for point in points if point[0] <= end_s)
        return
    yield 0, points[-1][1]
    for period_s in range(0, end_s + 1, every_s):
        yield from (
            (period_s + at_s, copies) for at_s, copies in points if period_s + at_s <= end_s
        )


def _daily(curve: Curve, most: int, end_s: int) -> Iterator[tuple[int, int]]:
    assert curve.daily is not None
    least, peak_s = float(curve.daily.least), curve.daily.peak
    for at_s in range(0, end_s + 1, curve.daily.step):
        height = (1 + math.cos(2 * math.pi * (at_s - peak_s) / DAY_S)) / 2
        yield at_s, math.ceil(round(most * (least + (1 - least) * height), 6))


def _failing(works: Sequence[Work], given: Failures, seed: str) -> list[Work]:
    """Some of the works fail. They are drawn by themselves: the works stay those that they are
    without failures.
    """
    chance = random.Random(seed)
    times = _Wheel(given.times)

    def drawn(work: Work) -> Work:
        if chance.random() >= given.share:
            return work
        after_s = chance.randint(1, max(work.runtime_s or 1, 1))
        return replace(work, failing=Failing(int(times.draw(chance)), after_s, given.backoff_limit))

    return [drawn(work) for work in works]


def _first_of_burst(stream: Stream) -> float:
    """Chance that a draw begins a burst, so that bursts have their share of all works."""
    mean = (BURST_LEAST + max(stream.bursts.size, BURST_LEAST)) / 2
    share = stream.bursts.share
    return share / (share + (1 - share) * mean)


class _Moments:
    """Draws moments that follow the rhythm."""

    def __init__(self, rhythm: Rhythm, over_s: int, chance: random.Random) -> None:
        self.over_s, self.chance = over_s, chance
        steps = range(0, max(over_s, 1), STEP_S)
        widths = [min(STEP_S, over_s - at) for at in steps]
        self.sums = list(
            itertools.accumulate(
                _intensity(rhythm, at) * width for at, width in zip(steps, widths, strict=True)
            )
        )

    def next(self) -> int:
        step = bisect.bisect_left(self.sums, self.chance.random() * self.sums[-1])
        return min(step * STEP_S + self.chance.randrange(STEP_S), self.over_s)


def _intensity(rhythm: Rhythm, at_s: int) -> float:
    """Submissions at an instant beside the mean of a working day."""
    day = 1 + rhythm.day * math.cos(2 * math.pi * (at_s - rhythm.peak) / DAY_S)
    weekend = rhythm.weekend if at_s % WEEK_S >= 5 * DAY_S else 1.0
    return max(day * weekend, 1e-9) * float((1 + rhythm.growth_per_week) ** (at_s / WEEK_S))


class _Draw:
    """Draws the works of a stream."""

    def __init__(self, stream: Stream, chance: random.Random) -> None:
        self.stream, self.chance = stream, chance
        self.tenants = _Wheel(stream.tenants)
        self.shards = _Wheel(stream.shards)
        self.tiers = _Wheel(stream.tiers)
        self.models = _Wheel(stream.gpu_models or {ANY: 1.0})
        self.numbers = itertools.count()
        self.cpu, self.memory, self.gpus = amounts(stream.shard)

    def work(self, at_s: int) -> Work:
        tenant = self.tenants.draw(self.chance)
        model = self.models.draw(self.chance)
        return Work(
            id=self._id(),
            kind=self.stream.kind,
            namespace=tenant,
            project=tenant,
            tier=Tier(self.tiers.draw(self.chance)),
            home_cluster=self.stream.homes.get(tenant, ""),
            submit_s=at_s,
            runtime_s=self._runtime(),
            shards=int(self.shards.draw(self.chance)),
            cpu_milli=self.cpu,
            memory_mib=self.memory,
            gpu=self.gpus,
            gpu_models=() if model == ANY else tuple(model.split("|")),
            checkpoint_s=self.stream.checkpoint,
        )

    def like(self, other: Work, at_s: int) -> Work:
        """Another of the same sweep: it only runs as long as it likes."""
        return _LIKE(other, self._id(), at_s, self._runtime())

    def _id(self) -> str:
        return f"{self.stream.name}-{next(self.numbers)}"

    def _runtime(self) -> int | None:
        given = self.stream.runtime
        if given is None:
            return None
        drawn = self.chance.lognormvariate(math.log(max(given.median, 1)), given.sigma)
        return max(1, min(round(drawn), given.longest))


class _Wheel:
    """Values that are drawn by their weights, whatever the order in which these are given."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.values: Sequence[str] = sorted(weights)
        self.sums = list(itertools.accumulate(weights[value] for value in self.values))

    def draw(self, chance: random.Random) -> str:
        at = bisect.bisect_right(self.sums, chance.random() * self.sums[-1])
        return self.values[min(at, len(self.values) - 1)]


def amounts(shard: PerShard) -> tuple[int | None, int | None, int | None]:
    """Milli-cores, MiB and GPUs of a shard; None for what it does not name. Raises FieldError."""
    named = {
        name: value
        for name, value in (("cpu", shard.cpu), ("memory", shard.memory))
        if value is not None
    }
    resources = quantity.vector(named, "shard")
    memory = -(-resources[MEMORY] // (1 << 20)) if MEMORY in named else None
    return resources[CPU] if CPU in named else None, memory, shard.gpus or None
