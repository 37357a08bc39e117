"""A test that no exception can end fails, and the run goes on without it."""

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
def test_deaf():
    wait_for_ever()

@pytest.mark.timeout(1)
def test_deaf_fixture(deaf):
    assert False

def test_sound():
    pass
"""


def test_a_hanging_test_fails_alone_and_its_stacks_are_printed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_these.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-n1", "-p", "no:cacheprovider", str(tmp_path)]
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
    assert "3 failed, 1 passed" in run.stdout, "a failed test whose fixture hangs is two failures"
    assert "crashed while running 'test_these.py::test_deaf'" in run.stdout
    assert "crashed while running 'test_these.py::test_deaf_fixture'" in run.stdout
    assert "in wait_for_ever" in run.stderr
