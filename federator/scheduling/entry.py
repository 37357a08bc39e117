"""One workload that is due, with all that a decision on it reads besides the snapshot and the commitments.

Whoever asks for a decision makes an entry: the hub from what it has heard, `place` and `explain` from objects. What an
entry says is said by who made it; a cycle looks nothing up.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from federator.model.ask import Admitted, Ask
from federator.model.decision import Share
from federator.model.fleet import Holding
from federator.model.names import WorkloadKey
from federator.model.shards import Ranges
from federator.placement.policy.permitted import Refused
from federator.placement.selection.leaving import Leave


def no_mark(_: str) -> int:
    """No cluster's numbers go further than the host's."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the decision in force says that the next one builds on."""

    seq: int
    inputs_hash: str
    shares: tuple[Share, ...] = ()
    wanted: int = 0
    charged: Admitted | None = None
    """What it charges; None where it does not say."""
    tolerated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    per_cluster: int = 0
    surplus: int = 0
    to_move: int = 0
    rebalance: bool = False
    """Somebody has asked that everything go where its policy wants it now, and that is not done yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a workload has, and how it came by it. Of one that has nothing yet every field is as it is by default."""

    held: tuple[Holding, ...] = ()
    recorded: Recorded | None = None
    admitted: Admitted | None = None
    """What of it was admitted last; None where nobody can tell."""
    capped: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> how many copies its scheduler could bind lately, whatever room it reports."""
    done: Ranges = ()
    """Shards that nobody has to run any more, recorded on the host or only told by members."""
    mark: Callable[[str], int] = no_mark
    """How far the numbers of a cluster go: a share there that changes gets one above."""
    overtaken: bool = False
    """Members hold slices of later decisions than the host knows: it was restored from a backup."""
    refusing: frozenset[str] = frozenset()
    """Clusters that refuse the slice they have because they have seen a later one: only a new seq helps."""
    marks: Mapping[str, int] = field(default_factory=dict)
    """Cluster -> the highest seq of the workload's slices that are there, or were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`ask` is under the policies in force. `leave` says how many running copies an edit may move now; without it all
    may."""

    ask: Ask
    standing: Standing = Standing()
    leave: Leave | None = None
    refused: Refused | None = None
    """Why it may not run as it is written."""
    native: bool = False
    """The host would run it itself, so that it must not run in members too."""

    @property
    def key(self) -> WorkloadKey:
        return self.ask.key

    @property
    def charged(self) -> Ask:
        """The ask as far as it is charged: of a refused workload by what runs of it, not by what it says now."""
        recorded = self.standing.recorded
        return self.ask if self.refused is None or recorded is None else as_charged(self.ask, recorded.charged)


def as_charged(ask: Ask, before: Admitted | None) -> Ask:
    """The ask with what a decision charges for what runs; as it is where the decision does not say."""
    if before is None:
        return ask
    return replace(
        ask,
        generation=before.generation,
        shape=before.shape,
        project=before.project,
        tier=before.tier,
        priority=ask.priority if before.priority is None else before.priority,
        slots=ask.slots if before.count is None else before.count,
    )
