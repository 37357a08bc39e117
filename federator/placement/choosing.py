"""Which clusters take part when not all can or need to: a step of its own before dividing, and a sticky one.

Clusters that hold copies stay (the largest holders when the policy allows fewer than hold); new ones join only as far
as minPerCluster, maxClusters and the strategy let them, different domains first, then by score.
"""

import itertools
from collections.abc import Sequence

from federator.model.ask import Division
from federator.model.decision import Reason
from federator.placement.candidates import Candidate
from federator.placement.division import DIVIDERS


def choose(
    found: Sequence[Candidate], total: int, division: Division, *, fresh: bool, strict: bool = False, beyond: int = 0
) -> dict[str, Reason]:
    """The clusters that are left out, with the reason; all others take part.

    `strict`: hard spread rules may keep room from being used, so that later groups are needed although earlier ones
    have room. `beyond`: so many more than the fewest that have room, where a strategy wants few.
    """
    out: dict[str, Reason] = {}
    floor = max(division.min_per_cluster, 0)
    if floor == 0 and division.max_clusters is None and not DIVIDERS[division.strategy].fewest:
        return out
    stay = [] if fresh else sorted((one for one in found if one.held > 0 and one.cap > 0), key=_stays_first)
    most = division.max_clusters if division.max_clusters is not None else len(found)
    for one in stay[max(most, 0) :]:
        out[one.name] = Reason.AT_MAXIMUM
    stay = stay[: max(most, 0)]
    staying = {one.name for one in stay}
    joining: list[Candidate] = []
    for one in found:
        if one.name in out or one.name in staying:
            continue
        if one.cap <= 0 or one.weight <= 0:
            continue
        if one.cap < floor:
            out[one.name] = Reason.BELOW_MINIMUM
        else:
            joining.append(one)
    if floor > 0 and not strict:
        joining = _needed(joining, stay, total, out)
    spare = total - sum(max(one.held, min(floor, one.cap)) for one in stay)
    places, why = max(most - len(stay), 0), Reason.AT_MAXIMUM
    if floor > 0 and max(spare, 0) // floor < places:
        places, why = max(spare, 0) // floor, Reason.BELOW_MINIMUM
    joined = _pick(joining, stay, places)
    if DIVIDERS[division.strategy].fewest:
        joined, enough = _fewest(joined, stay, total, beyond)
        why = Reason.NOT_NEEDED if enough else why
    chosen = {one.name for one in joined}
    for one in joining:
        if one.name not in chosen:
            out[one.name] = why
    return out


def _needed(
    joining: Sequence[Candidate], stay: Sequence[Candidate], total: int, out: dict[str, Reason]
) -> list[Candidate]:
    """Those of later groups, and with avoided taints, take part only as far as the others have no room: the floor of
    everybody who takes part is filled. The rest goes into `out`."""
    room, needed = sum(one.cap for one in stay), []
    for _, group in itertools.groupby(sorted(joining, key=_place), key=_place):
        members = list(group)
        if room >= total:
            out.update((one.name, Reason.NOT_NEEDED) for one in members)
            continue
        room += sum(one.cap for one in members)
        needed += members
    return needed


def _place(one: Candidate) -> tuple[int, bool]:
    return (one.place.level, bool(one.place.avoided))


def _stays_first(one: Candidate) -> tuple[int, int, int, int, str]:
    return (one.place.level, -one.held, -one.score, one.order, one.name)


def _joins_first(one: Candidate) -> tuple[int, bool, int, int, int, str]:
    return (*_place(one), -one.score, -one.cap, one.order, one.name)


def _pick(joining: Sequence[Candidate], stay: Sequence[Candidate], places: int) -> list[Candidate]:
    """The best `places`, each next one from the domains least used so far (earlier rules count more)."""
    waiting = sorted(joining, key=_joins_first)
    if places >= len(waiting) or not any(one.place.domains for one in waiting):
        return waiting[:places]
    used: dict[tuple[int, str], int] = {}
    for one in stay:
        _use(used, one)
    queues: dict[tuple[int, tuple[str, ...]], list[Candidate]] = {}
    for one in reversed(waiting):
        queues.setdefault((one.place.level, one.place.domains), []).append(one)
    rank = {one.name: at for at, one in enumerate(waiting)}
    picked: list[Candidate] = []
    while queues and len(picked) < places:
        best = min(queues, key=lambda key: (key[0], _crowding(used, key[1]), rank[queues[key][-1].name]))
        picked.append(queues[best].pop())
        if not queues[best]:
            del queues[best]
        _use(used, picked[-1])
    return picked


def _use(used: dict[tuple[int, str], int], one: Candidate) -> None:
    for key in enumerate(one.place.domains):
        used[key] = used.get(key, 0) + 1


def _crowding(used: dict[tuple[int, str], int], domains: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(used.get(key, 0) for key in enumerate(domains))


def _fewest(
    picked: list[Candidate], stay: Sequence[Candidate], total: int, beyond: int
) -> tuple[list[Candidate], bool]:
    """As many as are needed to hold everything and `beyond` more, in the order picked; and whether they do."""
    room = sum(one.cap for one in stay)
    for index, one in enumerate(picked):
        if room >= total:
            return picked[: index + beyond], True
        room += one.cap
    return picked, room >= total
