"""Which placement policies apply to a workload: its own one, and the Required ones of operators.

The own policy is the one the workload names; otherwise the best match (namespaced before
cluster-wide, then higher priority, then policies that select workloads by name before others, then
the name of the policy); otherwise the built-in default (all ready clusters,
by capacity, in part). Policies are indexed by what they select, so that a workload is compared with
few of them. Per namespace only the oldest ones are in force.
"""

import bisect
import functools
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model.accounts import QuotaAccount
from federator.model.errors import FieldError
from federator.model.kubernetes import accountlists
from federator.model.policy import DEFAULT_POLICY, Demand, Policy
from federator.placement.quota import quota
from federator.placement.quota.tree import Tree

IN_FORCE_MAX: Final = 200
"""PlacementPolicies in force per namespace, unless a setting changes it."""
Id = tuple[str, str]
"""Namespace ("" for cluster-wide) and name."""
_Bucket = tuple[str, ...]
_Rank = tuple[int, bool, str]
NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Subject:
    """What policies read of a workload. Its owner writes labels and project; `bound` are the
    projects to which operators bound the namespace."""

    kind: str
    namespace: str
    labels: Mapping[str, str]
    project: str
    bound: frozenset[str] = NONE
    name: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy with its selection of workloads. Empty conditions match everything; all must
    match.
    """

    policy: Policy
    cluster_wide: bool = False
    kinds: frozenset[str] = NONE
    match_labels: Mapping[str, str] = field(default_factory=dict)
    projects: frozenset[str] = NONE
    namespaces: frozenset[str] = NONE
    names: frozenset[str] = NONE
    """Names of workloads."""
    priority: int = 0
    created_s: float = 0.0
    demand: Demand | None = None
    """What a Required policy demands; None when it is not Required."""

    @property
    def overrides(self) -> bool:
        """Whether it changes slices."""
        return bool(self.policy.overrides or (self.demand is not None and self.demand.overrides))

    @property
    def id(self) -> Id:
        return (self.policy.namespace, self.policy.name)

    def matches(self, subject: Subject) -> bool:
        """Whether it may be the workload's own policy."""
        return self._selects(subject, subject.project in self.projects)

    def binds(self, subject: Subject) -> bool:
        """Whether it is Required of the workload. Its projects cover every workload that claims one
        of them, and every workload of a namespace bound to one, whatever that workload claims."""
        mine = subject.project in self.projects or not self.projects.isdisjoint(subject.bound)
        return self.demand is not None and self._selects(subject, mine)

    def _selects(self, subject: Subject, of_project: bool) -> bool:
        return (
            (self.cluster_wide or self.policy.namespace == subject.namespace)
            and (not self.kinds or subject.kind in self.kinds)
            and (not self.projects or of_project)
            and (not self.names or subject.name in self.names)
            and (not self.namespaces or subject.namespace in self.namespaces)
            and all(subject.labels.get(key) == value for key, value in self.match_labels.items())
        )


class Policies:
    """All policies, indexed by what they select. `in_force_max`: the limit per namespace."""

    def __init__(self, rules: Iterable[Rule] = (), *, in_force_max: int = IN_FORCE_MAX) -> None:
        self.in_force_max = in_force_max
        self.evaluations = 0
        """How often a policy was compared with a workload."""
        self.version = 0
        """Rises with every change: under one version a workload has one policy."""
        self._rules: dict[Id, Rule] = {}
        self._order: dict[str, list[tuple[float, str, str]]] = {}
        """Namespace -> (creation, uid, name) of its policies, the oldest first."""
        self._chosen = _Index()
        self._required = _Index()
        self._overriding: set[Id] = set()
        self._relating: set[Id] = set()
        self._as_origin: dict[tuple[Id, str], tuple[Policy, Policy]] = {}
        """(policy, how it is chosen) -> (the policy, the same with this origin)."""
        for rule in rules:
            self.put(rule)

    def __iter__(self) -> Iterator[Rule]:
        """Every policy, in force or not, in the order of `put`."""
        return iter(tuple(self._rules.values()))

    def __len__(self) -> int:
        return len(self._rules)

    @property
    def overriding(self) -> bool:
        """Whether any policy has overrides."""
        return bool(self._overriding)

    def relates(self, namespace: str) -> bool:
        """Whether a policy with terms about other workloads may be that of a workload there."""
        return any(scope in ("", namespace) for scope, _ in self._relating)

    @property
    def relating(self) -> bool:
        """Whether any policy has terms about other workloads."""
        return bool(self._relating)

    def put(self, rule: Rule) -> list[Rule]:
        """Adds or replaces a policy. Returns all policies, in their former and present state, that
        may change the choice for a workload."""
        self.version += 1
        old = self._rules.get(rule.id)
        if old is None or _age(old) != _age(rule):
            return [*self.drop(rule.id), *self._added(rule)]
        if self.in_force(rule.id):
            self._leave(old)
            self._enter(rule)
        self._keep(rule)
        return [old, rule]

    def drop(self, which: Id) -> list[Rule]:
        """Removes a policy. Returns the policies that may change a choice, including one that comes
        into force instead."""
        rule = self._rules.pop(which, None)
        if rule is None:
            return []
        self.version += 1
        self._overriding.discard(which)
        self._relating.discard(which)
        for origin in ("policyRef", "match"):
            self._as_origin.pop((which, origin), None)
        if rule.cluster_wide:
            self._leave(rule)
            return [rule]
        order = self._order[rule.policy.namespace]
        at = order.index(_age(rule))
        del order[at]
        if not order:
            del self._order[rule.policy.namespace]
        if at >= self.in_force_max:
            return [rule]
        self._leave(rule)
        if len(order) < self.in_force_max:
            return [rule]
        next_one = self._rules[rule.policy.namespace, order[self.in_force_max - 1][2]]
        self._enter(next_one)
        return [rule, next_one]

    def _keep(self, rule: Rule) -> None:
        self._rules[rule.id] = rule
        (self._overriding.add if rule.overrides else self._overriding.discard)(rule.id)
        (self._relating.add if rule.policy.workloads else self._relating.discard)(rule.id)

    def _added(self, rule: Rule) -> list[Rule]:
        self._keep(rule)
        if rule.cluster_wide:
            self._enter(rule)
            return [rule]
        order = self._order.setdefault(rule.policy.namespace, [])
        age = _age(rule)
        at = bisect.bisect_left(order, age)
        order.insert(at, age)
        if at >= self.in_force_max:
            return [rule]
        self._enter(rule)
        if len(order) <= self.in_force_max:
            return [rule]
        last = self._rules[rule.policy.namespace, order[self.in_force_max][2]]
        self._leave(last)
        return [rule, last]

    def get(self, namespace: str, name: str) -> Rule | None:
        return self._rules.get((namespace, name))

    def in_force(self, which: Id) -> bool:
        """Whether the policy exists and is among the oldest of its namespace."""
        rule = self._rules.get(which)
        if rule is None or rule.cluster_wide:
            return rule is not None
        return bisect.bisect_left(self._order[which[0]], _age(rule)) < self.in_force_max

    def count(self, namespace: str) -> int:
        """How many PlacementPolicies the namespace has."""
        return len(self._order.get(namespace, ()))

    def beyond(self, namespace: str) -> list[Id]:
        """The policies of the namespace that are not in force."""
        return [
            (namespace, name) for _, _, name in self._order.get(namespace, ())[self.in_force_max :]
        ]

    def choose(self, subject: Subject, policy_ref: str) -> Policy:
        """The workload's own policy; its `origin` says how it was chosen.

        A policy named by the workload is looked up in its namespace, then cluster-wide, whatever
        conditions the policy has. Raises FieldError at spec.placement.policyRef when no policy of
        that name is in force.
        """
        if policy_ref:
            return self._as_chosen(self._named(subject.namespace, policy_ref), "policyRef")
        for cluster_wide in (False, True):
            best: Rule | None = None
            for bucket in self._chosen.buckets(subject, cluster_wide):
                for rank, rule in bucket:
                    if best is not None and _rank(best) <= rank:
                        break
                    self.evaluations += 1
                    if rule.matches(subject):
                        best = rule
                        break
            if best is not None:
                return self._as_chosen(best, "match")
        return DEFAULT_POLICY

    def _as_chosen(self, rule: Rule, origin: str) -> Policy:
        """One object for all workloads with the policy: what is computed of it is remembered by its
        identity."""
        kept = self._as_origin.get((rule.id, origin))
        if kept is None or kept[0] is not rule.policy:
            kept = rule.policy, replace(rule.policy, origin=origin)
            self._as_origin[rule.id, origin] = kept
        return kept[1]

    def matching(self, subject: Subject, most: int = 16) -> list[Rule]:
        """Policies in force that may be the workload's own, those that go first first; at most so
        many."""
        matches: dict[Id, Rule] = {}
        for cluster_wide in (False, True):
            buckets = self._chosen.buckets(subject, cluster_wide)
            for _, rule in heapq.merge(*buckets, key=lambda entry: entry[0]):
                if len(matches) == most:
                    break
                if rule.matches(subject):
                    matches[rule.id] = rule
        return list(matches.values())

    def demands(self, subject: Subject) -> tuple[Demand, ...]:
        """The demands of Required policies on the workload, by policy name."""
        selecting: dict[str, Demand] = {}
        for bucket in self._required.buckets(subject, cluster_wide=True):
            for _, rule in bucket:
                self.evaluations += 1
                if rule.binds(subject) and rule.demand is not None:
                    selecting[rule.policy.name] = rule.demand
        return tuple(selecting[name] for name in sorted(selecting))

    def _named(self, namespace: str, name: str) -> Rule:
        rule = self._rules.get((namespace, name)) if namespace else None
        if rule is not None and not self.in_force(rule.id):
            raise FieldError(
                "spec.placement.policyRef",
                f"PlacementPolicy {name} is not in force: namespace {namespace} has "
                f"{self.count(namespace)} of them, "
                f"and the {self.in_force_max} oldest are in force",
            )
        rule = rule or self._rules.get(("", name))
        if rule is None:
            raise FieldError(
                "spec.placement.policyRef",
                (
                    f"there is no PlacementPolicy {name} in namespace {namespace}, nor a "
                    "ClusterPlacementPolicy"
                ),
            )
        return rule

    def _enter(self, rule: Rule) -> None:
        self._chosen.add(rule)
        if rule.demand is not None:
            self._required.add(rule)

    def _leave(self, rule: Rule) -> None:
        self._chosen.remove(rule)
        if rule.demand is not None:
            self._required.remove(rule)


class _Index:
    """Rules by one condition that a workload must meet; each bucket in order of precedence. A rule
    is indexed by its narrowest condition: names, labels, then namespaces, projects and kinds."""

    def __init__(self) -> None:
        self._buckets: dict[_Bucket, list[tuple[_Rank, Rule]]] = {}
        self._keys: dict[str, dict[str, int]] = {}
        """Scope -> label key -> number of rules that ask for it."""

    def add(self, rule: Rule) -> None:
        for name in _buckets_of(rule):
            bisect.insort(
                self._buckets.setdefault(name, []), (_rank(rule), rule), key=lambda entry: entry[0]
            )
            if name[1] == "label":
                keys = self._keys.setdefault(name[0], {})
                keys[name[2]] = keys.get(name[2], 0) + 1

    def remove(self, rule: Rule) -> None:
        for name in _buckets_of(rule):
            bucket = self._buckets[name]
            at = bisect.bisect_left(bucket, _rank(rule), key=lambda entry: entry[0])
            del bucket[at]
            if not bucket:
                del self._buckets[name]
            if name[1] == "label":
                keys = self._keys[name[0]]
                keys[name[2]] -= 1
                if not keys[name[2]]:
                    del keys[name[2]]
                if not keys:
                    del self._keys[name[0]]

    def buckets(self, subject: Subject, cluster_wide: bool) -> Iterator[list[tuple[_Rank, Rule]]]:
        """The buckets that may contain a matching rule."""
        scope = "" if cluster_wide else subject.namespace
        asked, labels = self._keys.get(scope, {}), subject.labels
        # Iterates over the smaller side: an object may have ten thousand labels.
        keys = (
            [key for key in asked if key in labels]
            if len(asked) < len(labels)
            else labels.keys() & asked.keys()
        )
        names: list[_Bucket] = [(scope, "label", key, labels[key]) for key in keys]
        names += [
            (scope, "name", subject.name),
            (scope, "namespace", subject.namespace),
            (scope, "kind", subject.kind),
            (scope, "all"),
        ]
        names += [(scope, "project", project) for project in {subject.project, *subject.bound}]
        for name in names:
            if (bucket := self._buckets.get(name)) is not None:
                yield bucket


def _buckets_of(rule: Rule) -> list[_Bucket]:
    scope = "" if rule.cluster_wide else rule.policy.namespace
    if rule.names:
        return [(scope, "name", name) for name in sorted(rule.names)]
    if rule.match_labels:
        return [(scope, "label", *min(rule.match_labels.items()))]
    for condition, values in (
        ("namespace", rule.namespaces),
        ("project", rule.projects),
        ("kind", rule.kinds),
    ):
        if values:
            return [(scope, condition, value) for value in sorted(values)]
    return [(scope, "all")]


def _rank(rule: Rule) -> _Rank:
    """Of one scope: the higher priority, then those that name their workloads, then by name."""
    return (-rule.priority, not rule.names, rule.policy.name)


def _age(rule: Rule) -> tuple[float, str, str]:
    return (rule.created_s, rule.policy.uid, rule.policy.name)


class Bindings:
    """Which projects a namespace may claim, by the FederatedQuotas of operators."""

    def __init__(self, accounts: Collection[QuotaAccount] = ()) -> None:
        self._bound: dict[str, frozenset[str]] = {}
        self._accounts: dict[str, tuple[QuotaAccount, ...]] = {}
        for account in accounts:
            for namespace in account.namespaces:
                self._bound[namespace] = self._bound.get(namespace, NONE) | account.projects
            for project in account.projects:
                self._accounts[project] = (*self._accounts.get(project, ()), account)
        self._unknown = quota.allows_unknown(accounts)
        self._every = tuple(accounts)

    @functools.cached_property
    def _tree(self) -> Tree:
        return Tree(self._every)

    def owner(self, project: str) -> str:
        """The team of the account that a project is charged to, or of the nearest above it that
        names one; "" where none does."""
        for name in self._tree.charged(project):
            for above in self._tree.path(name):
                if team := self._tree.accounts[above].owner:
                    return team
        return ""

    def of(self, namespace: str) -> frozenset[str]:
        """The projects that the namespace is bound to."""
        return self._bound.get(namespace, NONE)

    def accounts(self, project: str) -> tuple[QuotaAccount, ...]:
        """The accounts that cover a project."""
        return self._accounts.get(project, ())

    def account_lists(self, namespace: str) -> dict[str, str]:
        """What the namespace says in members of the service accounts of its projects."""
        projects = {
            project: tuple(account.service_accounts for account in self.accounts(project))
            for project in self.of(namespace)
        }
        return accountlists.annotations(projects, unlisted=self._unknown)

    def speaks(self, namespace: str, project: str) -> bool:
        """Whether a claim of the project counts: the namespace is bound to it, or no account covers
        it and such projects are allowed."""
        return project in self.of(namespace) or (self._unknown and project not in self._accounts)
