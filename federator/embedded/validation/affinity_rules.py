"""Validation of a pod's affinity and of the ids in its security contexts, with a real API server's
words.

Called by `pod_rules`. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.embedded.storage.field_errors import FieldError, invalid, not_supported, required
from federator.embedded.validation.metadata_rules import qualified_name

Struct = Mapping[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS: Final = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_MAX_ID: Final = 2**31 - 1


def affinity(value: Struct, path: str) -> Iterator[FieldError]:
    """Node affinity, pod affinity and pod anti-affinity."""
    node = value.get("nodeAffinity") or {}
    if node.get(_REQUIRED) is not None:
        yield from _node_selector(node[_REQUIRED], f"{path}.nodeAffinity.{_REQUIRED}")
    for index, term in enumerate(node.get(_PREFERRED) or ()):
        at = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
        yield from _weight(term, at)
        yield from _expressions(term.get("preference") or {}, f"{at}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = value.get(kind) or {}
        for index, term in enumerate(terms.get(_REQUIRED) or ()):
            yield from _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(terms.get(_PREFERRED) or ()):
            at = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight(weighted, at)
            yield from _pod_term(weighted.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _node_selector(selector: Struct, path: str) -> Iterator[FieldError]:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from _expressions(term, f"{path}.nodeSelectorTerms[{index}]")


def _expressions(term: Struct, path: str) -> Iterator[FieldError]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            yield required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator not in _OPERATORS:
            yield invalid(f"{at}.operator", operator, "not a valid selector operator")
        for text in qualified_name(expression.get("key", "")):
            yield invalid(f"{at}.key", expression.get("key", ""), text)


def _weight(term: Struct, path: str) -> Iterator[FieldError]:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _pod_term(term: Struct, path: str) -> Iterator[FieldError]:
    if not term.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        for text in qualified_name(term["topologyKey"]):
            yield invalid(f"{path}.topologyKey", term["topologyKey"], text)


def ids(context: Struct, path: str, names: tuple[str, ...]) -> Iterator[FieldError]:
    """User and group ids of a security context."""
    for name in names:
        value = context.get(name)
        if value is not None and not 0 <= value <= _MAX_ID:
            yield invalid(f"{path}.{name}", value, f"must be between 0 and {_MAX_ID}, inclusive")


def schedule_action(action: str, path: str) -> Iterator[FieldError]:
    """`whenUnsatisfiable` of a spread constraint."""
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        yield not_supported(path, action, ("DoNotSchedule", "ScheduleAnyway"))
