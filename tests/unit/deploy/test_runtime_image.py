"""The image of pods has what `federator runtime` imports, and nothing is imported that it lacks."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

TOP = Path(__file__).parents[3]
DOCKERFILE = (TOP / "deploy/runtime/Dockerfile").read_text("utf-8")
COMMAND = """
import importlib, pkgutil, sys
import federator.__main__, federator.cli.common, federator.cli.running.runtime
import federator.runtime
for found in pkgutil.walk_packages(federator.runtime.__path__, "federator.runtime."):
    importlib.import_module(found.name)
print("\\n".join(name for name, module in sys.modules.items() if getattr(module, "__file__", None)))
"""
OF_LIBRARIES = {"_cffi_backend": "cffi", "yaml": "pyyaml"}
"""Modules with another name than their package."""


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """All modules that any role or command of the runtime imports."""
    call = [sys.executable, "-c", COMMAND]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=True, cwd=TOP)
    return set(done.stdout.split())


def test_the_image_keeps_every_module_of_ours_that_runs_in_pods(imported: set[str]) -> None:
    ours = {name.split(".")[1] for name in imported if name.startswith("federator.")}
    commands = {name for name in imported if name.startswith("federator.cli.")}

    assert ours - {"__main__"} == {"cli", "model", "runtime"}
    assert all(f"! -name {name}" in DOCKERFILE for name in ("cli", "model", "runtime"))
    assert commands == {
        "federator.cli.common",
        "federator.cli.running",
        "federator.cli.running.runtime",
    }


def test_the_image_has_the_libraries_that_pods_import(imported: set[str]) -> None:
    group = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    named = {line.split(">")[0] for line in group["runtime"]}
    standard = set(sys.stdlib_module_names) | {"federator", "_distutils_hack"}
    found = {name.split(".")[0] for name in imported} - standard
    libraries = {OF_LIBRARIES.get(name, name) for name in found if not name.startswith("__")}

    assert libraries - {"cffi"} == named  # which cryptography brings


def test_what_pods_run_is_what_the_control_plane_runs() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))
    wanted = set(project["dependency-groups"]["runtime"])

    assert wanted <= set(project["project"]["dependencies"])
