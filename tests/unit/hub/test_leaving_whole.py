"""What is of no use in part leaves as a whole, also for a hub that has just started."""

from tests.unit.hub.test_reclaim import come_back, tree
from tests.unit.hub.world import HUB, World, play, service


def test_what_leaves_as_a_whole_does_so_for_a_hub_that_only_heard_of_its_decision() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        asked = service(8, "1", project="ads", placement={"partial": "RequireAll"})
        await world.create("PinterestService", "ads", "web", asked)
        await world.settle()
        assert sum((await world.shares("ads", "web")).values()) == 8, "ads has borrowed 4 cpu"
        await world.federation.kill(HUB)
        world.federation.start_hub()
        await world.settle()

        await come_back(world, 2)

        assert sum((await world.shares("ads", "web")).values()) == 0, "6 would be of no use"

    play(scenario)
