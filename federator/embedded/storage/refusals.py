"""How the embedded API says no: one exception that is a Kubernetes `Status`, and the wordings a
real server uses.

Raised by the store, the schema layers and the REST layer; the REST layer turns it into the answer.
Stand-in controllers catch it by `reason`. Nothing here decides anything.
"""

from collections.abc import Sequence
from typing import Any

from federator.embedded.storage.field_errors import FieldError, aggregate


class Refusal(Exception):
    """An answer other than success: `code` the HTTP status, `reason` and `details` as in
    `Status`."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.metadata: dict[str, Any] = {}
        """The metadata of the `Status`: a continue token to go on with."""
        self.warnings: tuple[str, ...] = ()
        """What a `Warning` header says besides: about fields of the body that were ignored."""

    def status(self) -> dict[str, Any]:
        """The `metav1.Status` body."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if not self.reason:
            del body["reason"]
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body


def qualified(group: str, plural: str) -> str:
    """`deployments.apps`, or `pods` for the core group: how messages name a resource."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, plural: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def not_found(group: str, plural: str, name: str) -> Refusal:
    """404 for one object."""
    return Refusal(
        404,
        "NotFound",
        f'{qualified(group, plural)} "{name}" not found',
        _details(group, plural, name),
    )


def no_such_path() -> Refusal:
    """404 for a path, group, version or resource that is not served."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> Refusal:
    """409 on create."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return Refusal(409, "AlreadyExists", message, _details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str) -> Refusal:
    """409 because a precondition does not hold."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return Refusal(409, "Conflict", message, _details(group, plural, name))


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Refusal:
    """422 with field errors: `Deployment.apps "web" is invalid: ...`."""
    details = _details(group, kind, name)
    details["causes"] = [error.cause() for error in errors]
    text = f'{qualified(group, kind)} "{name}" is invalid: {aggregate(errors)}'
    return Refusal(422, "Invalid", text, details)


def bad_request(message: str) -> Refusal:
    """400: the request itself cannot be understood."""
    return Refusal(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> Refusal:
    named = f' "{name}"' if name else ""
    message = f"{qualified(group, plural)}{named} is forbidden: {why}"
    return Refusal(403, "Forbidden", message, _details(group, plural, name))


def method_not_allowed() -> Refusal:
    return Refusal(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def unsupported_media(accepted: Sequence[str]) -> Refusal:
    """415 for a body type that this resource does not take."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return Refusal(415, "UnsupportedMediaType", message)


def uid_mismatch(
    group: str, plural: str, namespace: str, name: str, *, wanted: str, actual: str
) -> Refusal:
    """409 because an update names another uid, in the words of the storage of a real server."""
    home = f"{group}/{plural}" if "." in group and not group.endswith(".k8s.io") else plural
    key = "/".join(part for part in ("/registry", home, namespace, name) if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0,"
        " AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}"
    )
    return conflict(group, plural, name, why)


def expired(message: str) -> Refusal:
    """410: a version or a continue token that history no longer reaches."""
    return Refusal(410, "Expired", message)
