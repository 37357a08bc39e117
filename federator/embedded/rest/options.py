"""The query parameters of writes: dryRun, fieldValidation, fieldManager, force, propagation;
checked as a real server does.
"""

from dataclasses import dataclass, replace
from typing import Any

from federator.embedded.rest import bodies
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.field_errors import FieldError
from federator.embedded.storage.messages import ApiRequest, Caller

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
    caller: Caller
    force: bool = False


def write_options(request: ApiRequest, kind: str, *, applies: bool = False) -> WriteOptions:
    """Reads and checks the options of a POST, PUT or PATCH. `kind` names them in errors
    (CreateOptions, ...).

    Raises `Refusal` 422.
    """
    errors = []
    manager = request.param("fieldManager")
    if applies and not manager:
        errors.append(field_errors.required("fieldManager", "is required for apply patch"))
    if "force" in request.query and kind == "PatchOptions" and not applies:
        errors.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    if len(manager) > _MANAGER_MAX:
        errors.append(field_errors.too_long("fieldManager", _MANAGER_MAX))
    errors += _dry_run_errors(request)
    validation = request.param("fieldValidation")
    if validation not in _VALIDATION:
        errors.append(field_errors.not_supported("fieldValidation", validation, _VALIDATION))
    if errors:
        raise refusals.invalid("meta.k8s.io", kind, "", errors)
    return WriteOptions(
        manager=manager or _manager_from_agent(request),
        dry_run=bool(request.param("dryRun")),
        field_validation=validation or "Warn",
        caller=request.caller,
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
    is_cascade_asked: bool = False
    """orphanDependents=false was said in so many words; then a deletion that has only begun is
    answered with 202."""
    is_policy_given: bool = False
    """Whether the client said anything about dependents."""


def delete_options(request: ApiRequest) -> DeleteOptions:
    """The options of a DELETE: its body, else its query. Raises `Refusal` 400 or 422."""
    body = bodies.read_options(request)
    if body:
        # A real server looks at the query only when there is no body.
        request = replace(request, query={"dryRun": _listed(body.get("dryRun"))})
    grace = _grace(request, body)
    propagation = body.get("propagationPolicy") or request.param("propagationPolicy")
    orphan = body.get(
        "orphanDependents",
        request.flag("orphanDependents") if "orphanDependents" in request.query else None,
    )
    errors = _dry_run_errors(request)
    if propagation and propagation not in _PROPAGATION:
        supported = (*_PROPAGATION, "nil")
        errors.insert(0, field_errors.not_supported("propagationPolicy", propagation, supported))
    if errors:
        raise refusals.invalid("meta.k8s.io", "DeleteOptions", "", errors)
    preconditions = body.get("preconditions") or {}
    return DeleteOptions(
        dry_run=bool(request.param("dryRun")),
        grace_s=grace,
        propagation=propagation or ("" if orphan is None else "Orphan" if orphan else "Background"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        is_cascade_asked=orphan is False,
        is_policy_given=bool(propagation) or orphan is not None,
    )


def _listed(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _grace(request: ApiRequest, body: dict[str, Any]) -> int | None:
    """gracePeriodSeconds, at least 0. Raises `Refusal` 400 for a query that is no number."""
    if body.get("gracePeriodSeconds") is not None:
        return max(int(body["gracePeriodSeconds"]), 0)
    text = request.param("gracePeriodSeconds")
    if not text:
        return None
    try:
        return max(int(text), 0)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _dry_run_errors(request: ApiRequest) -> list[FieldError]:
    values = request.query.get("dryRun", [])
    if all(value in {"All", ""} for value in values):
        return []
    listed = ", ".join(f'"{value}"' for value in values)
    text = f'Unsupported value: [{listed}]: supported values: "All"'
    return [FieldError("dryRun", "FieldValueNotSupported", text)]


def _manager_from_agent(request: ApiRequest) -> str:
    """The program's name at the front of User-Agent, as a real server names managers that do not
    name themselves."""
    return request.headers.get("user-agent", "").partition("/")[0][:_MANAGER_MAX] or "unknown"
