"""How fast this machine's Python is just now, as one number: rates without a floor are scaled by
it.

`harness.py` prints the score beside every run. The mix is what the hub does all day (dicts, lists,
integers, JSON) and never changes, or old scores would mean nothing. It uses the standard library
only.
"""

import json
import time
from collections.abc import Callable

REFERENCE = 100.0
"""The score of the machine on which the absolute figures of the gates were read (2 shared cores,
CPython 3.11).
"""
UNIT_S = 0.0094
"""Seconds that one round takes on that machine: chosen so that it scores `REFERENCE` when nothing
else runs there.
"""
ROUNDS = 40


def one_round() -> int:
    """A fixed piece of work; returns a checksum so that nothing of it can be left out."""
    total = 0
    table: dict[str, int] = {}
    for number in range(20_000):
        key = f"k{number % 3000}"
        table[key] = table.get(key, 0) + number
    rows = sorted(((value, key) for key, value in table.items()), reverse=True)
    for value, key in rows[:2000]:
        total += value % 97 + len(key)
    low = 1
    for _ in range(20_000):
        low = (low * 1_103_515_245 + 12_345) % 2_147_483_648
    document = {
        "metadata": {"name": "n", "labels": {f"l{n}": str(n) for n in range(40)}},
        "items": rows[:400],
    }
    for _ in range(8):
        text = json.dumps(document)
        total += len(text) + len(json.loads(text)["items"])
    return total + low % 11


def score(clock: Callable[[], float] = time.perf_counter) -> float:
    """The better the higher. The best of several rounds, because other processes only slow one
    down. Where processor seconds are scaled the clock is `time.process_time`.
    """
    best = float("inf")
    for _ in range(ROUNDS):
        begun = clock()
        one_round()
        best = min(best, clock() - begun)
    return REFERENCE * UNIT_S / best


if __name__ == "__main__":
    print(f"{score():.1f} (the reference machine: {REFERENCE:.0f})")
