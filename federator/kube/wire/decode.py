"""Bytes from an API server to our words: errors out of Status bodies, pages of lists, watch events.

The only place that knows status numbers. Used by the client; decodes with msgspec and leaves
objects raw, so that their consumers pay for the fields they keep and for nothing else.
"""

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from federator.kube import errors

RETRY_AFTER_MAX_S = 600.0
"""A server may not silence us for longer than this, in seconds."""

BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no JSON, or nested beyond all sense."""

NAME_MAX = 253
"""Characters of a name, a uid or a resourceVersion: no API server has longer ones, and they are
remembered."""
TOKEN_MAX = 8192
"""Characters of a list's version or continue token: the one is remembered, the other sent back in a
URL."""
_GC_PAUSE_BYTES = 256 * 1024


class _Details(msgspec.Struct):
    name: str | None = None
    retryAfterSeconds: int | float | None = None
    causes: list[dict[str, Any]] | None = None


class _Status(msgspec.Struct):
    kind: str = ""
    reason: str | None = None
    message: str | None = None
    code: int | None = None
    details: _Details | None = None


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remainingItemCount: int | None = None


class Page(msgspec.Struct):
    """One page of a list. `items` are the objects' own bytes."""

    kind: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One watch event; `object` is what its decoder makes of it, the object's own bytes
    (msgspec.Raw) by default."""

    type: str
    object: Any


class _RawEvent(WatchEvent):
    object: msgspec.Raw


class Meta(msgspec.Struct):
    """What every reader of raw objects needs of `metadata`."""

    name: str
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""


class Named(msgspec.Struct):
    """An object seen only through its metadata."""

    metadata: Meta


class _Typed(msgspec.Struct):
    apiVersion: str = ""
    kind: str = ""


_typed_decoder = msgspec.json.Decoder(_Typed)
_status_decoder = msgspec.json.Decoder(_Status)
_page_decoder = msgspec.json.Decoder(Page)
raw_event_decoder: msgspec.json.Decoder[WatchEvent] = msgspec.json.Decoder(_RawEvent)
named_decoder = msgspec.json.Decoder(Named)
any_decoder = msgspec.json.Decoder()


@functools.cache
def event_decoder_of(object_type: Any) -> msgspec.json.Decoder[WatchEvent]:
    """A decoder of watch events that makes `object_type` of their objects: a Struct, dict[str, Any]
    or msgspec.Raw."""
    made = msgspec.defstruct("TypedEvent", [("object", object_type)], bases=(WatchEvent,))
    return msgspec.json.Decoder(made)


_BY_REASON: Mapping[str, type[errors.ApiError]] = {
    "AlreadyExists": errors.AlreadyExists,
    "Conflict": errors.Conflict,
    "NotFound": errors.NotFound,
    "Expired": errors.Expired,
    "Gone": errors.Expired,
    "Invalid": errors.Invalid,
    "BadRequest": errors.Invalid,
    "MethodNotAllowed": errors.Invalid,
    "NotAcceptable": errors.Invalid,
    "RequestEntityTooLarge": errors.Invalid,
    "UnsupportedMediaType": errors.Invalid,
    "Forbidden": errors.Denied,
    "Unauthorized": errors.Unauthenticated,
    "TooManyRequests": errors.Throttled,
    "InternalError": errors.ServerTrouble,
    "ServerTimeout": errors.ServerTrouble,
    "Timeout": errors.ServerTrouble,
    "ServiceUnavailable": errors.ServerTrouble,
}

_BY_STATUS: Mapping[int, type[errors.ApiError]] = {
    400: errors.Invalid,
    401: errors.Unauthenticated,
    403: errors.Denied,
    404: errors.NotFound,
    405: errors.Invalid,
    406: errors.Invalid,
    408: errors.ServerTrouble,
    409: errors.Conflict,
    410: errors.Expired,
    413: errors.Invalid,
    415: errors.Invalid,
    422: errors.Invalid,
    429: errors.Throttled,
}


def error(status: int, headers: Mapping[str, str], body: bytes, what: str) -> errors.ApiError:
    """The error that an answer other than 2xx means. `what` names the request in the message.

    The reason of a Status body decides before the number does: 409 is Conflict or AlreadyExists
    only by its reason. A 404 says that an object is absent only when a Status names it: another
    program's page must not mean "deleted".
    """
    said = _decoded_status(body)
    if said is None and _is_foreign(status, headers, body):
        return errors.Malformed(
            f"{what}: answered {status} with {headers.get('content-type', 'no content type')}, as"
            " no API server does.",
            status=status,
        )
    said = said or _Status()
    reason = said.reason or ""
    retry_after_s = _retry_after(headers, said)
    made = _BY_REASON.get(reason) or _BY_STATUS.get(status) or errors.ServerTrouble
    if made is errors.ServerTrouble and status == 503 and retry_after_s is not None:
        made = errors.Throttled
    if made is errors.NotFound and (said.details is None or not said.details.name):
        made = errors.NotServed
    message = said.message or f"answered {status}"
    causes = said.details.causes if said.details is not None and said.details.causes else ()
    return made(
        f"{what}: {message}",
        status=status,
        reason=reason,
        retry_after_s=retry_after_s,
        causes=causes,
    )


def _is_foreign(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether an answer without a Status body can only come from something between us and the API
    server."""
    if 300 <= status < 400:
        return True
    if status == 404:
        return not body.lstrip().startswith(b"404 page not found")
    return status < 500 and "html" in headers.get("content-type", "").lower()


def event_error(obj: Any) -> errors.ApiError:
    """The error inside a watch's ERROR event; one without a code is trouble of the server's."""
    raw = bytes(obj) if isinstance(obj, msgspec.Raw) else msgspec.json.encode(obj)
    said = _decoded_status(raw)
    if said is None:
        return errors.Malformed("The watch ended with an ERROR event that carries no Status.")
    return error(said.code or 500, {}, raw, "The watch ended")


def _decoded_status(body: bytes) -> _Status | None:
    try:
        said = _status_decoder.decode(body)
    except BROKEN:
        return None
    return said if said.kind == "Status" else None


def _retry_after(headers: Mapping[str, str], said: _Status) -> float | None:
    seconds: float | None = None
    text = headers.get("retry-after", "")
    if text.isascii() and text.isdigit() and len(text) < 10:
        seconds = float(text)
    if said.details is not None and said.details.retryAfterSeconds:
        seconds = float(said.details.retryAfterSeconds)
    return None if seconds is None else min(max(seconds, 0.0), RETRY_AFTER_MAX_S)


def obj(body: bytes, what: str) -> dict[str, Any]:
    """A JSON object. Raises `errors.Malformed` for anything else."""
    try:
        value = any_decoder.decode(body)
    except BROKEN as exc:
        raise errors.Malformed(f"{what}: the answer is no JSON ({exc}).") from exc
    if not isinstance(value, dict):
        raise errors.Malformed(f"{what}: the answer is no JSON object.")
    return value


def single(body: bytes, name: str, what: str, *, stored: bool = True) -> dict[str, Any]:
    """An object of Kubernetes, and when `name` is given, none with another name.

    `stored`: it must be one that a server holds, with a name and a uid; else a Status will do.
    Raises `errors.Malformed`.
    """
    answer = obj(body, what)
    metadata = answer.get("metadata")
    if not isinstance(metadata, dict):
        raise errors.Malformed(f"{what}: the answer is no object of Kubernetes.")
    if name and stored and not all(_is_text(metadata.get(field)) for field in ("name", "uid")):
        raise errors.Malformed(f"{what}: the answer is no object that an API server holds.")
    if name and metadata.get("name", name) != name:
        raise errors.Malformed(f"{what}: the answer is about another object.")
    if any(
        len(value) > NAME_MAX
        for field in _REMEMBERED
        if isinstance(value := metadata.get(field), str)
    ):
        raise errors.Malformed(
            f"{what}: an identity of the answer has more than {NAME_MAX} characters."
        )
    return answer


_REMEMBERED = ("name", "namespace", "uid", "resourceVersion")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def page(body: bytes, what: str) -> Page:
    """One page of a list. Raises `errors.Malformed` when the body is no Kubernetes list."""
    try:
        with collector_paused(len(body)):
            value = _page_decoder.decode(body)
    except BROKEN as exc:
        raise errors.Malformed(f"{what}: the answer is no list ({exc}).") from exc
    if not value.kind.endswith("List"):
        raise errors.Malformed(
            f"{what}: the answer is a {value.kind[:40] or 'nameless kind'} and no list."
        )
    if max(len(value.metadata.resourceVersion), len(value.metadata.continue_)) > TOKEN_MAX:
        raise errors.Malformed(
            f"{what}: its version or its continue token has more than {TOKEN_MAX} characters."
        )
    return value


def items(page: Page, api_version: str) -> Iterator[dict[str, Any]]:
    """The page's objects one after the other, with the type that servers leave out of items of
    builtin kinds."""
    kind = page.kind.removesuffix("List")
    for raw in page.items or ():
        item = obj(bytes(raw), "list")
        item.setdefault("apiVersion", api_version)
        item.setdefault("kind", kind)
        yield item


def bodies(page: Page, api_version: str) -> Iterator[bytes]:
    """The page's objects as JSON, each with its type, as `items` has them."""
    kind = page.kind.removesuffix("List")
    for raw in page.items or ():
        try:
            typed = _typed_decoder.decode(raw)
        except BROKEN as exc:
            raise errors.Malformed(f"list: the answer is no JSON object ({exc}).") from exc
        if typed.apiVersion and typed.kind:
            yield bytes(raw)
        else:
            head = {"apiVersion": api_version, "kind": kind}
            yield msgspec.json.encode(head | obj(bytes(raw), "list"))


def changed_items(
    page: Page, stored: Callable[[tuple[str, str]], tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Those of a page's objects of which `stored` has another (uid, resourceVersion), by
    (namespace, name).

    Raises `errors.Malformed` for what is no object.
    """
    for raw in page.items or ():
        try:
            meta = named_decoder.decode(raw).metadata
        except BROKEN as exc:
            raise errors.Malformed(
                f"a list holds something that is no object of Kubernetes ({exc})"
            ) from exc
        name = (meta.namespace, meta.name)
        if stored(name) != (meta.uid, meta.resourceVersion):
            yield name, obj(bytes(raw), "list")


@contextlib.contextmanager
def collector_paused(size: int) -> Iterator[None]:
    """Keeps the cyclic collector still while many objects are made at once; it makes that four
    times slower."""
    if size < _GC_PAUSE_BYTES or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
