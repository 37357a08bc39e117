"""Classes of nodes that did not deliver: when they are counted on again."""

from federator.model.resources import Resources
from federator.model.scaleup import NodeClass
from federator.placement.growth.promises import LEAST_PAUSE_S, LONGEST_PAUSE_S, Promises

CLASS = NodeClass("m6i", Resources({"cpu": 4000}), 5, 3)
LATE = "did not come within 6 minutes"


def late(promises: Promises, now_s: float, machines: int = 1) -> str:
    (each,) = promises.in_force((CLASS,), {"m6i": machines}, now_s)
    return each.late


def test_a_late_class_is_not_counted_on_until_its_pause_is_over() -> None:
    promises = Promises()
    assert promises.in_force((CLASS,), {}, 0.0) == (CLASS,)
    note = promises.note_late(CLASS, {"m6i": 1}, 100.0)
    assert note == f"Nodes of m6i {LATE}: none are counted on for 10 minutes."
    assert late(promises, 100.0 + LEAST_PAUSE_S - 1) == LATE
    assert late(promises, 100.0 + LEAST_PAUSE_S) == ""


def test_a_further_node_ends_the_pause() -> None:
    promises = Promises()
    promises.note_late(CLASS, {"m6i": 1}, 0.0)
    assert late(promises, 1.0, machines=2) == ""


def test_it_is_said_once_and_the_pause_doubles_up_to_four_hours() -> None:
    promises, now_s, pause_s = Promises(), 0.0, LEAST_PAUSE_S
    promises.note_late(CLASS, {}, now_s)
    assert promises.note_late(CLASS, {}, now_s + 1) is None
    for _ in range(7):
        now_s += pause_s
        assert late(promises, now_s, machines=0) == ""
        assert promises.note_late(CLASS, {}, now_s) is not None
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        assert late(promises, now_s + pause_s - 1, machines=0) == LATE
    assert pause_s == LONGEST_PAUSE_S


def test_after_a_delivery_pauses_begin_anew() -> None:
    promises = Promises()
    promises.note_late(CLASS, {}, 0.0)
    promises.note_late(CLASS, {}, LEAST_PAUSE_S)
    promises.note_late(CLASS, {"m6i": 1}, 5000.0)
    assert late(promises, 5000.0 + LEAST_PAUSE_S) == ""


def test_a_slow_class_pauses_for_as_long_as_it_was_waited_for() -> None:
    slow, promises = NodeClass("slow", Resources({"cpu": 1}), 5, 30), Promises()
    promises.note_late(slow, {}, 0.0)
    assert promises.in_force((slow,), {}, 3599.0)[0].late
    assert promises.in_force((slow,), {}, 3600.0) == (slow,)
