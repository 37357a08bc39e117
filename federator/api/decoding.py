"""Reads YAML and JSON texts from outside into plain objects, bounded in time and memory, and strict
about what is ambiguous.

Used by `read`. YAML is built from parse events by hand: nothing recurses, aliases and merge keys
are copied within a budget of nodes, duplicate keys, tags, NaN and numbers beyond 64 bits are errors
with the field's path. Scalars are those of kubectl (`model/kubernetes/scalars.py`).
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from federator.model import errors
from federator.model.errors import FieldError
from federator.model.kubernetes import scalars

INT64: Final = range(-(2**63), 2**63)
LONGEST_KEY: Final = 320
"""Characters of one key that a path shows: a label's key with its prefix has 317."""
LONGEST_PATH: Final = 1024
"""Paths longer than this are not lengthened any more."""
_MERGE: Final = "<<"
_STR_TAG: Final = "tag:yaml.org,2002:str"
_CORE_TAGS: Final = ("!", _STR_TAG, "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

_DIGITS: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_LETTERS: Final = ("y", "Y", "n", "N")
"""Booleans to kubectl. No field of ours that takes one is written so, and texts are: they stay
texts."""
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9]*[89][0-9]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one text may cost. The gateway sets lower ones than a person's own shell."""

    size: int = 16 * 1024 * 1024
    """Characters."""
    depth: int = 64
    nodes: int = 1_000_000
    """Values in all, those brought by aliases and merge keys counted each time."""


FILE_LIMITS: Final = Limits()


def from_yaml(text: str, limits: Limits = FILE_LIMITS) -> list[Any]:
    """The documents of a YAML text, empty ones left out. Raises FieldError: its path is that of the
    field, below `[N]` when there are several documents; its message begins with line and column."""
    _check_size(text, limits)
    loader = getattr(yaml, "CLoader", yaml.Loader)
    builder = _Builder(limits)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        where = _position(error.problem_mark)
        if "nesting depth" in str(error.problem):
            # PyYAML from 6.0.4 on counts to a thousand before the first event comes, so that there
            # is no path yet.
            raise FieldError("", f"{where}is nested deeper than {limits.depth} levels") from None
        raise FieldError(
            "", f"{where}not YAML: {error.problem or error.context or 'unreadable'}"
        ) from None
    except yaml.YAMLError as error:
        raise FieldError("", f"not YAML: {str(error).splitlines()[0][:200]}") from None
    return [document for document in builder.documents if document is not None]


def from_json(text: str | bytes, limits: Limits = FILE_LIMITS) -> Any:
    """One JSON value. Raises FieldError with the field's path."""
    _check_size(text, limits)
    try:
        value = json.loads(
            text, object_pairs_hook=_Pairs, parse_int=_Digits, parse_constant=_Constant
        )
    except RecursionError:
        raise FieldError("", f"is nested deeper than {limits.depth} levels") from None
    except UnicodeDecodeError as error:
        raise FieldError("", f"is not UTF-8 at byte {error.start}") from None
    except ValueError as error:
        raise FieldError("", f"not JSON: {error}") from None
    budget = _Budget(limits.nodes)
    return _plain(value, "", 0, limits, budget)


def _check_size(text: str | bytes, limits: Limits) -> None:
    if len(text) > limits.size:
        raise FieldError("", f"has {len(text)} characters, at most {limits.size} are read")


@dataclass(slots=True)
class _Budget:
    left: int

    def spend(self, nodes: int, path: str) -> None:
        self.left -= nodes
        if self.left < 0:
            raise FieldError(
                path, "too many values: the text is too large, or its aliases multiply"
            )


class _Pairs(list[tuple[str, Any]]):
    """An object as JSON spells it, before duplicate keys are looked for."""


class _Digits(str):
    """An integer as it was written."""

    __slots__ = ()


class _Constant(str):
    """NaN, Infinity or -Infinity."""

    __slots__ = ()


def _plain(value: Any, path: str, depth: int, limits: Limits, budget: _Budget) -> Any:
    budget.spend(1, path)
    if depth > limits.depth:
        raise FieldError(path, f"is nested deeper than {limits.depth} levels")
    if isinstance(value, _Pairs):
        out: dict[str, Any] = {}
        for key, entry in value:
            here = _below(path, _text(key, path))
            if key in out:
                raise FieldError(here, "is given twice")
            out[key] = _plain(entry, here, depth + 1, limits, budget)
        return out
    if isinstance(value, list):
        return [
            _plain(entry, f"{path}[{i}]", depth + 1, limits, budget)
            for i, entry in enumerate(value)
        ]
    if isinstance(value, _Digits):
        return _integer(value, path)
    if isinstance(value, _Constant):
        raise FieldError(path, f"{value} is not a number that Kubernetes knows")
    if isinstance(value, float) and not math.isfinite(value):
        raise FieldError(path, "is too large for a number")
    return _text(value, path) if isinstance(value, str) else value


def _below(path: str, key: str) -> str:
    """The path of a field, bounded: it is made for every value, and a key may be as long as the
    whole text."""
    if len(path) > LONGEST_PATH:
        return path
    return errors.join(path, key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}...")


def _text(value: str, path: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(path, "holds half of a character (a lone surrogate)")
    return value


def _integer(digits: str, path: str) -> int:
    if len(digits) > 64:
        raise FieldError(path, "is an integer of more than 64 bits")
    number = int(digits)
    if number not in INT64:
        raise FieldError(path, f"{number} is an integer of more than 64 bits")
    return number


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that is being built."""

    path: str
    value: dict[str, Any] | list[Any]
    anchor: str | None
    key: str | None = None
    awaits_key: bool = True
    merging: bool = False
    """The value that comes next belongs to a merge key."""
    merges: list[dict[str, Any]] = field(default_factory=list)
    nodes: int = 1
    height: int = 1


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    nodes: int
    height: int


class _Builder:
    """Takes parse events one by one and keeps its own stack."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.budget = _Budget(limits.nodes)
        self.documents: list[Any] = []
        self.stack: list[_Open] = []
        self.anchors: dict[str, _Anchored] = {}

    def take(self, event: Any) -> None:
        try:
            self._take(event)
        except FieldError as error:
            document = len(self.documents)
            path = errors.join(f"[{document}]", error.path) if document else error.path
            raise FieldError(path, f"{_position(event.start_mark)}{error.message}") from None

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor or "")
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            self.anchors = {}

    def _here(self) -> str:
        """The path of the value that comes next."""
        if not self.stack:
            return ""
        top = self.stack[-1]
        if isinstance(top.value, list):
            return f"{top.path}[{len(top.value)}]"
        return _below(top.path, top.key or "")

    def _awaits_key(self) -> bool:
        return (
            bool(self.stack)
            and isinstance(self.stack[-1].value, dict)
            and self.stack[-1].awaits_key
        )

    def _scalar(self, event: Any) -> None:
        path = self._here()
        self.budget.spend(1, path)
        _check_tag(event.tag, path)
        if self._awaits_key():
            self._key(event)
            return
        plain = event.implicit[0] and event.tag is None
        value = _resolve(event.value, path) if plain else event.value
        self._put(value, event.anchor, 1, 0)

    def _key(self, event: Any) -> None:
        top = self.stack[-1]
        text = str(event.value)
        if event.anchor:
            raise FieldError(top.path, "a key cannot have an anchor")
        if text == _MERGE and event.implicit[0]:
            top.key, top.awaits_key, top.merging = _MERGE, False, True
            return
        here = _below(top.path, text)
        if event.implicit[0]:
            _check_key(text, top.path, here)
        assert isinstance(top.value, dict)
        if text in top.value:
            raise FieldError(here, "is given twice")
        top.value[text] = None
        top.key, top.awaits_key = text, False

    def _alias(self, anchor: str) -> None:
        path = self._here()
        if self._awaits_key():
            raise FieldError(path, "a key cannot be an alias")
        anchored = self.anchors.get(anchor)
        if anchored is None:
            raise FieldError(path, f"alias {anchor[:40]!r} has no anchor, or stands within it")
        self.budget.spend(anchored.nodes, path)
        self._check_depth(len(self.stack) + anchored.height, path)
        self._put(_copy(anchored.value), None, anchored.nodes, anchored.height)

    def _start(self, event: Any) -> None:
        path = self._here()
        self.budget.spend(1, path)
        _check_tag(event.tag, path)
        if self._awaits_key():
            raise FieldError(path, "a key must be a text")
        self._check_depth(len(self.stack) + 1, path)
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.stack.append(_Open(path, {} if mapping else [], event.anchor))

    def _end(self) -> None:
        done = self.stack.pop()
        if isinstance(done.value, dict):
            for merged in done.merges:
                for key, value in merged.items():
                    done.value.setdefault(key, value)
        self._put(done.value, done.anchor, done.nodes, done.height)

    def _check_depth(self, depth: int, path: str) -> None:
        if depth > self.limits.depth:
            raise FieldError(path, f"is nested deeper than {self.limits.depth} levels")

    def _put(self, value: Any, anchor: str | None, nodes: int, height: int) -> None:
        """`nodes` and `height` (levels of objects and lists) of the value, so that an alias to it
        can be charged."""
        if anchor:
            self.anchors[anchor] = _Anchored(value, nodes, height)
        if not self.stack:
            self.documents.append(value)
            return
        top = self.stack[-1]
        top.nodes += nodes
        top.height = max(top.height, height + 1)
        if isinstance(top.value, list):
            top.value.append(value)
            return
        if top.merging:
            top.merges.extend(_merged(value, top.path))
        else:
            top.value[top.key or ""] = value
        top.key, top.awaits_key, top.merging = None, True, False


def _merged(value: Any, path: str) -> Iterator[dict[str, Any]]:
    """What a merge key brings: one mapping, or a list of them of which the first to name a key
    wins."""
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, dict):
            raise FieldError(errors.join(path, _MERGE), "only mappings can be merged")
        yield entry


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(entry) for key, entry in value.items()}
    return [_copy(entry) for entry in value] if isinstance(value, list) else value


def _check_tag(tag: str | None, path: str) -> None:
    if tag is not None and tag not in _CORE_TAGS:
        raise FieldError(path, f"the tag {tag[:80]!r} is not read here")


def _check_key(text: str, path: str, here: str) -> None:
    """Refuses a key without quotes that kubectl reads as another text than it looks."""
    meant = scalars.resolve(text)
    if meant is None:
        raise FieldError(path, "a key is empty")
    known = ("true", "false")[not meant] if isinstance(meant, bool) else str(meant)
    if known != text:
        what = "a boolean" if isinstance(meant, bool) else "a number"
        raise FieldError(here, f"a key that YAML reads as {what}: put it in quotes")


def _resolve(text: str, path: str) -> Any:
    """A plain scalar, as kubectl reads it."""
    if text in _LETTERS:
        return text
    value = scalars.resolve(text)
    if not isinstance(value, str) and _LEADING_ZERO.fullmatch(text):
        raise FieldError(
            path, f"{text[:40]} begins with 0 but is not octal: drop the 0, or put it in quotes"
        )
    if isinstance(value, float) and _DIGITS.fullmatch(text):
        raise FieldError(path, "is an integer of more than 64 bits")  # as a float it loses digits
    if isinstance(value, float) and not math.isfinite(value):
        raise FieldError(path, f"{text} is not a number that Kubernetes knows")
    if isinstance(value, int) and value not in INT64:
        raise FieldError(path, f"{value} is an integer of more than 64 bits")
    return value


def _position(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
