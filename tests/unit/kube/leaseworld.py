"""An embedded host with one Lease, candidates for it, and the troubles that can come between
them.
"""

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.leader.elector import Elector, LeaseLost
from federator.kube.leader.leader_gate import behind_gate
from federator.kube.leader.lease import LeaseOptions
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from tests.unit.kube.scripted import FOREVER, Answer, status

EPOCH_S = 1_790_000_000.0
NAMESPACE = "federator-system"
LEASE = ObjectRef("coordination.k8s.io/v1", "leases", NAMESPACE, "hub", "Lease")
LEDGER = ObjectRef("v1", "configmaps", "default", "ledger", "ConfigMap")
FIRST_S = 10.5
"""Where no Lease is, a candidate waits a renew deadline: somebody may lead whose Lease was deleted.
"""
LONGEST_S = 17.0
"""A lease runs out, and a candidate looks at it once more in each retry period: then somebody
leads.
"""
TROUBLES = ("reset", "hang", "html", "busy", "lost", "late", "slow")


class Troubled:
    """A transport in one of the troubles, or in none ("")."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.trouble = ""
        self.delay_s = 20.0
        self.writes: list[tuple[float, Request]] = []
        self.late: list[asyncio.Task[Response]] = []

    async def request(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time()
        match self.trouble:
            case "reset":
                raise errors.Unreachable("connection reset by peer")
            case "hang":
                await asyncio.sleep(FOREVER)
            case "html":
                return Answer(
                    502, (b"<html><body>Bad Gateway</body></html>",), {"content-type": "text/html"}
                )
            case "busy":
                return status(503, "ServiceUnavailable")
            case "lost" if request.method != "GET":
                await self._noted(now, request)
                raise errors.Unreachable("the reply was lost")
            case "slow":
                await asyncio.sleep(self.delay_s)
            case "late":
                self.late.append(asyncio.create_task(self._afterwards(request)))
                await asyncio.sleep(FOREVER)
        return await self._noted(now, request)

    async def _noted(self, now: float, request: Request) -> Response:
        response = await self.inner.request(request)
        if request.method != "GET" and response.status < 300:
            self.writes.append((now, request))
        return response

    async def _afterwards(self, request: Request) -> Response:
        await asyncio.sleep(self.delay_s)
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


class ShiftedClock(Clock):
    """A machine of its own: its wall clock may jump, and `blocked_s` have passed while its loop
    could not run.
    """

    __slots__ = ("blocked_s",)

    def __init__(self, wall_epoch_s: float = EPOCH_S) -> None:
        super().__init__(wall_epoch_s)
        self.blocked_s = 0.0

    def elapsed(self) -> float:
        return self.monotonic() + self.blocked_s


class Candidate:
    """One process that writes into the ledger for as long as it leads."""

    def __init__(
        self,
        host: EmbeddedCluster,
        name: str,
        *,
        rng: random.Random,
        options: LeaseOptions | None = None,
        recampaign: bool = False,
    ) -> None:
        self.name = name
        self.wire = Troubled(host.transport())
        self.clock = ShiftedClock()
        self.client = Client(self.wire, "host", rng=rng)
        self.elector = Elector(
            self.client,
            namespace=NAMESPACE,
            name=LEASE.name,
            identity=name,
            options=options or LeaseOptions(),
            clock=self.clock,
            rng=rng,
            recampaign=recampaign,
        )
        self.writer = behind_gate(self.client, lambda: self.elector.leading)
        self.terms: list[int] = []
        self.began: list[float] = []
        self.ended: list[float] = []
        self.refused = 0
        self.task: asyncio.Task[None] | None = None

    def start(self) -> "Candidate":
        self.task = asyncio.create_task(self.elector.lead(self.work), name=self.name)
        return self

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait([self.task])

    async def kill(self) -> None:
        """No farewell: what it says on its way out is not heard."""
        self.wire.trouble = "reset"
        await self.stop()

    def died_of(self) -> BaseException | None:
        if self.task is None or not self.task.done() or self.task.cancelled():
            return None
        return self.task.exception()

    @property
    def leading(self) -> bool:
        return self.elector.leading

    async def work(self, term: int) -> None:
        self.terms.append(term)
        self.began.append(self.clock.monotonic())
        try:
            while True:
                await self.write(term)
                await asyncio.sleep(0.3)
        finally:
            self.ended.append(self.clock.monotonic())

    async def write(self, term: int) -> None:
        try:
            await self.writer.patch(LEDGER, {"data": {"by": self.name, "term": str(term)}})
        except errors.NotLeading:
            self.refused += 1
        except errors.ApiError:
            return


class LeaseWorld:
    """The host, as a person with kubectl sees it."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.host = EmbeddedCluster(
            "host", clock=Clock(EPOCH_S), rng=random.Random(seed), workloads=False
        )
        self.client = Client(self.host.transport(), "host")
        self.candidates: list[Candidate] = []

    async def begin(self, *names: str, **options: Any) -> list[Candidate]:
        with contextlib.suppress(errors.AlreadyExists):
            ledger = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "ledger", "namespace": "default"},
            }
            await self.client.create(LEDGER, ledger)
        return [self.candidate(name, **options).start() for name in names]

    def candidate(self, name: str, **options: Any) -> Candidate:
        made = Candidate(self.host, name, rng=random.Random(self.rng.getrandbits(64)), **options)
        self.candidates.append(made)
        return made

    async def lease(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = (await self.client.get(LEASE))["spec"]
        return spec

    async def edit(self, **spec: Any) -> None:
        await self.client.patch(LEASE, {"spec": spec})

    async def delete(self) -> None:
        found = await self.client.get(LEASE)
        await self.client.delete(LEASE, uid=found["metadata"]["uid"])

    def leaders(self) -> list[str]:
        return [one.name for one in self.candidates if one.leading]

    async def until(self, name: str, within_s: float) -> float:
        """Seconds until this candidate leads."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while name not in self.leaders():
            if loop.time() > begun + within_s:
                raise AssertionError(
                    f"{name} does not lead after {within_s} s; leaders: {self.leaders()}"
                )
            await asyncio.sleep(0.05)
        return loop.time() - begun

    async def end(self) -> None:
        for one in self.candidates:
            if one.task is not None and not one.task.done():
                await one.stop()
            for task in one.wire.late:
                task.cancel()
            died = one.died_of()
            if died is not None and not isinstance(died, LeaseLost):
                raise died
