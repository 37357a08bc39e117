"""Leader election, the rules: the table of standings, when a Lease may be taken, what is written
into it.
"""

import json
import math
from typing import Any

import pytest

from federator.kube.leader import lease
from federator.kube.leader.lease import Leadership, LeaseEvent, LeaseOptions
from tests.unit.kube.leaseworld import LEASE


def leased(version: int = 1, uid: str = "u", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "hub", "uid": uid, "resourceVersion": str(version)}, "spec": spec}


def given_up(term: int, **spec: Any) -> dict[str, Any]:
    """What the leader of that term leaves, and a hand has changed."""
    found = lease.release(leased(holderIdentity="b"), term=term, stamp="then")
    return {**found, "spec": {**found["spec"], **spec}}


@pytest.mark.parametrize("leadership", list(Leadership))
@pytest.mark.parametrize("event", list(LeaseEvent))
def test_only_a_win_makes_a_leader_and_nothing_brings_a_lost_lease_back(
    leadership: Leadership, event: LeaseEvent
) -> None:
    moved = lease.after(leadership, event)

    leads = (Leadership.LEADING, Leadership.DOUBTFUL)
    if leadership is Leadership.OBSERVING:
        assert moved is (Leadership.LEADING if event is LeaseEvent.WON else Leadership.OBSERVING)
    if leadership is Leadership.LOST:
        assert moved not in leads
    if leadership in leads and event in (LeaseEvent.TAKEN, LeaseEvent.OVERDUE, LeaseEvent.STOPPED):
        assert moved not in leads


def test_every_standing_can_be_reached_and_left() -> None:
    assert {before for before, _ in lease.TRANSITIONS} == set(Leadership)
    assert set(lease.TRANSITIONS.values()) == set(Leadership)


def test_a_rivals_lease_runs_out_by_our_clock_since_we_saw_it_change() -> None:
    options = LeaseOptions()
    first = lease.notice(
        None, leased(1, holderIdentity="b", renewTime="1999-01-01T00:00:00.000000Z"), 100.0
    )
    same = lease.notice(
        first, leased(1, holderIdentity="b", renewTime="1999-01-01T00:00:00.000000Z"), 109.0
    )
    renewed = lease.notice(
        same, leased(2, holderIdentity="b", renewTime="1999-01-01T00:00:00.000000Z"), 112.0
    )

    assert lease.free_at(same, "us", None, options) == 115.0
    assert lease.free_at(renewed, "us", None, options) == 127.0


@pytest.mark.parametrize(
    ("obj", "after_s"),
    [
        (None, math.inf),
        (given_up(7), 0.0),
        (given_up(7, leaseDurationSeconds=15), 0.0),
        (given_up(7, leaseTransitions=8), math.inf),
        (given_up(7, leaseTransitions=None), math.inf),
        (given_up(7, holderIdentity="b"), 15.0),
        (leased(holderIdentity="", leaseDurationSeconds=1, leaseTransitions=7), math.inf),
        (leased(holderIdentity="", leaseDurationSeconds=15), math.inf),
        (leased(), math.inf),
        ({"metadata": {"resourceVersion": "1"}, "spec": None}, math.inf),
        (leased(holderIdentity="b", leaseDurationSeconds=30), 30.0),
        (leased(holderIdentity="b", leaseDurationSeconds=1), 15.0),
        (leased(holderIdentity="b", leaseDurationSeconds=10**9), 60.0),
        (leased(holderIdentity="b", leaseDurationSeconds="soon"), 15.0),
        (leased(holderIdentity="b", leaseDurationSeconds=-3), 15.0),
        (leased(holderIdentity="us"), 10.0),
        (leased(holderIdentity="us", acquireTime="then"), 0.0),
    ],
)
def test_when_a_lease_may_be_taken(obj: dict[str, Any] | None, after_s: float) -> None:
    seen = lease.notice(None, obj, 100.0)

    assert lease.free_at(seen, "us", "then", LeaseOptions()) == 100.0 + after_s


@pytest.mark.parametrize(
    ("before", "term"), [(None, 1), (0, 1), (7, 8), ("many", 1), (-1, 1), (2**31 - 1, 1), (True, 1)]
)
def test_each_reign_has_a_term_of_its_own_whatever_the_count_was(
    before: int | str | None, term: int
) -> None:
    body, found = lease.claim(
        leased(leaseTransitions=before), LEASE, identity="us", stamp="now", options=LeaseOptions()
    )

    assert found == term == body["spec"]["leaseTransitions"]


def test_what_others_wrote_into_the_lease_stays() -> None:
    live = leased(4, holderIdentity="us", strategy="OldestEmulationVersion") | {"kind": "Lease"}
    live["metadata"] |= {"labels": {"team": "sre"}, "annotations": {"example.com/note": "theirs"}}

    for body, notes in (
        (lease.renewal(live, term=3, stamp="now", options=LeaseOptions(), notes={}), {}),
        (lease.release(live, term=3, stamp="now"), {lease.RELEASED: "3"}),
    ):
        assert body["metadata"] == {
            **live["metadata"],
            "annotations": {"example.com/note": "theirs", **notes},
        }
        assert body["spec"]["strategy"] == "OldestEmulationVersion"
        assert body["spec"]["leaseTransitions"] == 3
        assert body["spec"]["leaseDurationSeconds"] >= 1


@pytest.mark.parametrize(
    "times",
    [
        {"try_timeout_s": 2.0},
        {"try_timeout_s": 0.0},
        {"renew_deadline_s": 15.0},
        {"renew_deadline_s": 3.0},
        {"retry_s": 6.0, "try_timeout_s": 1.0},
    ],
)
def test_times_that_cannot_work_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must (be shorter|leave room)"):
        LeaseOptions(**times)


def test_the_bodies_written_are_plain_json() -> None:
    body, _ = lease.claim(None, LEASE, identity="a", stamp="t", options=LeaseOptions())

    assert json.loads(json.dumps(body)) == body
