"""Tolerations that end: how long copies stay on a cluster that a person has tainted (NoExecute).

A toleration with seconds lets copies stay that long after the taint's `timeAdded`; then they leave
like those that an edit moves. Meanwhile the cluster takes no new ones. Of several tolerations that
match, of the policy and of Required ones, the shortest counts; 0 seconds end immediately. The time
of the snapshot decides, so that the answer is the same in every process and after a restart.
"""

from collections.abc import Iterator
from dataclasses import replace

from federator.model.ask import Ask
from federator.model.fleet import ClusterView, FleetSnapshot
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Taint
from federator.model.policy import Policy
from federator.placement.policy import enforcing


def seconds(policy: Policy, taint: Taint) -> int | None:
    """For how long the policy tolerates a taint that a person has set; None for ever, or not at
    all."""
    matching = [
        toleration.seconds
        for tolerations in (policy.tolerations, *(each.tolerations for each in policy.required))
        for toleration in tolerations
        if toleration.seconds >= 0 and toleration.tolerates(taint)
    ]
    return min(matching, default=None)


def resolved(ask: Ask, snapshot: FleetSnapshot) -> Ask:
    """The ask with the taints in its policy that are tolerated no longer (`Policy.overdue`)."""
    if not timed(ask.policy):
        return ask
    overdue = tuple(
        (view.name, taint)
        for view, taint, ends_s in _ends(ask.policy, snapshot)
        if ends_s <= snapshot.as_of
    )
    if overdue == ask.policy.overdue:
        return ask
    return replace(ask, policy=replace(ask.policy, overdue=overdue))


def ends_in_s(ask: Ask, snapshot: FleetSnapshot) -> float | None:
    """Seconds until the next toleration ends; None where none does."""
    if not timed(ask.policy):
        return None
    ahead = (ends_s - snapshot.as_of for _, _, ends_s in _ends(ask.policy, snapshot))
    return min((in_s for in_s in ahead if in_s > 0), default=None)


def timed(policy: Policy) -> bool:
    """Whether it tolerates anything for a time only."""
    if not (policy.tolerations or policy.required):
        return False  # asked for every decision
    return any(toleration.seconds >= 0 for toleration in policy.tolerations) or any(
        toleration.seconds >= 0 for each in policy.required for toleration in each.tolerations
    )


def _ends(policy: Policy, snapshot: FleetSnapshot) -> Iterator[tuple[ClusterView, Taint, float]]:
    """(cluster, taint, epoch seconds at which its toleration ends), by name. A taint without a time
    has only now been added."""
    for name in sorted(snapshot.clusters):
        view = snapshot.clusters[name]
        for taint in taints.evicting(view.taints):
            lasts_s = seconds(policy, taint)
            if lasts_s is not None and enforcing.tolerates(policy, taint):
                added_s = dict(view.tainted_s).get(taint, snapshot.as_of)
                yield view, taint, added_s + lasts_s
