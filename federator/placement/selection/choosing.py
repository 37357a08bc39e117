"""Chooses the clusters that take part when not all can or need to: a step before dividing, and a
sticky one.

The objectives, in the order of the whole engine: as many copies as possible, earlier groups,
clusters without avoided taints, different domains, clusters that hold copies, the score. Holders
stay (the largest when the policy allows fewer clusters than hold copies), unless more copies can be
placed without one. New clusters join as far as minPerCluster, maxClusters and the strategy allow.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from federator.model.ask import Division
from federator.model.decision import Reason
from federator.placement.division.division import DIVIDERS
from federator.placement.selection.candidates import Candidate


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
    limits = Limits(total, max(division.min_per_cluster, 0), division.max_clusters)
    fewest = DIVIDERS[division.strategy].fewest
    out: dict[str, Reason] = {}
    if limits.floor == 0 and limits.most is None and not fewest:
        return out
    # With mode Fresh holders compete like all others: the plan is made as if nothing ran.
    holders = (
        []
        if fresh
        else sorted(
            (candidate for candidate in candidates if candidate.held > 0 and candidate.cap > 0),
            key=_stays_first,
        )
    )
    holding = {candidate.name for candidate in holders}
    joining: list[Candidate] = []
    for candidate in candidates:
        # These can get no copy, so as members of the set they would only use up `maxClusters`.
        if candidate.name in holding or candidate.cap <= 0 or candidate.weight <= 0:
            continue
        if candidate.cap < limits.floor:
            out[candidate.name] = Reason.BELOW_MINIMUM
        else:
            joining.append(candidate)
    stay = _staying(holders, joining, limits, sticky=sticky)
    out.update((candidate.name, limits.reason) for candidate in holders if candidate not in stay)
    # Without floors the levels of the division keep later groups empty by themselves. Under hard
    # rules room may be unusable, so a later group cannot be ruled out here.
    if limits.floor > 0 and not strict:
        joining = _needed(joining, stay, limits, out)
    picker = _Picker(joining, stay, limits)
    joined, why = (
        _packed(picker, stay, limits, beyond)
        if fewest
        else _joined(picker, stay, limits, sticky=sticky)
    )
    chosen = {candidate.name for candidate in joined}
    out.update((candidate.name, why) for candidate in joining if candidate.name not in chosen)
    return out


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

    def slots(self, chosen: Sequence[Candidate], others: int) -> int:
        """How many of `others` clusters may join those chosen.

        total 10, floor 3, one chosen with cap 9: (10 - 3) // 3 = 2 more can get their minimum
        """
        slots = others if self.most is None else min(self.most - len(chosen), others)
        if self.floor > 0:
            # Each cluster that takes part uses a floor of the total, so the total bounds their
            # number.
            spare = self.total - sum(min(self.floor, candidate.cap) for candidate in chosen)
            slots = min(slots, spare // self.floor)
        return max(slots, 0)

    def reach(self, chosen: Sequence[Candidate], others: Iterable[Candidate]) -> int:
        """The most copies that the chosen clusters and the best of the others can hold."""
        # The largest caps give an upper bound, which the picker keeps in sight with every choice.
        caps = sorted((other.cap for other in others), reverse=True)
        best = sum(candidate.cap for candidate in chosen) + sum(
            caps[: self.slots(chosen, len(caps))]
        )
        return min(best, self.total)


def _staying(
    holders: Sequence[Candidate], joining: Sequence[Candidate], limits: Limits, *, sticky: bool
) -> list[Candidate]:
    """The holders that stay: as many as possible without placing fewer copies."""
    stay = list(holders if limits.most is None else holders[: max(limits.most, 0)])
    everybody = [*holders, *joining]
    goal = limits.reach((), everybody)
    # Placing copies comes before avoiding moves, but a holder leaves only when that places more.
    if sticky or _reach_with(stay, everybody, limits) >= goal:
        return stay
    stay = []
    # In the order of holders: of two that cannot both stay, the one of the earlier group does, then
    # the larger one.
    for candidate in holders:
        if limits.most is not None and len(stay) >= limits.most:
            break
        if _reach_with([*stay, candidate], everybody, limits) >= goal:
            stay.append(candidate)
    return stay


def _reach_with(chosen: Sequence[Candidate], everybody: Sequence[Candidate], limits: Limits) -> int:
    names = {candidate.name for candidate in chosen}
    return limits.reach(
        chosen, (candidate for candidate in everybody if candidate.name not in names)
    )


def _needed(
    joining: Sequence[Candidate], stay: Sequence[Candidate], limits: Limits, out: dict[str, Reason]
) -> list[Candidate]:
    """Takes later groups, and clusters with avoided taints, only as far as the others cannot hold
    everything: the floor of each cluster that takes part is filled. The rest goes into `out`."""
    needed: list[Candidate] = []
    for _, group in itertools.groupby(sorted(joining, key=_place), key=_place):
        if limits.reach(stay, needed) >= limits.total:
            out.update((candidate.name, Reason.NOT_NEEDED) for candidate in group)
        else:
            needed += group
    return needed


def _joined(
    picker: "_Picker", stay: Sequence[Candidate], limits: Limits, *, sticky: bool
) -> tuple[list[Candidate], Reason]:
    """The clusters that join beside the holders: as many as may, and unless `sticky` as many more
    as are needed to place everything."""
    floor, count = limits.floor, len(picker)
    most = limits.slots(stay, count)
    beside, why = count, Reason.AT_MAXIMUM
    if floor > 0:
        # What holders have above their floor is not free for a newcomer, unless they must make way.
        spare = limits.total - sum(
            max(candidate.held, min(floor, candidate.cap)) for candidate in stay
        )
        beside = max(spare, 0) // floor
        if limits.most is None or beside < limits.most - len(stay):
            why = Reason.BELOW_MINIMUM
    joined: list[Candidate] = []
    room = sum(candidate.cap for candidate in stay)
    # Beyond `beside` a newcomer costs holders copies above their floor: only where that places more
    # copies in all.
    while len(joined) < most and (len(joined) < beside or (room < picker.goal and not sticky)):
        candidate = picker.next()
        joined.append(candidate)
        room += candidate.cap
    return joined, why


def _packed(
    picker: "_Picker", stay: Sequence[Candidate], limits: Limits, beyond: int
) -> tuple[list[Candidate], Reason]:
    """Per group, as many clusters as are needed for what the group's holders have no room for, and
    `beyond` more."""
    most = limits.slots(stay, len(picker))
    growth = limits.total - sum(min(candidate.held, candidate.cap) for candidate in stay)
    joined: list[Candidate] = []
    for place in sorted({*map(_place, stay), *picker.places()}):
        room = sum(
            candidate.cap - min(candidate.held, candidate.cap)
            for candidate in stay
            if _place(candidate) == place
        )
        # Room of the holders of this group first: Pack opens another cluster only when they are
        # full.
        while room < growth and len(joined) < most and place in picker.places():
            candidate = picker.next()
            joined.append(candidate)
            room += candidate.cap if _place(candidate) == place else 0
            growth -= candidate.cap if _place(candidate) != place else 0
        growth -= min(room, max(growth, 0))
    # Read before the clusters beyond are taken: these are for hard rules, not for want of room.
    enough = growth <= 0
    while beyond > 0 and len(joined) < most:
        joined.append(picker.next())
        beyond -= 1
    return joined, Reason.NOT_NEEDED if enough else limits.reason


class _Picker:
    """Picks the best cluster to join next, from the least used domains (earlier rules count more),
    but none that would lower the number of copies placed in the end."""

    def __init__(
        self, joining: Sequence[Candidate], stay: Sequence[Candidate], limits: Limits
    ) -> None:
        self.limits = limits
        self.chosen = list(stay)
        self.rest = sorted(
            joining, key=lambda candidate: (-candidate.cap, candidate.order, candidate.name)
        )
        self.goal = limits.reach(stay, joining)
        # Ranked once, since a choice changes only how crowded domains are, never a score.
        waiting = sorted(joining, key=_joins_first)
        self.rank = {candidate.name: at for at, candidate in enumerate(waiting)}
        self.queues: dict[tuple[tuple[int, bool], tuple[str, ...]], list[Candidate]] = {}
        for candidate in waiting:
            self.queues.setdefault((_place(candidate), candidate.place.domains), []).append(
                candidate
            )
        self.used: dict[tuple[int, str], int] = {}
        for candidate in stay:
            self._use(candidate)

    def __len__(self) -> int:
        return len(self.rest)

    def places(self) -> set[tuple[int, bool]]:
        return {place for place, _ in self.queues}

    def next(self) -> Candidate:
        """The next cluster; at least one must be left."""
        able = self._able()
        best: tuple[tuple[object, ...], Candidate] | None = None
        for (place, domains), queue in self.queues.items():
            candidate = next((candidate for candidate in queue if able(candidate)), None)
            if candidate is not None:
                # Groups and avoided taints before domains before scores: the order in
                # docs/reference/spread.md.
                key = (place, self._crowding(domains), self.rank[candidate.name])
                if best is None or key < best[0]:
                    best = (key, candidate)
        # If no choice keeps the goal in reach, the largest loses least of it.
        picked = best[1] if best is not None else self.rest[0]
        key_of = (_place(picked), picked.place.domains)
        self.queues[key_of].remove(picked)
        if not self.queues[key_of]:
            del self.queues[key_of]
        self.rest.remove(picked)
        self.chosen.append(picked)
        self._use(picked)
        return picked

    def _able(self) -> Callable[[Candidate], bool]:
        """Returns a test: whether everything that can be placed still can be after picking this
        cluster."""
        slots = self.limits.slots(self.chosen, len(self.rest))
        # All may join, so no choice keeps another one out.
        if slots >= len(self.rest):
            return lambda candidate: True
        room = sum(candidate.cap for candidate in self.chosen)
        others = self.rest[: max(slots - 1, 0)]
        # A cluster that is among the best anyway leaves its slot to the next one by size.
        last = self.rest[max(slots - 1, 0)].cap
        best = sum(other.cap for other in others)
        names = {other.name for other in others}

        def able(candidate: Candidate) -> bool:
            return room + best + (last if candidate.name in names else candidate.cap) >= self.goal

        return able

    def _use(self, candidate: Candidate) -> None:
        for key in enumerate(candidate.place.domains):
            self.used[key] = self.used.get(key, 0) + 1

    def _crowding(self, domains: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.used.get(key, 0) for key in enumerate(domains))


def _place(candidate: Candidate) -> tuple[int, bool]:
    return (candidate.place.level, bool(candidate.place.avoided))


def _stays_first(candidate: Candidate) -> tuple[int, int, int, int, str]:
    return (
        candidate.place.level,
        -candidate.held,
        -candidate.score,
        candidate.order,
        candidate.name,
    )


def _joins_first(candidate: Candidate) -> tuple[int, bool, int, int, int, str]:
    return (*_place(candidate), -candidate.score, -candidate.cap, candidate.order, candidate.name)
