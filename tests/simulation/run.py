"""`python -m tests.simulation.run --seeds 0-99`: simulated runs by hand, for campaigns and for one seed in detail."""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.simulation import drawing, running


def main(arguments: Sequence[str]) -> int:
    """Runs the seeds one after the other; 1 when any of them broke a rule."""
    options = _parse(arguments)
    logging.disable(logging.WARNING)
    first, _, last = options.seeds.partition("-")
    seeds = [options.seed] if options.seed is not None else range(int(first), int(last or first) + 1)
    fired: Counter[str] = Counter()
    broken: list[int] = []
    for seed in seeds:
        begun = time.process_time()
        try:
            report = running.check(seed) if not options.no_reference else running.simulate(drawing.draw(seed))
        except running.Broken as error:
            broken.append(seed)
            print(error if options.trace or len(seeds) == 1 else "\n".join([f"seed {seed}", *error.breaches[:3]]))
            continue
        fired += report.fired
        if options.trace:
            print("\n".join(report.trace))
        print(
            f"seed {seed}: {report.steps} writes, {report.deaths} crashes, {sum(report.fired.values())} faults,"
            f" at most {report.most_per_minute} requests a minute, {report.digest},"
            f" {time.process_time() - begun:.2f} s of processor",
            flush=True,
        )
    print("faults that fired:", ", ".join(f"{name} {count}" for name, count in sorted(fired.items())) or "none")
    if broken:
        print("broken:", ", ".join(map(str, broken)))
    return 1 if broken else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="first and last, as in 0-99")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="print every request and action")
    parser.add_argument("--no-reference", action="store_true", help="do not compare with a run without faults")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
