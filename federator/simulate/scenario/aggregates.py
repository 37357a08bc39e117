"""What aggregates cost in truth: how many copies the totals of a cluster promise beside what its
nodes hold, for the shapes of the demand, while nothing runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from federator.model.fleet import ClusterView, NodeRow
from federator.model.resources import CPU, GPU, MEMORY, Resources
from federator.simulate.demand import Work

SHAPES_MAX: Final = 1000
"""The most frequent shapes are compared."""


@dataclass(frozen=True, slots=True)
class Promise:
    """Copies of one shape in one empty cluster."""

    cluster: str
    shape: Resources
    by_nodes: int
    by_totals: int


def shapes(works: Iterable[Work]) -> list[Resources]:
    """What one shard asks for, each once, the most frequent first."""
    counted = Counter((work.cpu_milli or 0, work.memory_mib or 0, work.gpu or 0) for work in works)
    return [
        Resources({CPU: cpu, MEMORY: memory << 20, GPU: gpu})
        for (cpu, memory, gpu), _ in counted.most_common(SHAPES_MAX)
    ]


def promises(views: Mapping[str, ClusterView], asked: Sequence[Resources]) -> list[Promise]:
    """Every pair of a shape and a cluster with totals that hold a copy. Shapes that ask for nothing
    are left out."""
    pairs = []
    for name, view in views.items():
        rows = view.capacity.rows if view.capacity is not None else ()
        for shape in asked:
            by_totals = _whole(rows).fits(shape)
            if len(shape) and by_totals:
                by_nodes = sum(row.count * row.allocatable.fits(shape) for row in rows)
                pairs.append(Promise(name, shape, by_nodes, by_totals))
    return pairs


def _whole(rows: Sequence[NodeRow]) -> Resources:
    total = Resources()
    for row in rows:
        total = total + row.allocatable * row.count
    return total


def sentence(views: Mapping[str, ClusterView], works: Iterable[Work]) -> str:
    """The cost in one sentence, for a report."""
    pairs = promises(views, shapes(works))
    more = [pair for pair in pairs if pair.by_totals > pair.by_nodes]
    begin = "Each cluster is one node of its totals, so that fragmentation is not seen"
    if not more:
        return (
            f"{begin}; for the shapes of this demand the totals of empty clusters promise what "
            "their nodes hold."
        )
    promised, held = sum(pair.by_totals for pair in pairs), sum(pair.by_nodes for pair in pairs)
    worst = max(
        more,
        key=lambda pair: (
            (pair.by_totals - pair.by_nodes) / pair.by_totals,
            pair.by_totals,
            pair.cluster,
        ),
    )
    share = 100 * (promised - held) / promised
    return (
        f"{begin}: of {len(pairs):,} pairs of a shape and an empty cluster {len(more):,} "
        "promise more copies than the "
        f"nodes hold, {share:.1f} % of all copies promised; the furthest from the truth is "
        f"{_words(worst.shape)} in "
        f"{worst.cluster}: {worst.by_totals:,} copies by totals, {worst.by_nodes:,} by nodes."
    )


def _words(shape: Resources) -> str:
    parts = {CPU: lambda amount: f"{amount}m cpu", MEMORY: lambda amount: f"{amount >> 20} MiB"}
    return ", ".join(
        parts.get(name, lambda amount: f"{amount} GPU")(amount) for name, amount in shape.items()
    )
