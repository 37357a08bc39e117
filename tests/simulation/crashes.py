"""`python -m tests.simulation.crashes`: every write of a fixed script with a crash just before and
just after it.

A run without crashes counts the writes of hub and member processes (W). Point 2n kills the writer
before write n is sent, point 2n + 1 after the server has taken it and before the reply is heard.
Besides: a seeded sample of pairs of crashes, and of crashes while the next life begins. Every run
must keep all rules, come to rest, end where the run without crashes does, and make and remove as
many objects of each kind.
"""

import argparse
import asyncio
import functools
import logging
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests import heap
from tests.faults.rows import HUB, RequestFault, Sending
from tests.faults.table import REQUEST_FAULTS
from tests.ranges import numbers
from tests.simulation import lifetimes, movingtimes, running
from tests.simulation.drawing import Parameters
from tests.simulation.script import Action
from tests.simulation.world import MEMBER, World

BEFORE, AFTER = REQUEST_FAULTS["crash-before-write"], REQUEST_FAULTS["crash-after-write"]
RESTART_REQUESTS = 30
"""A new life has listed what it needs within so many requests."""
SPARED = 20
PATH_DEPENDENT: Mapping[str, str] = {}
"""Counts that may differ -> why."""


@dataclass(frozen=True, slots=True)
class Point:
    """One or two crashes. Writes are counted from 0 over all processes that are looked at."""

    name: str
    writes: tuple[int, ...] = ()
    after: bool = False
    """The first crash comes after its write; a second one always before."""
    number: int = 0
    restart: int | None = None
    """Besides, the n-th request of the crashed process's next life is its last."""


@dataclass(slots=True)
class Crashes:
    """The crashes of one run. `of` is the view of the hub, or of the member processes."""

    point: Point
    processes: Sequence[str] = (HUB, MEMBER)
    script: str = "lifetimes"
    """Its name in `SCRIPTS`."""
    writes: int = 0
    """Seen so far."""
    heartbeats: int = 0
    fired: int = 0
    stopped: bool = False
    fork: Callable[[Point], bool] | None = None
    """Asked at every write for both of its points: whether this process is now the one that runs
    the point.
    """
    _reborn: str = ""
    _requests: int = 0
    _seen: list[str] = field(default_factory=list)

    def of(self, process: str) -> "View":
        return View(self, process)

    @property
    def planned(self) -> int:
        return len(self.point.writes) + (self.point.restart is not None)

    def pick(self, process: str, sending: Sending) -> RequestFault | None:
        """The crash that is due at this request."""
        if self.stopped or process not in self.processes:
            return None
        writer = sending.process
        if writer == self._reborn:
            self._requests += 1
            if self._requests == self.point.restart:
                self._reborn = ""
                self.fired += 1
                return BEFORE
        if not BEFORE.befalls(sending):
            return None
        self.heartbeats += "/leases" in sending.request.path
        self.writes += 1
        if self.fork is not None and any(
            self._become(point) for point in both_sides(self.writes - 1)
        ):
            self.fork = None
        if self.writes - 1 not in self.point.writes:
            return None
        if self.point.restart is not None:
            self._reborn, self._requests = writer, 0
        self.fired += 1
        return AFTER if self.point.after and self.fired == 1 else BEFORE

    def _become(self, point: Point) -> bool:
        """Whether we are the process that goes on with the crash of this point."""
        assert self.fork is not None
        if not self.fork(point):
            return False
        self.point = point
        return True


@dataclass(frozen=True, slots=True)
class View:
    """The schedule of one kind of process."""

    crashes: Crashes
    process: str

    def stop(self) -> None:
        self.crashes.stopped = True

    def pick(self, sending: Sending) -> RequestFault | None:
        """The crash that is due."""
        return self.crashes.pick(self.process, sending)


@dataclass(frozen=True, slots=True)
class Script:
    """What happens in a run, and in which world."""

    world: Parameters
    write: Callable[[], Sequence[Action]]
    story: Callable[[World], Awaitable[None]] | None = None


SCRIPTS: Mapping[str, Script] = {
    "lifetimes": Script(lifetimes.WORLD, lifetimes.write),
    "moving": Script(movingtimes.WORLD, movingtimes.write, movingtimes.story),
}
"""Workloads over their whole life; a drain, a failover and a failback."""


def run(crashes: Crashes) -> running.Report:
    """One run of the script with these crashes. Raises `running.Broken`."""
    schedules = {process: crashes.of(process) for process in (HUB, MEMBER)}
    script = SCRIPTS[crashes.script]
    course = running.Course(script.write(), schedules, script.story)
    return running.simulate(script.world, course=course)


@functools.cache
def reference(
    processes: tuple[str, ...], script: str = "lifetimes"
) -> tuple[running.Report, Crashes]:
    """The run without crashes."""
    crashes = Crashes(Point("no crash"), processes, script)
    return run(crashes), crashes


def both_sides(write: int) -> list[Point]:
    """The two points of a write."""
    return [
        Point(f"point {2 * write}: before write {write}", (write,), number=2 * write),
        Point(
            f"point {2 * write + 1}: after write {write}",
            (write,),
            after=True,
            number=2 * write + 1,
        ),
    ]


def points(count: int) -> list[Point]:
    """Both sides of each of `count` writes."""
    return [point for write in range(count) for point in both_sides(write)]


def pairs(count: int, rng: random.Random, wanted: int) -> Iterator[Point]:
    """Two crashes at different writes; half of the second ones come soon after the first.

    None among the last `SPARED`: after the first crash a run may have fewer writes than the one
    they were counted in.
    """
    count -= SPARED
    for number in range(wanted):
        first = rng.randrange(count - 1)
        second = (
            min(count - 1, first + rng.randint(1, 12))
            if number % 2
            else rng.randrange(first + 1, count)
        )
        after = rng.random() < 0.5
        yield Point(
            f"pair {number}: {'after' if after else 'before'} {first}, before {second}",
            (first, second),
            after,
        )


def restarts(count: int, rng: random.Random, wanted: int) -> Iterator[Point]:
    """A crash at a write, and another while the next life begins."""
    for number in range(wanted):
        write, request, after = (
            rng.randrange(count),
            rng.randint(1, RESTART_REQUESTS),
            rng.random() < 0.5,
        )
        name = (
            f"restart {number}: {'after' if after else 'before'} {write}, then at request "
            f"{request} of the next life"
        )
        yield Point(name, (write,), after, restart=request)


def judge(crashes: Crashes) -> list[str]:
    """Every rule that a run with these crashes breaks; none is what is wanted."""
    calm, _ = reference(tuple(crashes.processes), crashes.script)
    try:
        report = run(crashes)
        running.compare(report, calm)
    except running.Broken as error:
        return list(error.breaches)
    found = []
    if crashes.fired < crashes.planned:
        found.append(f"the run is too short: {crashes.fired} of {crashes.planned} crashes happened")
    for what in sorted(calm.changes.keys() | report.changes.keys()):
        if what not in PATH_DEPENDENT and calm.changes[what] != report.changes[what]:
            found.append(
                f"{what}: {report.changes[what]} times, without the crash {calm.changes[what]}"
            )
    return found


def sweep(wanted: Sequence[Point], processes: tuple[str, ...], script: str, jobs: int) -> set[str]:
    """Runs single points, each in a child that leaves one run without crashes at its write: what
    comes before is the same for all. Returns the names of those that did not converge; each child
    prints why.
    """
    reference(processes, script)
    names = {point.name for point in wanted}
    running_now: dict[int, str] = {}
    broken: set[str] = set()
    child = False

    def gather(most: int) -> None:
        while len(running_now) > most:
            pid, status = os.wait()
            name = running_now.pop(pid)
            if status:
                broken.add(name)

    def fork(point: Point) -> bool:
        nonlocal child
        if point.name not in names:
            return False
        gather(jobs - 1)
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        if point.number % 100 == 0:
            print(f"... {point.name}", flush=True)
        pid = os.fork()
        child = pid == 0
        if child:
            asyncio._set_running_loop(
                loop
            )  # which loop runs is remembered with the process it runs in
        else:
            running_now[pid] = point.name
        return child

    crashes = Crashes(Point("none"), processes, script, fork=fork)
    found = ["the run ended in an exception"]
    try:
        found = judge(crashes)
    finally:
        if child:
            tell(crashes.point, found)
            os._exit(bool(found))
    gather(0)
    if found:
        tell(crashes.point, found)
        broken.add(crashes.point.name)
    return broken


def tell(point: Point, found: Sequence[str]) -> None:
    """Prints what went wrong."""
    if found:
        print(point.name, *(f"    {text[:400]}" for text in found[:4]), sep="\n", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Runs the points; 1 when any of them did not converge."""
    options = _parse(arguments)
    logging.disable(logging.WARNING)
    processes = (options.process,) if options.process else (HUB, MEMBER)
    calm, seen = reference(processes, options.script)
    if options.trace:
        print("\n".join(calm.story.told()))
    rng = random.Random(f"{options.seed}/points")
    single = points(seen.writes)
    if options.points:
        single = [single[number] for number in options.points if number < len(single)]
    single = single[:: options.every]
    chosen = {
        "points": single,
        "pairs": list(pairs(seen.writes, rng, options.pairs)),
        "restarts": list(restarts(seen.writes, rng, options.restarts)),
    }
    begun = time.monotonic()
    broken = sweep(single, processes, options.script, options.jobs)
    drawn = [
        Crashes(point, processes, options.script)
        for group in ("pairs", "restarts")
        for point in chosen[group]
    ]
    with heap.workers(options.jobs) as pool:
        for crashes, found in zip(drawn, pool.imap(judge, drawn, chunksize=2), strict=True):
            tell(crashes.point, found)
            if found:
                broken.add(crashes.point.name)
    good = Counter(
        {what: sum(point.name not in broken for point in group) for what, group in chosen.items()}
    )
    print(
        f"crash points of {' and '.join(processes)}, {options.script}: {seen.writes} writes ({seen.heartbeats} "
        "of them heartbeats),"
        f" {len(single)} points, {good['points']} converged; {good['pairs']} of "
        f"{options.pairs} pairs and"
        f" {good['restarts']} of {options.restarts} crashes during a restart converged;"
        f" {time.monotonic() - begun:.0f} s"
    )
    return 1 if broken else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--process", choices=(HUB, MEMBER), help="only the writes of this kind of process"
    )
    parser.add_argument(
        "--script", choices=sorted(SCRIPTS), default="lifetimes", help="what happens"
    )
    parser.add_argument("--points", type=numbers, help="as in 0-49 or 7,12-15; all of them without")
    parser.add_argument("--every", type=int, default=1, help="only every n-th of them")
    parser.add_argument("--pairs", type=int, default=0, help="how many pairs of crashes to draw")
    parser.add_argument(
        "--restarts", type=int, default=0, help="how many crashes during a restart to draw"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--jobs", type=int, default=2, help="processes to use")
    parser.add_argument("--trace", action="store_true", help="print the run without crashes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
