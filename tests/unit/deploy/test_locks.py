"""The locks: everything that is installed is named by version and hash, and is what pyproject.toml
asks for.
"""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TOP = Path(__file__).parents[3]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
RUN = PROJECT["project"]["dependencies"]
BUILD = PROJECT["dependency-groups"]["build"]
DEV = [line for line in PROJECT["dependency-groups"]["dev"] if isinstance(line, str)]
RUNTIME = PROJECT["dependency-groups"]["runtime"]
ASKED = {"run": RUN, "build": BUILD, "runtime": RUNTIME, "dev": [*RUN, *BUILD, *DEV]}


def locked(name: str) -> dict[str, set[str]]:
    """Package -> the versions in that lock (several where they differ by Python version)."""
    found: dict[str, set[str]] = {}
    for entry in re.split(
        r"\n(?=\S)", (TOP / "deploy/locks" / f"{name}.txt").read_text(encoding="utf-8").strip()
    ):
        matched = re.match(r"([a-zA-Z0-9._-]+)==([^ ;]+)", entry)
        assert matched, entry[:80]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), f"{matched[0]} has no hash"
        found.setdefault(canonicalize_name(matched[1]), set()).add(matched[2])
    return found


@pytest.mark.parametrize("name", ASKED)
def test_the_lock_has_what_pyproject_asks_for(name: str) -> None:
    found = locked(name)
    for line in ASKED[name]:
        wanted = Requirement(line)
        versions = found.get(canonicalize_name(wanted.name), set())
        assert versions, f"{wanted.name} is not in deploy/locks/{name}.txt: run `make lock`"
        assert all(wanted.specifier.contains(version) for version in versions), (
            f"{line}: locked is {versions}"
        )


def test_what_runs_is_what_was_tested() -> None:
    run, dev = locked("run"), locked("dev")
    assert {name: dev.get(name) for name in run} == run


def test_what_runs_in_pods_is_what_runs_elsewhere() -> None:
    pods, run = locked("runtime"), locked("run")
    assert {name: run.get(name) for name in pods} == pods


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/runtime/Dockerfile"])
def test_the_images_install_by_hash_only(file: str) -> None:
    lines = (TOP / file).read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    installs = re.findall(
        r"pip install ([^&|]+)", "\n".join(line for line in lines if not line.startswith("#"))
    )
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-deps --no-index" in line for line in installs)
