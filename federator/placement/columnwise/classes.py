"""What asks of one class have in common: those under one policy, of one tier, kind and unit.

A class is made once and kept beside what was judged of the clusters. It exists where the best
clusters are enough (`crowd.simple`) for workloads that hold nothing; all others need candidates.
C clusters, in the order of their names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final

import numpy as np

from federator.model.ask import Ask
from federator.model.decision import NAMES_SHOWN, Reason, Rejected, row_bytes
from federator.model.fleet import FleetSnapshot
from federator.model.policy import SpreadRule
from federator.model.resources import UNLIMITED
from federator.placement import contradictions, inputs, verdicts
from federator.placement.division import domains
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.selection import alike, candidates, crowd, scorers
from federator.placement.selection.candidates import Place
from federator.placement.selection.field import Bools, Field, field_of

UNKNOWN: Final = "unknown"
_SHORT: Final = 253
"""The longest name that an API server takes."""
_FIGURES: Final = 150
"""More characters than a verdict has beside the name, where it says only that and figures."""


@dataclass(frozen=True, slots=True)
class SoftSpread:
    rule: SpreadRule
    domains: tuple[str, ...]
    """[C]: the domain of each cluster."""
    idle: tuple[str, ...]
    """The domains that open clusters make without copies."""

    def keeps(self, chosen: list[int], copies: list[int]) -> bool:
        """Whether so many copies in the chosen clusters break nothing; each has some."""
        return domains.keeps(self.rule, [self.domains[at] for at in chosen], copies, self.idle)


@dataclass(frozen=True, slots=True)
class Class:
    """What asks under one policy, of one tier and kind, have in common."""

    field: Field
    names: tuple[str, ...]
    """[C]"""
    texts: inputs.Texts
    """Of the policy and the fleet, for the inputs hash."""
    levels: tuple[Bools, ...]
    """[C] each: the open clusters of one level, the best level first."""
    members: tuple[tuple[int, ...], ...]
    """The same clusters as numbers."""
    plain: int
    """Not 0 where every name is printable ASCII, and short: so are sentences that say only it and
    figures. Then more bytes than a verdict takes with such a sentence (`decision.row_bytes`)."""
    all_open: bool
    alike: bool
    """All clusters are open, and of one level."""
    together: bool
    """At most one cluster is to have copies."""
    most: int
    """The most copies of one cluster by the policy; UNLIMITED without a bound."""
    rules: tuple[SoftSpread, ...]
    preference: Ints
    """[C]: what the terms that do not read room give, in all; 0 for closed clusters."""
    rows: tuple[tuple[str, int, dict[str, int], str], ...]
    """[C]: (name, the same as Python's integer, the terms of the score beside room, by name; how
    the verdict begins if it is chosen)."""
    tainted: frozenset[int]
    """The clusters with taints."""
    opened: tuple[int, ...]
    """The open clusters."""
    open_at: Ints
    """The same as a column."""
    nothing: Ints
    """[opened] zeros: what they hold."""
    avoided: Ints
    """Of each open cluster, how many avoided taints it has."""
    figures: scorers.Floats | None
    """[P, opened]: what the preferences of the policy read of each; None without any."""
    room_terms: scorers.Always
    """The terms that read room."""
    weighty: bool
    """No open cluster has a weight of its own that is 0."""
    refused: tuple[Rejected, ...]
    """The others by reason, as they are recorded."""
    recorded: Mapping[str, Any]
    """What every decision records of the policy."""
    _but: dict[frozenset[Reason], frozenset[str]] = dataclass_field(default_factory=dict)

    def by_room(self, ask: Ask, rooms: Ints) -> dict[str, Ints]:
        """[C] each: what the terms that read room give, by name; 0 for closed clusters. `rooms`: of
        all clusters, none of them negative."""
        if self.all_open:
            facts = scorers.facts(self.nothing, rooms, self.avoided, self.figures)
            return scorers.by_room(ask, facts, self.room_terms)
        at = self.open_at
        facts = scorers.facts(self.nothing, rooms.take(at), self.avoided, self.figures)
        given = scorers.by_room(ask, facts, self.room_terms)
        return {name: crowd.spread_out(column, at, rooms.size) for name, column in given.items()}

    def keeps(self, chosen: list[int], copies: list[int]) -> bool:
        """Whether so many copies in the chosen clusters break no soft spread rule."""
        return all(rule.keeps(chosen, copies) for rule in self.rules)

    def but(self, closed: frozenset[Reason]) -> frozenset[str]:
        """The clusters that are open, or refused for another reason than these."""
        names = self._but.get(closed)
        if names is None:
            refusals = ((place.view.name, place.refusal) for place in self.field.places)
            names = self._but[closed] = frozenset(
                name for name, why in refusals if why is None or why.reason not in closed
            )
        return names


def of(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Class | None:
    """None where an ask of this kind needs more than the best clusters, or contradicts itself."""
    memo, likeness = alike.judged(ask, snapshot, ledger)
    key = ("class", ask.unit, likeness)
    ask_class: Class | str | None = memo.get(key, UNKNOWN)
    if isinstance(ask_class, str):
        ask_class = memo[key] = _made(ask, snapshot, ledger)
    return ask_class


def _made(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger) -> Class | None:
    policy = ask.policy
    most, clusters = policy.division.max_per_cluster, policy.division.max_clusters
    if not crowd.simple_beside_most(ask) or (most is not None and most < 1):
        return None
    # To choose several of the clusters, or one by spread rules, takes a search: that is the
    # engine's.
    if clusters not in (None, 1) or (clusters == 1 and policy.spread):
        return None
    if contradictions.contradiction(ask):
        return None
    field = field_of(ask, candidates.places(ask, snapshot, ledger), ledger)
    levels = tuple(field.open & (field.level == level) for level in field.levels)
    opened = np.flatnonzero(field.open)
    nothing, avoided = np.zeros_like(opened), field.avoided.take(opened)
    figures = None if field.figures is None else field.figures[:, opened]
    terms = scorers.beside_room(ask, scorers.facts(nothing, nothing, avoided, figures))
    terms = {
        name: crowd.spread_out(column, opened, len(field.places)) for name, column in terms.items()
    }
    names = tuple(place.view.name for place in field.places)
    preference: Ints = sum(terms.values(), start=np.zeros(len(field.places), dtype=np.int64))
    return Class(
        field=field,
        names=names,
        texts=inputs.texts(ask, snapshot, ledger.memo),
        levels=levels,
        members=tuple(tuple(np.flatnonzero(level).tolist()) for level in levels),
        plain=_plain(field.places, scorers.most_terms(policy)),
        all_open=bool(field.open.all()),
        alike=len(levels) == 1 and bool(field.open.all()),
        together=clusters == 1,
        most=UNLIMITED if most is None else most,
        rules=_rules(ask, field),
        preference=preference,
        rows=tuple(
            zip(
                names,
                preference.tolist(),
                _shared(terms, len(names)),
                map(verdicts.head, names),
                strict=True,
            )
        ),
        tainted=frozenset(at for at, place in enumerate(field.places) if place.view.taints),
        opened=tuple(opened.tolist()),
        open_at=opened,
        nothing=nothing,
        avoided=avoided,
        figures=figures,
        room_terms=scorers.always(reads_room=True),
        weighty=field.weights is None or bool((field.weights[field.open] > 0).all()),
        refused=tuple(_refused(field, reason, group) for reason, group in field.refused.items()),
        recorded=inputs.recorded(policy),
    )


def _rules(ask: Ask, field: Field) -> tuple[SoftSpread, ...]:
    return tuple(
        SoftSpread(
            rule,
            tuple(place.domains[at] for place in field.places),
            tuple(dict.fromkeys(cell[at] for cell in field.cells)),
        )
        for at, rule in enumerate(ask.policy.spread)
    )


def _shared(terms: Mapping[str, Ints], clusters: int) -> tuple[dict[str, int], ...]:
    """The terms beside room of each cluster: one table for all clusters for which they are equal,
    which is nearly always all. A thousand would not stay near the processor."""
    tables: dict[tuple[int, ...], dict[str, int]] = {}
    rows = np.array([*terms.values()], dtype=np.int64).reshape(len(terms), clusters).T.tolist()
    return tuple(tables.setdefault(tuple(row), dict(zip(terms, row, strict=True))) for row in rows)


def _plain(places: Sequence[Place], terms: int) -> int:
    names = "".join([place.view.name for place in places])
    longest = max([len(place.view.name) for place in places], default=0)
    # Other characters take more bytes in JSON than in memory, so the bound would not hold.
    if longest > _SHORT or not (names.isascii() and names.isprintable()):
        return 0
    return row_bytes(2 * longest + _FIGURES, terms)


def _refused(field: Field, reason: Reason, group: list[int]) -> Rejected:
    names = tuple(field.places[at].view.name for at in group[:NAMES_SHOWN])
    refusal = field.places[group[0]].refusal
    return Rejected(reason, names, len(group), refusal.message if refusal is not None else "")
