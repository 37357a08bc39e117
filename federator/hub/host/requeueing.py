"""Which workloads are placed again after a change that many decisions may depend on.

A changed policy concerns workloads that it selected or selects. A changed FederatedQuota concerns
workloads of the projects in its tree of accounts, and those in namespaces that it binds. They are
searched in slices, with a turn of the event loop after each: neither 20,000 policies of one
namespace nor 100,000 workloads of one policy may keep the lease from being renewed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from federator.hub.cache import policying
from federator.hub.cache.router import Changed, MemberTurn
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.workloads import Workload
from federator.model.accounts import QuotaAccount
from federator.model.names import ClusterName, WorkloadKey
from federator.placement.policy.policies import Rule

SLICE: Final = 200
"""Workloads examined before other work gets its turn: a few milliseconds."""
RULES_MAX: Final = 16
"""With more changed policies, all workloads that they could select are placed again: comparing each
with every policy would cost more."""


@dataclass(slots=True)
class QuotaEdits:
    """What changed FederatedQuotas concern, until it is followed up."""

    trees: set[str] = field(default_factory=set)
    """Tops of the trees (`top`) that lost, got or have a changed account."""
    projects: set[str] = field(default_factory=set)
    """Projects that the accounts themselves covered or cover."""
    namespaces: set[str] = field(default_factory=set)
    """Namespaces with other projects to claim than before."""
    tell: bool = False
    """Whether the status of the workloads may change, too."""

    def __bool__(self) -> bool:
        return bool(self.trees)

    def add(
        self,
        trees: Iterable[str],
        old: QuotaAccount | None,
        new: QuotaAccount | None,
        *,
        tell: bool,
    ) -> None:
        """One account changed. `trees`: the tops of its tree before and after."""
        self.trees.update(trees)
        self.tell = self.tell or tell
        for account in filter(None, (old, new)):
            self.projects |= account.projects
            if tell:
                self.namespaces |= account.namespaces

    def complete(self, accounts: Mapping[str, QuotaAccount]) -> None:
        """Adds the projects of all accounts that are in these trees now. An account that left one
        of them is a changed account itself, or in the tree of one."""
        for name, account in accounts.items():
            if not account.projects <= self.projects and top(name, accounts) in self.trees:
                self.projects |= account.projects


def top(name: str, accounts: Mapping[str, QuotaAccount]) -> str:
    """The name at the top of an account's tree: the last parent that is named, also one that does
    not exist; the first by name in a circle of parents."""
    path: dict[str, None] = {}
    while name not in path:
        path[name] = None
        account = accounts.get(name)
        if account is None or not account.parent:
            return name
        name = account.parent
    names = list(path)
    return min(names[names.index(name) :])


def _admits_unknown(account: QuotaAccount | None) -> bool | None:
    """What an account says of projects that no account covers: those without a parent are heard."""
    return account.unknown_projects if account is not None and not account.parent else None


class Requeueing:
    """Changes to follow up, by the namespace that they concern ("" for all)."""

    def __init__(self, state: HubState) -> None:
        self.state = state
        self.compared = 0
        """How often a workload was compared with a changed policy."""
        self._rules: dict[str, list[Rule]] = {}
        self._all: set[str] = set()
        self._quotas = QuotaEdits()
        self._tell = False
        """Whether the status of all workloads may change, too."""
        self._overrides = False
        """Whether a changed policy has overrides, or had some."""
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
            self._overrides = self._overrides or rule.overrides
            namespace = "" if rule.cluster_wide else rule.policy.namespace
            if namespace in self._all:
                continue
            queued = self._rules.setdefault(namespace, [])
            queued.append(rule)
            if len(queued) > RULES_MAX:
                del self._rules[namespace]
                self._all.add(namespace)
        self._wake.set()

    def quota_changed(
        self,
        trees: Iterable[str],
        old: QuotaAccount | None,
        new: QuotaAccount | None,
        *,
        tell: bool,
    ) -> None:
        """An account changed; `trees` are the tops of its tree before and after. With `tell`, it
        says otherwise which namespaces may use which project. Every workload is concerned when
        there may be another answer for projects that no account covers."""
        if not self.state.signals.heeded:
            return  # a new leader examines everything
        first_or_last = not self.state.quotas or (old is None and len(self.state.quotas) == 1)
        if first_or_last or _admits_unknown(old) != _admits_unknown(new):
            self.everything(tell=tell)
            return
        self._quotas.add(trees, old, new, tell=tell)
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
            while self._all or self._rules or self._quotas:
                if "" in self._all:
                    self._all.clear()
                    self._rules.clear()
                    tell, self._tell = self._tell, False
                    await self._place("", None, tell=tell)
                    continue
                if self._quotas:
                    edits, self._quotas = self._quotas, QuotaEdits()
                    await self._place_charged(edits)
                    continue
                namespace = min((*self._all, *self._rules))
                rules = None if namespace in self._all else self._rules.get(namespace)
                self._all.discard(namespace)
                self._rules.pop(namespace, None)
                await self._place(namespace, rules)
            self._overrides = False

    def _what(self, what: Changed) -> Changed:
        """The change, or that slices may change with it."""
        return Changed.OVERRIDDEN if self._overrides or self.state.rules.overriding else what

    async def _place(self, namespace: str, rules: list[Rule] | None, *, tell: bool = False) -> None:
        """Queues the workloads there that one of the rules may select; all without rules."""
        what = self._what(Changed.BINDING if tell else Changed.POLICY)
        for number, key in enumerate(self.state.workloads_in(namespace), 1):
            if rules is None or self._concerned(key, rules):
                self.state.changed(what, key)
            if number % SLICE == 0:
                await asyncio.sleep(0)

    async def _place_charged(self, edits: QuotaEdits) -> None:
        """Queues the workloads that changed accounts may concern, and others that ask for a host
        name of one of them: an account may bar a workload that has the name."""
        edits.complete(self.state.quotas)
        what = self._what(Changed.BINDING if edits.tell else Changed.QUOTA)
        for number, key in enumerate(self.state.workloads_in(""), 1):
            workload = self.state.workloads.get(key)
            if workload is not None and self._is_charged(workload, edits):
                self.state.changed(what, key)
                for other in sorted(self.state.host_names.concerned(workload)):
                    self.state.changed(what, other)
            if number % SLICE == 0:
                await asyncio.sleep(0)

    def _is_charged(self, workload: Workload, edits: QuotaEdits) -> bool:
        """Whether a workload is of a project of these accounts, or charged to one still."""
        if workload.key.namespace in edits.namespaces:
            return True
        if workload.ask is not None and workload.ask.project in edits.projects:
            return True
        record = self.state.record_of(workload)
        charged = record.terms.charged if record is not None else None
        return charged is not None and charged.project in edits.projects

    def _concerned(self, key: WorkloadKey, rules: list[Rule]) -> bool:
        workload = self.state.workloads.get(key)
        return workload is not None and any(self._speaks(rule, workload) for rule in rules)

    def _speaks(self, rule: Rule, workload: Workload) -> bool:
        self.compared += 1
        return policying.speaks(rule, workload, self.state.bindings())
