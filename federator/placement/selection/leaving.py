"""Which copies leave: a running copy leaves a cluster only when the same decision gives it another
place.

People remove copies through the fields for that: the count, `exclude`, a NoExecute taint. No other
edit (of a policy, of labels, of a quota) takes a running copy away without a new place. After the
division, copies that lost their place without getting another one are given back to the cluster
where they run. Replicas move one by one. A job set leaves a cluster that its policy does not admit
as a whole, because a moved shard starts again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from federator.model import names
from federator.model.ask import Ask, Unit
from federator.model.decision import CAPS, Reason
from federator.model.fleet import Holding, copies_of
from federator.model.quickly import likewise
from federator.placement.division import division
from federator.placement.division.division import DIVIDERS
from federator.placement.selection import candidates
from federator.placement.selection.candidates import Candidate, Place

TURN: Final = "are still to move"
EVACUATION: Final = "/evacuation"
"""Stands among the names of Required policies for clusters that are being emptied at a pace: no
policy can have this name."""
OVERDUE: Final = "/overdue"
"""The same for clusters with a taint that the workload tolerated for a time that is over: their
copies have the pace of the workload's own policy, also where it is Lazy."""
AS_DUPLICATED: Final = "stay as strategy Duplicate placed them"


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many running copies an edit may move now, and when the others may follow, as the end of a
    sentence."""

    copies: int
    then: str = ""


Leave = Callable[[int, Mapping[str, int]], Allowance]
"""(copies to move because of an edit or an evacuation, how many of them each Required policy moves,
and how many the evacuation) -> how many may move now. Called at most once per decision."""


def leavers(
    ask: Ask, held: Mapping[str, Holding], eligible: Mapping[str, Place], *, by_name: bool
) -> list[Candidate]:
    """Clusters that run copies of the workload but no longer admit it, by name. They take part only
    as far as their copies have no other place."""
    leaving = [
        (place, copies)
        for name in sorted(held)
        if (place := eligible.get(name)) is not None
        and place.refusal is not None
        and place.refusal.moves
        and (copies := copies_of(held[name])) > 0
    ]
    if not leaving:
        return []
    # Behind all groups: copies stay in clusters of the policy's groups before they stay in one that
    # it does not admit.
    last, mine = len(ask.policy.division.groups), names.stable_order(ask.tie_break)
    return [
        Candidate(
            _behind(place, last),
            held=copies,
            # It takes nothing new, so what it holds is all that it can have.
            room=0,
            cap=copies,
            limit=Reason.NOT_SELECTED,
            weight=copies,
            order=candidates.tie_break(place, mine, by_name=by_name),
        )
        for place, copies in leaving
    ]


_behind = likewise(Place, "level")


def give_back(
    losers: Sequence[Candidate], got: Mapping[str, int], lacking: int, most: int
) -> dict[str, int]:
    """cluster -> copies that stay there on top of `got`, the division's result; at most `lacking`
    in all.

    `most` bounds what one cluster may hold: all copies, or the whole count for a workload that is
    everywhere. Clusters of earlier groups keep theirs first, clusters that a Required policy
    refuses last.
    """
    kept: dict[str, int] = {}
    if lacking <= 0:
        return kept
    losers = [loser for loser in losers if loser.held > got.get(loser.name, 0)]
    # A Required policy is stronger than a wish, so its clusters are emptied first.
    for loser in sorted(
        losers,
        key=lambda loser: (bool(by_force(loser)), loser.place.level, loser.order, loser.name),
    ):
        stays = min(min(loser.held, most) - got.get(loser.name, 0), lacking)
        if stays > 0:
            kept[loser.name] = stays
            lacking -= stays
    return kept


def enough(waiting: Sequence[Candidate], lacking: int) -> list[Candidate]:
    """As few clusters as hold `lacking` copies, the largest first, so that few stay where they may
    not."""
    taken: list[Candidate] = []
    # The largest first keeps copies in as few forbidden clusters as possible.
    for candidate in sorted(
        waiting,
        key=lambda candidate: (
            bool(by_force(candidate)),
            -candidate.held,
            candidate.order,
            candidate.name,
        ),
    ):
        if lacking <= 0:
            break
        taken.append(candidate)
        lacking -= candidate.held
    return taken


def moving(ask: Ask, taking: Sequence[Candidate], got: Mapping[str, int]) -> int:
    """Copies that a division (`got`) moves because of an edit of the policy or of labels, or out of
    clusters that are being emptied. Copies that leave because the count shrank, or a scheduler
    could not bind them, do not count."""
    losses = sum(
        max(min(candidate.held, ask.count) - got.get(candidate.name, 0), 0)
        for candidate in taking
        if edited(candidate)
    )
    if everywhere(ask):
        return losses
    # A smaller count takes copies away without giving them another place: these are no moves.
    fewer = sum(candidate.held for candidate in taking) - sum(got.values())
    return max(losses - max(fewer, 0), 0)


def waiting(going: Sequence[Candidate], allowed: int) -> list[Candidate]:
    """The clusters that must wait with their shards when `allowed` slots may move now. Clusters
    that a Required policy refuses go first, then the smallest; the first goes whole whenever any
    may."""
    stay: list[Candidate] = []
    # The smallest first: of job sets that restart as a whole, the cheapest moves are made first.
    for candidate in sorted(
        going,
        key=lambda candidate: (
            not by_force(candidate),
            candidate.held,
            candidate.order,
            candidate.name,
        ),
    ):
        # Checked before the clusters are subtracted, so that the first goes even where it is larger
        # than the budget; otherwise it never would.
        if allowed <= 0:
            candidate.waits = TURN
            stay.append(candidate)
        allowed -= candidate.held
    return stay


def back_to_runners(
    ask: Ask, taking: Sequence[Candidate], got: Mapping[str, int], surplus: int
) -> dict[str, int]:
    """The division with `surplus` copies left where they run instead of moved."""
    stay = give_back(
        [candidate for candidate in taking if edited(candidate)], got, surplus, ask.count
    )
    for candidate in taking:
        candidate.waits = TURN if candidate.name in stay else candidate.waits
    divided = got if everywhere(ask) else without_growth(taking, got, sum(stay.values()))
    both = {
        candidate.name: divided.get(candidate.name, 0) + stay.get(candidate.name, 0)
        for candidate in taking
    }
    return {name: copies for name, copies in both.items() if copies > 0}


def without_growth(
    taking: Sequence[Candidate], got: Mapping[str, int], surplus: int
) -> dict[str, int]:
    """The division with `surplus` fewer copies: taken from growth first and from what a scheduler
    could not bind, then from other held copies."""
    parties = [
        replace(
            candidate.party(0, fresh=True, holders_first=False), seats=got.get(candidate.name, 0)
        )
        for candidate in taking
    ]
    for candidate, party in zip(taking, parties, strict=True):
        # Copies that a scheduler could not bind do not run, so they may go before those that do.
        bound = candidate.cap if candidate.limit in CAPS else candidate.held
        party.floor = min(candidate.held, bound, party.seats)
    division.shrink(parties, surplus)
    return {party.name: party.seats for party in parties if party.seats > 0}


def by_force(candidate: Candidate) -> str:
    """The Required policy that makes copies leave the cluster, or that it is being emptied, or that
    a taint is tolerated no longer; "" for none of these."""
    if candidate.place.refusal is not None and candidate.place.refusal.overdue:
        return OVERDUE
    if candidate.place.refusal is not None:
        return EVACUATION if candidate.place.refusal.paced else candidate.place.refusal.enforced
    return candidate.enforced if candidate.limit is Reason.AT_MAXIMUM else ""


def forced(
    ask: Ask, taking: Sequence[Candidate], got: Mapping[str, int], moving: int
) -> dict[str, int]:
    """How many of `moving` copies each Required policy moves, by its name, and the evacuation."""
    by_policy: dict[str, int] = {}
    # In the order of names, so that the same copies are charged to the same policy every time.
    for candidate in taking:
        if edited(candidate) and (name := by_force(candidate)):
            lost = min(max(min(candidate.held, ask.count) - got.get(candidate.name, 0), 0), moving)
            moving -= lost
            by_policy[name] = by_policy.get(name, 0) + lost
    return {name: copies for name, copies in by_policy.items() if copies}


def edited(candidate: Candidate) -> bool:
    """Whether copies leave the cluster because of an edit of a policy or of labels, or because it
    is being emptied, and not because it has a taint or could not schedule them."""
    refusal = candidate.place.refusal
    # A taint says itself when copies leave, so the budget of edits does not apply.
    tainted = refusal is not None and refusal.reason is Reason.TAINTED and not refusal.overdue
    return not (tainted or candidate.limit in CAPS)


def as_duplicated(ask: Ask, taking: Sequence[Candidate], per_cluster: int) -> dict[str, int]:
    """cluster -> copies that stay because strategy Duplicate placed them, although the policy no
    longer says so. The count then means something else, but was not changed itself (`per_cluster`).

    {} when no more copies than the count would stay: then they are divided as usual. A cluster that
    is being removed keeps none for this reason.
    """
    # Another count is a person's word on how many there are to be: then they are divided.
    if everywhere(ask) or ask.unit is not Unit.REPLICAS or per_cluster != ask.count:
        return {}
    stays = {
        candidate.name: min(candidate.held, ask.count)
        for candidate in taking
        if candidate.held > 0 and not candidate.place.view.removing
    }
    return stays if sum(stays.values()) > ask.count else {}


def everywhere(ask: Ask) -> bool:
    """Whether each cluster is to have the whole count, so that one cluster's copies cannot move to
    another."""
    return ask.unit is Unit.REPLICAS and DIVIDERS[ask.policy.division.strategy].everywhere
