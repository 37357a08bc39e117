"""Reads a CEL expression over a cluster and checks it: syntax, names and types, with the column.

The evaluator finds unknown names and wrong types only while it evaluates, and only in the branch
that it takes. A policy needs them when it is written. So each expression is parsed here first, by
the grammar of the CEL specification without the parts that a rule about one cluster has no use for:
macros other than `has`, `exists` and `all`, messages, bytes, timestamps and durations.

Cost: a source has at most `LONGEST` characters and `DEEPEST` levels, and `exists` and `all` do not
nest, so the work of an evaluation is at most its length times the size of a cluster's labels.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from federator.model import properties
from federator.model.properties import Kind

LONGEST: Final = 1024
DEEPEST: Final = 24

BOOL: Final = "bool"
INT: Final = "int"
DOUBLE: Final = "double"
STRING: Final = "string"
VERSION: Final = "version"
MAP: Final = "map"
"""Of texts by text."""
_NUMBERS: Final = (INT, DOUBLE)
_RECORD: Final = "record "
_LIST: Final = "list of "


class InvalidExpression(ValueError):
    """An expression that cannot be used. `column` counts from 1."""

    def __init__(self, column: int, message: str) -> None:
        super().__init__(f"column {column}: {message}")
        self.column = column


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """name, number, text, sign or end."""
    text: str
    column: int


_TOKENS: Final = re.compile(
    r"(?P<blank>[ \t\r\n]+|//[^\n]*)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    r"|(?P<sign>\|\||&&|==|!=|<=|>=|[-+*/%!<>?:.,()\[\]])",
    re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


def _tokens(source: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(source):
        match = _TOKENS.match(source, at)
        if match is None:
            raise InvalidExpression(at + 1, f"syntax error at {source[at : at + 8]!r}")
        kind = match.lastgroup or ""
        if kind != "blank":
            tokens.append(_Token(kind, match[0], at + 1))
        at = match.end()
    return [*tokens, _Token("end", "the end", len(source) + 1)]


@dataclass(frozen=True, slots=True)
class Checked:
    """What an expression without errors reads."""

    reads: frozenset[str]
    """Names of the registry; `labels` and `properties` for all of them."""


@dataclass(frozen=True, slots=True)
class _Typed:
    """A part of the expression with its type. `text`: the value of a literal text."""

    type: str
    column: int
    text: str | None = None
    presence: bool = False
    """It is a field or an entry that may be absent: what `has` takes."""


def check(source: str) -> Checked:
    """Raises `InvalidExpression`."""
    if len(source) > LONGEST:
        raise InvalidExpression(LONGEST + 1, f"an expression has at most {LONGEST} characters")
    parser = _Parser(_tokens(source))
    result = parser.expression(0)
    parser.expect("end", "the end")
    if result.type != BOOL:
        raise InvalidExpression(
            result.column, f"the expression is {_a(result.type)}, and must be a bool"
        )
    return Checked(frozenset(parser.reads))


def _a(type_: str) -> str:
    if type_.startswith(_RECORD):
        return f"the group {type_.removeprefix(_RECORD)}"
    return f"{'an' if type_[0] in 'aeiou' else 'a'} {type_}"


_FIELD_TYPES: Final = {Kind.TEXT: STRING, Kind.NUMBER: DOUBLE, Kind.VERSION: VERSION}


def _fields(record: str) -> Mapping[str, str]:
    """The fields of a record: `cluster`, or a group of it such as `cluster.cpu`."""
    group = record.removeprefix("cluster").removeprefix(".")
    types: dict[str, str] = {}
    for name, row in properties.PROPERTIES.items():
        first, _, rest = name.partition(".")
        if group:
            if first == group and rest:
                types[rest] = _FIELD_TYPES[row.kind]
        elif rest:
            types[first] = f"{_RECORD}cluster.{first}"
        else:
            types[name] = _FIELD_TYPES[row.kind]
    return types if group else {**types, **dict.fromkeys(properties.PREFIXES, MAP)}


@dataclass
class _Parser:
    tokens: Sequence[_Token]
    at: int = 0
    reads: set[str] = field(default_factory=set)
    bound: dict[str, str] = field(default_factory=dict)
    """Variables of macros with their types."""

    @property
    def next(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sign(self, *texts: str) -> _Token | None:
        """Takes the next token if it is one of these signs."""
        if self.next.kind == "sign" and self.next.text in texts:
            return self.take()
        return None

    def expect(self, kind: str, text: str = "") -> _Token:
        token = self.next
        if token.kind != kind or (kind == "sign" and token.text != text):
            self.fail(token, f"syntax error: expected {text or kind}, found {token.text}")
        return self.take()

    def fail(self, where: _Token | _Typed, message: str) -> NoReturn:
        raise InvalidExpression(where.column, message)

    def expression(self, depth: int) -> _Typed:
        """A whole expression: the ternary operator binds least."""
        if depth > DEEPEST:
            self.fail(self.next, f"an expression has at most {DEEPEST} levels")
        condition = self._either(depth)
        if self.sign("?") is None:
            return condition
        self._is(condition, BOOL, "the condition of ? :")
        first = self.expression(depth + 1)
        self.expect("sign", ":")
        second = self.expression(depth + 1)
        if first.type != second.type:
            self.fail(second, f"? : gives {_a(first.type)} or {_a(second.type)}: make them equal")
        return _Typed(first.type, condition.column)

    def _is(self, part: _Typed, type_: str, what: str) -> None:
        if part.type != type_:
            self.fail(part, f"{what} must be {_a(type_)}, and is {_a(part.type)}")

    def _either(self, depth: int) -> _Typed:
        return self._logic(depth, "||", lambda: self._logic(depth, "&&", self._relation_of(depth)))

    def _logic(self, depth: int, sign: str, operand: Callable[[], _Typed]) -> _Typed:
        left = operand()
        while self.sign(sign):
            right = operand()
            for part in (left, right):
                self._is(part, BOOL, f"an operand of {sign}")
            left = _Typed(BOOL, left.column)
        return left

    def _relation_of(self, depth: int) -> Callable[[], _Typed]:
        return lambda: self._relation(depth)

    def _relation(self, depth: int) -> _Typed:
        left = self._sum(depth)
        while True:
            if self.next.kind == "name" and self.next.text == "in":
                self.take()
                right = self._sum(depth)
                inside = STRING if right.type == MAP else right.type.removeprefix(_LIST)
                if right.type != MAP and not right.type.startswith(_LIST):
                    self.fail(right, f"in needs a list or a map, and this is {_a(right.type)}")
                self._comparable(left, inside, right)
            elif sign := self.sign("==", "!=", "<=", ">=", "<", ">"):
                right = self._sum(depth)
                self._comparable(left, right.type, right)
                if sign.text not in ("==", "!=") and left.type == BOOL:
                    self.fail(left, f"{sign.text} does not compare bools")
            else:
                return left
            left = _Typed(BOOL, left.column)

    def _comparable(self, left: _Typed, type_: str, right: _Typed) -> None:
        numbers = left.type in _NUMBERS and type_ in _NUMBERS
        scalar = left.type in (BOOL, STRING, VERSION) and left.type == type_
        if not (numbers or scalar):
            hint = (
                "; compare a version with semver('1.36.0')" if VERSION in (left.type, type_) else ""
            )
            self.fail(right, f"{_a(left.type)} cannot be compared with {_a(type_)}{hint}")

    def _sum(self, depth: int) -> _Typed:
        left = self._product(depth)
        while sign := self.sign("+", "-"):
            right = self._product(depth)
            if sign.text == "+" and left.type == right.type == STRING:
                left = _Typed(STRING, left.column)
            else:
                left = self._arithmetic(left, sign, right)
        return left

    def _product(self, depth: int) -> _Typed:
        left = self._unary(depth)
        while sign := self.sign("*", "/", "%"):
            right = self._unary(depth)
            left = self._arithmetic(left, sign, right)
        return left

    def _arithmetic(self, left: _Typed, sign: _Token, right: _Typed) -> _Typed:
        for part in (left, right):
            if part.type not in _NUMBERS:
                self.fail(
                    part, f"an operand of {sign.text} must be a number, and is {_a(part.type)}"
                )
        if left.type != right.type:
            whole = left if left.type == INT else right
            self.fail(whole, f"{sign.text} needs numbers of one type: write 2.0 for 2, or double()")
        if sign.text == "%" and left.type == DOUBLE:
            self.fail(left, "% needs whole numbers")
        return _Typed(left.type, left.column)

    def _unary(self, depth: int) -> _Typed:
        if depth > DEEPEST:
            self.fail(self.next, f"an expression has at most {DEEPEST} levels")
        if sign := self.sign("!"):
            part = self._unary(depth + 1)
            self._is(part, BOOL, "an operand of !")
            return _Typed(BOOL, sign.column)
        if sign := self.sign("-"):
            part = self._unary(depth + 1)
            if part.type not in _NUMBERS:
                self.fail(part, f"an operand of - must be a number, and is {_a(part.type)}")
            return _Typed(part.type, sign.column)
        return self._member(depth)

    def _member(self, depth: int) -> _Typed:
        part = self._primary(depth)
        while True:
            if self.sign("."):
                name = self.expect("name")
                if self.sign("("):
                    part = self._method(part, name, depth)
                else:
                    part = self._field(part, name)
            elif opened := self.sign("["):
                index = self.expression(depth + 1)
                self.expect("sign", "]")
                part = self._entry(part, index, opened)
            else:
                return part

    def _field(self, part: _Typed, name: _Token) -> _Typed:
        if part.type == MAP:
            return _Typed(STRING, part.column, presence=True)
        if not part.type.startswith(_RECORD):
            self.fail(name, f"{_a(part.type)} has no field {name.text}")
        record = part.type.removeprefix(_RECORD)
        types = _fields(record)
        if name.text not in types:
            known = ", ".join(sorted(types))
            self.fail(name, f"unknown name {name.text}: {record} has {known}")
        path = f"{record}.{name.text}".removeprefix("cluster.")
        type_ = types[name.text]
        if not type_.startswith(_RECORD):
            self.reads.add(path)
        return _Typed(type_, part.column, presence=not type_.startswith(_RECORD))

    def _entry(self, part: _Typed, index: _Typed, opened: _Token) -> _Typed:
        if part.type == MAP:
            self._is(index, STRING, "the key of an entry")
            return _Typed(STRING, part.column, presence=True)
        if part.type.startswith(_LIST):
            self._is(index, INT, "the index of a list")
            return _Typed(part.type.removeprefix(_LIST), part.column)
        return self.fail(opened, f"{_a(part.type)} has no entries")

    def _method(self, part: _Typed, name: _Token, depth: int) -> _Typed:
        if name.text in ("exists", "all"):
            return self._macro(part, name, depth)
        if name.text not in ("size", "startsWith", "endsWith", "contains", "matches"):
            self.fail(name, f"unknown function {name.text}")
        given = self._arguments(depth)
        if name.text == "size":
            return self._size([part, *given], name)
        self._is(part, STRING, f"what {name.text} is called on")
        if len(given) != 1:
            self.fail(name, f"{name.text} takes one argument")
        self._is(given[0], STRING, f"the argument of {name.text}")
        if name.text == "matches" and given[0].text is not None:
            _checked_pattern(given[0])
        return _Typed(BOOL, part.column)

    def _macro(self, part: _Typed, name: _Token, depth: int) -> _Typed:
        if self.bound:
            self.fail(name, f"{name.text} inside another macro costs too much")
        if part.type != MAP and not part.type.startswith(_LIST):
            self.fail(part, f"{name.text} needs a list or a map, and this is {_a(part.type)}")
        variable = self.expect("name")
        if variable.text == "cluster":
            self.fail(variable, "the variable of a macro needs another name than cluster")
        self.expect("sign", ",")
        self.bound[variable.text] = STRING if part.type == MAP else part.type.removeprefix(_LIST)
        inner = self.expression(depth + 1)
        self._is(inner, BOOL, f"the condition of {name.text}")
        self.expect("sign", ")")
        self.bound.clear()
        return _Typed(BOOL, part.column)

    def _arguments(self, depth: int) -> list[_Typed]:
        given: list[_Typed] = []
        if self.sign(")"):
            return given
        given.append(self.expression(depth + 1))
        while self.sign(","):
            given.append(self.expression(depth + 1))
        self.expect("sign", ")")
        return given

    def _primary(self, depth: int) -> _Typed:
        token = self.take()
        if token.kind == "number":
            whole = token.text.isdigit()
            if whole and int(token.text) >= 1 << 63:
                self.fail(token, "a whole number has at most 63 bits")
            return _Typed(INT if whole else DOUBLE, token.column)
        if token.kind == "text":
            return _Typed(STRING, token.column, text=self._literal(token))
        if token.kind == "sign" and token.text == "(":
            part = self.expression(depth + 1)
            self.expect("sign", ")")
            return part
        if token.kind == "sign" and token.text == "[":
            return self._list(token, depth)
        if token.kind == "name":
            return self._named(token, depth)
        return self.fail(token, f"syntax error: expected a value, found {token.text}")

    def _literal(self, token: _Token) -> str:
        def escaped(match: re.Match[str]) -> str:
            if match[1] not in _ESCAPES:
                self.fail(token, f"unknown escape \\{match[1]} in a text")
            return _ESCAPES[match[1]]

        return re.sub(r"\\(.)", escaped, token.text[1:-1])

    def _list(self, opened: _Token, depth: int) -> _Typed:
        parts: list[_Typed] = []
        while not self.sign("]"):
            if parts:
                self.expect("sign", ",")
            parts.append(self.expression(depth + 1))
        if not parts:
            self.fail(opened, "a list needs an entry")
        for part in parts[1:]:
            self._is(part, parts[0].type, "every entry of a list")
        return _Typed(f"{_LIST}{parts[0].type}", opened.column)

    def _named(self, token: _Token, depth: int) -> _Typed:
        if self.sign("("):
            if token.text == "has":
                return self._has(token, depth)
            return self._call(token, self._arguments(depth))
        if token.text in ("true", "false"):
            return _Typed(BOOL, token.column)
        if token.text in self.bound:
            return _Typed(self.bound[token.text], token.column)
        if token.text != "cluster":
            self.fail(token, f"unknown name {token.text}: the only variable is cluster")
        return _Typed(f"{_RECORD}cluster", token.column)

    def _has(self, token: _Token, depth: int) -> _Typed:
        given = self._arguments(depth)
        closed = self.tokens[self.at - 2]
        if len(given) != 1 or not given[0].presence or closed.text == "]":
            self.fail(token, "has takes a field, such as cluster.price or cluster.labels.zone")
        return _Typed(BOOL, token.column)

    def _call(self, token: _Token, given: list[_Typed]) -> _Typed:
        name = token.text
        if name == "size":
            return self._size(given, token)
        if name not in _CALLS:
            self.fail(token, f"unknown function {name}")
        takes, type_ = _CALLS[name]
        if len(given) != 1:
            self.fail(token, f"{name} takes one argument")
        if given[0].type not in takes:
            self.fail(given[0], f"the argument of {name} must be {_a(takes[0])}")
        text = given[0].text
        if text is not None and name == "semver" and properties.version(text) is None:
            self.fail(given[0], f"{text!r} is no version such as 1.36.0")
        if text is not None and name == "quantity" and properties.number(text) is None:
            self.fail(given[0], f"{text!r} is no quantity such as 500m, 2 or 4Gi")
        return _Typed(type_, token.column)

    def _size(self, given: list[_Typed], token: _Token) -> _Typed:
        if len(given) != 1 or not (
            given[0].type in (STRING, MAP) or given[0].type.startswith(_LIST)
        ):
            self.fail(token, "size takes a text, a list or a map")
        return _Typed(INT, token.column)


_CALLS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "semver": ((STRING,), VERSION),
    "quantity": ((STRING,), DOUBLE),
    "double": ((STRING, INT, DOUBLE), DOUBLE),
    "int": ((STRING, INT, DOUBLE), INT),
}
"""Function -> (types that it takes, type that it gives)."""


def _checked_pattern(part: _Typed) -> None:
    assert part.text is not None
    try:
        re.compile(part.text)
    except re.error as bad:
        raise InvalidExpression(
            part.column, f"{part.text!r} is no regular expression: {bad}"
        ) from None
