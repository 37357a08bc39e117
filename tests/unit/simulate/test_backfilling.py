"""Wide work beside a stream of small work, in the simulator: with and without room that is kept."""

from federator.model.accounts import QuotaAccount
from federator.simulate import reference
from federator.simulate.demand import Work
from federator.simulate.reference import ReferenceJob, ReferencePolicy
from tests.unit.simulate.fleets import cluster, inputs_of, job, lives, nodes, simulate

SIZE, UNTIL_S, RUNS_S = 4, 1_500, 100
KEEPS = QuotaAccount("all", projects=frozenset({"ads"}), backfills=True)
KEEPS_NONE = QuotaAccount("all", projects=frozenset({"ads"}))


def stream(*, deadlines: bool = True) -> list[Work]:
    """A job of one cpu every 20 seconds, each for 100 s, so that five at a time want the four that
    there are; and after a while one that needs all four."""
    small = [
        job(f"small-{at_s:04}", at_s, RUNS_S, deadline_s=RUNS_S if deadlines else None)
        for at_s in range(0, UNTIL_S, 20)
    ]
    return [*small, job("wide", 310, 50, SIZE, deadline_s=50)]


def wide_start(works: list[Work], *quotas: QuotaAccount) -> int:
    fleet = [cluster("a", nodes(1, cpu=SIZE * 1000))]
    wide = lives(simulate(inputs_of(fleet, works, quotas=quotas)))["wide"]
    assert wide.start_s is not None
    return wide.start_s


def test_small_work_does_not_starve_wide_work_as_it_does_where_it_only_fits() -> None:
    """`home-backfill` starts whatever fits; its wide job waits until the stream has ended."""
    works = stream()
    jobs = [ReferenceJob(one.submit_s, one.runtime_s or 0, one.shards, "a") for one in works]
    starved = reference.run(jobs, {"a": SIZE}, ReferencePolicy.HOME_BACKFILL)

    assert starved.wait_max_s > UNTIL_S - 310
    assert wide_start(works) > UNTIL_S, "without an account that keeps room it waits as long"
    assert wide_start(works, KEEPS) <= 310 + 2 * RUNS_S, "older ones first, then what ran with them"


def test_who_does_not_say_when_it_ends_is_waited_for_by_nobody() -> None:
    """Nothing is kept where nothing is known: the same as without."""
    works = stream(deadlines=False)

    assert wide_start(works, KEEPS) == wide_start(works, KEEPS_NONE)
