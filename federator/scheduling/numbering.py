"""The numbers of a decision and of its shares. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from msgspec import structs

from federator.model import seq as seqs
from federator.model import shards
from federator.model.decision import Decision, Share
from federator.model.shards import Ranges
from federator.scheduling.entry import Entry, Standing, no_mark

FAR_TERMS: Final = 1 << 16
"""A number that is so many elections ahead of ours is not one that a hub of this host gave before
the host was restored."""


def marker(entry: Entry, given: Mapping[str, int], seq: int) -> Callable[[str], int]:
    """Cluster -> the highest seq there of the workload, or in this cycle (`given`)."""
    standing = entry.standing
    least = epoch(standing, seq) if entry.ask.exclusive else 0
    if standing.mark is no_mark and not least:  # of a new workload: asked for every cluster
        return lambda cluster: given.get(cluster, 0)
    return lambda cluster: max(standing.mark(cluster), given.get(cluster, 0), least)


def numbered(
    decision: Decision, refusing: frozenset[str], mark: Callable[[str], int], seq: int
) -> Decision:
    """The decision with its own new seq, and new seqs for shares of clusters that refuse theirs."""
    return replace(
        decision,
        seq=seq,
        shares=tuple(
            structs.replace(share, seq=seqs.above(mark(share.cluster), seq))
            if share.cluster in refusing
            else share
            for share in decision.shares
        ),
    )


def stopped(decision: Decision, mark: Callable[[str], int], seq: int) -> Decision:
    """The decision with no slots anywhere: clusters keep their shards, and what is recorded of
    them, and run none."""
    if not any(share.slots for share in decision.shares):
        return decision
    return replace(
        decision,
        seq=seq,
        shares=tuple(
            structs.replace(share, slots=0, seq=seqs.above(mark(share.cluster), seq))
            if share.slots
            else share
            for share in decision.shares
        ),
    )


def issued(decision: Decision, entry: Entry, seq: int) -> Decision:
    """A decision with another seq than `seq`, with one issued by this host: the recorded one when
    no share changes, or `seq`. Shares may have higher seqs in members with higher numbers."""
    recorded = entry.standing.recorded
    # The seq of a decision says which of the host's own it is; a member's higher one would be taken
    # for forged by the next leader.
    return replace(decision, seq=recorded.seq if recorded is not None else seq)


def marked(decision: Decision, highest: Mapping[str, int]) -> Decision:
    """The decision with the marks of clusters without a share where a slice has or had a higher
    seq: a removal there must not be mistaken for the slice of a later decision."""
    given = {share.cluster for share in decision.shares}
    marks = {
        name: number
        for name, number in highest.items()
        if number > decision.seq and name not in given
    }
    return replace(decision, marks=marks) if marks else decision


def in_pieces(decision: Decision, held: Mapping[str, Ranges]) -> Decision:
    """The decision with every range in the pieces that have Jobs: adjacent pieces are never joined
    while they run."""

    def pieces(share: Share) -> Share:
        if not share.ranges or share.cluster not in held:
            return share
        return structs.replace(share, ranges=shards.in_pieces(held[share.cluster], share.ranges))

    if not any(share.ranges for share in decision.shares):
        return decision
    return replace(decision, shares=tuple(map(pieces, decision.shares)))


def epoch(standing: Standing, seq: int) -> int:
    """The highest number that a share of this workload ever had in any cluster: what begins
    elsewhere gets a higher one, so that storage can tell the later of two runs of a shard
    (FENCE_EPOCH).

    Our own numbers rise by themselves; it matters where a member's are higher (`seqs.above`), or
    where the host was restored from a backup. Numbers that are far from ours were written by a
    hand, and use up the range of no other cluster.
    """
    numbers = [*standing.marks.values(), *(holding.seq for holding in standing.held)]
    # A number far from ours is a hand's: to go above it would leave no numbers for later decisions.
    near = seqs.term(seq) + FAR_TERMS
    return max((number for number in numbers if seqs.term(number) <= near), default=0)
