"""Writes that do not last are noticed, and nothing is remembered of those that were long ago."""

from federator.kube.control.write_fights import FORGOTTEN_AT_ONCE, Futility

WINDOW_S = 120.0
PAUSE_S = 300.0


def futility() -> Futility[str]:
    return Futility(writes=3, window_s=WINDOW_S, pause_s=PAUSE_S)


def test_the_same_wish_written_three_times_in_a_row_is_left_alone_for_a_while() -> None:
    book = futility()
    for now_s in (0.0, 10.0, 20.0):
        assert not book.paused_until_s("web", "blue", now_s)
        book.written("web", "blue", now_s)

    assert book.paused_until_s("web", "blue", 21.0) == 20.0 + PAUSE_S
    assert not book.paused_until_s("web", "green", 21.0)
    assert not book.paused_until_s("web", "blue", 20.0 + PAUSE_S)


def test_drift_that_is_repaired_now_and_then_is_no_fight() -> None:
    book = futility()
    for turn in range(9):
        book.written("web", "blue", turn * (WINDOW_S + 1.0))

        assert not book.paused_until_s("web", "blue", turn * (WINDOW_S + 1.0) + 0.5)


def test_objects_that_were_written_long_ago_are_forgotten_though_nobody_says_that_they_are_gone() -> None:
    book = futility()
    for number in range(10 * FORGOTTEN_AT_ONCE):
        book.written(f"burst-{number}", "blue", 0.0)
    for number in range(20):
        book.written(f"later-{number}", "blue", WINDOW_S + 1.0)

    assert len(book) == 20


def test_one_write_forgets_a_bounded_number_of_others() -> None:
    book = futility()
    for number in range(10 * FORGOTTEN_AT_ONCE):
        book.written(f"burst-{number}", "blue", 0.0)

    book.written("later", "blue", WINDOW_S + 1.0)

    assert len(book) == 9 * FORGOTTEN_AT_ONCE + 1


def test_a_pause_outlives_the_window_in_which_tries_count() -> None:
    book = futility()
    for now_s in (0.0, 1.0, 2.0):
        book.written("web", "blue", now_s)
    for number in range(5):
        book.written(f"other-{number}", "blue", 2.0 + WINDOW_S + number)

    assert book.paused_until_s("web", "blue", 2.0 + WINDOW_S + 10.0) == 2.0 + PAUSE_S


def test_what_was_written_again_is_not_forgotten_with_what_was_written_with_it_before() -> None:
    book = futility()
    for name in ("web", "api"):
        book.written(name, "blue", 0.0)
    book.written("web", "blue", WINDOW_S)
    book.written("db", "blue", WINDOW_S + 1.0)

    assert book.of("api", "blue") is None
    found = book.of("web", "blue")
    assert found is not None
    assert found.count == 2
