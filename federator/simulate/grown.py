"""What the nodes that autoscalers added amount to: node-seconds, cost, and the most at once."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from federator.model.scaleup import MILLIONTHS
from federator.simulate.outcome import GrownNode, NodePrice

HOUR_S: Final = 3600


def there(node: GrownNode, begin_s: int, end_s: int) -> tuple[int, int]:
    """From when until when the node was there within this time; an empty span if it was not."""
    if node.ready_s is None:
        return begin_s, begin_s
    until_s = end_s if node.removed_s is None else min(node.removed_s, end_s)
    from_s = max(node.ready_s, begin_s)
    return from_s, max(until_s, from_s)


def node_seconds(nodes: Iterable[GrownNode], begin_s: int, end_s: int) -> int:
    """Seconds for which they were there in this time, together."""
    spans = (there(node, begin_s, end_s) for node in nodes)
    return sum(until_s - from_s for from_s, until_s in spans)


def cost(
    nodes: Iterable[GrownNode], prices: Sequence[NodePrice], begin_s: int, end_s: int
) -> Fraction:
    """What they cost in this time, in the unit of prices; each second at the price of then."""
    of_class: dict[tuple[str, str], list[NodePrice]] = {}
    for price in prices:
        of_class.setdefault((price.cluster, price.node_class), []).append(price)
    total = 0
    for node in nodes:
        from_s, until_s = there(node, begin_s, end_s)
        steps = of_class.get((node.cluster, node.node_class), [])
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            step_ends_s = until_s if following is None else min(following.at_s, until_s)
            total += max(step_ends_s - max(step.at_s, from_s), 0) * step.per_hour
    return Fraction(total, HOUR_S * MILLIONTHS)


def most(nodes: Iterable[GrownNode], begin_s: int, end_s: int) -> int:
    """The most of them that were there at once for at least a second of this time."""
    changes: dict[int, int] = {}
    for node in nodes:
        from_s, until_s = there(node, begin_s, end_s)
        if until_s > from_s:
            changes[from_s] = changes.get(from_s, 0) + 1
            changes[until_s] = changes.get(until_s, 0) - 1
    peak = here = 0
    for at_s in sorted(changes):
        here += changes[at_s]
        peak = max(peak, here)
    return peak


def last_prices(prices: Iterable[NodePrice]) -> Mapping[tuple[str, str], int]:
    """(cluster, class) -> millionths an hour at the end."""
    return {(price.cluster, price.node_class): price.per_hour for price in prices}
