"""Maintenance windows: which one is near, lasts or comes next, and texts that mean none."""

import pytest

from federator.api import maintenance
from federator.api.maintenance import Phase, Standing, Window
from federator.kube.clock import parse
from federator.model.schedule import BadSchedule

TUESDAY = maintenance.window("0 2 * * tue", "", "4h", "1h")
DAILY = maintenance.window("30 4 * * *", "Europe/Berlin", "90m", "0m")
NEVER = maintenance.window("0 0 30 2 *", "", "1h", "1h")


def stands(moment: str, *windows: Window) -> Standing:
    return maintenance.standing(windows, parse(moment))


@pytest.mark.parametrize(
    ("moment", "phase"),
    [
        ("2026-03-03T00:59:59Z", Phase.SCHEDULED),
        ("2026-03-03T01:00:00Z", Phase.ANNOUNCED),
        ("2026-03-03T01:59:59Z", Phase.ANNOUNCED),
        ("2026-03-03T02:00:00Z", Phase.UNDER_WAY),
        ("2026-03-03T05:59:59Z", Phase.UNDER_WAY),
        ("2026-03-03T06:00:00Z", Phase.SCHEDULED),
    ],
)
def test_nothing_new_comes_from_the_notice_to_the_end(moment: str, phase: Phase) -> None:
    found = stands(moment, TUESDAY)
    assert found.phase is phase
    assert found.closed is (phase is not Phase.SCHEDULED)
    first = int(parse("2026-03-03T02:00:00Z"))
    week_s = 7 * 24 * 3600
    assert found.begins_s == (first if moment < "2026-03-03T06" else first + week_s)
    assert found.ends_s == found.begins_s + 4 * 3600


def test_schedules_are_read_in_their_time_zone() -> None:
    assert stands("2026-01-10T03:29:00Z", DAILY).phase is Phase.SCHEDULED
    assert stands("2026-01-10T03:30:00Z", DAILY).phase is Phase.UNDER_WAY
    assert stands("2026-07-10T02:30:00Z", DAILY).phase is Phase.UNDER_WAY


def test_of_several_the_one_that_closes_is_told_and_all_that_close_are_named() -> None:
    found = stands("2026-03-03T04:00:00Z", DAILY, TUESDAY)
    assert (found.phase, found.number, found.closing) == (Phase.UNDER_WAY, 1, (0, 1))
    found = stands("2026-03-03T01:30:00Z", DAILY, TUESDAY)
    assert (found.phase, found.number, found.closing) == (Phase.ANNOUNCED, 1, (1,))
    found = stands("2026-03-04T12:00:00Z", TUESDAY, DAILY)
    assert (found.phase, found.number, found.closing) == (Phase.SCHEDULED, 1, ())


def test_a_window_that_never_comes_closes_nothing_and_is_named() -> None:
    found = stands("2026-03-03T02:00:00Z", NEVER, TUESDAY)
    assert (found.phase, found.never) == (Phase.UNDER_WAY, (0,))
    alone = stands("2026-03-03T02:00:00Z", NEVER)
    assert (alone.phase, alone.closed, alone.never) == (Phase.SCHEDULED, False, (0,))
    assert stands("2026-03-03T02:00:00Z") == Standing()


def test_one_that_is_longer_than_its_distance_lasts_on() -> None:
    hourly = maintenance.window("0 * * * *", "", "2h", "0m")
    for minute in range(0, 180, 7):
        moment_s = int(parse("2026-03-03T02:00:00Z")) + minute * 60
        assert maintenance.standing((hourly,), moment_s).phase is Phase.UNDER_WAY


@pytest.mark.parametrize(("text", "seconds"), [("4h", 14400), ("90m", 5400), ("1h30m", 5400)])
def test_durations(text: str, seconds: int) -> None:
    assert maintenance.duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "m", "4", "30m1h", "-1h", "1.5h", "1d", "٤h", "4h ", "1234h"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule, match="is no time such as 4h"):
        maintenance.duration_s(text)


@pytest.mark.parametrize(
    ("schedule", "zone", "lasts", "said"),
    [
        ("@every 4h", "", "1h", "@every has no beginning"),
        ("0 2 * * tue", "", "0m", "a minute at least"),
        ("0 26 * * *", "", "1h", "it goes from 0 to 23"),
        ("0 2 * * *", "Mars/Olympus", "1h", "there is no time zone"),
    ],
)
def test_a_window_that_cannot_be_meant_is_refused(
    schedule: str, zone: str, lasts: str, said: str
) -> None:
    with pytest.raises(BadSchedule, match=said):
        maintenance.window(schedule, zone, lasts, "1h")
