"""Ends a test process that hangs where pytest-timeout cannot end the test.

pytest-timeout raises an exception in the main thread, once for each test. A test that suppresses it, a
fixture that then waits for ever, or a call that never returns to the interpreter holds the whole run.
This plugin arms the watchdog thread of `faulthandler` for each test, `AFTER_S` seconds behind the
timeout of pytest-timeout: it prints the stacks of all threads and exits the process. xdist reports the
test as failed, and the Makefile lets it end the run.
"""

import faulthandler
import os
import sys
from typing import Final

import pytest

AFTER_S: Final = 90.0
"""Seconds for the fixtures of a test that timed out: they end servers and hubs one after another."""
STDERR: Final = pytest.StashKey[int]()
"""The terminal's, because pytest replaces the standard one while a test runs."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else -1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _arm(item.config, _timeout_s(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    _arm(item.config, _timeout_s(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Armed anew for each phase: pytest disarms the watchdog when a phase fails."""
    _arm(item.config, _timeout_s(item))


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish() -> None:
    faulthandler.cancel_dump_traceback_later()


def _arm(config: pytest.Config, limit_s: float) -> None:
    if limit_s:
        faulthandler.dump_traceback_later(limit_s + AFTER_S, exit=True, file=config.stash[STDERR])


def _timeout_s(item: pytest.Item) -> float:
    """The seconds that pytest-timeout gives this test; 0 without a timeout."""
    given = item.config.getoption("timeout")
    if (marker := item.get_closest_marker("timeout")) is not None:
        given = marker.args[0] if marker.args else marker.kwargs["timeout"]
    return float((item.config.getini("timeout") if given is None else given) or 0)
