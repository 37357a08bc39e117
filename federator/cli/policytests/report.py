"""The results of policy tests as text and as JUnit XML: the same bytes for the same tests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from federator.cli.policytests.checking import CaseResult
from federator.model import plaintext
from federator.model.plaintext import counted

WHY_SHOWN: Final = 10
"""Sentences that are shown of one difference."""
WARNINGS_SHOWN: Final = 5
UNREADABLE: Final = "(read the file)"
"""The name of the test case of a file that cannot be read."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcomes of one file. With `problems` it could not be read."""

    file: str
    outcomes: tuple[tuple[str, CaseResult], ...] = ()
    """(name, outcome) of each test."""
    problems: tuple[str, ...] = ()


def lines(ran: Ran) -> Iterator[str]:
    """The results of one file, without its problems."""
    if ran.outcomes:
        yield plaintext.visible(ran.file)
    for name, outcome in ran.outcomes:
        word = "ok   " if outcome.passed else "ERROR" if outcome.problems else "FAIL "
        yield f"  {word}  {plaintext.visible(name)}"
        yield from (f"         {line}" for line in details(outcome))


def details(outcome: CaseResult) -> Iterator[str]:
    """What differs, line by line: `-` is expected, `+` is decided."""
    for problem in outcome.problems:
        yield plaintext.visible(problem)
    for difference in outcome.differences:
        yield plaintext.visible(f"{difference.title} ({difference.path})")
        for row in difference.rows:
            yield plaintext.visible(f"  - {row.field}: {row.expected}")
            yield plaintext.visible(f"  + {row.field}: {row.decided}")
        for sentence in difference.why[:WHY_SHOWN]:
            yield plaintext.visible(f"  why: {sentence}")
        if len(difference.why) > WHY_SHOWN:
            yield f"  ... and {len(difference.why) - WHY_SHOWN} more"
    for warning in outcome.warnings[:WARNINGS_SHOWN]:
        yield plaintext.visible(f"warning: {warning}")
    if len(outcome.warnings) > WARNINGS_SHOWN:
        yield f"... and {len(outcome.warnings) - WARNINGS_SHOWN} more warnings"


def summary(every: Sequence[Ran]) -> str:
    """`5 tests in 4 files: 3 passed, 1 failed, 1 error`, and files that cannot be read."""
    outcomes = [outcome for ran in every for _, outcome in ran.outcomes]
    files = sum(bool(ran.outcomes) for ran in every)
    passed = sum(outcome.passed for outcome in outcomes)
    broken = sum(bool(outcome.problems) for outcome in outcomes)
    unread = sum(bool(ran.problems) for ran in every)
    text = (
        f"{counted(len(outcomes), 'test', 'tests')} in {counted(files, 'file', 'files')}:"
        f" {passed} passed, {len(outcomes) - passed - broken} failed"
    )
    text += f", {counted(broken, 'error', 'errors')}" if broken else ""
    if unread:
        text += f"; {counted(unread, 'file', 'files')} cannot be read"
    return text


def failed(every: Sequence[Ran]) -> bool:
    return any(
        ran.problems or not all(outcome.passed for _, outcome in ran.outcomes) for ran in every
    )


def junit(every: Sequence[Ran]) -> bytes:
    """The results as CI systems read them. A file that cannot be read is an error of its suite."""
    root = ElementTree.Element("testsuites", name="federator test")
    for ran in every:
        suite = ElementTree.SubElement(root, "testsuite", name=plaintext.visible(ran.file))
        for name, outcome in ran.outcomes:
            _case(suite, name, outcome)
        if ran.problems:
            _case(suite, UNREADABLE, CaseResult(problems=ran.problems))
        _count(suite)
    _count(root)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(suite: ElementTree.Element, name: str, outcome: CaseResult) -> None:
    shown = plaintext.visible(name)
    case = ElementTree.SubElement(suite, "testcase", classname=suite.get("name", ""), name=shown)
    if outcome.passed:
        return
    kind = "error" if outcome.problems else "failure"
    message = plaintext.visible(_first(outcome))
    ElementTree.SubElement(case, kind, message=message).text = "\n".join(details(outcome))


def _first(outcome: CaseResult) -> str:
    """The first thing that is wrong, in one line."""
    if outcome.problems:
        return outcome.problems[0]
    difference = outcome.differences[0]
    row = difference.rows[0]
    return f"{difference.title}: {row.field}: expected {row.expected}, decided {row.decided}"


def _count(element: ElementTree.Element) -> None:
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error")):
        element.set(name, str(sum(1 for _ in element.iter(tag))))
