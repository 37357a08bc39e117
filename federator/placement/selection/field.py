"""All clusters under one policy, as columns: what depends neither on room nor on the count.

C clusters, in the order of their names.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from federator.model.ask import Ask
from federator.model.decision import Reason
from federator.model.policy import Strategy
from federator.placement.division.division import DIVIDERS
from federator.placement.room.binding import Ints
from federator.placement.room.ledger import Ledger
from federator.placement.selection import alike, scorers
from federator.placement.selection.candidates import Place

Bools = NDArray[np.bool_]


class Field:
    """All clusters under one policy: what does not depend on room or on the count."""

    __slots__ = (
        "at",
        "avoided",
        "cell",
        "cells",
        "distinct",
        "domains",
        "figures",
        "level",
        "levels",
        "marks",
        "marks_listed",
        "open",
        "places",
        "refused",
        "weights",
    )

    def __init__(self, ask: Ask, eligible: Mapping[str, Place]) -> None:
        self.places = tuple(eligible.values())
        self.at = {name: at for at, name in enumerate(eligible)}
        self.open: Bools = np.array(
            [place.refusal is None for place in self.places], dtype=np.bool_
        )
        # As in `Candidate.party`: an avoided cluster comes behind all others of its group.
        levels = [2 * place.level + bool(place.avoided) for place in self.places]
        self.level: Ints = np.array(levels, dtype=np.int64)
        """[C]: ordered group, and behind it the clusters with avoided taints."""
        self.levels = sorted(
            {
                level
                for level, place in zip(levels, self.places, strict=True)
                if place.refusal is None
            }
        )
        self.avoided: Ints = np.array([place.avoided for place in self.places], dtype=np.int64)
        self.figures = scorers.columns(ask, (place.figures for place in self.places))
        """[P, C]: what each preference of the policy reads; None for a policy without any."""
        self.marks_listed = [place.mark for place in self.places]
        self.marks = np.array(self.marks_listed, dtype=np.uint64)
        self.distinct = len({*self.marks_listed}) == len(self.places)
        """No two clusters have the same mark."""
        self.weights: Ints | None = None
        """[C]: weights that do not depend on room; None for weight by room."""
        weigh = DIVIDERS[ask.policy.division.strategy].weigh
        # Of the strategies that come here only Capacity weighs by room, which every charge changes.
        if ask.policy.division.strategy is not Strategy.CAPACITY:
            self.weights = np.array(
                [weigh(ask.policy, place.view, 0, 0) for place in self.places], dtype=np.int64
            )
        index_of: dict[tuple[str, ...], int] = {}
        cell = [index_of.setdefault(place.domains, len(index_of)) for place in self.places]
        self.cell: Ints = np.array(cell, dtype=np.int64)
        """[C]: index of the cluster's domains under all spread rules."""
        self.domains = tuple(index_of)
        """Domains by that index."""
        self.cells = self._counted(ask, self.domains)
        self.refused: dict[Reason, list[int]] = {}
        for at, place in enumerate(self.places):
            if place.refusal is not None:
                self.refused.setdefault(place.refusal.reason, []).append(at)

    def _counted(self, ask: Ask, cells: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        """The domains that open clusters make without copies."""
        if (
            ask.policy.division.max_per_cluster is not None
            and ask.policy.division.max_per_cluster <= 0
        ):
            return ()
        weighty = (
            self.open
            if ask.policy.division.strategy is not Strategy.WEIGHTED or self.weights is None
            else (self.open & (self.weights > 0))
        )
        return tuple(cells[index] for index in np.unique(self.cell[weighty]).tolist())


def field_of(ask: Ask, eligible: Mapping[str, Place], ledger: Ledger) -> Field:
    """The field of the ask's policy, made once per ledger."""
    memo = alike.memo_of(ask, ledger.snapshot, ledger)
    kept: dict[int, tuple[Mapping[str, Place], Field]] = memo.setdefault("fields", {})
    entry = kept.get(id(eligible))
    if entry is None:
        entry = kept[id(eligible)] = (eligible, Field(ask, eligible))
    return entry[1]
