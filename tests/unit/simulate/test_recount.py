"""Every figure of a report agrees with a count of its own (`recount`), for small random scenarios with
and without a warm-up.
"""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federator.model.ask import Tier
from federator.model.resources import Resources
from federator.model.scaleup import NodeClass
from federator.simulate.demand import Failing, Scaling, Work
from federator.simulate.inputs import Event, EventKind, Inputs
from federator.simulate.outcome import FIGURE_KEYS, End
from federator.simulate.report import figures, forms
from federator.simulate.report.measures import Measures, measure
from federator.simulate.report.page import Provenance
from tests.examples import dear_examples
from tests.unit.simulate.fleets import cluster, inputs_of, job, nodes, service, simulate
from tests.unit.simulate.intervals import ByIntervals
from tests.unit.simulate.recount import Wanted, groups, numbers, rows, takes, waiting

END_S = 240
SOURCE = Provenance("1", "s.yaml", "", {})


@st.composite
def works(draw: st.DrawFn, name: str) -> Work:
    fields: dict[str, Any] = {
        "project": draw(st.sampled_from(["ads", "feed", ""])),
        "tier": draw(st.sampled_from(list(Tier))),
        "cpu_milli": draw(st.sampled_from([500, 1000, 3000])),
        "memory_mib": draw(st.sampled_from([512, 4096])),
        "gpu": draw(st.sampled_from([0, 0, 1])),
    }
    submit_s, copies = draw(st.integers(0, 200)), draw(st.integers(1, 5))
    if draw(st.booleans()):
        points = sorted(draw(st.sets(st.integers(submit_s + 1, 230), max_size=2)))
        curve = tuple(Scaling(at_s, draw(st.integers(1, 6))) for at_s in points)
        return service(name, submit_s, copies, curve=curve, **fields)
    if draw(st.integers(0, 3)) == 0:
        fields["failing"] = Failing(draw(st.integers(1, 2)), 5, limit=draw(st.integers(0, 2)))
    if draw(st.booleans()):
        fields["checkpoint_s"] = 7
    return job(name, submit_s, draw(st.integers(1, 90)), copies, **fields)


@st.composite
def scenarios(draw: st.DrawFn) -> Inputs:
    size = st.builds(
        lambda count, gpu: nodes(count, 4000, 16_384, gpu),
        st.integers(1, 2),
        st.sampled_from([0, 2]),
    )
    fleet = [cluster(name, draw(size)) for name in "ab"]
    submitted = [draw(works(f"w{number}")) for number in range(draw(st.integers(1, 8)))]
    events: list[Event] = []
    if draw(st.booleans()):
        lost_s = draw(st.integers(1, 150))
        events.append(Event(lost_s, EventKind.LOST, "a"))
        if draw(st.booleans()):
            events.append(Event(lost_s + draw(st.integers(1, 60)), EventKind.RETURNED, "a"))
    if draw(st.booleans()):
        events.append(
            Event(draw(st.integers(1, 200)), EventKind.ADDED, "c", cluster("c", draw(size)))
        )
    if draw(st.booleans()):
        events.append(
            Event(draw(st.integers(1, 200)), EventKind.GROWN, "b", cluster("b", draw(size)))
        )
    if draw(st.booleans()):
        drained_s = draw(st.integers(1, 200))
        events.append(Event(drained_s, EventKind.DRAINED, draw(st.sampled_from("ab"))))
    return inputs_of(
        fleet,
        submitted,
        *sorted(events, key=lambda event: event.at_s),
        end_s=END_S,
        warm_up_s=draw(st.sampled_from([0, 60, 150])),
        price_per_hour={"a": 3.0, "b": 1.5} if draw(st.booleans()) else {},
    )


def busy() -> Inputs:
    """Something of each figure before and after a warm-up of 100 s."""
    first = job("first", 10, 150, 4)
    second = job("second", 120, 30, 2, gpu=1, failing=Failing(1, 5), checkpoint_s=7)
    third = service("third", 130, 3, curve=(Scaling(160, 6), Scaling(200, 2)))
    large = job("large", 140, 10, 50)
    events = (
        Event(60, EventKind.LOST, "a"),
        Event(90, EventKind.RETURNED, "a"),
        Event(150, EventKind.LOST, "b"),
    )
    fleet = [cluster("a", nodes(1, gpu=2)), cluster("b", nodes(1))]
    return inputs_of(
        fleet,
        [first, second, third, large],
        *events,
        end_s=END_S,
        warm_up_s=100,
        price_per_hour={"a": 2.0, "b": 1.0},
    )


def queue() -> Inputs:
    """150 jobs one after the other, so that all percentiles differ."""
    jobs = [job(f"w{at}", 70, 1, 4, project="ads") for at in range(150)]
    return inputs_of([cluster("a")], jobs, end_s=END_S, warm_up_s=60)


def between_attempts() -> Inputs:
    """A job whose attempt has failed loses its cluster while it waits for the next one."""
    failed = job("w0", 0, 1, 1, failing=Failing(1, 5, limit=1))
    lost = Event(1, EventKind.LOST, "a")
    return inputs_of([cluster("a"), cluster("b")], [failed], lost, end_s=END_S)


def other_nodes_and_drained() -> Inputs:
    """A cluster gets other nodes, which hold its service, and is drained in the same second."""
    events = [
        Event(1, EventKind.GROWN, "b", view=cluster("b")),
        Event(1, EventKind.DRAINED, "b"),
    ]
    works = [service(f"w{at}", 0, 1) for at in range(2)]
    return inputs_of([cluster("a"), cluster("b")], works, *events, end_s=END_S)


def all_in_use() -> Inputs:
    """Services hold the whole of the only cluster left, so that idle time costs 0 but for rounding."""
    works = [service(f"w{at}", 0, copies, cpu_milli=500) for at, copies in enumerate((1, 1, 6))]
    lost = Event(1, EventKind.LOST, "a")
    fleet = [cluster(name, nodes(1, 4000, 16_384)) for name in "ab"]
    prices = {"a": 3.0, "b": 1.5}
    return inputs_of(fleet, works, lost, end_s=END_S, warm_up_s=150, price_per_hour=prices)


def counted(inputs: Inputs) -> tuple[Wanted, Measures]:
    outcome = simulate(inputs)
    return Wanted(inputs, outcome), measure(outcome)


@example(queue())
@example(between_attempts())
@example(other_nodes_and_drained())
@given(scenarios())
@dear_examples()
def test_every_figure_agrees_with_a_count_of_its_own(inputs: Inputs) -> None:
    wanted, measures = counted(inputs)
    expected, found = wanted.figures(), figures.values(measures)

    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == near(key, value), key


@example(busy())
@example(all_in_use())
@given(scenarios())
@dear_examples()
def test_the_count_by_intervals_is_that_of_every_second(inputs: Inputs) -> None:
    outcome = simulate(inputs)
    by_seconds, by_intervals = Wanted(inputs, outcome), ByIntervals(inputs, outcome)

    assert by_intervals.figures() == pytest.approx(by_seconds.figures())
    assert by_intervals.uses() == pytest.approx(by_seconds.uses())
    assert by_intervals.moves() == by_seconds.moves()
    bills = by_intervals.bill(), by_seconds.bill()
    for key in bills[0] | bills[1]:
        # Either count leaves out what costs nothing; the other may have a rounding error there.
        costs = [bill.get(key, 0.0) for bill in bills]
        assert costs[0] == pytest.approx(costs[1], abs=1e-9), key


def near(key: str, value: float) -> Any:
    """Costs are rounded to hundredths, for each cluster; these are of a few minutes. What each work
    holds is rounded down, and the rest counts as idle."""
    if key == "cost_idle":
        return pytest.approx(value, abs=0.2)
    if key.startswith("cost_per"):
        return pytest.approx(value, rel=0.2)
    return pytest.approx(value, abs=0.021 if key.startswith("cost") else 1e-6)


@given(scenarios())
@dear_examples()
def test_the_samples_show_what_copies_hold_and_what_the_fleet_has(inputs: Inputs) -> None:
    outcome = simulate(inputs)
    wanted = Wanted(inputs, outcome)
    for sample in outcome.samples:
        there, held = wanted.nodes(sample.at_s), wanted.held(sample.at_s)
        assert sample.capacity.keys() == there.keys(), sample.at_s
        for name, (_, amounts) in there.items():
            has = held[name] if name in held else dict.fromkeys(amounts, 0)
            assert sample.capacity[name] == tuple(amounts[one] for one in outcome.resources)
            assert sample.used[name] == tuple(has[one] for one in outcome.resources), sample.at_s


@example(queue())
@given(scenarios())
@dear_examples()
def test_tables_and_files_say_the_same_as_the_count(inputs: Inputs) -> None:
    wanted, measures = counted(inputs)
    content = forms.files(measures, SOURCE)
    document = json.loads(content["report.json"])
    for figure, value in wanted.figures().items():
        assert document["figures"][figure] == near(figure, value), figure

    uses = wanted.uses()
    for row in document["use"]:
        key = (row["cluster"], row["resource"])
        used = (row["capacity"], row["mean"], row["peak"], row["peakAmount"])
        assert used == pytest.approx(uses[key]), key
    clusters = {
        (row["cluster"], row["resource"]): numbers(row, "capacity", "mean", "peak", "peak_amount")
        for row in rows(content["clusters.csv"])
    }
    assert clusters == {key: pytest.approx(value) for key, value in uses.items() if key[0]}

    for by in ("project", "tier"):
        found = {row["group"]: row for row in rows(content["waiting.csv"]) if row["by"] == by}
        expected = groups(wanted.lives, by)
        assert found.keys() == expected.keys()
        told = document["waiting"][f"{by}s"]
        for group, lives in expected.items():
            count = waiting(lives)
            given_ = numbers(
                found[group],
                *("works", "never", "waited", "p50_s", "p90_s", "p99_s", "max_s", "sum_s"),
            )
            assert given_ == (len(lives), *count.values()), group
            assert told[group]["neverStarted"] == count["never_started"]
            assert told[group]["p99Seconds"] == count["wait_p99_s"]
            assert told[group]["started"] == len(lives) - count["never_started"]

    lacks = wanted.lacks()
    assert {one["reason"]: one["copySeconds"] for one in document["shortfall"]} == lacks
    assert {one["reason"]: one["works"] for one in document["shortfall"]} == {
        reason: sum(any(wait.reason == reason for wait in life.waits) for life in wanted.lives)
        for reason in lacks
    }
    tables = {headers[0]: table for headers, table in forms.tables(measures)}
    for name, *shown in tables["TIER OR PROJECT"]:
        lives = groups(wanted.lives, "tier").get(name) or groups(wanted.lives, "project")[name]
        count = waiting(lives)
        assert shown[:3] == [
            str(len(lives)),
            str(count["never_started"]),
            str(count["waited"]),
        ]
    assert len(rows(content["works.csv"])) == len(wanted.outcome.lives)
    for row, life in zip(rows(content["works.csv"]), wanted.outcome.lives, strict=True):
        assert (row["id"], row["end"], row["tier"]) == (
            life.work.id,
            life.end.value,
            life.work.tier.value,
        )
        wait = "" if life.start_s is None else str(life.start_s - life.work.submit_s)
        assert (row["wait_s"], row["lost_s"], row["failed_s"]) == (
            wait,
            str(life.lost_s),
            str(life.failed_s),
        )


@given(scenarios())
@dear_examples()
def test_lines_over_time_agree_with_a_count_of_their_own(inputs: Inputs) -> None:
    wanted, measures = counted(inputs)
    assert (
        list(measures.times)
        == [sample.at_s for sample in wanted.outcome.samples if sample.at_s >= wanted.begin_s][
            :: measures.every
        ]
    )
    if measures.every > 1:
        return
    for at, at_s in enumerate(measures.times):
        there, held = wanted.nodes(at_s), wanted.held(at_s)
        for resource, line in measures.capacity.items():
            unit = {"cpu": 1000, "memory": 1024, "gpu": 1}[resource]
            has = sum(amounts[resource] for _, amounts in there.values())
            used = sum(amounts[resource] for amounts in held.values())
            lacking = sum(
                wait.copies * takes(life)[resource]
                for life in wanted.outcome.lives
                for wait in life.waits
                if wait.start_s <= at_s and (wait.end_s is None or at_s < wait.end_s)
            )
            assert line.values[at] == has / unit
            assert measures.used[resource].values[at] == used / unit
            assert measures.demand[resource].values[at] == (used + lacking) / unit
        for line in measures.lacking:
            copies = sum(
                wait.copies
                for life in wanted.outcome.lives
                for wait in life.waits
                if wait.reason == line.name
                and wait.start_s <= at_s
                and (wait.end_s is None or at_s < wait.end_s)
            )
            assert line.values[at] == copies


@example(busy())
@given(scenarios())
@dear_examples()
def test_moves_heat_and_scarcity_over_time_agree_with_a_count_of_their_own(inputs: Inputs) -> None:
    wanted, measures = counted(inputs)
    samples = [one for one in wanted.outcome.samples if one.at_s >= wanted.begin_s]
    times = [one.at_s for one in samples]
    moves = wanted.moves()
    assert sum(measures.moved) == measures.moves == sum(moves.values())
    if measures.every > 1:
        return
    moved = [0] * len(times)
    for at_s, many in moves.items():
        moved[next((at for at, time_s in enumerate(times) if time_s >= at_s), -1)] += many
    assert list(measures.moved) == moved
    for resource, lines in measures.heat.items():
        for line in lines:
            for value, at_s in zip(line.values, times, strict=True):
                there, held = wanted.nodes(at_s), wanted.held(at_s)
                if line.name not in there:
                    assert value == -1
                    continue
                has = there[line.name][1][resource]
                uses = held[line.name][resource] if line.name in held else 0
                assert value == (uses / has if has else 0)
    copies: dict[str, int] = {}
    for now, until_s in zip(samples, [*times[1:], wanted.end_s], strict=True):
        for what, count in now.lacking.items():
            copies[what] = copies.get(what, 0) + sum(count for _ in range(now.at_s, until_s))
    assert {one.what: one.copy_s for one in measures.scarce} == copies


@example(busy(), False)
@given(scenarios(), st.booleans())
@dear_examples()
def test_costs_agree_with_a_count_of_their_own_and_add_up_to_the_cent(
    inputs: Inputs, ends: bool
) -> None:
    priced = dataclasses.replace(
        inputs, price_per_hour={"a": 3.13, "b": 77.7}, end_s=END_S if ends else None
    )
    wanted, measures = counted(priced)
    expected, bill = wanted.bill(), measures.bill

    assert bill.whole / 100 == pytest.approx(wanted.cost(), abs=0.02)
    assert bill.idle / 100 == pytest.approx(expected["", ""], abs=0.05)
    assert sum(bill.works) + bill.idle == bill.whole
    for by in ("cluster", "project", "tier"):
        assert sum(bill.groups[by].values()) == bill.whole, by
        for group, cents in bill.groups[by].items():
            if group != "(idle)":
                assert cents / 100 == pytest.approx(expected[by, group], abs=0.25), (by, group)
    for life, cents in zip(wanted.outcome.lives, bill.works, strict=True):
        assert cents / 100 == pytest.approx(expected["work", life.work.id], abs=0.025)
    shown = {headers[0]: table for headers, table in forms.tables(measures)}["COST BY"]
    for by in ("cluster", "project", "tier"):
        listed = [round(100 * float(cost)) for named, _, cost, _ in shown if named == by]
        assert sum(listed) == bill.whole
        assert listed == sorted(listed, reverse=True)
    table = rows(forms.files(measures, SOURCE)["works.csv"])
    assert sum(round(float(row["cost"]) * 100) for row in table) == sum(bill.works)


def test_every_figure_that_a_scenario_may_name_is_counted_here() -> None:
    grows = (NodeClass("m6i", Resources({"cpu": 4000, "pods": 110}), 1, 1, 770_000),)
    inputs = busy()
    fleet = {
        name: dataclasses.replace(each, scale_up=grows) for name, each in inputs.clusters.items()
    }
    wanted, measures = counted(dataclasses.replace(inputs, clusters=fleet))
    assert set(FIGURE_KEYS) <= wanted.figures().keys() == figures.values(measures).keys()
    assert {end.value.lower() for end in End} <= set(FIGURE_KEYS)


def test_the_warm_up_is_left_out_of_works_and_time() -> None:
    inputs = busy()
    whole, measured = counted(dataclasses.replace(inputs, warm_up_s=0)), counted(inputs)
    assert figures.values(whole[1])["works"] == 4
    assert figures.values(measured[1])["works"] == 3
    for wanted, measures in (whole, measured):
        expected = wanted.figures()
        for key, value in figures.values(measures).items():
            assert value == near(key, expected[key]), key


@example(busy())
@given(scenarios())
@dear_examples()
def test_the_verdict_says_the_figures(inputs: Inputs) -> None:
    wanted, measures = counted(inputs)
    found, said = wanted.figures(), figures.verdict(measures)
    if not found["works"]:
        assert said.startswith("No work was submitted in the measured time")
        return
    never, works = int(found["never_started"]), int(found["works"])
    begins = (
        f"{never} of {works} work"
        if never
        else f"All {works} works started"
        if works > 1
        else "The only work started"
    )
    assert said.startswith(begins)
    waited, started = int(found["waited"]), works - never
    if waited:
        assert f"{waited} of those that started waited ({100 * waited / started:.1f} %)" in said
    means = {one: found[f"use_mean_{one}"] for one in wanted.outcome.resources}
    busiest = max(means, key=lambda one: (means[one], one))
    peak = found[f"use_peak_{busiest}"]
    use = f"{100 * means[busiest]:.1f} % on average, {100 * peak:.1f} % at the peak"
    assert f"{busiest} was in use most ({use})" in said
    failures = int(found["failures"])
    assert (f"{failures} attempt" in said) == bool(failures)
    assert ("restart" in said) == bool(found["restarts"])
