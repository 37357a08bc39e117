"""What a row of the table of faults is: something that befalls single requests, or an episode in
the world.

Rows themselves live by subject in the other files of this folder; `table` puts them together.
"""

import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from federator.embedded.server import EmbeddedCluster
from federator.kube.client import Client
from federator.kube.wire.transport import Request, Response, Transport
from federator.sandbox.federation import Federation
from tests.faults.clocks import ProcessClock
from tests.faults.links import Links
from tests.faults.lives import Life

HUB = "hub"


def is_hub(process: str) -> bool:
    """Whether the process is a hub (`hub`, `hub-0`, ...)."""
    return process == HUB or process.startswith("hub-")


def plural_of(path: str) -> tuple[str, str]:
    """(resource, subresource) of a path that names an object or a collection."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return (parts[0] if parts else ""), (parts[2] if len(parts) > 2 else "")


@dataclass(frozen=True, slots=True)
class Sending:
    """One request on its way: who sends it, and to which API server (`host` or a member's name)."""

    process: str
    cluster: str
    request: Request

    @property
    def watches(self) -> bool:
        return ("watch", "true") in self.request.query

    @property
    def reads(self) -> bool:
        return self.request.method in ("GET", "HEAD") and not self.watches

    @property
    def lists(self) -> bool:
        """The first page of a list, as our client asks for it."""
        asked = {name for name, _ in self.request.query}
        return self.reads and "limit" in asked and "continue" not in asked

    @property
    def writes(self) -> bool:
        return self.request.method not in ("GET", "HEAD")

    @property
    def changes(self) -> bool:
        """A write to an object that is there."""
        return self.request.method in ("PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Box:
    """What stands before an API server for a while and answers in its place: a proxy, a portal, a
    webhook.

    `how` answers the requests that it befalls; it may ask the server behind it, with the same
    request or not.
    """

    befalls: Callable[[Sending], bool]
    how: Callable[[Sending, Transport], Awaitable[Response]]


class Boxes:
    """All boxes that stand now, the newest first in the way of a request."""

    def __init__(self) -> None:
        self._standing: list[Box] = []

    @contextlib.contextmanager
    def standing(self, box: Box) -> Iterator[None]:
        """The box stands while this is entered."""
        self._standing.append(box)
        try:
            yield
        finally:
            self._standing.remove(box)

    def befalling(self, sending: Sending) -> Box | None:
        """The box that answers this request."""
        return next((box for box in reversed(self._standing) if box.befalls(sending)), None)


@dataclass(frozen=True, slots=True)
class Injection:
    """What a fault has to work with: the request it was chosen for, and the way on."""

    request: Request
    inner: Transport
    life: Life
    rng: random.Random


@dataclass(frozen=True, slots=True)
class RequestFault:
    """Befalls single requests, by chance or by count. It heals with the end of the schedule."""

    name: str
    number: str
    """In the list of faults that the federation must survive."""
    where: str
    """Which requests, in words."""
    befalls: Callable[[Sending], bool]
    how: Callable[[Injection], Awaitable[Response]]
    hub_per_mille: int
    """The highest chance in a thousand requests of a hub that it can befall."""
    member_per_mille: int


class Stage(Protocol):
    """The world as an episode sees it."""

    federation: Federation
    links: Links
    boxes: Boxes
    """What stands before API servers and answers in their place."""

    @property
    def processes(self) -> Sequence[str]:
        """Every process by name, also those that are down: hubs first, then `member-NAME`."""
        ...

    @property
    def hubs(self) -> Sequence[str]: ...
    @property
    def members(self) -> Sequence[str]: ...
    def life(self, process: str) -> Life:
        """The present life of a process, or its last one."""
        ...

    def leader(self) -> str:
        """The hub that acts; "" while there is none."""
        ...

    def kill(self, process: str) -> None:
        """SIGKILL. The process starts again by itself, unless it is held down."""
        ...

    def hold_down(self, process: str) -> None:
        """SIGKILL, and it stays down until `let_up`."""
        ...

    def let_up(self, process: str) -> None: ...
    def clock(self, owner: str) -> ProcessClock:
        """The wall clock of a process or of a cluster (`host`, a member's name): it can jump and
        drift."""
        ...

    def user(self, cluster: str) -> Client:
        """An administrator's own connection, without faults."""
        ...

    def fresh(self, cluster: str) -> EmbeddedCluster:
        """A new, empty cluster like the named one once was: our definitions, its machines, another
        identity. Its controllers run."""
        ...

    def facing(self, cluster: str) -> EmbeddedCluster:
        """What processes find at the address of a cluster: itself, unless something else was put
        there."""
        ...

    async def put(self, cluster: str, served: EmbeddedCluster) -> None:
        """From now on processes find this at the address; connections to what was there break. A
        user still finds the cluster that belongs there."""
        ...

    async def replace(self, member: str, served: EmbeddedCluster) -> None:
        """This is the member of that name from now on, for everybody; what was it is gone."""
        ...

    def say(self, text: str) -> None:
        """Adds a line to the trace."""
        ...

    def happened(self, fault: str) -> None:
        """Counts a fault as fired: called when it has had an effect, not when it was merely meant
        to have one."""
        ...


@dataclass(frozen=True, slots=True)
class Episode:
    """Something that happens in the world for a while.

    `befall(stage, rng)` does it on entering and heals it on leaving; it may also heal earlier by
    itself. What it needs to know beyond that it draws from `rng`.
    """

    name: str
    number: str
    where: str
    heals: str
    """When it is over, in words."""
    befall: Callable[[Stage, random.Random], AbstractAsyncContextManager[None]]
    lasts_s: tuple[float, float]
    """Shortest and longest time from entering to leaving, in virtual seconds."""


Fault = RequestFault | Episode
