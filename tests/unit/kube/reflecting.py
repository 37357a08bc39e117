"""A reflector on a scripted server, for tests of what its store holds and what it asks for."""

import asyncio
import random
from typing import Any

from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from tests.unit.kube.scripted import (
    FOREVER,
    Answer,
    Script,
    stream,
)


class World:
    """A reflector on a script, its store, and every change it told about."""

    def __init__(self, script: Script, **options: Any) -> None:
        self.script = script
        self.store: Store[Any] = Store("things")
        self.changes: list[tuple[str, Any, Any]] = []
        options.setdefault("project", lambda obj: obj["value"] or 0)
        options.setdefault("clock", Clock(0.0))
        self.reflector: Reflector[Any] = Reflector(
            Client(script, "m1", rng=random.Random(1)),
            "v1",
            "things",
            self.store,
            on_change=options.pop(
                "on_change", lambda key, old, new: self.changes.append((key[1], old, new))
            ),
            rng=random.Random(2),
            **options,
        )

    async def runs(self, seconds: float) -> None:
        task = asyncio.create_task(self.reflector.run())
        await asyncio.sleep(seconds)
        broken = task.done()
        task.cancel()
        await asyncio.wait([task])
        assert not broken

    @property
    def rows(self) -> dict[str, Any]:
        return {key[1]: row for key, row in self.store.items().items()}

    @property
    def lists(self) -> int:
        return sum(("watch", "true") not in request.query for request in self.script.requests)


def quiet() -> Answer:
    return stream(FOREVER)
