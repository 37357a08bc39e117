"""Words: a name says what a thing is."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.house import sources

SAY_NOTHING = {"one", "ones", "found", "told"}
"""Whatever a loop meets is `one`, whatever a call returns is `found`, whatever another process wrote
is `told`: a reader has to look up what it is.
"""
PERSONS = re.compile(r"\b(?:who|whose|whom|whoever)\b", re.IGNORECASE)
"""Words for persons. A program, an object or a workload is a thing: the text names it, for example
"the caller", "the preemptor", "the account that lends".
"""
MOST_OF_PERSONS = 12
"""Lines of `federator/` with such a word. Lower it when lines go; it never rises. The rest is about
users, operators and owners, and a few lines of `placement`.
"""
TEXTS = {".py", ".j2", ".yaml"}
DECISIONS = ("federator/placement/", "federator/scheduling/")
"""Packages that a reader of one decision has open together: no two classes there share a name."""
OVERUSED = {
    "Charge",
    "Entry",
    "Fleet",
    "Outcome",
    "Refused",
    "Seen",
    "Turn",
    "Verdict",
    "Wanted",
    "World",
}
"""Names that up to nine classes of the package shared: one class each, decision 0270."""
PUBLISHED = {"federator/gateway/api/models.py"}
"""Names of its models stand in the OpenAPI document of the gateway."""


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of everything that a module gives a name to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif (
            isinstance(
                node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler
            )
            and node.name
        ):
            yield node.lineno, node.name


def test_no_name_says_only_that_something_is_one_was_found_or_told() -> None:
    wrong = [
        f"{source.name}:{line} {name}"
        for source in sources.all_sources()
        for line, name in bound(source.tree)
        if name.lstrip("_") in SAY_NOTHING
    ]

    assert not wrong


def test_words_for_persons_are_not_used_of_things() -> None:
    lines = [
        f"{path.relative_to(sources.ROOT)}:{number} {line.strip()}"
        for path in sorted(sources.PACKAGE.rglob("*"))
        if path.suffix in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PERSONS.search(line)
    ]

    assert len(lines) <= MOST_OF_PERSONS, "\n".join(lines)


def test_a_class_name_of_the_decisions_has_one_meaning() -> None:
    named = Counter(
        node.name
        for source in sources.all_sources()
        if source.name.startswith(DECISIONS)
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    )

    assert [name for name, count in named.items() if count > 1] == []


def test_words_that_had_many_meanings_have_one() -> None:
    named = Counter(
        node.name
        for source in sources.all_sources()
        if source.name not in PUBLISHED
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and node.name in OVERUSED
    )

    assert [name for name, count in named.items() if count > 1] == []
