"""Our schedules beside those of the native controller's library, which a small Go program asks
(`make kube` builds it): the same texts are refused, and the same times are due, in zones whose
clocks are put forward and back at odd hours.
"""

import json
import os
import random
import subprocess
import zoneinfo
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from federator.model import schedule
from tests.controlplane import build

ZONES = (
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "America/Havana",
    "Asia/Beirut",
    "Africa/Cairo",
    "America/Santiago",
    "Pacific/Apia",
    "Atlantic/Azores",
    "Europe/Dublin",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Africa/Casablanca",
)
"""Clocks that change by 30 minutes, two hours or a whole day, at midnight, and not at all."""
FIELDS = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, ("jan", "Feb", "DEC")),
    (0, 6, ("sun", "WED", "fri")),
)
ODD = (
    "",
    "* * * *",
    "* * * * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * 32 * *",
    "* * * 13 *",
    "* * * * 7",
    "*/0 * * * *",
    "5-1 * * * *",
    "1-2-3 * * * *",
    "1/2/3 * * * *",
    "-5 * * * *",
    "+5 * * * *",
    "-0 * * * *",
    "1_0 * * * *",
    "*-7 * * * *",
    "*-7-9/2 * * * *",
    "?/1 * ? * ?",
    ", * * * *",
    ",5,,7, * * * *",
    "* * * foo *",
    "* * * * sunday",
    "5/7 */9 1/3 2/5 1/2",
    "0 0 31 2 *",
    "0 0 30 2 *",
    "0 0 29 2 *",
    "59 23 31 12 *",
    "@hourly",
    "@daily",
    "@midnight",
    "@weekly",
    "@monthly",
    "@yearly",
    "@annually",
    "@Hourly",
    "@reboot",
    "@every 90m",
    "@every 1h30m15s",
    "@every 1.5h",
    "@every .5h",
    "@every 90",
    "@every",
    "@every  5m",
    "@every 100ms3600s",
    " 5 * * * *",
    "5\t*\n* * *",
    "5\x1c* * * *",
    "5\u2003* * * *",
    "\uff15 * * * *",
    "999999999999999999999 * * * *",
    "L * * * *",
    "0 0 * * 1#2",
)


def _field(rng: random.Random, least: int, most: int, words: tuple[str, ...]) -> str:
    def number() -> str:
        if words and rng.random() < 0.2:
            return rng.choice(words)
        return str(rng.randint(least, most))

    parts = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        span = rng.choice(("*", "?", number(), number(), f"{number()}-{number()}"))
        parts.append(span + rng.choice(("", "", "", f"/{rng.randint(1, 9)}")))
    return ",".join(parts)


def _schedule(rng: random.Random) -> str:
    """Mostly of few times a day, so that a search passes many days."""
    fields = [_field(rng, *bounds) if rng.random() < 0.6 else "*" for bounds in FIELDS]
    if fields[0] == "*" and rng.random() < 0.7:
        fields[0] = str(rng.randint(0, 59))
    if fields[1] == "*" and rng.random() < 0.5:
        fields[1] = str(rng.randint(0, 4))
    return " ".join(fields)


def _questions() -> list[dict[str, Any]]:
    rng = random.Random(20261125)
    odd = [{"schedule": text, "zone": "UTC", "after": 1_764_000_123, "count": 3} for text in ODD]
    drawn = [
        {
            "schedule": _schedule(rng),
            "zone": rng.choice(ZONES),
            "after": rng.randrange(1_262_304_000, 2_100_000_000),
            "count": 12,
        }
        for _ in range(700)
    ]
    return [*odd, *drawn]


def _ours(question: dict[str, Any]) -> list[int] | None:
    try:
        found, zone = schedule.parse(question["schedule"]), schedule.zone_of(question["zone"])
    except schedule.BadSchedule:
        return None
    times: list[int] = []
    moment: int | None = question["after"]
    while len(times) < question["count"]:
        moment = found.after(moment or 0, zone)
        if moment is None:
            break
        times.append(moment)
    return times


def _zones() -> Path:
    """The data of time zones that Python reads: both sides must read the same."""
    system = next((Path(path) for path in zoneinfo.TZPATH if (Path(path) / "UTC").is_file()), None)
    return system or Path(str(resources.files("tzdata").joinpath("zoneinfo")))


@pytest.fixture(scope="module")
def asker() -> Path:
    try:
        return build.schedules()
    except build.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def answers(asker: Path) -> list[dict[str, Any]]:
    """What the library of the native controller says to each question."""
    questions = _questions()
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    environment = {**os.environ, "ZONEINFO": str(_zones())}
    done = subprocess.run(
        [asker],
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=environment,
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(questions)
    return said


def test_the_same_times_are_due(answers: list[dict[str, Any]]) -> None:
    wrong = []
    for question, answer in zip(_questions(), answers, strict=True):
        theirs = None if "error" in answer else answer["times"]
        if (ours := _ours(question)) != theirs:
            wrong.append((question, ours, theirs or answer))
    assert not wrong
    assert sum("error" in answer for answer in answers) > 50


def test_the_same_times_are_missed(answers: list[dict[str, Any]]) -> None:
    """Who looks after some of the times have passed runs the newest of them, and counts the
    others."""
    rng, looked = random.Random(7), 0
    for question, answer in zip(_questions(), answers, strict=True):
        times = answer.get("times") or []
        if len(times) < 2:
            continue
        found, zone = schedule.parse(question["schedule"]), schedule.zone_of(question["zone"])
        passed = rng.randrange(len(times) - 1)
        now_s = rng.randrange(times[passed], times[passed + 1])
        after_s = question["after"]
        assert found.latest(after_s, now_s, zone) == times[passed], (question, now_s)
        assert found.count(after_s, now_s, zone, most=1000) == passed + 1, (question, now_s)
        assert found.latest(times[passed], now_s, zone) is None, (question, now_s)
        looked += 1
    assert looked > 400


def test_every_zone_is_known() -> None:
    assert set(ZONES) <= zoneinfo.available_timezones()
