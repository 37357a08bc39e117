"""The lease that says a member process lives: renewed every few seconds, and the only thing here
that is written without cause.

The hub counts the member process as silent when the lease stops moving; its own clock is not
believed, so the time in it is only for people. The lease is a witness too: a server that has an
older one than was answered before was restored from a backup, however much has been written there
since.

Another lease, by which guarded shards run, is made here and renewed by the hub. It is made without
a renewal, so nothing runs by it yet. That it is there says that the process which makes pods here
gives them guards: an older one makes no such lease, the hub then finds nothing to renew, and no
guarded shard begins.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from federator import __version__
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.store import version_number
from federator.kube.wire.exchange import SMALL_LIMIT
from federator.member.options import MemberOptions
from federator.model import names
from federator.model.steps import ObjectRef
from federator.runtime import fencing

log = logging.getLogger(__name__)

LEASE = names.MEMBER_LEASE
FENCE_LOOK_S = 60.0
"""How often it is looked whether the lease of guarded shards is still there."""
FENCE_AGAIN_S = 5.0
"""The next try after one that failed."""
FENCE_GET_S = 10.0
FENCE_TOLD_AFTER = 2
"""Failures in a row: at first the namespace may not be there yet."""


class Heartbeat:
    """Renews the lease until cancelled. `on_rewind()`: the server's history went back; told each
    time it is seen. `on_return()`: the server answers again after it did not. `caught_up`: set when
    this life has looked at everything that it reports on; the lease says until then that it has
    not."""

    def __init__(
        self,
        client: Client,
        *,
        options: MemberOptions,
        clock: Clock,
        identity: str,
        on_rewind: Callable[[], None],
        on_return: Callable[[], None],
        caught_up: asyncio.Event,
    ) -> None:
        self._client = client
        self._options = options
        self._clock = clock
        self._identity = identity
        self._ref = ObjectRef(
            "coordination.k8s.io/v1", "leases", options.system_namespace, LEASE, "Lease"
        )
        self._on_rewind = on_rewind
        self._on_return = on_return
        self._caught_up = caught_up
        self.renewed = 0
        self._version = ""
        """Of the lease as the last renewal left it."""
        self._trouble = ""

    async def run(self) -> None:
        while True:
            try:
                said = await self._renew()
                self.renewed += 1
                if self._trouble:
                    self._trouble = ""
                    self._on_return()
            except errors.ApiError as trouble:
                # The next beat is the next try. The hub sees it by the lease, people by one line in
                # the log.
                if str(trouble) != self._trouble:
                    self._trouble = str(trouble)
                    log.warning("the lease is not renewed: %s", trouble)
                await asyncio.sleep(self._options.heartbeat_s / 4)
                continue
            await self._rest(until_caught_up=said)

    async def keep_fence(self) -> None:
        """Makes the lease of guarded shards wherever it is missing, until cancelled."""
        failures = 0
        while True:
            try:
                await self._ensure_fence()
                failures = 0
            except errors.ApiError as trouble:
                failures += 1
                if failures == FENCE_TOLD_AFTER:
                    log.warning("the lease %s cannot be made: %s", fencing.LEASE, trouble)
            await asyncio.sleep(FENCE_AGAIN_S if failures else FENCE_LOOK_S)

    async def _ensure_fence(self) -> None:
        ref = replace(self._ref, name=fencing.LEASE)
        try:
            await self._client.get(ref, timeout_s=FENCE_GET_S, body_limit=SMALL_LIMIT)
        except errors.NotFound:
            lease = {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "metadata": {"name": ref.name, "namespace": ref.namespace},
                "spec": {},
            }
            with contextlib.suppress(errors.AlreadyExists):
                await self._client.create(ref, lease)

    async def _rest(self, *, until_caught_up: bool) -> None:
        """Until the next beat, or until there is news of catching up."""
        if not until_caught_up:
            await asyncio.sleep(self._options.heartbeat_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.heartbeat_s):
                await self._caught_up.wait()

    async def _renew(self) -> bool:
        """Renews the lease; True when it says that this life is still catching up."""
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(4 * self._options.heartbeat_s),
            "renewTime": self._clock.rfc3339_micro(),
        }
        catching_up = not self._caught_up.is_set()
        notes = {
            names.CATCHING_UP: "true" if catching_up else None,
            names.VERSION_ANNOTATION: __version__,
        }
        lease: Mapping[str, Any] | None
        try:
            lease = await self._write(spec, notes)
        except errors.NotFound:
            lease = await self._make(spec, notes)
        if lease is not None:
            self._version = lease["metadata"]["resourceVersion"]
        return catching_up

    async def _write(
        self, spec: Mapping[str, object], notes: Mapping[str, str | None]
    ) -> Mapping[str, Any]:
        if self._version:
            try:
                meta = {"resourceVersion": self._version, "annotations": notes}
                return await self._client.patch(self._ref, {"metadata": meta, "spec": spec})
            except errors.Conflict:
                # An empty patch returns what is there: this process has no right to get a lease,
                # and needs none.
                version = (await self._client.patch(self._ref, {}))["metadata"]["resourceVersion"]
                if 0 <= version_number(version) < version_number(self._version):
                    self._on_rewind()
        return await self._client.patch(
            self._ref, {"metadata": {"annotations": notes}, "spec": spec}
        )

    async def _make(
        self, spec: Mapping[str, object], notes: Mapping[str, str | None]
    ) -> Mapping[str, Any] | None:
        """The lease, and the namespace that it lives in; None when another process has made it
        meanwhile."""
        name = self._options.system_namespace
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": LEASE,
                "namespace": name,
                "annotations": {note: text for note, text in notes.items() if text is not None},
            },
            "spec": {**spec, "acquireTime": spec["renewTime"]},
        }
        try:
            return await self._client.create(self._ref, lease)
        except errors.AlreadyExists:
            return None
        except errors.NotFound:
            await self._client.create(
                ObjectRef("v1", "namespaces", "", name, "Namespace"), namespace
            )
            return await self._client.create(self._ref, lease)
