"""One result of `federator doctor`, and how results are shown. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "WARNING"
    """It works, and will not for ever, or not as safely as it should."""
    FAILED = "FAILED"
    """Something does not work."""
    UNKNOWN = "unknown"
    """The caller may not read it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check as a sentence, and the way to repair it."""

    result: Result
    where: str
    """`host`, the name of a cluster, or `settings`."""
    check: str
    text: str
    fix: str = ""

    @property
    def wrong(self) -> bool:
        return self.result in (Result.WARNING, Result.FAILED)


_ORDER = (Result.FAILED, Result.WARNING, Result.UNKNOWN, Result.OK)


def by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """The gravest first; otherwise as they were found."""
    return sorted(findings, key=lambda finding: _ORDER.index(finding.result))


def rows(findings: Sequence[Finding], *, every: bool) -> list[list[str]]:
    """Cells of a table; without those that are well unless `every`."""
    return [
        [finding.result, finding.where, finding.check, finding.text, finding.fix]
        for finding in findings
        if every or finding.result is not Result.OK
    ]


def summary(findings: Sequence[Finding]) -> str:
    """How many checks ended in which way, in one line."""
    counts = {result: sum(finding.result is result for finding in findings) for result in _ORDER}
    words = {
        Result.FAILED: "failed",
        Result.WARNING: "with a warning",
        Result.UNKNOWN: "unknown",
        Result.OK: "passed",
    }
    said = ", ".join(f"{count} {words[result]}" for result, count in counts.items() if count)
    return f"{len(findings)} checks: {said}."
