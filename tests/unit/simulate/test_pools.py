"""What the reference policies read of a folder, and that the published results come out exactly."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from federator.simulate import reference
from federator.simulate.reference import ReferencePolicy
from federator.simulate.traces import loading, pools
from federator.simulate.traces.problems import TraceError
from tests import casetables
from tests.unit.simulate.test_traces import LENIENT, row, written


def folder(tmp_path: Path, clusters: str, *jobs: str) -> Path:
    (tmp_path / "clusters.csv").write_text(clusters)
    written(tmp_path, *jobs)
    return tmp_path


def test_gpus_count_where_there_are_some(tmp_path: Path) -> None:
    found = pools.read(
        folder(tmp_path, "cluster,nodes,gpus_per_node,gpus\nc1,2,8,16\n", row("a", gpu="4")),
        ReferencePolicy.FED_FIFO,
    )

    assert (found.unit, found.capacity, found.jobs[0].units) == ("gpu", {"c1": 16}, 8)


def test_cores_count_elsewhere(tmp_path: Path) -> None:
    found = pools.read(
        folder(tmp_path, "cluster,region,cpu_cores\nc1,de,10\n", row("a", cpu="1500")),
        ReferencePolicy.FED_FIFO,
    )

    assert (found.unit, found.capacity, found.jobs[0].units) == ("core", {"c1": 10}, 4)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (row("b", home="c9"), "home_cluster: b has the home 'c9', which is no cluster"),
        (row("b", runtime=""), "runtime_s: b runs to the end; a reference policy needs run times"),
        (row("b", home=""), "home_cluster: b has no home, and home-fifo needs one"),
    ],
)
def test_what_a_reference_policy_cannot_run_is_named_by_file_row_and_field(
    tmp_path: Path, job: str, expected: str
) -> None:
    given = folder(tmp_path, "cluster,cpu_cores\nc1,10\n", row("a"), row("c"), job)

    with pytest.raises(TraceError, match=f"^workloads.csv: row 4: {expected}$"):
        pools.read(given, ReferencePolicy.HOME_FIFO)


def test_a_job_without_a_home_runs_where_no_policy_needs_one(tmp_path: Path) -> None:
    given = folder(tmp_path, "cluster,cpu_cores\nc1,10\n", row("a", home=""))

    assert pools.read(given, ReferencePolicy.FED_FIFO).jobs[0].home == ""


def test_the_row_of_a_job_of_swf_is_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.swf"
    line = "{} {} 0 60 2 -1 -1 2 60 -1 1 1 1 1 1 1 -1 -1"
    path.write_text("\n".join(["; MaxProcs: 4", line.format(1, 9), "", line.format(2, 3)]))

    assert loading.demand(path, LENIENT).rows == [4, 2]


@pytest.mark.parametrize("name", ["philly-11-vcs", "lcg-20-sites-6h"])
def test_the_published_results_are_exact(name: str) -> None:
    given = casetables.data(name)
    found = pools.read(given, ReferencePolicy.HOME_FIFO)
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
