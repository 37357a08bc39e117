"""Campaigns of seeded worlds beside `run`: how one is played, counted and printed, and how a planted
bug is looked for in its worlds.

Each has a module of its own that is a command, `python -m tests.simulation.NAME --seeds 0-9`. What
happens in a world and what is judged there is the module's; it returns what it has seen, by name.
"""

import argparse
import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests import heap, virtual_time
from tests.ranges import numbers
from tests.simulation.running import Plant


class Broken(AssertionError):
    """A rule was broken."""

    def __init__(self, seed: int, rule: str, what: str) -> None:
        super().__init__(f"seed {seed}: {rule}: {what}")
        self.rule = rule


class Looked(Protocol):
    """A world that is played and judged."""

    @property
    def now_s(self) -> float:
        """Virtual seconds since it began."""

    async def look(self) -> None:
        """Judges it as it is. Raises `Broken`."""


async def play_until(
    run: Looked, until_s: float, happens: Coroutine[Any, Any, None], *, every_s: float = 1.0
) -> None:
    """Looks at the world every so often while things happen in it."""
    happening = asyncio.create_task(happens, name="what happens")
    while run.now_s < until_s:
        await run.look()
        await asyncio.sleep(every_s)
        if happening.done():
            happening.result()
    happening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await happening


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one seed: what was seen, or how a rule was broken."""

    seed: int
    seen: Counter[str]
    broken: str = ""

    def line(self) -> str:
        return self.broken or f"{self.seed} {dict(sorted(self.seen.items()))}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """One kind of worlds."""

    about: str
    world: Callable[[int], Coroutine[Any, Any, Counter[str]]]
    """Plays the world of a seed. Raises `Broken`."""
    wanted: Collection[str] = ()
    """What has to be seen at least once in a whole campaign; else its rules had nothing to judge."""
    whole: int = 100
    """So many seeds are a whole campaign."""

    def played(self, seed: int, plant: Plant | None = None) -> Counter[str]:
        """Plays the world of a seed. Raises `Broken`. Returns how often each thing was seen."""
        with heap.one_world(), plant.patched() if plant else contextlib.nullcontext():
            return virtual_time.run(self.world(seed))

    def catches(
        self, rule: str, plant: Plant, seeds: Collection[int], first: int | None = None
    ) -> bool:
        """Whether the rule finds the bug in one of these seeds. A federation may stumble over a bug
        in another way first. `first`: the seed that is tried before the others, where one is known
        to show the bug.
        """
        for seed in sorted(seeds, key=lambda seed: seed != first):
            try:
                self.played(seed, plant)
            except Broken as broken:
                if broken.rule == rule:
                    return True
            except Exception:
                continue
        return False

    def outcome(self, seed: int) -> Outcome:
        """Plays the world of a seed."""
        logging.disable(logging.WARNING)
        try:
            return Outcome(seed, self.played(seed))
        except Broken as breach:
            return Outcome(seed, Counter(), str(breach))
        except Exception as error:  # one seed that cannot be played must not end the campaign
            return Outcome(seed, Counter(), f"seed {seed}: the run itself failed: {error!r}")

    def main(self, arguments: Sequence[str]) -> int:
        """One line for each seed, and the sums; 1 when a rule was broken, or when a whole campaign
        has not seen what it must.
        """
        parser = argparse.ArgumentParser(description=self.about)
        parser.add_argument("--seeds", type=numbers, default="0-9", help="as in 0-99 or 7,12-15")
        parser.add_argument("--jobs", type=int, default=1, help="processes to use")
        options = parser.parse_args(arguments)
        begun = time.monotonic()
        outcomes = list[Outcome]()
        with heap.workers(options.jobs) as pool:
            for outcome in pool.imap(self.outcome, options.seeds):
                outcomes.append(outcome)
                print(outcome.line(), flush=True)
        return self._summed(outcomes, time.monotonic() - begun)

    def _summed(self, outcomes: Sequence[Outcome], took_s: float) -> int:
        seen = sum((outcome.seen for outcome in outcomes), Counter[str]())
        seeds = Counter(name for outcome in outcomes for name in outcome.seen)
        for name in sorted(seen):
            print(f"{name:32} {seen[name]:6} times in {seeds[name]:5} seeds")
        broken = [outcome.seed for outcome in outcomes if outcome.broken]
        never = sorted(set(self.wanted) - seen.keys()) if len(outcomes) >= self.whole else []
        print(f"{len(outcomes)} seeds, {len(broken)} broken, {took_s:.0f} s")
        if broken:
            print("broken:", ", ".join(map(str, broken)))
        if never:
            print("never seen:", ", ".join(never))
        return 1 if broken or never else 0
