"""The nodes that autoscalers added, by cluster and class, in the measured time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from federator.model.scaleup import MILLIONTHS
from federator.simulate import grown
from federator.simulate.outcome import GrownNode, SimulationResult

HEADERS: Final = (
    "cluster",
    "class",
    "ordered",
    "came",
    "removed",
    "at most",
    "node-hours",
    "a node for an hour, at the end",
    "cost",
)


@dataclass(frozen=True, slots=True)
class NodeClassUse:
    cluster: str
    node_class: str
    ordered: int
    """Nodes, from the warm-up to the end of the simulation; so are the next three."""
    came: int
    removed: int
    peak: int
    """The most that were there at once for at least a second."""
    node_s: int
    """Seconds for which they were there, together; until the horizon."""
    per_hour: float
    """Price of a node at the end."""
    cents: int
    """Hundredths that they cost until the horizon."""


def classes(outcome: SimulationResult) -> tuple[NodeClassUse, ...]:
    """Every class that a cluster states, by name; none where no cluster can grow."""
    by_class: dict[tuple[str, str], list[GrownNode]] = {}
    for node in outcome.grown or ():
        by_class.setdefault((node.cluster, node.node_class), []).append(node)
    prices = grown.last_prices(outcome.node_prices)
    return tuple(_use(*key, by_class.get(key, []), prices[key], outcome) for key in sorted(prices))


def _use(
    cluster: str,
    node_class: str,
    nodes: Sequence[GrownNode],
    per_hour: int,
    outcome: SimulationResult,
) -> NodeClassUse:
    begin_s = outcome.start_s + outcome.warm_up_s
    instants = ((node.ordered_s, node.ready_s, node.removed_s) for node in nodes)
    ordered, came, removed = (
        sum(at_s is not None and at_s >= begin_s for at_s in each)
        for each in (zip(*instants, strict=True) if nodes else ((), (), ()))
    )
    return NodeClassUse(
        cluster,
        node_class,
        ordered,
        came,
        removed,
        grown.most(nodes, begin_s, max(outcome.end_s, outcome.horizon_s)),
        grown.node_seconds(nodes, begin_s, outcome.horizon_s),
        per_hour / MILLIONTHS,
        round(100 * grown.cost(nodes, outcome.node_prices, begin_s, outcome.horizon_s)),
    )


def peak(outcome: SimulationResult) -> int:
    """The most nodes of autoscalers that were there at once in the measured time."""
    begin_s = outcome.start_s + outcome.warm_up_s
    return grown.most(outcome.grown or (), begin_s, max(outcome.end_s, outcome.horizon_s))


def there(outcome: SimulationResult, times: Sequence[int]) -> tuple[float, ...]:
    """How many of them were there at each of these instants."""
    spans = [(node.ready_s, node.removed_s) for node in outcome.grown or ()]
    return tuple(
        float(
            sum(
                ready_s is not None and ready_s <= at_s and (gone_s is None or at_s < gone_s)
                for ready_s, gone_s in spans
            )
        )
        for at_s in times
    )


def rows(
    outcome: SimulationResult,
) -> Iterator[tuple[str, str, int, int | None, int | None, int, float]]:
    """A row for each node: cluster, class, when it was ordered, came and was removed, its seconds
    and cost in the measured time."""
    begin_s, horizon_s = outcome.start_s + outcome.warm_up_s, outcome.horizon_s
    for node in outcome.grown or ():
        cost: Fraction = grown.cost([node], outcome.node_prices, begin_s, horizon_s)
        yield (
            node.cluster,
            node.node_class,
            node.ordered_s,
            node.ready_s,
            node.removed_s,
            grown.node_seconds([node], begin_s, horizon_s),
            float(cost),
        )
