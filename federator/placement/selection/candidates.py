"""The clusters that may take part in one decision, with everything that bounds what each may get.

Eligibility depends on the snapshot alone and is cached in the ledger for equal asks; room and
holdings are read for each ask.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from federator.model import names
from federator.model.ask import Ask, Unit
from federator.model.bounds import PerCluster
from federator.model.decision import CAPS, Reason
from federator.model.fleet import ClusterView, FleetSnapshot, Holding, copies_of
from federator.model.policy import Policy, Strategy
from federator.model.quickly import quickly
from federator.model.terms import WORKLOADS
from federator.placement.division import domains
from federator.placement.division.division import DIVIDERS, Party
from federator.placement.division.domains import UNLABELLED
from federator.placement.policy import percluster, tolerating
from federator.placement.quota.domain_usage import Ceiling
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.placement.selection import alike, filters, neighbours, scorers
from federator.placement.selection.filters import Refusal

CONFLICT: Final = "an object of its name there belongs to somebody else"
CAPPED: Final = "it could not schedule more lately"
"""Part of the verdict of a cluster that its own scheduler caps. Offline commands look for it in
recorded decisions."""
BY_CEILING: Final = frozenset(
    {Reason.QUOTA_EXCEEDED, Reason.INVARIANT_VIOLATION, Reason.NAMESPACE_LIMITS}
)
"""Limits of a candidate that `Ledger.ceilings` sets."""
NO_REPORTS: Final[Mapping[str, ClusterView]] = MappingProxyType({})
NOBODY: Final[Mapping[str, int]] = MappingProxyType({})
"""No cluster is capped by its scheduler."""
MIX: Final = 0x9E3779B97F4A7C15
"""Spreads the bits of a tie-break."""
MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster under one policy: everything independent of room and of the count."""

    view: ClusterView
    """Without the amounts of its report: room is read of the ledger."""
    refusal: Refusal | None
    level: int
    domains: tuple[str, ...]
    avoided: int
    mark: int
    """A stable hash of the cluster's name; mixed with the workload's to break ties."""
    figures: tuple[float, ...] = ()
    """What each preference of the policy reads of the cluster; NaN where it has none."""
    own: tuple[PerCluster, ...] = ()
    """The bounds of perCluster that hold for it."""


_quick_place = quickly(Place)


@dataclass(slots=True)
class Candidate:
    """A cluster that takes part: open to new copies, or keeping what it holds (then `place.refusal`
    says why)."""

    place: Place
    held: int
    room: int
    """Further copies that fit; 0 when closed or unknown."""
    cap: int
    """The most copies it may end up with."""
    limit: Reason
    """What sets the cap."""
    weight: int
    order: int
    pending: bool = False
    stays: int = 0
    """Copies that may stay although its scheduler could not bind them all, if no other cluster
    takes them; 0 when the scheduler does not cap it."""
    remains: int = 0
    """Copies that stay there for want of another place though it is left out, and count for hard
    spread rules."""
    terms: tuple[tuple[str, int], ...] = ()
    waits: str = "have no other place yet"
    """Why copies stay there against the policy, as a part of a sentence."""
    counted: bool = True
    """Whether it makes a domain of spread rules even without copies (`domains.counts`)."""
    enforced: str = ""
    """The Required policy that sets the most copies of the cluster; "" for none."""
    least: int = 0
    """A minimum of its own: it gets so many copies or none, unless it holds some already."""
    least_text: str = ""
    """The field that sets the minimum, with its value."""
    most_text: str = ""
    """The field that sets the most copies of the cluster, with its value."""
    barred: str = ""
    """Why maxDomains keeps new copies away, as a part of a sentence; "" where it does not."""
    before_barred: tuple[int, Reason, bool] | None = None
    """Its cap, limit and `counted` before it was barred."""
    short: str = ""
    """Why its accounts or an invariant allow no more there, as a part of a sentence; "" where they
    do."""
    name: str = field(init=False)
    """The cluster's name, copied here because it is read often."""

    def __post_init__(self) -> None:
        self.name = self.place.view.name

    @property
    def score(self) -> int:
        return sum(points for _, points in self.terms)

    @property
    def useful_room(self) -> int:
        """Its room as far as bounds of its own let the workload use it."""
        return min(self.room, max(self.cap - self.held, 0)) if self.place.own else self.room

    def bar(self, why: str) -> None:
        """Keeps new copies away, because they would open a domain beyond maxDomains."""
        self.before_barred = self.cap, self.limit, self.counted
        self.cap, self.limit = min(self.cap, self.held), Reason.SPREAD_UNSATISFIABLE
        self.barred, self.counted = why, False

    def unbar(self) -> None:
        """Takes back what `bar` did."""
        if self.before_barred is not None:
            self.cap, self.limit, self.counted = self.before_barred
            self.before_barred, self.barred = None, ""

    def party(self, floor: int, *, fresh: bool, holders_first: bool) -> Party:
        """The candidate as a party of the division. Avoided taints count like a later group; with
        `holders_first`, so does holding nothing."""
        floor = max(floor, self.least)
        seats = 0 if fresh else min(self.held, self.cap)
        return Party(
            self.name,
            self.weight,
            self.cap,
            min(floor, self.cap) if self.weight > 0 else 0,
            seats,
            # Group, then taint, then holder, as digits of one number.
            4 * self.place.level + 2 * bool(self.place.avoided) + (holders_first and not seats),
            self.order,
            self.place.domains,
            self.counted,
        )

    def staying(self) -> Party:
        """What remains there, as a party that neither grows nor shrinks."""
        remains, domains = self.remains, self.place.domains
        return Party(
            self.name, self.weight, remains, remains, remains, 0, self.order, domains, self.counted
        )


def places(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Mapping[str, Place]:
    """Every cluster judged by the filters, by name; the same for all asks that are alike."""
    plain = tolerating.resolved(ask, snapshot)
    ask = neighbours.resolved(plain, ledger)
    judged = _judged(plain, snapshot, ledger)
    if ask is plain:
        return judged
    memo = alike.memo_of(ask, snapshot, ledger)
    by_cluster: Mapping[str, Place] | None = memo.get("places")
    if by_cluster is None:
        by_cluster = memo["places"] = {name: _beside(ask, place) for name, place in judged.items()}
    return by_cluster


def _judged(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Mapping[str, Place]:
    """The same whatever other workloads decide."""
    # A filter that reads more of the ask than this needs it in `likeness`.
    key = ("places", alike.likeness_apart(ask, ledger))
    memo = alike.memo_apart(ask, snapshot, ledger)
    by_cluster: Mapping[str, Place] | None = memo.get(key)
    if by_cluster is None:
        reports = snapshot.clusters if ask.policy.reads_reports else NO_REPORTS
        by_cluster = {
            name: _place(ask, view, reports.get(name, view))
            for name, view in _without_amounts(snapshot, ledger).items()
        }
        memo[key] = by_cluster
    return by_cluster


def _beside(ask: Ask, place: Place) -> Place:
    """The cluster as other workloads leave it (`Policy.around`)."""
    refusal = place.refusal or filters.apart(ask, place.view)
    figures, wishes = place.figures, ask.policy.preferences
    if any(wish.scorer == WORKLOADS for wish in wishes):
        figures = tuple(
            scorers.figure(wish, place.view, ask.policy.around) if wish.scorer == WORKLOADS else was
            for wish, was in zip(wishes, figures, strict=True)
        )
    if refusal is place.refusal and figures is place.figures:
        return place
    same = place.level, place.domains, place.avoided, place.mark
    return _quick_place(place.view, refusal, *same, figures, place.own)


def _without_amounts(snapshot: FleetSnapshot, ledger: Ledger) -> Mapping[str, ClusterView]:
    """The clusters by name as they are judged: what is kept of them outlives their reports."""
    views: Mapping[str, ClusterView] | None = ledger.memo.get("clusters")
    if views is None:
        clusters = snapshot.clusters
        views = ledger.memo["clusters"] = {
            name: clusters[name].without_amounts() for name in sorted(clusters)
        }
    return views


def nodes_with_room(ask: Ask, ledger: Ledger) -> int:
    """On how many nodes of the open clusters one copy fits now."""
    memo, likeness = alike.judged(ask, ledger.snapshot, ledger)
    key = ("open", likeness)
    open_to = memo.get(key)
    if open_to is None:
        eligible = places(ask, ledger.snapshot, ledger)
        open_to = memo[key] = np.array(
            [place.refusal is None for place in eligible.values()], dtype=np.bool_
        )
    return int(ledger.all_nodes_with_room(ask.shape).sum(where=open_to))


def for_holders(
    ask: Ask, held: Mapping[str, Holding], eligible: Mapping[str, Place]
) -> Mapping[str, Place]:
    """The clusters as judged for this workload: it may already tolerate taints of clusters that it
    stayed on, and copies with numbers stay wherever they are."""
    if ask.ordinals is not None:
        pinned = {name: filters.pinned(place.refusal) for name, place in eligible.items()}
        return {
            name: replace(place, refusal=pinned[name]) if name in held else place
            for name, place in eligible.items()
        }
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


def _place(ask: Ask, view: ClusterView, report: ClusterView) -> Place:
    """`report`: the same cluster, with the amounts of its report where the policy reads them."""
    preferences = ask.policy.preferences
    return Place(
        view,
        filters.refusal(ask, report),
        filters.group_of(ask.policy, view) or 0,
        domains_of(ask.policy, view),
        scorers.avoided(ask, view),
        names.stable_order(view.name),
        tuple(scorers.figure(preference, report) for preference in preferences),
        ask.policy.division.bounds_of(view.name, view.labels),
    )


def domains_of(policy: Policy, view: ClusterView) -> tuple[str, ...]:
    """The cluster's value for the label of each spread rule, or the domains that its
    `spec.topology` states instead (`domains.joined`)."""
    if not view.stated.topology:
        return tuple(view.labels.get(rule.topology_key, UNLABELLED) for rule in policy.spread)
    return tuple(
        domains.joined(stated)
        if (stated := view.stated.topology.get(rule.topology_key))
        else view.labels.get(rule.topology_key, UNLABELLED)
        for rule in policy.spread
    )


def candidates(
    ask: Ask,
    held: Mapping[str, Holding],
    eligible: Mapping[str, Place],
    ledger: Ledger,
    *,
    capped: Mapping[str, int] = NOBODY,
    by_name: bool,
    scored: bool = True,
) -> list[Candidate]:
    """All clusters that may keep or take copies, by name. `capped`: copies that the schedulers of
    some could bind lately. `by_name` breaks ties by name instead of by a stable hash. `scored`
    False: nobody reads the scores."""
    pool: list[Candidate] = []
    maker = _Maker(ask, by_name=by_name)
    rooms: list[int] | None = None
    at, ceilings = ledger.world.at, ledger.ceilings
    for name, place in eligible.items():
        holding = held.get(name)
        copies = copies_of(holding) if holding else 0
        if place.refusal is not None and not (
            _keeps(place.refusal) and (copies or (holding and holding.ranges))
        ):
            continue
        room = 0
        if place.refusal is None:
            if rooms is None:
                rooms = ledger.rooms(ask.shape).tolist()
            room = rooms[at[name]] if name in at else 0
        pool.append(maker.make(place, copies, room, capped.get(name), ceilings.get(name)))
    if scored:
        _add_scores(ask, pool)
    return pool


def of_open(
    ask: Ask, places: Iterable[Place], rooms: Iterable[int], *, by_name: bool
) -> list[Candidate]:
    """Open clusters that hold nothing, and that nothing caps but room and the policy; without
    scores. `rooms` as in `Ledger.rooms`."""
    maker = _Maker(ask, by_name=by_name)
    return [maker.make(place, 0, room) for place, room in zip(places, rooms, strict=True)]


class _Maker:
    """Makes the candidates of one ask."""

    __slots__ = ("_ask", "_by_name", "_general", "_mine", "_weigh")

    def __init__(self, ask: Ask, *, by_name: bool) -> None:
        self._ask, self._by_name = ask, by_name
        self._mine = names.stable_order(ask.tie_break)
        self._weigh = DIVIDERS[ask.policy.division.strategy].weigh
        self._general = percluster.general(ask.policy)

    def make(
        self,
        place: Place,
        copies: int,
        room: int,
        bound: int | None = None,
        ceiling: Ceiling | None = None,
    ) -> Candidate:
        """`bound`: copies that its scheduler could bind lately. `ceiling`: what limits of its
        domain leave."""
        ask, policy = self._ask, self._ask.policy
        room, pending = max(room, 0), room == PENDING
        # Reports count nodes with room, and each held copy has a node of them already.
        if ask.shape.one_per_node:
            room = max(room - copies, 0)
        bounds = self._general
        if place.own:
            bounds = percluster.bounds(ask, place.own, bounds)
        cap, limit = _cap(policy, place, bound, copies, room, bounds.most)
        # Held copies stay above a ceiling: only growth is limited.
        if ceiling is not None and cap > (most_there := max(ceiling.copies, copies)):
            cap, limit = most_there, ceiling.reason
        weight = self._weigh(policy, place.view, copies, room)
        order = tie_break(place, self._mine, by_name=self._by_name)
        stays = _cap(policy, place, None, copies, 0, bounds.most)[0] if limit in CAPS else 0
        counted = _counted(policy, place, copies, weight, bounds.most)
        candidate = Candidate(
            place, copies, room, cap, limit, weight, order, pending, stays, counted=counted
        )
        candidate.enforced, candidate.most_text = bounds.enforced, bounds.most_text
        candidate.least_text = bounds.least_text
        if place.own:
            candidate.least = bounds.least
        if ceiling is not None:
            candidate.short = ceiling.why
        return candidate


def cap_by_shards(
    ask: Ask, pool: Sequence[Candidate], held: Mapping[str, Holding], unfinished: int
) -> None:
    """Caps slots per cluster at the shards it can have: its own and the unassigned ones."""
    if ask.unit is not Unit.SHARDS:
        return
    own = {
        candidate.name: held[candidate.name].count if candidate.name in held else 0
        for candidate in pool
    }
    cap_at(pool, own, max(unfinished - sum(own.values()), 0))


def cap_at(pool: Sequence[Candidate], own: Mapping[str, int], loose: int) -> None:
    """Caps slots at `own` shards by cluster and the `loose` ones, which no cluster has: a slot
    without a shard would be room and quota that nothing uses."""
    for candidate in pool:
        candidate.unbar()
        most = own.get(candidate.name, 0) + loose
        candidate.stays = min(candidate.stays, most)
        if candidate.cap > most:
            candidate.cap, candidate.limit = most, Reason.NOT_NEEDED


def tie_break(place: Place, workload: int, *, by_name: bool) -> int:
    """The last tie-break between clusters for one workload (given its stable hash); favours no
    cluster name."""
    return 0 if by_name else (place.mark ^ workload) * MIX & MASK


def _keeps(refusal: Refusal) -> bool:
    """Whether a cluster that takes nothing new keeps what it holds."""
    return not (refusal.evicts or refusal.moves)


def _counted(policy: Policy, place: Place, copies: int, weight: int, most: int | None) -> bool:
    """Whether the cluster makes a domain. Only a Weighted weight can rule that out: the others
    stand for room, and a full cluster counts."""
    division = policy.division
    # Less room must never waive a rule, and by room a full cluster weighs 0.
    weight = weight if division.strategy is Strategy.WEIGHTED else 1
    return domains.counts(held=copies, closed=place.refusal is not None, weight=weight, most=most)


def limited(candidate: Candidate) -> str:
    """What sets the cap, in brackets; "" for room alone."""
    if candidate.limit is Reason.AT_MAXIMUM:
        return f" ({candidate.most_text})"
    if candidate.limit is Reason.UNSCHEDULABLE:
        return f" ({CAPPED})"
    if candidate.limit is Reason.CONFLICT:
        return f" ({CONFLICT})"
    if candidate.limit in BY_CEILING:
        return f" ({candidate.short})"
    if candidate.barred:
        return f" ({candidate.barred})"
    if candidate.limit is Reason.SPREAD_UNSATISFIABLE:
        return " (it lacks a label of a DoNotSchedule spread rule)"
    return ""


def _cap(  # noqa: PLR0917 all that bounds one cluster
    policy: Policy, place: Place, bound: int | None, copies: int, room: int, most: int | None
) -> tuple[int, Reason]:
    cap, limit = copies + room, Reason.INSUFFICIENT_CAPACITY
    unlabelled = policy.spread and any(
        rule.hard and domain == UNLABELLED
        for rule, domain in zip(policy.spread, place.domains, strict=True)
    )
    if unlabelled and cap > copies:
        cap, limit = copies, Reason.SPREAD_UNSATISFIABLE
    # After room and before the policy: the strictest bound is the one that the verdict names.
    if bound is not None and cap > bound:
        cap, limit = max(bound, 0), Reason.UNSCHEDULABLE if bound >= 0 else Reason.CONFLICT
    if most is not None and cap > most:
        cap, limit = max(most, 0), Reason.AT_MAXIMUM
    return cap, limit


def _add_scores(ask: Ask, pool: list[Candidate]) -> None:
    held, room, avoided = (
        np.array(column, dtype=np.int64)
        for column in (
            [candidate.held for candidate in pool],
            [candidate.useful_room for candidate in pool],
            [candidate.place.avoided for candidate in pool],
        )
    )
    figures = scorers.columns(ask, (candidate.place.figures for candidate in pool))
    give_terms(pool, scorers.score(ask, scorers.facts(held, room, avoided, figures)))


def give_terms(
    pool: Sequence[Candidate], points: Mapping[str, Ints], at: Sequence[int] | None = None
) -> None:
    """Gives each candidate the terms of its score. `at`: where each stands in the columns of
    `points`; None where they are in the same order."""
    columns = [
        [(name, each) for each in (column if at is None else column.take(at)).tolist()]
        for name, column in points.items()
    ]
    for candidate, *terms in zip(pool, *columns, strict=True):
        candidate.terms = tuple(terms)
