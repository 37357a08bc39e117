"""What one ValidatingAdmissionPolicy says to a request, as a real API server evaluates it. Pure.

The CEL library has no optional fields, so `a.?b[?"c"].orValue(d)` is read as a call. It knows no
`authorizer` and no `params`: an expression that needs one of them fails, and the policy's
`failurePolicy` decides.
"""

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_OPTIONAL: Final = re.compile(
    r"([\w.]+?)((?:\.\?\w+|\[\?\"[^\"]+\"\])+)\.orValue\(((?:\[\]|\{\}|[^()])*)\)"
)
_STEP: Final = re.compile(r"\.\?(\w+)|\[\?(\"[^\"]+\")\]")


def denial(spec: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, str] | None:
    """(reason, message) with which a policy refuses a request; None when it does not. `given`: the
    variables of its expressions."""
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    for condition in spec.get("matchConditions") or ():
        try:
            if not evaluated(condition["expression"], given):
                return None
        except (ValueError, RuntimeError) as error:
            return ("Invalid", f"match condition failed: {error}") if fails else None
    variables: dict[str, Any] = {}
    given = {**given, "variables": variables}
    for variable in spec.get("variables") or ():
        try:
            variables[variable["name"]] = evaluated(variable["expression"], given)
        except (ValueError, RuntimeError):
            continue  # whatever reads it fails, and nothing else does
    for rule in spec.get("validations") or ():
        source = rule["expression"]
        try:
            if evaluated(source, given):
                continue
        except (ValueError, RuntimeError) as error:
            if fails:
                return "Invalid", f"expression '{source}' resulted in error: {error}"
            continue
        return rule.get("reason", "Invalid"), _message(rule, given)
    return None


def _message(rule: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    try:
        if said := rule.get("messageExpression"):
            return str(evaluated(said, given))
    except (ValueError, RuntimeError):
        pass
    return str(rule.get("message") or f"failed expression: {rule['expression']}")


def evaluated(source: str, variables: Mapping[str, Any]) -> Any:
    """The value of an expression. Raises ValueError for one that does not compile, and RuntimeError
    or ValueError for one that fails."""
    import cel

    return _program(source).execute(cel.Context(dict(variables), _FUNCTIONS))


@functools.lru_cache(maxsize=1024)
def _program(source: str) -> Any:
    import cel

    return cel.compile(_OPTIONAL.sub(_called, source))


def _called(match: re.Match[str]) -> str:
    steps = [f'"{name}"' if name else key for name, key in _STEP.findall(match[2])]
    return f"opt({match[1]}, [{', '.join(steps)}], {match[3]})"


def _opt(base: Any, path: list[str], default: Any) -> Any:
    """The value at a path, or the default where a part of it is missing."""
    for name in path:
        if not isinstance(base, Mapping) or name not in base:
            return default
        base = base[name]
    return base


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "opt": _opt,
    "split": str.split,
    "replace": str.replace,
}
"""Functions that API servers offer beside those of the CEL library."""
