"""How many copies of a workload may leave at once by its own disruption budget."""

from hypothesis import given
from hypothesis import strategies as st

from federator.model.ask import Disruptions
from federator.scheduling.admission import budgets
from tests.unit.placement.fleets import held

CLUSTERS = ("a", "b", "c")
shares = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(1, 20), min_size=1)
rules = st.one_of(
    st.builds(Disruptions, copies=st.integers(0, 6)),
    st.builds(Disruptions, percent=st.integers(0, 120)),
)


@given(shares, rules)
def test_within_a_minute_no_cluster_loses_more_than_its_budget(
    before: dict[str, int], budget: Disruptions
) -> None:
    """Though it is asked again after everything that left. Of a budget of 0 one leaves in all."""
    now, gone = dict(before), dict[str, int]()
    for _ in range(4):
        most = budgets.allowed(held(**now), budget, gone)
        left = budgets.spread(most, 2)
        assert all(copies <= most[name] for name, copies in left.items())
        for name, copies in left.items():
            now[name] -= copies
            gone[name] = gone.get(name, 0) + copies
        now = {name: copies for name, copies in now.items() if copies}
    assert gone, "something leaves in every minute"
    over = {name for name, copies in gone.items() if copies > budget.of(before[name])}
    if any(budget.of(copies) for copies in before.values()):
        assert not over
    else:
        assert sum(gone.values()) == 1


@given(shares, rules)
def test_what_may_leave_and_what_is_kept_is_all_there_is(
    there: dict[str, int], budget: Disruptions
) -> None:
    most = budgets.allowed(held(**there), budget, {})
    kept = budgets.kept(most, there)
    assert {name: most.get(name, 0) + kept.get(name, 0) for name in there} == there


def test_percent_is_rounded_up_as_for_a_pod_disruption_budget() -> None:
    assert [Disruptions(percent=25).of(share) for share in (1, 4, 5, 100)] == [1, 1, 2, 25]


def test_copies_leave_where_most_may() -> None:
    assert budgets.spread({"a": 1, "b": 3}, 3) == {"b": 2, "a": 1} | {}
    assert budgets.spread({"a": 1, "b": 3}, 9) == {"a": 1, "b": 3}
