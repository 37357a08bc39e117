"""Measures that a scenario names: they are in every form of the report, and decide the verdict and
the exit code.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from federator.cli.planning.simulate import simulate as command
from federator.simulate.report import figures, forms
from federator.simulate.report.measures import measure
from federator.simulate.report.page import Provenance
from federator.simulate.scenario import loading
from federator.simulate.scenario.loading import InvalidScenario
from tests.unit.simulate.fleets import simulate


def document(**measures: Any) -> dict[str, Any]:
    stream = {
        "works": 40, "over": "1h", "tenants": {"ads": 1, "feed": 1}, "shard": {"cpu": 4},
        "runtime": {"median": "30m", "sigma": 0},
    }  # fmt: skip
    fleet = {"clusters": [{"name": "a", "nodes": [{"count": 2, "cpu": 16}]}]}
    return {"fleet": fleet, "demand": {"generate": [stream]}, "measures": measures}


def test_measures_within_their_bounds_are_met_and_told_in_every_form() -> None:
    given = {
        "wait_max_s": {"most": "10h"},
        "ads": {"figure": "wait_p50_s", "project": "ads", "most": "9h"},
        "busy": {"figure": "use_peak_cpu", "least": "50%"},
        "works": {},
    }
    measures = measure(simulate(loading.inputs(document(**given), Path("s.yaml"), {})))

    assert figures.missed(measures) == ()
    assert figures.verdict(measures).startswith("All 3 measures are met: All 40 works started; ")
    source = Provenance("1", "s.yaml", "", {})
    told = forms.document(measures, source)["measures"]
    assert [(one["name"], one["figure"], one["met"]) for one in told] == [
        ("wait_max_s", "wait_max_s", True), ("ads", "wait_p50_s", True), ("busy", "use_peak_cpu", True),
        ("works", "works", True),
    ]  # fmt: skip
    assert (told[0]["most"], told[2]["least"], told[3]["value"]) == (36_000, 0.5, 40)
    by_project = {one.group: one.p50_s for one in measures.by_project}
    assert told[1]["value"] == by_project["ads"]
    headers, rows = forms.tables(measures)[0]
    assert headers == ["MEASURE", "VALUE", "WANTED", "MET"]
    assert rows[2] == ["busy", "100.0 %", "at least 50.0 %", "yes"]
    assert (
        "Measures that the scenario names" in forms.files(measures, source)["report.html"].decode()
    )


def test_a_measure_that_is_missed_decides_verdict_and_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(document(wait_max_s={"most": "1m"}, works={"least": 10})))

    ran = CliRunner().invoke(
        command, [str(path), "-q", "-o", "json", "--out", str(tmp_path / "out")]
    )

    assert ran.exit_code == 3
    found = json.loads(ran.stdout)
    assert found["verdict"].startswith("1 of 2 measures missed (wait_max_s is ")
    assert ", at most 1 min is wanted): All 40 works started" in found["verdict"]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["measures"][0]["met"] is False
    path.write_text(yaml.safe_dump(document(works={"least": 10})))
    assert CliRunner().invoke(command, [str(path), "-q"]).exit_code == 0


def test_what_cannot_be_measured_misses_its_bound() -> None:
    given = document(
        gpus={"figure": "use_mean_gpu", "least": "1%"},
        reserved={"figure": "waited", "tier": "Reserved"},
    )
    measures = measure(simulate(loading.inputs(given, Path("s.yaml"), {})))

    assert [(one.wanted.name, one.shown, one.met) for one in figures.judged(measures)] == [
        ("gpus", "nothing", False), ("reserved", "nothing", True),
    ]  # fmt: skip


def test_every_figure_of_a_report_can_be_named() -> None:
    given = document() | {"measures": {}}
    given["fleet"]["clusters"][0]["price"] = 2
    measures = measure(simulate(loading.inputs(given, Path("s.yaml"), {})))

    for one in figures.figures(measures):
        if not one.key.startswith("capacity_"):
            loading.inputs(given | {"measures": {one.key: {}}}, Path("s.yaml"), {})


@pytest.mark.parametrize(
    ("measures", "said"),
    [
        (
            {"wait_p98_s": {"most": "1h"}},
            "measures.wait_p98_s: there is no figure 'wait_p98_s' (is it 'wait_p9",
        ),
        ({"slow": {"figure": "wait"}}, "measures.slow.figure: there is no figure 'wait'"),
        ({"cost": {"most": 5}}, "measures.cost: nothing costs anything: the fleet has no prices"),
        (
            {"moves": {"project": "ads"}},
            "measures.moves: moves is of the whole fleet; by project or tier are ",
        ),
        (
            {"waited": {"project": "adds"}},
            "measures.waited.project: no work is of 'adds' (is it 'ads'?)",
        ),
        (
            {"waited": {"project": "ads", "tier": "Reserved"}},
            "measures.waited: is by project or by tier, and not by",
        ),
        ({"wait_p99_s": {"most": "soon"}}, "measures.wait_p99_s.most: 'soon' is no duration"),
        ({"moves": {"most": "nan"}}, "measures.moves.most: 'nan' is no fraction"),
        ({"moves": {"most": 1, "least": 2}}, "measures.moves.least: is more than most"),
        ({"moves": {"max": 1}}, "measures.moves.max: unknown field"),
    ],
)
def test_measures_that_make_no_sense_are_errors_with_the_field(
    measures: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidScenario) as bad:
        loading.inputs(document(**measures), Path("s.yaml"), {})

    assert said in str(bad.value)
