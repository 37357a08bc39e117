"""Fields that say when something is due: a schedule, its time zone, and how long something lasts.

Used by the models of cron jobs and of member clusters. What the API server can check by a pattern
it checks; the rest is checked where files are read.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from federator.api.common import rules
from federator.model import schedule
from federator.model.schedule import BadSchedule

_ZONE_RULE = (
    # A time zone that the API server does not know makes this an error, which refuses the object.
    (
        "timestamp('2026-01-01T00:00:00Z').getFullYear(self) > 0 && self.lowerAscii() != 'local' "
        "&& !self.contains(':')"
    ),
    "a time zone is named as by IANA, such as Europe/Berlin",
)


def _field(number: str, words: str = "") -> str:
    """A regular expression for one field. That a range does not end before it begins, only the hub
    sees.
    """
    value = rf"(\+?0*({number}){'|' + words if words else ''})"
    item = rf"([*?](-[^\s,/]*)?|{value}(-{value})?)(/\+?0*[1-9][0-9]{{0,17}})?"
    return rf"(,*{item}(,+{item})*,*|,+)"


_SPACED = r"\s+".join(
    (
        _field("[0-5]?[0-9]"),
        _field("1?[0-9]|2[0-3]"),
        _field("[1-9]|[12][0-9]|3[01]"),
        _field("[1-9]|1[0-2]", "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"),
        _field("[0-6]", "(?i:sun|mon|tue|wed|thu|fri|sat)"),
    )
)
_DESCRIBED = "|".join(name.removeprefix("@") for name in schedule.DESCRIPTORS)
_SCHEDULE_RULE = (
    (
        rf"self.matches(r'^\s*{_SPACED}\s*$') || self.matches(r'^@({_DESCRIBED}|every "
        r"([0-9.]+[a-zµμ]+)+)$')"
    ),
    "a schedule has five fields (minute, hour, day of month, month, day of week), such as 30 "
    "2 * * mon-fri, or is one"
    f" of {', '.join(schedule.DESCRIPTORS)} and @every DURATION; a time zone is given in timeZone",
)


def _schedule(text: str) -> str:
    try:
        schedule.parse(text)
    except BadSchedule as bad:
        raise PydanticCustomError("schedule", "{problem}", {"problem": str(bad)}) from None
    return text


def _zone(name: str) -> str:
    try:
        schedule.zone_of(name)
    except BadSchedule as bad:
        raise PydanticCustomError("time_zone", "{problem}", {"problem": str(bad)}) from None
    return name


ScheduleText = Annotated[
    str,
    Field(min_length=1, max_length=200, json_schema_extra=rules(_SCHEDULE_RULE)),
    AfterValidator(_schedule),
]
ZoneName = Annotated[
    str,
    Field(min_length=1, max_length=64, json_schema_extra=rules(_ZONE_RULE)),
    AfterValidator(_zone),
]
LASTS: Final = r"^([1-9][0-9]{0,2}h([0-9]{1,5}m)?|[1-9][0-9]{0,4}m)$"
BEFORE: Final = r"^([1-9][0-9]{0,2}h([0-9]{1,5}m)?|[0-9]{1,5}m)$"
LastsText = Annotated[str, Field(max_length=16, pattern=LASTS)]
"""How long something lasts, a minute at least: 4h, 90m or 1h30m."""
BeforeText = Annotated[str, Field(max_length=16, pattern=BEFORE)]
"""How long before something: as above, or 0m."""
