"""The registry in memory and ZooKeeper as a contract needs them: made to lose sessions, to go away,
and with entries of other clients."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

from kazoo.client import KazooClient

from federator.runtime.traffic import members
from federator.runtime.traffic.embedded import Directory, EmbeddedRegistry, RegistryNode
from federator.runtime.traffic.members import Member
from federator.runtime.traffic.registry import Login, Registry
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry
from tests import virtual_time
from tests.traffic import zookeeper

FOLDER = "/discovery/search/prod"
WAIT_S = 60.0


def member(number: int = 1, *, weight: int = 1, port: int = 8080, folder: str = FOLDER) -> Member:
    """The entry of a pod, by its number."""
    uid = hashlib.sha256(str(number).encode()).hexdigest()[:32]
    ip = f"10.0.{number // 250}.{number % 250 + 1}"
    return Member(folder, uid, ip, port, weight, {"cluster": "a"})


async def until(ready: Callable[[], bool]) -> None:
    """Returns when it holds. Fails after 20 s."""
    async with asyncio.timeout(WAIT_S):
        while not ready():  # noqa: ASYNC110 - a thread of another library changes it
            await asyncio.sleep(0.02)


class World(Protocol):
    """One server and its sessions."""

    async def registry(
        self,
        login: Login | None = None,
        session_s: float = 5.0,
        changed: Callable[[bool], None] = lambda _lost: None,
    ) -> Registry:
        """A session that is connected; `changed` hears of it as `Registry.watch` says."""

    async def nodes(self, folder: str) -> dict[str, bytes]:
        """All that is in a folder, as another client sees it."""

    async def plant(self, folder: str, node: str, data: bytes) -> None:
        """Another client writes an entry that stays."""

    async def expire(self, registry: Registry) -> None:
        """The server ends a session."""

    async def leave(self) -> None:
        """The server goes away."""

    async def come_back(self) -> None: ...

    async def close(self) -> None: ...


Scenario = Callable[[World], Coroutine[Any, Any, None]]


class InMemory:
    """`World` on virtual time."""

    def __init__(self) -> None:
        self.directory = Directory()

    async def registry(
        self,
        login: Login | None = None,
        session_s: float = 5.0,
        changed: Callable[[bool], None] = lambda _lost: None,
    ) -> Registry:
        registry = EmbeddedRegistry(self.directory, login, session_s)
        registry.watch(changed)
        await until(lambda: registry.up)
        return registry

    async def nodes(self, folder: str) -> dict[str, bytes]:
        self.directory.sweep()
        return {n: entry.data for n, entry in self.directory.folders.get(folder, {}).items()}

    async def plant(self, folder: str, node: str, data: bytes) -> None:
        self.directory.folders.setdefault(folder, {})[node] = RegistryNode(data)

    async def expire(self, registry: Registry) -> None:
        self.directory.expire(registry.session)

    async def leave(self) -> None:
        self.directory.away = True

    async def come_back(self) -> None:
        self.directory.come_back()

    async def close(self) -> None: ...


class Real:
    """`World` with a server of its own."""

    def __init__(self, server: zookeeper.Server) -> None:
        self.server = server
        self._made: list[ZooKeeperRegistry] = []
        self._other: Any = None

    async def registry(
        self,
        login: Login | None = None,
        session_s: float = 5.0,
        changed: Callable[[bool], None] = lambda _lost: None,
    ) -> Registry:
        secret = None
        if login is not None:
            secret = self.server.folder / f"{login.name}.secret"
            secret.write_text(f"{login.name}:{login.secret}\n", encoding="utf-8")
        registry = ZooKeeperRegistry(Server(self.server.hosts, session_s, secret))
        self._made.append(registry)
        registry.watch(changed)
        await until(lambda: registry.up)
        return registry

    def _client(self) -> Any:
        if self._other is None:
            self._other = KazooClient(self.server.hosts, timeout=5.0)
            self._other.start()
        return self._other

    async def nodes(self, folder: str) -> dict[str, bytes]:
        def read() -> dict[str, bytes]:
            client = self._client()
            if client.exists(folder) is None:
                return {}
            return {n: client.get(f"{folder}/{n}")[0] for n in client.get_children(folder)}

        return await asyncio.to_thread(read)

    async def plant(self, folder: str, node: str, data: bytes) -> None:
        await asyncio.to_thread(
            lambda: self._client().create(f"{folder}/{node}", data, makepath=True)
        )

    async def expire(self, registry: Registry) -> None:
        assert isinstance(registry, ZooKeeperRegistry)
        ids = registry._client.client_id

        def end() -> None:
            """A second connection of the session closes it."""
            twin = KazooClient(self.server.hosts, client_id=ids)
            twin.start()
            twin.stop()
            twin.close()

        await asyncio.to_thread(end)

    async def leave(self) -> None:
        await self.server.stop()

    async def come_back(self) -> None:
        await self.server.start()

    async def close(self) -> None:
        for registry in self._made:
            await registry.close()
        if self._other is not None:
            await asyncio.to_thread(self._other.stop)
            self._other.close()


def play(kind: str, folder: Path, scenario: Scenario) -> None:
    """Runs a scenario on one of the two registries."""
    if kind == "embedded":
        virtual_time.run(scenario(InMemory()))
        return

    async def main() -> None:
        async with zookeeper.serving(folder) as server, _closing(Real(server)) as world:
            await scenario(world)

    asyncio.run(main())


@contextlib.asynccontextmanager
async def _closing(world: World) -> AsyncIterator[World]:
    try:
        yield world
    finally:
        await world.close()


def read(nodes: dict[str, bytes], folder: str = FOLDER) -> list[Member]:
    """The members that a client makes of entries."""
    listed = (members.read(folder, node, data) for node, data in sorted(nodes.items()))
    return [each for each in listed if each is not None]
