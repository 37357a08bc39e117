"""Nothing real inside a simulated run: clocks, entropy, threads, sockets and subprocesses raise for
its time.

Entered by `running.simulate` around the whole run. It guards the thread that runs it. Clocks and
entropy are refused to our own modules: what libraries read for themselves (the time of a log record
above all) never comes back to us.
"""

import concurrent.futures
import contextlib
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

OURS = ("federator", "tests.simulation")
CLOCKS = (
    "time",
    "time_ns",
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "clock_gettime",
    "clock_gettime_ns",
    "sleep",
)
"""Of module `time`."""
ENTROPY: tuple[tuple[Any, str], ...] = (
    *(
        (random, name)
        for name in ("random", "randrange", "randint", "choice", "choices", "shuffle", "sample")
    ),
    *(
        (random, name)
        for name in ("uniform", "gauss", "expovariate", "getrandbits", "randbytes", "seed")
    ),
    *(
        (secrets, name)
        for name in ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits")
    ),
    (os, "urandom"),
    (os, "getrandom"),
    (uuid, "uuid1"),
    (uuid, "uuid4"),
)
WORLD: tuple[tuple[Any, str], ...] = (
    (threading.Thread, "start"),
    (concurrent.futures.ThreadPoolExecutor, "submit"),
    (socket.socket, "__init__"),
    (socket, "getaddrinfo"),
    (subprocess.Popen, "__init__"),
)


class Real(RuntimeError):
    """Something of the real world was asked for inside a simulated run."""


def _refusing(name: str, original: Callable[..., Any], *, ours_only: bool) -> Callable[..., Any]:
    owner = threading.get_ident()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__", ""))
        if threading.get_ident() == owner and (not ours_only or caller.startswith(OURS)):
            raise Real(f"{name} does not exist inside a simulated run; {caller} asked for it")
        return original(*args, **kwargs)

    return refuse


@contextlib.contextmanager
def nothing_real() -> Iterator[None]:
    """While this is entered, what is real raises `Real` in this thread."""
    with contextlib.ExitStack() as stack:
        for owner, name in (*((time, name) for name in CLOCKS), *ENTROPY):
            _guard(stack, owner, name, ours_only=True)
        for owner, name in WORLD:
            _guard(stack, owner, name, ours_only=False)
        yield


def _guard(stack: contextlib.ExitStack, owner: Any, name: str, *, ours_only: bool) -> None:
    refuse = _refusing(f"{owner.__name__}.{name}", getattr(owner, name), ours_only=ours_only)
    stack.enter_context(mock.patch.object(owner, name, refuse))
