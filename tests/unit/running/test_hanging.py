"""A test that no exception can end fails and ends the run, which names it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.running import hanging

hanging.AFTER_S = 0.5

def pytest_configure(config):
    config.pluginmanager.register(hanging)
"""
TESTS = """
import time

import pytest

def wait_for_ever():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

@pytest.fixture
def deaf():
    yield
    wait_for_ever()

@pytest.mark.timeout(1)
@pytest.mark.xdist_group("one")
def test_deaf(deaf):
    {in_call}

@pytest.mark.xdist_group("one")
def test_after():
    pass

@pytest.mark.xdist_group("two")
def test_sound():
    pass
"""


@pytest.mark.parametrize("in_call", ["wait_for_ever()", "assert False", "pass"])
def test_a_hanging_test_fails_and_its_stacks_are_printed(in_call: str, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_these.py").write_text(TESTS.format(in_call=in_call))
    options = ["-n2", "--dist", "loadgroup", "--max-worker-restart", "0", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    run = subprocess.run(
        command,
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == 1, run.stdout
    assert "crashed while running 'test_these.py::test_deaf@one'" in run.stdout
    assert "in wait_for_ever" in run.stderr
