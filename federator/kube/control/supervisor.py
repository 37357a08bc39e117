"""Owns tasks: names them, starts a broken one again after a while, cancels them all at the end.

Every long-lived coroutine of hub and member lives under one. A task that a process cannot do
without (holding the lease) is `critical`: its end is the end of the supervisor.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Protocol

from federator.kube import backoff, cancelling

log = logging.getLogger(__name__)

STABLE_S = 60.0
"""A task that ran this long, in seconds, starts its back-off from the beginning."""
STOP_S = 10.0
"""How long a cancelled task may take to end before that is an error, in seconds."""


class TaskMeter(Protocol):
    """Where restarts are reported; `metrics.Metrics` is one."""

    def task_broke(self, task: str) -> None: ...


class CriticalTaskEnded(Exception):
    """A task that the process cannot do without has ended; its failure, if any, is the cause."""


class Supervisor:
    """Use it as `async with Supervisor(...) as supervisor`; leaving the block cancels every task
    and waits for it."""

    def __init__(
        self,
        name: str,
        *,
        rng: random.Random,
        metrics: TaskMeter | None = None,
    ) -> None:
        self.name = name
        self._rng = rng
        self._metrics = metrics
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: asyncio.Future[None] | None = None
        self.broken: dict[str, BaseException] = {}
        """What each task broke with last, by name."""
        self.restarts = 0

    async def __aenter__(self) -> "Supervisor":
        self._ended = asyncio.get_running_loop().create_future()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop_all()
        if self._ended is not None and self._ended.done() and not self._ended.cancelled():
            self._ended.exception()  # seen; `wait` raises it for its callers

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tasks that live, sorted."""
        return tuple(sorted(self._tasks))

    def start(
        self,
        name: str,
        body: Callable[..., Awaitable[object]],
        *args: Any,
        critical: bool = False,
        once: bool = False,
    ) -> None:
        """Runs `body(*args)` under `name`. It is started again when it breaks, and when it returns
        unless `once`.

        Raises ValueError when a task of that name lives.
        """
        if name in self._tasks:
            raise ValueError(f"supervisor {self.name} has a task {name!r} already")
        if self._ended is None:
            raise RuntimeError(f"supervisor {self.name} has not been entered")
        task = asyncio.create_task(
            self._keep(name, body, args, critical, once), name=f"{self.name}/{name}"
        )
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._forget(name, task))

    async def stop(self, name: str) -> None:
        """Cancels one task and waits for its end; nothing happens when there is none."""
        task = self._tasks.get(name)
        if task is not None:
            await self._end([task])

    async def stop_all(self) -> None:
        """Cancels every task, the youngest first, and waits for all."""
        await self._end(list(reversed(self._tasks.values())))

    async def wait(self) -> None:
        """Waits until a critical task ends. Raises `CriticalTaskEnded`."""
        assert self._ended is not None
        await asyncio.shield(self._ended)

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=STOP_S)
        for task in tasks:
            if task in late:
                log.error(
                    "supervisor %s: %s did not end within %g s", self.name, task.get_name(), STOP_S
                )

    async def _keep(
        self,
        name: str,
        body: Callable[..., Awaitable[object]],
        args: tuple[Any, ...],
        critical: bool,
        once: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        waits = backoff.Backoff(self._rng, base_s=0.5, cap_s=60.0)
        while True:
            begun = loop.time()
            failure: BaseException | None = None
            try:
                await cancelling.contained(body(*args))
            except Exception as exc:
                # a broken task is started again; a cancelled one is not caught here
                failure = exc
                self.broken[name] = exc
                log.error("supervisor %s: task %s broke", self.name, name, exc_info=exc)
                if self._metrics is not None:
                    self._metrics.task_broke(name)
            if critical:
                self._give_up(name, failure)
                return
            if failure is None and once:
                return
            if loop.time() - begun >= STABLE_S:
                waits.reset()
            self.restarts += 1
            await asyncio.sleep(waits.next())

    def _give_up(self, name: str, failure: BaseException | None) -> None:
        if self._ended is None or self._ended.done():
            return
        error = CriticalTaskEnded(f"supervisor {self.name}: the task {name} has ended")
        error.__cause__ = failure
        self._ended.set_exception(error)

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
