"""The line to a member: blips flip nothing, the grace measures the loss, refusal is not silence."""

import pytest

from federator.hub.members import link
from federator.hub.members.link import Link, LinkState, Sign

GRACE_S = 40.0


def walk(*signs: tuple[float, Sign]) -> LinkState:
    state = LinkState(since_s=0.0)
    for now_s, sign in signs:
        state = link.after(state, sign, "because", now_s, GRACE_S)
    return state


@pytest.mark.parametrize("silent_s", [1.0, 5.0, 20.0, 39.0])
def test_a_blip_leaves_the_last_seen_state_trusted(silent_s: float) -> None:
    state = walk((0.0, Sign.HEARD), (silent_s, Sign.SILENT))

    assert state.link is Link.SUSPECT
    assert state.trusted


def test_silence_beyond_the_grace_is_a_loss_measured_from_the_last_answer() -> None:
    state = walk((0.0, Sign.HEARD), (10.0, Sign.SILENT), (20.0, Sign.SILENT), (40.0, Sign.SILENT))

    assert state.link is Link.LOST
    assert not state.trusted
    assert state.heard_at_s == 0.0


def test_a_hub_that_was_itself_asleep_does_not_give_members_up_at_the_first_failed_probe() -> None:
    state = walk((0.0, Sign.HEARD), (300.0, Sign.SILENT))

    assert state.link is Link.SUSPECT


@pytest.mark.parametrize("before", [Link.NEW, Link.SUSPECT])
def test_a_hub_that_was_asleep_knows_no_more_of_those_who_were_silent_before(before: Link) -> None:
    heard = [(0.0, Sign.HEARD)] if before is Link.SUSPECT else []
    state = walk(*heard, (10.0, Sign.SILENT), (300.0, Sign.SILENT))
    assert state.link is before
    assert link.after(state, Sign.SILENT, "because", 339.0, GRACE_S).link is before
    lost = link.after(link.after(state, Sign.SILENT, "because", 330.0, GRACE_S), Sign.SILENT, "because", 340.0, GRACE_S)
    assert lost.link is Link.LOST


def test_patience_with_somebody_never_heard_is_used_up_by_the_silence_that_was_met() -> None:
    assert LinkState(since_s=0.0).patience_s(GRACE_S) == GRACE_S
    assert walk((10.0, Sign.SILENT)).patience_s(GRACE_S) == 30.0
    assert walk((10.0, Sign.SILENT), (300.0, Sign.SILENT)).patience_s(GRACE_S) == GRACE_S


def test_failed_attempts_do_not_prolong_the_grace() -> None:
    often = walk((0.0, Sign.HEARD), *((float(second), Sign.SILENT) for second in range(1, 41)))

    assert often.link is Link.LOST


def test_a_lost_member_is_live_with_its_first_answer() -> None:
    state = walk((0.0, Sign.HEARD), (30.0, Sign.SILENT), (50.0, Sign.SILENT), (60.0, Sign.HEARD))

    assert state.link is Link.LIVE
    assert state.since_s == 60.0


def test_a_member_never_heard_is_lost_only_after_the_grace_from_the_start() -> None:
    assert walk((10.0, Sign.SILENT)).link is Link.NEW
    assert walk((40.0, Sign.SILENT)).link is Link.LOST


@pytest.mark.parametrize("before", [Link.NEW, Link.LIVE, Link.SUSPECT, Link.LOST])
def test_a_refusal_is_told_from_silence_in_every_state(before: Link) -> None:
    state = link.after(LinkState(before, 0.0, 0.0), Sign.REFUSES, "other cluster", 1.0, GRACE_S)

    assert state.link is Link.REFUSED
    assert not state.trusted


def test_pairs_outside_the_table_leave_the_state_as_it_is() -> None:
    for before in Link:
        for sign in (Sign.HEARD, Sign.REFUSES):
            state = link.after(LinkState(before, 0.0, 0.0), sign, "x", 1.0, GRACE_S)

            assert state.link is link.MOVES.get((before, sign), before)


def test_who_could_not_even_be_asked_has_its_whole_grace_before_it() -> None:
    state = link.excused(walk((39.0, Sign.SILENT)), "the host did not answer", 39.0)

    assert state.link is Link.NEW
    state = link.after(state, Sign.SILENT, "because", 60.0, GRACE_S)
    assert link.after(state, Sign.SILENT, "because", 78.0, GRACE_S).link is Link.NEW
    assert link.after(state, Sign.SILENT, "because", 79.0, GRACE_S).link is Link.LOST


def test_why_a_member_is_refused_is_not_overwritten_by_a_probe_that_nobody_answered() -> None:
    refused = link.after(LinkState(Link.LIVE, heard_at_s=0.0), Sign.REFUSES, "it is another cluster", 10.0, GRACE_S)
    silent = link.after(refused, Sign.SILENT, "the Secret could not be read", 20.0, GRACE_S)
    assert (silent.link, silent.why) == (Link.REFUSED, "it is another cluster")
    assert link.after(silent, Sign.SILENT, "no answer", 60.0, GRACE_S).why == "no answer"
