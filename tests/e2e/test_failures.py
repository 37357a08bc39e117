"""Real processes on real API servers die, stand still, go away and come back from the past. What
was asked is what there is in the end, once, and then nothing is written any more. `python -m
tests.e2e.failures` tells it at length.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.e2e import failures_fleet, failures_kills, failures_leaders, failures_members
from tests.e2e.failures_compare import Asked
from tests.e2e.failures_fleet import FailureFleet

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.xdist_group("failures of real servers"),
    pytest.mark.timeout(
        600
    ),  # the first of them starts six servers, beside whatever else the machine does
]

REST_S = 5.0


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[FailureFleet]:
    binaries = build.find()
    if binaries is None or build.kubectl() is None:
        request.getfixturevalue(
            "control_plane"
        )  # skips, or fails where a control plane is required
    assert binaries is not None
    with failures_fleet.started(tmp_path_factory.mktemp("failures"), binaries) as found:
        yield found


@pytest.fixture
def ground(running: FailureFleet) -> FailureFleet:
    running.all_run()
    return running


def test_the_other_hub_takes_over_from_a_killed_leader_within_lease_and_retry(
    ground: FailureFleet,
) -> None:
    asked = Asked(ground, "killed")
    print(failures_leaders.leader_killed(ground, asked, count=12, seed=1, rest_s=REST_S))
    asked.clear()


@pytest.mark.soak
def test_a_leader_that_stood_still_does_no_harm_when_it_goes_on(ground: FailureFleet) -> None:
    asked = Asked(ground, "stopped")
    print(failures_leaders.leader_stopped(ground, asked, stopped_s=30.0, seed=1, rest_s=REST_S))
    asked.clear()


def test_nothing_is_lost_or_doubled_when_processes_are_killed_at_random_moments(
    ground: FailureFleet,
) -> None:
    asked = Asked(ground, "kills")
    print(failures_kills.random_kills(ground, asked, count=20, kills=3, seed=1, rest_s=REST_S))
    asked.clear()


@pytest.mark.soak
def test_nothing_moves_while_a_members_server_is_away_and_all_is_done_when_it_is_back(
    ground: FailureFleet,
) -> None:
    asked = Asked(ground, "away")
    print(failures_members.server_away(ground, asked, count=6, away_s=15.0, rest_s=REST_S))
    asked.clear()


@pytest.mark.soak
def test_a_member_that_was_put_back_to_an_earlier_state_is_repaired(
    ground: FailureFleet, tmp_path: Path
) -> None:
    asked = Asked(ground, "restored")
    print(
        failures_members.server_restored(
            ground, asked, home=tmp_path, count=8, seed=1, rest_s=REST_S
        )
    )
    asked.clear()


def test_what_the_scheduler_of_a_member_cannot_bind_moves_to_another(ground: FailureFleet) -> None:
    asked = Asked(ground, "stuck")
    print(failures_members.nodes_refuse(ground, asked, rest_s=REST_S))
    asked.clear()
