"""Services that are scaled: by a curve, by events, and as a recording says."""

import dataclasses
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.resources import CPU, Resources
from federator.simulate.demand import Scaling
from federator.simulate.engine import run
from federator.simulate.inputs import Event, EventKind, Scaled
from federator.simulate.outcome import Life
from federator.simulate.report import figures, forms
from federator.simulate.report.measures import measure
from federator.simulate.report.page import Provenance
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import InvalidScenario
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, service, simulate


def copies_at(life: Life, at_s: int) -> int:
    return sum(
        one.copies
        for one in life.stays
        if one.start_s <= at_s and (one.end_s is None or at_s < one.end_s)
    )


def test_a_service_follows_its_curve_and_gives_its_room_to_a_job() -> None:
    web = service("web", 0, 2, curve=(Scaling(10, 4), Scaling(20, 1), Scaling(40, 3)))

    found = lives(simulate(inputs_of([cluster("a")], [web, job("waits", 5, 100, 3)], end_s=60)))

    assert [copies_at(found["web"], at_s) for at_s in (0, 9, 10, 19, 20, 39, 40)] == [
        2,
        2,
        4,
        4,
        1,
        1,
        1,
    ]
    assert (found["web"].scalings, found["web"].scaled_late) == (3, 1)
    assert found["waits"].start_s == 20
    assert [(wait.start_s, wait.copies, wait.reason) for wait in found["web"].waits] == [
        (40, 2, "InsufficientCapacity")
    ]


def test_a_scale_up_gets_what_there_is_and_the_rest_when_it_is_free() -> None:
    web = service("web", 0, 2, curve=(Scaling(10, 6),))

    found = lives(
        simulate(inputs_of([cluster("a", nodes(2))], [web, job("before", 0, 30, 4)], end_s=60))
    )

    assert [copies_at(found["web"], at_s) for at_s in (9, 10, 29, 30)] == [2, 4, 4, 6]


def test_a_quota_bounds_a_scale_up_as_in_the_hub() -> None:
    account = QuotaAccount("ads", projects=frozenset({"ads"}), namespaces=frozenset({"team-a"}))
    most = TierQuota(maximum=Resources({CPU: 3000}))
    quotas = (dataclasses.replace(account, tiers=dict.fromkeys(Tier, most)),)
    web = service("web", 0, 2, curve=(Scaling(10, 4), Scaling(20, 3)))

    (life,) = simulate(inputs_of([cluster("a")], [web], quotas=quotas, end_s=40)).lives

    assert [copies_at(life, at_s) for at_s in (9, 10, 19, 20)] == [2, 3, 3, 3]
    assert [(wait.start_s, wait.end_s, wait.reason, wait.copies) for wait in life.waits] == [
        (10, 20, "ExceedsMaxQuota", 1)
    ]


def test_a_service_that_is_scaled_to_nothing_comes_back() -> None:
    web = service("web", 0, 2, curve=(Scaling(10, 0), Scaling(20, 3)))

    (life,) = simulate(inputs_of([cluster("a")], [web], end_s=40)).lives

    assert [copies_at(life, at_s) for at_s in (9, 10, 19, 20)] == [2, 0, 0, 3]


def scaled(at_s: int, *works: str, copies: int | None = None, times: str = "1") -> Event:
    given = None if copies is None else dict.fromkeys(works, copies)
    return Event(
        at_s, EventKind.SCALED, scaled=Scaled(", ".join(works), works, given, Fraction(times))
    )


def test_an_event_sets_replicas_until_the_next_point_or_multiplies_all_later_ones() -> None:
    curve = (Scaling(20, 4), Scaling(40, 2))
    works = [
        service("set", 0, 2, curve=curve),
        service("times", 0, 2, curve=curve),
        job("job", 0, 5),
    ]
    events = (
        scaled(10, "set", copies=3),
        scaled(10, "times", times="1.5"),
        scaled(30, "times", "job", times="2"),
    )

    outcome = simulate(inputs_of([cluster("a", nodes(8))], works, *events, end_s=60))

    found = lives(outcome)
    assert [copies_at(found["set"], at_s) for at_s in (9, 10, 20, 40)] == [2, 3, 4, 2]
    assert [copies_at(found["times"], at_s) for at_s in (9, 10, 20, 30, 40)] == [2, 3, 6, 12, 6]
    assert [(one.at_s, one.kind, one.subject, one.asked) for one in outcome.happened] == [
        (10, "scaled", "set", 1), (10, "scaled", "times", 1), (30, "scaled", "times, job", 6),
    ]  # fmt: skip


def test_a_change_of_the_fleet_leaves_a_service_at_what_it_was_scaled_to() -> None:
    lost = Event(20, EventKind.LOST, "a")
    fleet = [cluster("a", nodes(2)), cluster("b", nodes(2))]

    (life,) = simulate(
        inputs_of(
            fleet,
            [service("web", 0, 2, curve=(Scaling(10, 5),))],
            scaled(15, "web", copies=6),
            lost,
            end_s=40,
        )
    ).lives

    assert [copies_at(life, at_s) for at_s in (9, 10, 15, 20)] == [2, 5, 6, 6]


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_scaled_everything_adds_up(seed: int) -> None:
    chance = random.Random(seed)
    works = [
        service(
            f"s{number}",
            submit_s := chance.randrange(200),
            chance.randint(0, 6),
            priority=chance.randint(0, 2),
            cpu_milli=chance.choice([500, 1000, 3000]),
            curve=tuple(
                Scaling(submit_s + 1 + step * 37, chance.randint(0, 9))
                for step in range(chance.randint(0, 9))
            ),
        )
        for number in range(12)
    ]
    works += [
        job(f"j{number}", chance.randrange(400), 30, chance.randint(1, 4)) for number in range(30)
    ]
    events = [
        Event(100, EventKind.LOST, "a"),
        Event(150, EventKind.RETURNED, "a"),
        Event(250, EventKind.DRAINED, "b"),
    ]
    inputs = inputs_of([cluster(name, nodes(3)) for name in "abc"], works, *events, end_s=900)

    assert simulate(inputs) == run.run(inputs)


# -- scenario files --------------------------------------------------------------------------------


def document(curve: object = None, *events: dict[str, Any], **stream: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "name": "web", "kind": "service", "works": 3, "over": 0, "tenants": {"ads": 1}, "shard": {"cpu": 1},
        "shards": {"10": 1},
    }  # fmt: skip
    settings |= stream | ({"curve": curve} if curve is not None else {})
    batch = {
        "name": "batch", "works": 1, "over": 0, "tenants": {"ads": 1}, "shard": {"cpu": 1}, "runtime": {"median": "1h"},
    }  # fmt: skip
    fleet = {"clusters": [{"name": "a", "nodes": [{"count": 8, "cpu": 8}]}]}
    return {
        "until": "2d", "fleet": fleet, "demand": {"generate": [settings, batch]}, "events": list(events),
    }  # fmt: skip


def curve_of(given: dict[str, Any]) -> list[tuple[int, int]]:
    work = loading.inputs(given, Path("s.yaml"), {}).works[0]
    return [(0, work.shards), *((one.at_s // 3600, one.copies) for one in work.curve)]


def test_points_come_again_each_period_and_a_curve_without_one_ends_with_its_last() -> None:
    points = {"9h": 20, "0": 4, "18h": 12}

    assert curve_of(document({"points": points})) == [(0, 4), (9, 20), (18, 12)]
    daily = [(0, 4), (9, 20), (18, 12), (24, 4), (33, 20), (42, 12), (48, 4)]
    assert curve_of(document({"points": points, "every": "1d"})) == daily
    assert curve_of(document({"points": {"9h": 20, "18h": 12}, "every": "1d"}))[0] == (0, 12)
    assert curve_of(document({"points": {"9h": 20}}))[0] == (0, 10)


def test_a_daily_curve_has_all_at_the_peak_and_the_least_part_twelve_hours_later() -> None:
    found = dict(curve_of(document({"daily": {"least": "40%", "peak": "15h", "step": "1h"}})))

    assert [hour for hour, copies in found.items() if copies == 10] == [12, 36]
    assert [hour for hour, copies in found.items() if copies == min(found.values())] == [3, 27]
    assert (found[3], found[4], found[19]) == (4, 5, 9)


def test_the_scenario_says_what_was_scaled_and_the_report_counts_it() -> None:
    events = ({"at": "1h", "scaled": {"services": "web-1", "replicas": 12}},)
    more = ({"at": "2h", "scaled": {"services": ["project=ads"], "times": 3}},)
    inputs = loading.inputs(document(None, *events, *more), Path("s.yaml"), {})

    measures = measure(simulate(inputs))

    assert [(one.at_s, one.subject, one.asked) for one in measures.outcome.happened] == [
        (3600, "web-1", 2), (7200, "project=ads", 64),
    ]  # fmt: skip
    assert "services were scaled 4 times, 2 of these had to wait" in figures.verdict(measures)
    values = figures.values(measures)
    assert (values["scalings"], values["scaled_late"]) == (4, 2)
    written = forms.files(measures, Provenance("1", "s.yaml", "", {}))
    assert "<td>scaled</td><td>project=ads</td>" in written["report.html"].decode().replace(
        "\n", ""
    )
    assert (
        forms.document(measures, Provenance("1", "s.yaml", "", {}))["happened"][0]["askedCopies"]
        == 2
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"services": "web-9", "replicas": 1},
            "events[0].scaled.services: 'web-9' is no service (is it 'web-",
        ),
        (
            {"services": "batch-0", "replicas": 1},
            "services: 'batch-0' is a job, and only services scale",
        ),
        (
            {"services": "project=search", "times": 2},
            "services: there is no service of 'project=search' at that time",
        ),
        (
            {"services": "zone=a", "times": 2},
            "services: 'zone=a': services are selected by project or namespace",
        ),
        ({"services": "web-0"}, "events[0].scaled: needs replicas or times, and not both"),
        (
            {"services": "web-0", "replica": 1},
            "events[0].scaled.replica: unknown field; is it 'replicas'?",
        ),
        ({"services": "web-0", "replicas": -1}, "events[0].scaled.replicas: "),
        ({"services": "web-0", "times": "nan"}, "events[0].scaled.times: 'nan' is no fraction"),
    ],
)
def test_scalings_of_what_is_not_there_are_errors_with_the_field(
    given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidScenario) as bad:
        loading.inputs(document(None, {"at": "1h", "scaled": given}), Path("s.yaml"), {})

    assert said in str(bad.value)


def test_a_service_that_is_submitted_later_cannot_be_scaled_before() -> None:
    with pytest.raises(InvalidScenario, match="'web-2' is submitted later, at "):
        loading.inputs(
            document(None, {"at": 0, "scaled": {"services": "web-2", "times": 2}}, over="1h"),
            Path("s.yaml"),
            {},
        )


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ({}, "demand.generate[0].curve: needs points or daily, and not both"),
        ({"points": {}}, "demand.generate[0].curve.points: "),
        ({"points": {"noon": 1}}, "demand.generate[0].curve: points: 'noon' is no duration"),
        (
            {"points": {"60s": 1, "1m": 2}},
            "demand.generate[0].curve: points: a time is given twice",
        ),
        ({"points": {"0": 1.5}}, "demand.generate[0].curve.points.0: "),
        (
            {"points": {"1d": 1}, "every": "1d"},
            "demand.generate[0].curve: every: is to be later than all points",
        ),
        ({"daily": {"least": "140%"}}, "demand.generate[0].curve.daily: least: is more than all"),
        (
            {"daily": {"least": 0.5, "step": "1s"}},
            "demand.generate[0].curve.daily.step: is shorter than a minute",
        ),
        (
            {"daily": {"least": 0.5}, "every": "1d"},
            "demand.generate[0].curve: every: goes with points",
        ),
    ],
)
def test_curves_that_make_no_sense_are_errors_with_the_field(
    curve: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidScenario) as bad:
        loading.inputs(document(curve), Path("s.yaml"), {})

    assert said in str(bad.value)


def test_a_job_has_no_curve() -> None:
    with pytest.raises(InvalidScenario, match="curve: only services scale, and kind is job"):
        loading.inputs(document({"points": {"0": 1}}, kind="job"), Path("s.yaml"), {})
