"""What can go wrong between us and an API server, in our own words.

Adapters translate statuses and socket errors to these classes; above the client there are no status
numbers. The class says whether trying again can help. Messages are short and never carry more than
512 characters of an answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """An API server refused, or could not be asked.

    `status` is the HTTP status (0 when there was none), `reason` the Kubernetes reason, `causes`
    the field errors of a Status.
    """

    transient = False
    """Whether the same request may succeed later without anybody changing anything."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
        causes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message[:512])
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.causes = tuple(causes)


class Unreachable(ApiError):
    """No answer: refused, reset, silent past its deadline. Whether a write took effect is
    unknown."""

    transient = True


class AddressRefused(Unreachable):
    """Nothing was sent: the guard of the connection refuses the address."""


class OwnShortage(ApiError):
    """Nothing was sent: this process lacks a file descriptor, or the kernel a buffer, for another
    connection. It says nothing about the server (F67)."""

    transient = True


class NotLeading(ApiError):
    """We may not write now, because another may lead. Nothing was sent."""

    transient = True


class WentBack(ApiError):
    """A server shows an older state than before, for good: it was restored from a backup. What was
    remembered of it is no longer true."""


class Malformed(ApiError):
    """An answer that is no Kubernetes answer: HTML, a broken body, one beyond its bounds."""

    transient = True


class Endless(Malformed):
    """A list that does not come to an end: reading it again soon would keep a process busy."""


class OverBudget(Endless):
    """The lists and watch events of a server have taken all the processor time that they may."""


class Throttled(ApiError):
    """429, or 503 with a Retry-After."""

    transient = True


class ServerTrouble(ApiError):
    """Any other 5xx."""

    transient = True


class Conflict(ApiError):
    """409 because the object changed: read it again and compute anew."""

    transient = True


class AlreadyExists(ApiError):
    """409 on create."""


class NotFound(ApiError):
    """404 for an object (or, as `NotServed`, for a whole kind)."""


class NotServed(NotFound):
    """404 that names no object: the kind is not served there, or a proxy answered. Proves no
    object's absence."""


class Expired(ApiError):
    """410: the version or continue token is too old; list again."""

    transient = True


class Invalid(ApiError):
    """400 or 422: the server will never take this object."""


class Denied(ApiError):
    """403: not allowed."""


def ends_namespace(error: ApiError | None) -> bool:
    """Whether the object was refused because its namespace is being deleted: waiting helps,
    insisting does not."""
    causes = error.causes if isinstance(error, Denied) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


class Unauthenticated(ApiError):
    """401: the server does not accept our credentials."""
