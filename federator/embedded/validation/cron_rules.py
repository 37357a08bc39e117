"""Validation of CronJobs and their schedules, with a real API server's words."""

import re
import zoneinfo
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.storage.field_errors import FieldError, invalid, not_supported, required
from federator.embedded.validation import workload_rules
from federator.embedded.validation.pod_rules import nonnegative

Struct = Mapping[str, Any]

_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = (
    *("@yearly", "@annually", "@monthly"),
    *("@weekly", "@daily", "@midnight", "@hourly"),
)


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


def cron_job(obj: Struct, old: Struct | None) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    zone = spec.get("timeZone")
    if zone is not None and not _is_zone(zone):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
    else:
        problem = _bad_schedule(schedule)
        if problem:
            yield invalid("spec.schedule", schedule, problem)
    yield from nonnegative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        yield not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    yield from workload_rules.job_spec(
        (spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec"
    )
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from nonnegative(spec.get(key), f"spec.{key}")


def _bad_schedule(schedule: str) -> str:
    """Why a schedule cannot be read, or empty."""
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule.startswith("@"):
        valid = schedule in _DESCRIPTORS or re.match(r"^@every \S+$", schedule)
        return "" if valid else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    try:
        for field, (least, most, names) in zip(fields, _FIELDS, strict=True):
            for part in field.split(","):
                _check_part(part, least, most, names)
    except ValueError as error:
        return str(error)
    return ""


def _check_part(part: str, least: int, most: int, names: Mapping[str, int]) -> None:
    """One element of a field: `*`, `5`, `1-5`, each perhaps with a step. Raises ValueError."""
    span, slash, step = part.partition("/")
    low, dash, high = span.partition("-")
    if low in ("*", "?"):
        start, end = least, most
    else:
        start = _number(low, names)
        end = _number(high, names) if dash else (most if slash else start)
    if slash and _number(step, {}) == 0:
        raise ValueError(f"step of range should be a positive number: {part}")
    if start < least:
        raise ValueError(f"beginning of range ({start}) below minimum ({least}): {part}")
    if end > most:
        raise ValueError(f"end of range ({end}) above maximum ({most}): {part}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")


def _number(text: str, names: Mapping[str, int]) -> int:
    value = names.get(text.lower())
    if value is not None:
        return value
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
