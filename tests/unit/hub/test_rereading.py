"""How often a hub lists the decisions before it leads."""

from tests.unit.hub.test_leadership import Pair, play


def test_a_hub_that_starts_after_an_orderly_stop_lists_the_decisions_once() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        for name in pair.federation.hub_names:
            await pair.federation.kill(name)
        pair.listed.clear()
        pair.federation.start_hub("hub-0")
        assert await pair.until("hub-0") < 5.0
        assert pair.listed == {"hub-0": 1}
        await pair.scale("web", 9)
        await pair.settle()

    play(scenario)


def test_a_hub_that_follows_a_leader_lists_the_decisions_again() -> None:
    """The former leader may have written decisions since the first list."""

    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        stopped, heir = pair.leader(), pair.standby()
        assert pair.listed[heir] == 1
        await pair.federation.kill(stopped)
        await pair.until(heir)
        assert pair.listed[heir] == 2

    play(scenario)


def test_a_hub_that_starts_while_a_crashed_leader_holds_the_lease_lists_them_again() -> None:
    async def scenario(pair: Pair) -> None:
        await pair.serve("web")
        await pair.settle()
        await pair.federation.kill(pair.standby())
        await pair.crash(pair.leader())
        pair.listed.clear()
        pair.federation.start_hub("hub-0")
        await pair.until("hub-0")
        assert pair.listed == {"hub-0": 2}

    play(scenario)
