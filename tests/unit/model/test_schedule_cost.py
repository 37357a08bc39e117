"""What a search for the next time of a schedule costs, in local times that are looked up."""

from datetime import datetime, timedelta, tzinfo

import pytest

from federator.model import schedule

NOW_S = 1_795_905_000
MONTH_S = 30 * 86400


class Counting(tzinfo):
    """A zone without daylight saving that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def utcoffset(self, dt: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta(hours=-5)

    def dst(self, dt: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, dt: datetime | None) -> str:
        return "EST"

    def fromutc(self, dt: datetime) -> datetime:
        self.asked += 1
        return dt + timedelta(hours=-5)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 , * *", "0 , * * *"])
def test_a_schedule_that_never_comes_is_not_searched_for(text: str) -> None:
    zone, never = Counting(), schedule.parse(text)
    assert never.after(NOW_S, zone) is None
    assert never.latest(NOW_S - MONTH_S, NOW_S, zone) is None
    assert never.count(NOW_S - MONTH_S, NOW_S, zone, most=100) == 0
    assert zone.asked == 0


def test_a_search_for_the_latest_time_ends_at_the_end_of_its_range() -> None:
    zone, leap_days = Counting(), schedule.parse("0 0 29 2 *")
    assert leap_days.latest(NOW_S - MONTH_S, NOW_S, zone) is None
    assert zone.asked < 500  # a search to the next leap day from each beginning takes thousands
