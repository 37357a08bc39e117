"""Reasons of decisions in a planner's words."""

from collections.abc import Mapping
from typing import Final

from federator.model.decision import Reason
from federator.simulate.outcome import SCALING_UP

_MEANINGS: Final[Mapping[Reason, str]] = {
    Reason.INSUFFICIENT_CAPACITY: "no cluster had enough free",
    Reason.GANG_INCOMPLETE: "there was room in several clusters, and its copies need one",
    Reason.UNSCHEDULABLE: "a cluster had enough in sum, and no node had",
    Reason.AT_MAXIMUM: "a policy allows no more copies in these clusters",
    Reason.BELOW_MINIMUM: "a policy wants more copies in each cluster than there was room for",
    Reason.SPREAD_UNSATISFIABLE: "more copies would break a spread rule of a policy",
    Reason.QUOTA_EXCEEDED: "the quota of its project was in use",
    Reason.EXCEEDS_MAX_QUOTA: "it asks for more than the quota of its project ever allows",
    Reason.PRIORITY_EXCEEDS_MAX: "its priority is higher than its project may use",
    Reason.NOT_ALLOWED: "no quota names its project",
    Reason.PREEMPTED: "it made way for work of another account, or of a higher priority",
    Reason.NO_MATCHING_CLUSTER: "its policy selects no cluster",
    Reason.NOT_SELECTED: "its policy does not select the clusters with room",
    Reason.WORKLOAD_AFFINITY: "other workloads keep it away, or are not where there is room",
    Reason.TAINTED: "clusters with room have a taint that it does not tolerate",
    Reason.CORDONED: "clusters with room take nothing new",
}


def meaning(reason: str) -> str:
    """What a reason means in a simulation; for rare ones where to read it."""
    known = {str(key): text for key, text in _MEANINGS.items()}
    known[SCALING_UP] = "it waited for nodes that its cluster adds"
    return known.get(reason, "see docs/reference/conditions.md")
