"""How many copies of a pod shape fit: exact counts over groups of equal nodes.

`summarise` builds the histogram that a member publishes, `copies` counts on it (`nodes.Nodes` is
the form that the ledger keeps while a batch gives room away). A pod must fit one node, so a request
is never compared with the sum over nodes.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from federator.model.ask import PodShape
from federator.model.fleet import NodeRow
from federator.model.kubernetes.taints import Taint
from federator.model.resources import ZERO, Resources
from federator.placement.room.nodes import Nodes, leading, row_key

MAX_ROWS: Final = 256
"""Rows of a published histogram; beyond this, amounts are rounded down (`summarise`)."""


def copies(rows: Iterable[NodeRow], shape: PodShape) -> int:
    """How many copies of `shape` fit on these nodes. The node selector of the shape is not judged
    here: a member passes only matching nodes, and the hub asks only for plain shapes."""
    return Nodes.of(rows).copies(shape)


def summarise(nodes: Iterable[NodeRow], limit: int = MAX_ROWS) -> tuple[NodeRow, ...]:
    """Groups equal nodes into at most `limit` rows, in a stable order.

    Exact while they fit. Otherwise allocatable and free amounts keep only their highest binary
    digits, eight at first, then fewer, so that each amount is understated by less than 2^(1-digits)
    of itself. If one digit still leaves too many rows (many different taints or models), the rows
    with the fewest nodes are dropped. `lost` states the error.

        13 GiB with 3 digits (binary 1101) becomes 12 GiB: 8% less
    """
    every = list(nodes)
    exact = rows = _group(every)
    digits = 8
    while len(rows) > limit and digits > 0:
        rows = _group(_rounded(row, digits) for row in every)
        digits -= 1
    if len(rows) > limit:
        rows = max(
            (_largest(exact, limit), _largest(rows, limit)),
            key=lambda kept: sum(row.count for row in kept),
        )
    return tuple(sorted(rows, key=row_key))


def _largest(rows: Iterable[NodeRow], limit: int) -> list[NodeRow]:
    return sorted(rows, key=lambda row: (-row.count, row_key(row)))[:limit]


def lost(nodes: Iterable[NodeRow], rows: Iterable[NodeRow]) -> Resources:
    """The free room of `nodes` that `rows` understate; nothing when the summary is exact."""
    total = ZERO
    for row in nodes:
        total = total + row.free * row.count
    for row in rows:
        total = total - row.free * row.count
    return total.at_least_zero()


def _group(nodes: Iterable[NodeRow]) -> list[NodeRow]:
    counts: dict[tuple[Resources, Resources, str, str, tuple[Taint, ...], bool], int] = {}
    for node in nodes:
        key = (
            node.allocatable,
            node.free,
            node.model,
            node.family,
            tuple(sorted(node.taints)),
            node.podless,
        )
        counts[key] = counts.get(key, 0) + node.count
    return [NodeRow(count, *key) for key, count in counts.items() if count > 0]


def _rounded(row: NodeRow, digits: int) -> NodeRow:
    return replace(row, allocatable=_floor(row.allocatable, digits), free=_floor(row.free, digits))


def _floor(amounts: Resources, digits: int) -> Resources:
    return Resources(
        {name: leading(amount, digits) for name, amount in amounts.items() if amount > 0}
    )
