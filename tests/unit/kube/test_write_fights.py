"""Writes that do not last are noticed, and nothing is remembered of those that were long ago."""

from federator.kube.control.write_fights import FORGOTTEN_AT_ONCE, WriteFightDetector

WINDOW_S = 120.0
PAUSE_S = 300.0


def detector() -> WriteFightDetector[str]:
    return WriteFightDetector(writes=3, window_s=WINDOW_S, pause_s=PAUSE_S)


def test_the_same_wish_written_three_times_in_a_row_is_left_alone_for_a_while() -> None:
    fights = detector()
    for now_s in (0.0, 10.0, 20.0):
        assert not fights.paused_until_s("web", "blue", now_s)
        fights.written("web", "blue", now_s)

    assert fights.paused_until_s("web", "blue", 21.0) == 20.0 + PAUSE_S
    assert not fights.paused_until_s("web", "green", 21.0)
    assert not fights.paused_until_s("web", "blue", 20.0 + PAUSE_S)


def test_drift_that_is_repaired_now_and_then_is_no_fight() -> None:
    fights = detector()
    for turn in range(9):
        fights.written("web", "blue", turn * (WINDOW_S + 1.0))

        assert not fights.paused_until_s("web", "blue", turn * (WINDOW_S + 1.0) + 0.5)


def test_objects_written_long_ago_are_forgotten_though_nobody_says_that_they_are_gone() -> None:
    fights = detector()
    for number in range(10 * FORGOTTEN_AT_ONCE):
        fights.written(f"burst-{number}", "blue", 0.0)
    for number in range(20):
        fights.written(f"later-{number}", "blue", WINDOW_S + 1.0)

    assert len(fights) == 20


def test_one_write_forgets_a_bounded_number_of_others() -> None:
    fights = detector()
    for number in range(10 * FORGOTTEN_AT_ONCE):
        fights.written(f"burst-{number}", "blue", 0.0)

    fights.written("later", "blue", WINDOW_S + 1.0)

    assert len(fights) == 9 * FORGOTTEN_AT_ONCE + 1


def test_a_pause_outlives_the_window_in_which_tries_count() -> None:
    fights = detector()
    for now_s in (0.0, 1.0, 2.0):
        fights.written("web", "blue", now_s)
    for number in range(5):
        fights.written(f"other-{number}", "blue", 2.0 + WINDOW_S + number)

    assert fights.paused_until_s("web", "blue", 2.0 + WINDOW_S + 10.0) == 2.0 + PAUSE_S


def test_what_was_written_again_is_not_forgotten_with_what_was_written_with_it_before() -> None:
    fights = detector()
    for name in ("web", "api"):
        fights.written(name, "blue", 0.0)
    fights.written("web", "blue", WINDOW_S)
    fights.written("db", "blue", WINDOW_S + 1.0)

    assert fights.of("api", "blue") is None
    found = fights.of("web", "blue")
    assert found is not None
    assert found.count == 2
