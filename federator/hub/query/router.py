"""Which question a path asks, which rights it needs on the host, and how its parameters read. Pure.

One row of a table is a question; `questions.ROUTES` is the table. A row that names no right cannot
be made.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Raw

from federator.hub.snapshot.places import Kind
from federator.model.errors import FieldError
from federator.process import webpaths

LARGE_BYTES = 256 * 1024
"""Bodies up to this length are read as soon as the caller is known."""
QUERY_MAX = 4096
"""Characters of a query string."""


@dataclass(frozen=True, slots=True)
class Right:
    """What a caller must be allowed on the host. Parts in braces are filled from the path:
    `{plural}`."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    name: str = ""

    def filled(self, given: Mapping[str, str]) -> "Right":
        texts = (self.verb, self.group, self.resource, self.subresource, self.name)
        return Right(*(given[text[1:-1]] if text.startswith("{") else text for text in texts))

    def __str__(self) -> str:
        resource = self.resource + (f"/{self.subresource}" if self.subresource else "")
        return f"{self.verb} {resource}" + (f".{self.group}" if self.group else "")


May = Callable[[Right, str], Awaitable[bool]]


async def nothing(_: Right, __: str) -> bool:
    """A caller without rights."""
    return False


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, once path and parameters were read."""

    given: Mapping[str, str]
    """Parts of the path by name."""
    parameters: Mapping[str, Any]
    body: bytes = field(default=b"", repr=False)
    may: May = nothing
    """Whether the caller has a right in a namespace of the host; "" for rights on what has none."""

    @property
    def namespace(self) -> str:
        return self.given["namespace"]


Read = Callable[[str], Any]
"""The value of a parameter's text. Raises ValueError with what it must be."""


@dataclass(frozen=True, slots=True)
class Route:
    """One row: `/v1/namespaces/{namespace}/{plural}/{name}/pods` -> what it answers, and which
    rights that takes."""

    path: str
    answer: Callable[[Any, Question], Awaitable[Mapping[str, Any] | Raw]]
    """Given whatever the port hands to all of its rows."""
    rights: tuple[Right, ...]
    parameters: Mapping[str, Read]
    summary: str
    """One line for people."""
    body_max: int = 0
    """Bytes of a body at most; with 0 it is asked by GET and has none, else by POST. It changes
    nothing either way."""
    kind: Kind | None = None
    """The class of what is computed; None where nothing is computed on the hub's memory."""
    by_object: bool = False
    """The rights are those of the objects in the body: the answer asks for them (`Question.may`).
    """
    allow_large: Callable[[Question], Awaitable[None]] | None = None
    """Asked before a body of more than `LARGE_BYTES` is read. Raises `access.AccessRefused`."""

    def __post_init__(self) -> None:
        if not (self.rights or self.by_object):
            raise ValueError(f"{self.path} needs a right")

    @property
    def method(self) -> str:
        return "POST" if self.body_max else "GET"

    @property
    def name(self) -> str:
        """The last word of its path: what it is called in metrics and logs."""
        return self.path.rpartition("/")[2]

    def match(self, path: str) -> dict[str, str] | None:
        """The parts of a percent-encoded path by name, or None when it asks something else."""
        return webpaths.matched(self.path, path)


def parameters(route: Route, query: str) -> dict[str, Any]:
    """The parameters of a query string, read. Raises FieldError for one that is unknown, given
    twice or no value."""
    if len(query) > QUERY_MAX:
        raise FieldError("", f"the query is longer than {QUERY_MAX} characters")
    values: dict[str, Any] = {}
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=32
        )
    except ValueError:
        raise FieldError("", "the query cannot be read") from None
    for name, text in pairs:
        if name not in route.parameters:
            accepted = ", ".join(sorted(route.parameters)) or "none"
            raise FieldError(
                name[:40], f"there is no such parameter; {route.name} takes {accepted}"
            )
        if name in values:
            raise FieldError(name, "is given twice")
        try:
            values[name] = route.parameters[name](text)
        except ValueError as bad:
            raise FieldError(name, str(bad)) from None
    return values


def count(most: int) -> Read:
    """Reads a whole number from 0 to `most`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and len(text) < 12 and int(text) <= most):
            raise ValueError(f"must be a whole number from 0 to {most}")
        return int(text)

    return read


def flag(text: str) -> bool:
    """Reads true or false."""
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def word(text: str) -> str:
    """Reads a name or a time: printable, without blanks, not long."""
    if not 0 < len(text) <= 253 or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("must be a name")
    return text
