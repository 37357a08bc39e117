"""Label selectors, and what Kubernetes allows as a label or a name.

`parse` reads the grammar of `kubectl -l`, `from_dict` the LabelSelector object of the API; both
give one frozen value that matches labels without further parsing. The case table is
label_selectors.json.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from federator.model import errors
from federator.model.errors import FieldError

_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_LABEL_1123: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN_1123: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TOKENS: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)", re.ASCII)
_BLANKS: Final = " \t\r\n"


class Operator(StrEnum):
    """As written in selector text."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_OBJECT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_ONE_VALUE: Final = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_COMPARISONS: Final = {">": Operator.GREATER_THAN, "<": Operator.LESS_THAN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. Build it with `requirement`, which checks it; `values` is
    sorted."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        present = self.key in labels
        match self.operator:
            case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
                return present and labels[self.key] in self.values
            case Operator.NOT_IN | Operator.NOT_EQUALS:
                return not present or labels[self.key] not in self.values
            case Operator.EXISTS:
                return present
            case Operator.DOES_NOT_EXIST:
                return not present
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                if not present or not _INTEGER.fullmatch(labels[self.key]):
                    return False
                have, limit = int(labels[self.key]), int(self.values[0])
                return have > limit if self.operator is Operator.GREATER_THAN else have < limit

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GREATER_THAN:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS_THAN:
                return f"{self.key}<{self.values[0]}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of it must match; without any condition it matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels) and all(
            requirement.matches(labels) for requirement in self.requirements
        )


NOTHING: Final = LabelSelector(requirements=(Requirement("", Operator.IN),))
"""What a selector that is absent (null) selects, by the Kubernetes convention."""


def requirement(key: str, operator: str, values: Collection[str], path: str = "") -> Requirement:
    """A checked requirement. Raises FieldError at `operator`, `key` or `values`."""
    try:
        kind = Operator(operator)
    except ValueError:
        raise FieldError(
            errors.join(path, "operator"), f"{operator!r} is not a selector operator"
        ) from None
    problem = check_label_key(key)
    if problem:
        raise FieldError(errors.join(path, "key"), problem)
    here = errors.join(path, "values")
    if kind in (Operator.IN, Operator.NOT_IN) and not values:
        raise FieldError(here, f"operator {kind} needs at least one value")
    if kind in _ONE_VALUE and len(values) != 1:
        raise FieldError(here, f"operator {kind} needs exactly one value, not {len(values)}")
    if kind in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
        raise FieldError(here, f"operator {kind} takes no values")
    if kind in _COMPARISONS.values():
        if len(values) != 1:
            raise FieldError(here, f"operator {kind} needs exactly one value, not {len(values)}")
        if not all(_INTEGER.fullmatch(value) for value in values):
            raise FieldError(f"{here}[0]", f"operator {kind} compares integers")
    for index, value in enumerate(values):
        problem = check_label_value(value)
        if problem:
            raise FieldError(f"{here}[{index}][{key}]", problem)
    return Requirement(key, kind, tuple(sorted(set(values))))


def from_dict(obj: Mapping[str, Any] | None, path: str = "") -> LabelSelector:
    """Reads an API LabelSelector; None selects nothing, {} everything. Raises FieldError with the
    field's path."""
    if obj is None:
        return NOTHING
    if not isinstance(obj, Mapping):
        raise FieldError(path, "a label selector is an object")
    for name in obj:
        if name not in ("matchLabels", "matchExpressions"):
            raise FieldError(errors.join(path, str(name)), "unknown field of a label selector")
    labels_path = errors.join(path, "matchLabels")
    labels = {} if obj.get("matchLabels") is None else obj["matchLabels"]
    if not isinstance(labels, Mapping):
        raise FieldError(labels_path, "an object of label keys and values")
    for key, value in labels.items():
        problem = check_label_key(key) or (
            check_label_value(value) if isinstance(value, str) else "a label's value is a text"
        )
        if problem:
            raise FieldError(errors.join(labels_path, str(key)), problem)
    expressions = [] if obj.get("matchExpressions") is None else obj["matchExpressions"]
    if not isinstance(expressions, list):
        raise FieldError(errors.join(path, "matchExpressions"), "a list of expressions")
    return LabelSelector(
        tuple(sorted(labels.items())),
        tuple(
            _expression(expression, f"{errors.join(path, 'matchExpressions')}[{index}]")
            for index, expression in enumerate(expressions)
        ),
    )


def _expression(obj: object, path: str) -> Requirement:
    if not isinstance(obj, Mapping):
        raise FieldError(path, "an object with key, operator and values")
    for name in obj:
        if name not in ("key", "operator", "values"):
            raise FieldError(errors.join(path, str(name)), "unknown field of a selector expression")
    operator = _OBJECT_OPERATORS.get(str(obj.get("operator")))
    if operator is None:
        raise FieldError(errors.join(path, "operator"), "one of In, NotIn, Exists, DoesNotExist")
    values = [] if obj.get("values") is None else obj["values"]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise FieldError(errors.join(path, "values"), "a list of texts")
    key = obj.get("key")
    return requirement(key if isinstance(key, str) else "", operator, values, path)


def to_text(selector: LabelSelector) -> str:
    """The canonical `kubectl -l` text, ordered by key."""
    if selector == NOTHING:
        return "<nothing>"
    conditions = [
        Requirement(key, Operator.EQUALS, (value,)) for key, value in selector.match_labels
    ]
    return ",".join(
        str(requirement)
        for requirement in sorted(
            [*conditions, *selector.requirements], key=lambda r: (r.key, str(r))
        )
    )


def parse(text: str, path: str = "") -> LabelSelector:
    """Reads `kubectl -l` grammar: `a=b,c in (d,e),!f,g>1`. Raises FieldError."""
    tokens = _Tokens(text, path)
    conditions: list[Requirement] = []
    while tokens.peek() is not None:
        conditions.append(_condition(tokens))
        if tokens.peek() is None:
            break
        tokens.expect(",")
        if tokens.peek() is None:
            raise tokens.error("a label key")
    return LabelSelector(requirements=tuple(sorted(conditions, key=lambda r: r.key)))


class _Tokens:
    """What is left to read of a selector text."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path = text, path
        stripped = text.rstrip(_BLANKS)
        self._tokens = _TOKENS.findall(stripped)
        self._next = 0

    def peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def take(self) -> str | None:
        token = self.peek()
        self._next += 1
        return token

    def word(self, wanted: str) -> str:
        token = self.peek()
        if token is None or token[0] in "=!(),<>":
            raise self.error(wanted)
        self._next += 1
        return token

    def expect(self, token: str) -> None:
        if self.peek() != token:
            raise self.error(repr(token))
        self._next += 1

    def error(self, wanted: str) -> FieldError:
        token = self.peek()
        return FieldError(
            self.path,
            f"selector {self.text[:200]!r}: expected {wanted}, found {token or 'the end'!r}",
        )


def _condition(tokens: _Tokens) -> Requirement:
    if tokens.peek() == "!":
        tokens.take()
        return requirement(tokens.word("a label key"), Operator.DOES_NOT_EXIST, (), tokens.path)
    key = tokens.word("a label key")
    operator = tokens.peek()
    if operator in (None, ","):
        return requirement(key, Operator.EXISTS, (), tokens.path)
    if operator in ("in", "notin"):
        tokens.take()
        return requirement(key, operator, sorted(_value_set(tokens)), tokens.path)
    if operator in ("=", "==", "!=", ">", "<"):
        tokens.take()
        value = "" if tokens.peek() in (None, ",") else tokens.word("a value")
        return requirement(key, _COMPARISONS.get(operator, operator), (value,), tokens.path)
    raise tokens.error("one of in, notin, =, ==, !=, >, <")


def _value_set(tokens: _Tokens) -> set[str]:
    """`(a,b)`; an empty place between commas is the empty value."""
    tokens.expect("(")
    values: set[str] = set()
    while True:
        values.add("" if tokens.peek() in (",", ")") else tokens.word("a value"))
        if tokens.peek() == ")":
            tokens.take()
            return values
        tokens.expect(",")


def check_label_key(key: object) -> str | None:
    """What is wrong with a label (or annotation, taint) key, or None: an optional DNS prefix and
    `/`, then a name."""
    if not isinstance(key, str):
        return "a label key is a text"
    prefix, slash, name = key.rpartition("/")
    if slash:
        problem = dns1123_subdomain(prefix)
        if problem:
            return f"the part before the slash in {key[:80]!r}: {problem}"
    if not name or len(name) > 63 or not _NAME.fullmatch(name):
        return (
            f"{key[:80]!r} is not a label key: its name has 1 to 63 letters, digits, '-', '_' or"
            " '.', "
            "and begins and ends with a letter or digit"
        )
    return None


def check_label_value(value: str) -> str | None:
    """What is wrong with a label value, or None."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        return (
            f"{value[:80]!r} is not a label value: at most 63 letters, digits, '-', '_' or '.', "
            "beginning and ending with a letter or digit"
        )
    return None


def dns1123_label(text: str) -> str | None:
    """What is wrong with a name such as a namespace's, or None."""
    return _problem(
        text, _LABEL_1123, 63, "lower-case letters, digits and '-', no '-' at either end"
    )


def dns1035_label(text: str) -> str | None:
    """What is wrong with a name that also names a Service, or None."""
    return _problem(
        text, _LABEL_1035, 63, "lower-case letters, digits and '-', beginning with a letter"
    )


def dns1123_subdomain(text: str) -> str | None:
    """What is wrong with a name such as a cluster's, or None."""
    return _problem(text, _SUBDOMAIN_1123, 253, "lower-case letters, digits, '-' and '.'")


def _problem(text: str, pattern: re.Pattern[str], longest: int, allowed: str) -> str | None:
    if len(text) <= longest and pattern.fullmatch(text):
        return None
    return f"{text[:80]!r} must have 1 to {longest} characters: {allowed}"
