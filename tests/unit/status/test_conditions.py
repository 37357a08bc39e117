"""Laying new conditions over live ones."""

from typing import Any

from federator.model import plaintext
from federator.status import conditions
from federator.status.conditions import Condition

THEN, NOW = "2024-05-01T10:00:00Z", "2024-05-01T11:00:00Z"


def live(kind: str, status: str, reason: str = "Old") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "m",
        "lastTransitionTime": THEN,
    }


def test_the_time_moves_only_when_the_status_does() -> None:
    wanted = [Condition("Ready", "True", "New"), Condition("Placed", "False", "New")]
    merged = conditions.merge([live("Ready", "True"), live("Placed", "True")], wanted, NOW)
    assert [(c["type"], c["reason"], c["lastTransitionTime"]) for c in merged] == [
        ("Ready", "New", THEN),
        ("Placed", "New", NOW),
    ]


def test_merging_twice_changes_nothing() -> None:
    wanted = [Condition("Ready", "True", "New", "All is well.", 4)]
    once = conditions.merge(None, wanted, THEN)
    assert conditions.merge(once, wanted, NOW) == once
    assert once[0]["observedGeneration"] == 4


def test_conditions_of_others_stay_and_ours_that_ended_go() -> None:
    before = [
        live("TheirOwn", "True"),
        live("SpreadViolated", "True"),
        live("Ready", "True", "New"),
    ]
    merged = conditions.merge(
        before, [Condition("Ready", "True", "New", "m")], NOW, owned=("Ready", "SpreadViolated")
    )
    assert merged == [before[0], before[2]]


def test_a_long_message_is_cut_visibly() -> None:
    merged = conditions.merge(None, [Condition("Ready", "False", "New", "x" * 5000)], NOW)
    assert len(merged[0]["message"]) == plaintext.SENTENCE_MAX
    assert merged[0]["message"].endswith("...")


def test_a_live_list_of_nonsense_is_survived() -> None:
    merged = conditions.merge(["x", {"type": 3}, {}], [Condition("Ready", "True", "New")], NOW)
    assert merged[-1]["type"] == "Ready"
