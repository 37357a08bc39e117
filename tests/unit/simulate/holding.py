"""What copies hold and what clusters have, counted again from the lives of works and the clusters of
the inputs: sums over the measured time, and the most at once. It calls neither the engine nor the
report.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from federator.model.fleet import ClusterView
from federator.model.resources import CPU, GPU, MEMORY
from federator.simulate.inputs import EventKind, Inputs
from federator.simulate.outcome import FLEET, SimulationResult
from tests.unit.simulate import growth

RESOURCES: Final = {"cpu": (CPU, 1), "memory": (MEMORY, 1 << 20), "gpu": (GPU, 1)}
"""Name in reports -> (name in nodes, what one unit is in nodes)."""
Amounts = dict[str, int]
Found = dict[tuple[str, str], tuple[int, int, int, float]]
"""(cluster, resource) -> (amount times seconds that was there, that was held, the most that was held
at once, the largest share)."""


def broken(inputs: Inputs, outcome: SimulationResult) -> Iterator[str]:
    """What is held otherwise than the lives say, each a sentence."""
    if any(work.recorded is not None for work in inputs.works):
        return  # a work's fields do not say what an elastic gang holds
    found = counted(inputs, outcome)
    for held in outcome.held:
        told = (held.capacity_s, held.used_s, held.peak, held.peak_share)
        expected = found[held.cluster, held.resource]
        if told != expected:
            where = held.cluster or "the fleet"
            yield f"{where} is told to have, hold and peak {told} of {held.resource}: {expected}"
        if held.capacity_s and held.used_s / held.capacity_s > held.peak_share:
            yield f"{held.cluster} holds more {held.resource} on average than at the peak"


def counted(inputs: Inputs, outcome: SimulationResult) -> Found:
    """From every second at which something changes to the next such second."""
    begin_s = outcome.start_s + outcome.warm_up_s
    held, there = _held(outcome), _there(inputs, outcome)
    end_s = max(outcome.end_s, outcome.horizon_s)
    times = {0, begin_s, outcome.horizon_s, end_s} | held.keys() | there.keys()
    agenda = sorted(at_s for at_s in times if at_s <= end_s)
    using: dict[str, Amounts] = defaultdict(lambda: dict.fromkeys(RESOURCES, 0))
    having: dict[str, Amounts] = {}
    found: Found = defaultdict(lambda: (0, 0, 0, 0.0))
    for at_s, until_s in itertools.pairwise(agenda):
        for cluster, resource, amount in held.get(at_s, ()):
            using[cluster][resource] += amount
        for cluster, sizes in there.get(at_s, ()):
            having[cluster] = sizes
        if at_s < begin_s:
            continue
        for resource in RESOURCES:
            of = [(using[name][resource], sizes[resource]) for name, sizes in having.items()]
            whole = (sum(used for used, _ in of), sum(size for _, size in of))
            for name, (used, size) in zip([*having, FLEET], [*of, whole], strict=True):
                had, took, most, share = found[name, resource]
                lasted_s = until_s - at_s if at_s < outcome.horizon_s else 0
                found[name, resource] = (
                    had + size * lasted_s,
                    took + used * lasted_s,
                    max(most, used),
                    max(share, used / size if size else 0.0),
                )
    return found


def _held(outcome: SimulationResult) -> Mapping[int, list[tuple[str, str, int]]]:
    """Second -> (cluster, resource, so much more is held from then on)."""
    changes: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
    for life in outcome.lives:
        work = life.work
        for stay in life.stays:
            for resource, each in (
                ("cpu", work.cpu_milli),
                ("memory", work.memory_mib),
                ("gpu", work.gpu),
            ):
                amount = (each or 0) * stay.copies
                changes[stay.start_s].append((stay.cluster, resource, amount))
                if stay.end_s is not None:
                    changes[stay.end_s].append((stay.cluster, resource, -amount))
    return changes


def _there(inputs: Inputs, outcome: SimulationResult) -> Mapping[int, list[tuple[str, Amounts]]]:
    """Second -> (cluster, what its nodes have from then on)."""
    end_s = outcome.end_s
    changes: dict[int, list[tuple[str, Amounts]]] = defaultdict(list)
    described = dict(inputs.clusters)
    lost: set[str] = set()
    changes[0] += [(name, _size(view)) for name, view in described.items()]
    for event in inputs.events:
        name = event.cluster
        if event.at_s > end_s:
            break
        if event.kind in (EventKind.ADDED, EventKind.GROWN) and event.view is not None:
            described[name] = event.view
            if event.kind is EventKind.ADDED:
                lost.discard(name)
        elif event.kind is EventKind.LOST:
            lost.add(name)
        elif event.kind is EventKind.RETURNED:
            lost.discard(name)
        else:
            continue
        size = dict.fromkeys(RESOURCES, 0) if name in lost else _size(described[name])
        changes[event.at_s].append((name, size))
    return _with_growth(changes, inputs, outcome) if outcome.grown else changes


def _with_growth(
    changes: Mapping[int, list[tuple[str, Amounts]]], inputs: Inputs, outcome: SimulationResult
) -> Mapping[int, list[tuple[str, Amounts]]]:
    """The same with the nodes of autoscalers."""
    having: dict[str, Amounts] = {}
    found: dict[int, list[tuple[str, Amounts]]] = {}
    for at_s in sorted({*changes, *growth.changes(outcome)}):
        having |= dict(changes.get(at_s, ()))
        more = growth.amounts(inputs, outcome, at_s)
        found[at_s] = [
            (name, {shown: size + more[name][shown] for shown, size in sizes.items()})
            for name, sizes in having.items()
        ]
    return found


def _size(view: ClusterView) -> Amounts:
    rows = view.capacity.rows if view.capacity is not None else ()
    return {
        shown: sum(row.count * row.allocatable[name] for row in rows) // unit
        for shown, (name, unit) in RESOURCES.items()
    }
