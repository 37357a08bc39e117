"""The traffic part with a real ZooKeeper that is killed, stopped, or that ends sessions."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from federator.runtime.traffic.registry import RegistrationRefused
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry
from tests.running.ports import free_port
from tests.traffic import pods, real, registries, zookeeper
from tests.traffic.pods import Pod
from tests.traffic.registries import FOLDER, Real, until

pytestmark = pytest.mark.e2e
SESSION_S = 2.0
PODS = 5


def play(folder: Path, scenario: Callable[[Real, list[Pod]], Awaitable[None]]) -> None:
    """Runs a scenario with pods that are registered."""

    async def main() -> None:
        port = free_port()
        async with zookeeper.serving(folder) as server:
            world = Real(server)
            running = [
                pods.pod(
                    number,
                    real.application(number, port),
                    ZooKeeperRegistry(Server(server.hosts, SESSION_S)),
                    drain_s=0.5,
                    starts_s=0.0,
                )
                for number in range(1, PODS + 1)
            ]
            try:
                await pods.start_in_turn(running, PODS)
                await until(lambda: all(each.listed for each in running))
                await scenario(world, running)
            finally:
                await server.stop()
                for each in running:
                    await each.crash()
                    await each.application.end()
                await world.close()

    asyncio.run(main())


async def entries(world: Real) -> set[str]:
    return {each.ip for each in registries.read(await world.nodes(FOLDER))}


def ready(running: list[Pod]) -> bool:
    return all(each.part.state().ready for each in running)


def test_pods_serve_on_while_zookeeper_is_killed_and_are_there_when_it_returns(
    tmp_path: Path,
) -> None:
    async def scenario(world: Real, running: list[Pod]) -> None:
        addresses = {each.application.ip for each in running}
        await world.leave()
        await until(lambda: {e.part.state().reason for e in running} == {"RegistryUnreachable"})
        for _ in range(50):
            await asyncio.sleep(SESSION_S / 50)
            assert ready(running)
            for each in running:
                assert await real.request(each.part.settings.member)
        await world.come_back()
        await until(lambda: all(each.listed and each.part._registry.up for each in running))
        assert await entries(world) == addresses
        assert ready(running)
        await running[0].end()
        assert await entries(world) == addresses - {running[0].application.ip}

    play(tmp_path, scenario)


def test_sessions_that_zookeeper_ends_are_replaced_and_no_pod_becomes_unready(
    tmp_path: Path,
) -> None:
    async def scenario(world: Real, running: list[Pod]) -> None:
        before = {each.registry.session for each in running}
        for each in running:
            await world.expire(each.registry)
        await until(
            lambda: all(
                each.listed and each.registry.session not in {"", *before} for each in running
            )
        )
        assert ready(running)
        assert await entries(world) == {each.application.ip for each in running}

    play(tmp_path, scenario)


def test_a_server_that_hangs_longer_than_a_session_makes_no_pod_unready(tmp_path: Path) -> None:
    async def scenario(world: Real, running: list[Pod]) -> None:
        process = world.server.process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: not any(each.registry.up for each in running))
        await asyncio.sleep(SESSION_S)
        assert ready(running)
        drain = asyncio.ensure_future(running[0].part.drain())
        os.kill(process.pid, signal.SIGCONT)
        await until(lambda: all(each.listed and each.registry.up for each in running[1:]))
        await drain
        await until(lambda: running[0].part.state().reason == "Gone")
        assert await entries(world) == {each.application.ip for each in running[1:]}
        assert ready(running[1:])

    play(tmp_path, scenario)


def test_a_secret_that_is_changed_is_shown_to_zookeeper_without_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with zookeeper.serving(tmp_path) as server:
            secret = tmp_path / "secret"
            registry = ZooKeeperRegistry(Server(server.hosts, SESSION_S, secret))
            registry.watch(lambda _lost: None)
            await until(lambda: registry.up)
            with pytest.raises(RegistrationRefused, match="cannot be read: No such file"):
                await registry.join(registries.member(1))
            secret.write_text("search:hunter2", encoding="utf-8")
            await registry.join(registries.member(1))
            secret.write_text("search:hunter2\nsearch:hunter3", encoding="utf-8")
            await registry.join(registries.member(2))
            later = ZooKeeperRegistry(Server(server.hosts, SESSION_S, secret))
            secret.write_text("nonsense", encoding="utf-8")
            with pytest.raises(RegistrationRefused, match="line 1 of the registry's secret") as bad:
                await registry.join(registries.member(3))
            assert "nonsense" not in str(bad.value)
            secret.write_text("search:hunter3", encoding="utf-8")
            later.watch(lambda _lost: None)
            await until(lambda: later.up)
            with pytest.raises(RegistrationRefused, match="may not write as search"):
                await later.join(registries.member(3))  # the folder is of the first login
            await registry.close()
            await later.close()

    asyncio.run(main())


def test_a_login_that_zookeeper_refuses_is_named(tmp_path: Path) -> None:
    properties = {"DigestAuthenticationProvider.enabled": "false"}

    async def main() -> None:
        async with zookeeper.serving(tmp_path, properties=properties) as server:
            secret = tmp_path / "secret"
            secret.write_text("search:hunter2", encoding="utf-8")
            registry = ZooKeeperRegistry(Server(server.hosts, SESSION_S, secret))
            registry.watch(lambda _lost: None)
            await until(lambda: registry._rejected)
            for _ in range(2):
                with pytest.raises(
                    RegistrationRefused, match="does not take the login search"
                ) as bad:
                    await registry.join(registries.member(1))
                assert "hunter2" not in str(bad.value)
            with pytest.raises(RegistrationRefused):
                await registry.members(FOLDER)
            await registry.close()

    asyncio.run(main())


def test_a_path_that_does_not_exist_is_said_to_be_missing(tmp_path: Path) -> None:
    async def main() -> None:
        async with zookeeper.serving(tmp_path) as server:
            registry = ZooKeeperRegistry(Server(f"{server.hosts}/none", SESSION_S))
            registry.watch(lambda _lost: None)
            await until(lambda: registry.up)
            with pytest.raises(
                RegistrationRefused, match="the path at the end of FEDERATOR_ZOOKEEPER does not"
            ):
                await registry.join(registries.member(1))
            await registry.close()

    asyncio.run(main())
