"""Standby hubs as witnesses: a hub that does not lead writes what it hears of the members into a
Lease of its own, and the leader reads these before it believes its own silence (`members.sights`).

The Lease is the only thing that a standby writes, and nothing is decided by it alone. There are as
many as `sights.LEASES`, numbered: a standby takes the first one with a writer that is gone, leads,
or was its own former life, so that none has to be removed when hubs are replaced. It renews it as
often as it probes.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from federator.hub.cache.state import HubState
from federator.hub.members import sights
from federator.hub.members.sights import LeaseSight, Sight, Witnesses
from federator.kube import client as clients
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.leader.elector import Elector
from federator.model import names
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

WITHIN_S: Final = 8.0
"""Reading or writing all of them takes no longer."""
FRESH: Final = 3
"""An account counts for so many of the times after which it is renewed."""


class Standby:
    """Tells while this hub stands by, and listens while it leads. `client` is not behind the leader
    gate. `able`: whether what this process hears means anything now."""

    def __init__(
        self,
        state: HubState,
        client: clients.Client,
        elector: Elector,
        *,
        able: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self.state = state
        self._client = client
        self._elector = elector
        self._able = able
        self._clock = clock
        # Of its own, so that it does not change the numbers that other users of `rng` draw.
        self._rng = random.Random(elector.identity)
        self._seen: dict[int, LeaseSight] = {}
        """The Leases as last read, by number."""
        self._mine: tuple[int, Mapping[str, Any] | None] | None = None
        """The number of ours, and it as last written; None while it has to be looked for."""

    @property
    def _every_s(self) -> float:
        return self.state.options.probe_interval_s

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                async with asyncio.timeout(WITHIN_S):
                    await (self._listen() if self._elector.leading else self._tell())
            except (errors.ApiError, TimeoutError) as trouble:
                log.debug("accounts of standby hubs: %s", str(trouble) or "no answer in time")
            self._measure()
            await asyncio.sleep(self._every_s * self._rng.uniform(0.8, 1.0))

    # -- the leader -----------------------------------------------------------

    def witnesses(self, clusters: Collection[str]) -> Mapping[str, Witnesses]:
        """What standby hubs report about these clusters now; no entry for a cluster without a
        report."""
        accounts = self._accounts() if clusters else []
        if not accounts:
            return {}
        fleet = sights.fleet_of(self.state.members)
        return {name: sights.of_cluster(accounts, name, fleet) for name in clusters}

    def _accounts(self) -> list[Sight]:
        now_s, mine = self._clock.monotonic(), self._elector.identity
        return [
            seen.account
            for _, seen in sorted(self._seen.items())
            if seen.account is not None
            and seen.account.hub != mine
            and seen.fresh(now_s, FRESH * self._every_s)
        ]

    async def _listen(self) -> None:
        self._mine = None
        for number in range(sights.LEASES):
            await self._look(number)

    async def _look(self, number: int) -> Mapping[str, Any] | None:
        """Reads one Lease; None when it does not exist."""
        lease = await self._client.find(self._ref(number), timeout_s=WITHIN_S)
        if lease is None:
            self._seen.pop(number, None)
            return None
        before = self._seen.get(number)
        self._seen[number] = sights.seen(before, lease, self._clock.monotonic())
        return lease

    # -- a standby ------------------------------------------------------------

    async def _tell(self) -> None:
        if not self._able():
            return
        mine = self._mine if self._mine is not None else await self._find()
        if mine is None or self._elector.leading:
            return
        number, before = mine
        self._mine = None  # until it is known that the write was taken
        ref, body = self._ref(number), self._body(number, before)
        if before is None:
            self._mine = number, await self._client.create(ref, body)
        else:
            self._mine = number, await self._client.replace(ref, body)

    async def _find(self) -> tuple[int, Mapping[str, Any] | None] | None:
        """A Lease to write into, and what it is now; None when all are others'."""
        for number in range(sights.LEASES):
            lease = await self._look(number)
            if lease is None or self._may_have(number):
                return number, lease
        return None

    def _may_have(self, number: int) -> bool:
        """Whether nobody else renews it, as far as we have seen."""
        seen = self._seen[number]
        hub = seen.account.hub if seen.account is not None else ""
        us = self._elector.identity
        if hub == self._elector.leader() or sights.short(hub) == sights.short(us):
            return True
        return self._clock.monotonic() - seen.since_s > 2 * FRESH * self._every_s

    def _body(self, number: int, before: Mapping[str, Any] | None) -> dict[str, Any]:
        ref, members, fresh_s = self._ref(number), self.state.members, FRESH * self._every_s
        us = self._elector.identity
        account = sights.sight(us, members, self._clock.monotonic(), fresh_s)
        said = {names.SIGHT_ANNOTATION: sights.text(account, clusters=len(members))}
        meta: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
        meta["labels"] = {names.FLEET_LABEL: self.state.options.fleet}
        if before is not None:
            meta["resourceVersion"] = before["metadata"]["resourceVersion"]
        spec = {
            "holderIdentity": us,
            "leaseDurationSeconds": math.ceil(fresh_s),
            "renewTime": self._clock.rfc3339_micro(),
        }
        head = {"apiVersion": ref.api_version, "kind": ref.kind}
        return {**head, "metadata": {**meta, "annotations": said}, "spec": spec}

    def _ref(self, number: int) -> ObjectRef:
        options = self.state.options
        name = f"{options.lease_name}-standby-{number}"
        return ObjectRef(
            "coordination.k8s.io/v1", "leases", options.system_namespace, name, "Lease"
        )

    def _measure(self) -> None:
        if self.state.metrics is not None and self._elector.leading:
            count = len(self._accounts())
            self.state.metrics.child("federator_standby_accounts").set(count)
