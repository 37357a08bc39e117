"""Judges clusters by the conditions of a policy: required terms, and alternatives (`anyOf`).

A term that reads what people state (labels, version, `spec.properties`, price) says where copies
may stay: a cluster that does not meet it loses its copies when they have another place, as with
`clusters.selector`. A term that reads amounts of the capacity report, or cannot be evaluated for a
cluster, only keeps new copies away: a workload's own copies lower what is free, so nothing may move
because of that.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from federator.model import properties
from federator.model.cel import evaluating
from federator.model.cel.checking import InvalidExpression
from federator.model.cel.evaluating import Unanswered
from federator.model.fleet import ClusterView
from federator.model.kubernetes import selectors
from federator.model.properties import Kind, Property, Value
from federator.model.terms import Alternative, Conditions, Operator, Term


class Scope(Enum):
    """For which copies a condition keeps a cluster closed, and until when."""

    ALL = auto()
    """For running copies too: they leave when they have another place."""
    NEW = auto()
    """For new copies, until the cluster or the policy is edited."""
    NOW = auto()
    """For new copies, until another capacity report."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """Why a cluster does not meet a condition. `path`: the field below the policy's spec."""

    path: str
    wants: str
    """What the field asks for; "" for an alternative."""
    instead: str
    """What the cluster has, as a part of a sentence."""
    scope: Scope


def unmet(conditions: Conditions, view: ClusterView, scopes: Collection[Scope]) -> Unmet | None:
    """The first condition that the cluster does not meet, of these scopes."""
    for term in conditions.terms:
        why = _of_term(term, view)
        if why is not None and why.scope in scopes:
            return why
    if not conditions.any_of:
        return None
    against = [_of_alternative(each, view) for each in conditions.any_of]
    if any(why is None for why in against):
        return None
    refused = [why for why in against if why is not None]
    # The alternative that is nearest to being met says how lasting the refusal is.
    scope = max((why.scope for why in refused), key=lambda scope: scope.value)
    if scope not in scopes:
        return None
    reasons = "; ".join(f"[{at}] {reason(why)}" for at, why in enumerate(refused))
    return Unmet("clusters.anyOf", "", f"its facts match no alternative: {reasons}", scope)


def reason(why: Unmet) -> str:
    """What is wanted and what is there, as a part of a sentence."""
    return f"{why.instead}, wanted is {why.wants}" if why.wants else why.instead


def _of_alternative(given: Alternative, view: ClusterView) -> Unmet | None:
    if given.names and view.name not in given.names:
        wants = f"one of {len(given.names)} names"
        return Unmet(f"{given.path}.names", wants, f"its name is {view.name}", Scope.ALL)
    if view.name in given.exclude:
        return Unmet(f"{given.path}.exclude", "", "it is excluded", Scope.ALL)
    if given.selector is not None and not given.selector.matches(view.labels):
        wants = selectors.to_text(given.selector)
        return Unmet(f"{given.path}.selector", wants, "its labels are others", Scope.ALL)
    refused = [why for term in given.terms if (why := _of_term(term, view)) is not None]
    return min(refused, key=lambda why: why.scope.value, default=None)


def _of_term(term: Term, view: ClusterView) -> Unmet | None:
    if term.cel:
        return _of_expression(term, view)
    row = properties.find(term.key)
    if row is None:
        return Unmet(term.path, str(term), f"{term.key} is no property of clusters", Scope.NEW)
    value = row.read(view)
    if _COMPARED[term.operator](row, value, term.values):
        return None
    has = "is not known" if value is None else f"is {properties.shown(row, value)}"
    scope = Scope.NOW if row.reported else Scope.ALL
    if value is not None and not _comparable(row, value, term.operator):
        scope, has = Scope.NEW, f"{has}, which does not compare"
    return Unmet(term.path, str(term), f"its {term.key} {has}", scope)


def _of_expression(term: Term, view: ClusterView) -> Unmet | None:
    try:
        if evaluating.holds(term.cel, view):
            return None
    except (Unanswered, InvalidExpression) as why:
        text = f"its properties make the expression fail ({why})"
        return Unmet(term.path, str(term), text, Scope.NOW if term.reported else Scope.NEW)
    scope = Scope.NOW if term.reported else Scope.ALL
    return Unmet(term.path, str(term), "its properties make the expression false", scope)


def _comparable(row: Property, value: Value, operator: Operator) -> bool:
    if operator not in (Operator.GREATER_THAN, Operator.LESS_THAN):
        return True
    return _rank(row, value) is not None


def _rank(row: Property, value: Value) -> int | properties.Version | None:
    """What Gt and Lt compare; None for what does not compare."""
    if isinstance(value, int):
        return value
    return properties.version(value) if row.kind is Kind.VERSION else properties.number(value)


def _is_in(row: Property, value: Value | None, values: tuple[str, ...]) -> bool:
    if value is None:
        return False
    if isinstance(value, int):
        return value in {properties.number(text) for text in values}
    if row.kind is Kind.VERSION and (mine := properties.version(value)) is not None:
        return mine in {properties.version(text) for text in values}
    return value in values


def _is_above(row: Property, value: Value | None, values: tuple[str, ...]) -> bool:
    return value is not None and _difference(row, value, values) > 0


def _is_below(row: Property, value: Value | None, values: tuple[str, ...]) -> bool:
    return value is not None and _difference(row, value, values) < 0


def _difference(row: Property, value: Value, values: tuple[str, ...]) -> int:
    """1 above the bound, -1 below it, 0 at it and where the two do not compare."""
    have = _rank(row, value)
    bound = next((_rank(row, text) for text in _bounds(row, values)), None)
    if isinstance(have, int) and isinstance(bound, int):
        return (have > bound) - (have < bound)
    if isinstance(have, tuple) and isinstance(bound, tuple):
        return (have > bound) - (have < bound)
    return 0


def _bounds(row: Property, values: tuple[str, ...]) -> list[Value]:
    if row.kind is Kind.VERSION:
        return [*values]
    return [bound for text in values if (bound := properties.number(text)) is not None]


_COMPARED: Final = {
    Operator.IN: _is_in,
    Operator.NOT_IN: lambda row, value, values: not _is_in(row, value, values),
    Operator.EXISTS: lambda row, value, values: value is not None,
    Operator.DOES_NOT_EXIST: lambda row, value, values: value is None,
    Operator.GREATER_THAN: _is_above,
    Operator.LESS_THAN: _is_below,
}
"""Operator -> whether a value (None: unknown) passes. Without a value only NotIn and DoesNotExist
do, as for labels in Kubernetes."""
