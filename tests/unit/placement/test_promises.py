"""What docs/reference/spread.md promises, on random small fleets, judged by a checker that is no
part of the engine.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from federator.model.policy import SpreadRule, Strategy
from tests.unit.placement import checker
from tests.unit.placement.checker import Case, Spot


@st.composite
def cases(draw: st.DrawFn, *, held: bool = False) -> Case:
    def pick(choices: Sequence[Any]) -> Any:
        return draw(st.sampled_from(choices))

    case = checker.drawn(pick)
    assume(not checker.contradictory(case))
    return checker.with_holdings(case, pick) if held else case


@given(cases())
def test_hard_bounds_are_kept_and_nothing_soft_costs_a_placement(case: Case) -> None:
    assert checker.breaches(case) == []


@given(cases(held=True))
def test_beside_what_is_held_hard_rules_bind_what_is_given(case: Case) -> None:
    assert checker.breaches_of_growth(case) == []


@given(cases())
def test_more_room_or_a_looser_policy_never_places_less(case: Case) -> None:
    assert checker.breaches_of_order(case) == []


@given(cases())
def test_one_copy_more_takes_none_away(case: Case) -> None:
    assert checker.takes_away(case) == []


HARD = SpreadRule("zone", 1, 1, hard=True)
TWO = (Spot("a", 5), Spot("b", 5, zone="z2"))


def test_the_checker_finds_what_it_is_for() -> None:
    assert checker.admissible(Case(TWO, 5, (HARD,)), {"a": 3, "b": 1}) == "maxSkew of zone"
    assert checker.admissible(Case(TWO, 5, most_clusters=1), {"a": 3, "b": 1}) == "maxClusters"
    assert checker.admissible(Case(TWO, 5, floor=2), {"a": 3, "b": 1}) == "minPerCluster"
    assert checker.admissible(Case(TWO, 5), {"a": 6}) == "room, weight or maxPerCluster"
    wants_two = SpreadRule("zone", 2, 0, hard=True)
    assert checker.admissible(Case(TWO, 5, (wants_two,)), {"a": 5, "b": 0}) == "minDomains of zone"
    assert max(sum(got.values()) for got in checker.divisions(Case(TWO, 9, (HARD,)))) == 9
    weightless = Case((*TWO, Spot("c", 5, zone="z3", weight=0)), 8, (HARD,), Strategy.WEIGHTED)
    assert checker.domains(weightless, HARD, {}) == {"z1": 0, "z2": 0}
