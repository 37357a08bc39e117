"""`python -m tests.simulation.run --seeds 0-99`: simulated runs by hand, for campaigns and for one
seed in detail.

A campaign ends with the table of faults; with `--keep FILE` it goes on where it was broken off. One
seed with `--trace` is a replay, the same bytes in every process; with `--shrink` the smallest world
that fails alike is looked for.
"""

import argparse
import functools
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests import heap
from tests.ranges import numbers
from tests.simulation import cases, drawing, retelling, running, shrink, tally
from tests.simulation.controls import CONTROLS
from tests.simulation.tally import Outcome

PROGRESS_EVERY = 100


def run(seed: int, *, reference: bool, only: Sequence[str] = ()) -> Outcome:
    """One seed, compared with the same script without faults if `reference`. `only`: as in
    `drawing.draw`.
    """
    begun = time.process_time()
    try:
        report = (
            running.check(seed, only) if reference else running.simulate(drawing.draw(seed, only))
        )
    except running.Broken as error:
        return Outcome(seed, tuple(error.breaches[:10]))
    except Exception as error:  # one seed that the harness cannot run must not end the campaign
        return Outcome(seed, (f"the run itself failed: {error!r}",))
    return Outcome.of(seed, report, time.process_time() - begun)


def campaign(seeds: Sequence[int], options: argparse.Namespace) -> int:
    """Runs the seeds; 1 when any of them broke a rule, or when, in a whole campaign, a fault never
    fired or a reason never appeared.
    """
    found = tally.kept(options.keep) if options.keep else {}
    left = [seed for seed in seeds if seed not in found]
    work = functools.partial(run, reference=not options.no_reference, only=_only(options))
    begun = time.monotonic()
    with heap.workers(options.jobs) as pool:
        for done, outcome in enumerate(pool.imap(work, left, chunksize=4), 1):
            found[outcome.seed] = outcome
            if options.keep:
                tally.keep(options.keep, outcome)
            if not options.quiet or outcome.breaches:
                print(outcome.line(), flush=True)
            if options.quiet and done % PROGRESS_EVERY == 0:
                print(
                    f"... {done} of {len(left)} seeds, {time.monotonic() - begun:.0f} s", flush=True
                )
    outcomes = [found[seed] for seed in seeds]
    never = [] if options.only else tally.never_fired(outcomes)
    silent = [] if options.only else [*tally.never_appeared(outcomes), *tally.in_no_table(outcomes)]
    undivided = not options.only and tally.never_divided(outcomes)
    broken = [one.seed for one in outcomes if one.breaches]
    tables = (*tally.fault_table(outcomes), *tally.reason_table(outcomes))
    print(*tables, *tally.sums(outcomes), f"{time.monotonic() - begun:.0f} s", sep="\n")
    if broken:
        print("broken:", ", ".join(map(str, broken)))
    if never:
        print("never fired:", ", ".join(never))
    if silent:
        print("never appeared, or is in no table of reasons.py:", ", ".join(silent))
    if undivided:
        print("no cluster's shards were divided over several others")
    if options.json:
        options.json.write_text(json.dumps(tally.summary(outcomes), indent=1) + "\n")
    return 1 if broken or never or silent or undivided else 0


def main(arguments: Sequence[str]) -> int:
    """A campaign, a replay or a search; 0 when every rule was kept."""
    options = _parse(arguments)
    logging.disable(logging.WARNING)
    if options.trace or options.shrink:
        plant = CONTROLS[options.plant][1] if options.plant else running.NOTHING
        case = (
            cases.Case.read(options.world)
            if options.world
            else cases.Case.of(options.seed, _only(options) or plant.only)
        )
        if options.shrink:
            return retelling.shrink(case, plant, name=options.plant or "", budget=options.budget)
        return retelling.replay(case, plant, everything=options.all)
    return campaign(options.seeds if options.seed is None else [options.seed], options)


def _only(options: argparse.Namespace) -> Sequence[str]:
    return [name for name in options.only.split(",") if name]


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=numbers, default="0-99", help="as in 0-99 or 7,12-15")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument(
        "--world", help="instead of a seed: what --shrink printed, or a file with it"
    )
    parser.add_argument("--plant", choices=sorted(CONTROLS), help="with this bug in it")
    parser.add_argument("--trace", action="store_true", help="tell the story of the seed or world")
    parser.add_argument(
        "--all", action="store_true", help="with --trace: also what went as expected"
    )
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="look for the smallest world that breaks the same rule",
    )
    parser.add_argument(
        "--budget", type=int, default=shrink.BUDGET, help="with --shrink: most runs"
    )
    parser.add_argument(
        "--only", default="", help="no other faults than these, as in crash-loop,lease-deleted"
    )
    parser.add_argument(
        "--no-reference", action="store_true", help="do not compare with a run without faults"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="only broken seeds, the tables and the sums"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes to use")
    parser.add_argument(
        "--keep", type=Path, help="a file of outcomes: seeds that are in it are not run again"
    )
    parser.add_argument(
        "--json", type=Path, help="write the tables into this file as well, for machines"
    )
    options = parser.parse_args(arguments)
    alone = options.trace or options.shrink
    if alone and options.seed is None and options.world is None:
        parser.error("--trace and --shrink look at one world: name it with --seed or --world")
    if not alone and (options.world or options.plant):
        parser.error("--world and --plant are for --trace and --shrink")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
