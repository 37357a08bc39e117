"""What is wrong with a request, as an answer of the API (RFC 9457): one sentence, and each field
with its path."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from federator.kube import errors
from federator.kube.tlsserver import Outgoing
from federator.model import plaintext
from federator.model.errors import FieldError

CONTENT_TYPE: Final = "application/problem+json"
TYPES: Final = "https://federation.pinterest.com/problems/"
"""Beginning of the types of problems. They are names; nothing is served there."""
FIELDS_MAX: Final = 32
"""Fields of one problem that are listed."""
BUSY_S: Final = 2


@dataclass(frozen=True, slots=True)
class Field:
    """One field that is wrong. `path` is in the caller's terms."""

    path: str
    message: str


class Problem(Exception):
    """The request is refused. `title` names the class of problems, `detail` is a sentence."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        fields: Iterable[Field] = (),
        retry_after_s: int = 0,
        allow: str = "",
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = plaintext.clipped(detail)
        self.fields = tuple(fields)[:FIELDS_MAX]
        self.retry_after_s = retry_after_s
        self.allow = allow
        """Methods that the address takes, where it does not take the one of the request."""
        self.more = more
        """Further members of the answer, such as `verdict`."""


def of_fields(title: str, bad: Iterable[Field], status: int = 422) -> Problem:
    """For fields that are wrong; the detail is the first of them."""
    listed = tuple(bad)
    first = listed[0]
    detail = f"{first.path}: {first.message}" if first.path else first.message
    return Problem(status, title, detail, fields=listed)


def of_error(bad: FieldError) -> Problem:
    return of_fields("InvalidRequest", [Field(bad.path, bad.message)], 400)


def of_host(trouble: errors.ApiError, what: str) -> Problem:
    """For a refusal of the host's API server, in its own words where they are about the object."""
    match trouble:
        case errors.Invalid():
            listed = [
                Field(f"{what}.{cause.get('field', '')}".rstrip("."), str(cause.get("message", "")))
                for cause in trouble.causes
            ]
            sentence = str(trouble).partition(": ")[2] or str(trouble)
            return Problem(422, "Invalid", sentence, fields=listed or [Field(what, sentence)])
        case errors.Denied():
            sentence = str(trouble).partition(": ")[2] or str(trouble)
            return Problem(403, "Forbidden", sentence, fields=[Field(what, sentence)])
        case errors.NotFound():
            return Problem(404, "NotFound", f"{what}: not found on the host")
    return Problem(
        503,
        "HostUnavailable",
        "The host's API server does not answer. Send the same request again with the same"
        " idempotencyKey: nothing is created twice.",
        retry_after_s=BUSY_S,
    )


def answer(problem: Problem, instance: str) -> Outgoing:
    """The response. `instance`: the path of the request."""
    body: dict[str, Any] = {
        "type": f"{TYPES}{problem.title}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": plaintext.clipped(instance, 300),
    }
    if problem.fields:
        body["errors"] = [
            {"path": plaintext.clipped(each.path, 300), "detail": plaintext.clipped(each.message)}
            for each in problem.fields
        ]
    headers = {"Retry-After": str(problem.retry_after_s)} if problem.retry_after_s else {}
    if problem.allow:
        headers["Allow"] = problem.allow
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    encoded = msgspec.json.encode(body | problem.more)
    return Outgoing(problem.status, encoded, CONTENT_TYPE, headers)
