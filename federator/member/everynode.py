"""Why nodes do not have a daemon: those that its pods may not go to, and those on which it has no
pod, or none that is ready. Pure.

It reads labels and taints as the DaemonSet controller does: room on a node is no reason for it, and
taints that Kubernetes sets on nodes in trouble are tolerated by the pods of every DaemonSet. A
tolerations list that cannot be read tolerates nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.pods import effective
from federator.member.cache.rows import Node, PodRow
from federator.model.errors import FieldError
from federator.model.kubernetes import nodematch, taints
from federator.model.kubernetes.taints import Toleration
from federator.model.observation import NodesWithout

NAMED: Final = 3
"""Nodes that are named for each reason."""
_OF_KUBERNETES: Final = "node.kubernetes.io/"
"""Prefix of the taints that every DaemonSet's pods tolerate."""


def without(
    pod: Obj, nodes: Sequence[Node], pods: Mapping[str, PodRow]
) -> tuple[NodesWithout, ...]:
    """The nodes by reason, the largest groups first. `pod` is the spec of its pods, `pods` are
    those that there are, by node; nodes are in the order in which they are named."""
    try:
        tolerations = effective.pod_tolerations(pod)
    except FieldError:
        tolerations = ()
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        if reason := _why(pod, tolerations, node, pods.get(node.name)):
            groups[reason].append(node.name)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return tuple(
        NodesWithout(reason, len(members), tuple(members[:NAMED])) for reason, members in ordered
    )


def _why(pod: Obj, tolerations: Sequence[Toleration], node: Node, there: PodRow | None) -> str:
    """Why this node does not have it, "" for one that has."""
    if there is not None:
        if there.ready:
            return ""
        return f"has a pod of it: {there.trouble.reason}" if there.trouble else "has a starting pod"
    required = raw.mapping(
        pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if not nodematch.matches(pod.get("nodeSelector"), required, node.labels, node.name):
        return "is not chosen by nodeSelector or node affinity of its pods"
    own = [taint for taint in node.taints if not taint.key.startswith(_OF_KUBERNETES)]
    taint = taints.untolerated(own, tolerations)
    if taint is not None:
        return f"has taint {taint}, which its pods do not tolerate"
    return "has no pod of it yet"
