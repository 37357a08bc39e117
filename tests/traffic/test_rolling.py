"""A service is rolled while a client reads the registry and connects: no request is refused."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from federator.runtime.traffic.embedded import Directory, EmbeddedRegistry
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry
from tests import virtual_time
from tests.running.ports import free_port
from tests.traffic import pods, real, registries, zookeeper
from tests.traffic.pods import Client, Network, Pod, percentile

PODS = 300
SURGE = 40


@dataclass
class Outcome:
    client: Client
    delays_s: Sequence[float]
    """From the first connection that an application accepts until its entry is written."""
    left: set[str]
    """Addresses in the registry at the end that are not those of new pods, and the reverse."""
    late: int
    """Old pods that were told to end before their entry was gone."""


async def _rolled(seed: int, *, delay_s: float = 0.0, faults: bool = False) -> Outcome:
    draw, directory, network = random.Random(seed), Directory(delay_s=delay_s), Network()
    numbers = itertools.count(1)

    def made() -> Pod:
        number = next(numbers)
        return pods.pod(
            number,
            network.application(number),
            EmbeddedRegistry(directory),
            ask=network.ask,
            starts_s=draw.uniform(0.5, 20.0),
        )

    old, new = [[made() for _ in range(PODS)] for _ in range(2)]
    async with asyncio.TaskGroup() as group:
        for each in old:
            group.create_task(each.start())
    reader = EmbeddedRegistry(directory)
    reader.watch(lambda _lost: None)
    client = Client(reader, network.connect)

    async def lose() -> None:
        while True:
            await asyncio.sleep(draw.uniform(0.1, 2.0))
            directory.expire(draw.choice([*directory.heard_s]))

    async with client.running(), contextlib.AsyncExitStack() as stack:
        if faults:
            await stack.enter_async_context(pods.Beside(lose()))
        await pods.roll(old, new, SURGE)
        await asyncio.sleep(2.0)
    left = {each.ip for each in await reader.members(registries.FOLDER)}
    delays_s = [each.listed_s - each.ready_s for each in (*old, *new)]
    for each in new:
        await each.crash()
    await reader.close()
    late = sum(each.listed_at_end is not False for each in old)
    return Outcome(client, delays_s, left ^ {each.application.ip for each in new}, late)


def test_300_pods_are_rolled_without_a_refused_request() -> None:
    outcome = virtual_time.run(_rolled(1))
    assert outcome.client.refused == []
    assert outcome.client.asked > 10_000
    assert outcome.left == set()
    assert outcome.late == 0
    assert percentile(outcome.delays_s, 0.99) < 1.0


def test_lost_sessions_and_a_slow_registry_refuse_no_request_in_a_roll() -> None:
    outcome = virtual_time.run(_rolled(2, delay_s=0.3, faults=True))
    assert outcome.client.refused == []
    assert outcome.client.asked > 10_000
    assert outcome.client.empty == 0
    assert outcome.late == 0


@pytest.mark.parametrize("drain_s", [0.0])
def test_without_time_to_notice_requests_are_refused(drain_s: float) -> None:
    """The control: a client that reads every second needs a drain of more than that."""

    async def main() -> list[str]:
        directory, network = Directory(), Network()
        old, new = [
            [
                pods.pod(
                    number,
                    network.application(number),
                    EmbeddedRegistry(directory),
                    ask=network.ask,
                    drain_s=drain_s,
                )
                for number in numbers
            ]
            for numbers in (range(1, 6), range(6, 11))
        ]
        for each in old:
            await each.start()
        reader = EmbeddedRegistry(directory)
        reader.watch(lambda _lost: None)
        client = Client(reader, network.connect)
        async with client.running():
            await pods.roll(old, new, 5)
            await asyncio.sleep(2.0)
        for each in new:
            await each.crash()
        await reader.close()
        return client.refused

    assert virtual_time.run(main())


REAL_PODS = 300
REAL_DRAIN_S = 3.0
"""More than the second between two reads of the client, with room for a busy machine."""


@pytest.mark.e2e
@pytest.mark.long
def test_300_pods_are_rolled_with_zookeeper_and_sockets(tmp_path: Path) -> None:
    """Each pod has a session of its own, and its probe and the requests use sockets."""
    port = free_port()

    async def main() -> None:
        draw, numbers = random.Random(3), itertools.count(1)

        def made() -> Pod:
            number = next(numbers)
            return pods.pod(
                number,
                real.application(number, port),
                ZooKeeperRegistry(Server(hosts)),
                drain_s=REAL_DRAIN_S,
                starts_s=draw.uniform(0.2, 2.0),
            )

        async with zookeeper.serving(tmp_path) as server:
            hosts = server.hosts
            old, new = [[made() for _ in range(REAL_PODS)] for _ in range(2)]
            await pods.start_in_turn(old, SURGE)
            reader = ZooKeeperRegistry(Server(hosts))
            reader.watch(lambda _lost: None)
            await registries.until(lambda: reader.up)
            client = Client(reader, real.request)
            async with client.running():
                await pods.roll(old, new, SURGE)
                await asyncio.sleep(2.0)
            left = {each.ip for each in await reader.members(registries.FOLDER)}
            for each in new:
                await each.crash()
                await each.application.end()
            await reader.close()
        delays_s = [each.listed_s - each.ready_s for each in (*old, *new)]
        # A busy machine stretches the delay, so the test above holds its bound in virtual time.
        p99_s = percentile(delays_s, 0.99)
        print(f"{client.asked} requests, {len(client.refused)} refused, p99 {p99_s:.3f} s")
        assert client.refused == []
        assert not any(each.listed_at_end for each in old)
        assert client.asked > 1000
        assert left == {each.application.ip for each in new}

    asyncio.run(main())
