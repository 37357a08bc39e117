"""The verdicts of decisions over columns, worded when they are read: for the record the chosen
clusters and one of each group of the others.

Where some open cluster has no room or no weight, or all copies go to one, the others are grouped by
the crowd that the chosen are the best of (`verdicts.of_crowd`).
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from federator.model.ask import Ask
from federator.model.decision import (
    NAMES_SHOWN,
    ChosenRow,
    Grouped,
    Reason,
    Rejected,
    Verdict,
    Verdicts,
    by_frequency,
    quick_grouped,
    quick_rejected,
)
from federator.model.quickly import quickly
from federator.placement import verdicts
from federator.placement.columnwise.classes import Class
from federator.placement.policy import enforcing
from federator.placement.selection import candidates, choosing
from federator.placement.selection.candidates import Candidate
from federator.placement.selection.crowd import Crowd


@dataclass(frozen=True, slots=True)
class Worded:
    """What the verdicts are made of."""

    ask: Ask
    like: Class
    crowd: Crowd
    """The open clusters."""
    listed: list[int] | None
    """The same as a list, where there are few clusters."""
    chosen: list[int]
    """Rising."""
    copies: list[int]
    facts: verdicts.Shortfall

    def every(self) -> tuple[Verdict, ...]:
        return self._of_crowd().every()

    def grouped(self) -> Grouped:
        like, (least, top) = self.like, self._extremes()
        if least > 0 and like.weighty:  # each open cluster could have taken copies
            rejected = (*self._spared(), *like.refused)
            if len(rejected) < 2 or len({group.reason for group in rejected}) == len(rejected):
                plain = like.plain if like.most >= top else 0  # else a sentence names a policy
                return quick_grouped(self._chosen(top), by_frequency(rejected), plain)
        return self._of_crowd().grouped()

    def _extremes(self) -> tuple[int, int]:
        """The least and the most room of an open cluster; 0 where none is open."""
        like, listed = self.like, self.listed
        if listed is not None:
            rooms = listed if like.all_open else [listed[at] for at in like.opened]
            return (min(rooms), max(rooms)) if rooms else (0, 0)
        column = self.crowd.rooms if like.all_open else self.crowd.rooms[like.field.open]
        if not column.size:
            return 0, 0
        return column.item(column.argmin()), column.item(column.argmax())

    def _chosen(self, top: int) -> list[ChosenRow]:
        """As `decision.chosen_row` of their verdicts. `top`: the most room of an open cluster."""
        like, chosen, copies = self.like, self.chosen, self.copies
        if self.listed is None:
            rooms: list[int] = self.crowd.rooms.take(chosen).tolist()
        else:
            rooms = list(map(self.listed.__getitem__, chosen))
        things, most, rows = verdicts.noun(self.ask), min(like.most, self.crowd.at_most), like.rows
        points = [
            (name, column.take(chosen).tolist())
            for name, column in like.by_room(self.ask, self.crowd.rooms).items()
        ]
        if most >= top > 0:  # only room bounds them
            return _by_room([rows[at] for at in chosen], copies, rooms, things, points)
        bound = f" ({enforcing.bound(self.ask.policy, 'maxPerCluster')})"
        bounded = most == like.most
        return [
            {
                "cluster": (row := rows[at])[0],
                "got": got,
                "fit": (cap := min(room, most)),
                "score": row[1] + sum(column[index] for _, column in points),
                "message": verdicts.given(
                    row[0], got, things, cap, bound if bounded and most < room else ""
                ),
                "terms": {**row[2], **{name: column[index] for name, column in points}},
            }
            for index, (at, got, room) in enumerate(zip(chosen, copies, rooms, strict=True))
        ]

    def _spared(self) -> tuple[Rejected, ...]:
        """The open clusters that got nothing, where each could have taken copies."""
        like, taken = self.like, frozenset(self.chosen)
        count = len(like.opened) - len(taken)
        if not count:
            return ()
        others = itertools.filterfalse(taken.__contains__, like.opened)
        shown = [*itertools.islice(others, NAMES_SHOWN)]
        cap = min(self.crowd.rooms.item(shown[0]), like.most, self.crowd.at_most)
        things = verdicts.noun(self.ask)
        names = tuple([like.names[at] for at in shown])
        left_out = Reason.AT_MAXIMUM if like.together else None
        reason, why = verdicts.spared(self.ask.policy, left_out, self.facts)
        could = f"cluster {names[0]} could take {cap} {things}{why}"
        return (quick_rejected(reason, names, count, could),)

    def _of_crowd(self) -> Verdicts:
        ask, crowd = self.ask, self.crowd
        pool = _candidates(ask, crowd, self.chosen)
        got = dict(zip((each.name for each in pool), self.copies, strict=True))
        spared = Reason.AT_MAXIMUM if self.like.together else None
        return verdicts.of_crowd(ask, crowd, pool, got, self.facts, spared)


worded = quickly(Worded)


@dataclass(frozen=True, slots=True)
class InFull:
    """The verdicts of a workload that gets nothing, with every open cluster as a candidate."""

    ask: Ask
    like: Class
    crowd: Crowd
    facts: verdicts.Shortfall

    def every(self) -> tuple[Verdict, ...]:
        return self._verdicts().every()

    def grouped(self) -> Grouped:
        return self._verdicts().grouped()

    def reasons(self) -> Iterable[tuple[str, Reason]]:
        return self._verdicts().reasons()

    def but(self, closed: frozenset[Reason]) -> frozenset[str]:
        """No open cluster is refused for one of these reasons, which no room changes."""
        return self.like.but(closed)

    def _verdicts(self) -> Verdicts:
        ask, like = self.ask, self.like
        pool = _candidates(ask, self.crowd, list(like.opened))
        left_out = choosing.choose(pool, self.facts.wanted, ask.policy.division, fresh=False)
        eligible = {place.view.name: place for place in like.field.places}
        return verdicts.verdicts(ask, eligible, pool, {}, left_out, outcome=self.facts)


def _candidates(ask: Ask, crowd: Crowd, chosen: Sequence[int]) -> list[Candidate]:
    if crowd.points is None:
        crowd.score(())
    pool = crowd.candidates(chosen)
    candidates.cap_by_shards(ask, pool, {}, ask.count)
    return pool


def _by_room(
    rows: Sequence[tuple[str, int, dict[str, int], str]],
    copies: Sequence[int],
    rooms: Sequence[int],
    things: str,
    points: Sequence[tuple[str, Sequence[int]]],
) -> list[ChosenRow]:
    """The rows of clusters that only room bounds. `rows`: what their class has of each. `points`:
    of each, by the terms that read room, of which `room` is always one. The sentence is
    `verdicts.given`, and in line."""
    middle, (first, column), *others = f" {things}; at most ", *points
    made: list[ChosenRow] = [
        {
            "cluster": name,
            "got": got,
            "fit": room,
            "score": score + more,
            "message": f"{head}{got}{middle}{room} are possible there",
            "terms": {**beside, first: more},
        }
        for (name, score, beside, head), got, room, more in zip(
            rows, copies, rooms, column, strict=True
        )
    ]
    for term, column in others:  # nearly never
        for row, more in zip(made, column, strict=True):
            row["terms"][term] = more
            row["score"] += more
    return made
