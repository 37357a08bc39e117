"""Chooses the clusters that take part when not all can or need to: a step before dividing, and a
sticky one. Over columns, so that a fleet is no list of objects.

The objectives, in the order of the whole engine: as many copies as possible, earlier groups,
clusters without avoided taints, different domains, clusters that hold copies, the score. Holders
stay (the largest when the policy allows fewer clusters than hold copies), unless more copies can be
placed without one. New clusters join as far as minPerCluster, maxClusters and the strategy allow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from federator.model.decision import Reason
from federator.model.policy import Division
from federator.placement.division import domains
from federator.placement.division.division import DIVIDERS
from federator.placement.room.binding import Ints
from federator.placement.selection.candidates import Candidate
from federator.placement.selection.field import Bools


@dataclass(frozen=True, slots=True)
class Clusters:
    """What a choice depends on. [C] each, in the order of names."""

    held: Ints | None
    """None where none holds any copy."""
    cap: Ints
    able: Bools
    """Whether it can get copies: its cap and its weight are above 0. Others would only use up
    `maxClusters`."""
    level: Ints | None
    """Twice the ordered group, and one more with avoided taints; None where it is the same for
    all."""
    score: Ints
    order: Callable[[Ints], NDArray[np.uint64]]
    """The last tie-breaks but the name, of some of them."""
    cell: Ints
    """Index of the cluster's domains in `domains`."""
    domains: Sequence[tuple[str, ...]]


def of_candidates(candidates: Sequence[Candidate]) -> Clusters:
    index_of: dict[tuple[str, ...], int] = {}
    cell = [index_of.setdefault(each.place.domains, len(index_of)) for each in candidates]
    return Clusters(
        _column([each.held for each in candidates]),
        _column([each.cap for each in candidates]),
        np.array([each.cap > 0 and each.weight > 0 for each in candidates], dtype=np.bool_),
        _column([2 * each.place.level + bool(each.place.avoided) for each in candidates]),
        _column([each.score for each in candidates]),
        np.array([each.order for each in candidates], dtype=np.uint64).take,
        _column(cell),
        tuple(index_of),
    )


def _column(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The clusters that take part by a limit, and the others with the reason."""

    joined: Sequence[int]
    """Of those that hold nothing, or compete as if they held nothing."""
    joining: Ints
    """Those that might have joined."""
    why: Reason
    """Why the rest of them is left out."""
    out: Mapping[int, Reason]
    """The others that are left out."""


def choose(
    candidates: Sequence[Candidate],
    total: int,
    division: Division,
    *,
    fresh: bool,
    strict: bool = False,
    beyond: int = 0,
    sticky: bool = False,
) -> dict[str, Reason]:
    """The clusters that are left out, with the reason; all others take part.

    `strict`: hard spread rules may make room unusable, so later groups may be needed although
    earlier ones have room. `beyond`: clusters to take beyond the fewest with enough room, where a
    strategy wants few. `sticky`: holders stay even where more copies could be placed without one.
    """
    if not chooses(division):
        return {}
    clusters = of_candidates(candidates)
    made = of(clusters, total, division, fresh=fresh, strict=strict, beyond=beyond, sticky=sticky)
    left_out = {candidates[at].name: why for at, why in made.out.items()}
    rest = {*made.joining.tolist()}.difference(made.joined)
    left_out.update((candidates[at].name, made.why) for at in rest)
    return left_out


def chooses(division: Division) -> bool:
    """Whether the division bounds which clusters take part."""
    fewest = DIVIDERS[division.strategy].fewest
    return fewest or division.min_per_cluster > 0 or division.max_clusters is not None


def of(
    clusters: Clusters,
    total: int,
    division: Division,
    *,
    fresh: bool,
    strict: bool = False,
    beyond: int = 0,
    sticky: bool = False,
) -> Chosen:
    """As `choose`, by columns, under a division that `chooses`."""
    limits = Limits(total, max(division.min_per_cluster, 0), division.max_clusters)
    fewest = DIVIDERS[division.strategy].fewest
    # With mode Fresh holders compete like all others: the plan is made as if nothing ran.
    holders = [] if fresh or clusters.held is None else _holders(clusters)
    able, out = clusters.able, dict[int, Reason]()
    if holders:
        able = able.copy()
        able[holders] = False
    if limits.floor > 0:
        below = able & (clusters.cap < limits.floor)
        out.update(dict.fromkeys(np.flatnonzero(below).tolist(), Reason.BELOW_MINIMUM))
        able = able & ~below
    (joining,) = able.nonzero()
    if not (holders or fewest or limits.floor) and limits.most == 1 and joining.size:
        return Chosen([_largest(clusters, joining, total)], joining, limits.reason, out)
    caps = np.minimum(clusters.cap, total)  # clipped, since unlimited caps overflow a sum
    stay = _staying(caps, holders, joining, limits, sticky=sticky)
    out.update((at, limits.reason) for at in holders if at not in stay)
    # Without floors the levels of the division keep later groups empty by themselves. Under hard
    # rules room may be unusable, so a later group cannot be ruled out here.
    if limits.floor > 0 and not strict:
        joining = _needed(clusters, caps, joining, stay, limits, out)
    picker = _Picker(clusters, caps, joining, stay, limits)
    why = _packed(picker, limits, beyond) if fewest else _joined(picker, limits, sticky=sticky)
    return Chosen(picker.joined, joining, why, out)


def _largest(clusters: Clusters, joining: Ints, total: int) -> int:
    """What `_Picker` picks where one cluster may take part, as for most jobs of a trace."""
    caps = clusters.cap[joining]
    goal = min(caps.item(caps.argmax()), total)
    return _first(clusters, joining[caps >= goal])


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a choice: copies to place, minimum per cluster, most clusters."""

    total: int
    floor: int
    most: int | None

    @property
    def reason(self) -> Reason:
        """Why a limit leaves a cluster out."""
        return Reason.BELOW_MINIMUM if self.most is None else Reason.AT_MAXIMUM

    def slots(self, chosen: Sequence[int], others: int) -> int:
        """How many of `others` clusters may join those chosen, which have these caps.

        total 10, floor 3, one chosen with cap 9: (10 - 3) // 3 = 2 more can get their minimum
        """
        slots = others if self.most is None else min(self.most - len(chosen), others)
        if self.floor > 0:
            # Each cluster that takes part uses a floor of the total, so the total bounds their
            # number.
            spare = self.total - sum(min(self.floor, cap) for cap in chosen)
            slots = min(slots, spare // self.floor)
        return max(slots, 0)

    def reach(self, chosen: Sequence[int], others: Ints) -> int:
        """The most copies that the chosen clusters and the best of the others can hold, of these
        caps; none is above the total."""
        # The largest caps give an upper bound, which the picker keeps in sight with every choice.
        slots = self.slots(chosen, others.size)
        if slots <= 0:
            best = 0
        elif slots == 1:
            best = others.item(others.argmax())
        elif slots < others.size:
            best = int(np.partition(others, others.size - slots)[others.size - slots :].sum())
        else:
            best = int(others.sum())
        return min(sum(chosen) + best, self.total)


def _holders(clusters: Clusters) -> list[int]:
    """Those that hold copies and may keep some: the first stays longest."""
    assert clusters.held is not None
    holders = np.flatnonzero((clusters.held > 0) & (clusters.cap > 0))
    keys = zip(
        (_levels(clusters, holders) >> 1).tolist(),  # whatever taints are avoided
        (-clusters.held[holders]).tolist(),
        (-clusters.score[holders]).tolist(),
        clusters.order(holders).tolist(),
        holders.tolist(),
        strict=True,
    )
    return [at for *_, at in sorted(keys)]


def _staying(
    caps: Ints, holders: Sequence[int], joining: Ints, limits: Limits, *, sticky: bool
) -> list[int]:
    """The holders that stay: as many as possible without placing fewer copies."""
    stay = list(holders if limits.most is None else holders[: max(limits.most, 0)])
    if sticky or not holders:
        return stay
    everybody = np.concatenate([np.array(holders, dtype=np.int64), joining])
    goal = limits.reach((), caps[everybody])
    # Placing copies comes before avoiding moves, but a holder leaves only when that places more.
    if _reach_with(caps, stay, everybody, limits) >= goal:
        return stay
    stay = []
    # In the order of holders: of two that cannot both stay, the one of the earlier group does, then
    # the larger one.
    for holder in holders:
        if limits.most is not None and len(stay) >= limits.most:
            break
        if _reach_with(caps, [*stay, holder], everybody, limits) >= goal:
            stay.append(holder)
    return stay


def _reach_with(caps: Ints, chosen: Sequence[int], everybody: Ints, limits: Limits) -> int:
    others = everybody[~np.isin(everybody, chosen)]
    return limits.reach(caps[list(chosen)].tolist(), caps[others])


def _needed(  # noqa: PLR0917 what a choice knows by then
    clusters: Clusters,
    caps: Ints,
    joining: Ints,
    stay: Sequence[int],
    limits: Limits,
    out: dict[int, Reason],
) -> Ints:
    """Takes later groups, and clusters with avoided taints, only as far as the others cannot hold
    everything: the floor of each cluster that takes part is filled. The rest goes into `out`."""
    levels, staying = _levels(clusters, joining), caps[list(stay)].tolist()
    needed = joining[:0]
    for level in np.unique(levels).tolist():
        group = joining[levels == level]
        if limits.reach(staying, caps[needed]) >= limits.total:
            out.update(dict.fromkeys(group.tolist(), Reason.NOT_NEEDED))
        else:
            needed = np.concatenate([needed, group])
    return np.sort(needed)


def _joined(picker: "_Picker", limits: Limits, *, sticky: bool) -> Reason:
    """Picks the clusters that join beside the holders: as many as may, and unless `sticky` as many
    more as are needed to place everything. Returns why the rest does not."""
    floor, count, stay = limits.floor, picker.rest.size, picker.stay
    most = limits.slots([cap for _, cap in stay], count)
    beside, why = count, Reason.AT_MAXIMUM
    if floor > 0:
        # What holders have above their floor is not free for a newcomer, unless they must make way.
        spare = limits.total - sum(max(held, min(floor, cap)) for held, cap in stay)
        beside = max(spare, 0) // floor
        if limits.most is None or beside < limits.most - len(stay):
            why = Reason.BELOW_MINIMUM
    if most >= count and beside >= count:
        picker.every()
        return why
    room = sum(cap for _, cap in stay)
    # Beyond `beside` a newcomer costs holders copies above their floor: only where that places more
    # copies in all.
    while len(picker.joined) < most and (
        len(picker.joined) < beside or (room < picker.goal and not sticky)
    ):
        room += picker.caps.item(picker.next())
    return why


def _packed(picker: "_Picker", limits: Limits, beyond: int) -> Reason:
    """Picks, per group, as many clusters as are needed for what the group's holders have no room
    for, and `beyond` more. Returns why the rest does not join."""
    caps, joined = picker.caps, picker.joined
    most = limits.slots([cap for _, cap in picker.stay], picker.rest.size)
    free = [max(cap - held, 0) for held, cap in picker.stay]
    growth = limits.total - sum(min(held, cap) for held, cap in picker.stay)
    of_stay = picker.places(picker.chosen)
    for place in sorted({*of_stay, *picker.places(picker.rest)}):
        # Room of the holders of this group first: Pack opens another cluster only when they are
        # full.
        room = sum(more for at, more in zip(of_stay, free, strict=True) if at == place)
        while room < growth and len(joined) < most and place in picker.places(picker.rest):
            at = picker.next()
            if picker.places([at]) == [place]:
                room += caps.item(at)
            else:
                growth -= caps.item(at)
        growth -= min(room, max(growth, 0))
    # Read before the clusters beyond are taken: these are for hard rules, not for want of room.
    enough = growth <= 0
    while beyond > 0 and len(joined) < most:
        picker.next()
        beyond -= 1
    return Reason.NOT_NEEDED if enough else limits.reason


@dataclass(slots=True)
class _Picker:
    """Picks the best cluster to join next, from the least used domains (earlier rules count more),
    but none that would lower the number of copies placed in the end."""

    clusters: Clusters
    caps: Ints
    """No cap above the total."""
    rest: Ints
    """Those that may join, rising."""
    chosen: list[int]
    limits: Limits
    joined: list[int] = field(default_factory=list)
    goal: int = 0
    stay: list[tuple[int, int]] = field(default_factory=list)
    """(held, cap) of those that stay."""
    used: dict[tuple[int, str], int] = field(default_factory=dict)
    largest: list[int] = field(default_factory=list)
    """The rest by size, where not all of it may join."""

    def __post_init__(self) -> None:
        clusters, caps = self.clusters, self.caps
        self.chosen = list(self.chosen)
        held, total = clusters.held, self.limits.total
        self.stay = [
            (0 if held is None else min(held.item(at), total), caps.item(at)) for at in self.chosen
        ]
        self.goal = self.limits.reach([cap for _, cap in self.stay], caps[self.rest])
        for at in self.chosen:
            self._use(at)

    def places(self, at: Ints | Sequence[int]) -> list[int]:
        """The levels of these clusters."""
        levels: list[int] = _levels(self.clusters, np.asarray(at, dtype=np.int64)).tolist()
        return levels

    def every(self) -> None:
        """Picks all that are left."""
        self.joined += self.rest.tolist()
        self.rest = self.rest[:0]

    def next(self) -> int:
        """The next cluster; at least one must be left."""
        here = self._able()
        if here.size:
            picked = _first(self.clusters, here, self._least_crowded)
        else:  # no choice keeps the goal in reach, and the largest loses least of it
            picked = self._by_size()[0]
        self.rest = self.rest[self.rest != picked]
        if self.largest:
            self.largest.remove(picked)
        self.chosen.append(picked)
        self.joined.append(picked)
        self._use(picked)
        return picked

    def _able(self) -> Ints:
        """Those after which everything that can be placed still can be."""
        rest, caps = self.rest, self.caps
        chosen = [caps.item(at) for at in self.chosen]
        slots = self.limits.slots(chosen, rest.size)
        # All may join, so no choice keeps another one out.
        if slots >= rest.size:
            return rest
        room = caps[rest]
        if slots <= 1:
            return rest[room >= self.goal - sum(chosen)]
        by_size = self._by_size()
        others = by_size[: slots - 1]
        # A cluster that is among the best anyway leaves its slot to the next one by size.
        room = np.where(np.isin(rest, others), caps.item(by_size[slots - 1]), room)
        best = sum(caps.item(at) for at in others)
        return rest[room >= self.goal - sum(chosen) - best]

    def _by_size(self) -> list[int]:
        if not self.largest:
            rest, clusters = self.rest, self.clusters
            ranked = np.lexsort((clusters.order(rest), -clusters.cap[rest]))
            self.largest = rest[ranked].tolist()
        return self.largest

    def _least_crowded(self, here: Ints) -> Ints:
        cells = self.clusters.cell[here]
        if len(self.clusters.domains) < 2 or here.size < 2:
            return here
        crowding = {
            cell: tuple(
                sum(self.used.get((at, part), 0) for part in domains.parts(domain))
                for at, domain in enumerate(self.clusters.domains[cell])
            )
            for cell in np.unique(cells).tolist()
        }
        least = min(crowding.values())
        best = [cell for cell, crowded in crowding.items() if crowded == least]
        return here if len(best) == len(crowding) else here[np.isin(cells, best)]

    def _use(self, at: int) -> None:
        for rule, domain in enumerate(self.clusters.domains[self.clusters.cell.item(at)]):
            for part in domains.parts(domain):
                self.used[rule, part] = self.used.get((rule, part), 0) + 1


def _first(
    clusters: Clusters, here: Ints, least_crowded: Callable[[Ints], Ints] | None = None
) -> int:
    """The best of these clusters: groups and avoided taints before domains before scores, the order
    in docs/reference/spread.md."""
    if clusters.level is not None:
        here = _least(here, clusters.level.take)
    if least_crowded is not None:
        here = least_crowded(here)
    here = _most(_most(here, clusters.score), clusters.cap)
    return _least(here, clusters.order).item(0)


def _levels(clusters: Clusters, at: Ints) -> Ints:
    return np.zeros_like(at) if clusters.level is None else clusters.level[at]


def _least(here: Ints, keys: Callable[[Ints], NDArray[Any]]) -> Ints:
    if here.size < 2:
        return here
    values = keys(here)
    least: Ints = here[values == values.min()]
    return least


def _most(here: Ints, column: Ints) -> Ints:
    if here.size < 2:
        return here
    values = column[here]
    most: Ints = here[values == values.max()]
    return most
