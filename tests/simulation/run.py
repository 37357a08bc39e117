"""`python -m tests.simulation.run --seeds 0-99`: simulated runs by hand, for campaigns and for one seed in detail.

A campaign ends with the table of faults. One seed with `--trace` is a replay: the same bytes in every process.
"""

import argparse
import functools
import logging
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from federator.embedded.faults.table import FAULTS
from tests.simulation import drawing, running

CAMPAIGN = 100
"""In so many seeds every fault must fire."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of one seed once it has been run."""

    seed: int
    line: str
    """What happened, in one line; the failure when there was one."""
    broken: bool
    fired: Counter[str] = field(default_factory=Counter)


def run(seed: int, *, reference: bool) -> Outcome:
    """One seed, compared with the same script without faults if `reference`."""
    begun = time.process_time()
    try:
        report = running.check(seed) if reference else running.simulate(drawing.draw(seed))
    except running.Broken as error:
        return Outcome(seed, "\n".join([f"seed {seed}", *error.breaches[:3]]), broken=True)
    text = (
        f"seed {seed}: {report.steps} writes, {report.deaths} crashes, {sum(report.fired.values())} faults,"
        f" at most {report.most_per_minute} requests a minute, {report.digest},"
        f" {time.process_time() - begun:.2f} s of processor"
    )
    return Outcome(seed, text, broken=False, fired=report.fired)


def replay(seed: int) -> int:
    """Tells the story of one seed, whether it ends well or not. Nothing of this process or machine is in it."""
    drawn = drawing.draw(seed).text()
    print(drawn)
    try:
        report = running.check(seed)
    except running.Broken as error:
        print("\n".join([*error.trace, *error.breaches, drawn]))
        return 1
    print("\n".join([*report.trace, f"{report.digest}: no rule was broken", drawn]))
    return 0


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line per fault."""
    for name, fault in FAULTS.items():
        times = sum(one.fired[name] for one in outcomes)
        seeds = sum(1 for one in outcomes if one.fired[name])
        yield f"{fault.number:4} {name:20} fired {times:6} times in {seeds:5} seeds"


def main(arguments: Sequence[str]) -> int:
    """Runs the seeds; 1 when any of them broke a rule, or when a fault never fired in a whole campaign."""
    options = _parse(arguments)
    logging.disable(logging.WARNING)
    if options.trace:
        return replay(options.seed)
    first, _, last = options.seeds.partition("-")
    seeds = [options.seed] if options.seed is not None else list(range(int(first), int(last or first) + 1))
    work = functools.partial(run, reference=not options.no_reference)
    begun = time.monotonic()
    outcomes = []
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        for outcome in pool.imap(work, seeds, chunksize=4):
            outcomes.append(outcome)
            if not options.quiet or outcome.broken:
                print(outcome.line, flush=True)
    broken = [one.seed for one in outcomes if one.broken]
    print(*table(outcomes), sep="\n")
    print(f"{len(seeds)} seeds, {len(seeds) - len(broken)} kept every rule, {time.monotonic() - begun:.0f} s")
    never = sorted(set(FAULTS) - {name for one in outcomes for name in one.fired})
    if broken:
        print("broken:", ", ".join(map(str, broken)))
    if never and len(seeds) >= CAMPAIGN:
        print("never fired:", ", ".join(never))
    return 1 if broken or (never and len(seeds) >= CAMPAIGN) else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="first and last, as in 0-99")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every request, fault and decision")
    parser.add_argument("--no-reference", action="store_true", help="do not compare with a run without faults")
    parser.add_argument("--quiet", action="store_true", help="only broken seeds, the table and the sum")
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    options = parser.parse_args(arguments)
    if options.trace and options.seed is None:
        parser.error("--trace tells of one seed: name it with --seed")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
