"""Oracles that must not ask what they judge: nothing of `federator.placement` is imported by
them.
"""

import ast
from pathlib import Path

import pytest

ORACLES = (
    "availability.py",
    "booked.py",
    "charges.py",
    "confined.py",
    "daemonrules.py",
    "shardruns.py",
)


@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_does_not_import_what_it_judges(name: str) -> None:
    tree = ast.parse(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    found = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    found += [
        one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names
    ]

    assert not [module for module in found if module.startswith("federator.placement")]
