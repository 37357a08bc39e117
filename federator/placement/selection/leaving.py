"""Who leaves: a copy that runs leaves a cluster only when it has somewhere to be in the same decision.

A person may take copies away in the field that says so: the count itself, `exclude`, a NoExecute taint. No other edit
(of a policy, of labels, of a quota) takes a running copy to nowhere. After the division, what lost its place without
getting another one is given back to the cluster where it runs. Replicas leave one by one. A job set leaves a cluster
that its policy does not admit as a whole, because a shard that moves starts again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from federator.model import names
from federator.model.ask import Ask, Unit
from federator.model.decision import Reason
from federator.model.fleet import Holding, copies_of
from federator.placement.division import division
from federator.placement.division.division import DIVIDERS
from federator.placement.selection import candidates
from federator.placement.selection.candidates import Candidate, Place

TURN: Final = "are still to move"
AS_DUPLICATED: Final = "stay as strategy Duplicate placed them"


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many running copies an edit may move now, and when the others may follow, as the end of a sentence."""

    copies: int
    then: str = ""


Leave = Callable[[int, Mapping[str, int]], Allowance]
"""So many copies are to move because of an edit, and so many of them by the word of each Required policy -> how many of
them may, now. Asked at most once in a decision."""


def leavers(ask: Ask, held: Mapping[str, Holding], eligible: Mapping[str, Place], *, by_name: bool) -> list[Candidate]:
    """Clusters that run copies of the workload and are not admitted any more, by name. They take part only as far as
    what they run has no other place."""
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
    last, mine = len(ask.policy.division.groups), names.stable_order(ask.uid)
    return [
        Candidate(
            replace(place, level=last),
            held=copies,
            room=0,
            cap=copies,
            limit=Reason.NOT_SELECTED,
            weight=copies,
            order=candidates.tie_break(place, mine, by_name=by_name),
        )
        for place, copies in leaving
    ]


def give_back(losers: Sequence[Candidate], got: Mapping[str, int], lacking: int, most: int) -> dict[str, int]:
    """cluster -> copies that stay there beyond what the division gave it (`got`), `lacking` at most in all.

    `most` bounds what one cluster may hold: all copies, or for a workload that is everywhere its whole count. Where a
    Required policy does not admit them they stay last; clusters of earlier groups keep theirs first.
    """
    kept: dict[str, int] = {}
    if lacking <= 0:
        return kept
    losers = [loser for loser in losers if loser.held > got.get(loser.name, 0)]
    for loser in sorted(losers, key=lambda loser: (bool(by_force(loser)), loser.place.level, loser.order, loser.name)):
        stays = min(min(loser.held, most) - got.get(loser.name, 0), lacking)
        if stays > 0:
            kept[loser.name] = stays
            lacking -= stays
    return kept


def enough(waiting: Sequence[Candidate], lacking: int) -> list[Candidate]:
    """As few of the clusters as hold `lacking` copies: the largest first, so that few stay where they may not."""
    taken: list[Candidate] = []
    for candidate in sorted(
        waiting, key=lambda candidate: (bool(by_force(candidate)), -candidate.held, candidate.order, candidate.name)
    ):
        if lacking <= 0:
            break
        taken.append(candidate)
        lacking -= candidate.held
    return taken


def moving(ask: Ask, taking: Sequence[Candidate], got: Mapping[str, int]) -> int:
    """Copies that a division (`got`) takes from where they run because of an edit of the policy or of labels. What
    leaves because fewer are wanted, because a scheduler could not bind it, or because its cluster is being removed, is
    not counted."""
    losses = sum(
        max(min(candidate.held, ask.count) - got.get(candidate.name, 0), 0) for candidate in taking if edited(candidate)
    )
    if everywhere(ask):
        return losses
    fewer = sum(candidate.held for candidate in taking) - sum(got.values())
    return max(losses - max(fewer, 0), 0)


def waiting(going: Sequence[Candidate], allowed: int) -> list[Candidate]:
    """The clusters that must wait with their shards, when `allowed` slots may move now: those that a Required policy
    does not admit go first, then the smallest, and the first one goes whole whenever any may."""
    stay: list[Candidate] = []
    for candidate in sorted(
        going, key=lambda candidate: (not by_force(candidate), candidate.held, candidate.order, candidate.name)
    ):
        if allowed <= 0:
            candidate.waits = TURN
            stay.append(candidate)
        allowed -= candidate.held
    return stay


def back_to_runners(ask: Ask, taking: Sequence[Candidate], got: Mapping[str, int], surplus: int) -> dict[str, int]:
    """The division with `surplus` copies left where they run, instead of where they would have gone."""
    stay = give_back([candidate for candidate in taking if edited(candidate)], got, surplus, ask.count)
    for candidate in taking:
        candidate.waits = TURN if candidate.name in stay else candidate.waits
    divided = got if everywhere(ask) else without_growth(taking, got, sum(stay.values()))
    both = {candidate.name: divided.get(candidate.name, 0) + stay.get(candidate.name, 0) for candidate in taking}
    return {name: copies for name, copies in both.items() if copies > 0}


def without_growth(taking: Sequence[Candidate], got: Mapping[str, int], surplus: int) -> dict[str, int]:
    """The division with `surplus` copies less: where it grows as far as that goes, then where it holds."""
    parties = [
        replace(candidate.party(0, fresh=True, holders_first=False), seats=got.get(candidate.name, 0))
        for candidate in taking
    ]
    for candidate, party in zip(taking, parties, strict=True):
        party.floor = min(candidate.held, party.seats)
    division.shrink(parties, surplus)
    return {party.name: party.seats for party in parties if party.seats > 0}


def by_force(candidate: Candidate) -> str:
    """The Required policy by whose word copies leave the cluster; "" where that is not so."""
    if candidate.place.refusal is not None:
        return candidate.place.refusal.enforced
    return candidate.enforced if candidate.limit is Reason.AT_MAXIMUM else ""


def forced(ask: Ask, taking: Sequence[Candidate], got: Mapping[str, int], moving: int) -> dict[str, int]:
    """Of `moving` copies, how many move by the word of each Required policy, by its name."""
    by_policy: dict[str, int] = {}
    for candidate in taking:
        if edited(candidate) and (name := by_force(candidate)):
            lost = min(max(min(candidate.held, ask.count) - got.get(candidate.name, 0), 0), moving)
            moving -= lost
            by_policy[name] = by_policy.get(name, 0) + lost
    return {name: copies for name, copies in by_policy.items() if copies}


def edited(candidate: Candidate) -> bool:
    """Whether what leaves the cluster does so for an edit of a policy or of labels: not because it is being removed,
    has a taint, or could not schedule it."""
    refusal = candidate.place.refusal
    tainted = refusal is not None and refusal.reason is Reason.TAINTED
    return not (candidate.place.view.removing or tainted or candidate.limit is Reason.UNSCHEDULABLE)


def as_duplicated(ask: Ask, taking: Sequence[Candidate], per_cluster: int) -> dict[str, int]:
    """cluster -> copies that stay because strategy Duplicate placed them, which is no longer in force: the policy was
    edited, or is gone, and with it what the count means, but nobody changed the count (`per_cluster` then).

    {} when no more copies than the count would stay: then they are divided like any others. A cluster that is being
    removed keeps none for this.
    """
    if everywhere(ask) or ask.unit is not Unit.REPLICAS or per_cluster != ask.count:
        return {}
    stays = {
        candidate.name: min(candidate.held, ask.count)
        for candidate in taking
        if candidate.held > 0 and not candidate.place.view.removing
    }
    return stays if sum(stays.values()) > ask.count else {}


def everywhere(ask: Ask) -> bool:
    """Whether each cluster is to have all copies, so that one cluster's copies are no place for another's."""
    return ask.unit is Unit.REPLICAS and DIVIDERS[ask.policy.division.strategy].everywhere
