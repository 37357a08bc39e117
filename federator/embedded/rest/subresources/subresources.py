"""Sub-resources that are not simply the object: scale, binding, eviction, finalize and log.

`status` is the object itself and handled by `writing` and `patching`. What is not in `HANDLERS` is
not served and not shown in discovery.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from federator.embedded.apply import ownership
from federator.embedded.auth import identities
from federator.embedded.rest import (
    bodies,
    deleting,
    options,
    patching,
    reading,
    validation,
    writing,
)
from federator.embedded.rest.context import Context
from federator.embedded.rest.options import DeleteOptions, WriteOptions
from federator.embedded.rest.subresources import podlogs, token_requests
from federator.embedded.storage import field_errors, refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Target, json_answer
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject, Revision
from federator.embedded.tables import tables
from federator.model.kubernetes import selectors

Handler = Callable[[Context, ApiRequest, Target], Answer]
_PDBS = ("policy", "poddisruptionbudgets")
_NO_NUMBER = (
    "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32"
)


def _parent(target: Target) -> Target:
    return Target(target.info, target.namespace, target.name)


# Scale


def scale_of(info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """The autoscaling/v1 Scale that an object shows."""
    paths = info.scale
    if paths is None:
        raise refusals.no_such_path()
    metadata = obj["metadata"]
    fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: JsonObject = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in fields if field in metadata},
        "spec": {},
        "status": {"replicas": tables.first(tables.path(paths.status), obj) or 0},
    }
    replicas = tables.first(tables.path(paths.spec), obj)
    if replicas is None and not info.is_builtin:
        message = f"the spec replicas field {paths.spec} does not exist"
        raise refusals.Refusal(500, "InternalError", f"Internal error occurred: {message}")
    if replicas:
        scale["spec"]["replicas"] = replicas
    selector = tables.first(tables.path(paths.selector), obj) if paths.selector else None
    if isinstance(selector, dict):
        selector = selectors.to_text(selectors.from_dict(selector, "spec.selector"))
    if selector:
        scale["status"]["selector"] = selector
    return scale


def get_scale(ctx: Context, _request: ApiRequest, target: Target) -> Answer:
    return json_answer(scale_of(target.info, reading.existing(ctx.store, target).obj))


def put_scale(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    opts = options.write_options(request, "UpdateOptions")
    given = bodies.read_object(request, target.info)
    replicas = (given.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, str) and not target.info.is_builtin:
        raise refusals.bad_request(
            'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
        )
    if isinstance(replicas, str):
        raise refusals.bad_request(
            f'Scale in version "v1" cannot be handled as a Scale: {_NO_NUMBER}'
        )
    _check_named(given, target)
    return _set_scale(ctx, target, reading.existing(ctx.store, target), given, opts)


def patch_scale(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    media = bodies.media_type(request)
    if media == patching.APPLY:
        opts = options.write_options(request, "PatchOptions", applies=True)
    else:
        opts = options.write_options(request, "PatchOptions")
    document = bodies.patch_document(request, media, bodies.read_patch(request, media))
    old = reading.existing(ctx.store, target)
    # Merging a Scale is merging plain maps, whatever the patch calls itself.
    plain = media if media == patching.JSON_PATCH else patching.MERGE
    patched = patching.patched_tree(scale_of(target.info, old.obj), document, plain, target.info)
    if isinstance((patched.get("spec") or {}).get("replicas"), str):
        raise patching.about_patch(patched, document, media, _NO_NUMBER)
    return _set_scale(ctx, target, old, patched, opts, applies=media == patching.APPLY)


def _check_named(scale: Any, target: Target) -> None:
    """A Scale must say the name that the path says. Raises `Refusal` 400."""
    name = (scale.get("metadata") or {}).get("name")
    if not name:
        raise identities.unnamed(target)
    if name != target.name:
        why = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise refusals.bad_request(why)


def _applied_scale(
    ctx: Context, target: Target, old: Revision, replicas: int, opts: WriteOptions
) -> JsonObject:
    """The object with an applied Scale merged in: the applier owns the number. Raises
    `Refusal` 409."""
    info = target.info
    assert info.scale is not None
    kind = {"apiVersion": info.api_version, "kind": info.kind}
    applied = with_value(kind, info.scale.spec.strip(".").split("."), replicas)
    merged = ownership.apply(
        old.obj, applied, opts.manager, opts.force, info, ctx.clock.rfc3339(), "scale"
    )
    if merged.conflicts:
        raise patching.owned_by_others(merged.conflicts)
    return dict(merged.obj)


def _set_scale(
    ctx: Context,
    target: Target,
    old: Revision,
    scale: Any,
    opts: WriteOptions,
    *,
    applies: bool = False,
) -> Answer:
    info, paths = target.info, target.info.scale
    if paths is None:
        raise refusals.no_such_path()
    _check_named(scale, target)
    metadata = scale.get("metadata") or {}
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise refusals.bad_request(
            'Scale in version "v1" cannot be handled as a Scale: spec.replicas is no integer'
        )
    if replicas < 0 and info.is_builtin:
        why = "must be greater than or equal to 0"
        error = field_errors.invalid("spec.replicas", replicas, why)
        raise refusals.invalid("autoscaling", "Scale", target.name, [error])
    fresh = with_value(old.obj, paths.spec.strip(".").split("."), replicas)
    if applies:
        fresh = _applied_scale(ctx, target, old, replicas, opts)
    fresh["metadata"] = dict(fresh["metadata"])
    fresh["metadata"]["resourceVersion"] = (
        metadata.get("resourceVersion") or old.obj["metadata"]["resourceVersion"]
    )
    lenient = replace(opts, field_validation="Ignore")
    decoded, _ = writing.decode(fresh, info, lenient, [])
    revision = writing.update_object(ctx, target, old, decoded, opts, applied=applies)
    warnings = tuple(validation.warnings(revision.obj, old.obj, info))
    return json_answer(scale_of(info, revision.obj), warnings=warnings)


def with_value(obj: JsonObject, path: list[str], value: Any) -> JsonObject:
    """A copy of `obj` along `path` with the value at its end; the rest is shared."""
    copy = dict(obj)
    copy[path[0]] = (
        value if len(path) == 1 else with_value(copy.get(path[0]) or {}, path[1:], value)
    )
    return copy


# Pods


def bind(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """POST of a Binding: puts the pod on a node, once."""
    given = bodies.read_object(request, target.info)
    node = (given.get("target") or {}).get("name")
    old = reading.existing(ctx.store, target)
    spec, metadata = old.obj["spec"], old.obj["metadata"]
    if not node:
        raise refusals.invalid("", "Binding", target.name, [field_errors.required("target.name")])
    if "deletionTimestamp" in metadata or spec.get("nodeName"):
        trouble = f'pod {target.name} is already assigned to node "{spec.get("nodeName")}"'
        if "deletionTimestamp" in metadata:
            trouble = f"pod {target.name} is being deleted, cannot be assigned to a host"
        raise refusals.conflict("", "pods/binding", target.name, trouble)
    status = old.obj.get("status") or {}
    conditions = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": ctx.clock.rfc3339(),
    }
    bound = {
        **old.obj,
        "spec": {**spec, "nodeName": node},
        "status": {**status, "conditions": [*conditions, scheduled]},
    }
    if not request.param("dryRun"):
        ctx.store.update(target.info, bound, same_generation=True)
    return _done()


def _done() -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_answer(body, 201)


def evict(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """POST of an Eviction: deletes the pod unless a disruption budget forbids it (429)."""
    given = bodies.read_object(request, target.info)
    old = reading.existing(ctx.store, target)
    inner = given.get("deleteOptions") or {}
    preconditions = inner.get("preconditions") or {}
    _check_budgets(ctx, old.obj)
    opts = DeleteOptions(
        dry_run=bool(request.param("dryRun") or inner.get("dryRun")),
        grace_s=inner.get("gracePeriodSeconds"),
        propagation=inner.get("propagationPolicy") or "",
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
    )
    deleting.remove(ctx, target.info, old, opts)
    return _done()


def _check_budgets(ctx: Context, pod: JsonObject) -> None:
    labels = pod["metadata"].get("labels") or {}
    for budget in ctx.store.items(ctx.registry.get(*_PDBS), pod["metadata"]["namespace"]):
        selector = selectors.from_dict(
            (budget.obj.get("spec") or {}).get("selector") or {}, "spec.selector"
        )
        status = budget.obj.get("status") or {}
        if selector.matches(labels) and status.get("disruptionsAllowed", 0) < 1:
            name = budget.obj["metadata"]["name"]
            text = (
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy"
                " pods and has "
                f"{status.get('currentHealthy', 0)} currently"
            )
            raise refusals.Refusal(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
                {"causes": [{"reason": "DisruptionBudget", "message": text}]},
            )


# Namespaces


def finalize(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """PUT of namespaces/finalize: only spec.finalizers change; the last one gone lets the namespace
    go."""
    given = bodies.read_object(request, target.info)
    old = reading.existing(ctx.store, target)
    spec = {key: value for key, value in (old.obj.get("spec") or {}).items() if key != "finalizers"}
    wanted = (given.get("spec") or {}).get("finalizers")
    if wanted:
        spec["finalizers"] = wanted
    version = (given.get("metadata") or {}).get("resourceVersion") or None
    revision = ctx.store.update(
        target.info,
        {**old.obj, "spec": spec},
        expect=version,
        dry_run=bool(request.param("dryRun")),
    )
    return writing.shown(ctx, request, target.info, revision)


HANDLERS: Mapping[str, Mapping[str, Handler]] = {
    "status": {
        "GET": lambda ctx, request, target: reading.get(ctx.store, request, _parent(target)),
        "PUT": writing.replace,
        "PATCH": patching.patch,
    },
    "scale": {"GET": get_scale, "PUT": put_scale, "PATCH": patch_scale},
    "binding": {"POST": bind},
    "eviction": {"POST": evict},
    "log": {"GET": podlogs.log},
    "finalize": {"PUT": finalize},
    "token": {"POST": token_requests.create},
}
"""sub-resource -> method -> handler."""
