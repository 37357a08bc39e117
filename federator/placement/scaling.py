"""Copies on nodes that their clusters have to add first: when they count, and what a decision says
of them.

The division is the one of the engine. With policy WhenShort it is made twice: over free room, as
if no cluster could grow; then, when copies lack a place, again with the nodes that can be added,
where what the first one gave counts as held. With Prefer it is made once, with both. What does not
fit either way never fits, as far as the clusters state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from federator.model import decision as decisions
from federator.model import plaintext, scaleup, shards
from federator.model.ask import Ask, Unit
from federator.model.decision import Decision, Grouped, Reason, Verdict, Verdicts
from federator.model.fleet import Holding
from federator.model.scaleup import Addition, ScaleUp
from federator.model.shards import Ranges
from federator.placement import sharing
from federator.placement.growth import pools
from federator.placement.request import Divide, Request
from federator.placement.room.ledger import Ledger
from federator.placement.selection import filters
from federator.placement.selection.leaving import Allowance

_LACKS_ROOM: Final = frozenset(
    {
        Reason.INSUFFICIENT_CAPACITY,
        Reason.SPREAD_UNSATISFIABLE,
        Reason.BELOW_MINIMUM,
        Reason.UNSCHEDULABLE,
        Reason.AT_MAXIMUM,
        Reason.NAMESPACE_LIMITS,
        Reason.GANG_INCOMPLETE,
        Reason.NO_CLUSTER_ADMITTED,
        Reason.CHOSEN,
    }
)
"""Reasons that more room may change."""


def decide(ask: Ask, request: Request, divide: Divide) -> Decision:
    """Divides by the rest of the table, over free room and over what clusters can add."""
    ledger = request.ledger
    if not ledger.fleet.growing or ask.shape.every_node or ask.suspended:
        return divide(ask, request)
    before = ledger.growth
    if before is None:
        return divide(ask, request)
    state = before.state()
    if ask.policy.scale_up is ScaleUp.PREFER:
        with ledger.widened():
            decision = divide(ask, request)
    else:
        decision = _when_short(ask, request, divide)
    growth = ledger.growth
    assert growth is not None
    additions = growth.since(state, list(ledger.world.at))
    if not additions and not _lacks(ask, decision, request.finished):
        return decision
    return _worded(ask, decision, additions, ledger)


def _when_short(ask: Ask, request: Request, divide: Divide) -> Decision:
    """Free room first, then what can be added."""
    ledger = request.ledger
    start = ledger.mark()
    first = divide(ask, request)
    if not _lacks(ask, first, request.finished) or ask.policy.scale_up is ScaleUp.NEVER:
        return first
    if ask.ordinals is not None or ask.exclusive or ask.shape.parts:
        # Blocks, gangs and shards that run once are given in one piece.
        if first.moved or first.to_move:
            return first
        ledger.rollback(start)
        again = replace(request, leave=_nothing_moves)
        with ledger.widened():
            second = divide(ask, again)
        if _placed(second) > _placed(first):
            return second
        ledger.rollback(start)
        return divide(ask, again)
    after_first = ledger.mark()
    rest = replace(
        request,
        held=_as_held(first),
        previous_hash=first.inputs_hash,
        # The first division has spent the budget of moves; a second answer would spend it twice.
        leave=_nothing_moves if first.moved or first.to_move else request.leave,
    )
    with ledger.widened():
        second = divide(ask, rest)
    # Nodes that would help nobody are not asked for: pending pods make an autoscaler add them.
    if _placed(second) <= _placed(first):
        ledger.rollback(after_first)
        return first
    return replace(second, moved=first.moved + second.moved)


def _lacks(ask: Ask, decision: Decision, finished: Ranges) -> bool:
    """Whether copies, or slots, have no place under the policy, which more room may change."""
    if decision.reason not in _LACKS_ROOM:
        return False
    if ask.unit is Unit.REPLICAS:
        return decision.shortfall > 0 or decision.held > 0
    left = shards.size(shards.minus(sharing.all_shards(ask), finished))
    return _placed(decision) < min(ask.slots, left)


def _placed(decision: Decision) -> int:
    """Copies or slots that have a place under the policy."""
    return sum(share.slots for share in decision.shares) - decision.held


def _nothing_moves(_: int, __: Mapping[str, int]) -> Allowance:
    """What the budget of moves allows is asked for once per decision."""
    return Allowance(0)


def _as_held(decision: Decision) -> Sequence[Holding]:
    return [
        Holding(
            share.cluster,
            share.count,
            share.slots,
            share.seq,
            share.ranges,
            tuple(decision.tolerated.get(share.cluster, ())),
            share.nodes,
            share.pods,
        )
        for share in decision.shares
    ]


def _worded(
    ask: Ask, decision: Decision, additions: tuple[Addition, ...], ledger: Ledger
) -> Decision:
    """The decision with what it waits for, and with what clusters can never make room for."""
    if additions:
        waits = "; ".join(
            f"{sum(each.copies for each in here)} of them wait in {cluster} for "
            + " and ".join(each.text for each in here)
            for cluster, here in sorted(scaleup.by_cluster(additions).items())
        )
        decision = replace(decision, additions=additions, message=f"{decision.message}; {waits}")
    return replace(decision, verdicts=_said(decision.verdicts, _Notes(ask, additions, ledger).of))


class _Notes:
    """What is added to the verdict of a cluster. Read when other things may have been charged
    since, so it is worked out beforehand."""

    def __init__(self, ask: Ask, additions: Sequence[Addition], ledger: Ledger) -> None:
        self._waiting = scaleup.by_cluster(additions)
        self._never = {
            name: _never(ask, ledger, name)
            for name in ledger.fleet.growing
            if name not in self._waiting
        }

    def of(self, verdict: Verdict) -> str:
        here = self._waiting.get(verdict.cluster)
        if here:
            waiting = sum(each.copies for each in here)
            fits = max(verdict.got - waiting, 0)
            waits = " and ".join(f"{each.copies} after {each.text}" for each in here)
            return f"; {fits} fit now, {waits}"
        if verdict.reason is Reason.INSUFFICIENT_CAPACITY:
            return self._never.get(verdict.cluster, "")
        return ""


def _never(ask: Ask, ledger: Ledger, cluster: str) -> str:
    """Why a cluster without room makes none, as the end of a sentence."""
    growth, at = ledger.growth, ledger.world.at[cluster]
    if growth is None or not growth.pools(at):
        return ""
    shape, whys = ask.shape.pods[0][0] if ask.shape.parts else ask.shape, []
    for pool in growth.pools(at):
        each = pool.node_class
        if ask.policy.scale_up is ScaleUp.NEVER and pool.room(shape):
            field = filters.field_of(ask.policy, "scaleUp")
            return f"; {field} is Never, so it adds no node for them"
        if not pools.admits(each, shape):
            whys.append(f"{each.name} has a taint or labels that the pods do not match")
        elif not pools.height(each.allocatable, shape):
            whys.append(f"a node of {each.name} is too small")
        elif each.late:
            whys.append(f"nodes of {each.name} {each.late}")
        elif not pool.left:
            whys.append(
                f"{each.name} is at its most, {plaintext.counted(each.most, 'node', 'nodes')}"
            )
    return f", and none that it can add: {'; '.join(whys)}" if whys else ""


def _said(verdicts: Sequence[Verdict], note: Callable[[Verdict], str]) -> Verdicts:
    """The verdicts with a note each, worded when they are read."""

    def every() -> tuple[Verdict, ...]:
        return tuple(
            replace(verdict, message=f"{verdict.message}{note(verdict)}") for verdict in verdicts
        )

    def grouped() -> Grouped:
        return decisions.grouped(every())

    return Verdicts(
        len(verdicts),
        every,
        grouped,
        lambda: decisions.reasons(verdicts),
        lambda closed: decisions.but(verdicts, closed),
    )
