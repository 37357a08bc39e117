"""Which placement policy speaks for a workload.

The one it names; else the best match: namespaced before cluster-wide, then the higher priority, then the name; else the
built-in default (all ready clusters, by capacity, in part).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from federator.model.ask import DEFAULT_POLICY, Policy
from federator.model.errors import FieldError


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy and the workloads it is meant for. Empty conditions match everything; all of them must match."""

    policy: Policy
    cluster_wide: bool = False
    kinds: frozenset[str] = frozenset()
    match_labels: Mapping[str, str] = field(default_factory=dict)
    projects: frozenset[str] = frozenset()
    priority: int = 0

    def matches(self, kind: str, namespace: str, labels: Mapping[str, str], project: str) -> bool:
        return (
            (self.cluster_wide or self.policy.namespace == namespace)
            and (not self.kinds or kind in self.kinds)
            and (not self.projects or project in self.projects)
            and all(labels.get(key) == value for key, value in self.match_labels.items())
        )


def choose(  # noqa: PLR0917 the hub passes what identifies a workload in its usual order
    kind: str, namespace: str, labels: Mapping[str, str], project: str, policy_ref: str, rules: Collection[Rule]
) -> Policy:
    """The policy in force, its `origin` telling how it was found.

    A policy named by the workload is looked for in its namespace, then cluster-wide, whatever the policy's own
    conditions. Raises FieldError at spec.placement.policyRef when there is none of that name.
    """
    if policy_ref:
        named = [rule for rule in rules if rule.policy.name == policy_ref]
        here = [rule for rule in named if not rule.cluster_wide and rule.policy.namespace == namespace]
        for rule in here or [rule for rule in named if rule.cluster_wide]:
            return replace(rule.policy, origin="policyRef")
        raise FieldError(
            "spec.placement.policyRef",
            f"there is no PlacementPolicy {policy_ref} in namespace {namespace}, nor a ClusterPlacementPolicy",
        )
    matching = [rule for rule in rules if rule.matches(kind, namespace, labels, project)]
    if not matching:
        return DEFAULT_POLICY
    best = min(matching, key=lambda rule: (rule.cluster_wide, -rule.priority, rule.policy.name))
    return replace(best.policy, origin="match")
