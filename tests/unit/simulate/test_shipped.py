"""The scenarios that are shipped: each adds up, and shows what it is there for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from federator.simulate.engine import run
from federator.simulate.inputs import Inputs
from federator.simulate.outcome import SimulationResult
from federator.simulate.report.measures import measure
from federator.simulate.scenario import loading
from tests.house.sources import ROOT
from tests.unit.simulate import conservation, intervals
from tests.unit.simulate.intervals import ByIntervals

FOLDER = ROOT / "simulations"
SHIPPED = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "philly.yaml")


LENGTHS = {"demand-growth.yaml": "15d"}
"""Where the first week is not the one that is of interest."""


def played(name: str, **changes: Any) -> tuple[Inputs, SimulationResult]:
    """The inputs and outcome of the first days, after everything in it was found to add up."""
    path: Path = FOLDER / name
    until = LENGTHS.get(name, "7d")
    document: Mapping[str, Any] = {**loading.document(path), "until": until, **changes}
    inputs = loading.inputs(dict(document), path, {})
    outcome = run.run(inputs)
    assert conservation.broken(inputs, outcome) == []
    return inputs, outcome


@pytest.mark.parametrize("name", SHIPPED)
def test_everything_adds_up(name: str) -> None:
    inputs, outcome = played(name)

    assert len(outcome.lives) > 100
    assert any(life.waits for life in outcome.lives)
    measures = measure(outcome)
    lost = sum(event.copies for event in outcome.happened if event.at_s >= measures.begin_s)
    gone = sum(
        stay.copies
        for life in outcome.lives
        for stay in life.stays
        if stay.end_s is not None and stay.end_s != life.end_s
    )
    assert measures.displaced == lost
    assert sum(measures.moved) == measures.moves <= gone - lost
    assert all(use.mean <= use.peak <= 1 for use in (*measures.fleet, *measures.clusters))
    bill = measures.bill
    assert bill.whole == sum((outcome.costs or {}).values())
    assert bill.whole == sum(bill.works) + bill.idle
    assert all(sum(groups.values()) == bill.whole for groups in bill.groups.values())
    intervals.compare(ByIntervals(inputs, outcome), measures)


def test_the_rehearsal_of_quotas_lends_and_takes_back() -> None:
    _, outcome = played("quota-rehearsal.yaml")

    made_way = [life for life in outcome.lives if life.preempted]
    assert len(made_way) > 3
    assert any(wait.reason == "Preempted" for life in made_way for wait in life.waits)
