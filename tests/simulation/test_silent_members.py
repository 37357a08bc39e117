"""A member's process stays down in a simulated world: after the grace no status claims known
figures of that member.
"""

import asyncio
from unittest import mock

import pytest

from federator.hub.members.member import Member
from tests.simulation import solo
from tests.simulation.invariants import all_of
from tests.simulation.script import JOBSET, SERVICE
from tests.simulation.world import World

DOWN_S = 75.0
"""The grace, two probes and a status write."""


def claims(stage: World, member: str) -> list[str]:
    """Workloads whose status knows figures of this member."""
    return [
        obj["metadata"]["name"]
        for kind in (SERVICE, JOBSET)
        for obj in all_of(stage.clusters["host"], kind)
        for row in (obj.get("status") or {}).get("clusterStatuses") or ()
        if row["cluster"] == member and row.get("known") is not False
    ]


async def the_process_stays_down(stage: World) -> None:
    assert claims(stage, "a")
    stage.hold_down("member-a")
    await asyncio.sleep(DOWN_S)
    try:
        assert not claims(stage, "a")
        assert claims(stage, "b")
    finally:
        stage.let_up("member-a")


def test_no_status_claims_figures_of_a_member_whose_process_is_dead() -> None:
    solo.tell(the_process_stays_down)


def test_a_hub_that_believes_the_dead_is_caught() -> None:
    believes = mock.patch.object(Member, "speaks_of", lambda self, kind: self.heard)
    with believes, pytest.raises(AssertionError):
        solo.tell(the_process_stays_down)
