"""What a module of tests leaves behind in its process is found, named and put back."""

import asyncio
import gc
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.running import leaving

ROOT = Path(__file__).parents[3]
LOGGER = logging.getLogger("federator.test.leaving")


def _fewer_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))


LEFT: dict[str, Callable[[], object]] = {
    "level, propagation or state of a logger: federator.test.leaving": lambda: LOGGER.setLevel(
        logging.ERROR
    ),
    "level, propagation or state of a logger: root": lambda: logging.root.setLevel(logging.DEBUG),
    "level below which logging is disabled": lambda: logging.disable(logging.WARNING),
    "handler of the root logger": lambda: logging.root.addHandler(logging.NullHandler()),
    "whether the garbage collector runs": gc.disable,
    "thresholds of the garbage collector": lambda: gc.set_threshold(7, 7, 7),
    "variable of the environment: FEDERATOR_LEFT": lambda: os.environ.update(FEDERATOR_LEFT="1"),
    "variable of the environment: PATH": lambda: os.environ.pop("PATH"),
    "working directory": lambda: os.chdir("/"),
    f"handler of a signal: {signal.SIGUSR1.value}": lambda: signal.signal(
        signal.SIGUSR1, signal.SIG_IGN
    ),
    "policy of event loops": lambda: asyncio.set_event_loop_policy(
        asyncio.DefaultEventLoopPolicy()
    ),
    "limit of open files": _fewer_files,
    "trace or profile function": lambda: sys.setprofile(lambda *_given: None),
}


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_is_named_and_put_back(what: str) -> None:
    before = leaving.state()
    LEFT[what]()

    (said,) = leaving.left(before)

    assert said.startswith(what)
    assert leaving.left(before) == []


def test_nothing_is_said_of_what_is_as_before() -> None:
    before = leaving.state()
    with leaving.put_back():
        gc.set_threshold(7, 7, 7)

    assert leaving.left(before) == []


def test_a_new_logger_has_the_level_that_its_module_gives() -> None:
    before = leaving.state()
    logging.getLogger("federator.test.leaving.new").setLevel(logging.ERROR)

    assert leaving.left(before) == []


MODULE = """
import gc

def test_that_leaves():
    gc.set_threshold(7, 7, 7)

def test_last():
    pass
"""


@pytest.mark.e2e
def test_the_last_test_of_a_module_fails_for_what_the_module_leaves(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_one.py").write_text(MODULE)
    (tmp_path / "test_two.py").write_text("def test_after():\n    pass\n")
    options = ["-p", "tests.running.leaving", "-p", "no:cacheprovider", "-p", "no:schemathesis"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(tmp_path)],
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout
    assert "ERROR at teardown of test_" in run.stdout
    assert "a test of test_one.py left behind: thresholds of the garbage collector" in run.stdout
    assert "3 passed, 1 error" in run.stdout
