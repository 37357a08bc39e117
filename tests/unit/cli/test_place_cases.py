"""`federator place` on a folder of files from outside: which copies go where, and the exit code."""

from pathlib import Path

import pytest

from tests import casetables
from tests.unit.cli.files import items, run

EXPECTED = {
    "1-maxclusters": ({"*": 1}, 3),
    "1b-minper": ({}, 3),
    "2-floor": ({"a1": 5, "a2": 5, "b1": 5}, 0),
    "3-weights": ({"a": 10, "b": 10}, 0),
    "3b-weights-jobs": ({"a": 10, "b": 10}, 0),
    "4-mindomains": ({"a": 1}, 3),
    "5-pack-groups": ({"onprem": 20, "cloud": 30}, 0),
    "5b-capacity-groups": ({"onprem": 20, "cloud": 30}, 0),
    "6-pods0": ({}, 3),
    "7-soft-spread-maxclusters": ({"a": 100, "b": 100}, 0),
    "8-prefer-maxclusters": ({"big": 50}, 0),
    "8b-groups-maxclusters": ({"big": 50}, 0),
    "9-sticky-maxclusters": ({"big": 50}, 0),
    "10-requireall-maxclusters": ({"a": 55, "b": 55}, 0),
    "11-min-and-room": ({"*": 20}, 3),
    "12-min-exact": ({"*": 14}, 3),
    "13-hard-cap-domain": ({"a": 2, "b": 7}, 3),
    "14-full-domain": ({"b": 5}, 3),
    "15-mindomains-2": ({"a": 1, "b": 1}, 0),
    "15-mindomains-3": ({"a": 1, "b": 1}, 3),
}
"""Copies by cluster, or their sum under `*` where any cluster will do; the exit code."""


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_file_is_placed_as_its_table_says(name: str) -> None:
    path = next(iter(casetables.files("place_repro", f"{name}.yaml")), None)
    if path is None:
        pytest.skip(
            f"{name}.yaml is not there; set FEDERATOR_CASES to the folder that holds place_repro"
        )
    placed, code = _placed(path)
    wanted, expected_code = EXPECTED[name]
    assert ({"*": sum(placed.values())} if "*" in wanted else placed) == wanted
    assert code == expected_code


def test_no_file_is_without_its_row() -> None:
    assert {path.stem for path in casetables.files("place_repro", "*.yaml")} <= EXPECTED.keys()


def _placed(path: Path) -> tuple[dict[str, int], int]:
    done = run("place", "-f", str(path), "-o", "json")
    (decision,) = items(done.stdout)
    shares = decision["spec"]["shares"]
    return {
        share["cluster"]: share.get("replicas", share.get("slots")) for share in shares
    }, done.exit_code
