"""Marks PlacementPolicies that are not in force because their namespace has too many: a condition
on each of them.

Written on change only, a few at a time, so that 20,000 policies do not cause 20,000 writes at once.
"""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.placement import placementpolicy
from federator.hub.host.controller import Controller, Tools
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.kube.store import Store
from federator.model.kubernetes import diffs
from federator.model.names import ObjectName
from federator.model.steps import RequeueAfter
from federator.status import conditions
from federator.status.conditions import Condition

WRITES: Final = 20
"""Conditions written in one turn of a namespace."""
PAUSE_S: Final = 2.0
"""Seconds between two turns of a namespace."""


class Crowding(Controller):
    """Owns the condition `InForce` of PlacementPolicies; `queue` holds namespaces."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("crowding")
        self.policies: Store[Mapping[str, Any]] = Store("host/placementpolicies")
        """All of them, as the hub hears of them."""
        self._marked: dict[str, set[ObjectName]] = {}
        """Policies that have the condition, by namespace."""

    def heard(self, which: ObjectName, obj: Mapping[str, Any] | None) -> None:
        """A PlacementPolicy has changed or is gone."""
        namespace = which[0]
        marked = obj is not None and bool(raw.condition(obj, placementpolicy.IN_FORCE))
        self._note(which, marked=marked)
        if marked or self.state.rules.count(namespace) > self.state.rules.in_force_max:
            self.queue.add_after(namespace, PAUSE_S)

    def _note(self, which: ObjectName, *, marked: bool) -> None:
        there = self._marked.setdefault(which[0], set())
        (there.add if marked else there.discard)(which)
        if not there:
            del self._marked[which[0]]

    async def run(self) -> None:
        """Works while this hub leads, until cancelled. Begins with conditions of the former
        leader."""
        for namespace in sorted({name for name, _ in self.policies}):
            self.queue.add(namespace)
        await self.queue.run(self.tell)

    async def tell(self, namespace: str) -> RequeueAfter | None:
        """Brings the conditions of one namespace up to date, some at a time."""
        beyond, marked = self.state.rules.beyond(namespace), self._marked.get(namespace, set())
        again = set(marked).difference(beyond)
        due = list(
            itertools.islice(
                (*sorted(again), *(name for name in beyond if name not in marked)), WRITES + 1
            )
        )
        for which in due[:WRITES]:
            await self._write(which, beyond=which not in again)
        return (
            RequeueAfter(namespace, PAUSE_S, "more policies are to be told")
            if len(due) > WRITES
            else None
        )

    async def _write(self, which: ObjectName, *, beyond: bool) -> None:
        obj = self.policies.get(which)
        if obj is None:
            return
        meta, live = obj["metadata"], raw.mapping(obj, "status")
        message = (
            f"only the {self.state.rules.in_force_max} oldest PlacementPolicies of a namespace are"
            " in force"
        )
        generation = raw.integer(meta, "generation")
        too_many = (
            Condition(
                placementpolicy.IN_FORCE, conditions.FALSE, "TooManyPolicies", message, generation
            ),
        )
        live_conditions = raw.objects(live, "conditions")
        wanted = conditions.merge(
            live_conditions,
            too_many if beyond else (),
            self.clock.rfc3339(),
            (placementpolicy.IN_FORCE,),
        )
        if not (patch := diffs.replacement_patch(live, {**live, "conditions": wanted})):
            return
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "status": patch,
        }
        try:
            await self.host.patch(
                registry.KINDS[placementpolicy.KIND].ref(*which), body, subresource="status"
            )
        except errors.NotFound:
            return
        self._note(which, marked=beyond)
