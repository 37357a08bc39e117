"""What is said before every table: a pause with its facts, and a Lease that nobody renews, by the
host's clock.
"""

from typing import Any

from federator.hub.query import banner
from federator.hub.records import pauses

NOW_S = 1_790_000_000.0  # 2026-09-21T14:13:20Z


def lease(holder: str, renewed: str) -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


def test_a_lease_that_ran_out_or_was_given_up_is_told_and_a_live_or_absent_one_is_not() -> None:
    late = "2026-09-21T14:12:00.123456Z"

    assert banner.leaderless(lease("hub-0", late), NOW_S) == (
        "No hub leads since 2026-09-21T14:12:00Z (last leader: hub-0): the states shown are "
        "from that time or before."
    )
    assert "gave it up" in banner.leaderless(lease("", late), NOW_S)
    assert not banner.leaderless(lease("hub-0", "2026-09-21T14:13:10.000000Z"), NOW_S)
    assert not banner.leaderless(lease("hub-0", late), None)
    assert not banner.leaderless(None, NOW_S)
    assert not banner.leaderless({"spec": "nonsense"}, NOW_S)


def test_a_pause_says_since_when_by_whom_and_why_and_one_by_hand_what_is_known_of_it() -> None:
    data = {
        "paused": "true",
        "since": "2026-09-21T14:00:00Z",
        "by": "ann@laptop",
        "reason": "upgrade",
    }
    by_hand = {
        "metadata": {
            "managedFields": [{"manager": "kubectl-edit", "time": "2026-09-21T14:01:00Z"}]
        },
        "data": {"paused": "true"},
    }

    assert pauses.facts({"data": data}) == " since 2026-09-21T14:00:00Z by ann@laptop (upgrade)"
    assert pauses.facts(by_hand) == " since 2026-09-21T14:01:00Z by kubectl-edit"
    assert pauses.facts({"data": {"paused": "true"}}) == ""
    assert pauses.facts({"data": {"paused": "false", "by": "ann"}}) is None
    assert "paused since 2026-09-21T14:00:00Z by ann@laptop (upgrade)" in banner.paused(
        {"data": data}
    )
