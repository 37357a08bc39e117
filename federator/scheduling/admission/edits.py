"""Edits that ask for more of what runs, among the workloads that want quota. An edit preempts as a
new workload of its account with the same requests would.

An edit is admitted as a whole. What its own copies hold is theirs already, and none of them leaves
for it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from federator.model.decision import Reason
from federator.model.fleet import Commitment, copies_of
from federator.model.resources import Resources, cell
from federator.placement.quota.quota import Admission
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling import editing
from federator.scheduling.admission.domains import Want
from federator.scheduling.admission.holders import Holder, Victim
from federator.scheduling.admission.tree_usage import leaf
from federator.scheduling.editing import Proposed
from federator.scheduling.entry import Entry

AFTER: Final = Admission(
    0, Reason.QUOTA_EXCEEDED, "copies of it leave for another before it is judged"
)


@dataclass(frozen=True, slots=True)
class TierDomains:
    of: Callable[[str], tuple[str, ...]]
    """Cluster -> the domains in which it is."""
    limited: Mapping[str, Collection[str]]
    """Domain -> the resources that are limited there."""


def proposed(entry: Entry, ledger: Ledger, *, domains: bool) -> Proposed | None:
    """What an edit asks for that only quota may keep from it; None where that is judged by what the
    accounts use over all clusters alone: it asks for no more, or it goes from one account of a tree
    without `domains` to another."""
    ask, standing = entry.ask, entry.standing
    admitted = standing.admitted
    if admitted is None or not standing.held:
        return None
    if not editing.may_ask_for_more(ask, admitted, standing.support):
        return None
    if ask.shape.every_node:  # its nodes are charged, however many a cluster gets
        return None
    edit = editing.propose(
        ask,
        admitted,
        standing.held,
        ledger.snapshot,
        finished=standing.done,
        replaced=standing.replaced,
    )
    if edit is None or not (wants_more(edit, ledger) or (domains and goes_over(edit, ledger))):
        return None
    refused = ledger.edit(edit.edit)
    # For what an account forbids nobody need leave: no victim makes it allowed.
    return edit if refused is None or refused.reason is Reason.QUOTA_EXCEEDED else None


def after_leaving(entry: Entry, ledger: Ledger) -> Mapping[str, Admission]:
    """What is held back when copies of this workload leave for another: its edit is judged in its
    own turn, or it would take what they free, in a domain that nobody has looked at."""
    uid = entry.ask.uid
    if uid in ledger.held_back or proposed(entry, ledger, domains=True) is None:
        return ledger.held_back
    return {**ledger.held_back, uid: AFTER}


def wants_more(edit: Proposed, ledger: Ledger) -> bool:
    """Whether the edit asks the account of its project for more than its copies are charged
    there."""
    ask, before, tree = edit.edit.ask, edit.edit.before, ledger.tree
    if leaf(tree, ask.project) == leaf(tree, before.project) and ask.tier is before.tier:
        return bool(growth(edit, same=True))
    return not goes_over(edit, ledger)


def goes_over(edit: Proposed, ledger: Ledger) -> bool:
    """Whether it goes from one account of a tree to another, in the same tier."""
    ask, before, tree = edit.edit.ask, edit.edit.before, ledger.tree
    if leaf(tree, ask.project) == leaf(tree, before.project):
        return False
    roots = [
        {tree.path(name)[-1] for name in tree.charged(project)}
        for project in (ask.project, before.project)
    ]
    return ask.tier is before.tier and bool(roots[0] & roots[1])


def growth(edit: Proposed, *, same: bool) -> Resources:
    """What it asks for beyond what its copies are charged now. `same`: of the same account in the
    same tier; another has to give all of it."""
    return _more(edit, edit.edit.kept, edit.edit.running, same=same)


def _more(edit: Proposed, kept: int, running: int, *, same: bool) -> Resources:
    needs = edit.edit.ask.shape.requests * kept
    charged = edit.edit.before.shape.requests * running
    return (needs - charged).at_least_zero() if same else needs


def want(
    edit: Proposed, node: str, commitments: Commitments, ledger: Ledger, places: TierDomains
) -> Want:
    """What it lacks, as one copy that is admitted or not."""
    ask, before = edit.edit.ask, edit.edit.before
    own = leaf(ledger.tree, before.project)
    same = own == node and ask.tier is before.tier
    over = goes_over(edit, ledger)
    gives = None
    if over and own is not None:
        held = before.shape.requests * edit.edit.running
        gives = (own, _cells(edit, held, places, lambda copies: before.shape.requests * copies))
    cells = _cells(edit, growth(edit, same=same), places, partial(_in_domain, edit, same=same))
    return Want(
        node,
        ask.priority,
        ask.created_s,
        growth(edit, same=same),
        1,
        1,
        nowhere,
        edit_of=ask.uid,
        cells=lambda _: cells,
        outside=_outside(edit, growth(edit, same=same), places),
        gives=gives,
        helped=_by_nobody if over else partial(_helped, edit, commitments, ledger),
        place=None if over else partial(_lack, edit, commitments, ledger),
        whence=partial(leaving, edit, commitments, ledger),
    )


def nowhere(_: str) -> bool:
    """What chooses no domain: its copies are where they are, or in every cluster."""
    return False


def _by_nobody(victims: tuple[Victim, ...], _: int) -> bool:
    """Nobody leaves for one that goes to another account of its tree."""
    return not victims


def _in_domain(edit: Proposed, copies: int, *, same: bool) -> Resources:
    """What so many copies in one domain ask for more there. Of those that do not continue nobody
    knows yet where they are: as few as possible of these."""
    return _more(edit, min(copies, edit.edit.kept), copies, same=same)


def _cells(
    edit: Proposed, overall: Resources, places: TierDomains, inside: Callable[[int], Resources]
) -> Mapping[str, int]:
    """By cell, an amount over all clusters and what its copies in each domain come to."""
    cells = dict(overall.items())
    within: dict[str, int] = {}
    for cluster, copies in edit.mine.items():
        for domain in places.of(cluster):
            within[domain] = within.get(domain, 0) + copies
    for domain, copies in within.items():
        amounts = inside(copies)
        for resource in places.limited[domain]:
            if amounts[resource]:
                cells[cell(resource, domain)] = amounts[resource]
    return cells


def _outside(edit: Proposed, more: Resources, places: TierDomains) -> bool:
    """Whether some of its copies are in no domain that has what they ask for more, and the tree
    gives that in domains only."""
    only = {name for limited in places.limited.values() for name in limited if more[name]}
    return any(
        only - {name for domain in places.of(cluster) for name in places.limited[domain]}
        for cluster in edit.mine
    )


def _helped(
    edit: Proposed, commitments: Commitments, ledger: Ledger, victims: tuple[Victim, ...], _: int
) -> bool:
    """Whether its copies have room with their new requests when these have left."""
    if not victims:
        return True
    freed = room(leaving(edit, commitments, ledger, victims), commitments)
    return not editing.shortage(edit, ledger, freed)


def leaving(
    edit: Proposed, commitments: Commitments, ledger: Ledger, victims: Iterable[Victim]
) -> Iterator[tuple[Victim, Mapping[str, int]]]:
    """Each victim with cluster -> copies that leave there for an edit."""
    return whence(_lack(edit, commitments, ledger), commitments, victims)


def _lack(edit: Proposed, commitments: Commitments, ledger: Ledger) -> "Lack":
    return Lack(editing.lacking(edit, ledger), edit.mine, commitments)


def whence(
    lack: "Lack", commitments: Commitments, victims: Iterable[Victim]
) -> Iterator[tuple[Victim, Mapping[str, int]]]:
    """Each victim with cluster -> copies that leave there (`Lack.leave`)."""
    for victim in victims:
        if commitments.commitment(victim.holder.workload) is not None:
            yield victim, lack.leave(victim.holder, victim.copies)


def room(
    leaving: Iterable[tuple[Victim, Mapping[str, int]]], commitments: Commitments
) -> dict[str, Resources]:
    """Cluster -> what these give up there."""
    freed: dict[str, Resources] = {}
    for victim, there in leaving:
        commitment = commitments.commitment(victim.holder.workload)
        assert commitment is not None
        for cluster, copies in there.items():
            more = commitment.shape.requests * copies
            freed[cluster] = freed.get(cluster, Resources()) + more
    return freed


class Lack:
    """The room that a preemptor lacks in the clusters in which its copies are to be, while its
    victims are selected."""

    def __init__(
        self, lacks: Mapping[str, Resources], near: Collection[str], commitments: Commitments
    ) -> None:
        """`near`: the clusters of its copies, whether room is lacking there or not."""
        self._commitments, self._near, self._lacks = commitments, near, dict(lacks)

    def useful(self, holder: Holder) -> int:
        """So many of its copies would leave where room is lacking still."""
        commitment = self._commitments.commitment(holder.workload)
        if commitment is None:
            return 0
        requests = commitment.shape.requests
        useful = sum(
            min(copies, self._needed(name, requests))
            for name, copies in _may_leave(holder, commitment).items()
        )
        return min(useful, 1) if commitment.whole else useful

    def leave(self, holder: Holder, copies: int) -> Mapping[str, int]:
        """So many of these leave. Returns where: from where room is lacking first, as many as make
        it; then from where others of the preemptor are, then from where most are."""
        commitment = self._commitments.commitment(holder.workload)
        if commitment is None:
            return {}
        there, requests = _may_leave(holder, commitment), commitment.shape.requests
        if not commitment.whole:
            there = self._where(copies, there, requests)
        for name, gone in there.items():
            if name in self._lacks:
                self._lacks[name] = (self._lacks[name] - requests * gone).at_least_zero()
        return there

    def _needed(self, cluster: str, requests: Resources) -> int:
        """How many copies of these requests make the room that is lacking in a cluster."""
        lacks = self._lacks.get(cluster, Resources()).items()
        # Rounded up: a copy leaves as a whole.
        needed = (-(-lack // requests[of]) for of, lack in lacks if requests[of])
        return max(needed, default=0)

    def _where(
        self, left: int, may_leave: Mapping[str, int], requests: Resources
    ) -> Mapping[str, int]:
        leaves = dict[str, int]()
        # Where the preemptor's copies are, freed room may be of use to it; elsewhere it is of none.
        order = sorted(may_leave, key=lambda name: (name not in self._near, -may_leave[name], name))
        for name in order:
            if taken := min(may_leave[name], left, self._needed(name, requests)):
                leaves[name] = taken
                left -= taken
        for name in order:
            if taken := min(may_leave[name] - leaves.get(name, 0), left):
                leaves[name] = leaves.get(name, 0) + taken
                left -= taken
        return leaves


def _may_leave(holder: Holder, commitment: Commitment) -> Mapping[str, int]:
    """Cluster -> copies of it that may leave there."""
    held = {holding.cluster: copies_of(holding) for holding in commitment.holdings}
    return held if commitment.whole else dict(holder.clusters) or held
