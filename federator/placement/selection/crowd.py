"""The clusters that hold nothing of a workload, as columns, and the best of them as candidates.

A decision over a thousand clusters gives copies to a few. Where neither hard spread rules nor
bounds on clusters can make another one needed, `n` copies go to holders and to the n clusters that
Webster's method prefers at 0 seats: a cluster behind n others gets its first seat after each of
them has one. Only these become candidates; the rest counts in columns. C clusters, in the order of
their names.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from federator.model.ask import Ask, Unit
from federator.model.decision import Reason
from federator.model.fleet import Holding
from federator.model.resources import UNLIMITED
from federator.placement.division import division, spread
from federator.placement.division.division import DIVIDERS
from federator.placement.quota.quota import Admission
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.room.world import PENDING
from federator.placement.selection import best, candidates, choosing, scorers
from federator.placement.selection.candidates import Candidate, Place
from federator.placement.selection.field import Bools, Field, field_of


def simple(ask: Ask) -> bool:
    """Whether the best clusters are enough: no hard spread rule, no maxDomains, no minimum and no
    bounds of single clusters, no most clusters, and a strategy that neither wants few clusters nor
    all."""
    return ask.policy.division.max_clusters is None and simple_beside_most(ask)


def simple_beside_most(ask: Ask) -> bool:
    """As `simple`, whatever the most clusters are."""
    bounds = ask.policy.division
    divider = DIVIDERS[bounds.strategy]
    return (
        bounds.min_per_cluster <= 0
        and not bounds.per_cluster
        and not divider.fewest
        and not divider.everywhere
        and not ask.suspended
        and not any(rule.hard or rule.max_domains is not None for rule in ask.policy.spread)
    )


def spread_out(column: Ints, here: Ints, size: int) -> Ints:
    """[size]: the entries of `column` at the places `here`, 0 at all others."""
    wide = np.zeros(size, dtype=np.int64)
    wide[here] = column
    return wide


class Crowd:
    """The open clusters that hold nothing and that no scheduler caps.

    Its columns are worked out when they are read: most decisions read few of them.
    """

    __slots__ = (
        "_able",
        "_cap",
        "_room",
        "ask",
        "at_most",
        "by_name",
        "field",
        "member",
        "order",
        "points",
        "rooms",
    )

    def __init__(
        self,
        ask: Ask,
        field: Field,
        rooms: Ints,
        apart: Collection[str] = (),
        *,
        by_name: bool,
        at_most: int,
    ) -> None:
        """`rooms` as in `Ledger.rooms`. `apart`: clusters that are judged one by one. `at_most`:
        copies that one cluster can have at all (shards that are not assigned yet)."""
        self.ask, self.field, self.rooms, self.at_most = ask, field, rooms, at_most
        self.member = field.open
        """[C]: whether it belongs to the crowd."""
        if apart:
            self.member = self.member.copy()
            self.member[[field.at[name] for name in apart if name in field.at]] = False
        self.by_name = by_name
        self.order = best.Order(field, ask, by_name=by_name)
        self.points: Mapping[str, Ints] | None = None
        """[C] each: the terms of the score by name, of the crowd and of the candidates beside it;
        None before they are worked out."""
        self._room: Ints | None = None
        self._cap: Ints | None = None
        self._able: Bools | None = None

    @property
    def room(self) -> Ints:
        """[C]: further copies that fit, 0 where unknown."""
        if self._room is None:
            # PENDING is negative: while only the member can tell, there is no room.
            self._room = self.rooms if self.ask.shape.plain else np.maximum(self.rooms, 0)
        return self._room

    @property
    def cap(self) -> Ints:
        """[C]: the most copies that it may get."""
        if self._cap is None:
            bound = min(self.at_most, self.most)
            self._cap = self.room if bound >= UNLIMITED else np.minimum(self.room, bound)
        return self._cap

    @property
    def most(self) -> int:
        """The most copies of one cluster by the policy; UNLIMITED without a bound."""
        most = self.ask.policy.division.max_per_cluster
        return UNLIMITED if most is None else max(most, 0)

    @property
    def weight(self) -> Ints:
        """[C]"""
        return self.room if self.field.weights is None else self.field.weights

    @property
    def able(self) -> Bools:
        """[C]: in the crowd, with cap and weight."""
        if self._able is None:
            self._able = self.member & (self.cap > 0)
            if self.weight is not self.room:
                self._able &= self.weight > 0
        return self._able

    @property
    def pending(self) -> Bools:
        """[C]: only the member can tell how many copies fit, and has not yet."""
        pending: Bools = self.rooms == PENDING
        return pending

    def reach(self, total: int) -> int:
        """The most copies that the crowd can take, up to `total`."""
        # Most asks of a trace: the sum over a thousand clusters is not needed for one copy.
        if total == 1:
            return int(self.able.any())
        # Clipped before the sum: unlimited caps would overflow it.
        return min(int(np.minimum(self.cap, total).sum(where=self.able)), total)

    def best(self, count: int, *, by_domain: bool) -> list[int]:
        """The clusters that can be among the first `count` to get a seat; `by_domain`: among those
        of one cell. By name."""
        if not by_domain or len(self.field.cells) < 2:
            return self._first(self.able, count)
        chosen: list[int] = []
        for cell in np.unique(self.field.cell[self.able]).tolist():
            chosen += self._first(self.able & (self.field.cell == cell), count)
        return sorted(chosen)

    def _first(self, able: Bools, count: int) -> list[int]:
        """The first `count` by level, weight, order and name; rising."""
        chosen: list[int] = []
        for level in self.field.levels:
            left = count - len(chosen)
            if left <= 0:
                break
            ranked = np.where(able & (self.field.level == level), self.weight, 0)
            chosen += best.heaviest(ranked, left, self.order)
        return sorted(chosen)

    def score(self, own: Sequence[Candidate]) -> None:
        """Works out the scores of the whole crowd and of `own`, the candidates beside it, and gives
        these theirs. Of all, because terms compare a cluster with all that take part."""
        taking, held, room = self.member, np.zeros_like(self.room), self.room
        at = [self.field.at[candidate.name] for candidate in own]
        if own:
            taking, room = taking.copy(), room.copy()
            taking[at] = True
            held[at] = [candidate.held for candidate in own]
            room[at] = [candidate.room for candidate in own]
        here = np.flatnonzero(taking)
        figures = self.field.figures
        clusters = scorers.facts(
            held[here],
            room[here],
            self.field.avoided[here],
            None if figures is None else figures[:, here],
        )
        given = scorers.score(self.ask, clusters)
        self.points = {name: spread_out(column, here, room.size) for name, column in given.items()}
        candidates.give_terms(own, self.points, at)

    def candidates(self, chosen: Sequence[int]) -> list[Candidate]:
        """These clusters as candidates, with their scores where these are worked out."""
        places = [self.field.places[at] for at in chosen]
        rooms = self.rooms.take(chosen).tolist() if chosen else []
        made = candidates.of_open(self.ask, places, rooms, by_name=self.by_name)
        if self.at_most < UNLIMITED:
            candidates.cap_at(made, {}, self.at_most)
        if self.points is not None:
            candidates.give_terms(made, self.points, chosen)
        return made

    def to_choose(self, score: Ints) -> choosing.Clusters:
        """Its clusters for a choice. `score`: of all clusters."""
        field = self.field
        return choosing.Clusters(
            None,
            self.cap,
            self.able,
            field.level if len(field.levels) > 1 else None,
            score,
            self.order.keys,
            field.cell,
            field.domains,
        )

    def limits(self) -> dict[Reason, int]:
        """How many of its clusters have a bound that is not room."""
        bounded = self.room > self.most
        count = int((self.member & bounded).sum()) if self.most < UNLIMITED else 0
        return {Reason.AT_MAXIMUM: count} if count and self.most <= self.at_most else {}

    def alike(self, but: Collection[int]) -> list[Ints]:
        """The clusters of the crowd without those in `but`, in groups of which all are spared for
        the same reason; each rising."""
        rest = self.member.copy()
        rest[list(but)] = False
        groups = []
        full = self.cap <= 0
        # in the order in which `verdicts` judges
        for test in (self.pending, full & (self.room <= 0), full, self.weight <= 0):
            groups.append(np.flatnonzero(rest & test))
            rest &= ~test
        groups.append(np.flatnonzero(rest))
        return [group for group in groups if group.size]


@dataclass(frozen=True, slots=True)
class Drawing:
    """What candidates are gathered for: `wanted` copies, `unfinished` shards."""

    ask: Ask
    ledger: Ledger
    held: Mapping[str, Holding]
    eligible: Mapping[str, Place]
    capped: Mapping[str, int]
    unfinished: int
    wanted: int
    by_name: bool
    fresh: bool
    within: Callable[[int], Admission]
    """copies -> how many of them quota admits."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The candidates by name, the copies that are wanted in all, and what quota admits of them."""

    pool: list[Candidate]
    wanted: int
    admission: Admission
    crowd: Crowd | None = None
    """What the candidates are the best of; None when every cluster is one."""

    @property
    def beside(self) -> tuple[tuple[str, ...], ...]:
        """Domains of clusters that are no candidates but count."""
        return self.crowd.field.cells if self.crowd is not None else ()


def gather(job: Drawing, *, whole: bool) -> Gathered:
    """The candidates: the best clusters where these are enough, else (and with `whole`) all."""
    ask = job.ask
    if not whole and job.wanted > 0 and simple(ask):
        admission = job.within(job.wanted)
        drawn = _draw(job, min(job.wanted, admission.copies))
        if drawn is not None:
            candidates.cap_by_shards(ask, drawn[0], job.held, job.unfinished)
            return Gathered(drawn[0], job.wanted, admission, drawn[1])
    pool = candidates.candidates(
        ask, job.held, job.eligible, job.ledger, capped=job.capped, by_name=job.by_name
    )
    candidates.cap_by_shards(ask, pool, job.held, job.unfinished)
    wanted = job.wanted * _times(ask, pool)
    return Gathered(pool, wanted, job.within(wanted))


def _times(ask: Ask, pool: Sequence[Candidate]) -> int:
    """How often the whole count is wanted: once per cluster for Duplicate, else once."""
    bounds = ask.policy.division
    if not DIVIDERS[bounds.strategy].everywhere:
        return 1
    return max(min(len(pool), bounds.max_clusters or len(pool)), 1)


def _draw(job: Drawing, total: int) -> tuple[list[Candidate], Crowd] | None:
    """The candidates of a simple ask, and the crowd that they are the best of; None where not
    everything finds room, so that every cluster must be looked at."""
    ask, held, eligible = job.ask, job.held, job.eligible
    apart = {name: eligible[name] for name in sorted({*held, *job.capped}) if name in eligible}
    own = (
        candidates.candidates(
            ask,
            held,
            apart,
            job.ledger,
            capped=job.capped,
            by_name=job.by_name,
            scored=False,  # with the crowd, below
        )
        if apart
        else []
    )
    candidates.cap_by_shards(ask, own, held, job.unfinished)
    mine = sum(held[candidate.name].count for candidate in own if candidate.name in held)
    loose = max(job.unfinished - mine, 0) if ask.unit is Unit.SHARDS else UNLIMITED
    field = field_of(ask, eligible, job.ledger)
    crowd = Crowd(
        ask, field, job.ledger.rooms(ask.shape), apart, by_name=job.by_name, at_most=loose
    )
    beside = sum(min(candidate.held, candidate.cap) for candidate in own if candidate.weight > 0)
    # Not everything finds room: then which clusters lack it is part of the answer.
    if crowd.reach(total) + beside < total:
        return None
    crowd.score(own)
    pool = _pooled(crowd, own, total, by_domain=False)
    # A soft rule may prefer the best cluster of another domain, however light it is.
    if ask.policy.spread and _breaks(pool, crowd, total, fresh=job.fresh):
        pool = _pooled(crowd, own, total, by_domain=True)
    return pool, crowd


def _pooled(
    crowd: Crowd, own: Sequence[Candidate], total: int, *, by_domain: bool
) -> list[Candidate]:
    drawn = crowd.candidates(crowd.best(total, by_domain=by_domain))
    return sorted([*own, *drawn], key=lambda candidate: candidate.name) if own else drawn


def _breaks(pool: Sequence[Candidate], crowd: Crowd, total: int, *, fresh: bool) -> bool:
    """Whether the division breaks a spread rule without looking at it: then another cluster of each
    domain may be better than the best."""
    parties = [candidate.party(0, fresh=fresh, holders_first=False) for candidate in pool]
    division.divide(parties, total)
    return bool(spread.violations(parties, crowd.ask.policy.spread, crowd.field.cells))
