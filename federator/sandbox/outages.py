"""Cuts clusters of a sandbox off from its hub, and lets them return: what runs there runs on."""

import asyncio
import weakref
from dataclasses import dataclass, field

from federator.embedded.rest.inprocess import InProcessResponse
from federator.kube import errors
from federator.kube.wire.transport import Request, Response, Transport

HUB = "hub"


@dataclass
class Outages:
    """`wrap` belongs to a Federation; clusters are cut off from its hub."""

    _lost: set[str] = field(default_factory=set)
    _links: list["_Link"] = field(default_factory=list)

    def wrap(self, process: str, cluster: str, transport: Transport) -> Transport:
        """The transport of a process, with its cluster's outages if it is the hub's."""
        if process != HUB or cluster == "host":
            return transport
        link = _Link(cluster, transport, self._lost)
        self._links.append(link)
        return link

    async def lose(self, cluster: str) -> None:
        """From now on the cluster does not answer the hub."""
        self._lost.add(cluster)
        for link in self._links:
            if link.cluster == cluster:
                await link.reset()

    def give_back(self, cluster: str) -> None:
        """It answers again."""
        self._lost.discard(cluster)

    async def once(self, cluster: str, *, after_s: float, lasting_s: float) -> None:
        await asyncio.sleep(after_s)
        await self.lose(cluster)
        try:
            await asyncio.sleep(lasting_s)
        finally:
            self.give_back(cluster)


class _Link:
    """The hub's transport to one cluster."""

    def __init__(self, cluster: str, transport: Transport, lost: set[str]) -> None:
        self.cluster = cluster
        self._transport = transport
        self._lost = lost
        self._open: weakref.WeakSet[InProcessResponse] = weakref.WeakSet()

    async def request(self, request: Request) -> Response:
        if self.cluster in self._lost:
            raise errors.Unreachable(f"{self.cluster} is cut off")
        response = await self._transport.request(request)
        if isinstance(response, InProcessResponse):
            self._open.add(response)
        return response

    async def reset(self) -> None:
        """Ends what is open."""
        for response in list(self._open):
            await response.close()

    async def close(self) -> None:
        await self._transport.close()
