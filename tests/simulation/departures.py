"""Nobody leaves for nowhere: a decision takes a running copy from a cluster only with another place
for it, or because a person said so of that very cluster or of the count.

Pure and in its own words, beside the product's `leaving`: `feasibility` brings the decision, the
one before, and what the hub had heard of policy and MemberClusters.
"""

from collections.abc import Iterator, Mapping

from federator.api import capacityfields, membercluster, raw
from federator.api.membercluster import Removal
from federator.api.placement.decisionfacts import DecisionFacts
from federator.hub.placing import unschedulable
from federator.model import shards
from federator.model.decision import Share
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Effect
from federator.model.policy import Policy, Strategy
from federator.model.shards import Ranges
from tests.simulation.invariants import Obj, left

NAME = "2 nobody leaves for nowhere"
BEYOND = 1 << 30
"""Above any ordinal."""


def breaches(  # noqa: PLR0917 what a decision was made from
    facts: DecisionFacts,
    before: DecisionFacts,
    policy: Policy,
    members: Mapping[str, Obj | None],
    wanted: int,
    done: Ranges,
    *,
    each: int = 0,
) -> Iterator[str]:
    """A sentence for every cluster that loses running copies although fewer run than are wanted,
    and than ran before. `wanted` copies are to run at once; of job sets `done` shards run no more.
    `each`: what the count last meant for each cluster.
    """
    if facts.blocks:  # the count says which ordinals there are, whichever of them run
        done = ((wanted, BEYOND),)
    now = {share.cluster: _runs(share, done) for share in facts.shares}
    everywhere = policy.division.strategy is Strategy.DUPLICATE
    if 0 < each == wanted and not everywhere and not left(before, facts):
        yield from _of_each(now, before, policy, members, each)
    ran = sum(_runs(share, done) for share in before.shares)
    enough = wanted if everywhere else min(wanted, ran)
    enough -= left(before, facts)  # whether they might is for `contested` and `reclaimrules`
    # What no machine takes does not run: as many more may be in clusters that take them.
    if any(unschedulable.CAUSE in cause for cause in facts.terms.causes[-1:]):
        enough, everywhere = min(enough, ran), False
    if sum(now.values()) >= enough and not (everywhere and facts.terms.shortfall):
        return
    lost = sum(max(_runs(share, done) - now.get(share.cluster, 0), 0) for share in before.shares)
    if everywhere and lost <= left(before, facts):  # it lacks copies in each cluster by then
        return
    for share in before.shares:
        had, has = min(_runs(share, done), wanted), now.get(share.cluster, 0)
        obj = members.get(share.cluster)
        if has < had and obj is not None and not _said(obj, policy):
            yield (
                f"{share.cluster} goes from {had} to {has}, {sum(now.values())} of {wanted} are "
                "to run"
            )


def _of_each(
    now: Mapping[str, int],
    before: DecisionFacts,
    policy: Policy,
    members: Mapping[str, Obj | None],
    each: int,
) -> Iterator[str]:
    """Clusters that lose what a policy that spoke of each cluster gave them, for an edit of the
    policy alone. Where they hold no more than the count between them, it may be divided anew.
    """
    stood = {
        share.cluster: min(share.count, each)
        for share in before.shares
        if (obj := members.get(share.cluster)) is not None
        if not (
            _said(obj, policy)
            or _kept_out(share.cluster, policy)
            or "deletionTimestamp" in obj["metadata"]
        )
    }
    for cluster, had in stood.items() if sum(stood.values()) > each else ():
        if now.get(cluster, 0) < had:
            yield (
                f"{cluster} goes from {had} to {now.get(cluster, 0)}, nobody changed the {each} "
                "that each was to have"
            )


def _kept_out(cluster: str, policy: Policy) -> bool:
    """Whether a Required policy of an operator admits other clusters only: then this is none of
    those of which the count speaks.
    """
    return any(demand.names and cluster not in demand.names for demand in policy.required)


def _runs(share: Share, done: Ranges) -> int:
    return (
        min(share.slots, shards.size(shards.minus(share.ranges, done)))
        if share.ranges
        else share.count
    )


def _said(cluster: Obj, policy: Policy) -> bool:
    """Whether a person took everything away from this cluster, or gave the cluster up or away."""
    if membercluster.removal(cluster) in (Removal.LOST, Removal.ORPHAN):
        return True
    tainted = capacityfields.taints_of(raw.at(cluster, "spec", "taints"))
    evicting = any(
        taints.untolerated(tainted, tolerations, (Effect.NO_EXECUTE,)) is not None
        for tolerations in (policy.tolerations, *(demand.tolerations for demand in policy.required))
    )
    excluded = {*policy.exclude, *(name for demand in policy.required for name in demand.exclude)}
    return cluster["metadata"]["name"] in excluded or (evicting and not policy.problem)
