"""Which clusters take part when not all can or need to: a step of its own before dividing, and a sticky one.

The order of objectives is that of the whole engine: first as many copies as can be placed, then earlier groups, then
clusters without avoided taints, then different domains, then who holds copies, then the score. Clusters that hold
copies stay (the largest holders when the policy allows fewer than hold), unless without one of them more copies could
be placed; new ones join as far as minPerCluster, maxClusters and the strategy let them.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from federator.model.ask import Division
from federator.model.decision import Reason
from federator.placement.division.division import DIVIDERS
from federator.placement.selection.candidates import Candidate


def choose(
    found: Sequence[Candidate],
    total: int,
    division: Division,
    *,
    fresh: bool,
    strict: bool = False,
    beyond: int = 0,
    sticky: bool = False,
) -> dict[str, Reason]:
    """The clusters that are left out, with the reason; all others take part.

    `strict`: hard spread rules may keep room from being used, so that later groups are needed although earlier ones
    have room. `beyond`: so many more than the fewest that have room, where a strategy wants few. `sticky`: who holds
    copies stays even where more could be placed without it.
    """
    limits = Limits(total, max(division.min_per_cluster, 0), division.max_clusters)
    fewest = DIVIDERS[division.strategy].fewest
    out: dict[str, Reason] = {}
    if limits.floor == 0 and limits.most is None and not fewest:
        return out
    holders = [] if fresh else sorted((one for one in found if one.held > 0 and one.cap > 0), key=_stays_first)
    holding = {one.name for one in holders}
    joining: list[Candidate] = []
    for one in found:
        if one.name in holding or one.cap <= 0 or one.weight <= 0:
            continue
        if one.cap < limits.floor:
            out[one.name] = Reason.BELOW_MINIMUM
        else:
            joining.append(one)
    stay = _staying(holders, joining, limits, sticky=sticky)
    out.update((one.name, limits.reason) for one in holders if one not in stay)
    if limits.floor > 0 and not strict:
        joining = _needed(joining, stay, limits, out)
    picker = _Picker(joining, stay, limits)
    joined, why = _packed(picker, stay, limits, beyond) if fewest else _joined(picker, stay, limits, sticky=sticky)
    chosen = {one.name for one in joined}
    out.update((one.name, why) for one in joining if one.name not in chosen)
    return out


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a choice: copies to place, the least that each cluster must get, the most clusters."""

    total: int
    floor: int
    most: int | None

    @property
    def reason(self) -> Reason:
        """Why a cluster is out when a limit leaves it out."""
        return Reason.BELOW_MINIMUM if self.most is None else Reason.AT_MAXIMUM

    def slots(self, chosen: Sequence[Candidate], others: int) -> int:
        """How many of `others` clusters may join those chosen."""
        slots = others if self.most is None else min(self.most - len(chosen), others)
        if self.floor > 0:
            spare = self.total - sum(min(self.floor, one.cap) for one in chosen)
            slots = min(slots, spare // self.floor)
        return max(slots, 0)

    def reach(self, chosen: Sequence[Candidate], others: Iterable[Candidate]) -> int:
        """The most copies that can be placed by those chosen and the best of the others."""
        caps = sorted((one.cap for one in others), reverse=True)
        best = sum(one.cap for one in chosen) + sum(caps[: self.slots(chosen, len(caps))])
        return min(best, self.total)


def _staying(
    holders: Sequence[Candidate], joining: Sequence[Candidate], limits: Limits, *, sticky: bool
) -> list[Candidate]:
    """The holders that stay: as many as may, without placing fewer copies for it."""
    stay = list(holders if limits.most is None else holders[: max(limits.most, 0)])
    everybody = [*holders, *joining]
    goal = limits.reach((), everybody)
    if sticky or _reach_with(stay, everybody, limits) >= goal:
        return stay
    stay = []
    for one in holders:
        if limits.most is not None and len(stay) >= limits.most:
            break
        if _reach_with([*stay, one], everybody, limits) >= goal:
            stay.append(one)
    return stay


def _reach_with(chosen: Sequence[Candidate], everybody: Sequence[Candidate], limits: Limits) -> int:
    names = {one.name for one in chosen}
    return limits.reach(chosen, (one for one in everybody if one.name not in names))


def _needed(
    joining: Sequence[Candidate], stay: Sequence[Candidate], limits: Limits, out: dict[str, Reason]
) -> list[Candidate]:
    """Those of later groups, and with avoided taints, take part only as far as the others cannot hold everything: the
    floor of everybody who takes part is filled. The rest goes into `out`."""
    needed: list[Candidate] = []
    for _, group in itertools.groupby(sorted(joining, key=_place), key=_place):
        if limits.reach(stay, needed) >= limits.total:
            out.update((one.name, Reason.NOT_NEEDED) for one in group)
        else:
            needed += group
    return needed


def _joined(
    picker: "_Picker", stay: Sequence[Candidate], limits: Limits, *, sticky: bool
) -> tuple[list[Candidate], Reason]:
    """As many as may join beside what is held, and unless `sticky` as many more as are needed to place everything."""
    floor, count = limits.floor, len(picker)
    most = limits.slots(stay, count)
    beside, why = count, Reason.AT_MAXIMUM
    if floor > 0:
        spare = limits.total - sum(max(one.held, min(floor, one.cap)) for one in stay)
        beside = max(spare, 0) // floor
        if limits.most is None or beside < limits.most - len(stay):
            why = Reason.BELOW_MINIMUM
    joined: list[Candidate] = []
    room = sum(one.cap for one in stay)
    while len(joined) < most and (len(joined) < beside or (room < picker.goal and not sticky)):
        one = picker.next()
        joined.append(one)
        room += one.cap
    return joined, why


def _packed(
    picker: "_Picker", stay: Sequence[Candidate], limits: Limits, beyond: int
) -> tuple[list[Candidate], Reason]:
    """Group after group, as many as are needed to hold what the group's holders have no room for, and `beyond` more."""
    most = limits.slots(stay, len(picker))
    growth = limits.total - sum(min(one.held, one.cap) for one in stay)
    joined: list[Candidate] = []
    for place in sorted({*map(_place, stay), *picker.places()}):
        room = sum(one.cap - min(one.held, one.cap) for one in stay if _place(one) == place)
        while room < growth and len(joined) < most and place in picker.places():
            one = picker.next()
            joined.append(one)
            room += one.cap if _place(one) == place else 0
            growth -= one.cap if _place(one) != place else 0
        growth -= min(room, max(growth, 0))
    enough = growth <= 0
    while beyond > 0 and len(joined) < most:
        joined.append(picker.next())
        beyond -= 1
    return joined, Reason.NOT_NEEDED if enough else limits.reason


class _Picker:
    """Gives the best cluster to join next, from the domains least used so far (earlier rules count more), but none with
    which fewer copies could be placed in the end."""

    def __init__(self, joining: Sequence[Candidate], stay: Sequence[Candidate], limits: Limits) -> None:
        self.limits = limits
        self.chosen = list(stay)
        self.rest = sorted(joining, key=lambda one: (-one.cap, one.order, one.name))
        self.goal = limits.reach(stay, joining)
        waiting = sorted(joining, key=_joins_first)
        self.rank = {one.name: at for at, one in enumerate(waiting)}
        self.queues: dict[tuple[tuple[int, bool], tuple[str, ...]], list[Candidate]] = {}
        for one in waiting:
            self.queues.setdefault((_place(one), one.place.domains), []).append(one)
        self.used: dict[tuple[int, str], int] = {}
        for one in stay:
            self._use(one)

    def __len__(self) -> int:
        return len(self.rest)

    def places(self) -> set[tuple[int, bool]]:
        return {place for place, _ in self.queues}

    def next(self) -> Candidate:
        """The next one; there must be one left."""
        able = self._able()
        best: tuple[tuple[object, ...], Candidate] | None = None
        for (place, domains), queue in self.queues.items():
            one = next((one for one in queue if able(one)), None)
            if one is not None:
                key = (place, self._crowding(domains), self.rank[one.name])
                if best is None or key < best[0]:
                    best = (key, one)
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
        """Judges whether with this one everything that can be placed still can be."""
        slots = self.limits.slots(self.chosen, len(self.rest))
        if slots >= len(self.rest):
            return lambda one: True
        room = sum(one.cap for one in self.chosen)
        others = self.rest[: max(slots - 1, 0)]
        last = self.rest[max(slots - 1, 0)].cap
        best = sum(one.cap for one in others)
        names = {one.name for one in others}

        def able(one: Candidate) -> bool:
            return room + best + (last if one.name in names else one.cap) >= self.goal

        return able

    def _use(self, one: Candidate) -> None:
        for key in enumerate(one.place.domains):
            self.used[key] = self.used.get(key, 0) + 1

    def _crowding(self, domains: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.used.get(key, 0) for key in enumerate(domains))


def _place(one: Candidate) -> tuple[int, bool]:
    return (one.place.level, bool(one.place.avoided))


def _stays_first(one: Candidate) -> tuple[int, int, int, int, str]:
    return (one.place.level, -one.held, -one.score, one.order, one.name)


def _joins_first(one: Candidate) -> tuple[int, bool, int, int, int, str]:
    return (*_place(one), -one.score, -one.cap, one.order, one.name)
