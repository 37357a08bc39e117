"""An embedded host with one Lease, candidates for it, and the troubles that can come between
them.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any

from federator.embedded.server import EmbeddedCluster
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.leader.elector import Elector, LeaseLost
from federator.kube.leader.leader_gate import behind_gate
from federator.kube.leader.lease import LeaseOptions
from federator.kube.wire.transport import Request, Response
from federator.model.steps import ObjectRef
from tests.faults import boxes
from tests.faults.links import Cut, Links, LinkTransport
from tests.faults.lives import Life
from tests.faults.requests import CannedResponse, refusal
from tests.faults.rows import Boxes
from tests.faults.schedules import Seeded
from tests.faults.transport import BoxTransport, FaultTransport
from tests.worlds import EPOCH_S, Wire

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
_GATEWAY = b"<html><body>Bad Gateway</body></html>"
TROUBLES = ("reset", "hang", "html", "busy", "lost", "late", "slow")


class Way:
    """From one candidate to the host, in one of the troubles or in none ("")."""

    def __init__(self, host: EmbeddedCluster, name: str, rng: random.Random) -> None:
        self.writes: list[tuple[float, Request]] = []
        """What the host took, with the time at which it came."""
        self._pair = name, "host"
        self._links, self._boxes = Links(), Boxes()
        self._lost = Seeded(rng, {"lost-reply": 1000})
        self._lost.stop()
        self._over = contextlib.ExitStack()
        life = Life(name)
        wire = Wire(host.transport(), life, self._heard)
        boxed = BoxTransport(wire, self._boxes, *self._pair)
        linked = LinkTransport(boxed, self._links, *self._pair)
        self.transport = FaultTransport(linked, self._lost, life, rng=rng)

    def _heard(self, request: Request, status: int) -> None:
        if request.method != "GET" and status < 300:
            self.writes.append((asyncio.get_running_loop().time(), request))

    async def befall(self, trouble: str, delay_s: float = 20.0) -> None:
        """From now on the way is in this trouble, and in no other."""
        self._over.close()
        match trouble:
            case "reset":
                await self._sever(Cut.REFUSED)
            case "hang":
                await self._sever(Cut.SILENT)
            case "late":
                await self._sever(Cut.SILENT, late=True)
                deliver = asyncio.get_running_loop().call_later(delay_s, self._over.close)
                self._over.callback(deliver.cancel)
            case "html":
                self._answer(lambda: CannedResponse(502, _GATEWAY, {"content-type": "text/html"}))
            case "busy":
                self._answer(lambda: refusal(503, "ServiceUnavailable", "busy"))
            case "lost":
                self._lost.stopped = False
                self._over.callback(self._lost.stop)
            case "slow":
                self._links.slow(*self._pair, delay_s)
                self._over.callback(self._links.slow, *self._pair, 0.0)

    async def _sever(self, how: Cut, *, late: bool = False) -> None:
        await self._links.sever(*self._pair, how, late=late)
        self._over.callback(self._links.heal, *self._pair, how, late=late)

    def _answer(self, answer: Callable[[], Response]) -> None:
        box = boxes.answering(lambda sending: True, answer)
        self._over.enter_context(self._boxes.standing(box))


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
        self.wire = Way(host, name, rng)
        self.clock = ShiftedClock()
        self.client = Client(self.wire.transport, "host", rng=rng)
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
        await self.wire.befall("reset")
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
            await one.wire.befall("")
            died = one.died_of()
            if died is not None and not isinstance(died, LeaseLost):
                raise died
