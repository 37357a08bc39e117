"""Sweeps: their file, one task for each combination, results that are not made twice, the frontier,
the report.
"""

import csv
import io
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.model.errors import FieldError
from federator.simulate.report import amounts
from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.sweep import frontier, page, plan, running, window
from federator.simulate.sweep.plan import Plan, Task
from federator.simulate.sweep.running import Result

SCENARIO: dict[str, Any] = {
    "name": "small",
    "until": "2h",
    "fleet": {
        "clusters": [
            {"name": "east", "nodes": [{"count": 2, "cpu": 4, "memory": "8Gi"}], "price": 1},
            {"name": "west", "nodes": [{"count": 1, "cpu": 4, "memory": "8Gi"}], "price": 2},
        ]
    },
    "demand": {
        "generate": [
            {
                "name": "batch", "kind": "job", "works": 8, "over": "1h", "tenants": {"ads": 1},
                "shards": {1: 1}, "shard": {"cpu": 2, "memory": "1Gi"},
                "runtime": {"median": "20m", "sigma": 0.5, "longest": "1h"},
            }
        ]
    },
}  # fmt: skip


def written(folder: Path, sweep: dict[str, Any], scenario: dict[str, Any] = SCENARIO) -> Path:
    (folder / "base.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    path = folder / "sweep.yaml"
    path.write_text(
        yaml.safe_dump({"scenario": "base.yaml", **sweep}, sort_keys=False), encoding="utf-8"
    )
    return path


def points(planned: Plan) -> list[dict[str, str]]:
    return [dict(task.point) for task in planned.tasks]


def test_every_combination_is_a_task(tmp_path: Path) -> None:
    planned = plan.read(
        written(tmp_path, {"vary": {"fleet.capacity": {"all": 1, "half": "1/2"}, "seed": [1, 2]}})
    )

    assert points(planned) == [
        {"fleet.capacity": "all", "seed": "1"},
        {"fleet.capacity": "all", "seed": "2"},
        {"fleet.capacity": "half", "seed": "1"},
        {"fleet.capacity": "half", "seed": "2"},
    ]
    assert json.loads(planned.tasks[2].document)["fleet"]["capacity"] == "1/2"
    assert len({task.id for task in planned.tasks}) == 4


def test_a_value_may_set_several_fields(tmp_path: Path) -> None:
    sweep = {"vary": {".": {"short": {"until": "1h", "warmUp": "10m"}, "long": {"until": "4h"}}}}

    planned = plan.read(written(tmp_path, sweep))

    assert [json.loads(task.document)["until"] for task in planned.tasks] == ["1h", "4h"]
    assert points(planned) == [{".": "short"}, {".": "long"}]


def test_a_sample_is_the_same_every_time_and_has_no_doubles(tmp_path: Path) -> None:
    sweep = {"vary": {"seed": list(range(50)), "fleet.capacity": ["1/2", 1]}, "sample": 30}

    first = plan.read(written(tmp_path, sweep))
    other = plan.read(written(tmp_path, {**sweep, "sampleSeed": 1}))

    assert first == plan.read(written(tmp_path, sweep))
    assert len({task.id for task in first.tasks}) == 30
    assert first != other
    grid = points(plan.read(written(tmp_path, {"vary": sweep["vary"]})))
    assert [one for one in grid if one in points(first)] == points(first), (
        "in the order of the grid"
    )


def test_the_digest_of_a_task_is_of_all_it_depends_on(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("[]", encoding="utf-8")
    scenario = {**SCENARIO, "policies": [{"file": "rules.yaml"}]}
    path = written(tmp_path, {"vary": {"seed": [1]}}, scenario)
    before = plan.read(path).tasks[0].id

    assert plan.read(path).tasks[0].id == before
    rules.write_text("[ ]", encoding="utf-8")
    assert plan.read(path).tasks[0].id != before, "a file that the scenario names has changed"
    rules.write_text("[]", encoding="utf-8")
    assert (
        plan.read(written(tmp_path, {"vary": {"seed": [1]}}, {**scenario, "until": "3h"}))
        .tasks[0]
        .id
        != before
    )


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"vary": {"seed": [1]}, "smaple": 3}, "smaple"),
        ({"vary": {}}, "vary"),
        ({"vary": {"seed": []}}, "vary.seed: needs one value at least"),
        ({"vary": {"fleet.capcity": [1]}}, "capcity"),
        ({"vary": {"fleet.capacity": ["lots"]}}, "fleet.capacity=lots"),
        ({"vary": {"seed": [1]}, "sample": 0}, "sample"),
        (
            {"vary": {"seed": list(range(400)), "a": list(range(400))}},
            "makes 160,000 simulations; at most 100,000",
        ),
        ({"vary": {".": [3]}}, "each value is a mapping of fields"),
    ],
)
def test_what_a_sweep_cannot_be_is_told_with_the_field(
    tmp_path: Path, sweep: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidScenario, match=r"^/") as bad:
        plan.read(written(tmp_path, sweep))

    assert said in str(bad.value)


def _here(tasks: Sequence[Task]) -> Iterator[Result]:
    return map(running.simulated, tasks)


def _counted(runs: list[str]) -> running.Runner:
    def runner(tasks: Sequence[Task]) -> Iterator[Result]:
        for task in tasks:
            runs.append(task.id)
            yield running.simulated(task)

    return runner


def test_what_is_done_is_not_run_again_and_half_a_file_is_not_done(tmp_path: Path) -> None:
    planned = plan.read(written(tmp_path, {"vary": {"seed": [1, 2, 3, 4]}}))
    out = tmp_path / "out"
    whole, failures = running.run(out, planned.tasks, _here, lambda *_: None)
    assert failures == []
    files = sorted((out / running.RESULTS).iterdir())
    assert len(files) == 4
    files[0].unlink()
    files[1].write_text(files[1].read_text(encoding="utf-8")[:40], encoding="utf-8")
    runs: list[str] = []

    again, _ = running.run(out, planned.tasks, _counted(runs), lambda *_: None)

    assert sorted(runs) == sorted(one.stem for one in files[:2])
    assert again == whole
    made = [
        page.files(planned, frontier.summarize(planned, results), results)
        for results in (whole, again)
    ]
    assert made[0] == made[1]


def test_a_run_that_fails_is_told_and_tried_again(tmp_path: Path) -> None:
    scenario = {**SCENARIO, "events": [{"at": "1h", "lost": "nowhere"}]}
    planned = plan.read(written(tmp_path, {"vary": {"seed": [1]}}, scenario))

    results, failures = running.run(tmp_path / "out", planned.tasks, _here, lambda *_: None)

    assert results == {}
    assert "nowhere" in failures[0]["error"]
    assert list((tmp_path / "out" / running.RESULTS).iterdir()) == []


def test_the_frontier_is_what_none_beats() -> None:
    dice = random.Random(1)
    cloud = [tuple(float(dice.randrange(8)) for _ in range(3)) for _ in range(300)]

    best = frontier.frontier(cloud)

    def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))

    assert best == {
        at for at, one in enumerate(cloud) if not any(beats(other, one) for other in cloud)
    }
    assert frontier.frontier([]) == set()


def test_moves_decide_among_equals_only() -> None:
    """A fleet that starts nothing moves nothing."""
    points = [(1.0, 9.0, 5.0), (1.0, 9.0, 4.0), (2.0, 3.0, 0.0), (3.0, 3.0, 0.0), (1.0, 9.5, 0.0)]
    assert frontier.unbeaten(points) == {1, 2}


def _summary(
    tmp_path: Path, vary: dict[str, Any], figures: Sequence[tuple[float, float]]
) -> frontier.Summary:
    """Of combinations in their order, each with its cost and what was missing."""
    planned = plan.read(written(tmp_path, {"vary": vary}))
    results = {
        task.id: {
            "measured": "",
            "figures": {
                "cost": cost,
                "missing_copy_s": 3600 * missing,
                "moves": 0,
                "never_started": 0,
                "wait_p99_s": 0,
            },
        }
        for task, (cost, missing) in zip(planned.tasks, figures, strict=True)
    }
    return frontier.summarize(planned, results)


def test_choices_are_compared_under_the_same_question(tmp_path: Path) -> None:
    """Less demand waits less in every fleet, and makes no fleet better."""
    vary = {"demand.scale": [1, 2], "fleet.capacity": {"whole": 1, "half": "1/2"}}

    summary = _summary(tmp_path, vary, [(4, 0), (2, 0), (4, 10), (2, 50)])

    assert [(group.title, group.best) for group in summary.groups] == [
        ("demand.scale=1, fleet.capacity=half", True),
        ("demand.scale=1, fleet.capacity=whole", False),
        ("demand.scale=2, fleet.capacity=whole", True),
        ("demand.scale=2, fleet.capacity=half", True),
    ]
    assert page.verdict(summary) == (
        "4 simulations of 4 combinations, under 2 questions: under all of them no other choice beats"
        " fleet.capacity=half."
    )


def test_a_sweep_over_questions_alone_has_no_choice(tmp_path: Path) -> None:
    summary = _summary(tmp_path, {"demand.scale": [1, 2], "seed": [1]}, [(4, 0), (4, 10)])

    assert [group.best for group in summary.groups] == [True, True]
    assert page.verdict(summary) == (
        "2 simulations of 2 combinations, under 2 questions: most is missing under demand.scale=2"
        " (10 copy-hours). Nothing was varied that can be chosen: vary fleet, policies or quotas."
    )


@pytest.mark.parametrize(
    ("vary", "questions"),
    [
        (
            {"demand.generate[0].works": [1, 2], "events": [[]]},
            {"demand.generate[0].works", "events"},
        ),
        ({"quotas": [[]], "policies": [[]], "until": ["2h"]}, {"until"}),
        ({".": {"calm": {"demand.scale": 1, "events": []}}}, {"."}),
        ({".": {"calm": {"demand.scale": 1, "fleet.capacity": 1}}}, set()),
    ],
)
def test_demand_and_failures_are_questions_and_the_rest_is_chosen(
    tmp_path: Path, vary: dict[str, Any], questions: set[str]
) -> None:
    assert plan.read(written(tmp_path, {"vary": vary})).questions == questions


def test_combinations_are_averaged_over_seeds(tmp_path: Path) -> None:
    planned = plan.read(written(tmp_path, {"vary": {"fleet.capacity": [1, "1/2"], "seed": [1, 2]}}))
    waits = itertools.cycle([10.0, 30.0])
    results = {
        task.id: {
            "measured": "",
            "figures": {
                "cost": 4.0,
                "missing_copy_s": next(waits),
                "moves": 0,
                "never_started": 0,
                "wait_p99_s": 1,
            },
        }
        for task in planned.tasks
    }

    summary = frontier.summarize(planned, results)

    assert summary.axes == ("cost", "missing_copy_s", "moves")
    assert [
        (group.title, group.seeds, group.figures["missing_copy_s"]) for group in summary.groups
    ] == [
        ("fleet.capacity=1", 2, 20.0),
        ("fleet.capacity=1/2", 2, 20.0),
    ]
    assert (
        summary.groups[0].least["missing_copy_s"],
        summary.groups[0].most["missing_copy_s"],
    ) == (
        10.0,
        30.0,
    )


def _spanned(tasks: Sequence[Task]) -> Iterator[Result]:
    return map(running.spanned, tasks)


def test_demands_that_end_at_different_times_are_measured_over_one(tmp_path: Path) -> None:
    scenario = {key: value for key, value in SCENARIO.items() if key != "until"}
    vary = {"fleet.capacity": {"all": 1, "same": "100%"}, "seed": [1, 2, 3], "demand.scale": [1, 2]}
    alone = plan.read(written(tmp_path, {"vary": vary}, scenario))
    read: list[str] = []

    def spans(tasks: Sequence[Task]) -> Iterator[Result]:
        read.extend(task.id for task in tasks)
        return _spanned(tasks)

    planned = window.of_sweep(alone, spans)

    assert len(read) == 6, "choices do not change the time of a demand"
    costs = {task.id: running.simulated(task)["figures"]["cost"] for task in alone.tasks}
    assert len(set(costs.values())) > 1
    results = {task.id: running.simulated(task) for task in planned.tasks}
    assert len({result["figures"]["cost"] for result in results.values()}) == 1
    (said,) = frontier.summarize(planned, results).measured
    ends = [running.spanned(task)["window"][1] for task in alone.tasks]
    assert said == f"Means and cost are of the time from 0 s to {amounts.length(min(ends))}."
    assert said in page.render(frontier.summarize(planned, results))
    kept = {task.id for task in alone.tasks} & results.keys()
    assert len(kept) == sum(end == min(ends) for end in ends), "the others have another digest"


def test_a_varied_end_is_a_time_of_its_own_and_said(tmp_path: Path) -> None:
    planned = plan.read(written(tmp_path, {"vary": {"until": ["1h", "2h"]}}))

    assert window.of_sweep(planned, lambda _: pytest.fail("nothing is to be read")) == planned
    results = {task.id: running.simulated(task) for task in planned.tasks}
    assert frontier.summarize(planned, results).measured == (
        "Means and cost are of the time from 0 s to 1 h.",
        "Means and cost are of the time from 0 s to 2 h.",
    )


def test_simulations_without_a_time_in_common_are_no_sweep(tmp_path: Path) -> None:
    scenario = {key: value for key, value in SCENARIO.items() if key != "until"}
    scenario["warmUp"] = "100m"
    short = {**SCENARIO["demand"]["generate"][0], "over": "1m", "runtime": {"median": "1m"}}
    vary = {"demand.generate": {"long": SCENARIO["demand"]["generate"], "short": [short]}}
    planned = plan.read(written(tmp_path, {"vary": vary}, scenario))

    with pytest.raises(FieldError, match="vary: some simulations have no time in common"):
        window.of_sweep(planned, _spanned)


def test_a_cell_of_runs_csv_never_begins_as_a_formula(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://evil.example/","open")'
    planned = plan.read(
        written(tmp_path, {"vary": {"fleet.capacity": {formula: 1, "half": "1/2"}}})
    )
    figures = {"missing_copy_s": -1.5, "moves": 0, "never_started": 0, "wait_p99_s": 1}
    results = {
        task.id: {"measured": "", "figures": {"cost": 4.0, **figures}} for task in planned.tasks
    }

    made = page.files(planned, frontier.summarize(planned, results), results)["runs.csv"]

    header, first, second = csv.reader(io.StringIO(made.decode()))
    assert (first[0], second[0]) == (f"'{formula}", "half")
    assert first[header.index("missing_copy_s")] == "-1.5"


def test_without_prices_capacity_stands_for_cost(tmp_path: Path) -> None:
    scenario = json.loads(json.dumps(SCENARIO))
    for cluster in scenario["fleet"]["clusters"]:
        del cluster["price"]
    planned = plan.read(written(tmp_path, {"vary": {"fleet.capacity": [1, "1/2"]}}, scenario))
    results, _ = running.run(tmp_path / "out", planned.tasks, _here, lambda *_: None)

    summary = frontier.summarize(planned, results)

    assert summary.axes == ("capacity_cpu", "missing_copy_s", "moves")
    assert {group.title: group.figures["capacity_cpu"] for group in summary.groups} == {
        "fleet.capacity=1": 12.0,
        "fleet.capacity=1/2": 6.0,
    }
    assert "2 simulations of 2 combinations" in page.verdict(summary)


def test_names_that_try_to_run_are_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    planned = plan.read(
        written(tmp_path, {"vary": {"seed": [1], "fleet.capacity": {hostile: 1}}, "name": hostile})
    )
    results, _ = running.run(tmp_path / "out", planned.tasks, _here, lambda *_: None)

    text = page.render(frontier.summarize(planned, results))

    assert "<script" not in text
    assert "&lt;script&gt;" in text
