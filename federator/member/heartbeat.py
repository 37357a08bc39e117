"""The lease that says a member process lives: renewed every few seconds, and the only thing here that is written
without cause.

The hub counts the member process as silent when the lease stops moving; its own clock is not believed, so the time
in it is only for people. The lease is a witness too: a server that has an older one than was answered before was
restored from a backup, however much has been written there since.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.store import version_number
from federator.member.options import MemberOptions
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

LEASE = "federator-member"


class Heartbeat:
    """Renews the lease until cancelled. `on_rewind()`: the server's history went back; told each time it is seen.
    `on_return()`: the server answers again after it did not."""

    def __init__(
        self,
        client: Client,
        *,
        options: MemberOptions,
        clock: Clock,
        identity: str,
        on_rewind: Callable[[], None],
        on_return: Callable[[], None],
    ) -> None:
        self._client = client
        self._options = options
        self._clock = clock
        self._identity = identity
        self._ref = ObjectRef("coordination.k8s.io/v1", "leases", options.system_namespace, LEASE, "Lease")
        self._on_rewind = on_rewind
        self._on_return = on_return
        self.renewed = 0
        self._version = ""
        """Of the lease as the last renewal left it."""
        self._trouble = ""

    async def run(self) -> None:
        while True:
            try:
                await self._renew()
                self.renewed += 1
                if self._trouble:
                    self._trouble = ""
                    self._on_return()
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
        lease: Mapping[str, Any] | None
        try:
            lease = await self._write(spec)
        except errors.NotFound:
            lease = await self._make(spec)
        if lease is not None:
            self._version = lease["metadata"]["resourceVersion"]

    async def _write(self, spec: Mapping[str, object]) -> Mapping[str, Any]:
        if self._version:
            try:
                return await self._client.patch(
                    self._ref, {"metadata": {"resourceVersion": self._version}, "spec": spec}
                )
            except errors.Conflict:
                # A patch of nothing tells what is there; to get a lease it has no right, and needs none.
                found = (await self._client.patch(self._ref, {}))["metadata"]["resourceVersion"]
                if 0 <= version_number(found) < version_number(self._version):
                    self._on_rewind()
        return await self._client.patch(self._ref, {"spec": spec})

    async def _make(self, spec: Mapping[str, object]) -> Mapping[str, Any] | None:
        """The lease, and the namespace that it lives in; None when somebody else has made it meanwhile."""
        name = self._options.system_namespace
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": name},
            "spec": {**spec, "acquireTime": spec["renewTime"]},
        }
        try:
            return await self._client.create(self._ref, lease)
        except errors.AlreadyExists:
            return None
        except errors.NotFound:
            await self._client.create(ObjectRef("v1", "namespaces", "", name, "Namespace"), namespace)
            return await self._client.create(self._ref, lease)
