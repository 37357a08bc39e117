"""Evaluates checked CEL expressions for clusters.

The evaluator (common-expression-language) takes 170 ms to import, so it is imported by the first
evaluation. Each source is compiled once per process. What an evaluation sees of a cluster is only
what its expression reads.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from federator.model import properties
from federator.model.cel import checking
from federator.model.cel.checking import Checked
from federator.model.fleet import ClusterView
from federator.model.kubernetes.quantity import NANO
from federator.model.properties import Kind

_PART: Final = "\x01"
"""Between the parts of a pre-release: before every character of them."""


class Unanswered(Exception):
    """An expression that fails for one cluster, with the reason as a part of a sentence."""


@functools.lru_cache(maxsize=4096)
def checked(source: str) -> Checked:
    """The expression with what it reads. Raises `checking.InvalidExpression`."""
    return checking.check(source)


def reported(expression: Checked) -> bool:
    """Whether it reads amounts of capacity reports."""
    rows = (properties.PROPERTIES.get(name) for name in expression.reads)
    return any(row is not None and row.reported for row in rows)


def holds(source: str, view: ClusterView) -> bool:
    """Whether the expression is true of the cluster. Raises `Unanswered`, and
    `checking.InvalidExpression` for one that is not checked yet and cannot be used."""
    expression = checked(source)
    seen, absent = _seen(expression, view)
    try:
        result = _program(source).execute(_context(seen))
    except (ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise Unanswered(_why(error, absent)) from None
    if not isinstance(result, bool):
        raise Unanswered("its result is no bool")
    return result


def _why(error: Exception, absent: list[str]) -> str:
    if absent:
        return f"the cluster has no {', '.join(absent)}"
    if isinstance(error, KeyError):
        return f"the cluster has no {error.args[0]}"
    return str(error).partition("\n")[0][:200] or type(error).__name__


def _seen(expression: Checked, view: ClusterView) -> tuple[dict[str, Any], list[str]]:
    """The cluster as the expression sees it, and the names that it reads and the cluster does not
    have."""
    cluster: dict[str, Any] = {}
    absent: list[str] = []
    for name in sorted(expression.reads):
        first, _, rest = name.partition(".")
        holder = cluster.setdefault(first, {}) if rest else cluster
        if name in properties.PREFIXES:
            cluster[name] = dict(properties.PREFIXES[name][0](view))
            continue
        row = properties.PROPERTIES[name]
        value = row.read(view)
        if row.kind is Kind.VERSION and isinstance(value, str):
            value = sortable(value)
        if value is None:
            absent.append(name)
        else:
            holder[rest or name] = value / NANO if isinstance(value, int) else value
    return {"cluster": cluster}, absent


def sortable(text: str) -> str | None:
    """A text that sorts as the semantic version does; None for what is no version."""
    made = properties.version(text)
    if made is None:
        return None
    major, minor, patch, released, before = made
    parts = [f"1{part}" if alphabetic else f"0{number:030}" for alphabetic, number, part in before]
    return f"{major:06}.{minor:06}.{patch:06}{'~' if released else '-'}{_PART.join(parts)}"


def _semver(text: str) -> str:
    made = sortable(text)
    if made is None:
        raise ValueError(f"{text[:80]!r} is no version")
    return made


def _quantity(text: str) -> float:
    nanos = properties.number(text)
    if nanos is None:
        raise ValueError(f"{text[:80]!r} is no quantity")
    return nanos / NANO


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"semver": _semver, "quantity": _quantity}


@functools.lru_cache(maxsize=4096)
def _program(source: str) -> Any:
    import cel

    return cel.compile(source)


def _context(seen: dict[str, Any]) -> Any:
    import cel

    return cel.Context(seen, dict(_FUNCTIONS))
