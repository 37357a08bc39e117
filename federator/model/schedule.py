"""When a cron schedule is due: five fields, descriptors and `@every`, with the meaning that the
CronJob controller of Kubernetes gives them (robfig/cron 3).

Times are whole seconds since 1970; the time zone is an argument. What is peculiar is kept: a time
that daylight saving skips does not come that day, one that comes twice is due twice, day of month
and day of week are alternatives unless one is `*`, and a time more than five years ahead never
comes. Used by cron jobs; anything else that recurs must read its schedules here too.
"""

import math
import re
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Final

YEARS_AHEAD: Final = 5
EVERY_LEAST_S: Final = 60
"""Seconds. Runs are named after the minute that they were due in."""

_MONTH_WORDS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS: Final = {word: number for number, word in enumerate(_MONTH_WORDS.split(), 1)}
_DAYS: Final = {
    word: number for number, word in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])
}
DESCRIPTORS: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_DURATION: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


class BadSchedule(ValueError):
    """A text that is no schedule; the message says why."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One of the five: its name in messages, its bounds, and the words that stand for numbers."""

    what: str
    least: int
    most: int
    words: Mapping[str, int]


_LONGEST_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


_FIELDS: Final = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Either the five fields, or `every_s` seconds after one another."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = False
    """Day of month or day of week is `*` or `?`: both must hold. Otherwise one of them is
    enough."""
    every_s: int = 0

    def after(self, moment_s: int, zone: tzinfo, until_s: int | None = None) -> int | None:
        """The first time due after `moment_s`, and not after `until_s`; None when none comes, or
        none within five years."""
        if self.every_s:
            due_s = moment_s + self.every_s
            return due_s if until_s is None or due_s <= until_s else None
        if not _comes(self):
            return None
        return _Search(self, zone, moment_s + 1, until_s).run()

    def latest(self, after_s: int, until_s: int, zone: tzinfo) -> int | None:
        """The last time due after `after_s` and not after `until_s`; None for none."""
        if self.every_s:
            count = (until_s - after_s) // self.every_s
            return after_s + count * self.every_s if count > 0 else None
        back_s, begin_s = 60, until_s
        while begin_s > after_s:
            begin_s = max(until_s - back_s, after_s)
            newest_s, due_s = None, self.after(begin_s, zone, until_s)
            while due_s is not None:
                newest_s, due_s = due_s, self.after(due_s, zone, until_s)
            if newest_s is not None:
                return newest_s
            back_s *= 2
        return None

    def count(self, after_s: int, until_s: int, zone: tzinfo, *, most: int) -> int:
        """How many times are due after `after_s` and not after `until_s`; not counted beyond
        `most`."""
        if self.every_s:
            return max(min((until_s - after_s) // self.every_s, most), 0)
        number, due_s = 0, self.after(after_s, zone, until_s)
        while number < most and due_s is not None:
            number, due_s = number + 1, self.after(due_s, zone, until_s)
        return number


@lru_cache(maxsize=4096)
def _comes(schedule: Schedule) -> bool:
    """False if no day of any year has such a date, or no day such a time: 30 February, or a field
    without a value. Without this, a search would look at every day, or minute, of five years."""
    if not (schedule.minutes and schedule.hours and schedule.months):
        return False
    is_date = any(
        day <= _LONGEST_MONTH[month - 1] for month in schedule.months for day in schedule.days
    )
    if schedule.any_day:
        return is_date and bool(schedule.weekdays)
    return is_date or bool(schedule.weekdays)


def parse(text: str) -> Schedule:
    """The schedule that a text means. Raises BadSchedule."""
    if not re.sub(f"[{_SPACE}]", "", text):
        raise BadSchedule("a schedule is needed, such as 30 2 * * *")
    if "TZ" in text:
        raise BadSchedule(
            "a time zone is given in timeZone, not with TZ= or CRON_TZ= in the schedule"
        )
    if text.startswith("@"):
        return _described(text)
    parts = [part for part in re.split(f"[{_SPACE}]+", text) if part]
    if len(parts) != len(_FIELDS):
        raise BadSchedule(
            "five fields are needed (minute, hour, day of month, month, day of week), not"
            f" {len(parts)}"
        )
    minutes, hours, days, months, weekdays = (
        _values(part, field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return Schedule(
        minutes=minutes[0],
        hours=hours[0],
        days=days[0],
        months=months[0],
        weekdays=weekdays[0],
        any_day=days[1] or weekdays[1],
    )


def _described(text: str) -> Schedule:
    if text in DESCRIPTORS:
        return parse(DESCRIPTORS[text])
    if not text.startswith(_EVERY):
        descriptors = ", ".join(DESCRIPTORS)
        raise BadSchedule(f"{text[:40]!r} is none of {descriptors} and @every DURATION")
    duration = text.removeprefix(_EVERY)
    spans = _DURATION.findall(duration)
    if not spans or "".join(number + unit for number, unit in spans) != duration:
        raise BadSchedule(f"{duration[:40]!r} is no duration such as 1h30m")
    every_s = sum(_nanos(number, _UNITS_NS[unit]) for number, unit in spans) // 10**9
    if every_s < EVERY_LEAST_S:
        raise BadSchedule("@every takes a minute at least: a run is named after its minute")
    if every_s >= 2**63 // 10**9:
        raise BadSchedule(f"{duration[:40]!r} is longer than a duration can be")
    return Schedule(every_s=every_s)


def _nanos(number: str, unit_ns: int) -> int:
    whole, _, part = number.partition(".")
    return int(whole or "0") * unit_ns + (int(part) * unit_ns // 10 ** len(part) if part else 0)


def _values(text: str, field: _Field) -> tuple[frozenset[int], bool]:
    """(the numbers that a field allows, whether it is `*`)."""
    numbers: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        low, high, step, open_ = _span(part, field)
        numbers.update(range(low, high + 1, step))
        star = star or (open_ and step == 1)
    return frozenset(numbers), star


def _span(part: str, field: _Field) -> tuple[int, int, int, bool]:
    """(first, last, step, whether it begins with `*` or `?`) of `*`, `5`, `1-5`, each perhaps with
    a step."""

    def bad(why: str) -> BadSchedule:
        return BadSchedule(f"{field.what}: {part[:40]!r}: {why}")

    span, *steps = part.split("/")
    first, *ends = span.split("-")
    open_ = first in ("*", "?")
    if len(steps) > 1:
        raise bad("one step is enough")
    if len(ends) > 1 and not open_:
        raise bad("a range has one dash")
    if open_:
        low, high = field.least, field.most
    else:
        low = _number(first, field.words, bad)
        high = _number(ends[0], field.words, bad) if ends else low
    step = _number(steps[0], {}, bad) if steps else 1
    if steps and not ends:
        high = field.most
    if low < field.least or high > field.most:
        raise bad(f"it goes from {field.least} to {field.most}")
    if low > high:
        raise bad("it ends before it begins")
    if step == 0:
        raise bad("a step is at least 1")
    return low, high, step, open_


def _number(text: str, words: Mapping[str, int], bad: Callable[[str], BadSchedule]) -> int:
    word = words.get(text.lower())
    if word is not None:
        return word
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        raise bad(
            f"{text[:20]!r} is no number" + (f" and none of {', '.join(words)}" if words else "")
        )
    if text.startswith("-") and int(text):
        raise bad(f"{text} is negative")
    return int(text)


class _Search:
    """Walks from the coarsest field to the finest, in the steps of robfig/cron: where clocks are
    changed they decide what is found."""

    __slots__ = ("_cut", "_moment_s", "_schedule", "_until_s", "_zone")

    def __init__(
        self, schedule: Schedule, zone: tzinfo, from_s: int, until_s: int | None = None
    ) -> None:
        self._schedule = schedule
        self._zone = zone
        self._moment_s = from_s
        self._until_s = math.inf if until_s is None else until_s
        self._cut = False
        """Whether the moment was set back to the beginning of the unit that is looked for."""

    def run(self) -> int | None:
        try:
            limit = self._local.year + YEARS_AHEAD
            while self._local.year <= limit and self._moment_s <= self._until_s:
                if (
                    self._month()
                    and self._day()
                    and self._hour()
                    and self._minute()
                    and self._second()
                ):
                    return self._moment_s if self._moment_s <= self._until_s else None
        except (ValueError, OverflowError):
            return None  # beyond the years that dates have
        return None

    @property
    def _local(self) -> datetime:
        return datetime.fromtimestamp(self._moment_s, self._zone)

    def _month(self) -> bool:
        """Goes on to a month that is allowed; False after a year's end. So do those for finer
        units."""
        while (here := self._local).month not in self._schedule.months:
            if not self._cut:
                self._cut = True
                self._set((here.year, here.month, 1))
                here = self._local
            self._set((here.year, here.month + 1, here.day), _clock(here))
            if self._local.month == 1:
                return False
        return True

    def _day(self) -> bool:
        while not self._is_day(here := self._local):
            if not self._cut:
                self._cut = True
                self._set((here.year, here.month, here.day))
                here = self._local
            self._set((here.year, here.month, here.day + 1), _clock(here))
            hour = self._local.hour
            if hour:  # there is no midnight on that day, or the one before was longer
                self._moment_s += (24 - hour if hour > 12 else -hour) * 3600
            if self._local.day == 1:
                return False
        return True

    def _is_day(self, here: datetime) -> bool:
        schedule = self._schedule
        day, weekday = here.day in schedule.days, here.isoweekday() % 7 in schedule.weekdays
        return (day and weekday) if schedule.any_day else (day or weekday)

    def _hour(self) -> bool:
        while (here := self._local).hour not in self._schedule.hours:
            if not self._cut:
                self._cut = True
                self._set((here.year, here.month, here.day), (here.hour, 0, 0))
            self._moment_s += 3600
            if self._local.hour == 0:
                return False
        return True

    def _minute(self) -> bool:
        while self._local.minute not in self._schedule.minutes:
            if not self._cut:
                self._cut = True
                self._moment_s -= self._moment_s % 60
            self._moment_s += 60
            if self._local.minute == 0:
                return False
        return True

    def _second(self) -> bool:
        """Seconds run to the next minute, where the search begins again; a schedule has no
        seconds."""
        second = self._local.second
        if second:
            self._cut = True
            self._moment_s += 60 - second
        return not second

    def _set(self, date: tuple[int, int, int], clock: tuple[int, int, int] = (0, 0, 0)) -> None:
        """The moment of a local time. One that comes twice is the first, one that is skipped is as
        much later as the clock was put forward. A month or day beyond the last one goes on."""
        year, month, day = date
        year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
        as_utc_s = int(datetime(year, month, 1, *clock, tzinfo=UTC).timestamp()) + (day - 1) * 86400
        guess_s = as_utc_s - self._offset_s(as_utc_s)
        self._moment_s = as_utc_s - self._offset_s(guess_s)

    def _offset_s(self, moment_s: int) -> int:
        offset = datetime.fromtimestamp(moment_s, self._zone).utcoffset()
        return int(offset.total_seconds()) if offset is not None else 0


def _clock(here: datetime) -> tuple[int, int, int]:
    return here.hour, here.minute, here.second


def zone_of(name: str) -> tzinfo:
    """The time zone of an IANA name; UTC for "". Raises BadSchedule."""
    if not name:
        return UTC
    if name.lower() == "local":
        raise BadSchedule("a time zone is named as by IANA, such as Europe/Berlin, not Local")
    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise BadSchedule(
            f"there is no time zone {name[:80]!r}; give an IANA name such as Europe/Berlin"
        ) from None
