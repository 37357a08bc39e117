"""Room that is claimed, for the preemptors and victims of the same cycle."""

from dataclasses import replace

from federator.model.accounts import TakesRoom
from federator.model.ask import Ask, Tier
from federator.model.decision import Reason
from federator.model.policy import Policy
from federator.scheduling.queueing_hints import Waiting
from federator.scheduling.waiting.room_claims import WAITS_S, RoomClaim
from tests.unit.placement.fleets import service
from tests.unit.scheduling.test_claims import (
    API,
    IDLE,
    SMALL,
    WEB,
    Crowd,
    Federation,
    room_accounts,
)


def test_what_is_kept_from_a_workload_decided_later_is_room_for_the_preemptor() -> None:
    """Of 8 cpus 2 are free, and claimed for work of a lower tier than the preemptor's: it needs 2
    more. The same 2 are kept from the workload that is decided after it."""
    idle, later = replace(IDLE, count=6, slots=6), service(2, name="later", project="small")
    api = service(4, project="api", tier=Tier.RESERVED, policy=Policy(require_all=True))
    quotas = room_accounts(TakesRoom.PREEMPTIBLE)
    federation = Crowd(idle, api, SMALL, later, quotas=quotas)
    federation.turn(idle)
    federation.see(2, 1_001.0)
    claim(federation, later, 2)

    federation.turn(api, SMALL)

    assert federation.copies(idle) == 4


def test_a_victim_that_waited_for_room_gives_up_its_claim_and_others_are_told() -> None:
    federation = Federation(WEB, API)
    federation.turn(WEB)
    claim(federation, WEB, 5)

    made = federation.turn(WEB, API)

    assert {decided.key: decided.beneficiary for decided in made.decided}[WEB.key] == API.key
    assert made.released == ("a",)
    assert not federation.queue.room_claims


def claim(federation: Federation, ask: Ask, copies: int) -> None:
    """Others have left cluster a for so many copies of a workload that waits for room."""
    waits = Waiting(ask.key, "feed", Reason.INSUFFICIENT_CAPACITY)
    claimed = RoomClaim(ask, {"a": copies}, federation.snapshot.as_of + WAITS_S)
    federation.queue.settle([ask.key], {ask.key: waits}, room_claims={ask.key: claimed})
