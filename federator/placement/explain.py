"""How copies were divided: each cluster's row of numbers, and what its nodes lack. Off the hot
path; charges and writes nothing."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from federator.model.ask import Ask
from federator.model.decision import Decision, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding
from federator.model.kubernetes import quantity, taints
from federator.model.resources import PODS, ZERO, Resources
from federator.model.scaleup import ScaleUp
from federator.placement import gangs
from federator.placement.division import domains
from federator.placement.quota.domain_usage import Ceiling
from federator.placement.room import limits, setaside
from federator.placement.room.commitments import Commitments
from federator.placement.room.ledger import Ledger
from federator.placement.selection import candidates
from federator.placement.selection.candidates import Candidate

_BOUNDED_BY: Final[Mapping[Reason, str]] = {
    Reason.QUOTA_EXCEEDED: "spec.domains",
    Reason.INVARIANT_VIOLATION: "spec.rule.maxShare",
    Reason.NAMESPACE_LIMITS: "ResourceQuota",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One cluster's part in the division."""

    cluster: str
    held: int
    room: int | None
    """Further copies that fit; None while the member has not reported it."""
    cap: int
    """The most copies that it may have."""
    bound: str
    """The field that sets the most; "" where no limit of a domain and no invariant does."""
    weight: int
    domains: tuple[str, ...]
    got: int
    largest: Resources
    """The largest amount of each requested resource that is free on one node."""
    lacks: str
    """What prevents one more copy there, as a part of a sentence; "" when one more fits."""
    after: int = 0
    """Further copies that fit on nodes which the cluster can add, by spec.scaleUp."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`arithmetic`: the division in sentences. `short`: whether copies are missing."""

    rows: tuple[Row, ...]
    arithmetic: tuple[str, ...]
    short: bool


def explain(
    ask: Ask,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    commitments: Commitments,
    decision: Decision,
    *,
    capped: Mapping[str, int] = candidates.NOBODY,
    ceilings: Mapping[str, Ceiling] = MappingProxyType({}),
) -> Explanation:
    """Explains a decision that was just made; leaves the commitments unchanged. `capped` as in
    `engine.decide`; `ceilings`: what limits of domains leave it, by cluster."""
    ledger = commitments.open(snapshot)
    ledger.ceilings = ceilings
    ledger.ceilings = limits.ceilings(ask, held, (), ledger)
    rows = _rows(ask, held, snapshot, ledger, decision, capped=capped)
    return Explanation(rows, _arithmetic(ask, rows, decision), decision.reason is not Reason.CHOSEN)


def _rows(
    ask: Ask,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    ledger: Ledger,
    decision: Decision,
    *,
    capped: Mapping[str, int],
) -> tuple[Row, ...]:
    lost = any(
        view.empties for own in held if (view := snapshot.clusters.get(own.cluster)) is not None
    )
    if not lost:
        setaside.keep(ask, ledger)
    eligible = candidates.places(ask, snapshot, ledger)
    with nullcontext() if ask.policy.scale_up is ScaleUp.NEVER else ledger.widened():
        pool = candidates.candidates(
            ask,
            {holding.cluster: holding for holding in held},
            eligible,
            ledger,
            capped=capped,
            by_name=False,
        )
    now = {candidate.name: _free(candidate, ask, ledger) for candidate in pool}
    got = {verdict.cluster: verdict.got for verdict in decision.verdicts}
    return tuple(
        Row(
            candidate.name,
            candidate.held,
            None if candidate.pending else now[candidate.name],
            candidate.cap,
            _BOUNDED_BY.get(candidate.limit, ""),
            candidate.weight,
            tuple(", ".join(domains.parts(each)) for each in candidate.place.domains),
            got.get(candidate.name, 0),
            _largest(ask, snapshot.clusters[candidate.name]),
            _lacking(ask, snapshot.clusters[candidate.name], ledger)
            if not candidate.room and not candidate.pending
            else "",
            candidate.room - now[candidate.name],
        )
        for candidate in pool
    )


def _free(candidate: Candidate, ask: Ask, ledger: Ledger) -> int:
    """The part of its room that is free."""
    return min(candidate.room, max(ledger.room(candidate.name, ask.shape), 0))


def _lacking(ask: Ask, view: ClusterView, ledger: Ledger) -> str:
    """The resources of which no node has enough; otherwise that no node has enough of all at once,
    or what else limits it."""
    if view.capacity is None or not ask.shape.plain:
        return ""
    if ask.shape.parts:
        return gangs.Shortage(ask.shape, ledger, ledger.trial(ask.shape)).why(view.name)
    nodes, headroom = ledger.left(view.name)
    bounded = [
        name for name in ask.shape.requests if name != PODS or name in view.capacity.allocatable
    ]
    short = [
        name
        for name in bounded
        if headroom is not None and headroom[name] < ask.shape.requests[name]
    ]
    if short:
        return f"spec.usable {view.usable_permille / 10:g}% leaves too little {', '.join(short)}"
    rows = nodes.rows if nodes is not None else []
    if not rows:
        return "it has no nodes"
    if ledger.keep is not None and ledger.world.rooms(ask.shape)[ledger.world.at[view.name]] > 0:
        percent = f"{view.buffer_permille / 10:g}%"
        return f"spec.failoverBuffer {percent} keeps the rest for what loses its cluster"
    open_rows = [
        free for _, free, marks in rows if taints.untolerated(marks, ask.shape.tolerations) is None
    ]
    if not open_rows:
        return "every node has a taint that the pod does not tolerate"
    names = nodes.names if nodes is not None else ()
    lacking: list[str] = []
    for name, need in ask.shape.requests.items():
        most = (
            max(free[names.index(name)] for free in open_rows)
            if name in names
            else 0
            if name != PODS
            else need
        )
        if most < need:
            texts = [quantity.render_amount(name, max(amount, 0)) for amount in (most, need)]
            lacking.append(f"{name} (most on one node {texts[0]}, a copy asks for {texts[1]})")
    return (
        f"no node has enough {', '.join(lacking)}"
        if lacking
        else "no node has enough of everything at once"
    )


def _largest(ask: Ask, view: ClusterView) -> Resources:
    largest = ZERO
    for row in view.capacity.rows if view.capacity is not None else ():
        largest = largest.upper(Resources({name: row.free[name] for name in ask.shape.requests}))
    return largest


def _arithmetic(ask: Ask, rows: Sequence[Row], decision: Decision) -> tuple[str, ...]:
    if ask.shape.every_node:
        return (decision.message,)
    strategy, total = ask.policy.division.strategy, sum(row.weight for row in rows)
    over = "1 cluster" if len(rows) == 1 else f"{len(rows)} clusters"
    lines = [
        f"strategy {strategy}: {decision.wanted} wanted over {over}, weights sum up to {total}"
    ]
    for row in rows:
        room = "not yet known" if row.room is None else str(row.room)
        amounts = [(name, row.largest[name]) for name, _ in ask.shape.requests.items()]
        free = (
            ", ".join(f"{name} {quantity.render_amount(name, amount)}" for name, amount in amounts)
            or "nothing"
        )
        bound = f" ({row.bound})" if row.bound else ""
        room += f" now and {row.after} on nodes that it can add" if row.after else ""
        lines.append(
            f"{row.cluster}: weight {row.weight}, held {row.held}, room for {room}"
            f"{'' if row.after else ' more'}, at most {row.cap}{bound}, "
            f"gets {row.got}; most free on one node: {free}"
        )
    return tuple(lines)
