"""The metric of the optimality gap: which batches are measured, how often, and that a hub which
does not lead measures nothing.
"""

import asyncio
import re

from federator.hub.metering import figures
from federator.kube.metrics import Metrics
from tests.unit.hub.world import World, play, service


class Metered(World):
    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]
        self.federation.metrics = Metrics()

    def measured(self) -> tuple[int, float]:
        """Batches, and the sum of their gaps."""
        assert self.federation.metrics is not None
        text = self.federation.metrics.render().decode()
        values = {
            name: float(value)
            for name, value in re.findall(r"federator_batch_gap_ratio_(count|sum) (\S+)", text)
        }
        return int(values["count"]), values["sum"]


PSVC = "PinterestService"


def test_batches_that_fit_are_not_measured_and_those_that_lack_room_are() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        await world.create(PSVC, "ads", "fits", service(6))
        await asyncio.sleep(60)
        assert world.measured() == (0, 0.0)

        # Each of the 12 nodes holds a copy of 4 cores or one of 6; the first are placed first.
        await asyncio.gather(
            world.create(PSVC, "ads", "first", service(12, "4", tier="Reserved")),
            world.create(PSVC, "ads", "second", service(12, "6")),
        )
        await asyncio.sleep(figures.GAPS_S)

        count, total = world.measured()
        assert count == 1
        assert 0.4 < total < 0.5  # 48 of 93 cores that copies in fractions would take

    play(scenario, world_of=Metered)


def test_measurements_are_a_quarter_of_a_minute_apart() -> None:
    async def scenario(world: World) -> None:
        assert isinstance(world, Metered)
        for number in range(40):
            await world.create(PSVC, "ads", f"large-{number}", service(9, "5"))
            await asyncio.sleep(1)

        count, _ = world.measured()
        assert 2 <= count <= 40 / figures.GAPS_S + 1

    play(scenario, world_of=Metered)
