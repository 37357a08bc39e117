"""Which nodes a pod may go to, by labels: nodeSelector and required node affinity, as the scheduler
reads them.

Pure. Called by the capacity report for shapes that only the member can answer, and for DaemonSets;
by placement for nodes that a cluster can add, of which it knows the labels.
A requirement that cannot be read matches nothing, so that a doubtful answer never promises room.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

Obj = Mapping[str, Any]


def parse(text: str) -> tuple[Any, Any]:
    """(nodeSelector, required node affinity) of a shape's canonical JSON; something unreadable
    admits no node."""
    if not text:
        return None, None
    try:
        rules = json.loads(text)
    except (ValueError, RecursionError):
        return "unreadable", None
    if not isinstance(rules, Mapping) or not rules.keys() <= {"nodeSelector", "nodeAffinity"}:
        return "unreadable", None
    return rules.get("nodeSelector"), rules.get("nodeAffinity")


def matches(selector: Any, affinity: Any, labels: Mapping[str, str], name: str) -> bool:
    """`selector` is a pod's nodeSelector, `affinity` its
    nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."""
    if selector:
        if not isinstance(selector, Mapping):
            return False
        if any(labels.get(key) != value for key, value in selector.items()):
            return False
    if not affinity:
        return True
    terms = affinity.get("nodeSelectorTerms") if isinstance(affinity, Mapping) else affinity
    if not isinstance(terms, Sequence) or isinstance(terms, str):
        return False
    return any(_term(term, labels, name) for term in terms)


def _term(term: Any, labels: Mapping[str, str], name: str) -> bool:
    """All requirements of a term must hold; an empty term matches no node."""
    if not isinstance(term, Mapping):
        return False
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    node = {"metadata.name": name}
    return all(_holds(expression, labels) for expression in expressions) and all(
        _holds(field, node) for field in fields
    )


def _holds(requirement: Any, labels: Mapping[str, str]) -> bool:
    if not isinstance(requirement, Mapping):
        return False
    key, values = requirement.get("key"), requirement.get("values") or ()
    have = labels.get(key) if isinstance(key, str) else None
    match requirement.get("operator"):
        case "In":
            return have is not None and have in values
        case "NotIn":
            return have is None or have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt" as operator:
            bounds = list(values)
            bound = _integer(bounds[0]) if len(bounds) == 1 else None
            number = _integer(have)
            if bound is None or number is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _integer(text: Any) -> int | None:
    if not isinstance(text, str) or len(text) > 20:
        return None
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else None
