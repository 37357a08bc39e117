"""Chance is drawn by seed and name: the order in which a scenario is written changes nothing, and a
point of a sweep is the simulation of the same file and seed.
"""

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from federator.simulate.engine import run
from federator.simulate.report import figures
from federator.simulate.report.measures import measure
from federator.simulate.scenario import loading
from federator.simulate.sweep import plan, running
from tests.examples import dear_examples
from tests.house.sources import ROOT

FOLDER = ROOT / "simulations"
SHIPPED = sorted(path.name for path in FOLDER.glob("*.yaml") if path.name != "philly.yaml")


def shuffled(value: Any, dice: random.Random) -> Any:
    """The same value with the keys of each mapping in another order."""
    if isinstance(value, Mapping):
        keys = list(value)
        dice.shuffle(keys)
        return {key: shuffled(value[key], dice) for key in keys}
    return [shuffled(item, dice) for item in value] if isinstance(value, list) else value


def weights(*names: str) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from(names), st.integers(1, 9), min_size=1)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A small scenario in which everything that can be drawn is drawn."""
    streams = [
        {
            "name": name,
            "kind": "job",
            "works": draw(st.integers(1, 12)),
            "over": "2h",
            "tenants": draw(weights("ads", "feed", "core", "lab")),
            "shards": draw(weights("1", "2", "4")),
            "tiers": draw(weights("Reserved", "OnDemand", "Preemptible")),
            "gpuModels": draw(weights("any", "A100", "A100|T4")),
            "shard": {"cpu": 1, "memory": "1Gi"},
            "runtime": {"median": "20m", "sigma": 1.0},
            "failures": {"share": 0.5, "times": draw(weights("1", "2", "3"))},
        }
        for name in draw(st.permutations(["batch", "train"]))
    ]
    node = {"count": 1, "cpu": 8, "memory": "32Gi", "gpus": {"count": 2, "model": "A100"}}
    fleet = {"clusters": draw(st.integers(1, 4)), "least": 1, "most": 9, "node": node, "price": 2}
    return {
        "seed": draw(st.integers(0, 9)),
        "warmUp": "10m",
        "fleet": {"generate": fleet},
        "demand": {"generate": streams},
    }


@given(documents(), st.randoms(use_true_random=False))
@dear_examples()
def test_the_order_of_keys_changes_nothing(document: dict[str, Any], dice: random.Random) -> None:
    path = Path("s.yaml")
    given = loading.inputs(document, path, {})
    for _ in range(3):
        assert loading.inputs(shuffled(document, dice), path, {}) == given


@pytest.mark.parametrize("name", SHIPPED)
def test_the_order_of_keys_changes_no_shipped_scenario(name: str) -> None:
    path = FOLDER / name
    document = loading.document(path)
    given = loading.inputs(document, path, {})

    assert loading.inputs(shuffled(document, random.Random(name)), path, {}) == given


@given(documents())
@dear_examples()
def test_a_stream_is_drawn_by_its_name_and_not_by_its_place(document: dict[str, Any]) -> None:
    streams = document["demand"]["generate"]
    alone = {**document, "demand": {"generate": streams[1:]}}
    path, first = Path("s.yaml"), streams[0]["name"]

    both = [work for work in loading.inputs(document, path, {}).works if first not in work.id]

    assert tuple(both) == loading.inputs(alone, path, {}).works


@pytest.mark.parametrize("name", SHIPPED)
def test_a_sweep_of_a_shipped_scenario_simulates_the_same_inputs(name: str, tmp_path: Path) -> None:
    path, seed = FOLDER / name, loading.document(FOLDER / name)["seed"]
    (task,) = _swept(tmp_path, path, [seed])

    of_sweep = loading.inputs(yaml.safe_load(task.document), Path(task.file), os.environ)

    assert of_sweep == loading.inputs(loading.document(path), path, os.environ)


@given(document=documents(), seeds=st.sets(st.integers(0, 99), min_size=1, max_size=3))
@dear_examples()
def test_a_point_of_a_sweep_is_the_simulation(
    document: dict[str, Any], seeds: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("sweep")
    path = folder / "base.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    for task in _swept(folder, path, sorted(seeds)):
        result = running.simulated(task)
        changed = {**loading.document(path), "seed": int(dict(task.point)["seed"])}
        measures = measure(run.run(loading.inputs(changed, path, {})))

        assert result["figures"] == figures.values(measures)
        assert result["verdict"] == figures.verdict(measures)


def _swept(folder: Path, scenario: Path, seeds: list[int]) -> tuple[plan.Task, ...]:
    path = folder / "sweep.yaml"
    sweep = {"scenario": str(scenario), "vary": {"seed": seeds}}
    path.write_text(yaml.safe_dump(sweep), encoding="utf-8")
    return plan.read(path).tasks
