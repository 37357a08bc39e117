"""Templates of `-o jsonpath=...`, read as by kubectl: text, and in braces paths, `range ... end`
and quoted text.

Paths: `.name` (a dot in a name as `\\.`), `..name`, `.*`, `[0]`, `[-1]`, `[0:2]`, `[*]`,
`['name']`, `[0,2]`, and `[?(@.a == "b")]` with `== != < <= > >=`, or without a comparison for
entries that have the path. A missing field gives nothing. Syntax and meaning are those of
Kubernetes' client-go (kubernetes.io/docs/reference/kubectl/jsonpath); a test compares with a real
kubectl.
"""

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


class BadTemplate(ValueError):
    """The template is invalid or does not fit the object; the message says why."""


Step = Callable[[Any], Iterator[Any]]
"""One part of a path: maps a value to the values it selects."""


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """Prints the values it selects, separated by blanks."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """Prints its parts once for each value that its path selects."""

    steps: tuple[Step, ...]
    parts: tuple["Part", ...]


Part = Text | Path | Range

_ACTIONS: Final = re.compile(r"""\{((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^{}"'])*)\}""")
_QUOTED: Final = re.compile(r"""\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_NAME: Final = re.compile(r"(?:\\.|[^\s.,\[\]$@{}\\])+")
_KEY: Final = re.compile(r"""^(?:'([^']*)'|"([^"]*)")$""")
_SLICE: Final = re.compile(r"^(-?\d+)?(:(-?\d+)?)?(:(\d+)?)?$")
_COMPARISON: Final = re.compile(r"^([^!<>=]+)(==|!=|<=|>=|<|>)(.+)$")
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def parse(template: str) -> tuple[Part, ...]:
    """Parses a template. Raises BadTemplate."""
    flat: list[Text | Path | tuple[Step, ...] | None] = []
    at = 0
    while at < len(template):
        opens = template.find("{", at)
        if opens != at:
            flat.append(Text(template[at : opens if opens >= 0 else len(template)]))
        if opens < 0:
            break
        action = _ACTIONS.match(template, opens)
        if action is None:
            raise BadTemplate(f"the brace at position {opens + 1} is not closed")
        flat.extend(_action(action[1]))
        at = action.end()
    parts, rest = _nested(flat, inside=False)
    if rest:
        raise BadTemplate("{end} without {range}")
    return parts


def render(parts: Sequence[Part], value: Any) -> str:
    """The template's text for a value. Raises BadTemplate where it does not fit."""
    printed: list[str] = []
    for part in parts:
        match part:
            case Text(text):
                printed.append(text)
            case Path(steps):
                printed.append(" ".join(_printed(each) for each in _walk(steps, value)))
            case Range(steps, inner):
                printed += [render(inner, each) for each in _walk(steps, value)]
    return "".join(printed)


def _action(text: str) -> Iterator[Text | Path | tuple[Step, ...] | None]:
    """Parses what is between braces: quoted texts, the start of a range (a tuple), its end (None),
    or a path."""
    text = text.strip()
    if text == "end":
        yield None
    elif text == "range" or text.startswith(("range ", "range.", "range[")):
        yield _steps(text.removeprefix("range").strip())
    elif _QUOTED.match(text):
        at = 0
        while at < len(text) and (quoted := _QUOTED.match(text, at)) is not None:
            yield Text(_unquoted(quoted[1]))
            at = quoted.end()
        if text[at:].strip():
            raise BadTemplate(f"{text[at:]!r} follows a quoted text")
    else:
        yield Path(_steps(text))


def _nested(
    flat: list[Text | Path | tuple[Step, ...] | None], *, inside: bool
) -> tuple[tuple[Part, ...], list[Text | Path | tuple[Step, ...] | None]]:
    """The parts up to the end of this range, and the rest ([None] for an `end` outside a range)."""
    parts: list[Part] = []
    while flat:
        head, flat = flat[0], flat[1:]
        if head is None:
            return tuple(parts), flat if inside else [None]
        if isinstance(head, tuple):
            inner, flat = _nested(flat, inside=True)
            parts.append(Range(head, inner))
        else:
            parts.append(head)
    if inside:
        raise BadTemplate("{range} without {end}")
    return tuple(parts), []


def _steps(text: str) -> tuple[Step, ...]:
    """Parses a path. Raises BadTemplate."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char in "$@" or char.isspace():
            at += 1
        elif text.startswith("..", at):
            steps.append(_descend)
            at += 2
            if at < len(text) and (name := _NAME.match(text, at)) is not None:
                steps.append(_field(name[0]))
                at = name.end()
        elif char == ".":
            name = _NAME.match(text, at + 1)
            steps += [_field(name[0])] if name is not None else []
            at = name.end() if name is not None else at + 1
        elif text.startswith("[?(", at):
            at, step = _filter(text, at)
            steps.append(step)
        elif char == "[":
            end = text.find("]", at)
            if end < 0:
                raise BadTemplate(f"the bracket in {text!r} is not closed")
            steps.append(_bracket(text[at + 1 : end].strip()))
            at = end + 1
        else:
            raise BadTemplate(f"{text!r} is no path: it begins with a dot, a bracket, $ or @")
    return tuple(steps)


def _filter(text: str, at: int) -> tuple[int, Step]:
    """Parses a filter that begins at `at`. Returns the position after it, and its step."""
    end, quote = at + 3, ""
    while end < len(text) and (quote or text[end] != ")"):
        if text[end] in "\"'" and (not quote or text[end] == quote):
            quote = "" if quote else text[end]
        end += 1
    if text[end : end + 2] != ")]":
        raise BadTemplate(f"the filter in {text!r} is not closed with )]")
    inner = text[at + 3 : end].strip()
    comparison = _COMPARISON.match(inner)
    if comparison is None:
        path = _steps(inner)
        return end + 2, _kept(lambda value: any(True for _ in _walk(path, value)))
    left, right = _operand(comparison[1]), _operand(comparison[3])
    compare = _OPERATORS[comparison[2]]

    def holds(value: Any) -> bool:
        pair = [list(side(value)) for side in (left, right)]
        if any(len(values) > 1 for values in pair):
            raise BadTemplate(f"{inner!r} compares more than one value")
        if not all(pair):
            return False
        try:
            return bool(compare(pair[0][0], pair[1][0]))
        except TypeError:
            raise BadTemplate(f"{inner!r} compares values of different types") from None

    return end + 2, _kept(holds)


def _operand(text: str) -> Step:
    """Parses one side of a comparison: a quoted text, a number, a boolean, or a path."""
    text = text.strip()
    if _QUOTED.fullmatch(text):
        literal: Any = _unquoted(text)
    elif text in ("true", "false") or re.fullmatch(r"[-+]?\d+(\.\d+)?", text):
        literal = json.loads(text.removeprefix("+"))
    else:
        path = _steps(text)
        return lambda value: _walk(path, value)
    return lambda value: iter((literal,))


def _kept(holds: Callable[[Any], bool]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if not isinstance(value, list):
            raise BadTemplate("only a list can be filtered")
        return (entry for entry in value if holds(entry))

    return step


def _field(name: str) -> Step:
    if name == "*":
        return _children
    key = re.sub(r"\\(.)", r"\1", name)
    return lambda value: iter((value[key],) if isinstance(value, Mapping) and key in value else ())


def _bracket(text: str) -> Step:
    if "," in text:
        union = [_bracket(part.strip()) for part in text.split(",")]
        return lambda value: (each for step in union for each in step(value))
    if quoted := _KEY.match(text):
        key = quoted[1] if quoted[1] is not None else quoted[2]
        return _field(re.sub(r"([.\\])", r"\\\1", key.replace("\\.", ".")))
    if text == "*":
        return _children
    bounds = _SLICE.match(text)
    if not text or bounds is None:
        raise BadTemplate(f"[{text}] is no index, slice or quoted name")
    start = int(bounds[1]) if bounds[1] else None
    if bounds[2] is None and start is not None:
        return lambda value: iter((_indexed(value, start),)) if value is not None else iter(())
    stop = int(bounds[3]) if bounds[3] else None
    step = int(bounds[5]) if bounds[5] else 1
    if step == 0:
        raise BadTemplate(f"[{text}] has the step 0")
    return lambda value: iter(_list(value)[start:stop:step])


def _indexed(value: Any, index: int) -> Any:
    values = _list(value)
    if not -len(values) <= index < len(values):
        raise BadTemplate(f"array index out of bounds: index {index}, length {len(values)}")
    return values[index]


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadTemplate("an index needs a list, and this is none")
    return value


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        return iter(value.values())
    return iter(value if isinstance(value, list) else ())


def _descend(value: Any) -> Iterator[Any]:
    """The value and all values below it that have children."""
    children = list(_children(value))
    if children:
        yield value
    for child in children:
        yield from _descend(child)


def _walk(steps: Sequence[Step], value: Any) -> Iterator[Any]:
    if not steps:
        yield value
        return
    for each in steps[0](value):
        yield from _walk(steps[1:], each)


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, Mapping | list):
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return str(value)


def _unquoted(text: str) -> str:
    """The value of a quoted text, with its escapes (`\\n`, `\\t`, `\\"`) resolved."""
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        raise BadTemplate(f"{text} is no quoted text") from None
