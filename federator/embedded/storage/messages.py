"""The messages of the REST layer: the request, its caller and the answer, free of any transport.

Made by the in-process transport and by the HTTP server; consumed by `api`. Bodies are bytes; a
watch is a stream.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from federator.embedded.storage.resources import ResourceInfo

JSON_TYPE = "application/json"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller. The server's own administrator is in `system:masters`."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """What a bound token says in addition, such as its pod."""

    @property
    def is_master(self) -> bool:
        return "system:masters" in self.groups


ADMIN = Caller("kubernetes-admin", ("system:masters", "system:authenticated"))


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. Header names are in lower case; `query` maps each name to its values in
    order."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes
    caller: Caller = ADMIN

    def param(self, name: str, default: str = "") -> str:
        """The first value of a query parameter."""
        values = self.query.get(name)
        return values[0] if values else default

    def flag(self, name: str) -> bool:
        """A boolean parameter as Kubernetes reads it: absent, "false" and "0" are false, everything
        else is true."""
        values = self.query.get(name)
        return values is not None and values[0].lower() not in {"false", "0"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection (`name` empty), an object, or a sub-resource of one."""

    info: ResourceInfo
    namespace: str | None
    """None for cluster-scoped resources and for collections over all namespaces."""
    name: str = ""
    subresource: str = ""

    @property
    def space(self) -> str:
        """The store's namespace key: "" when there is none."""
        return self.namespace or ""


class Stream(Protocol):
    """A body that goes on: the lines of a watch."""

    def chunks(self) -> AsyncIterator[bytes]: ...

    def close(self) -> None:
        """Ends the stream from either side; safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: bytes, or a stream."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON_TYPE
    warnings: tuple[str, ...] = ()
    stream: Stream | None = None
    extra_headers: Mapping[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        """Lower-case headers; several warnings are joined as one header value (RFC 9110)."""
        headers = {
            "content-type": self.content_type,
            "cache-control": "no-cache, private",
            **self.extra_headers,
        }
        if self.warnings:
            headers["warning"] = ", ".join(warning_value(text) for text in self.warnings)
        return headers


def warning_value(text: str) -> str:
    """A `Warning` header value with code 299, as Kubernetes sends it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def json_answer(body: Any, status: int = 200, warnings: tuple[str, ...] = ()) -> Answer:
    return Answer(status=status, body=_encode(body), warnings=warnings)


def text_answer(text: str, status: int = 200) -> Answer:
    return Answer(status=status, body=text.encode(), content_type="text/plain; charset=utf-8")
