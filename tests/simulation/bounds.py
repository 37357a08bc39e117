"""What a policy says of how copies lie, in its plain meaning: whether a decision keeps to it where
it gives more.

Nobody is moved to mend a rule, so what a cluster held before may stay; beyond maxPerCluster only
what has no other place. Pure: `feasibility` brings decision, policy and the MemberClusters, as the
hub had heard of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from federator.api.placement.decisionfacts import DecisionFacts
from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Reason
from federator.model.policy import Policy, SpreadRule
from tests.simulation.invariants import Obj

NAME = "2 policies bind"


def admits(policy: Policy, cluster: str, obj: Obj | None) -> bool:
    """Whether a policy chooses a cluster by name, label and group. `obj`: its MemberCluster, None
    where that is not known: then only names count.
    """
    if cluster in policy.exclude or (policy.names and cluster not in policy.names):
        return False
    if obj is None:
        return True
    labels, groups = obj["metadata"].get("labels") or {}, policy.division.groups
    grouped = not groups or any(
        cluster in group.names or (group.selector is not None and group.selector.matches(labels))
        for group in groups
    )
    return grouped and (policy.selector is None or policy.selector.matches(labels))


def breaches(
    facts: DecisionFacts,
    before: DecisionFacts | None,
    policy: Policy,
    members: Mapping[str, Obj | None],
) -> Iterator[str]:
    """A sentence for every bound that copies were given beyond. Shards are given by slots, which
    finish: of those only what nothing that finishes can excuse is judged.
    """
    if facts.terms.reason is Reason.MISCONFIGURED:
        return
    now = {share.cluster: share.slots for share in facts.shares if share.slots > 0}
    had = {share.cluster: share.slots for share in before.shares} if before is not None else {}
    grown = {cluster for cluster, slots in now.items() if slots > had.get(cluster, 0)}
    division = policy.division
    most = division.max_per_cluster
    if most is not None:
        all_moved = facts.terms.unit is Unit.REPLICAS and not (
            facts.terms.held or facts.terms.surplus
        )
        for cluster in sorted(now if all_moved else grown):
            if now[cluster] > most:
                yield f"{cluster} is given {now[cluster]}, maxPerCluster is {most}"
    if policy.require_all and facts.terms.shortfall and facts.terms.unit is Unit.REPLICAS and grown:
        yield (
            f"{', '.join(sorted(grown))} are given more while {facts.terms.shortfall} are "
            "missing, all are required"
        )
    if facts.terms.unit is Unit.SHARDS:
        return
    joining = grown - had.keys() - _at_home(facts, before)
    # What has no other place yet stays in a cluster that the policy does not choose, beside those
    # that it does.
    chosen = [cluster for cluster in now if admits(policy, cluster, members.get(cluster))]
    if division.max_clusters is not None and len(chosen) > division.max_clusters and joining:
        yield f"{len(chosen)} clusters hold copies, maxClusters is {division.max_clusters}"
    for cluster in sorted(joining):
        if now[cluster] < division.min_per_cluster:
            yield (
                f"{cluster} joins with {now[cluster]}, minPerCluster is {division.min_per_cluster}"
            )
    for rule in policy.spread:
        if rule.hard:
            yield from _skewed(rule, now, had, members)


def _at_home(facts: DecisionFacts, before: DecisionFacts | None) -> set[str]:
    """The clusters to which ordinals come back that began there, as the decision before records: an
    ordinal begins in no other cluster (docs/decisions/0120), also when it was scaled away and the
    policy has been edited since.
    """
    blocks = before.blocks if before is not None else {}
    return {
        share.cluster
        for share in facts.shares
        if shards.intersect(share.ranges, shards.normal(blocks.get(share.cluster, ())))
    }


def _skewed(
    rule: SpreadRule,
    now: Mapping[str, int],
    had: Mapping[str, int],
    members: Mapping[str, Obj | None],
) -> Iterator[str]:
    """Domains that grew too far above another one that holds copies, or at all where the fleet has
    too few: whether an empty one could take some is not known here. A domain that did not grow
    counts as one copy for that: what it holds beyond it stays, as when a relabelled cluster has
    joined it.
    """
    domains: dict[str, str] = {}
    for cluster, obj in members.items():
        if obj is None:
            return
        domains[cluster] = (obj["metadata"].get("labels") or {}).get(rule.topology_key, "")
    totals, before = (_by_domain(counts, domains) for counts in (now, had))
    there, growing = (
        len(set(domains.values())),
        {domain for domain in totals if totals[domain] > before[domain]},
    )
    rightly = sum(
        copies if domain in growing else min(copies, 1) for domain, copies in totals.items()
    )
    if growing and there < min(rule.min_domains, rightly):
        who = ", ".join(sorted(growing))
        yield (
            f"{who} grow, {rule.topology_key} has {there} domains, minDomains is {rule.min_domains}"
        )
    least = min(totals.values(), default=0)
    for domain in sorted(growing):
        if totals[domain] - least > rule.max_skew > 0:
            where = f"{rule.topology_key} {domain}"
            yield (
                f"{where} is given {totals[domain]} and another one {least}, maxSkew is "
                f"{rule.max_skew}"
            )


def _by_domain(counts: Mapping[str, int], domains: Mapping[str, str]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for cluster, copies in counts.items():
        totals[domains.get(cluster, "")] += copies
    return totals
