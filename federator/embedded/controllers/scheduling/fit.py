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
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Taint, Toleration

UNSCHEDULABLE: Final = "node(s) were unschedulable"
NODE_NAME: Final = "node(s) didn't match the requested node name"
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
    node_terms: tuple[Mapping[str, Any], ...] | None
    named: tuple[str, ...] | None
    """The only nodes that its terms name (pods of DaemonSets), or None when any node may match."""
    tolerations: tuple[Toleration, ...]
    neighbours: NeighbourRules
    kept: tuple[Any, ...]


def shape_of(pod: Mapping[str, Any], wanted: Amounts, kept: tuple[Any, ...]) -> Shape:
    """Reads a pod's scheduling rules."""
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = None if required is None else tuple(required.get("nodeSelectorTerms") or ())
    return Shape(
        wanted=wanted,
        node_selector=spec.get("nodeSelector") or {},
        node_terms=terms,
        named=_named(terms),
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
    for name, value in shape.node_selector.items():
        if node.labels.get(name) != value:
            return AFFINITY
    if shape.node_terms is not None and not any(
        _term_matches(term, node) for term in shape.node_terms
    ):
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
    for name, value in (spec.get("nodeSelector") or {}).items():
        if node.labels.get(name) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(
        _term_matches(term, node) for term in required.get("nodeSelectorTerms") or ()
    )


def _named(terms: Sequence[Mapping[str, Any]] | None) -> tuple[str, ...] | None:
    names: list[str] = []
    for term in terms or ():
        fields = [entry for entry in term.get("matchFields") or () if entry["operator"] == "In"]
        if not fields:
            return None
        names += fields[0]["values"]
    return tuple(sorted(set(names))) if names else None


def _term_matches(term: Mapping[str, Any], node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term selects nothing
    return all(_expression(entry, node.labels.get(entry["key"])) for entry in expressions) and all(
        _expression(entry, node.name if entry["key"] == "metadata.name" else None)
        for entry in fields
    )


def _expression(entry: Mapping[str, Any], value: str | None) -> bool:
    values: Sequence[str] = entry.get("values") or ()
    match entry["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as way:
            bound = values[0] if len(values) == 1 else ""
            if value is None or not (_integer(value) and _integer(bound)):
                return False
            return int(value) > int(bound) if way == "Gt" else int(value) < int(bound)
    return False


def _integer(text: str) -> bool:
    return text.lstrip("-").isdecimal()
