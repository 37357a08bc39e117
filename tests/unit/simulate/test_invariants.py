"""PlacementInvariants in a simulation: those that refuse bound where copies are placed."""

from pathlib import Path
from typing import Any

import yaml

from federator.model.rules.invariant import Invariant, MaxShare
from tests.unit.simulate.fleets import cluster, inputs_of, lives, nodes, service, simulate
from tests.unit.simulate.test_scenarios import document, read, refused

FLEET = [
    cluster("a", nodes(8), labels={"zone": "a"}),
    cluster("b", nodes(1), labels={"zone": "b"}),
    cluster("c", nodes(1), labels={"zone": "c"}),
]


def copies(**fields: Any) -> dict[str, int]:
    works = [service("web", 0, 20)]
    (life,) = lives(simulate(inputs_of(FLEET, works, end_s=600, **fields))).values()
    return {stay.cluster: stay.copies for stay in life.stays if stay.end_s is None}


def test_no_zone_gets_more_than_an_invariant_allows() -> None:
    assert copies()["a"] > 10
    refuses = Invariant(name="zones", rule=MaxShare("zone", 50), refuses=True)
    assert copies(invariants=(refuses,)) == {"a": 10, "b": 4, "c": 4}


def scenario(percent: int) -> str:
    given = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementInvariant",
        "metadata": {"name": "zones"},
        "spec": {
            "rule": {"maxShare": {"topologyKey": "zone", "percent": percent}},
            "enforcement": "Refuse",
        },
    }
    return yaml.safe_dump({**document(), "invariants": [given]})


def test_a_scenario_names_its_invariants(tmp_path: Path) -> None:
    (invariant,) = read(tmp_path, scenario(50)).invariants
    assert invariant.rule == MaxShare("zone", 50)
    assert invariant.refuses

    (problem,) = refused(tmp_path, scenario(0))
    assert "invariants[0].spec.rule.maxShare.percent" in problem
