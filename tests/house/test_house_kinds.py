"""A workload kind is known by its name in its own folder only: elsewhere the kind is asked
(`kinds.verbs`).
"""

import ast
import re
from functools import cache
from typing import get_args

import pytest

from federator.api import common
from federator.api.placement.placementpolicy import KindName
from federator.kinds import natives, registry
from tests.house import sources

NAMED = re.compile(
    r"Pinterest[A-Z][A-Za-z]+|pinterest(?:service|jobset|cronjob|daemon|trainingjob|statefulset)s"
)
ALLOWED = {
    "federator/api/common.py": (
        "what a cluster serves when nobody asked it: `api` lies below the kinds; compared below"
    ),
    "federator/api/placement/placementpolicy.py": (
        "the kinds that a policy may name, in a published CRD"
    ),
    "federator/advice/facts.py": "advises people to use that kind",
    "federator/advice/headroom.py": "asks for copies as a service of so many would",
    "federator/scheduling/refusals.py": "advises people to use that kind",
    "federator/convert/": "makes objects of exactly these kinds",
    "federator/simulate/": "takes the services and the jobs of a recorded demand for these kinds",
}
"""File or folder outside kinds/ that names kinds -> why it may. Shrinks only."""
MADE_OF = {
    ("cronjob", "jobset"): "its runs are job sets, and its template has their spec",
    ("cronjob", "nativecron"): "its clusters run it as one",
    ("nativecron", "jobset"): "each of its runs is made as the Job of a job set",
}
"""(kind, kind whose folder it imports) -> why."""


def _texts(source: sources.Source) -> list[tuple[int, str]]:
    """(line, text) of what is no docstring: those tell readers which kinds there are."""
    docstrings = {id(node.value) for node in source.nodes if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in source.nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


def _imports(source: sources.Source) -> list[tuple[int, str]]:
    folders = {path.parent.name for path in (sources.PACKAGE / "kinds").glob("*/__init__.py")}
    return [
        (line, module)
        for line, module in source.imports()
        if module.startswith("federator.kinds.")
        and module.split(".")[2] in folders - {"pods", "shared"}
    ]


@cache
def naming() -> dict[str, str]:
    """Module outside kinds/ -> where it first names a workload kind of ours, or imports its
    folder.
    """
    found: dict[str, str] = {}
    for source in sources.all_sources():
        if source.room == "kinds":
            continue
        named = [f"{line}: {text[:60]}" for line, text in _texts(source) if NAMED.search(text)]
        named += [f"{line}: imports {module}" for line, module in _imports(source)]
        if named:
            found[source.name] = named[0]
    return found


def test_no_kind_is_known_by_name_outside_its_folder() -> None:
    wrong = {name: where for name, where in naming().items() if not name.startswith(tuple(ALLOWED))}

    assert not wrong


@pytest.mark.parametrize("place", ALLOWED)
def test_every_leave_to_name_kinds_is_used(place: str) -> None:
    assert any(name.startswith(place) for name in naming())


def test_adding_a_kind_is_a_folder_and_a_line() -> None:
    """Inside kinds/ too only the registry and the kind itself import a kind's folder."""
    wrong = [
        f"{source.name}:{line} imports {module}"
        for source in sources.all_sources()
        if source.room == "kinds" and source.name != "federator/kinds/registry.py"
        for line, module in _imports(source)
        if (own := source.path.parent.name) != (other := module.split(".")[2])
        and (own, other) not in MADE_OF
    ]

    assert not wrong


def test_lists_below_the_kinds_have_every_kind() -> None:
    assert {row.qualified for row in registry.WORKLOADS.values()} == common.WORKLOAD_APIS
    assert {natives.qualified(kind) for kind in natives.OF_OPERATORS} == common.OPERATOR_APIS
    assert set(registry.WORKLOADS) <= set(get_args(KindName))
