"""Edits of running workloads: an edit that asks for more than quota or room allow leaves what was
admitted before in force.

More means what a decision charges: requests, project, tier, and a priority above the account's
bound. A greater count is no such edit: it gets what fits. A RuntimeProfile with containers that ask
for more is such an edit of each workload that uses it. `decide` is the engine's with this check
before it. Pure.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from msgspec import structs

from federator.model import seq as seqs
from federator.model.ask import Admitted, Ask, Support, Unit
from federator.model.decision import Decision, Reason
from federator.model.fleet import FleetSnapshot, Holding, copies_of, remaining
from federator.model.quickly import likewise, quickly
from federator.model.resources import PODS, ZERO, Resources
from federator.model.shards import Ranges
from federator.placement import engine, inputs
from federator.placement.quota import former, quota
from federator.placement.quota.quota import Edit
from federator.placement.request import NO_BLOCKS, NOWHERE, Blocks, MayRun
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.placement.selection import candidates, leaving

FORMER: Final = "what was admitted before"
NOTHING_FREED: Final[Mapping[str, Resources]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class EditRuling:
    """`under`: the ask to decide under; when `why` is set, it is the ask that was admitted
    before."""

    under: Ask
    reason: Reason = Reason.CHOSEN
    why: str = ""
    held_back: bool = False
    """The edit of the workload's spec is not admitted."""
    held_profile: str = ""
    """RuntimeProfile with a present version that is not admitted; "" for none."""


_judged = quickly(EditRuling)


@dataclass(frozen=True, slots=True)
class Proposed:
    """An edit of copies that run in these clusters."""

    edit: Edit
    mine: Mapping[str, int]
    """Cluster -> copies there."""


def decide(
    ask: Ask,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    ledger: Ledger,
    *,
    seq: int,
    mark: Callable[[str], int] = engine.no_mark,
    admitted: Admitted | None = None,
    capped: Mapping[str, int] = candidates.NOBODY,
    previous_hash: str = "",
    finished: Ranges = (),
    leave: leaving.Leave | None = None,
    per_cluster: int = 0,
    blocks: Blocks = NO_BLOCKS,
    empty: Collection[str] = (),
    may_run: MayRun = NOWHERE,
    replaced: bool = True,
    support: Support | None = None,
) -> Decision:
    """`engine.decide`, but under the ask that was admitted last when the edit asks for more than
    allowed.

    `admitted`: what the decision in force charges; None without one. Of that generation, only what
    `support` adds is refused: a new default of a quota makes no pod larger.
    """
    judged = judge(
        ask,
        admitted,
        held,
        ledger,
        finished=finished,
        per_cluster=per_cluster,
        replaced=replaced,
        support=support,
    )
    previous_hash = _unmoved(ask, judged, previous_hash, ledger)
    decision = engine.decide(
        judged.under,
        held,
        snapshot,
        ledger,
        seq=seq,
        mark=mark,
        capped=capped,
        previous_hash=previous_hash,
        finished=finished,
        leave=leave,
        per_cluster=per_cluster,
        blocks=blocks,
        empty=empty,
        may_run=may_run,
    )
    if not judged.why and _grows_in_place(judged.under, admitted, snapshot, support):
        decision = _as_new(judged.under, held, decision, ledger, seq=seq, mark=mark)
    if admitted is None or judged.under is ask:
        return decision
    hashed = inputs.inputs_hash(ask, snapshot, ledger.memo)
    decision = replace(decision, inputs_hash=hashed, under=judged.under)
    return _not_admitted(ask, admitted, judged, decision) if judged.why else decision


def _unmoved(ask: Ask, judged: EditRuling, previous_hash: str, ledger: Ledger) -> str:
    """The hash of inputs for which held copies were divided, as the decision will see it: an edit
    that is not admitted moves nothing, nor does a charge for what was in force before it."""
    if judged.under is ask:
        return previous_hash
    same = previous_hash == inputs.inputs_hash(ask, ledger.snapshot, ledger.memo)
    stays = judged.held_back or (judged.why and judged.under.generation == ask.generation)
    if not (stays or same):
        return previous_hash
    return inputs.inputs_hash(judged.under, ledger.snapshot, ledger.memo)


def _grows_in_place(
    ask: Ask, admitted: Admitted | None, snapshot: FleetSnapshot, support: Support | None
) -> bool:
    """Whether this edit lets copies ask for more where they are. Shards that have begun keep their
    template; stateful copies and daemons are charged as before."""
    if admitted is None or ask.unit is not Unit.REPLICAS:
        return False
    if ask.ordinals is not None or ask.shape.every_node:
        return False
    if not may_ask_for_more(ask, admitted, support):
        return False
    return not ask.shape.requests.within(_before(ask, admitted, snapshot).shape.requests)


def _as_new(
    ask: Ask,
    held: Sequence[Holding],
    decision: Decision,
    ledger: Ledger,
    *,
    seq: int,
    mark: Callable[[str], int],
) -> Decision:
    """The decision with the copies that stay charged and numbered as new ones: a report that
    includes them as they were says nothing of the room of larger pods."""
    before = {holding.cluster: holding for holding in held}
    for share in decision.shares:
        if (holding := before.get(share.cluster)) is not None:
            # Those beyond were charged with the new requests when the division gave them.
            stay = min(copies_of(share), copies_of(holding))
            ledger.charge(share.cluster, ask.shape, stay)
    numbered = (
        structs.replace(share, seq=seqs.above(mark(share.cluster), seq))
        if share.cluster in before
        else share
        for share in decision.shares
    )
    return replace(decision, seq=seq, shares=tuple(numbered))


def judge(
    ask: Ask,
    admitted: Admitted | None,
    held: Sequence[Holding],
    ledger: Ledger,
    *,
    finished: Ranges = (),
    per_cluster: int = 0,
    replaced: bool = True,
    support: Support | None = None,
) -> EditRuling:
    """Whether an edit of running copies is admitted, and which former accounts are charged in
    addition. `per_cluster` as in `engine.decide`, `replaced` as in `propose`."""
    if admitted is None:
        return _judged(ask)
    besides = functools.partial(
        former.besides,
        admitted,
        held,
        ledger.tree,
        finished=finished,
        replaced=replaced,
        terminating=ledger.below.terminating.get(ask.uid, ()),
    )
    if not held or ask.suspended:
        return _judged(besides(ask))
    proposed = propose(
        ask,
        admitted,
        held,
        ledger.snapshot,
        finished=finished,
        per_cluster=per_cluster,
        replaced=replaced,
    )
    if proposed is None:
        return _judged(besides(ask))
    edit, under = proposed.edit, besides(proposed.edit.ask)
    if not may_ask_for_more(ask, admitted, support):
        return EditRuling(under)
    reason, why = _refusal(proposed, under, ledger)
    if not why:
        return EditRuling(under)
    before, profile = besides(edit.before), support.profile if support is not None else ""
    # The spec is as admitted, so only the profile asks for more, and nothing of the user's is held
    # back.
    if ask.generation == admitted.generation:
        return EditRuling(before, reason, why, held_profile=profile)
    if (kept := _with_former_profile(ask, edit.before, support, replaced=replaced)) is not None:
        return EditRuling(besides(kept), reason, why, held_profile=profile)
    return EditRuling(before, reason, why, held_back=True, held_profile=profile)


def _refusal(proposed: Proposed, under: Ask, ledger: Ledger) -> tuple[Reason, str]:
    """Why an edit is not admitted; the text is "" when it is. `under`: the ask with the former
    accounts that it would be charged in addition."""
    if (refused := ledger.edit(proposed.edit)) is not None:
        return refused.reason, refused.message
    if lacks := shortage(proposed, ledger):
        return Reason.INSUFFICIENT_CAPACITY, lacks
    return Reason.QUOTA_EXCEEDED, former.too_many(under)


def may_ask_for_more(ask: Ask, admitted: Admitted, support: Support | None) -> bool:
    """Whether a workload is to be judged again: its spec was edited, or its RuntimeProfile may add
    more than when it was admitted."""
    return ask.generation != admitted.generation or support is not None


def _with_former_profile(
    ask: Ask, before: Ask, support: Support | None, *, replaced: bool
) -> Ask | None:
    """The edited ask with the version of its RuntimeProfile that is in force, if it asks for no
    more than was admitted: an operator's edit does not hold back a user's. None otherwise."""
    if support is None or support.former is None:
        return None
    kept = _with_former(replace(ask, shape=support.former), before, replaced=replaced)
    same = (ask.project, ask.tier) == (before.project, before.tier)
    no_more = kept.shape.requests.within(before.shape.requests) and ask.priority <= before.priority
    return kept if same and no_more else None


def propose(
    ask: Ask,
    admitted: Admitted,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    *,
    finished: Ranges = (),
    per_cluster: int = 0,
    replaced: bool = True,
) -> Proposed | None:
    """What becomes of running copies when they are what the ask says now; None when none runs, or
    none goes on. `replaced`: members report that no copy is left of what was in force before. Until
    then each copy is charged the larger request of both. Other arguments as in `judge`."""
    mine = {holding.cluster: copies_of(remaining(holding, finished)) for holding in held}
    mine = {cluster: copies for cluster, copies in mine.items() if copies > 0}
    if not mine:
        return None
    before = _before(ask, admitted, snapshot)
    kept = _kept(ask, mine, per_cluster)
    if kept <= 0:
        return None
    return Proposed(
        Edit(_with_former(ask, before, replaced=replaced), before, kept, sum(mine.values())), mine
    )


def _with_former(ask: Ask, before: Ask, *, replaced: bool) -> Ask:
    """The ask with the larger request of both while copies may run as they were before. Shards that
    have begun keep their template: for them that is while any run."""
    # Kubernetes charges a pod under resize by the larger of both as well: the smaller is not in
    # force yet.
    requests = ask.shape.requests.upper(before.shape.requests)
    if requests == ask.shape.requests or (replaced and ask.unit is not Unit.SHARDS):
        return ask
    return replace(ask, shape=replace(ask.shape, requests=requests))


def _before(ask: Ask, admitted: Admitted, snapshot: FleetSnapshot) -> Ask:
    """The ask that stays in force while the edit is not admitted; of both counts the smaller."""
    speaking = quota.accounts_of(admitted.project, snapshot.quotas)
    requests = quota.with_defaults(admitted.shape.requests, speaking)
    most = ask.slots if admitted.count is None else admitted.count
    jobs = ask.unit is Unit.SHARDS
    shape = admitted.shape
    return _formerly(
        ask,
        admitted.generation,
        shape if requests == shape.requests else replace(shape, requests=requests),
        admitted.project,
        admitted.tier,
        ask.priority if admitted.priority is None else admitted.priority,
        ask.count if jobs else min(ask.count, most),
        min(ask.slots, most),
    )


_formerly = likewise(Ask, "generation", "shape", "project", "tier", "priority", "count", "slots")


def _kept(ask: Ask, mine: Mapping[str, int], per_cluster: int) -> int:
    """Running copies that would continue after the edit, including those that Duplicate placed
    once. A daemon has a copy on each node, and its count says only that each cluster has it."""
    if ask.shape.every_node:
        return sum(mine.values()) if ask.count else 0
    if leaving.everywhere(ask):
        return sum(min(copies, ask.count) for copies in mine.values())
    # Duplicate placed more than the count, and these run until the new division takes them.
    return sum(mine.values()) if per_cluster and ask.count else min(sum(mine.values()), ask.slots)


def shortage(
    proposed: Proposed, ledger: Ledger, freed: Mapping[str, Resources] = NOTHING_FREED
) -> str:
    """Why running copies have no room with their new requests, as a sentence; "" when they may.
    Their present copies free their room, and others `freed`, by cluster. How copies lie on nodes is
    known only to schedulers, so only the impossible is refused, not what might fail."""
    edit, mine = proposed.edit, proposed.mine
    ask, before = edit.ask, edit.before
    if ask.shape.requests.within(before.shape.requests):
        return ""
    fit = 0
    for cluster, copies in sorted(mine.items()):
        room = before.shape.requests * copies + freed.get(cluster, ZERO)
        fitting = in_place(cluster, copies, ask.shape.requests, room, ledger)
        left = ledger.quota_left(ask, cluster, before.shape.requests * copies)
        if left is not None:
            fitting = min(left.copies, copies if fitting is None else fitting)
        # a daemon's pods go to nodes whether these have room or not
        fit += copies if fitting is None or (fitting and ask.shape.every_node) else fitting
    for cluster, place in candidates.places(ask, ledger.snapshot, ledger).items():
        if cluster in mine or place.refusal is not None:
            continue
        elsewhere = ledger.room(cluster, ask.shape)
        # Only the member can say: what might fit is not refused.
        if elsewhere == PENDING:
            return ""
        fit += elsewhere
    if fit >= edit.kept:
        return ""
    grown = {
        name: amount
        for name, amount in ask.shape.requests.items()
        if amount > before.shape.requests[name]
    }
    return (
        f"{quota.amounts(Resources(grown))} for each of {edit.kept} copies, and the clusters have"
        f" room for {fit} of "
        "that size where those that run make room"
    )


def in_place(
    cluster: str, copies: int, new: Resources, freed: Resources, ledger: Ledger
) -> int | None:
    """The most copies with the new requests that fit when `freed` is given back; None for a cluster
    without a report."""
    view = ledger.snapshot.clusters.get(cluster)
    if ledger.left(cluster)[0] is None or view is None or view.capacity is None:
        return None
    needs = {name: need for name, need in new.items() if need > 0 and name != PODS}
    if not any(
        all(row.allocatable[name] >= need for name, need in needs.items())
        for row in view.capacity.rows
    ):
        return 0
    free = _free(cluster, needs, ledger)
    return min(copies, *((free.get(name, 0) + freed[name]) // need for name, need in needs.items()))


def _free(cluster: str, names: Collection[str], ledger: Ledger) -> dict[str, int]:
    """What all nodes of a cluster have free of these resources together, at most what
    `spec.usable` leaves; nothing without a report."""
    nodes, headroom = ledger.left(cluster)
    if nodes is None:
        return {}
    free = dict.fromkeys(names, 0)
    for count, amounts, _ in nodes.rows:
        for name, amount in zip(nodes.names, amounts, strict=True):
            if name in free:
                free[name] += count * max(amount, 0)
    if headroom is None:
        return free
    return {name: min(amount, max(headroom[name], 0)) for name, amount in free.items()}


def lacking(proposed: Proposed, ledger: Ledger) -> dict[str, Resources]:
    """Cluster -> what has to become free there so that all copies that run there fit with their
    new requests; nothing for a cluster without a report."""
    edit, lacks = proposed.edit, dict[str, Resources]()
    more = (edit.ask.shape.requests - edit.before.shape.requests).at_least_zero()
    for cluster, copies in proposed.mine.items():
        free = _free(cluster, more, ledger)
        left = {name: free[name] - more[name] * copies for name in more if name in free}
        lacks[cluster] = Resources({name: -amount for name, amount in left.items() if amount < 0})
    return lacks


def _in_force(ask: Ask, admitted: Admitted, judged: EditRuling) -> str:
    """What of the former generation stays in force: not its count of replicas, which is taken
    immediately."""
    if not admitted.generation:
        return FORMER
    former = f"generation {admitted.generation}"
    counted = ask.unit is Unit.REPLICAS and not ask.shape.every_node
    same = (ask.project, ask.tier) == (admitted.project, admitted.tier)
    larger = not ask.shape.requests.within(judged.under.shape.requests)
    return f"the template of {former}" if counted and same and larger else former


def _not_admitted(ask: Ask, admitted: Admitted, judged: EditRuling, decision: Decision) -> Decision:
    """The decision under what stays in force, with a message about what the edit asks for and why
    it is refused."""
    message = (
        f"the edit of generation {ask.generation} asks for {judged.why};"
        f" {_in_force(ask, admitted, judged)} stays in force"
    )
    if judged.held_profile and judged.held_back:
        message = f"{message}, with the former version of RuntimeProfile {judged.held_profile}"
    elif judged.held_profile:
        message = (
            f"RuntimeProfile {judged.held_profile} was edited: with its present version this"
            f" workload asks for {judged.why}; pods keep the former version until there is enough:"
            " raise the quota, run fewer copies, or lower the requests of the profile's containers"
        )
    if decision.reason is not Reason.CHOSEN and decision.message:
        message = f"{message}; of that, {decision.message}"
    more = 0
    if judged.held_back and ask.unit is Unit.REPLICAS and not leaving.everywhere(ask):
        more = max(ask.count - judged.under.count, 0)
    return replace(
        decision,
        wanted=decision.wanted + more,
        shortfall=decision.shortfall + more,
        reason=judged.reason,
        message=message,
        held_back=ask.generation if judged.held_back else 0,
        held_profile=judged.held_profile,
    )
