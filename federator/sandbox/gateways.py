"""A stand-in for the controllers of the Gateway API and of the Multi-Cluster Services API, where a
fleet file asks for them (`gateway` of a member): a client of one embedded cluster, which also
defines their kinds there. It takes every HTTPRoute for the Gateways that it names. There is no
traffic.
"""

import asyncio
import random
from typing import Any, Final

from federator.api import raw
from federator.kinds.natives import NATIVES
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.supervisor import Supervisor
from federator.kube.control.work_queue import WorkQueue
from federator.kube.store import Key, Store
from federator.kube.watch.reflector import Reflector
from federator.model.steps import ObjectRef
from federator.sandbox import operators

ROUTE: Final = "HTTPRoute"
KINDS: Final = (ROUTE, "ServiceExport")
CONTROLLER: Final = "embedded.federator/gateways"


def definitions() -> list[dict[str, Any]]:
    return [operators.definition(kind) for kind in KINDS]


class Gateways:
    """The stand-in of one cluster. `run` until cancelled."""

    def __init__(self, client: Client, *, clock: Clock, rng: random.Random) -> None:
        self._client, self._clock, self._rng = client, clock, rng
        self._routes: Store[dict[str, Any]] = Store(ROUTE)
        self._queue: WorkQueue[Key] = WorkQueue("routes", rng=rng)

    async def run(self) -> None:
        await operators.define(self._client, definitions())
        row = NATIVES[ROUTE]
        reflector = Reflector(
            self._client,
            row.api_version,
            row.plural,
            self._routes,
            project=lambda obj: obj,
            on_change=lambda key, old, new: self._queue.add(key),
            clock=self._clock,
            rng=self._rng,
        )
        async with Supervisor("gateways", rng=self._rng) as supervisor:
            supervisor.start("reflector", reflector.run)
            supervisor.start("routes", self._queue.run, self._take, 1)
            await asyncio.Event().wait()

    async def _take(self, key: Key) -> None:
        """Says for each Gateway that a route names that it is taken."""
        obj = self._routes.get(key)
        if obj is None:
            return
        generation = raw.integer(obj, "metadata", "generation")
        named = raw.objects(obj, "spec", "parentRefs")
        shown = raw.objects(obj, "status", "parents")
        if [parent.get("parentRef") for parent in shown] == named and all(
            raw.integer(raw.condition({"status": parent}, "Accepted"), "observedGeneration")
            == generation
            for parent in shown
        ):
            return
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "",
                "observedGeneration": generation,
                "lastTransitionTime": self._clock.rfc3339(),
            }
            for kind in ("Accepted", "ResolvedRefs")
        ]
        parents = [
            {"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions}
            for parent in named
        ]
        row = NATIVES[ROUTE]
        ref = ObjectRef(row.api_version, row.plural, key[0], key[1], ROUTE)
        try:
            await self._client.patch(ref, {"status": {"parents": parents}}, subresource="status")
        except errors.NotFound:
            return
