"""Sizes that a reader can take in, by percentiles: half of the files, functions and folders stay
small, and few are large. No single file has a limit, because a limit becomes a target.

The largest are listed by name. A list only gets shorter: a file that belongs together may be large
when another one that was large is split by subject. Bounds only fall. Decision 0193.
"""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.house import sources


class Bounds(NamedTuple):
    """What at most half, and at most nine of ten, may have."""

    median: int
    p90: int


FILES = {"federator": Bounds(166, 400), "tests": Bounds(155, 370)}
"""Lines of a file, `__init__.py` not counted."""
FUNCTIONS = Bounds(8, 24)
"""Lines of a function of the product, with its signature."""
FOLDERS = Bounds(8, 14)
"""Modules of a folder of the product."""
SLACK = 0.05
"""A bound that is further above what is measured is to be lowered."""
LARGE_FILE = 550
LARGE_FUNCTION = 55
LARGE_FOLDER = 14
"""Above these, a file, function or folder has to be listed."""
COLUMNS = 100
"""The line length that ruff holds, but for comments to tools and addresses, which cannot be broken.
"""
ADDRESS = re.compile(r"# (noqa|type:|pylint)|https?://")
"""What cannot be broken: comments to tools, and addresses."""
LINE_MAX = 120
"""For the tests, whose tables of text and names may be wider than their code."""
NAME_MAX = 84
"""Characters of a function's name: with `def`, no arguments and its type it fills a line."""
LARGEST_FILES = {
    "federator/api/federatedquota.py",
    "federator/hub/cache/state.py",
    "federator/hub/placing/placer.py",
    "federator/kube/client.py",
    "federator/member/expansion/comparing.py",
    "federator/member/expansion/expanding.py",
    "federator/placement/room/columns.py",
    "federator/placement/room/nodes.py",
    "federator/placement/verdicts.py",
    "federator/scheduling/cycle.py",
    "federator/simulate/report/figures.py",
    "federator/status/verdict.py",
    "tests/unit/query/test_query_port.py",
    "tests/e2e/deployed_story.py",
    "tests/e2e/lives_of_kinds.py",
    "tests/e2e/test_documents.py",
    "tests/simulation/invariants.py",
    "tests/simulation/mutations.py",
    "tests/simulation/rest.py",
    "tests/unit/api/test_verbs.py",
    "tests/unit/cli/test_explaining.py",
    "tests/unit/cli/test_simulate.py",
    "tests/unit/hub/test_edits.py",
    "tests/unit/hub/test_reclaim.py",
    "tests/unit/hub/test_removing.py",
    "tests/unit/kinds/test_convert_services.py",
    "tests/unit/kinds/test_natives.py",
    "tests/unit/placement/test_engine.py",
    "tests/unit/placement/test_leaving.py",
    "tests/unit/simulate/test_recordings.py",
    "tests/unit/status/test_fold.py",
}
LARGEST_FUNCTIONS = {
    "federator/api/placement/placementdecision.py::to_spec",
    "federator/cli/clusters/joining.py::hub_account",
    "federator/cli/explain.py::gathered",
    "federator/cli/files/crd.py::install",
    "federator/cli/planning/simulate.py::simulate",
    "federator/convert/jobs.py::_draft",
    "federator/hub/dispatch/dispatcher.py::Dispatching._do",
    "federator/hub/host/events.py::Events.placed",
    "federator/kube/watch/reflector.py::Reflector.__init__",
    "federator/member/process.py::MemberProcess.__init__",
    "federator/scheduling/editing.py::decide",
    "federator/simulate/report/charts.py::heat",
    "federator/simulate/report/forms.py::document",
    "federator/status/fold.py::_shards",
}
LARGEST_FOLDERS = {
    "federator/api",
    "federator/convert",
    "federator/embedded/rest",
    "federator/embedded/validation",
    "federator/model",
    "federator/placement/room",
    "federator/scheduling",
    "federator/scheduling/admission",
}
LISTED = (31, 14, 8)
"""How long the three lists may be. Only falls."""


def percentile(sizes: Sequence[int], part: float) -> int:
    """The size that this part of them does not exceed."""
    return sorted(sizes)[min(int(len(sizes) * part), len(sizes) - 1)]


def measured(sizes: Sequence[int]) -> Bounds:
    return Bounds(percentile(sizes, 0.5), percentile(sizes, 0.9))


def files(part: str) -> dict[str, int]:
    """File -> its lines, of the product or of everything else."""
    return {
        name: path.read_text(encoding="utf-8").count("\n")
        for path in sources.all_files()
        if path.name != "__init__.py"
        for name in [str(path.relative_to(sources.ROOT))]
        if name.startswith("federator/") is (part == "federator")
    }


def functions() -> dict[str, int]:
    """Module and function -> its lines."""

    def within(node: ast.AST, path: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from within(child, path)
                continue
            name = f"{path}.{child.name}" if path else child.name
            if not isinstance(child, ast.ClassDef):
                yield name, (child.end_lineno or child.lineno) - child.lineno + 1
            yield from within(child, name)

    return {
        f"{source.name}::{name}": lines
        for source in sources.all_sources()
        for name, lines in within(source.tree, "")
    }


def folders() -> dict[str, int]:
    """Folder -> its modules."""
    return Counter(
        str(source.path.parent.relative_to(sources.ROOT))
        for source in sources.all_sources()
        if source.path.name != "__init__.py"
    )


@pytest.mark.parametrize("part", FILES)
def test_files_stay_small(part: str) -> None:
    found, bounds = measured(list(files(part).values())), FILES[part]
    assert found.median <= bounds.median
    assert found.p90 <= bounds.p90


def test_functions_stay_small() -> None:
    found = measured(list(functions().values()))
    assert found.median <= FUNCTIONS.median
    assert found.p90 <= FUNCTIONS.p90


def test_folders_stay_small() -> None:
    found = measured(list(folders().values()))
    assert found.median <= FOLDERS.median
    assert found.p90 <= FOLDERS.p90


def test_bounds_fall_with_what_they_bound() -> None:
    pairs = [
        (measured(list(files("federator").values())), FILES["federator"]),
        (measured(list(files("tests").values())), FILES["tests"]),
        (measured(list(functions().values())), FUNCTIONS),
        (measured(list(folders().values())), FOLDERS),
    ]
    assert [
        (found, bounds)
        for found, bounds in pairs
        if any(
            bound > size + max(1, size * SLACK) for size, bound in zip(found, bounds, strict=True)
        )
    ] == []


def test_the_largest_files_are_listed() -> None:
    every = files("federator") | files("tests")
    assert {name for name, lines in every.items() if lines > LARGE_FILE} == LARGEST_FILES


def test_the_largest_functions_are_listed() -> None:
    found = {name for name, lines in functions().items() if lines > LARGE_FUNCTION}
    assert found == LARGEST_FUNCTIONS


def test_the_largest_folders_are_listed() -> None:
    assert {name for name, many in folders().items() if many > LARGE_FOLDER} == LARGEST_FOLDERS


def test_the_lists_of_the_largest_only_get_shorter() -> None:
    assert (len(LARGEST_FILES), len(LARGEST_FUNCTIONS), len(LARGEST_FOLDERS)) == LISTED


def test_no_name_is_longer_than_the_line_it_is_defined_on() -> None:
    long = [
        node.name
        for source in sources.all_sources()
        for node in source.nodes
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
