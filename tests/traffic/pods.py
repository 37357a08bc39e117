"""Pods as the traffic part meets them, and the client that must never be refused: one driver for
virtual time with the registry in memory, and for real sockets with ZooKeeper."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from federator.runtime import asking
from federator.runtime.probes import Probe
from federator.runtime.traffic.members import Member
from federator.runtime.traffic.part import TrafficPart
from federator.runtime.traffic.registry import Registry, Unreachable
from federator.runtime.traffic.settings import EMBEDDED, Settings
from tests.traffic import registries

PROBE = {"httpGet": {"port": 8080, "path": "/ready"}, "periodSeconds": 5}


class Application(Protocol):
    """The program of a pod: it accepts connections from `start` to `end`."""

    ip: str
    port: int

    async def start(self) -> None: ...

    async def end(self) -> None: ...


@dataclass
class Network:
    """Which addresses accept connections, and which are ready, on virtual time."""

    accepting: set[str] = field(default_factory=set)
    unready: set[str] = field(default_factory=set)

    async def ask(self, probe: Probe, ip: str) -> str:
        """As `asking.ask`."""
        await asyncio.sleep(0.002)
        return "" if ip in self.accepting - self.unready else "its probe failed: refused"

    async def connect(self, member: Member) -> bool:
        await asyncio.sleep(0.001)
        return member.ip in self.accepting

    def application(self, number: int) -> "Simulated":
        return Simulated(self, f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}")


@dataclass
class Simulated:
    """`Application` without a socket."""

    network: Network
    ip: str
    port: int = 8080

    async def start(self) -> None:
        self.network.accepting.add(self.ip)

    async def end(self) -> None:
        self.network.accepting.discard(self.ip)


@dataclass
class Pod:
    """One pod: its sidecar runs before the application and ends after it, as a native one."""

    application: Application
    part: TrafficPart
    registry: Registry
    starts_s: float
    """How long the application takes until it accepts connections."""
    ready_s: float = 0.0
    listed_s: float = 0.0
    listed_at_end: bool | None = None
    """Whether its entry may still have been there when the application was told to end."""
    _sidecar: "asyncio.Task[None] | None" = None

    @property
    def listed(self) -> bool:
        return self.part.state().reason == "Serving"

    async def start(self) -> None:
        """Returns when the kubelet would see the pod as ready."""
        loop = asyncio.get_running_loop()
        self._sidecar = loop.create_task(self.part.run(), name=f"sidecar {self.application.ip}")
        await asyncio.sleep(self.starts_s)
        await self.application.start()
        self.ready_s = loop.time()
        while not self.part.state().ready:  # noqa: ASYNC110 - as a kubelet looks
            await asyncio.sleep(0.01)
        self.listed_s = loop.time()

    async def end(self) -> None:
        """As a kubelet: preStop, SIGTERM to the application, then to the sidecar."""
        await self.part.drain()
        self.listed_at_end = self.part.state().reason != "Gone"
        await self.application.end()
        await self.crash()

    async def crash(self) -> None:
        """Ends the sidecar alone."""
        assert self._sidecar is not None
        self._sidecar.cancel()
        await asyncio.gather(self._sidecar, return_exceptions=True)


def pod(
    number: int,
    application: Application,
    registry: Registry,
    *,
    ask: Callable[[Probe, str], Awaitable[str]] = asking.ask,
    drain_s: float = 15.0,
    starts_s: float = 1.0,
    state: Path | None = None,
) -> Pod:
    """A pod that has not started yet."""
    uid = registries.member(number).uid
    member = Member(registries.FOLDER, uid, application.ip, application.port)
    probe = {**PROBE, "httpGet": {"port": application.port, "path": "/ready"}}
    settings = Settings(member, {"web": Probe.of(probe)}, EMBEDDED, drain_s=drain_s)
    loop = asyncio.get_running_loop()
    part = TrafficPart(settings, registry, state, ask=ask, clock=loop.time)
    return Pod(application, part, registry, starts_s)


@dataclass
class Client:
    """Reads the entries every so often, and connects to one of those that it read last."""

    registry: Registry
    connect: Callable[[Member], Awaitable[bool]]
    reads_every_s: float = 1.0
    asks_every_s: float = 0.01
    asked: int = 0
    refused: list[str] = field(default_factory=list)
    empty: int = 0
    """Reads that showed no entry."""
    known: Sequence[Member] = ()
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    async def read(self) -> None:
        while True:
            try:
                self.known = await self.registry.members(registries.FOLDER)
                self.empty += not self.known
            except Unreachable:
                pass  # it goes on with what it knows
            await asyncio.sleep(self.reads_every_s)

    async def ask(self) -> None:
        while True:
            if self.known:
                member = self.draw.choice(self.known)
                self.asked += 1
                if not await self.connect(member):
                    now_s = asyncio.get_running_loop().time()
                    self.refused.append(f"{member.ip} at {now_s:.2f} s")
            await asyncio.sleep(self.asks_every_s)

    def running(self) -> AbstractAsyncContextManager[None]:
        return Beside(self.read(), self.ask())


class Beside:
    """Runs coroutines beside a block."""

    def __init__(self, *work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._running = [asyncio.ensure_future(each) for each in self._work]

    async def __aexit__(self, *_: object) -> None:
        for task in self._running:
            task.cancel()
        ended = await asyncio.gather(*self._running, return_exceptions=True)
        for outcome in ended:
            if isinstance(outcome, Exception):
                raise outcome


async def start_in_turn(fresh: Sequence[Pod], most: int) -> None:
    """Starts pods, at most so many at the same time."""
    free = asyncio.Semaphore(most)

    async def start(each: Pod) -> None:
        async with free:
            await each.start()

    async with asyncio.TaskGroup() as group:
        for each in fresh:
            group.create_task(start(each))


async def roll(old: Sequence[Pod], new: Sequence[Pod], surge: int) -> None:
    """Replaces pods as a Deployment does: `surge` more than asked for, none less."""
    free = asyncio.Semaphore(surge)
    waiting = list(old)

    async def replace(fresh: Pod) -> None:
        async with free:
            await fresh.start()
            await waiting.pop(0).end()

    async with asyncio.TaskGroup() as group:
        for each in new:
            group.create_task(replace(each))


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
