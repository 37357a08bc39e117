"""Who is asked again when something changes: never fewer than the change helps, and not all that
wait.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.resources import CPU, Resources
from federator.simulate.engine import backlog
from federator.simulate.engine.backlog import Backlog
from federator.simulate.inputs import Event, EventKind, Inputs, Scaled
from federator.simulate.outcome import SimulationResult
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, service, simulate


@contextmanager
def everybody() -> Iterator[None]:
    """Everybody whom a hint may help is decided on again, as in the hub."""
    kept = Backlog._as_one
    Backlog._as_one = lambda *_: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        Backlog._as_one = kept  # type: ignore[method-assign]


def limited(cores: int, **fields: Any) -> tuple[QuotaAccount, ...]:
    tiers = dict.fromkeys(Tier, TierQuota(maximum=Resources({CPU: cores * 1000})))
    return (QuotaAccount("ads", projects=frozenset({"ads"}), tiers=tiers, **fields),)


def drawn(seed: int) -> Inputs:
    """More than the fleet holds, of few kinds, with whatever may change."""
    chance = random.Random(seed)
    works = [
        job(
            f"w{number}",
            chance.randint(0, 300),
            chance.choice((10, 30, 30, 90)),
            chance.choice((1, 1, 2, 4)),
            cpu_milli=chance.choice((1000, 1000, 2000)),
            project=chance.choice(("ads", "feed")) if seed % 3 else "ads",
            priority=chance.choice((0, 0, 3)),
            tier=chance.choice((Tier.ON_DEMAND, Tier.ON_DEMAND, Tier.RESERVED)),
        )
        for number in range(90)
    ]
    works += [service(f"s{number}", 40 * number, 3) for number in range(3)]
    fleet = [cluster(name, nodes(count)) for name, count in (("a", 2), ("b", 1), ("c", 1))]
    events = [
        Event(120, EventKind.LOST, "b"),
        Event(180, EventKind.RETURNED, "b"),
        Event(200, EventKind.DRAINED, "c"),
        Event(230, EventKind.SCALED, scaled=Scaled("s1", ("s1",), None, Fraction(2))),
        Event(260, EventKind.GROWN, "a", view=cluster("a", nodes(3))),
    ]
    fields: dict[str, Any] = {"end_s": 3000}
    if seed % 3 == 1:
        fields["quotas"] = limited(5)
        events.append(Event(290, EventKind.QUOTA_CHANGED, quotas=limited(8)))
    if seed % 3 == 2:
        fields["quotas"] = limited(50, max_concurrent=3)
    return inputs_of(fleet, works, *events, **fields)


def told(outcome: SimulationResult) -> list[object]:
    return [(life.work.id, life.end, life.start_s, life.stays) for life in outcome.lives]


@pytest.mark.parametrize("seed", range(9))
def test_what_is_decided_is_what_asking_everybody_decides(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "FEW", 0)
    few = simulate(drawn(seed))
    with everybody():
        every = simulate(drawn(seed))

    assert told(few) == told(every)
    assert few.decisions < every.decisions


def test_thousands_that_wait_cost_no_decision_each_when_one_ends() -> None:
    works = [job(f"w{number}", 0, 100 + number, 4) for number in range(400)]

    outcome = simulate(inputs_of([cluster("a"), cluster("b")], works))

    assert lives(outcome)["w399"].start_s is not None
    assert outcome.decisions <= 4 * len(works)


def test_those_that_wait_go_in_the_order_of_one_cycle() -> None:
    works = [
        job("full", 0, 100, 4),
        *(job(f"low-{number}", 1 + number, 100, 4) for number in range(6)),
        job("high", 50, 100, 4, priority=7),
        job("reserved", 60, 100, 4, tier=Tier.RESERVED),
        job("narrow", 70, 100, 1, priority=7),
    ]

    by_id = lives(simulate(inputs_of([cluster("a")], works)))

    order = sorted(by_id, key=lambda name: (by_id[name].start_s or 0, name))
    assert order[:3] == ["full", "reserved", "high"]
    assert [name for name in order if name.startswith("low")] == [f"low-{n}" for n in range(6)]
