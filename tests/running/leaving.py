"""Modules of tests leave their process as they found it.

A later test must not depend on what an earlier one left behind: the level of a logger, a collector that
is off, a changed environment. This plugin compares the state of the process at the begin and at the end of
each module. What differs fails the last test of the module, by the name of what was left, and is put
back, so that it is reported once.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final

import pytest

CURRENT: Final = "PYTEST_CURRENT_TEST"
"""Pytest's own: it changes with every phase of a test."""
SIGNALS: Final = sorted(signal.valid_signals() - {signal.SIGALRM})
"""Without that of pytest-timeout, which sets its handler for each test."""


def _levels() -> dict[str, tuple[int, bool, bool]]:
    """Of every logger with its name; the root's is ""."""
    loggers = {
        name: logger
        for name, logger in logging.root.manager.loggerDict.copy().items()
        if isinstance(logger, logging.Logger)
    }
    return {
        name: (logger.level, logger.propagate, logger.disabled)
        for name, logger in ({"": logging.root} | loggers).items()
    }


def _restore_levels(before: Mapping[str, tuple[int, bool, bool]]) -> None:
    for name, (level, propagate, disabled) in before.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled


def _outputs() -> list[logging.Handler]:
    """Where records go, without pytest's own, which come and go with each phase of a test."""
    return [
        handler
        for handler in logging.root.handlers
        if not type(handler).__module__.startswith("_pytest.")
    ]


def _restore_outputs(before: list[logging.Handler]) -> None:
    others = _outputs()
    kept = [handler for handler in logging.root.handlers if handler not in others]
    logging.root.handlers[:] = [*before, *kept]


def _restore_collector(before: bool) -> None:
    (gc.enable if before else gc.disable)()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != CURRENT}


def _restore_environment(before: Mapping[str, str]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "a folder that is gone"


def _handlers() -> dict[str, Any]:
    return {str(number): signal.getsignal(number) for number in SIGNALS}


def _restore_handlers(before: Mapping[str, Any]) -> None:
    for number in SIGNALS:
        handler = before[str(number)]
        if handler is not None and handler is not signal.getsignal(number):
            signal.signal(number, handler)


def _restore_hooks(before: tuple[Any, Any]) -> None:
    sys.settrace(before[0])
    sys.setprofile(before[1])


def _policy() -> asyncio.AbstractEventLoopPolicy:
    return asyncio.get_event_loop_policy()


LOOKS: Final[Mapping[str, tuple[Callable[[], Any], Callable[[Any], object]]]] = {
    "level, propagation or state of a logger": (_levels, _restore_levels),
    "level below which logging is disabled": (
        lambda: logging.root.manager.disable,
        logging.disable,
    ),
    "handler of the root logger": (_outputs, _restore_outputs),
    "whether the garbage collector runs": (gc.isenabled, _restore_collector),
    "thresholds of the garbage collector": (
        gc.get_threshold,
        lambda before: gc.set_threshold(*before),
    ),
    "variable of the environment": (_environment, _restore_environment),
    "working directory": (_directory, os.chdir),
    "handler of a signal": (_handlers, _restore_handlers),
    "policy of event loops": (_policy, asyncio.set_event_loop_policy),
    "limit of open files": (
        lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
        lambda before: resource.setrlimit(resource.RLIMIT_NOFILE, before),
    ),
    "time zone": (lambda: time.tzname, lambda before: time.tzset()),
    "trace or profile function": (
        lambda: (sys.gettrace(), sys.getprofile()),
        _restore_hooks,
    ),
}
"""How each part of the state is read, and put back."""


def state() -> dict[str, Any]:
    """The state of this process that tests share."""
    return {what: look() for what, (look, _) in LOOKS.items()}


def left(before: Mapping[str, Any]) -> list[str]:
    """What differs from the state `before`, a sentence each; it is put back. A logger that did not
    exist then has been given its level by its own module.
    """
    found = []
    for what, (look, restore) in LOOKS.items():
        former, now = before[what], look()
        if isinstance(former, dict):
            names = former if what.endswith("logger") else former.keys() | now.keys()
            changed = sorted(name for name in names if former.get(name) != now.get(name))
            sentences = [
                f"{what}: {name or 'root'} is {now.get(name)!r}, not {former.get(name)!r}"
                for name in changed
            ]
        else:
            sentences = [f"{what}: {now!r}, not {former!r}"] if now != former else []
        if sentences:
            found += sentences
            with contextlib.suppress(OSError, ValueError):
                restore(former)
    return found


@contextlib.contextmanager
def put_back() -> Iterator[None]:
    """What a test of these settings changes is as before afterwards."""
    before = state()
    try:
        yield
    finally:
        left(before)


BEGUN: Final = pytest.StashKey[dict[str, Any]]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    if BEGUN not in item.session.stash:
        item.session.stash[BEGUN] = state()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After the fixtures of the module: they have put back what was theirs."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        before = item.session.stash[BEGUN]
        del item.session.stash[BEGUN]
        if found := left(before):
            pytest.fail(
                f"a test of {item.path.name} left behind: " + "; ".join(found), pytrace=False
            )
    return result
