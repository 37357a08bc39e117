"""`make fuzz`: hostile bytes for every parser of foreign bytes, for MINUTES in all; prints counts
per target.

With atheris where it is installed (coverage guides it, one process per target); otherwise by
mutation of the hostile inputs of tests/hostile. Any exception that is not ours, and any input that
takes too long, ends with its bytes.
"""

import argparse
import contextlib
import random
import subprocess
import sys
import time
import warnings
import zlib
from importlib.util import find_spec

from cryptography.utils import CryptographyDeprecationWarning

from tests.fuzz.mutating import Mutator
from tests.fuzz.targets import TARGETS, Target

SLOW_S = 1.0
"""Processor seconds that one input may take; twice in a row, since a garbage collection may fall
into one.
"""


class Finding(AssertionError):
    """An input that did what none may do."""


def once(target: Target, data: bytes) -> str:
    """Runs one input; returns what came of it (for counting what is new). Raises `Finding`."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            # what a later release of the library refuses; an exception in pytest only
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            target.run(data)
        came = "taken"
    except target.ours as refused:
        came = f"{type(refused).__name__}{str(refused)[-24:]}"
    except Exception as bug:
        raise Finding(f"{target.name}: {type(bug).__name__}: {bug} for {data[:2000]!r}") from bug
    if time.process_time() - begun > SLOW_S:
        begun = time.process_time()
        with contextlib.suppress(*target.ours):
            target.run(data)
        spent = time.process_time() - begun
        if spent > SLOW_S:
            raise Finding(
                f"{target.name}: took {spent:.1f} s for {len(data)} bytes: {data[:200]!r}"
            )
    return came


def mutate(target: Target, seconds: float, seed: int) -> tuple[int, int]:
    """(inputs, different outcomes) of a target within some seconds."""
    mutator = Mutator(target.seeds, random.Random(seed ^ zlib.crc32(target.name.encode())))
    seen: set[str] = set()
    count = 0
    for data in target.seeds:
        seen.add(once(target, data))
        count += 1
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutator.next()
        came = once(target, data)
        count += 1
        if came not in seen and len(seen) < 100_000:
            seen.add(came)
            mutator.keep(data)
    return count, len(seen)


def guided(name: str, seconds: float) -> str:
    """What atheris says of one target. Raises `Finding`."""
    call = [sys.executable, "-m", "tests.fuzz.guided", name, str(max(int(seconds), 1))]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Finding((done.stdout + done.stderr)[-3000:])
    return next((line for line in done.stderr.splitlines() if line.startswith("Done")), "guided")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="only this one")
    given = parser.parse_args()
    names = given.target or list(TARGETS)
    seconds = given.minutes * 60 / len(names)
    found = 0
    for name in names:
        begun = time.monotonic()
        try:
            count, outcomes = mutate(
                TARGETS[name], seconds / (2 if find_spec("atheris") else 1), given.seed
            )
            print(
                (
                    f"{name:28} {count:9} inputs, {outcomes:6} outcomes, "
                    f"{time.monotonic() - begun:6.1f} s"
                ),
                flush=True,
            )
            if find_spec("atheris"):
                print(f"{name:28} {guided(name, seconds / 2)}", flush=True)
        except Finding as finding:
            found += 1
            print(f"{name:28} FOUND {finding}", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
