"""Inside a simulated run nothing is real, and what was patched for it is as before afterwards."""

import asyncio
import concurrent.futures
import logging
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable

import pytest

from tests.simulation import guard, solo
from tests.simulation.world import World


def ours(source: str) -> Callable[[], object]:
    """A function of a module of ours whose body is this expression."""
    module = types.ModuleType("federator.pretended")
    exec(f"import random, time\ndef call():\n    return {source}\n", module.__dict__)
    found: Callable[[], object] = module.call
    return found


ENTROPY: dict[str, Callable[[], object]] = {
    "random.randint": lambda: random.randint(0, 1),
    "random.choice": lambda: random.choice((1, 2)),
    "secrets.token_hex": lambda: secrets.token_hex(4),
    "os.urandom": lambda: os.urandom(4),
    "uuid.uuid4": lambda: str(uuid.uuid4()),
}
WORLD: dict[str, Callable[[], object]] = {
    "Thread.start": lambda: threading.Thread(target=int).start(),
    "ThreadPoolExecutor.submit": lambda: concurrent.futures.ThreadPoolExecutor(1).submit(int),
    "socket.__init__": lambda: socket.socket(socket.AF_INET),
    "socket.getaddrinfo": lambda: socket.getaddrinfo("localhost", 1),
    "Popen.__init__": lambda: subprocess.run([sys.executable, "-V"], check=False),
}


@pytest.mark.parametrize("name", [*ENTROPY, *WORLD])
def test_entropy_threads_sockets_and_processes_raise_inside_a_run(name: str) -> None:
    call = {**ENTROPY, **WORLD}[name]
    with guard.nothing_real(), pytest.raises(guard.Real, match=name.partition(".")[2]):
        call()


@pytest.mark.parametrize("name", guard.CLOCKS)
def test_real_clocks_raise_for_our_own_modules(name: str) -> None:
    arguments = {
        "clock_gettime": "time.CLOCK_MONOTONIC",
        "clock_gettime_ns": "time.CLOCK_MONOTONIC",
        "sleep": "0",
    }
    call = ours(f"time.{name}({arguments.get(name, '')})")
    call()
    with guard.nothing_real(), pytest.raises(guard.Real, match=name):
        call()


def test_logging_keeps_its_own_clock() -> None:
    with guard.nothing_real():
        record = logging.LogRecord("federator", logging.INFO, "", 1, "told", (), None)

    assert abs(record.created - time.time()) < 60


def test_a_generator_with_a_seed_is_no_entropy() -> None:
    with guard.nothing_real():
        assert random.Random(1).random() == random.Random(1).random()


def test_afterwards_everything_is_as_before() -> None:
    before = (time.time, random.random, os.urandom, socket.socket.__init__, threading.Thread.start)
    with guard.nothing_real():
        pass

    assert before == (
        time.time,
        random.random,
        os.urandom,
        socket.socket.__init__,
        threading.Thread.start,
    )


@pytest.mark.parametrize("source", ["time.time()", "random.random()"])
def test_a_simulated_run_is_guarded(source: str) -> None:
    async def story(world: World) -> None:
        with pytest.raises(guard.Real):
            ours(source)()
        with pytest.raises((guard.Real, RuntimeError)):
            await asyncio.to_thread(int)

    solo.tell(story, solo.world(hubs=1), actions=(solo.service("web", 1),))
