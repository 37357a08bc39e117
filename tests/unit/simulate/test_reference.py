"""The reference policies: small cases worked out by hand, and the published results of the real
traces.
"""

import csv
import gzip
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from federator.simulate import reference
from federator.simulate.reference import ReferenceJob, ReferencePolicy
from tests import casetables

HOME_FIFO, HOME_BACKFILL = ReferencePolicy.HOME_FIFO, ReferencePolicy.HOME_BACKFILL
FED_FIFO, FED_HOME_FIRST = ReferencePolicy.FED_FIFO, ReferencePolicy.FED_HOME_FIRST


def job(submit_s: int, runtime_s: int, units: int, home: str = "a") -> ReferenceJob:
    return ReferenceJob(submit_s, runtime_s, units, home)


BLOCKED = (job(0, 10, 3), job(1, 5, 4), job(2, 2, 1))
"""In a cluster of four: the second waits for the first, and the third would fit beside the first.
"""


@pytest.mark.parametrize(
    ("policy", "wait_sum_s", "last_end_s"),
    [(HOME_FIFO, 9 + 13, 17), (HOME_BACKFILL, 9, 15), (FED_FIFO, 9 + 13, 17)],
)
def test_only_backfilling_starts_what_fits_behind_a_head_that_waits(
    policy: ReferencePolicy, wait_sum_s: int, last_end_s: int
) -> None:
    result = reference.run(BLOCKED, {"a": 4}, policy)

    assert (result.started, result.wait_sum_s, result.last_end_s) == (3, wait_sum_s, last_end_s)


def test_at_one_instant_ends_come_before_submissions_and_those_in_the_order_of_the_trace() -> None:
    # At 10 the first ends and two come: both fit only one after the other, the first of the trace
    # first.
    result = reference.run([job(0, 10, 2), job(10, 4, 2), job(10, 7, 2)], {"a": 2}, HOME_FIFO)

    assert (result.wait_sum_s, result.last_end_s) == (4, 21)


def test_a_job_without_run_time_waits_for_room_and_takes_none() -> None:
    jobs = [job(0, 10, 2), job(1, 0, 2), job(1, 0, 2), job(1, 3, 2)]

    result = reference.run(jobs, {"a": 2}, HOME_FIFO)

    assert (result.started, result.waited, result.wait_sum_s, result.last_end_s) == (4, 3, 27, 13)
    assert result.unit_seconds == 2 * 10 + 2 * 3


def test_a_federation_takes_the_cluster_with_most_free_and_of_equals_the_first_by_name() -> None:
    jobs = [job(0, 10, 1, "c"), job(0, 10, 1, "c"), job(0, 10, 1, "c")]
    capacity = {"c": 1, "b": 2, "a": 2}

    assert reference.run(jobs, capacity, FED_FIFO).started_in_home_cluster == 0
    assert reference.run(jobs, capacity, FED_HOME_FIRST).started_in_home_cluster == 1


def test_jobs_without_a_home_are_for_policies_of_one_queue() -> None:
    jobs, capacity = [job(0, 10, 2, home=""), job(1, 10, 2, home="")], {"a": 2, "b": 1}

    for policy in (FED_FIFO, FED_HOME_FIRST):
        result = reference.run(jobs, capacity, policy)
        assert (result.started, result.wait_sum_s, result.started_in_home_cluster) == (2, 9, 0)
    with pytest.raises(ValueError, match="has no home, and home-fifo needs one"):
        reference.run(jobs, capacity, HOME_FIFO)


@pytest.mark.parametrize(
    ("policy", "rejected"), [(HOME_FIFO, 1), (HOME_BACKFILL, 1), (FED_FIFO, 0)]
)
def test_what_is_too_wide_for_its_home_is_rejected_unless_another_cluster_is_wide_enough(
    policy: ReferencePolicy, rejected: int
) -> None:
    result = reference.run([job(5, 10, 3, "a")], {"a": 2, "b": 3}, policy)

    assert (result.rejected_too_wide, result.started) == (rejected, 1 - rejected)


def test_a_scaled_cluster_keeps_at_least_one_unit() -> None:
    result = reference.run([], {"a": 1, "b": 5}, FED_FIFO, Fraction(1, 2))

    assert (result.capacity_units, result.capacity_scale, result.wait_p99_s) == (3, "1/2", 0)


@pytest.mark.parametrize(
    ("jobs", "capacity", "scale", "says"),
    [
        ([job(0, 1, 1, "x")], {"a": 1}, 1, "the home 'x', which is no cluster"),
        ([job(0, -1, 1)], {"a": 1}, 1, "negative"),
        ([], {}, 1, "no clusters"),
        ([], {"a": 1}, 0, "a positive fraction"),
    ],
)
def test_what_has_no_meaning_is_refused(
    jobs: list[ReferenceJob], capacity: dict[str, int], scale: int, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        reference.run(jobs, capacity, FED_FIFO, Fraction(scale))


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    yield from csv.DictReader(text.decode("utf-8").splitlines())


@pytest.mark.parametrize(
    ("folder", "works", "amount", "a_unit", "of_cluster"),
    [
        ("philly-11-vcs", "workloads.csv.gz", "gpu", 1, "gpus"),
        ("lcg-20-sites-6h", "workloads.csv", "cpu_milli", 1000, "cpu_cores"),
    ],
)
def test_the_published_results_of_real_traces_come_out_to_the_last_figure(
    folder: str, works: str, amount: str, a_unit: int, of_cluster: str
) -> None:
    data = casetables.data(folder)
    jobs = [
        ReferenceJob(
            int(row["submit_s"]),
            int(row["runtime_s"]),
            int(row["shards"]) * int(row[amount]) // a_unit,
            row["home_cluster"],
        )
        for row in rows_of(data / works)
    ]
    capacity = {row["cluster"]: int(row[of_cluster]) for row in rows_of(data / "clusters.csv")}
    published = json.loads((data / "reference.json").read_text("utf-8"))["results"]
    assert {each["policy"] for each in published} == {policy.value for policy in ReferencePolicy}

    for expected in published:
        scale = Fraction(expected["capacity_scale"])
        assert (
            reference.run(jobs, capacity, ReferencePolicy(expected["policy"]), scale).as_dict()
            == expected
        )
