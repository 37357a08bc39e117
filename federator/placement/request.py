"""What a decision on one workload is made from besides its ask: the same for every kind of workload
(`engine.KINDS`)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.fleet import FleetSnapshot, Holding
from federator.model.quickly import quickly
from federator.model.shards import Ranges
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates, leaving

Blocks: TypeAlias = Mapping[str, Ranges]
"""cluster -> its blocks of ordinals, sorted. Neighbours are not joined: each block has its own
StatefulSet, and with it the names of its claims."""
NO_BLOCKS: Final[Blocks] = MappingProxyType({})
MayRun: TypeAlias = Mapping[str, Ranges]
"""Cluster -> shards that it may still run although its share does not have them."""
NOWHERE: Final[MayRun] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Request:
    """A decision charges the ledger with what it gives."""

    snapshot: FleetSnapshot
    ledger: Ledger
    seq: int
    """Unchanged shares keep their seq; changed ones get this, or the next above `mark(cluster)`."""
    mark: Callable[[str], int]
    held: Sequence[Holding] = ()
    """What the last decision gave, in clusters that are gone too."""
    capped: Mapping[str, int] = field(default_factory=lambda: candidates.NOBODY)
    """Cluster -> copies that its scheduler could bind lately, whatever room it reports; more go
    elsewhere, or stay pending."""
    previous_hash: str = ""
    """With mode Fresh held copies get no preference, unless this is the hash of the present
    inputs."""
    finished: Ranges = ()
    """Shards that are done: they run nowhere."""
    by_name: bool = False
    """Breaks the last ties by name."""
    leave: leaving.Leave | None = None
    """Limits how many running copies an edit may move."""
    per_cluster: int = 0
    """The last count per cluster under strategy Duplicate."""
    blocks: Blocks = field(default_factory=lambda: NO_BLOCKS)
    """Of ordinals: those of the decision in force."""
    empty: Collection[str] = ()
    """Of ordinals: clusters in which nothing of the workload is left."""
    may_run: MayRun = field(default_factory=lambda: NOWHERE)
    """Of exclusive shards: where they may run besides, as far as that is not known to have
    ended."""


quick_request = quickly(Request)
Divide: TypeAlias = Callable[[Ask, Request], Decision]
"""Decides by the kinds that follow in the table, the last of which divides copies that are all
alike."""
