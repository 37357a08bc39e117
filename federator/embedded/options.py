"""The query parameters of writes: dryRun, fieldValidation, fieldManager, force, propagation; checked as a real server
does.
"""

from dataclasses import dataclass

from federator.embedded import bodies, refusals
from federator.embedded.messages import ApiRequest

_VALIDATION = ("", "Ignore", "Strict", "Warn")
_MANAGER_MAX = 128
_PROPAGATION = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How one write is to be carried out."""

    manager: str
    dry_run: bool
    field_validation: str
    """Strict | Warn | Ignore."""
    force: bool = False


def write_options(request: ApiRequest, kind: str, *, applies: bool = False) -> WriteOptions:
    """Reads and checks the options of a POST, PUT or PATCH. `kind` names them in errors (CreateOptions, ...).

    Raises `Refusal` 422.
    """
    _check_dry_run(request, kind)
    validation = request.param("fieldValidation")
    if validation not in _VALIDATION:
        supported = ", ".join(f'"{value}"' for value in _VALIDATION)
        raise unsupported(kind, "fieldValidation", f'"{validation}"', supported)
    manager = request.param("fieldManager")
    if len(manager) > _MANAGER_MAX:
        text = f"Too long: may not be more than {_MANAGER_MAX} bytes"
        raise _refused(kind, "fieldManager", "TooLong", text)
    if applies and not manager:
        raise _refused(kind, "fieldManager", "Required", "Required value: is required for apply patch")
    if "force" in request.query and kind == "PatchOptions" and not applies:
        raise _refused(kind, "force", "Forbidden", "Forbidden: may not be specified for non-apply patch")
    return WriteOptions(
        manager=manager or _manager_from_agent(request),
        dry_run=bool(request.param("dryRun")),
        field_validation=validation or "Warn",
        force=request.flag("force"),
    )


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How one deletion is to be carried out."""

    dry_run: bool
    grace_s: int | None
    propagation: str
    """"" | Foreground | Background | Orphan."""
    uid: str | None
    resource_version: str | None


def delete_options(request: ApiRequest) -> DeleteOptions:
    """The options of a DELETE: its body, else its query. Raises `Refusal` 400 or 422."""
    body = bodies.read_options(request)
    _check_dry_run(request, "DeleteOptions")
    propagation = body.get("propagationPolicy") or request.param("propagationPolicy")
    orphan = body.get("orphanDependents", "orphanDependents" in request.query and request.flag("orphanDependents"))
    if propagation and propagation not in _PROPAGATION:
        supported = ", ".join(f'"{value}"' for value in (*_PROPAGATION, "nil"))
        raise unsupported("DeleteOptions", "propagationPolicy", f'"{propagation}"', supported)
    grace = body.get("gracePeriodSeconds", request.param("gracePeriodSeconds") or None)
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        dry_run=bool(request.param("dryRun") or body.get("dryRun")),
        grace_s=None if grace is None else max(int(grace), 0),
        propagation=propagation or ("Orphan" if orphan else ""),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )


def unsupported(kind: str, field: str, value: str, supported: str) -> refusals.Refusal:
    """422 for a parameter with a value from outside its list."""
    return _refused(kind, field, "NotSupported", f"Unsupported value: {value}: supported values: {supported}")


def _check_dry_run(request: ApiRequest, kind: str) -> None:
    values = request.query.get("dryRun", [])
    if any(value not in {"All", ""} for value in values):
        listed = " ".join(f'"{value}"' for value in values)
        raise unsupported(kind, "dryRun", f"[{listed}]", '"All"')


def _refused(kind: str, field: str, reason: str, text: str) -> refusals.Refusal:
    cause = {"reason": f"FieldValue{reason}", "message": text, "field": field}
    return refusals.invalid("meta.k8s.io", kind, "", [cause])


def _manager_from_agent(request: ApiRequest) -> str:
    """The program's name at the front of User-Agent, as a real server names managers that do not name themselves."""
    return request.headers.get("user-agent", "").partition("/")[0][:_MANAGER_MAX] or "unknown"
