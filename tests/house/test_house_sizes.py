"""Rooms a reader can take in: files of at most 600 lines, functions of at most 60, each saying what it is for."""

import ast
import tomllib

from tests.house import sources

FILE_MAX = 600
FUNCTION_MAX = 60
COLUMNS = 100
"""The line length that ruff holds, but for comments to tools and addresses, which cannot be broken."""
LINE_MAX = 120
WIDE = ("federator/kinds", "federator/placement", "federator/simulate", "tests")
"""Folders in which ruff still allows LINE_MAX columns, each by a ruff.toml. This list only gets shorter."""


def test_no_file_is_longer_than_its_reader_can_hold() -> None:
    long = [
        f"{path.relative_to(sources.ROOT)}: {lines}"
        for path in sources.all_files()
        if (lines := path.read_text(encoding="utf-8").count("\n")) > FILE_MAX
    ]

    assert not long


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{source.name}:{node.lineno} {node.name}: {size}"
        for source in sources.all_sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_MAX
    ]

    assert not long


def test_every_module_says_what_lives_in_it() -> None:
    silent = [
        source.name
        for source in sources.all_sources()
        if not ast.get_docstring(source.tree) and source.text.strip() and source.path.name != "__init__.py"
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
        if len(line) > LINE_MAX
    ]

    assert not long


def test_only_the_listed_folders_may_be_wider_than_the_project() -> None:
    project = tomllib.loads((sources.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wider = {
        str(path.parent.relative_to(sources.ROOT)): tomllib.loads(path.read_text(encoding="utf-8"))["line-length"]
        for folder in ("federator", "tests")
        for path in (sources.ROOT / folder).rglob("ruff.toml")
    }

    assert project["tool"]["ruff"]["line-length"] == COLUMNS
    assert wider == dict.fromkeys(WIDE, LINE_MAX)
