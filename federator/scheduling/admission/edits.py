"""Edits that ask for more of what runs, among those who want quota: others leave for one as they
would for a new workload of its account that asks for as much.

An edit is admitted as a whole. What its own copies hold is theirs already, and none of them leaves
for it.
"""

from collections.abc import Collection, Mapping
from functools import partial

from federator.model.decision import Reason
from federator.model.fleet import Commitment, copies_of
from federator.model.resources import Resources
from federator.placement.division.division import DIVIDERS
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.scheduling import editing
from federator.scheduling.admission.domains import Want
from federator.scheduling.admission.holders import Victim
from federator.scheduling.admission.tree_usage import leaf
from federator.scheduling.editing import Proposed
from federator.scheduling.entry import Entry


def proposed(entry: Entry, ledger: Ledger) -> Proposed | None:
    """What an edit asks for that only quota may keep from it; None where nobody leaves for it: it
    asks for no more, or goes from one account of a tree to another."""
    ask, standing = entry.ask, entry.standing
    admitted = standing.admitted
    if admitted is None or admitted.generation == ask.generation or not standing.held:
        return None
    if DIVIDERS[ask.policy.division.strategy].everywhere:
        return None
    edit = editing.propose(ask, admitted, standing.held, ledger.snapshot, finished=standing.done)
    if edit is None or not wants_more(edit, ledger):
        return None
    refused = ledger.edit(edit.edit)
    return edit if refused is None or refused.reason is Reason.QUOTA_EXCEEDED else None


def wants_more(edit: Proposed, ledger: Ledger) -> bool:
    """Whether the edit asks the account of its project for more than its copies are charged
    there."""
    ask, before, tree = edit.edit.ask, edit.edit.before, ledger.tree
    if leaf(tree, ask.project) == leaf(tree, before.project) and ask.tier is before.tier:
        return bool(growth(edit, same=True))
    roots = [
        {tree.path(name)[-1] for name in tree.charged(project)}
        for project in (ask.project, before.project)
    ]
    return ask.tier is not before.tier or not roots[0] & roots[1]


def growth(edit: Proposed, *, same: bool) -> Resources:
    """What it asks for beyond what its copies are charged now. `same`: of the same account in the
    same tier; another has to give all of it."""
    ask, before = edit.edit.ask, edit.edit.before
    needs = ask.shape.requests * edit.edit.kept
    return (needs - before.shape.requests * edit.edit.running).at_least_zero() if same else needs


def want(edit: Proposed, node: str, commitments: Commitments, ledger: Ledger) -> Want:
    """What it lacks, as one copy that is admitted or not."""
    ask, before = edit.edit.ask, edit.edit.before
    same = leaf(ledger.tree, before.project) == node and ask.tier is before.tier
    return Want(
        node,
        ask.priority,
        ask.created_s,
        growth(edit, same=same),
        1,
        1,
        _nowhere,
        edit_of=ask.uid,
        helped=partial(_helped, edit, commitments, ledger),
    )


def _nowhere(_: str) -> bool:
    """Accounts with domains are not asked."""
    return False


def _helped(
    edit: Proposed, commitments: Commitments, ledger: Ledger, victims: tuple[Victim, ...]
) -> bool:
    """Whether its copies have room with their new requests when these have left."""
    room: dict[str, Resources] = {}
    for victim in victims:
        commitment = commitments.commitment(victim.holder.workload)
        if commitment is None:
            continue
        for cluster, copies in where(victim, commitment, edit.mine).items():
            more = commitment.shape.requests * copies
            room[cluster] = room.get(cluster, Resources()) + more
    return not victims or not editing.shortage(edit, ledger, room)


def where(victim: Victim, commitment: Commitment, near: Collection[str]) -> Mapping[str, int]:
    """Cluster -> copies that leave there for an edit of what runs in `near`: from these first, then
    from where most are."""
    held = {holding.cluster: copies_of(holding) for holding in commitment.holdings}
    if commitment.whole:
        return held
    may_leave = dict(victim.holder.clusters) or held
    left, leaves = victim.copies, dict[str, int]()
    for name in sorted(may_leave, key=lambda name: (name not in near, -may_leave[name], name)):
        if taken := min(may_leave[name], left):
            leaves[name] = taken
            left -= taken
    return leaves
