"""The candidates of a decision, one by one (see `engine` beside it)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from federator.model import names
from federator.model.ask import Ask, Policy, Strategy
from federator.model.decision import Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding, copies_of
from federator.placement.division import domains
from federator.placement.division.division import DIVIDERS
from federator.placement.division.domains import UNLABELLED
from federator.placement.policy import enforcing
from federator.placement.room.ledger import PENDING, Ledger
from federator.placement.selection import filters, scorers
from federator.placement.selection.candidates import Candidate, Place
from federator.placement.selection.filters import Refusal

NOBODY: Final[Mapping[str, int]] = MappingProxyType({})
"""No cluster is capped by its scheduler."""
_MIX: Final = 0x9E3779B97F4A7C15
_MASK: Final = (1 << 64) - 1


def places(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Mapping[str, Place]:
    """Every cluster judged by the filters, by name; the same for all asks of one policy, project,
    tier and kind. For a project claim without a binding the refusal names the namespace, so it is
    part of the key."""
    unbound = "" if ask.project_bound else ask.key.namespace
    key = ("places", ask.policy, ask.project, ask.tier, ask.key.kind, unbound)
    by_cluster: Mapping[str, Place] | None = ledger.memo.get(key)
    if by_cluster is None:
        by_cluster = {
            name: _place(ask, snapshot.clusters[name]) for name in sorted(snapshot.clusters)
        }
        ledger.memo[key] = by_cluster
    return by_cluster


def for_holders(
    ask: Ask, held: Mapping[str, Holding], eligible: Mapping[str, Place]
) -> Mapping[str, Place]:
    """The clusters as judged for this workload: it may already tolerate taints of clusters that it
    stayed on."""
    judged = {
        name: filters.of_holder(ask, place.view, place.refusal, holding.tolerated)
        for name, holding in held.items()
        if holding.tolerated and (place := eligible.get(name)) is not None
    }
    changed = {name: replace(eligible[name], refusal=refusal) for name, refusal in judged.items()}
    return (
        {name: changed.get(name, place) for name, place in eligible.items()}
        if changed
        else eligible
    )


def _place(ask: Ask, view: ClusterView) -> Place:
    return Place(
        view,
        filters.refusal(ask, view),
        filters.group_of(ask.policy, view) or 0,
        domains_of(ask.policy, view),
        scorers.avoided(ask, view),
        names.stable_order(view.name),
    )


def domains_of(policy: Policy, view: ClusterView) -> tuple[str, ...]:
    """The cluster's value for the label of each spread rule."""
    return tuple(view.labels.get(rule.topology_key, UNLABELLED) for rule in policy.spread)


def candidates(
    ask: Ask,
    held: Mapping[str, Holding],
    eligible: Mapping[str, Place],
    ledger: Ledger,
    *,
    capped: Mapping[str, int] = NOBODY,
    by_name: bool,
) -> list[Candidate]:
    """All clusters that may keep or take copies, by name. `capped`: copies that the schedulers of
    some could bind lately. `by_name` breaks ties by name instead of by a stable hash."""
    pool: list[Candidate] = []
    mine = names.stable_order(ask.uid)
    weigh = DIVIDERS[ask.policy.division.strategy].weigh
    most = enforcing.bounding(ask.policy, "maxPerCluster")
    for name, place in eligible.items():
        holding = held.get(name)
        copies = copies_of(holding) if holding else 0
        if place.refusal is not None and not (
            _keeps(place.refusal) and (copies or (holding and holding.ranges))
        ):
            continue
        room, pending = 0, False
        if place.refusal is None:
            room = ledger.room(name, ask.shape)
            room, pending = max(room, 0), room == PENDING
            if ask.shape.one_per_node:
                room = max(room - copies, 0)
        cap, limit = _cap(ask.policy, place, capped.get(name), copies, room)
        weight = weigh(ask.policy, place.view, copies, room)
        order = tie_break(place, mine, by_name=by_name)
        stays = _cap(ask.policy, place, None, copies, 0)[0] if limit is Reason.UNSCHEDULABLE else 0
        counted = _counted(ask.policy, place, copies, weight)
        candidate = Candidate(
            place, copies, room, cap, limit, weight, order, pending, stays, counted=counted
        )
        candidate.enforced = most.name if most is not None else ""
        pool.append(candidate)
    _add_scores(ask, pool)
    return pool


def tie_break(place: Place, workload: int, *, by_name: bool) -> int:
    """The last tie-break between clusters for one workload (given its stable hash); favours no
    cluster name."""
    return 0 if by_name else (place.mark ^ workload) * _MIX & _MASK


def _keeps(refusal: Refusal) -> bool:
    """Whether a cluster that takes nothing new keeps what it holds."""
    return not (refusal.evicts or refusal.moves)


def _counted(policy: Policy, place: Place, copies: int, weight: int) -> bool:
    """Whether the cluster makes a domain. Only a Weighted weight can rule that out: the others
    stand for room, and a full cluster counts."""
    division = policy.division
    weight = weight if division.strategy is Strategy.WEIGHTED else 1
    return domains.counts(
        held=copies, closed=place.refusal is not None, weight=weight, most=division.max_per_cluster
    )


def _cap(
    policy: Policy, place: Place, bound: int | None, copies: int, room: int
) -> tuple[int, Reason]:
    cap, limit = copies + room, Reason.INSUFFICIENT_CAPACITY
    unlabelled = any(
        rule.hard and domain == UNLABELLED
        for rule, domain in zip(policy.spread, place.domains, strict=True)
    )
    if unlabelled and cap > copies:
        cap, limit = copies, Reason.SPREAD_UNSATISFIABLE
    if bound is not None and cap > bound:
        cap, limit = max(bound, 0), Reason.UNSCHEDULABLE
    most = policy.division.max_per_cluster
    if most is not None and cap > most:
        cap, limit = max(most, 0), Reason.AT_MAXIMUM
    return cap, limit


def _add_scores(ask: Ask, pool: list[Candidate]) -> None:
    facts = [
        scorers.Facts(candidate.held, candidate.room, candidate.place.avoided) for candidate in pool
    ]
    for candidate, terms in zip(pool, scorers.score(ask, facts), strict=True):
        candidate.terms = terms
