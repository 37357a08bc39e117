"""Reports of simulations: what is listed, what is shown of one, and what is never read."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from federator.dashboard.server import Options
from federator.dashboard.sources import reports
from federator.dashboard.views import simulations
from federator.model.errors import FieldError
from tests.unit.dashboard.asking import LIST, dashboard_of, play, reader
from tests.unit.hub.world import World
from tests.unit.query import asking

FACTS = {
    "name": "lose-a-zone",
    "verdict": "All 876 works started.",
    "figures": {"works": 876, "wait_p99_s": 2697, "use_mean_cpu": 0.6555},
    "use": [{"cluster": "", "resource": "cpu", "mean": 0.5, "peak": 0.99}],
    "happened": [{"atSeconds": 61740, "at": "", "kind": "lost", "subject": "a", "copies": 255}],
    "inputs": {"scenario": "lose-a-zone.yaml", "seed": 3},
}


def write(folder: Path, name: str, facts: Any, at_s: float = 0.0) -> Path:
    (folder / name).mkdir()
    file = folder / name / reports.REPORT
    file.write_text(facts if isinstance(facts, str) else json.dumps(facts))
    os.utime(file, (at_s, at_s))
    return folder / name


def test_reports_are_listed_and_shown_to_readers_of_clusters(tmp_path: Path) -> None:
    write(tmp_path, "old", FACTS, 100.0)
    write(tmp_path, "new", {**FACTS, "name": "growth"}, 200.0)
    answer = {
        "answer": "The fleet runs out on day 16.",
        "tried": [{"choice": "as is", "met": False}],
    }
    (tmp_path / "new" / reports.ANSWER).write_text(json.dumps(answer))

    async def scenario(world: World) -> None:
        await asking.grant(world, "alice", "feed", LIST)
        async with dashboard_of(world, options=Options(simulations=str(tmp_path))) as dashboard:
            admin, alice = await reader(world, dashboard), await reader(world, dashboard, "alice")
            rows = (await admin.json("/simulations"))["rows"]
            assert [(row["name"], row["says"]) for row in rows] == [
                ("new", "The fleet runs out on day 16."),
                ("old", "All 876 works started."),
            ]
            shown = await admin.json("/simulations/old")
            assert {row["name"]: row["value"] for row in shown["figures"]} == {
                "works": "876",
                "wait_p99_s": "2,697 s (44m)",
                "use_mean_cpu": "65.5 %",
            }
            assert shown["use"][0]["peak"] == "99.0 %"
            assert (await admin.json("/simulations/new"))["tried"][0]["choice"] == "as is"
            for path in ("/simulations", "/simulations/old", "/simulations/nope"):
                assert (await alice.get(path)).status == 403, path
            for name in (
                "nope",
                "..%2Fold",
                "..",
                "%2e%2e",
                "old%2Freport.json",
                ".hidden",
                "a%00",
            ):
                assert (await admin.get(f"/simulations/{name}")).status == 404, name

    play(scenario)


def test_without_a_folder_the_page_says_how_to_name_one() -> None:
    async def scenario(world: World) -> None:
        async with dashboard_of(world) as dashboard:
            admin = await reader(world, dashboard)
            assert b"--simulations DIR" in (await admin.get("/simulations")).body
            assert (await admin.get("/simulations/old")).status == 404

    play(scenario)


def test_nothing_outside_of_the_folder_is_read(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside", FACTS)
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "linked").symlink_to(outside)
    inside = write(folder, "inside", FACTS)
    (inside / reports.REPORT).unlink()
    (inside / reports.REPORT).symlink_to(outside / reports.REPORT)
    found, unread = reports.newest(folder)
    assert found == []
    assert len(unread) == 1
    for name in ("linked", "inside", "../outside", "/etc", "..", ""):
        with pytest.raises(reports.Unreadable):
            reports.read(folder, name)


def test_files_that_are_no_report_are_named(tmp_path: Path) -> None:
    write(tmp_path, "broken", "{")
    write(tmp_path, "deep", "[" * 100_000)
    write(tmp_path, "list", [])
    write(tmp_path, "large", f'"{"x" * reports.BYTES_MAX}"')
    (write(tmp_path, "pipe", FACTS) / reports.REPORT).unlink()
    os.mkfifo(tmp_path / "pipe" / reports.REPORT)
    (tmp_path / "empty").mkdir()
    found, unread = reports.newest(tmp_path)
    assert found == []
    assert sorted(line.split()[2] for line in unread) == ["broken", "deep", "large", "list", "pipe"]


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"figures": [], "use": {}, "happened": "x", "inputs": 1, "assumptions": {}},
        {"figures": {"a": None, "wait_s": "NaN", "use_mean_cpu": "x"}, "use": [1, None, {}]},
        {"figures": {"wait_s": 1e308, "use_peak_cpu": 10**400, "works": True}},
    ],
)
def test_a_report_of_any_shape_is_shown(facts: Any) -> None:
    shown = simulations.single(reports.Report("x", 0.0, facts, {"tried": facts}), 10.0)
    assert shown["name"] == "x"


def test_a_folder_that_is_not_there_is_refused() -> None:
    with pytest.raises(FieldError, match="simulations: /nowhere is no folder"):
        Options(simulations="/nowhere").check()
