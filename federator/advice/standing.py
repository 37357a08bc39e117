"""What `explain` shows of a placement policy and of a cluster, as plain objects. Pure; made from a
situation."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from federator.advice import overridden
from federator.api import raw
from federator.hub.cache import policying
from federator.hub.placing.offline import Situation
from federator.kinds import registry
from federator.model.ask import Ask, PodShape, Unit
from federator.model.fleet import ClusterView, copies_of
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.model.resources import ZERO
from federator.placement.policy import standing
from federator.placement.policy.policies import Id, Rule
from federator.placement.policy.standing import Standings
from federator.placement.selection import filters

NAMED_MAX: Final = 10
"""Workloads that are named of a cluster."""
CHOICE: Final[tuple[Callable[[Ask, ClusterView], str | None], ...]] = (
    filters.refuses_unnamed,
    filters.refuses_excluded,
    filters.refuses_unselected,
    filters.refuses_ungrouped,
)
"""The rules of `clusters` and `division.groups`."""


def of_policy(situation: Situation, which: Id) -> dict[str, Any] | None:
    """The facts about a policy; None when there is none of that name."""
    rule = situation.rules.get(*which)
    if rule is None:
        return None
    standings, bindings = Standings(situation.rules), situation.bindings()
    for key, workload in sorted(situation.workloads.items()):
        subject = policying.subject(workload, bindings)
        policy = policying.in_force(subject, workload.placement, situation.rules)
        standings.add(str(key), subject, policy)
    now, clusters = standings.of(which), situation.snapshot.clusters
    return {
        "policy": {
            "kind": standing.title(which).partition(" ")[0],
            "namespace": which[0],
            "name": which[1],
            "generation": rule.policy.generation,
            "priority": rule.priority,
            "required": rule.demand is not None,
            "inForce": situation.rules.in_force(which),
        },
        "selects": _selects(rule),
        "problem": rule.policy.problem,
        "matched": now.matched,
        "examples": list(now.examples),
        "passed": now.passed,
        "conflicts": list(now.conflicts),
        "unknown": list(standing.unknown(rule.policy, clusters)),
        "clusters": [
            {"cluster": name, "why": _not_admitted(rule.policy, view)}
            for name, view in sorted(clusters.items())
        ],
        "overrides": list(_overrides(rule.policy, clusters)),
        "refused": list(_refused(situation, which)),
    }


def _selects(rule: Rule) -> dict[str, Any]:
    """Which workloads it selects; a condition that it does not make is left out."""
    conditions = {
        "names": sorted(rule.names),
        "matchLabels": dict(rule.match_labels),
        "namespaces": sorted(rule.namespaces),
        "kinds": sorted(rule.kinds),
        "projects": sorted(rule.projects),
    }
    return {name: value for name, value in conditions.items() if value}


def _not_admitted(policy: Policy, view: ClusterView) -> str:
    """Why the policy does not choose a cluster, as a clause; "" when it does."""
    ask = replace(_ANY, policy=policy)
    return next((why for judge in CHOICE if (why := judge(ask, view))), "")


_ANY: Final = Ask(
    WorkloadKey(next(iter(registry.WORKLOADS)), "", ""),
    "",
    0,
    Unit.REPLICAS,
    1,
    1,
    PodShape(ZERO),
    "",
)
"""A workload of which the rules of a policy's own choice read nothing."""


def _overrides(policy: Policy, clusters: Mapping[str, ClusterView]) -> Iterator[dict[str, Any]]:
    """The entries of `overrides`, each with the clusters that it selects."""
    for override in policy.overrides:
        yield {
            "path": override.path,
            "set": list(overridden.in_words(override.fields)),
            "clusters": [
                name
                for name, view in sorted(clusters.items())
                if override.selects(name, view.labels)
            ],
            "problem": override.problem,
        }


def _refused(situation: Situation, which: Id) -> Iterator[str]:
    """Workloads with a slice that is not written because of an override of this policy."""
    named = standing.title(which)
    for key, clusters in _placed(situation):
        for cluster, why in overridden.refused(situation, key, clusters).items():
            if named in why:
                yield f"{key} in {cluster}: {why}"


def of_cluster(situation: Situation, name: str) -> dict[str, Any] | None:
    """The facts about a cluster; None when there is none of that name."""
    view = situation.snapshot.clusters.get(name)
    obj = situation.objects.get(("MemberCluster", "", name))
    if view is None or obj is None:
        return None
    held = [(key, shares[name]) for key, shares in _shares(situation) if name in shares]
    most = sorted(held, key=lambda pair: (-pair[1], pair[0]))[:NAMED_MAX]
    return {
        "cluster": name,
        "labels": dict(sorted(view.labels.items())),
        "conditions": [
            {part: raw.text(each, part) for part in ("type", "status", "reason", "message")}
            for each in raw.objects(obj, "status", "conditions")
        ],
        "closed": filters_of(view),
        "taints": [str(taint) for taint in view.taints],
        "free": quantity.render(view.capacity.free) if view.capacity is not None else {},
        "workloads": len(held),
        "copies": sum(copies for _, copies in held),
        "most": [{"workload": str(key), "copies": copies} for key, copies in most],
        "policies": [
            {
                "policy": standing.title(rule.id),
                "why": _not_admitted(rule.policy, view),
                "overrides": [
                    override.path
                    for override in rule.policy.overrides
                    if override.selects(name, view.labels)
                ],
            }
            for rule in sorted(situation.rules, key=lambda rule: rule.id)
        ],
    }


def filters_of(view: ClusterView) -> str:
    """Why the cluster takes no new workload whatever its policy says, as a clause; "" when it
    does."""
    refusal = filters.refusal(replace(_ANY, project_bound=True), view)
    return refusal.message if refusal is not None else ""


def _shares(situation: Situation) -> Iterator[tuple[WorkloadKey, dict[str, int]]]:
    for key, record in sorted(situation.records.items()):
        copies = {share.cluster: copies_of(share) for share in record.shares}
        yield key, {name: count for name, count in copies.items() if count}


def _placed(situation: Situation) -> Iterator[tuple[WorkloadKey, list[str]]]:
    for key, record in sorted(situation.records.items()):
        if key in situation.workloads:
            yield key, [share.cluster for share in record.shares if copies_of(share)]
