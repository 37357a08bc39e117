"""The lease that says a member process lives: renewed every few seconds, and the only thing here that is written
without cause.

The hub counts the member process as silent when the lease stops moving; its own clock is not believed, so the time
in it is only for people.
"""

import asyncio
import logging

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.member.options import MemberOptions
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

LEASE = "federator-member"


class Heartbeat:
    """Renews the lease until cancelled."""

    def __init__(self, client: Client, *, options: MemberOptions, clock: Clock, identity: str) -> None:
        self._client = client
        self._options = options
        self._clock = clock
        self._identity = identity
        self._ref = ObjectRef("coordination.k8s.io/v1", "leases", options.system_namespace, LEASE, "Lease")
        self.renewed = 0
        self._trouble = ""

    async def run(self) -> None:
        while True:
            try:
                await self._renew()
                self.renewed += 1
                self._trouble = ""
            except errors.ApiError as trouble:
                # The next beat is the next try; the hub hears of it by the lease, people here by one line.
                if str(trouble) != self._trouble:
                    self._trouble = str(trouble)
                    log.warning("the lease is not renewed: %s", trouble)
                await asyncio.sleep(self._options.heartbeat_s / 4)
                continue
            await asyncio.sleep(self._options.heartbeat_s)

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(4 * self._options.heartbeat_s),
            "renewTime": self._clock.rfc3339_micro(),
        }
        try:
            await self._client.patch(self._ref, {"spec": spec})
        except errors.NotFound:
            await self._make(spec)

    async def _make(self, spec: dict[str, object]) -> None:
        """The lease, and the namespace that it lives in."""
        name = self._options.system_namespace
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": name},
            "spec": {**spec, "acquireTime": spec["renewTime"]},
        }
        try:
            await self._client.create(self._ref, lease)
        except errors.AlreadyExists:
            return
        except errors.NotFound:
            await self._client.create(ObjectRef("v1", "namespaces", "", name, "Namespace"), namespace)
            await self._client.create(self._ref, lease)
