"""Nodes that a cluster can add, as `federator drill` and `federator plan` count them: copies that
need them have a place, and the answer says that they wait.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.files import member, psvc, run, write

ONE_NODE = {"name": "big", "shape": {"cpu": "4", "memory": "16Gi"}, "max": 1, "minutes": 3}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two members of 8 cpus with 5 copies of 1 cpu each; a can add a node of 4 cpus."""
    growing: dict[str, Any] = member("a")
    growing["spec"] = {**growing.get("spec", {}), "scaleUp": [ONE_NODE]}
    growing["status"]["capacity"]["machines"] = {"big": 0}
    fleet = write(tmp_path, "fleet.yaml", growing, member("b"), psvc("web", 10))
    decided = run("place", "-f", fleet, "-o", "yaml")
    assert decided.exit_code == 0, decided.output
    (tmp_path / "decisions.yaml").write_text(decided.stdout, encoding="utf-8")
    return fleet, str(tmp_path / "decisions.yaml")


def test_a_drill_tells_copies_that_wait_for_nodes_from_copies_without_a_place(
    files: tuple[str, str],
) -> None:
    done = run("drill", "-f", files[0], "-f", files[1])

    assert "Without b, 2 copies wait for nodes that clusters add." in done.stdout
    assert "Without a, 2 copies would have no place:" in done.stdout


@pytest.mark.parametrize(("edit", "waits"), [("--lose=b", 2), ("--scale=psvc/web=20", 4)])
def test_a_plan_says_how_many_copies_wait_for_which_nodes(
    files: tuple[str, str], edit: str, waits: int
) -> None:
    dumps = ("--dump", files[0], "--dump", files[1])

    done = run("plan", *dumps, "-n", "feed", "--no-losses", edit)

    assert f"{waits} of them wait in a for 1 more node of big, in about 3 minutes" in done.stdout


def test_a_plan_counts_no_more_nodes_than_the_cluster_can_add(files: tuple[str, str]) -> None:
    dumps = ("--dump", files[0], "--dump", files[1])

    done = run("plan", *dumps, "-n", "feed", "--no-losses", "--scale=psvc/web=24", "-o", "json")

    assert done.exit_code == 11, done.output
    (row,) = json.loads(done.stdout)["workloads"]
    assert (row["after"], row["short"]) == ({"a": 12, "b": 8}, 4)
