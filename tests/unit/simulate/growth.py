"""Nodes of autoscalers, counted again from when each came and went and from what the inputs state of
classes and prices, and what is wrong with them. It calls neither the engine nor the report.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from federator.model.scaleup import NodeClass
from federator.simulate.inputs import EventKind, Inputs
from federator.simulate.outcome import GrownNode, SimulationResult

UNITS = {"cpu": ("cpu", 1), "memory": ("memory", 1 << 20), "gpu": ("nvidia.com/gpu", 1)}
"""Name in reports -> (name in nodes, what one unit is in nodes)."""


def classes(inputs: Inputs) -> dict[tuple[str, str], NodeClass]:
    """(cluster, class) -> what is stated of its nodes."""
    added = [event.view for event in inputs.events if event.kind is EventKind.ADDED]
    views = [*inputs.clusters.values(), *(view for view in added if view is not None)]
    return {(view.name, each.name): each for view in views for each in view.scale_up}


def is_there(node: GrownNode, at_s: int) -> bool:
    """After all that happens at that second."""
    came = node.ready_s is not None and node.ready_s <= at_s
    return came and (node.removed_s is None or at_s < node.removed_s)


def amounts(inputs: Inputs, outcome: SimulationResult, at_s: int) -> dict[str, Counter[str]]:
    """Cluster -> what nodes of its autoscaler have then."""
    stated = classes(inputs)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for node in outcome.grown or ():
        if is_there(node, at_s):
            size = stated[node.cluster, node.node_class].allocatable
            for shown, (name, unit) in UNITS.items():
                found[node.cluster][shown] += size[name] // unit
    return found


def changes(outcome: SimulationResult) -> set[int]:
    """The seconds at which nodes came or went."""
    ends = (at_s for node in outcome.grown or () for at_s in (node.ready_s, node.removed_s))
    return {at_s for at_s in ends if at_s is not None}


def price(inputs: Inputs, node: GrownNode, at_s: int) -> float:
    """Of the node for an hour at that second."""
    per_hour = (classes(inputs)[node.cluster, node.node_class].price or 0) / 1e6
    for event in inputs.events:
        named = (event.cluster, event.node_class) == (node.cluster, node.node_class)
        if event.kind is EventKind.PRICE_CHANGED and named and event.at_s <= at_s:
            per_hour = event.price_per_hour
    return per_hour


def costs(inputs: Inputs, outcome: SimulationResult, seconds: range) -> Counter[str]:
    """Cluster -> what nodes of its autoscaler cost, between the seconds at which anything
    changes."""
    priced = {event.at_s for event in inputs.events if event.kind is EventKind.PRICE_CHANGED}
    inside = {at_s for at_s in priced | changes(outcome) if at_s in seconds}
    found: Counter[str] = Counter()
    for start_s, end_s in pairwise(sorted({seconds.start, *inside, seconds.stop})):
        for node in outcome.grown or ():
            if is_there(node, start_s):
                hours = (end_s - start_s) / 3600
                found[node.cluster] += price(inputs, node, start_s) * hours  # type: ignore[assignment]
    return found


def figures(inputs: Inputs, outcome: SimulationResult, seconds: range) -> dict[str, float]:
    """Second by second, over the time that is measured; the most at once, to the end of the
    simulation too."""
    nodes, begin_s = outcome.grown or (), seconds.start
    whole = range(begin_s, max(seconds.stop, outcome.end_s))
    counts = [sum(is_there(node, at_s) for node in nodes) for at_s in whole]
    return {
        "grown_node_s": sum(counts[: len(seconds)]),
        "grown_peak": max(counts, default=0),
        "waited_for_nodes": sum(
            life.waited_for_nodes for life in outcome.lives if life.work.submit_s >= begin_s
        ),
    }


def broken(inputs: Inputs, outcome: SimulationResult) -> Iterator[str]:
    """What no autoscaler does, each a sentence."""
    stated, nodes = classes(inputs), outcome.grown or ()
    told = {event.cluster for event in inputs.events if event.kind is EventKind.SCALE_UP}
    lost = {(event.cluster, event.at_s) for event in inputs.events if event.kind is EventKind.LOST}
    for node in nodes:
        minutes = stated[node.cluster, node.node_class].minutes
        where = f"a node of {node.node_class} in {node.cluster}"
        if node.ready_s is not None:
            took_s = node.ready_s - node.ordered_s
            if took_s < 60 * minutes or (took_s > 60 * minutes and node.cluster not in told):
                yield f"{where} came after {took_s} s, and {minutes} minutes are stated"
        was_there_s = (node.removed_s or 0) - (node.ready_s or 0)
        removed = node.removed_s is not None and (node.cluster, node.removed_s) not in lost
        if removed and (node.ready_s is None or was_there_s < inputs.idle_s):
            yield f"{where} was removed before it can have been empty for {inputs.idle_s} s"
    for at_s in {node.ordered_s for node in nodes}:
        ordered = [node for node in nodes if node.ordered_s <= at_s]
        coming = [node for node in ordered if node.ready_s is None or node.ready_s > at_s]
        waits = [wait for life in outcome.lives for wait in life.waits]
        waiting = sum(
            wait.copies
            for wait in waits
            if wait.start_s <= at_s and (wait.end_s is None or at_s < wait.end_s)
        )
        if len(coming) > waiting and not told and not lost:
            yield f"at {at_s} s {len(coming)} nodes are on their way for {waiting} copies"
        here = Counter(
            (node.cluster, node.node_class)
            for node in ordered
            if is_there(node, at_s) or node.ready_s is None or node.ready_s > at_s
        )
        for key, count in here.items():
            if count > stated[key].most and not told and not lost:
                yield f"at {at_s} s {key} has or awaits {count} nodes of {stated[key].most}"
