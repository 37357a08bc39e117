"""An independent check of an outcome: no work is lost, no cluster ever holds more than it has, a
gang stands whole, and nobody takes more than the quotas say.

It adds up stays and compares them with the nodes and quotas that the inputs describe. It calls
neither the engine nor the placement core, so an error there is not repeated here.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Final

from federator.model.fleet import ClusterView
from federator.simulate.demand import Work
from federator.simulate.inputs import EventKind, Inputs
from federator.simulate.outcome import End, Life, SimulationResult
from tests.unit.simulate import growth, holding, quotas

MIB: Final = 1 << 20
_UNITS: Final = (("cpu", 1), ("memory", MIB), ("nvidia.com/gpu", 1))
_Amounts = tuple[int, int, int]
"""Milli-cores, MiB and GPUs."""


def broken(inputs: Inputs, outcome: SimulationResult) -> list[str]:
    """What does not add up, each a sentence; empty when everything does."""
    return [
        *_works(inputs, outcome),
        *_lives(inputs, outcome),
        *_room(inputs, outcome),
        *_scaled(inputs, outcome),
        *_samples(outcome),
        *holding.broken(inputs, outcome),
        *quotas.broken(inputs, outcome),
        *growth.broken(inputs, outcome),
    ]


def _works(inputs: Inputs, outcome: SimulationResult) -> Iterator[str]:
    """Every work that was submitted in time is told of once, as it was given."""
    told = [life.work for life in outcome.lives]
    due = [work for work in inputs.works if work.submit_s <= outcome.end_s]
    if told != due:
        missing = {work.id for work in due} - {work.id for work in told}
        yield (
            f"{len(due)} works were submitted and {len(told)} are told of; missing: "
            f"{sorted(missing)[:3]}"
        )


def _lives(inputs: Inputs, outcome: SimulationResult) -> Iterator[str]:
    for life in outcome.lives:
        work = life.work
        if life.start_s is not None and life.start_s < work.submit_s:
            yield f"{work.id} starts before it is submitted"
        if life.end in (End.COMPLETED, End.FAILED):
            yield from _completed(life)
        elif work.kind != "service" and life.end is End.RUNNING and not life.stays:
            yield f"{work.id} runs nowhere"
        for stay in life.stays:
            gang = work.kind != "service" and work.recorded is None and not inputs.grows
            if gang and stay.copies != work.shards:
                yield f"{work.id} stands in {stay.cluster} with {stay.copies} of {work.shards}"
            if stay.end_s is not None and stay.end_s < stay.start_s:
                yield f"{work.id} leaves {stay.cluster} before it comes"


def _completed(life: Life) -> Iterator[str]:
    """A job that completed has run for its run time, all shards at once in one place at a time, and
    what was lost; one that failed has run for nothing but that. Between attempts it is in its
    place.
    """
    work = life.work
    useful = work.runtime_s if life.end is End.COMPLETED else 0
    if useful is None or life.start_s is None or life.end_s is None:
        yield f"{work.id} completed without a start or an end"
        return
    if work.kind == "service":
        return
    ran = sum(
        (stay.end_s or life.end_s) - stay.start_s
        for stay in life.stays
        if stay.copies == work.shards
    )
    lost = life.lost_s + life.preempted_s + life.failed_s
    if ran - life.backoff_s != useful + lost:
        yield (
            f"{work.id} ran {ran - life.backoff_s} s, and has {useful} s of work and {lost} s lost"
        )
    fails = work.failing.times if work.failing is not None else 0
    if (life.end is End.COMPLETED and life.failures != fails) or life.failures > fails:
        yield f"{work.id} has failed {life.failures} times of {fails}, and is {life.end}"
    ordered = sorted((stay.start_s, stay.end_s or life.end_s) for stay in life.stays)
    if any(later < sooner for (_, sooner), (later, _) in itertools.pairwise(ordered)):
        yield f"{work.id} runs in two places at once"


def _room(inputs: Inputs, outcome: SimulationResult) -> Iterator[str]:
    """At every instant each cluster has what its copies hold. Ends come before what begins at the
    same second.
    """
    changes: dict[str, list[tuple[int, int, _Amounts]]] = defaultdict(list)
    for life in outcome.lives:
        for stay in life.stays:
            held = _times(life.work, stay.copies)
            changes[stay.cluster].append((stay.start_s, 1, held))
            if stay.end_s is not None:
                changes[stay.cluster].append((stay.end_s, 0, _negative(held)))
    sizes = _sizes(inputs)
    for cluster, steps in sorted(changes.items()):
        used = (0, 0, 0)
        ordered = sorted(steps, key=lambda step: step[:2])
        for position, (at_s, _, amounts) in enumerate(ordered):
            used = (used[0] + amounts[0], used[1] + amounts[1], used[2] + amounts[2])
            last_of_instant = position + 1 == len(ordered) or ordered[position + 1][0] > at_s
            size = _size_at(sizes[cluster], at_s)
            more = growth.amounts(inputs, outcome, at_s)[cluster] if outcome.grown else {}
            size = (
                size[0] + more.get("cpu", 0),
                size[1] + more.get("memory", 0),
                size[2] + more.get("gpu", 0),
            )
            if last_of_instant and any(has > most for has, most in zip(used, size, strict=True)):
                yield f"at {at_s} s {cluster} holds {used} of {size} (milli-cores, MiB, GPUs)"
                break


def _samples(outcome: SimulationResult) -> Iterator[str]:
    """A sample tells of the works that wait then, and of what they lack."""
    waits = [wait for life in outcome.lives for wait in life.waits]
    for sample in outcome.samples:
        lacking = [w.copies for w in waits if _open(w.start_s, w.end_s, sample.at_s)]
        if (sample.waiting, sample.waiting_copies) != (len(lacking), sum(lacking)):
            yield (
                f"at {sample.at_s} s {sample.waiting} works are said to lack "
                f"{sample.waiting_copies} copies, and {len(lacking)} lack {sum(lacking)}"
            )


def _scaled(inputs: Inputs, outcome: SimulationResult) -> Iterator[str]:
    """At no instant a service has more copies than its curve asks for, or is told to lack others
    than the difference. Ends come before what begins at the same second.
    """
    if any(event.kind is EventKind.SCALED for event in inputs.events):
        return
    for life in outcome.lives:
        work, asked = life.work, life.work.shards
        if work.kind != "service" or work.recorded is not None or not work.curve:
            continue
        for step, following in zip_longest(
            ((work.submit_s, asked), *((one.at_s, one.copies) for one in work.curve)), work.curve
        ):
            at_s, asked = step
            until_s = outcome.end_s if following is None else min(following.at_s, outcome.end_s)
            for now_s in sorted({at_s, *(stay.start_s for stay in life.stays)}):
                if not at_s <= now_s < until_s:
                    continue
                has = sum(one.copies for one in life.stays if _open(one.start_s, one.end_s, now_s))
                lacks = sum(
                    one.copies for one in life.waits if _open(one.start_s, one.end_s, now_s)
                )
                if has + lacks != asked:
                    yield (
                        f"at {now_s} s {work.id} has {has} copies and lacks {lacks}, and asks "
                        f"for {asked}"
                    )


def _open(start_s: int, end_s: int | None, now_s: int) -> bool:
    return start_s <= now_s and (end_s is None or now_s < end_s)


def _sizes(inputs: Inputs) -> Mapping[str, list[tuple[int, _Amounts]]]:
    """Cluster -> (second, size from then on), rising."""
    sizes: dict[str, list[tuple[int, _Amounts]]] = defaultdict(list)
    for name, view in inputs.clusters.items():
        sizes[name].append((-1, _size(view)))
    described = dict(inputs.clusters)
    for event in inputs.events:
        if event.kind in (EventKind.ADDED, EventKind.GROWN) and event.view is not None:
            described[event.cluster] = event.view
            sizes[event.cluster].append((event.at_s, _size(event.view)))
        elif event.kind is EventKind.LOST:
            sizes[event.cluster].append((event.at_s, (0, 0, 0)))
        elif event.kind is EventKind.RETURNED:
            sizes[event.cluster].append((event.at_s, _size(described[event.cluster])))
    return sizes


def _size_at(sizes: list[tuple[int, _Amounts]], at_s: int) -> _Amounts:
    return next((size for since, size in reversed(sizes) if since <= at_s), (0, 0, 0))


def _size(view: ClusterView) -> _Amounts:
    rows = view.capacity.rows if view.capacity is not None else ()
    totals = [0, 0, 0]
    for row in rows:
        for place, (name, unit) in enumerate(_UNITS):
            totals[place] += row.count * row.allocatable[name] // unit
    return (totals[0], totals[1], totals[2])


def _times(work: Work, copies: int) -> _Amounts:
    """Of an elastic gang, which may have fewer pods than it asks for, what its least need."""
    if work.recorded is not None and work.recorded.ask.shape.elastic:
        least = [0, 0, 0]
        for part in work.recorded.ask.shape.parts:
            for place, (name, unit) in enumerate(_UNITS):
                least[place] += part.min * part.shape.requests[name] // unit
        return (least[0] * copies, least[1] * copies, least[2] * copies)
    return (
        (work.cpu_milli or 0) * copies,
        (work.memory_mib or 0) * copies,
        (work.gpu or 0) * copies,
    )


def _negative(amounts: _Amounts) -> _Amounts:
    return (-amounts[0], -amounts[1], -amounts[2])
