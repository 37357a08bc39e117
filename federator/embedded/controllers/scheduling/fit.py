"""Whether a pod fits a node: the scheduler's filters as pure functions, with the real scheduler's
words for each refusal.

`Shape` is all that filters read of a pod; pods of one template share it. Inter-pod rules are in
`neighbours`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.controllers.nodes import Node
from federator.embedded.controllers.requests import Amounts
from federator.embedded.controllers.scheduling.neighbours import NeighbourRules, neighbour_rules_of
from federator.model.kubernetes import nodematch, taints
from federator.model.kubernetes.taints import Taint, Toleration

UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
TOO_MANY: Final = "Too many pods"

_NOT_READY: Final = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """What placing a pod depends on. `kept` holds the parts that identify the shape."""

    wanted: Amounts
    node_selector: Mapping[str, str]
    affinity: Mapping[str, Any] | None
    """Its required node affinity."""
    named: tuple[str, ...] | None
    """The only nodes that its terms name (pods of DaemonSets), or None when any node may match."""
    tolerations: tuple[Toleration, ...]
    neighbours: NeighbourRules
    kept: tuple[Any, ...]


def shape_of(pod: Mapping[str, Any], wanted: Amounts, kept: tuple[Any, ...]) -> Shape:
    """Reads a pod's scheduling rules."""
    spec = pod["spec"]
    required = _required(spec)
    return Shape(
        wanted=wanted,
        node_selector=spec.get("nodeSelector") or {},
        affinity=required,
        named=_named((required or {}).get("nodeSelectorTerms") or ()),
        tolerations=tuple(
            taints.toleration_from_dict(entry) for entry in spec.get("tolerations") or ()
        ),
        neighbours=neighbour_rules_of(pod),
        kept=kept,
    )


def refusal(shape: Shape, node: Node) -> str | None:
    """Why the node can never take the pod as things are, whatever else runs there; None when it
    could."""
    if node.unschedulable and not any(
        toleration.tolerates(_CORDON) for toleration in shape.tolerations
    ):
        return UNSCHEDULABLE
    if not node.ready and not any(
        toleration.tolerates(_NOT_READY) for toleration in shape.tolerations
    ):
        return TAINTED
    if node.taints and taints.untolerated(node.taints, shape.tolerations) is not None:
        return TAINTED
    if not nodematch.matches(shape.node_selector, shape.affinity, node.labels, node.name):
        return AFFINITY
    return None


def shortages(shape: Shape, node: Node) -> list[str]:
    """What the node has too little of, in words."""
    missing = []
    for name, amount in shape.wanted:
        if node.used.get(name, 0) + amount > node.allocatable.get(name, 0):
            missing.append(TOO_MANY if name == "pods" else f"Insufficient {name}")
    return missing


def fits(shape: Shape, node: Node) -> bool:
    """Whether there is room."""
    used, have = node.used, node.allocatable
    return all(used.get(name, 0) + amount <= have.get(name, 0) for name, amount in shape.wanted)


def node_matches(spec: Mapping[str, Any], node: Node) -> bool:
    """Whether nodeSelector and required node affinity of a pod spec allow the node (for
    DaemonSets)."""
    return nodematch.matches(spec.get("nodeSelector"), _required(spec), node.labels, node.name)


def _required(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required: Mapping[str, Any] | None = affinity.get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return required


def _named(terms: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    names: list[str] = []
    for term in terms:
        fields = [entry for entry in term.get("matchFields") or () if entry["operator"] == "In"]
        if not fields:
            return None
        names += fields[0]["values"]
    return tuple(sorted(set(names))) if names else None
