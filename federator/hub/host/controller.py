"""What the controllers of a hub have in common: the hub's memory, the host, the clock.

The hub's process makes one `Tools` for all of them.
"""

import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from federator.hub.cache.state import HubState
from federator.hub.host.documents import Documents
from federator.hub.host.events import Events
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.kube.control.work_queue import WorkQueue
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector


@dataclass(frozen=True, slots=True)
class Tools:
    """What all controllers of one hub are made from."""

    state: HubState
    applier: Applier
    """Writes to the host; its client reaches the host behind the leader gate."""
    documents: Documents
    events: Events
    clock: Clock
    rng: random.Random


class Controller:
    """One that reads the hub's memory and writes to the host."""

    def __init__(self, tools: Tools) -> None:
        self.tools, self.state, self.clock, self.rng = tools, tools.state, tools.clock, tools.rng
        self.applier, self.host = tools.applier, tools.applier.client
        self.documents, self.events = tools.documents, tools.events

    def new_queue(
        self, name: str, group: Callable[[Any], Hashable] | None = None
    ) -> WorkQueue[Any]:
        """A queue under this name in the metrics."""
        return WorkQueue(name, rng=self.rng, group=group, metrics=self.state.metrics)

    def reflector(
        self, api_version: str, plural: str, store: Store[Any], **more: Any
    ) -> Reflector[Any]:
        """A reflector of objects of the host; `more`: how it reads, what it calls on changes."""
        clock, rng, metrics = self.clock, self.rng, self.state.metrics
        return Reflector(
            self.host, api_version, plural, store, clock=clock, rng=rng, metrics=metrics, **more
        )
