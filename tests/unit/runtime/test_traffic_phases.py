"""When a pod is to be in the registry: phases, signs and retries."""

import itertools

import pytest

from federator.runtime.traffic.phases import (
    CHECK_S,
    MOVES,
    RETRY_MAX_S,
    Effect,
    Phase,
    Sign,
    Standing,
)


def walk(*signs: Sign) -> Standing:
    """The standing after signs a second apart."""
    standing = Standing()
    for at, sign in enumerate(signs):
        standing = standing.after(sign, float(at))
    return standing


def test_a_pod_is_written_when_ready_and_removed_when_not() -> None:
    assert walk().effect(0.0) is None
    assert walk(Sign.READY).effect(0.0) is Effect.WRITE
    serving = walk(Sign.READY, Sign.WRITTEN)
    assert (serving.phase, serving.ready) == (Phase.SERVING, True)
    assert serving.effect(2.0) is None
    assert serving.effect(1.0 + CHECK_S) is Effect.WRITE
    leaving = walk(Sign.READY, Sign.WRITTEN, Sign.UNREADY)
    assert (leaving.phase, leaving.ready, leaving.effect(2.0)) == (
        Phase.LEAVING,
        False,
        Effect.REMOVE,
    )
    assert walk(Sign.READY, Sign.WRITTEN, Sign.UNREADY, Sign.REMOVED).phase is Phase.WAITING


def test_a_lost_session_is_written_again_and_the_pod_stays_ready() -> None:
    lost = walk(Sign.READY, Sign.WRITTEN, Sign.LOST)
    assert (lost.phase, lost.ready, lost.effect(2.0)) == (Phase.JOINING, True, Effect.WRITE)
    assert not walk(Sign.READY, Sign.LOST).ready


def test_a_write_that_is_answered_after_the_drain_began_is_removed() -> None:
    late = walk(Sign.READY, Sign.DRAIN, Sign.WRITTEN)
    assert (late.phase, late.effect(3.0)) == (Phase.DRAINING, Effect.REMOVE)
    assert walk(Sign.READY, Sign.DRAIN, Sign.REMOVED).phase is Phase.GONE


def test_nothing_brings_a_drained_pod_back() -> None:
    for signs in itertools.product(Sign, repeat=3):
        standing = walk(Sign.READY, Sign.WRITTEN, Sign.DRAIN, Sign.REMOVED, *signs)
        assert standing.phase is Phase.GONE
        assert standing.effect(1e9) is None
    assert not [move for move, phase in MOVES.items() if move[0] is Phase.GONE and phase]


ACTS = (Sign.READY, Sign.UNREADY, Sign.LOST, Sign.DRAIN, "ask", "answer")


def test_a_pod_that_is_gone_has_no_entry_in_any_order_of_signs_and_answers() -> None:
    """All orders of six acts. A request changes the registry when it is asked, and its answer
    comes later; a session that is lost in between takes the entry and makes the answer a failure."""
    ends = set()
    for acts in itertools.product(ACTS, repeat=6):
        standing, entry, answer = Standing(), False, None
        for act in acts:
            if act == "ask":
                effect = standing.effect(0.0) if answer is None else None
                if effect is not None:
                    entry = effect is Effect.WRITE
                    answer = Sign.WRITTEN if entry else Sign.REMOVED
            elif act == "answer":
                if answer is not None:
                    standing = standing.after(answer, 0.0)
                answer = None
            elif isinstance(act, Sign):
                standing = standing.after(act, 0.0)
                if act is Sign.LOST:
                    entry, answer = False, None
            assert not (standing.phase is Phase.GONE and entry), acts
            assert not (standing.phase is Phase.WAITING and entry), acts
        ends.add(standing.phase)
    assert ends == set(Phase)


def test_failed_requests_wait_longer_each_time_and_apart_from_other_pods() -> None:
    standing, waits = walk(Sign.READY), []
    for _ in range(12):
        standing = standing.failed("away", 0.0, 1.0)
        waits.append(standing.due_s)
    assert waits[:4] == [0.2, 0.4, 0.8, 1.6]
    assert waits[-1] == RETRY_MAX_S
    assert walk(Sign.READY).failed("away", 0.0, 0.0).due_s == pytest.approx(0.1)
    assert standing.effect(9.9) is None
    assert standing.hurried(0.0, 0.5).due_s == 0.25


def test_a_drain_does_not_wait_for_the_next_try() -> None:
    away = walk(Sign.READY, Sign.WRITTEN, Sign.LOST).failed("away", 3.0, 1.0)
    assert away.effect(3.0) is None
    assert away.after(Sign.DRAIN, 3.0).effect(3.0) is Effect.REMOVE


def test_other_changes_wait_for_the_next_try() -> None:
    away = walk(Sign.READY).failed("away", 0.0, 1.0).after(Sign.UNREADY, 0.05)
    assert away.phase is Phase.LEAVING
    assert away.effect(0.1) is None
    assert away.after(Sign.REMOVED, 0.3).failures == 0
