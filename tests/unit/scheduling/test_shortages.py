"""Every shortage names its cause."""

from hypothesis import given

from federator.model.accounts import Ordering
from tests.examples import examples
from tests.unit.scheduling.quotaworlds import World, account, ask_of, play, worlds


@given(worlds())
@examples(300)
def test_every_shortage_names_its_cause(world: World) -> None:
    for made in play(world.accounts, world.batches).made:
        for decided in made.decided:
            decision = decided.decision
            if decision.shortfall > 0:
                said = decision.message.rstrip()
                assert said, decision.key
                assert not said.endswith(":"), said


def test_the_second_of_an_account_hears_that_the_first_has_taken_what_is_left() -> None:
    accounts = [
        account("company", "", 1, ordering=Ordering.PRIORITY),
        account("a", "company", 0),
    ]
    batch = [ask_of(at, "a", 1) for at in range(2)]
    _, second = play(accounts, [batch]).made[0].decided
    assert second.decision.message == (
        "0 of 1 copies are placed, 1 are missing: FederatedQuota a has less than 1 cpu left for it"
        " after what workloads before it in the order got, take back or wait for"
    )
