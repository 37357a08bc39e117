"""Words: a name says what a thing is."""

import ast
from collections.abc import Iterator

from tests.house import sources

SAY_NOTHING = {"one", "ones", "found"}
"""Whatever a loop meets is `one`, and whatever a call returns is `found`: a reader has to look up
what it is.
"""
STILL = ("federator/kinds/", "federator/placement/", "federator/simulate/")
"""Folders in which such names are left. This list only gets shorter."""


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


def test_no_name_says_only_that_something_is_one_or_was_found() -> None:
    wrong = [
        f"{source.name}:{line} {name}"
        for source in sources.all_sources()
        if not source.name.startswith(STILL)
        for line, name in bound(source.tree)
        if name.lstrip("_") in SAY_NOTHING
    ]

    assert not wrong


def test_a_folder_that_is_through_is_taken_from_the_list() -> None:
    left = {
        folder
        for folder in STILL
        for source in sources.all_sources()
        if source.name.startswith(folder)
        for _, name in bound(source.tree)
        if name.lstrip("_") in SAY_NOTHING
    }

    assert left == set(STILL)
