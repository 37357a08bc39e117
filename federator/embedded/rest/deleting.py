"""DELETE of one object and of a collection: grace, propagation, preconditions, and what a real
server answers.

The garbage collector and the kubelets among the stand-in controllers finish what is only marked
here.
"""

from federator.embedded.rest import admission, field_selectors, options, reading, views, writing
from federator.embedded.rest.context import Context
from federator.embedded.rest.options import DeleteOptions
from federator.embedded.schema import event_groups
from federator.embedded.storage import refusals
from federator.embedded.storage.messages import Answer, ApiRequest, Target, json_answer
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject, Revision

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_PODS = ("", "pods")
_NAMESPACES = ("", "namespaces")
_JOBS = ("batch", "jobs")
_CHILDREN_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background"
    " to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_ORPHAN_POLICY = "Orphan"
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_POD_GRACE_S = 30
_ANSWERED_WITH_OBJECT = frozenset(
    ("", plural)
    for plural in (
        "pods",
        "services",
        "serviceaccounts",
        "namespaces",
        "persistentvolumeclaims",
        "resourcequotas",
    )
)
"""Resources for which a deletion returns the object even when it is gone, as their registries say.
"""


def delete(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """Deletes one object: a Status when it is gone, the object when it is only marked."""
    info = target.info
    opts = options.delete_options(request)
    warnings = _warnings(info, opts)
    with writing.warning(warnings):
        old = reading.existing(ctx.store, target)
        admission.judge_deletion(ctx, info, old.obj, request.caller, dry_run=opts.dry_run)
        revision, gone = remove(ctx, info, old, opts)
    if gone and info.key not in _ANSWERED_WITH_OBJECT:
        details = {
            "name": target.name,
            "group": info.group,
            "kind": info.plural,
            "uid": old.obj["metadata"]["uid"],
        }
        return json_answer(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {key: value for key, value in details.items() if value},
            },
            warnings=warnings,
        )
    status = 202 if opts.is_cascade_asked and not gone else 200
    return Answer(
        status=status,
        body=views.view(request, info, ctx.clock.now).single(revision),
        warnings=warnings,
    )


def _warnings(info: ResourceInfo, opts: DeleteOptions) -> tuple[str, ...]:
    return (_CHILDREN_STAY,) if info.key == _JOBS and not opts.is_policy_given else ()


def delete_collection(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """Deletes every object that the selectors match; answers with the list of them."""
    info = target.info
    opts = options.delete_options(request)
    matches = field_selectors.predicate(
        info, request.param("labelSelector"), request.param("fieldSelector")
    )
    revisions = ctx.store.items(event_groups.home(info), target.namespace)
    chosen = [item for item in revisions if matches is None or matches(item.obj)]
    with writing.warning(_warnings(info, opts)):
        for item in chosen:
            admission.judge_deletion(ctx, info, item.obj, request.caller, dry_run=opts.dry_run)
            remove(ctx, info, item, opts)
    view = views.view(request, info, ctx.clock.now)
    metadata = {"resourceVersion": str(ctx.store.revision)}
    if not info.is_builtin and not view.form:
        metadata["continue"] = ""
    return Answer(body=view.many(chosen, metadata), warnings=_warnings(info, opts))


def remove(
    ctx: Context, info: ResourceInfo, old: Revision, opts: DeleteOptions
) -> tuple[Revision, bool]:
    """Deletes or marks one stored object by these options; returns its last version and whether it
    is gone."""
    metadata = old.obj["metadata"]
    name = metadata["name"]
    if info.key == _NAMESPACES and name in _IMMORTAL:
        raise refusals.forbidden(info.group, info.plural, name, "this namespace may not be deleted")
    grace_s = _grace_s(info, old.obj, opts.grace_s)
    finalizers = _wanted_finalizers(info, old.obj, opts)
    left_s = metadata.get("deletionGracePeriodSeconds", 0)
    if left_s and (opts.grace_s is None or opts.grace_s >= left_s):
        # The time of a deletion under way may only be shortened, and without that other wishes are
        # not heard.
        grace_s, finalizers = left_s, None
    return ctx.store.delete(
        event_groups.home(info),
        metadata.get("namespace", ""),
        name,
        uid=opts.uid,
        expect=opts.resource_version,
        grace_s=grace_s,
        finalizers=finalizers,
        # They are deleted in two steps, even without a pause between them.
        marks_first=info.key == _PODS,
        dry_run=opts.dry_run,
    )


def _grace_s(info: ResourceInfo, obj: JsonObject, asked: int | None) -> int:
    """Only pods leave gracefully, and only those that a kubelet may be running."""
    if info.key != _PODS:
        return 0
    spec, phase = obj["spec"], (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in {"Succeeded", "Failed"}:
        return 0
    if asked is not None:
        return asked
    return int(spec.get("terminationGracePeriodSeconds", _POD_GRACE_S))


def _propagation(info: ResourceInfo, metadata: JsonObject, opts: DeleteOptions) -> str:
    """What becomes of dependents. By default the pods of a Job stay, as its first clients
    expected."""
    if info.kind == "Event":
        # Nothing depends on an event.
        return ""
    if info.key == _JOBS and not opts.is_policy_given:
        # What was wished before is not taken back by saying nothing.
        return (
            "" if {_ORPHAN, _FOREGROUND} & set(metadata.get("finalizers") or ()) else _ORPHAN_POLICY
        )
    return opts.propagation


def _wanted_finalizers(
    info: ResourceInfo, obj: JsonObject, opts: DeleteOptions
) -> list[str] | None:
    metadata = obj["metadata"]
    if info.key != _NAMESPACES or not obj["spec"].get("finalizers"):
        return _finalizers(metadata, _propagation(info, metadata, opts))
    # While it ends, a namespace takes no further wishes.
    return None if "deletionTimestamp" in metadata else _held(metadata, opts)


def _held(metadata: JsonObject, opts: DeleteOptions) -> list[str] | None:
    """A namespace only gains the finalizer of a policy: what it holds is none of its dependents."""
    if not opts.is_policy_given:
        return None
    foreground = opts.propagation == "Foreground" or opts.is_cascade_asked
    wanted = (
        [_ORPHAN] if opts.propagation == _ORPHAN_POLICY else [_FOREGROUND] if foreground else []
    )
    finalizers = metadata.get("finalizers") or []
    kept = [name for name in finalizers if name in wanted or name not in {_ORPHAN, _FOREGROUND}]
    return kept + [name for name in wanted if name not in finalizers]


def _finalizers(metadata: JsonObject, propagation: str) -> list[str] | None:
    """The finalizers that carry out a propagation policy; None leaves them as they are."""
    if not propagation:
        return None
    kept = [name for name in metadata.get("finalizers") or () if name not in {_ORPHAN, _FOREGROUND}]
    wanted = {"Orphan": [_ORPHAN], "Foreground": [_FOREGROUND], "Background": []}[propagation]
    return kept + wanted
