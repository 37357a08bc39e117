"""docs/reference/results.md lists every figure and every column of the CSV files, and no other."""

import re

import pytest

from federator.simulate.outcome import FIGURE_KEYS
from federator.simulate.report import forms, measures
from federator.simulate.report.page import Provenance
from tests.house.sources import ROOT
from tests.unit.simulate.report import outcomes

PAGE = (ROOT / "docs/reference/results.md").read_text(encoding="utf-8")
FILES = forms.files(measures.measure(outcomes.drawn(works=20)), Provenance("1"))


def listed(heading: str) -> list[str]:
    """The names in the first column of the table of a section."""
    (section,) = (part for part in PAGE.split("\n## ") if part.startswith(f"{heading}\n"))
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_figure_is_listed_once() -> None:
    found = listed("Figures")

    capacities = {f"capacity_{resource}" for resource in ("cpu", "memory", "gpu")}
    assert len(found) == len(set(found))
    assert set(found) == set(FIGURE_KEYS) | capacities


@pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith(".csv")))
def test_every_column_is_listed_in_its_order(name: str) -> None:
    assert listed(name) == FILES[name].decode().splitlines()[0].split(",")
