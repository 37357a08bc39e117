"""`--scale-demand F` is F times the core-hours, GiB-hours and GPU-hours, drawn by weight with the
seed; services ask for more replicas; the report says what is asked for.
"""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.simulate.demand import Scaling, Work
from federator.simulate.scenario import loading
from federator.simulate.scenario.scaling import scaled
from tests.examples import dear_examples
from tests.house.sources import ROOT
from tests.unit.simulate.fleets import job, service, simulate

END_S = 86_400
SCALES = ("0.3", "1/2", "0.9", "1.1", "1.3", "1.5", "2", "2.7")


def hours(works: Sequence[Work]) -> Counter[str]:
    """What works ask for, times hours, second by second of their curves."""
    found: Counter[str] = Counter()
    for work in works:
        steps = [(work.submit_s, work.shards), *((one.at_s, one.copies) for one in work.curve)]
        if work.runtime_s is not None:
            copies = work.shards * work.runtime_s
        else:
            ends = [at_s for at_s, _ in steps[1:]] + [END_S]
            copies = sum(
                many * (until_s - at_s) for (at_s, many), until_s in zip(steps, ends, strict=True)
            )
        for name, each in (("cpu", work.cpu_milli), ("mem", work.memory_mib), ("gpu", work.gpu)):
            found[name] += (each or 0) * copies
    return found


def within(works: Sequence[Work], scale: str, seed: int, off: float) -> list[str]:
    """The resources that are further off."""
    before = hours(works)
    after = hours(scaled(works, Fraction(scale), seed, END_S).works)
    factor = float(Fraction(scale))
    return [
        name
        for name, sums in before.items()
        if abs(after[name] - factor * sums) > off * factor * sums
    ]


@st.composite
def demands(draw: st.DrawFn) -> list[Work]:
    """Jobs of two kinds in turn, one of them much larger, with long tails. A second of rounding is
    less than 1 % of each."""
    dice = random.Random(draw(st.integers(0, 1000)))
    sigma, large = draw(st.sampled_from([0.0, 1.0, 2.0])), draw(st.sampled_from([1, 16, 400]))
    return [
        job(
            f"w{at}",
            at * 60,
            200 + round(dice.lognormvariate(7, sigma)),
            large if at % 2 else 1,
            cpu_milli=dice.choice([500, 2000, 8000]),
            gpu=dice.choice([0, 0, 1]) if at % 3 else 8,
        )
        for at in range(draw(st.integers(1, 300)))
    ]


@given(demands(), st.sampled_from(SCALES), st.integers(0, 9))
@dear_examples()
def test_scaled_demand_is_within_one_percent_of_each_resource(
    works: list[Work], scale: str, seed: int
) -> None:
    assert within(works, scale, seed, 0.01) == []


@pytest.mark.parametrize("scale", SCALES)
def test_services_ask_for_so_many_times_the_replicas(scale: str) -> None:
    dice = random.Random(scale)
    works = [
        service(
            f"s{at}",
            0,
            copies := dice.randint(1, 40),
            curve=(Scaling(3600 * dice.randint(1, 12), dice.randint(0, 2 * copies)),),
            cpu_milli=dice.choice([500, 4000]),
        )
        for at in range(60)
    ]

    found = scaled(works, Fraction(scale), 1, END_S).works

    assert within(works, scale, 1, 0.01) == []
    before = {work.id: work for work in works}
    for work in found:
        exact = before[work.id].shards * Fraction(scale)
        assert abs(work.shards - exact) < 1
        assert [step.at_s for step in work.curve] == [step.at_s for step in before[work.id].curve]


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=40),
    st.integers(0, 40),
    st.sampled_from(SCALES),
    st.integers(0, 3),
)
@dear_examples()
def test_replicas_that_an_event_sets_are_scaled_too(
    sizes: list[int], replicas: int, scale: str, seed: int
) -> None:
    """Also of services that ask for too little to be there without the event."""
    streams = [
        {
            "name": f"s{size}",
            "kind": "service",
            "works": sizes.count(size),
            "over": 0,
            "tenants": {"ads": 1},
            "shard": {"cpu": 1},
            "shards": {str(size): 1},
        }
        for size in sorted(set(sizes))
    ]
    document = {
        "seed": seed,
        "until": "4h",
        "fleet": {"clusters": [{"name": "a", "nodes": [{"count": 100, "cpu": 100}]}]},
        "demand": {"scale": scale, "generate": streams},
        "events": [{"at": "1h", "scaled": {"services": ["project=ads"], "replicas": replicas}}],
    }

    made = loading.inputs(document, ROOT / "s.yaml", {})

    (event,) = made.events
    assert event.scaled is not None
    assert event.scaled.copies is not None
    exact = replicas * Fraction(scale)
    assert len(event.scaled.copies) == len(sizes)
    assert abs(sum(event.scaled.copies.values()) - exact * len(sizes)) <= Fraction(1, 2)
    assert all(abs(copies - exact) < 1 for copies in event.scaled.copies.values())
    held = Counter(
        {
            life.work.id: sum(stay.copies for stay in life.stays if stay.end_s is None)
            for life in simulate(made).lives
        }
    )
    assert +held == +Counter(event.scaled.copies)


def test_the_seed_draws_which_jobs_and_their_order_does_not() -> None:
    works = [job(f"w{at}", at, 100) for at in range(200)]

    def drawn(given: list[Work], seed: int) -> set[str]:
        return {work.id for work in scaled(given, Fraction("1.5"), seed, END_S).works}

    first = drawn(works, 1)
    assert len(first) == 300
    assert drawn(list(reversed(works)), 1) == first
    assert drawn(works, 2) != first
    copies = sorted(int(name.removesuffix("-copy1")[1:]) for name in first if "-" in name)
    gaps = {later - sooner for sooner, later in itertools.pairwise(copies)}
    assert len(gaps) > 2, "not every second one"


def test_works_stay_in_the_order_of_submission_and_ids_are_single() -> None:
    works = [job(f"w{at}", at // 2, 10 + at) for at in range(50)]

    found = scaled(works, Fraction("3.5"), 0, None).works

    assert [work.submit_s for work in found] == sorted(work.submit_s for work in found)
    assert len({work.id for work in found}) == len(found)
    assert abs(len(found) - 175) <= 1


def test_the_report_says_what_is_asked_for() -> None:
    path = ROOT / "simulations/lose-a-zone.yaml"
    document = loading.demanding(loading.document(path), "1.3")
    made = loading.inputs(document, path, {})

    (said,) = [one for one in made.assumptions if one.startswith("Demand is scaled")]
    assert said.startswith("Demand is scaled by 1.3: ")
    assert said.count("(1.30") + said.count("(1.29") == 2  # core-hours and GiB-hours
    alone = loading.inputs(loading.document(path), path, {})
    assert not [one for one in alone.assumptions if "scaled" in one]


def test_a_demand_that_cannot_be_scaled_so_says_so() -> None:
    said = scaled([service("only", 0, 1)], Fraction("1.5"), 0, END_S).sentence

    assert said.startswith("Demand is scaled by 1.5: 1 works ask for 24 core-hours (1.000 times)")
    assert said.endswith("; its works are too few or too unlike for less than 1 %.")


def test_few_large_jobs_run_for_a_part_of_their_time() -> None:
    works = [job("large", 0, 36_000, 100), *(job(f"w{at}", at, 60) for at in range(40))]

    made = scaled(works, Fraction("1.5"), 0, END_S)

    assert within(works, "1.5", 0, 0.01) == []
    assert [work.runtime_s for work in made.works if work.id.startswith("large")] == [
        36_000,
        18_000,
    ]
    assert "; of the largest 1, jobs run for a part of their time" in made.sentence
