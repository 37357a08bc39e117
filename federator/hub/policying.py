"""Which policy is in force for a workload. Pure; shared by placing and the offline engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from federator.api import placementfields, placementpolicy
from federator.model.ask import Policy
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.placement import policies
from federator.placement.policies import Rule


def in_force(
    key: WorkloadKey, labels: Mapping[str, str], project: str, placement: Mapping[str, Any], rules: Sequence[Rule]
) -> Policy:
    """The workload's own fields, the policy it names, the best match, or the default.

    One that cannot be found or read comes back with its `problem`: it places nothing new and says why.
    """
    named = str(placement.get("policyRef") or "")
    try:
        if placement and not named:
            return placementfields.policy_from_inline(placement)
        return policies.choose(key.kind, key.namespace, labels, project, named, rules)
    except FieldError as bad:
        return Policy(name=named or "inline", origin="misconfigured", problem=str(bad))


def rule_of(kind: str, obj: Mapping[str, Any]) -> Rule:
    """A policy object as a rule. One that cannot be read matches as it says, and carries its `problem`."""
    matching = placementpolicy.matching({**obj, "kind": kind})
    try:
        policy = placementpolicy.to_policy(obj, "match")
    except FieldError as bad:
        meta = obj["metadata"]
        policy = Policy(
            name=meta["name"],
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            generation=meta.get("generation", 0),
            origin="match",
            problem=f"policy {meta['name']}: {bad}",
        )
    return Rule(policy=policy, **matching)
