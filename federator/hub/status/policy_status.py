"""Writes the status of placement policies: how many workloads follow each, names and labels in it
that no cluster has, and policies that conflict.

All workloads are looked at in one sweep after something has changed, never more often than every
`EVERY_S`, and never for more than a twentieth of the time of the event loop. Only a status that
differs is written. The condition `InForce` is `hub.host.crowding`'s.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.placement import placementpolicy
from federator.hub.cache import policying
from federator.hub.cache.router import Changed, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.kinds import registry
from federator.kube import errors
from federator.kube.clock import in_slices
from federator.model.fleet import ClusterView
from federator.model.kubernetes import diffs
from federator.placement.policy import standing
from federator.placement.policy.policies import Id, Rule
from federator.placement.policy.standing import PolicyStanding, Standings

log = logging.getLogger(__name__)

SETTLE_S: Final = 2.0
"""Changes that come within so many seconds are looked at together."""
EVERY_S: Final = 30.0
"""Seconds from one sweep to the next, at least: a thousand new workloads are no thousand writes."""
REST: Final = 20.0
"""A sweep is followed by so many times its own duration without one."""
_HEARD: Final = frozenset(
    {Changed.ASKED, Changed.GONE, Changed.POLICY, Changed.OVERRIDDEN, Changed.BINDING}
)
_FIELDS: Final = ("observedGeneration", "matched", "unknown", "conflicts")
"""The fields of the status that are written here."""


class PolicyStatus(Controller):
    """Works while this hub leads."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._wake = asyncio.Event()
        self._written: dict[Id, tuple[str, Mapping[str, Any]]] = {}
        """What the host has of each, with the uid of the policy."""
        self.state.signals.note.append(self._changed)
        self.state.signals.policy.append(self._wake.set)
        for turn in (MemberTurn.REPORT, MemberTurn.REQUEUE):
            self.state.signals.on_member(turn, lambda _: self._stir())

    def _changed(self, what: Changed, _: Any) -> None:
        if what in _HEARD:
            self._stir()

    def _stir(self) -> None:
        if len(self.state.rules):
            self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._written.clear()
        self._wake.set()
        while True:
            await self._wake.wait()
            await asyncio.sleep(SETTLE_S)
            self._wake.clear()
            begun_s = self.clock.monotonic()
            if not await self._sweep():
                self._wake.set()
            rest_s = REST * (self.clock.monotonic() - begun_s)
            await asyncio.sleep(max(rest_s, EVERY_S - SETTLE_S))

    async def _sweep(self) -> bool:
        """Looks at every workload, and writes what is new. Returns whether all was written."""
        state = self.state
        rules, bindings = list(state.rules), state.bindings()
        if not rules:
            self._written.clear()
            return True
        standings, done = Standings(state.rules), True
        async for workload in in_slices(list(state.workloads.values()), self.clock):
            subject = policying.subject(workload, bindings)
            policy = policying.in_force(subject, workload.placement, state.rules)
            standings.add(str(workload.key), subject, policy)
        clusters = state.snapshot(self.clock).clusters
        for rule in rules:
            try:
                await self._write(rule, standings.of(rule.id), clusters)
            except errors.ApiError as trouble:
                log.info("the status of %s waits: %s", standing.title(rule.id), trouble)
                done = done and isinstance(trouble, errors.NotFound | errors.Denied)
        return done

    async def _write(
        self, rule: Rule, now: PolicyStanding, clusters: Mapping[str, ClusterView]
    ) -> None:
        """Brings one status up to date. Raises ApiError."""
        kind = placementpolicy.CLUSTER_KIND if rule.cluster_wide else placementpolicy.KIND
        ref = registry.KINDS[kind].ref(*rule.id)
        unknown = standing.unknown(rule.policy, clusters)
        fields = (rule.policy.generation, now.matched, unknown, now.conflicts)
        status = placementpolicy.to_status(*fields)
        if self._written.get(rule.id) == (rule.policy.uid, status):
            return
        obj = await self.host.get(ref)
        meta, live = obj["metadata"], raw.mapping(obj, "status")
        if (meta.get("uid"), meta.get("generation")) != (
            rule.policy.uid,
            rule.policy.generation,
        ):
            return  # its watch brings the present one, and another sweep
        kept = {name: value for name, value in live.items() if name not in _FIELDS}
        if patch := diffs.replacement_patch(live, {**kept, **status}):
            version = {"uid": rule.policy.uid, "resourceVersion": meta["resourceVersion"]}
            await self.host.patch(ref, {"metadata": version, "status": patch}, subresource="status")
        self._written[rule.id] = rule.policy.uid, status
