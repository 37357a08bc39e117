"""Reachability of a member: blips flip nothing, the grace measures the loss, refusal is not
silence.
"""

import pytest

from federator.hub.members import reachability
from federator.hub.members.reachability import ProbeResult, Reachability, ReachabilityState

GRACE_S = 40.0


def walk(*signs: tuple[float, ProbeResult]) -> ReachabilityState:
    state = ReachabilityState(since_s=0.0)
    for now_s, sign in signs:
        state = reachability.after(state, sign, "because", now_s, GRACE_S)
    return state


@pytest.mark.parametrize("silent_s", [1.0, 5.0, 20.0, 39.0])
def test_a_blip_leaves_the_last_seen_state_trusted(silent_s: float) -> None:
    state = walk((0.0, ProbeResult.HEARD), (silent_s, ProbeResult.SILENT))

    assert state.state is Reachability.SUSPECT
    assert state.trusted


def test_silence_beyond_the_grace_is_a_loss_measured_from_the_last_answer() -> None:
    state = walk(
        (0.0, ProbeResult.HEARD),
        (10.0, ProbeResult.SILENT),
        (20.0, ProbeResult.SILENT),
        (40.0, ProbeResult.SILENT),
    )

    assert state.state is Reachability.UNREACHABLE
    assert not state.trusted
    assert state.heard_at_s == 0.0


def test_a_hub_that_was_itself_asleep_does_not_give_members_up_at_the_first_failed_probe() -> None:
    state = walk((0.0, ProbeResult.HEARD), (300.0, ProbeResult.SILENT))

    assert state.state is Reachability.SUSPECT


@pytest.mark.parametrize("before", [Reachability.UNKNOWN, Reachability.SUSPECT])
def test_a_hub_that_was_asleep_knows_no_more_of_those_who_were_silent_before(
    before: Reachability,
) -> None:
    heard = [(0.0, ProbeResult.HEARD)] if before is Reachability.SUSPECT else []
    state = walk(*heard, (10.0, ProbeResult.SILENT), (300.0, ProbeResult.SILENT))
    assert state.state is before
    assert reachability.after(state, ProbeResult.SILENT, "because", 339.0, GRACE_S).state is before
    lost = reachability.after(
        reachability.after(state, ProbeResult.SILENT, "because", 330.0, GRACE_S),
        ProbeResult.SILENT,
        "because",
        340.0,
        GRACE_S,
    )
    assert lost.state is Reachability.UNREACHABLE


@pytest.mark.parametrize("gaps_s", [(41.0,), (41.0, 39.0), (60.0, 5.0), (300.0,)])
@pytest.mark.parametrize("heard", [False, True])
def test_a_process_that_is_always_late_gives_up_a_member_that_is_always_silent(
    gaps_s: tuple[float, ...], *, heard: bool
) -> None:
    """A clock that began anew with each of its delays would never end."""
    state = walk((0.0, ProbeResult.HEARD if heard else ProbeResult.SILENT))
    now_s, failed = 0.0, 0
    while state.state is not Reachability.UNREACHABLE and failed < 20:
        now_s += gaps_s[failed % len(gaps_s)]
        state = reachability.after(state, ProbeResult.SILENT, "because", now_s, GRACE_S)
        failed += 1
    assert state.state is Reachability.UNREACHABLE
    assert failed > 2, "one or two probes prove nothing"


def test_an_answer_between_two_delays_begins_the_count_anew() -> None:
    state = walk((0.0, ProbeResult.HEARD))
    for now_s in range(60, 3600, 60):
        result = ProbeResult.HEARD if now_s % 240 == 0 else ProbeResult.SILENT
        state = reachability.after(state, result, "because", float(now_s), GRACE_S)
        assert state.state in (Reachability.LIVE, Reachability.SUSPECT)


def test_patience_with_somebody_never_heard_is_used_up_by_the_silence_that_was_met() -> None:
    assert ReachabilityState(since_s=0.0).patience_s(GRACE_S) == GRACE_S
    assert walk((10.0, ProbeResult.SILENT)).patience_s(GRACE_S) == 30.0
    assert (
        walk((10.0, ProbeResult.SILENT), (300.0, ProbeResult.SILENT)).patience_s(GRACE_S) == GRACE_S
    )


def test_failed_attempts_do_not_prolong_the_grace() -> None:
    often = walk(
        (0.0, ProbeResult.HEARD), *((float(second), ProbeResult.SILENT) for second in range(1, 41))
    )

    assert often.state is Reachability.UNREACHABLE


def test_a_lost_member_is_live_with_its_first_answer() -> None:
    state = walk(
        (0.0, ProbeResult.HEARD),
        (30.0, ProbeResult.SILENT),
        (50.0, ProbeResult.SILENT),
        (60.0, ProbeResult.HEARD),
    )

    assert state.state is Reachability.LIVE
    assert state.since_s == 60.0


def test_a_member_never_heard_is_lost_only_after_the_grace_from_the_start() -> None:
    assert walk((10.0, ProbeResult.SILENT)).state is Reachability.UNKNOWN
    assert walk((40.0, ProbeResult.SILENT)).state is Reachability.UNREACHABLE


@pytest.mark.parametrize(
    "before",
    [Reachability.UNKNOWN, Reachability.LIVE, Reachability.SUSPECT, Reachability.UNREACHABLE],
)
def test_a_refusal_is_told_from_silence_in_every_state(before: Reachability) -> None:
    state = reachability.after(
        ReachabilityState(before, 0.0, 0.0), ProbeResult.REFUSES, "other cluster", 1.0, GRACE_S
    )

    assert state.state is Reachability.REFUSED
    assert not state.trusted


def test_pairs_outside_the_table_leave_the_state_as_it_is() -> None:
    for before in Reachability:
        for sign in (ProbeResult.HEARD, ProbeResult.REFUSES):
            state = reachability.after(ReachabilityState(before, 0.0, 0.0), sign, "x", 1.0, GRACE_S)

            assert state.state is reachability.TRANSITIONS.get((before, sign), before)


def test_who_could_not_even_be_asked_has_its_whole_grace_before_it() -> None:
    state = reachability.excused(walk((39.0, ProbeResult.SILENT)), "the host did not answer", 39.0)

    assert state.state is Reachability.UNKNOWN
    state = reachability.after(state, ProbeResult.SILENT, "because", 60.0, GRACE_S)
    assert (
        reachability.after(state, ProbeResult.SILENT, "because", 78.0, GRACE_S).state
        is Reachability.UNKNOWN
    )
    assert (
        reachability.after(state, ProbeResult.SILENT, "because", 79.0, GRACE_S).state
        is Reachability.UNREACHABLE
    )


def test_why_a_member_is_refused_is_not_overwritten_by_a_probe_that_nobody_answered() -> None:
    refused = reachability.after(
        ReachabilityState(Reachability.LIVE, heard_at_s=0.0),
        ProbeResult.REFUSES,
        "it is another cluster",
        10.0,
        GRACE_S,
    )
    silent = reachability.after(
        refused, ProbeResult.SILENT, "the Secret could not be read", 20.0, GRACE_S
    )
    assert (silent.state, silent.why) == (Reachability.REFUSED, "it is another cluster")
    assert (
        reachability.after(silent, ProbeResult.SILENT, "no answer", 60.0, GRACE_S).why
        == "no answer"
    )
