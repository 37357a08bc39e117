"""Rooms a reader can take in: files of at most 600 lines, functions of at most 60, each saying what
it is for.
"""

import ast
import re
import tomllib

from tests.house import sources

FILE_MAX = 600
FUNCTION_MAX = 60
COLUMNS = 100
"""The line length that ruff holds, but for comments to tools and addresses, which cannot be broken.
"""
ADDRESS = re.compile(r"# (noqa|type:|pylint)|https?://")
"""What cannot be broken: comments to tools, and addresses."""
LINE_MAX = 120
"""For the tests, whose tables of text and names may be wider than their code."""
NAME_MAX = 84
"""Characters of a function's name: with `def`, no arguments and its type it fills a line."""
LONG_FILES = {"tests/unit/hub/test_edits.py"}
LONG_FUNCTIONS: set[tuple[str, str]] = set()
"""Longer since code stands in 100 columns. Both lists only get shorter."""


def test_no_file_is_longer_than_its_reader_can_hold() -> None:
    long = {
        str(path.relative_to(sources.ROOT))
        for path in sources.all_files()
        if path.read_text(encoding="utf-8").count("\n") > FILE_MAX
    }

    assert long == LONG_FILES


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        (str(source.path.relative_to(sources.ROOT)), node.name)
        for source in sources.all_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= FUNCTION_MAX
    }

    assert long == LONG_FUNCTIONS


def test_no_name_is_longer_than_the_line_it_is_defined_on() -> None:
    long = [
        node.name
        for source in sources.all_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(node.name) > NAME_MAX
    ]

    assert not long


def test_every_module_says_what_lives_in_it() -> None:
    silent = [
        source.name
        for source in sources.all_sources()
        if not ast.get_docstring(source.tree)
        and source.text.strip()
        and source.path.name != "__init__.py"
    ]

    assert not silent


def test_no_marker_of_unfinished_work_is_left() -> None:
    words = ("TODO", "FIXME", "XXX", "HACK")
    left = [
        f"{source.name}:{number}"
        for source in sources.all_sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if any(f"{word}" in line.split() or f"{word}:" in line for word in words)
    ]

    assert not left


def test_no_line_is_too_long() -> None:
    long = [
        f"{source.name}:{number}"
        for source in sources.all_sources()
        for number, line in enumerate(source.text.splitlines(), 1)
        if len(line) > (LINE_MAX if "tests" in source.path.parts else COLUMNS)
        and not ADDRESS.search(line)
    ]

    assert not long


def test_no_folder_is_wider_than_the_project() -> None:
    project = tomllib.loads((sources.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    own = [
        tomllib.loads(path.read_text(encoding="utf-8"))
        for folder in ("federator", "tests")
        for path in (sources.ROOT / folder).rglob("ruff.toml")
    ]

    assert project["tool"]["ruff"]["line-length"] == COLUMNS
    assert not [rules for rules in own if "line-length" in rules]
