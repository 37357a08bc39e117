"""How many copies of a workload may leave at once by its own disruption budget."""

from hypothesis import given
from hypothesis import strategies as st

from federator.hub.cache.notices import Notices
from federator.hub.options import HubOptions
from federator.model.ask import Disruptions
from federator.placement.quota.tree import Tree
from federator.placement.room.commitments import Commitments
from federator.scheduling.admission import budgets, preempting
from federator.scheduling.admission.nominating import Nominations
from federator.scheduling.admission.notice import Pace
from federator.scheduling.admission.stage import Admissions
from tests.unit.placement.fleets import fleet, held, service

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


def test_who_waits_for_a_budget_is_tried_when_that_has_room_again() -> None:
    """However often it is looked at meanwhile."""
    waiting = service(3)
    staged, pace = Admissions(slowed=[waiting]), Pace(9, budgets=budgets.Budgets(next_s=21.0))

    commitments = Commitments()
    leaving = preempting.accepted(
        staged,
        {},
        commitments,
        preempting.nobody,
        preempting.Terms(Tree(), 0.0, pace),
        nominations=Nominations(commitments, commitments.open(fleet())),
    )

    assert leaving.later == {waiting.key: 21.0}


def test_what_left_counts_for_a_minute() -> None:
    notices, options = Notices(), HubOptions()
    notices._gone = [(100.0, "u", "a", 2), (130.0, "u", "a", 1)]

    at_once, later = (notices.pace(now_s, options, lambda _: None) for now_s in (140.0, 165.0))

    assert (at_once.budgets.gone, at_once.budgets.next_s) == ({"u": {"a": 3}}, 20.0)
    assert (later.budgets.gone, later.budgets.next_s) == ({"u": {"a": 1}}, 25.0)
