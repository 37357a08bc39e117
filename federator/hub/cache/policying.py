"""Which policies are in force for a workload. Pure; shared by placing and the offline engine."""

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from federator.api import placementfields
from federator.api.placement import placementpolicy
from federator.hub.records.workloads import Workload
from federator.model.ask import Admitted, Ask, Support
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.model.neighbours import NOBODY, Peer, Peers, repelling
from federator.model.policy import Policy
from federator.model.quickly import likewise
from federator.model.table import Nothing, Table
from federator.placement import everynode, ordinals
from federator.placement.policy import enforcing
from federator.placement.policy.policies import Bindings, Policies, Rule, Subject
from federator.placement.quota import quota


def asked(workload: Workload, rules: Policies, bindings: Bindings) -> Ask | None:
    """The workload's ask under the policies in force, with what its quotas charge; None when it
    cannot be read."""
    if workload.ask is None:
        return None
    target = subject(workload, bindings)
    policy = in_force(target, workload.placement, rules)
    if workload.ask.shape.every_node:
        policy = everynode.policy_of(policy)
    elif workload.ask.ordinals is not None:
        policy = ordinals.policy_of(policy)
    elif workload.verbs.repeats is not None:
        policy = everynode.policy_of_repeating(policy)
    ask = _under(workload.ask, policy, bindings.speaks(target.namespace, target.project))
    return quota.charged(ask, bindings.accounts(target.project))


_under = likewise(Ask, "policy", "project_bound")


def rebound(
    workload: Workload, ask: Ask | None, rules: Policies, before: Bindings, now: Bindings
) -> Ask | None:
    """What `asked` returns under other quotas, from what it returned under those of `before`, while
    no policy differs. The same ask if none of these quotas says anything else about it."""
    if ask is None or before is now:
        return ask
    namespace, project = workload.key.namespace, ask.project
    if before.of(namespace) != now.of(namespace):
        return asked(workload, rules, now)
    accounts, bound = now.accounts(project), now.speaks(namespace, project)
    defaults = [account.defaults for account in accounts]
    if defaults == [account.defaults for account in before.accounts(project)]:
        return ask if ask.project_bound == bound else _under(ask, ask.policy, bound)
    own = workload.ask
    assert own is not None
    return quota.charged(_under(own, ask.policy, bound), accounts)


def support(
    workload: Workload, ask: Ask | None, admitted: Admitted | None, bindings: Bindings
) -> Support | None:
    """The RuntimeProfile of a workload with pods of another version than the present one, if the
    present one asks for more than was admitted. `ask` is what `asked` returns."""
    own = workload.ask
    if own is None or ask is None or admitted is None:
        return None
    most = admitted.shape.requests
    # Of the charges, not of the requests: what a profile's container requests may be as much as the
    # default that was charged alone, and comes on top of it.
    if ask.shape.requests.within(most):
        return None
    accounts = bindings.accounts(ask.project)
    for former in workload.formerly:
        kept = dataclasses.replace(ask, shape=former.shape, own=former.own)
        if (charged := quota.charged(kept, accounts).shape).requests.within(most):
            return Support(workload.profile, charged)
    if own.own is None:
        # Without additions only a quota's default asks for more, and that makes no pod larger.
        return None if own.shape.requests.within(most) else Support(workload.profile)
    bare = dataclasses.replace(own.shape, requests=own.own)
    charged = quota.charged(dataclasses.replace(ask, shape=bare, own=None), accounts).shape
    # It was admitted before there was a profile.
    former_shape = charged if charged.requests.within(most) else None
    return Support(workload.profile, former_shape)


class Asks:
    """The asks of workloads, remembered while nothing changes that they are made of: one turn of a
    workload needs its ask several times. `most`: workloads that are remembered."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._made: dict[WorkloadKey, tuple[Workload, int, Bindings, Ask | None]] = {}

    def of(self, workload: Workload, rules: Policies, bindings: Bindings) -> Ask | None:
        """What `asked` returns."""
        made = self._made.get(workload.key)
        if made is not None and made[0] is workload:
            _, version, bound, ask = made
            if version == rules.version and bound is bindings:
                return ask
        elif made is None and len(self._made) >= self._most:
            self._made.clear()
        ask = asked(workload, rules, bindings)
        self.keep(workload, rules, bindings, ask)
        return ask

    def copy(self) -> "Asks":
        """A copy that remembers the same."""
        made = Asks(self._most)
        made._made = dict(self._made)
        return made

    def keep(
        self, workload: Workload, rules: Policies, bindings: Bindings, ask: Ask | None
    ) -> None:
        """Remembers an ask that is known."""
        self._made[workload.key] = workload, rules.version, bindings, ask


class InForce:
    """The policies in force of workloads, remembered while nothing changes that they depend on.
    `most`: workloads that are remembered."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._policies: dict[WorkloadKey, tuple[Workload, int, Bindings, Policy]] = {}

    def of(self, workload: Workload, rules: Policies, bindings: Bindings) -> Policy:
        """What `in_force` returns."""
        kept = self._policies.get(workload.key)
        if kept is not None and kept[0] is workload:
            _, version, bound, policy = kept
            if version == rules.version and bound is bindings:
                return policy
        elif kept is None and len(self._policies) >= self._most:
            self._policies.clear()
        policy = in_force(subject(workload, bindings), workload.placement, rules)
        self._policies[workload.key] = workload, rules.version, bindings, policy
        return policy


class Nearby:
    """The workloads of a namespace as terms of `workloadAffinity` see them (`model.neighbours`),
    read when they are asked for, and once."""

    def __init__(
        self,
        rules: Policies,
        bindings: Bindings,
        workloads_in: Callable[[str], Iterable[Workload]],
        policies: InForce,
    ) -> None:
        self._rules = rules
        self._bindings = bindings
        self._workloads_in = workloads_in
        self._policies = policies
        self._read: dict[str, tuple[Peer, ...]] = {}

    def __call__(self, namespace: str) -> tuple[Peer, ...]:
        peers = self._read.get(namespace)
        if peers is None:
            peers = ()
            if self._rules.relates(namespace):
                every = map(self._peer, self._workloads_in(namespace))
                peers = tuple(sorted(every, key=operator.attrgetter("key")))
            self._read[namespace] = peers
        return peers

    def _peer(self, workload: Workload) -> Peer:
        policy = self._policies.of(workload, self._rules, self._bindings)
        away = repelling(policy.workloads)
        return Peer(workload.uid, workload.key, workload.labels, away, policy.name)


def nearby(
    rules: Policies,
    bindings: Bindings,
    workloads_in: Callable[[str], Iterable[Workload]],
    policies: InForce | None = None,
) -> Peers:
    """The workloads of each namespace for terms about them; NOBODY while no policy has terms.
    `policies`: those in force that are remembered."""
    if not rules.relating:
        return NOBODY
    return Nearby(rules, bindings, workloads_in, policies or InForce())


def by_namespace(workloads: Iterable[Workload]) -> Callable[[str], Iterable[Workload]]:
    """The same workloads by namespace, sorted when they are asked for."""
    sorted_out: dict[str, list[Workload]] = {}

    def of(namespace: str) -> Iterable[Workload]:
        if not sorted_out:
            for workload in workloads:
                sorted_out.setdefault(workload.key.namespace, []).append(workload)
        return sorted_out.get(namespace, ())

    return of


def speaks(rule: Rule, workload: Workload, bindings: Bindings) -> bool:
    """Whether a policy, as it is or was, may be among those in force for a workload."""
    if not rule.cluster_wide and rule.policy.namespace != workload.key.namespace:
        return False
    named = str(workload.placement.get("policyRef") or "")
    if named and rule.policy.name == named:
        return True
    target = subject(workload, bindings)
    return rule.binds(target) or (not workload.placement and rule.matches(target))


def subject(workload: Workload, bindings: Bindings) -> Subject:
    """The workload as policies see it."""
    project = workload.ask.project if workload.ask is not None else ""
    key, bound = workload.key, bindings.of(workload.key.namespace)
    return Subject(key.kind, key.namespace, workload.labels, project, bound, key.name)


def in_force(target: Subject, placement: Mapping[str, Any], rules: Policies) -> Policy:
    """The workload's own fields, the policy it names, the best match, or the default; with the
    demands of Required policies.

    A policy that is missing or unreadable is returned with its `problem`: it places nothing new and
    gives the reason.
    """
    return enforcing.combined(_own(target, placement, rules), rules.demands(target))


def _own(target: Subject, placement: Mapping[str, Any], rules: Policies) -> Policy:
    named = str(placement.get("policyRef") or "")
    try:
        if placement and not named:
            return placementfields.policy_from_inline(placement)
        return rules.choose(target, named)
    except FieldError as bad:
        return Policy(name=named or "inline", origin="misconfigured", problem=str(bad))


def rule_of(kind: str, obj: Mapping[str, Any]) -> Rule:
    """A policy object as a rule. An unreadable one matches as written, and has its `problem`."""
    return Rule(**placementpolicy.rule_fields(kind, obj))


class ByNamespace:
    """Which workloads a namespace of the host has: the keys of all, by namespace."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[str, Table[WorkloadKey, None]] = {}

    def keys_in(self, namespace: str) -> Iterable[WorkloadKey]:
        """In the order in which they came."""
        return self._keys.get(namespace, ())

    def add(self, key: WorkloadKey) -> None:
        """There is this workload."""
        there = self._keys.get(key.namespace)
        if there is None:
            there = self._keys[key.namespace] = Table(Nothing())
        there[key] = None

    def remove(self, key: WorkloadKey) -> None:
        """This workload, which was there, is gone."""
        there = self._keys[key.namespace]
        del there[key]
        if not there:
            del self._keys[key.namespace]
