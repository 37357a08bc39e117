"""How a policy stands: workloads that follow it, names and labels in it that no cluster has, and
other policies with the same precedence. Pure; read by the hub for the policies' status and by
`explain`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from federator.model.fleet import ClusterView
from federator.model.policy import Policy
from federator.placement.policy import mentions
from federator.placement.policy.policies import Id, Policies, Rule, Subject

CONFLICTS_MAX: Final = 8
"""Conflicts of one policy that are kept."""


def title(which: Id) -> str:
    """Kind and name of a policy, as messages name it."""
    namespace, name = which
    return f"PlacementPolicy {namespace}/{name}" if namespace else f"ClusterPlacementPolicy {name}"


@dataclass(slots=True)
class PolicyStanding:
    """What workloads have to do with one policy."""

    matched: int = 0
    """Workloads that follow it: as their own policy, or because it is Required."""
    passed: int = 0
    """Workloads that it selects and that follow another policy, or a placement of their own."""
    examples: list[str] = field(default_factory=list)
    """The first of those that follow it."""
    conflicts: list[str] = field(default_factory=list)
    """Other policies with equal precedence for the same workload, each as a sentence."""

    def follow(self, workload: str) -> None:
        self.matched += 1
        if len(self.examples) < CONFLICTS_MAX:
            self.examples.append(workload)


@dataclass(slots=True)
class Standings:
    """Of all policies, one workload after the other."""

    rules: Policies
    by_policy: dict[Id, PolicyStanding] = field(default_factory=dict)
    _reported: set[tuple[Id, Id]] = field(default_factory=set)

    def of(self, which: Id) -> PolicyStanding:
        return self.by_policy.setdefault(which, PolicyStanding())

    def add(self, workload: str, subject: Subject, policy: Policy) -> None:
        """Counts one workload. `policy`: the one in force for it."""
        own = (policy.namespace, policy.name)
        if policy.origin in ("match", "policyRef"):
            self.of(own).follow(workload)
        required = {("", demand.name) for demand in policy.required}
        for which in sorted(required - {own}):
            self.of(which).follow(workload)
        matching = self.rules.matching(subject)
        for rule in matching:
            if rule.id != own and rule.id not in required:
                self.of(rule.id).passed += 1
        if policy.origin == "match" and matching:
            self._compare(workload, matching)

    def _compare(self, workload: str, matching: Iterable[Rule]) -> None:
        """Policies that nothing but their names puts in an order."""
        first, *others = matching
        for other in others:
            same = first.cluster_wide == other.cluster_wide and first.priority == other.priority
            pair = (first.id, other.id)
            if not same or bool(first.names) != bool(other.names) or pair in self._reported:
                continue
            self._reported.add(pair)
            words = f"selects {workload} too, with the same priority {first.priority}"
            order = f"{first.policy.name} is taken, because its name is the first"
            self._note(first.id, f"{title(other.id)} {words}; {order}")
            self._note(other.id, f"{title(first.id)} {words}; {order}")

    def _note(self, which: Id, sentence: str) -> None:
        conflicts = self.of(which).conflicts
        if len(conflicts) < CONFLICTS_MAX:
            conflicts.append(f"{sentence}; set spec.priority")


def unknown(policy: Policy, clusters: Mapping[str, ClusterView]) -> tuple[str, ...]:
    """Names and labels in a policy that no cluster has, each as a sentence with its field."""
    named = [f"spec.{each.field} {each.sentence}" for each in mentions.unknown(policy, clusters)]
    labels = [
        f"spec.{each.field} {each.sentence}" for each in mentions.unlabelled(policy, clusters)
    ]
    return (*named, *labels)
