"""W1: what a cycle pays for decisions that no report includes yet.

10,000 asks of the thousand kinds of E2 come at once, in batches of 256, to a hundred clusters. Each
batch is decided as the hub does it, one cycle over all that is assumed so far, and no member reports
meanwhile. The figure is the processor time of a decision in the last eight batches, the floor that
in the first eight: how many decisions are in flight must not show in it.
"""

import gc
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from federator.model.ask import Ask
from federator.model.fleet import FleetSnapshot
from federator.model.names import WorkloadKey
from federator.placement.room.commitments import Commitments
from federator.process import malloc
from federator.scheduling import cycle
from federator.scheduling.entry import Entry, Standing
from federator.scheduling.queue import Queue
from tests.bench import engine
from tests.bench.harness import Result

CLUSTERS = 100
ASKS = 10_000
BATCH = 256
COMPARED = 8
"""Batches at either end that are compared."""


def measure(_wanted: frozenset[str], scale: float) -> Iterator[Result]:
    malloc.collect_rarely()  # as the hub does when it starts
    snapshot = FleetSnapshot(as_of=0.0, clusters=engine.fleet(CLUSTERS))
    count = max(2 * COMPARED * BATCH, round(ASKS * scale))
    _batches(snapshot, COMPARED * BATCH)  # what is worked out once per kind of ask is there then
    gc.collect()
    batches = _batches(snapshot, count)
    first, last = batches[:COMPARED], batches[-COMPARED:]
    notes = {
        "in_flight": count,
        "clusters": CLUSTERS,
        "first_a_second": round(1 / _each(first)),
        "last_a_second": round(1 / _each(last)),
    }
    yield Result("W1", ours=1e6 * _each(last), floor=1e6 * _each(first), notes=notes)


def _batches(snapshot: FleetSnapshot, count: int) -> list[tuple[int, float]]:
    """(decisions, processor seconds) of every full batch of a wave."""
    commitments, numbers = Commitments(), itertools.count(1)
    asks = [_ask(index) for index in range(count)]
    batches: list[tuple[int, float]] = []
    for start in range(0, count - count % BATCH, BATCH):
        entries = [Entry(ask=ask, standing=Standing()) for ask in asks[start : start + BATCH]]
        begun = time.process_time()
        made = cycle.run(entries, Queue(), snapshot, commitments, seq=numbers.__next__)
        for decided in made.decided:
            commitments.assume(decided.after)
        batches.append((len(entries), time.process_time() - begun))
        lacking = [one.key for one in made.decided if one.decision.shortfall]
        assert not lacking, f"the fleet is too small for {lacking[:3]}"
    return batches


def _each(batches: Sequence[tuple[int, float]]) -> float:
    """Processor seconds of one decision."""
    return sum(took for _, took in batches) / sum(count for count, _ in batches)


def _ask(index: int) -> Ask:
    """An ask as those of E2, of a project that no account names, with a name of its own."""
    ask = engine.ask_of(index)
    key = WorkloadKey(ask.key.kind, ask.key.namespace, f"w{index}")
    return replace(ask, key=key, uid=f"00000000-0000-4000-8000-{index:012d}")
