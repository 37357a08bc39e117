"""When this process runs out of file descriptors: telling that from a server that does not answer
(F67).

Connections to members leave the last `reserve()` descriptors alone, so that the Lease is renewed,
probes are answered and certificates are read however many members there are. What they lack they
meet as `errors.OwnShortage`.
"""

import asyncio
import contextlib
import errno
import os
import resource
import socket
from collections.abc import Iterator
from typing import Final, Protocol

from federator.kube import errors
from federator.kube.clock import Clock

RESERVE: Final = 64
"""Descriptors that connections to members leave to others, at most."""
LASTS_S: Final = 75.0
"""Seconds without a failure after which a shortage is over: everything that failed has been tried
again (a reflector waits up to 30 s, a probe up to 11 s)."""
LOOK_S: Final = 1.0
"""Between two looks whether it is over, at least."""
GUIDE: Final = "docs/operating/descriptors.md"
_OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def limit() -> int:
    """How many descriptors this process may have open now; it can be changed from outside
    (`prlimit`)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def reserve() -> int:
    """Descriptors that connections to members leave alone: a quarter of the limit, at most
    `RESERVE`."""
    return min(RESERVE, limit() // 4)


def raise_limit() -> int:
    """Raises the limit of descriptors to what the system lets this process have; returns what it is
    then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # macOS: a hard limit of infinity cannot be had
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return limit()


def sentence() -> str:
    """What is short, and how much of it there is."""
    return f"this process is short of file descriptors (limit {limit()}): raise it, see {GUIDE}"


def refuse_if_beyond(descriptor: int, spared: int) -> None:
    """Raises OSError for a descriptor that reaches into the last `spared` ones. The kernel gives
    the lowest that is free: all below it are in use."""
    if spared and descriptor >= limit() - spared:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def is_short(spared: int) -> bool:
    """Whether another connection that leaves `spared` descriptors alone could not be made now."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            refuse_if_beyond(tried.fileno(), spared)
    except OSError as trouble:
        return is_ours(trouble)
    return False


def is_ours(trouble: BaseException | None) -> bool:
    """Whether an error of a connection is about this machine and not about the other end."""
    return isinstance(trouble, OSError) and trouble.errno in _OURS


@contextlib.contextmanager
def translated(peer: str) -> Iterator[None]:
    """Turns an OSError about this process into `errors.OwnShortage`; any other passes."""
    try:
        yield
    except OSError as trouble:
        if is_ours(trouble):
            raise of(peer) from trouble
        raise


def of(peer: str) -> errors.OwnShortage:
    """The error for a connection to `peer` that could not be tried."""
    return errors.OwnShortage(f"{peer}: not asked, {sentence()}")


class ShortageMeter(Protocol):
    """Where it is counted; `metrics.Metrics` is one."""

    def short(self, is_short: bool) -> None: ...


class Shortage:
    """Whether this process lacks something, by the requests that could not be sent. Pure but for
    its clock."""

    def __init__(self, clock: Clock, metrics: ShortageMeter | None = None) -> None:
        self.trouble = ""
        """A sentence while it lacks something; "" while all is well."""
        self.since = ""
        """When it began, as RFC 3339."""
        self.ever = False
        """Whether it has ever lacked anything."""
        self._clock = clock
        self._metrics = metrics
        self._met_s = float("-inf")
        self._met = asyncio.Event()

    def meet(self, why: str) -> bool:
        """A request could not be sent. Returns whether it is the first one of a shortage."""
        first = not self.trouble
        self._met_s = self._clock.monotonic()
        if first:
            self.trouble, self.since, self.ever = why, self._clock.rfc3339(), True
            self._met.set()
            if self._metrics is not None:
                self._metrics.short(True)
        return first

    async def over(self) -> str:
        """Returns when a shortage that began is over, with the sentence of it."""
        await self._met.wait()
        while (left_s := self._met_s + LASTS_S - self._clock.monotonic()) > 0:  # noqa: ASYNC110 - until it ends
            # a rest that is only a rounding error long would never be over
            await asyncio.sleep(max(left_s, LOOK_S))
        was, self.trouble, self.since = self.trouble, "", ""
        self._met.clear()
        if self._metrics is not None:
            self._metrics.short(False)
        return was
