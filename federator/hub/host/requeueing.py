"""Which workloads are placed again after a change that many decisions may depend on.

A changed policy concerns workloads that it selected or selects. They are searched in slices, with a
turn of the event loop after each: neither 20,000 policies of one namespace nor 100,000 workloads of
one policy may keep the lease from being renewed.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from federator.hub.cache import policying
from federator.hub.cache.router import Changed, MemberTurn
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.workloads import Workload
from federator.model.names import ClusterName, WorkloadKey
from federator.placement.policy.policies import Rule

SLICE: Final = 200
"""Workloads examined before other work gets its turn: a few milliseconds."""
RULES_MAX: Final = 16
"""With more changed policies, all workloads that they could select are placed again: comparing each
with every policy would cost more."""


class Requeueing:
    """Changes to follow up, by the namespace that they concern ("" for all)."""

    def __init__(self, state: HubState) -> None:
        self.state = state
        self.compared = 0
        """How often a workload was compared with a changed policy."""
        self._rules: dict[str, list[Rule]] = {}
        self._all: set[str] = set()
        self._tell = False
        """Whether the status of all workloads may change, too."""
        self._wake = asyncio.Event()
        self._apis: dict[ClusterName, frozenset[str]] = {}
        """The kinds that each member served when it was last probed."""
        state.signals.on_member(MemberTurn.KINDS, self._kinds_changed)
        state.signals.on_member(MemberTurn.REQUEUE, lambda _: self.everything())

    def policies_changed(self, rules: Iterable[Rule]) -> None:
        """These policies have changed; each before and after."""
        if not self.state.signals.heeded:
            return  # a new leader examines everything
        for rule in rules:
            namespace = "" if rule.cluster_wide else rule.policy.namespace
            if namespace in self._all:
                continue
            queued = self._rules.setdefault(namespace, [])
            queued.append(rule)
            if len(queued) > RULES_MAX:
                del self._rules[namespace]
                self._all.add(namespace)
        self._wake.set()

    def everything(self, *, tell: bool = False) -> None:
        """Something changed that any decision may depend on. Workloads with unchanged inputs keep
        their decision. With `tell`, their status is written again, too."""
        if self.state.signals.heeded:
            self._tell = self._tell or tell
            self._all.add("")
            self._wake.set()

    def _kinds_changed(self, member: Member) -> None:
        """Every decision may depend on which kinds a member serves."""
        if self._apis.get(member.name, frozenset()) != member.link.apis:
            self._apis[member.name] = member.link.apis
            self.everything()

    async def run(self) -> None:
        """Follows changes up until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._all or self._rules:
                if "" in self._all:
                    self._all.clear()
                    self._rules.clear()
                    tell, self._tell = self._tell, False
                    await self._place("", None, tell=tell)
                    continue
                namespace = min((*self._all, *self._rules))
                rules = None if namespace in self._all else self._rules.get(namespace)
                self._all.discard(namespace)
                self._rules.pop(namespace, None)
                await self._place(namespace, rules)

    async def _place(self, namespace: str, rules: list[Rule] | None, *, tell: bool = False) -> None:
        """Queues the workloads there that one of the rules may select; all without rules."""
        for number, key in enumerate(self.state.workloads_in(namespace), 1):
            if rules is None or self._concerned(key, rules):
                self.state.changed(Changed.BINDING if tell else Changed.POLICY, key)
            if number % SLICE == 0:
                await asyncio.sleep(0)

    def _concerned(self, key: WorkloadKey, rules: list[Rule]) -> bool:
        workload = self.state.workloads.get(key)
        return workload is not None and any(self._speaks(rule, workload) for rule in rules)

    def _speaks(self, rule: Rule, workload: Workload) -> bool:
        self.compared += 1
        named = workload.placement.get("policyRef")
        if named:
            chosen = named == rule.policy.name
        else:
            chosen = not workload.placement and rule.matches(
                policying.subject(workload, self.state.bindings())
            )
        return chosen or rule.binds(policying.subject(workload, self.state.bindings()))
