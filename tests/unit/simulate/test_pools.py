"""What the reference policies read of a folder, and that the published results come out exactly."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from federator.simulate import reference
from federator.simulate.reference import ReferencePolicy
from federator.simulate.traces import pools
from federator.simulate.traces.problems import TraceError
from tests import casetables
from tests.unit.simulate.test_traces import row, written


def folder(tmp_path: Path, clusters: str, *jobs: str) -> Path:
    (tmp_path / "clusters.csv").write_text(clusters)
    written(tmp_path, *jobs)
    return tmp_path


def test_gpus_count_where_there_are_some(tmp_path: Path) -> None:
    found = pools.read(
        folder(tmp_path, "cluster,nodes,gpus_per_node,gpus\nc1,2,8,16\n", row("a", gpu="4"))
    )

    assert (found.unit, found.capacity, found.jobs[0].units) == ("gpu", {"c1": 16}, 8)


def test_cores_count_elsewhere(tmp_path: Path) -> None:
    found = pools.read(
        folder(tmp_path, "cluster,region,cpu_cores\nc1,de,10\n", row("a", cpu="1500"))
    )

    assert (found.unit, found.capacity, found.jobs[0].units) == ("core", {"c1": 10}, 4)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (row("a", home="c9"), "home_cluster: a has the home 'c9', which is no cluster"),
        (row("a", runtime=""), "runtime_s: a runs to the end; a reference policy needs run times"),
    ],
)
def test_what_a_reference_policy_cannot_run_is_named(
    tmp_path: Path, job: str, expected: str
) -> None:
    with pytest.raises(TraceError, match=expected):
        pools.read(folder(tmp_path, "cluster,cpu_cores\nc1,10\n", job))


@pytest.mark.parametrize("name", ["philly-11-vcs", "lcg-20-sites-6h"])
def test_the_published_results_are_exact(name: str) -> None:
    given = casetables.data(name)
    found = pools.read(given)
    published = json.loads((given / "reference.json").read_text())["results"]

    assert len(published) == 4
    for result in published:
        scale = Fraction(result["capacity_scale"])
        assert (
            reference.run(
                found.jobs, found.capacity, ReferencePolicy(result["policy"]), scale
            ).as_dict()
            == result
        )
