"""When a workload is due: every condition by itself, and which one counts when several hold."""

import itertools

import pytest

from federator.scheduling import due
from federator.scheduling.due import Comparison, Presence, TurnAction

ONE_CONDITION = [
    ({"there": False}, TurnAction.FORGET),
    ({"suspended": True}, TurnAction.LEAVE),
    ({"decision_deleting": True}, TurnAction.LEAVE),
    ({"place_taken": True}, TurnAction.LEAVE),
    ({"hosts_own": True}, TurnAction.WAIT),
    ({"namespace_known": False}, TurnAction.WAIT),
]


@pytest.mark.parametrize(
    ("differs", "verdict"), ONE_CONDITION, ids=[str(row[0]) for row in ONE_CONDITION]
)
def test_each_condition_alone_keeps_a_workload_from_being_looked_at(
    differs: dict[str, bool], verdict: TurnAction
) -> None:
    assert due.look(Presence()) is TurnAction.LOOK
    assert due.look(Presence(**differs)) is verdict


def test_every_condition_of_presence_is_in_the_table() -> None:
    assert {name for differs, _ in ONE_CONDITION for name in differs} == set(Presence._fields)


def test_of_several_conditions_the_gravest_counts() -> None:
    """What is gone is forgotten although it is suspended; what must not be touched is not brought
    up to date.
    """
    order = [TurnAction.FORGET, TurnAction.LEAVE, TurnAction.WAIT, TurnAction.LOOK]
    verdicts = {next(iter(differs)): verdict for differs, verdict in ONE_CONDITION}
    for values in itertools.product([False, True], repeat=len(Presence._fields)):
        now = Presence(*values)
        held = [
            verdicts[name]
            for name, value in now._asdict().items()
            if value != getattr(Presence(), name)
        ]
        assert due.look(now) is min(held, key=order.index, default=TurnAction.LOOK)


@pytest.mark.parametrize("name", Comparison._fields)
def test_each_difference_from_a_decision_that_stands_makes_a_workload_due(name: str) -> None:
    stands = Comparison()
    assert due.is_settled(stands)
    assert not due.is_settled(stands._replace(**{name: not getattr(stands, name)}))


def test_a_decision_stands_in_one_case_of_all() -> None:
    cases = itertools.product([False, True], repeat=len(Comparison._fields))
    assert [case for case in map(Comparison._make, cases) if due.is_settled(case)] == [Comparison()]


def test_what_stands_was_decided_for_these_inputs_in_full_and_nothing_else_is_said_of_it() -> None:
    said = {name for name, value in Comparison()._asdict().items() if value}
    assert said == {"decided", "same_inputs", "chosen"}
