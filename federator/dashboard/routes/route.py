"""What a page is asked with, what it returns, and its row in the table of addresses."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from federator.dashboard.sessions import Session
from federator.dashboard.sources.changes import Topic
from federator.dashboard.sources.fleet import FleetCache
from federator.dashboard.sources.leader import Leader
from federator.dashboard.sources.prometheus import Prometheus
from federator.dashboard.sources.rights import Rights
from federator.dashboard.sources.trend import Trend
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model.errors import FieldError
from federator.process import webpaths

T = TypeVar("T")


class Compute(Protocol):
    """Calls a function that takes long next to the event loop."""

    def __call__(self, work: Callable[..., T], /, *arguments: Any) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Sources:
    """What pages are made from."""

    fleet: FleetCache
    rights: Rights
    leader: Leader
    host: Client
    clock: Clock
    compute: Compute
    simulations: Path | None
    """The folder with reports of simulations."""
    trend: Trend
    prometheus: Prometheus | None = None
    """None where no address is set."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader asks for."""

    reader: Session
    path: str
    given: Mapping[str, str]
    """Parts of the path by name."""
    parameters: Mapping[str, str]
    form: Mapping[str, str] | None = None
    """The fields of a form that its page has sent; None for a page that is read."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page, before it is HTML or JSON."""

    title: str
    view: Mapping[str, Any]
    status: int = 200
    notes: tuple[str, ...] = ()
    """Sentences about what this reader is not shown."""
    location: str = ""
    """Of a form that was done: the page that follows, which begins with `view["done"]`."""


class RequestRefused(Exception):
    """There is no such page, or not for this reader: an HTTP status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Route:
    """One row: an address -> what it shows."""

    path: str
    show: Callable[[Sources, Request], Awaitable[Shown]]
    template: str
    navigation: str = ""
    """Its title in the navigation; "" for a page that is reached from others."""
    section: str = ""
    """The path of the navigation's entry that it belongs to; "" for its own."""
    refreshes: bool = True
    """Whether an open page renews itself."""
    is_list: bool = False
    """A list checks its own parameters."""
    parameters: frozenset[str] = frozenset()
    """Those of a page that is no list."""
    live: Callable[[Sources, Request], Awaitable[frozenset[Topic]]] | None = None
    """What an open page waits for to renew itself; None for a page that does so now and then."""
    form_max: int = 0
    """The longest form that it takes by POST, in bytes; 0 for a page that is only read."""

    def check(self, given: Iterable[str], common: frozenset[str]) -> None:
        """Raises FieldError for a parameter that the page does not have."""
        others = sorted(set(given) - common - self.parameters)
        if others and not self.is_list:
            has = ", ".join(sorted(self.parameters)) or "none"
            raise FieldError(others[0][:40], f"there is no such parameter; this page has {has}")

    def match(self, path: str) -> dict[str, str] | None:
        """The parts of a percent-encoded path by name; None when it is another page."""
        return webpaths.matched(self.path, path)
