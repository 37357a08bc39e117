"""The threat model names tests that exist, one at least for each attack: "a line without a test is
a defect".
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT

TESTS = ROOT / "tests"
TEXT = (ROOT / "docs" / "internals" / "threat-model.md").read_text(encoding="utf-8")
REFERENCE = re.compile(r"`(?:tests/)?([\w/]+\.py)?(?:::(\w+))?`")


def attacks() -> Iterator[tuple[str, str]]:
    """(attack, what is said of its test), of every table whose last column is the test."""
    is_of_attacks = False
    for line in TEXT.splitlines():
        cells = (
            [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        )
        if len(cells) != 3 or set(line) <= set("|- "):
            continue
        if cells[0] == "Attack":
            is_of_attacks = cells[2].strip(" |") == "Test"
        elif is_of_attacks and cells[0] != "Act":
            yield cells[0], cells[2]
        else:
            is_of_attacks = False


def references() -> list[tuple[str, tuple[str, ...]]]:
    """(attack, tests as `file` or `file::name`); `::name` is of the file before it, `the same` of
    the row before.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    file = ""
    before: tuple[str, ...] = ()
    for attack, cell in attacks():
        tests = []
        for path, name in REFERENCE.findall(cell):
            if path or name:
                file = path or file
                tests.append(f"{file}::{name}" if name else file)
        before = (*before, *tests) if cell.startswith("the same") else tuple(tests)
        found.append((attack, before))
    return found


@functools.cache
def _tests_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def _exists(reference: str) -> bool:
    file, _, name = reference.partition("::")
    paths = [TESTS / file] if (TESTS / file).is_file() else sorted(TESTS.rglob(file))
    return len(paths) == 1 and (not name or name in _tests_of(paths[0]))


@pytest.mark.parametrize(("attack", "tests"), references(), ids=lambda value: str(value)[:60])
def test_every_attack_of_the_threat_model_names_tests_that_exist(
    attack: str, tests: tuple[str, ...]
) -> None:
    assert tests, attack
    assert not [name for name in tests if not _exists(name)], attack


def test_the_threat_model_is_read_whole() -> None:
    assert len(references()) > 60
