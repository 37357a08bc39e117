"""Directories with policy tests, for the tests of `federator test`."""

from pathlib import Path
from typing import Any

import yaml

from tests.unit.cli.files import member, psvc, run

FLEET = [member("a"), member("b")]
HALVES = {"workload": "psvc/web", "clusters": {"a": 2, "b": 2}}


def suite(folder: Path, *tests: dict[str, Any], name: str = "web.yaml", **fields: Any) -> str:
    """Writes a test file on two clusters and the service `web`; returns the directory."""
    whole = {"namespace": "feed", "fixtures": [*FLEET, psvc()], **fields}
    whole["tests"] = [{"name": f"test {number}", **test} for number, test in enumerate(tests, 1)]
    return suite_of(folder, whole, name)


def suite_of(folder: Path, document: Any, name: str = "web.yaml") -> str:
    (folder / name).write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return str(folder)


def placed(folder: Path, *expected: dict[str, Any], **fields: Any) -> str:
    return suite(folder, {"placements": list(expected)}, **fields)


def planned(folder: Path, plan: dict[str, Any], expect: dict[str, Any], **fields: Any) -> str:
    return suite(folder, {"plan": {**plan, "expect": expect}}, **fields)


def refused(folder: Path, obj: Any, *, fixtures: list[Any] | None = None, **expect: Any) -> str:
    test = {"fixtures": fixtures or [], "refusals": [{"object": obj, **expect}]}
    return suite(folder, test)


def failing(folder: str) -> list[str]:
    """The lines below a failed test."""
    done = run("test", folder)
    assert (done.exit_code, done.stderr) == (1, ""), done.output
    return [line.strip() for line in done.stdout.splitlines()[2:-1]]


def error(folder: str) -> str:
    """What is said of a file that cannot be read."""
    done = run("test", folder)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: "), done.output
    assert "1 file cannot be read" in done.stdout
    return done.stderr.replace(f"{folder}/", "").removeprefix("error: ").strip()
