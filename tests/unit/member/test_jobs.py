"""Which shards Jobs have finished, and which still need one."""

from typing import Any

from federator.member.cache import jobs
from federator.member.cache.rows import NativeRow, native_row


def job(low: int, high: int, **status: Any) -> NativeRow:
    return native_row(
        "Job",
        {
            "metadata": {
                "name": f"j-{low}",
                "uid": "u",
                "annotations": {"pinterest.com/shards": f"{low}-{high}"},
            },
            "spec": {"completions": high - low + 1},
            "status": status,
        },
    )


def test_indexes_become_shards() -> None:
    assert jobs.completed(job(100, 199, completedIndexes="0-3,7")) == ((100, 103), (107, 107))


def test_indexes_beyond_the_job_are_not_believed() -> None:
    assert jobs.completed(job(10, 12, completedIndexes="0-9")) == ((10, 12),)
    assert jobs.completed(job(10, 12, completedIndexes="x-1")) == ()


def test_a_job_that_failed_as_a_whole_fails_what_it_had_not_completed() -> None:
    failed = job(0, 4, completedIndexes="0-1", conditions=[{"type": "Failed", "status": "True"}])
    assert jobs.failed(failed) == ((2, 4),)
    assert jobs.failed(job(0, 4, failedIndexes="3")) == ((3, 3),)


def test_a_job_may_go_only_when_all_it_knows_is_recorded() -> None:
    done = job(0, 4, completedIndexes="0-2", failedIndexes="3")
    assert not jobs.recorded(done, {"completedIndexes": "0-2"})
    assert jobs.recorded(done, {"completedIndexes": "0-2", "failedIndexes": "3"})
    assert jobs.recorded(job(0, 4), {})
    assert not jobs.recorded(job(0, 4, active=1), {})


def test_a_piece_with_a_job_keeps_it_and_finished_shards_get_none() -> None:
    assert jobs.ranges_to_run(((0, 9),), [job(0, 9)], ((0, 3),)) == ((0, 9),)
    assert jobs.ranges_to_run(((0, 9),), [], ((0, 3), (6, 6))) == ((4, 5), (7, 9))
    assert jobs.ranges_to_run(((0, 9),), [], ((0, 9),)) == ()


def test_a_job_that_has_to_go_keeps_its_shards_until_it_is_gone() -> None:
    assert jobs.ranges_to_run(((0, 4),), [job(0, 9)], ((0, 1),)) == ()
    assert jobs.ranges_to_run(((0, 4),), [], ((0, 1),)) == ((2, 4),)
    assert jobs.ranges_to_run(((0, 12),), [job(5, 20)], ()) == ((0, 4),)


def test_what_a_job_has_completed_counts_before_it_is_recorded() -> None:
    assert jobs.ranges_to_run(((0, 4),), [job(2, 9, completedIndexes="0-1")], ()) == ((0, 1),)


def test_neighbouring_pieces_stay_apart() -> None:
    assert jobs.ranges_to_run(((0, 4), (5, 9)), [job(0, 4)], ()) == ((0, 4), (5, 9))


def test_a_suspended_job_comes_to_rest_when_its_last_pod_goes() -> None:
    def at(active: int, *, suspend: bool = True) -> NativeRow:
        row = job(0, 4, active=active)
        row.spec["suspend"] = suspend
        return row

    assert jobs.came_to_rest(at(2), at(0))
    assert not jobs.came_to_rest(at(2), at(1))
    assert not jobs.came_to_rest(at(0), at(0))
    assert not jobs.came_to_rest(at(2, suspend=False), at(0, suspend=False))
    assert not jobs.came_to_rest(None, at(0))
    assert not jobs.came_to_rest(at(2), None)
