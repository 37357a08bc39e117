"""Ports for servers that a test starts later, by a number.

A port of the kernel's choice (`bind` to 0) is free only while it is bound: any connection and any
other server may be given it before the test's server starts.
"""

import fcntl
import os
import socket
import tempfile
from itertools import chain
from pathlib import Path
from typing import IO, Final

FIRST: Final = 10_240
"""Below are ports of well-known services."""
RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The ports of which the kernel chooses."""

_held: set[int] = set()
_locks: list[IO[bytes]] = []


def free_port() -> int:
    """A port at which nothing listens, on any address of this machine.

    The kernel gives it to nobody, and no other process that asks here gets it before this process
    ends. Raises `OSError` if there is none."""
    numbers = range(FIRST, _end())
    # Processes begin at places of their own, so that they seldom meet at a lock.
    begin = os.getpid() * 101 % len(numbers)
    for port in chain(numbers[begin:], numbers[:begin]):
        if port not in _held and _lock(port) and _is_free(port):
            _held.add(port)
            return port
    raise OSError(f"no free port from {numbers.start} to {numbers.stop - 1}")


def _end() -> int:
    try:
        first = int(RANGE.read_text().split()[0])
    except OSError:
        first = 32_768
    # Where the kernel takes all ports as its own, the lock still keeps tests apart.
    return first if first > FIRST else 32_768


def _lock(port: int) -> bool:
    """Locks the byte of the port until this process ends; True if it has it already."""
    if not _locks:
        path = Path(tempfile.gettempdir(), f"federator-test-ports-{os.getuid()}")
        _locks.append(path.open("ab"))
    try:
        fcntl.lockf(_locks[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
