"""An asyncio event loop on which time passes only when there is nothing left to do.

Time is an integer count of microseconds. When no callback is ready it jumps to the next timer; when
there is no timer either, nothing can ever happen again and the loop raises `Deadlock` with a dump
of the waiting tasks. Nothing real exists here: threads, executors, sockets, subprocesses and name
look-ups raise. Used by tests, the simulator and time travel; never by a real server.
"""

import asyncio
import collections
import contextvars
import heapq
import itertools
import random
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Keeper = Callable[[asyncio.Handle], Hashable | None]
"""Who keeps a callback from running now; None when it may run."""

STEPS_PER_INSTANT_MAX = 5_000_000
"""Callbacks run without time moving before the loop is declared a livelock."""

_CANCELLED_TIMERS_MIN = 1000
_LONGEST_S = 86_400.0
"""Virtual seconds that a run may take: a federation at rest sets timers for ever, and what waits in it for
nothing would never be found."""
_LEFTOVERS_END_S = 3600.0
"""What the main coroutine left behind must have ended so long after it, in virtual seconds."""


_STEPS_OF_A_SLEEP = 2
"""Its timer, and the step of the task that it wakes."""


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, or only timers run for a day of virtual time, yet the main
    coroutine has not ended. The message lists who waits where."""


class Livelock(RuntimeError):
    """Callbacks keep each other busy without time ever moving."""


class _Task(asyncio.Task[Any]):
    """A task that sets find under its number, not under its address. A task group keeps its tasks
    in a set and cancels them as it walks through it: by address, what came out would depend on what
    ran in the process before."""

    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """One thread of callbacks in the order they were scheduled; timers of one microsecond run first
    set, first run.

    With `order`, the tasks that are ready at the same time take their steps in an order drawn from
    it; other callbacks keep their places, because transports and futures rely on theirs. `keeper`
    is asked before each callback: what it names keeps the callback back until `release`.
    """

    # the base class's queue; `call_soon` (also from C tasks) fills it
    _ready: "collections.deque[asyncio.Handle]"

    def __init__(
        self,
        *,
        start_s: float = 0.0,
        order: random.Random | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        super().__init__()
        self._order = order
        self._keeper = keeper
        self._kept: dict[Hashable, list[asyncio.Handle]] = {}
        self._now_us = round(start_s * 1_000_000)
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._timer_order = itertools.count()
        self._timers_cancelled = 0
        self._steps_here = 0
        self._begun_us = self._now_us
        self._end_us: int | None = None
        self._tasks_made = itertools.count()
        self.set_task_factory(
            lambda loop, coro, **options: _Task(coro, next(self._tasks_made), loop=loop, **options)
        )
        self.steps = 0
        """Callbacks run since the loop was made: a cheap measure of work that does not depend on
        the machine."""

    def time(self) -> float:
        return self._now_us / 1_000_000

    def time_us(self) -> int:
        """Virtual microseconds since the loop's start (plus `start_s`)."""
        return self._now_us

    def end_within(self, seconds: float) -> None:
        """From now on time may move by so much at most; then `Deadlock` is raised, naming who is
        still there."""
        self._end_us = self._now_us + round(seconds * 1_000_000)

    def call_at(  # type: ignore[override]  # typeshed ties *args to the callback with a TypeVarTuple; same at run time
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        due_us = max(round(when * 1_000_000), self._now_us)
        timer = asyncio.TimerHandle(due_us / 1_000_000, callback, args, self, context)
        heapq.heappush(self._timers, (due_us, next(self._timer_order), timer))
        timer._scheduled = True  # type: ignore[attr-defined]  # what makes TimerHandle.cancel() report to us
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._timers_cancelled += 1

    def _run_once(self) -> None:
        """One turn: the callbacks ready now, or, when there are none, time moves to the next
        timer."""
        self._drop_cancelled_timers()
        if not self._ready and not self._stopping:  # type: ignore[attr-defined]
            self._advance()
        timers, now_us = self._timers, self._now_us
        while timers and timers[0][0] <= now_us:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(timer)
        self._run_batch(len(self._ready))

    def _run_batch(self, count: int) -> None:
        """Runs the `count` oldest ready callbacks; what they schedule waits for the next turn."""
        ready = self._ready
        self.steps += count
        self._steps_here += count
        if self._steps_here > STEPS_PER_INSTANT_MAX:
            raise Livelock(
                f"{self._steps_here} callbacks ran at virtual time {self.time():.6f} s and it"
                " never moved.\n"
                f"{self.dump()}"
            )
        batch = [ready.popleft() for _ in range(count)]
        if self._order is not None and count > 1:
            _shuffle_steps(batch, self._order)
        for handle in batch:
            if handle.cancelled():
                continue
            holder = self._keeper(handle) if self._keeper is not None else None
            if holder is None:
                handle._run()
            else:
                self._kept.setdefault(holder, []).append(handle)

    def release(self, holder: Hashable) -> None:
        """Callbacks that were kept back because of `holder` are ready now, in the order in which
        they became due."""
        self._ready.extend(self._kept.pop(holder, ()))

    def release_all(self) -> None:
        """Nothing is kept back any more: the run is over, and what is left is to be cancelled."""
        self._keeper = None
        for holder in list(self._kept):
            self.release(holder)

    def _advance(self) -> None:
        if not self._timers:
            raise Deadlock(
                f"Nothing is ready and no timer is set at virtual time {self.time():.6f} s, "
                f"yet the main coroutine waits.\n{self.dump()}"
            )
        due_us = self._timers[0][0]
        if due_us - self._begun_us > _LONGEST_S * 1_000_000:
            raise Deadlock(
                f"The main coroutine still waits after {_LONGEST_S / 3600:.0f} hours of virtual"
                f" time.\n{self.dump()}"
            )
        if self._end_us is not None and due_us > self._end_us:
            raise Deadlock(
                f"The main coroutine has ended, but these tasks refuse to end:\n{self.dump()}"
            )
        if due_us > self._now_us:
            self._now_us = due_us
            self._steps_here = 0

    def _drop_cancelled_timers(self) -> None:
        timers = self._timers
        if self._timers_cancelled > _CANCELLED_TIMERS_MIN and self._timers_cancelled * 2 > len(
            timers
        ):
            self._timers = timers = [entry for entry in timers if not entry[2].cancelled()]
            heapq.heapify(timers)
            self._timers_cancelled = 0
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._timers_cancelled -= 1

    def dump(self) -> str:
        """Every unfinished task and the line where it waits, one per line, sorted by name."""
        lines = []
        for task in asyncio.all_tasks(self):
            frames = task.get_stack(limit=1)
            where = (
                f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}"
                if frames
                else "not started"
            )
            name = getattr(task.get_coro(), "__qualname__", "?")
            lines.append(f"  task {task.get_name()} ({name}) waits at {where}")
        return "\n".join(sorted(lines)) or "  no task is left"

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        # Kept because the interpreter's own SIGINT handler of asyncio.Runner wakes the loop this
        # way.
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: object) -> None:
        """There are no file descriptors, hence no events."""

    def _write_to_self(self) -> None:
        """Nothing waits in a selector, so there is nothing to wake."""

    def _not_here(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "threads, executors, sockets, subprocesses and name look-ups do not exist on virtual"
            " time"
        )

    run_in_executor = _not_here  # type: ignore[assignment]
    getaddrinfo = _not_here
    getnameinfo = _not_here
    create_connection = _not_here
    create_server = _not_here
    create_unix_connection = _not_here
    create_unix_server = _not_here
    create_datagram_endpoint = _not_here
    connect_read_pipe = _not_here
    connect_write_pipe = _not_here
    subprocess_exec = _not_here
    subprocess_shell = _not_here
    sock_connect = _not_here
    sock_accept = _not_here
    sock_recv = _not_here
    sock_sendall = _not_here
    add_reader = _not_here  # type: ignore[assignment]
    add_writer = _not_here  # type: ignore[assignment]


async def stirred(every_s: float = 0.1, at_most: int = 100) -> None:
    """Waits `every_s`, and again `at_most` times while nothing but this wait has run: what stood still
    needs no second look."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    for _ in range(at_most):
        before = loop.steps
        await asyncio.sleep(every_s)
        if loop.steps > before + _STEPS_OF_A_SLEEP:
            return


def _shuffle_steps(batch: list[asyncio.Handle], order: random.Random) -> None:
    """Permutes the steps of tasks among the places they have."""
    places = [
        place
        for place, handle in enumerate(batch)
        if isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)  # type: ignore[attr-defined]
    ]
    if len(places) < 2:
        return
    steps = [batch[place] for place in places]
    order.shuffle(steps)
    for place, step in zip(places, steps, strict=True):
        batch[place] = step


def run(
    main: Coroutine[Any, Any, T],
    *,
    start_s: float = 0.0,
    order: random.Random | None = None,
    keeper: Keeper | None = None,
) -> T:
    """Runs `main` to its end on a fresh virtual loop, cancels what it left behind, and returns its
    result.

    Raises `Deadlock` and `Livelock` besides whatever `main` raises.
    """
    loop = VirtualTimeLoop(start_s=start_s, order=order, keeper=keeper)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        try:
            return runner.run(main)
        finally:
            # What refuses to be cancelled would otherwise live on for ever: years of virtual time
            # cost nothing.
            loop.release_all()
            loop.end_within(_LEFTOVERS_END_S)
            _cancel_leftovers(loop)


def _cancel_leftovers(loop: VirtualTimeLoop) -> None:
    """Cancels tasks until none is left. A cancelled task may start others (a `finally` that lets a
    killed process up), and `asyncio.Runner` cancels only once: what it overlooks is collected, and
    logs its errors, while something else runs.
    """
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                message = "a task that was left behind failed as it was cancelled"
                loop.call_exception_handler({"message": message, "exception": error, "task": task})
