"""Division against the recorded cases of two older planners, where our rules agree; every case left
out says why.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from federator.model.policy import Strategy
from federator.placement.division import division
from federator.placement.division.division import DIVIDERS, Party
from tests import casetables

UNKNOWN_ROOM = 10**9

WHOLE_OR_NOTHING = "the peer refuses the whole workload; we place what fits and report the rest"
BY_FREE_ALONE = (
    "the peer weighs a growth by free room alone, not house-monotone; we continue Webster over "
    "free + held"
)
HOLDERS_FIRST = (
    "the peer divides a growth over old and new clusters; ours fills the clusters that hold "
    "copies first"
)
KARMADA_LEFT_OUT = {
    "dynamic-weight-scale-up-026": BY_FREE_ALONE,
    "aggregated-scale-up-030": HOLDERS_FIRST,
    "aggregated-scale-up-033": HOLDERS_FIRST,
}


def karmada_parties(given: Mapping[str, Any], strategy: Mapping[str, Any]) -> list[Party]:
    held = {one["cluster"]: one["replicas"] for one in given["previous"]}
    parties = []
    for candidate in given["candidates"]:
        name = candidate["name"]
        seats = held.get(name, 0)
        if "allocatableReplicas" in candidate:
            cap = weight = candidate["allocatableReplicas"] + seats
        else:
            weights = (
                [
                    one["weight"]
                    for one in strategy.get("staticWeights", [])
                    if name in one["clusters"]
                ]
                if "staticWeights" in strategy
                else [1]
            )
            cap, weight = UNKNOWN_ROOM, max(weights, default=0)
        parties.append(Party(name, weight, cap, seats=seats))
    return parties


def fewest(parties: list[Party], total: int) -> list[Party]:
    """What `choosing` does for Pack: holders, then the largest until there is room for all."""
    chosen = [party for party in parties if party.seats]
    room = sum(party.cap for party in chosen)
    for party in sorted(
        (one for one in parties if not one.seats), key=lambda one: (-one.cap, one.name)
    ):
        if room < total:
            party.level = int(any(one.seats for one in chosen))
            chosen.append(party)
            room += party.cap
    return chosen


def karmada(given: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    if "weights" in given:
        parties = {
            one["cluster"]: Party(one["cluster"], one["weight"], UNKNOWN_ROOM)
            for one in given["weights"]
        }
        for one in given["initial"]:
            parties.setdefault(one["cluster"], Party(one["cluster"], 0, UNKNOWN_ROOM)).seats = one[
                "replicas"
            ]
        if given["tieBreak"] == "name descending":
            for rank, name in enumerate(sorted(parties, reverse=True)):
                parties[name].order = rank
        held = sum(party.seats for party in parties.values())
        missing = division.divide(list(parties.values()), held + given["newReplicas"])
        return {name: party.seats for name, party in parties.items()}, missing
    strategy, total = given["strategy"], given["replicas"]
    parties_ = karmada_parties(given, strategy)
    if strategy["preference"] == "Aggregated":
        if sum(party.seats for party in parties_) > total:
            division.consolidate(parties_, total)
            return {party.name: party.seats for party in parties_}, 0
        parties_ = fewest(parties_, total)
    missing = division.divide(parties_, total)
    return {party.name: party.seats for party in parties_}, missing


def nonzero(seats: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in seats.items() if count}


def test_every_karmada_case_holds_but_for_those_named() -> None:
    wrong = []
    for case in casetables.cases("karmada_division"):
        got, missing = karmada(case["input"])
        if case["expected"]["error"]:
            if not missing:
                wrong.append(f"{case['name']}: everything was placed ({WHOLE_OR_NOTHING})")
            continue
        expected = {one["cluster"]: one["replicas"] for one in case["expected"]["assignment"] or []}
        if (nonzero(got) != nonzero(expected)) != (case["name"] in KARMADA_LEFT_OUT):
            wrong.append(f"{case['name']}: {got} instead of {expected}")
    assert not wrong, "\n".join(wrong)


def kubefed_party(name: str, given: Mapping[str, Any]) -> Party:
    wanted = (
        given["preferences"].get(name) or given["preferences"].get("*") or {"weight": 0, "max": 0}
    )
    cap = min(wanted.get("max", UNKNOWN_ROOM), given["capacity"].get(name, UNKNOWN_ROOM))
    seats = 0 if given["rebalance"] else given["current"].get(name, 0)
    weight = wanted.get("weight", 0)
    if not weight and not wanted.get("min"):
        cap = 0
    return Party(name, weight, cap, wanted.get("min", 0), seats)


def test_every_kubefed_case_holds() -> None:
    wrong = []
    for case in casetables.cases("kubefed_planner"):
        given = case["input"]
        parties = [kubefed_party(name, given) for name in given["clusters"]]
        division.divide(parties, given["totalReplicas"])
        got = {party.name: party.seats for party in parties}
        legal = [
            case["expected"]["plan"],
            *(one["plan"] for one in case["expected"].get("anyOf", [])),
        ]
        if got not in legal:
            wrong.append(f"{case['name']}: {got} instead of {legal}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_has_a_divider(strategy: Strategy) -> None:
    assert strategy in DIVIDERS
