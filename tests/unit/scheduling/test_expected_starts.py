"""When waiting work may be expected to start: by what says when it ends, by what others did, and
not at all where too little is known.
"""

from federator.model.ask import Ask
from federator.placement.room.commitments import Commitments
from federator.scheduling.waiting import starts
from federator.scheduling.waiting.releases import ENOUGH, Ran, Releases
from federator.scheduling.waiting.starts import EARLIEST, LATEST, Interval
from tests.unit.placement.fleets import cluster, fleet, service
from tests.unit.scheduling.test_backfilling import KEEPS, NOW_S, running, wide


def expected(
    *queue: Ask,
    commitments: Commitments,
    releases: Releases | None = None,
    size: int = 10,
    keeps: bool = False,
) -> dict[str, Interval]:
    """Name -> when it may start, on one cluster of one node."""
    snapshot = fleet(cluster("a", size), quotas=[KEEPS] if keeps else ())
    missing = {ask.uid: ask.slots for ask in queue}
    answers = starts.expected(
        queue, commitments, commitments.open(snapshot), missing, releases or Releases()
    )
    return {ask.key.name: answers[ask.uid] for ask in queue if ask.uid in answers}


def after(low_s: float, expected_s: float, high_s: float) -> Interval:
    """Seconds from now, before the margins."""
    return Interval(NOW_S + low_s * EARLIEST, NOW_S + expected_s, NOW_S + high_s * LATEST)


def test_the_queue_is_played_in_its_order_by_what_says_when_it_ends() -> None:
    """The first waits for what runs, the second for the first, and a small one passes both."""
    commitments = running(("runs", 8, NOW_S + 100))
    queue = [wide(10, 50, name="first"), wide(10, 30, name="second"), wide(2, 5, name="small")]

    starts = expected(*queue, commitments=commitments)

    assert starts == {
        "first": after(100, 100, 100),
        "second": after(150, 150, 150),
        "small": after(0, 0, 0),
    }


def test_what_others_ran_of_what_they_said_is_learned() -> None:
    """Here jobs end after half the time that they say, give or take."""
    ended = [Ran("feed", 100 * part / 100, 100) for part in range(40, 61)]
    commitments = running(("runs", 8, NOW_S + 1_000))

    starts = expected(wide(10), commitments=commitments, releases=Releases(ended))

    assert starts["wide"] == after(450, 500, 550)


def test_of_those_that_are_older_only_longer_ones_count() -> None:
    releases = Releases([Ran("feed", float(seconds), None) for seconds in range(100, 140)])

    assert releases.left_s("feed", 0.0, None, 0.5) == 120.0
    assert releases.left_s("feed", 130.0, None, 0.0) == 1.0
    assert releases.left_s("feed", 500.0, None, 0.5) == 500.0, "as long again"
    assert releases.left_s("ads", 0.0, None, 0.5) == 120.0, "of all projects"
    few = Releases([Ran("feed", 10.0, 100)] * (ENOUGH - 1))
    assert few.left_s("feed", 0.0, None, 0.5) is None
    assert few.left_s("feed", 20.0, 100, 0.5) == 80.0, "what it says, until more is known"


def test_nothing_is_expected_where_nothing_says_when_it_ends() -> None:
    commitments = running(("forever", 8, None), ("ends", 1, NOW_S + 100))

    starts = expected(wide(10, name="all"), wide(2, name="some"), commitments=commitments)

    assert starts == {"some": after(100, 100, 100)}


def test_work_that_comes_in_parts_starts_when_the_last_has_room() -> None:
    commitments = running(("one", 4, NOW_S + 100), ("two", 4, NOW_S + 200))

    starts = expected(service(9, name="web"), commitments=commitments)

    assert starts == {"web": after(200, 200, 200)}


def test_who_has_reserved_is_expected_by_then() -> None:
    """Small work that would pass it in the play may not pass it in truth."""
    commitments = running(("runs", 5, NOW_S + 100))
    small = [wide(5, 400, name=f"small-{number}") for number in range(3)]
    queue = [wide(10, 10, name="wide"), *small]

    assert expected(*queue, commitments=commitments)["wide"].expected_s > NOW_S + 100
    kept = expected(*queue, commitments=commitments, keeps=True)
    assert kept["wide"] == after(100, 100, 100)
    assert kept["small-0"].low_s >= kept["wide"].low_s, "its room of now is kept"


def test_who_has_room_beside_what_is_kept_or_ends_before_is_expected_now() -> None:
    commitments = running(("runs", 5, NOW_S + 100))
    queue = [wide(8, 10, name="wide"), wide(2, 400, name="beside"), wide(3, 50, name="before")]

    starts = expected(*queue, commitments=commitments, keeps=True)

    assert starts["wide"] == after(100, 100, 100)
    assert starts["beside"] == starts["before"] == after(0, 0, 0)
