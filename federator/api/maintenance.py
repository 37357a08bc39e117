"""The maintenance windows of a MemberCluster (`spec.maintenance`): which one is near, lasts or is
next, by the object and the time.

Times are epoch seconds. A window begins when its schedule is due and lasts for a time; from its
notice to its end the cluster is closed to new work. Windows that cannot be read, or never come,
close nothing and are named. Pure; looked at to the minute, as schedules are.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.model import plaintext
from federator.model.schedule import YEARS_AHEAD, BadSchedule, Schedule, parse, zone_of

WINDOWS_MAX: Final = 8
"""Windows of one cluster."""
NOTICE: Final = "1h"
"""Before a window, unless it says."""
MINUTE_S: Final = 60
HOUR_S: Final = 3600
_DURATION: Final = re.compile(r"(?:([0-9]{1,3})h)?(?:([0-9]{1,5})m)?")


class Phase(StrEnum):
    """Where in its windows a cluster is."""

    NONE = ""
    """It has none."""
    SCHEDULED = "Scheduled"
    ANNOUNCED = "Announced"
    """One is so near that nothing new comes."""
    UNDER_WAY = "UnderWay"


@dataclass(frozen=True, slots=True)
class Window:
    """One that comes again and again."""

    schedule: Schedule
    zone: tzinfo
    lasts_s: int
    notice_s: int
    """Before it begins nothing new comes for so long."""

    def next_s(self, now_s: int) -> int | None:
        """When the one begins that lasts now, or the next one; None when none comes."""
        return self.schedule.after(now_s - self.lasts_s, self.zone)


NEVER: Final = Window(Schedule(), UTC, MINUTE_S, 0)
"""One that never comes."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a cluster stands to its windows at one moment."""

    phase: Phase = Phase.NONE
    number: int = 0
    """Which of them is spoken of, counted from 0."""
    begins_s: int = 0
    ends_s: int = 0
    closing: tuple[int, ...] = ()
    """All of them that are announced or under way: two may lie upon one another."""
    never: tuple[int, ...] = ()
    """Those that never come."""

    @property
    def closed(self) -> bool:
        """Whether nothing new comes."""
        return bool(self.closing)


NONE: Final = Standing()


def window(schedule: str, zone: str, lasts: str, notice: str) -> Window:
    """The window that these texts mean. Raises BadSchedule."""
    if schedule.startswith("@every"):
        raise BadSchedule(
            "@every has no beginning to count from; a window needs five fields, such as 0 2 * * tue"
        )
    lasts_s = duration_s(lasts)
    if not lasts_s:
        raise BadSchedule("a window lasts a minute at least")
    return Window(parse(schedule), zone_of(zone), lasts_s, duration_s(notice))


def duration_s(text: str) -> int:
    """Seconds of `4h`, `90m` or `1h30m`. Raises BadSchedule."""
    matched = _DURATION.fullmatch(text)
    if not text or matched is None:
        raise BadSchedule(f"{text[:40]!r} is no time such as 4h, 90m or 1h30m")
    hours, minutes = (int(part or "0") for part in matched.groups())
    return hours * HOUR_S + minutes * MINUTE_S


def standing(windows: tuple[Window, ...], now_s: float) -> Standing:
    """How it stands to its windows now.

    Every Tuesday 02:00 for 4 h with a notice of 1 h: Announced from 01:00, UnderWay from 02:00,
    Scheduled again from 06:00.
    """
    return _standing(windows, int(now_s) // MINUTE_S * MINUTE_S) if windows else NONE


@functools.lru_cache(maxsize=4096)
def _standing(windows: tuple[Window, ...], now_s: int) -> Standing:
    begins = [window.next_s(now_s) for window in windows]
    never = tuple(number for number, begin_s in enumerate(begins) if begin_s is None)
    due = [(begin_s, number) for number, begin_s in enumerate(begins) if begin_s is not None]
    closing = tuple(
        number for begin_s, number in due if begin_s - windows[number].notice_s <= now_s
    )
    if not due:
        return Standing(Phase.SCHEDULED, never=never)
    begin_s, number = _first(due, closing)
    phase = Phase.SCHEDULED
    if closing:
        phase = Phase.UNDER_WAY if begin_s <= now_s else Phase.ANNOUNCED
    return Standing(phase, number, begin_s, begin_s + windows[number].lasts_s, closing, never)


def _first(due: Sequence[tuple[int, int]], closing: Sequence[int]) -> tuple[int, int]:
    """The earliest of those that keep new work away, or of all."""
    return min([begin for begin in due if begin[1] in closing] or due)


@dataclass(frozen=True, slots=True)
class Maintained:
    """How a cluster stands to its maintenance windows, and what is wrong with them."""

    now: Standing = NONE
    problems: tuple[str, ...] = ()
    """Sentences about windows that never come, or that nobody can read."""


_UNMAINTAINED: Final = Maintained()


def of(obj: Obj, now_s: float) -> Maintained:
    """How it stands to its windows now. What cannot be read counts as a window that never comes; at
    time 0, where there is no clock, none does."""
    entries = raw.objects(obj, "spec", "maintenance")
    if not entries or now_s <= 0:
        return _UNMAINTAINED
    texts = tuple(
        tuple(raw.text(entry, name) for name in ("schedule", "timeZone", "duration", "notice"))
        for entry in entries[:WINDOWS_MAX]
    )
    windows, problems = _windows(texts)
    now = standing(windows, now_s)
    never = [
        f"spec.maintenance[{number}]: {texts[number][0][:80]!r} comes at no time of the next"
        f" {YEARS_AHEAD} years"
        for number in now.never
        if number not in problems
    ]
    said = [f"spec.maintenance[{number}]: {why}" for number, why in problems.items()]
    return Maintained(now, tuple(sorted((*said, *never))))


@functools.lru_cache(maxsize=1024)
def _windows(
    texts: tuple[tuple[str, ...], ...],
) -> tuple[tuple[Window, ...], Mapping[int, str]]:
    """The windows in order, and why some cannot be read, by their number."""
    windows, problems = [], {}
    for number, (schedule, zone, lasts, notice) in enumerate(texts):
        try:
            made = window(schedule, zone, lasts, notice or NOTICE)
        except BadSchedule as bad:
            problems[number] = str(bad)
            made = NEVER
        windows.append(made)
    return tuple(windows), problems


def closed(obj: Obj, now_s: float) -> str:
    """Why nothing new is sent there, as a part of a sentence; "" where no window is near."""
    now = of(obj, now_s).now
    if not now.closed:
        return ""
    begins, ends = plaintext.moment(now.begins_s), plaintext.moment(now.ends_s)
    return f"is to be worked on from {begins} to {ends} (spec.maintenance)"
