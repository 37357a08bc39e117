"""Words: a name says what a thing is."""

import ast
from collections.abc import Iterator

from tests.house import sources

SAY_NOTHING = {"one", "ones", "found", "told"}
"""Whatever a loop meets is `one`, whatever a call returns is `found`, whatever another process wrote
is `told`: a reader has to look up what it is.
"""


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
