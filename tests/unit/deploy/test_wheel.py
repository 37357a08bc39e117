"""The wheel: it says that it is typed, carries its licence and its data, and nothing that only the
project uses.
"""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the wheel that this checkout makes."""
    pytest.importorskip(
        "hatchling",
        reason="hatchling is not installed here: run `make`, which installs the dev lock",
    )
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=TOP, check=True, timeout=60, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return set(opened.namelist())


def test_the_wheel_has_every_file_of_the_package_and_says_that_it_is_typed(names: set[str]) -> None:
    package = {
        str(path.relative_to(TOP))
        for path in (TOP / "federator").rglob("*")
        if path.is_file() and not {"__pycache__", ".ruff_cache"} & set(path.parts)
    }

    assert "federator/py.typed" in names
    assert package - names == set()


def test_the_wheel_carries_licence_and_notice_and_nothing_else(names: set[str]) -> None:
    others = {name for name in names if not name.startswith("federator/")}

    assert {name.rpartition("/")[2] for name in others if "/licenses/" in name} == {
        "LICENSE",
        "NOTICE",
    }
    assert {name.partition("/")[0] for name in others} == {next(iter(others)).partition("/")[0]}


def test_the_notice_names_every_file_of_data_that_is_not_ours() -> None:
    notice = (TOP / "NOTICE").read_text(encoding="utf-8")
    data = [str(path.relative_to(TOP)) for path in (TOP / "federator").rglob("*.gz")]

    assert len(data) > 2
    assert [path for path in data if path not in notice] == []


@pytest.mark.parametrize("file", ["Dockerfile", "deploy/runtime/Dockerfile"])
def test_the_image_is_given_what_the_wheel_is_made_of(file: str) -> None:
    copied = (TOP / file).read_text(encoding="utf-8")
    ignored = (TOP / ".dockerignore").read_text(encoding="utf-8").splitlines()
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]

    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", *wheel["force-include"]):
        assert name in copied
        assert f"!{name}" in ignored
