"""DELETE of one object and of a collection: grace, propagation, preconditions, and what a real server answers.

The garbage collector and the kubelets among the stand-in controllers finish what is only marked here.
"""

from federator.embedded import cohabitants, fieldselectors, options, reading, refusals, views
from federator.embedded.context import Context
from federator.embedded.messages import Answer, ApiRequest, Target, json_answer
from federator.embedded.options import DeleteOptions
from federator.embedded.resources import ResourceInfo
from federator.embedded.revisions import JsonObject, Revision

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_PODS = ("", "pods")
_NAMESPACES = ("", "namespaces")
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_POD_GRACE_S = 30
_ANSWERED_WITH_OBJECT = frozenset(
    ("", plural)
    for plural in ("pods", "services", "serviceaccounts", "namespaces", "persistentvolumeclaims", "resourcequotas")
)
"""Resources whose deletion is answered with the object even when it is gone (their registries say so)."""


def delete(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """Deletes one object: a Status when it is gone, the object when it is only marked."""
    info = target.info
    opts = options.delete_options(request)
    old = reading.existing(ctx.store, target)
    revision, gone = remove(ctx, info, old, opts)
    if gone and info.key not in _ANSWERED_WITH_OBJECT:
        details = {"name": target.name, "group": info.group, "kind": info.plural, "uid": old.obj["metadata"]["uid"]}
        return json_answer(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {key: value for key, value in details.items() if value},
            }
        )
    return Answer(body=views.view(request, info, ctx.clock.now).one(revision))


def delete_collection(ctx: Context, request: ApiRequest, target: Target) -> Answer:
    """Deletes every object that the selectors match; answers with the list of them."""
    info = target.info
    opts = options.delete_options(request)
    matches = fieldselectors.predicate(info, request.param("labelSelector"), request.param("fieldSelector"))
    found = ctx.store.items(cohabitants.home(info), target.namespace)
    chosen = [item for item in found if matches is None or matches(item.obj)]
    for item in chosen:
        remove(ctx, info, item, opts)
    view = views.view(request, info, ctx.clock.now)
    return Answer(body=view.many(chosen, {"resourceVersion": str(ctx.store.revision)}))


def remove(ctx: Context, info: ResourceInfo, old: Revision, opts: DeleteOptions) -> tuple[Revision, bool]:
    """Deletes or marks one stored object by these options; returns its last version and whether it is gone."""
    metadata = old.obj["metadata"]
    name = metadata["name"]
    if info.key == _NAMESPACES and name in _IMMORTAL:
        raise refusals.forbidden(info.group, info.plural, name, "this namespace may not be deleted")
    return ctx.store.delete(
        cohabitants.home(info),
        metadata.get("namespace", ""),
        name,
        uid=opts.uid,
        expect=opts.resource_version,
        grace_s=_grace_s(info, old.obj, opts.grace_s),
        finalizers=_finalizers(metadata, opts.propagation),
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


def _finalizers(metadata: JsonObject, propagation: str) -> list[str] | None:
    """The finalizers that carry out a propagation policy; None leaves them as they are."""
    if not propagation:
        return None
    kept = [name for name in metadata.get("finalizers") or () if name not in {_ORPHAN, _FOREGROUND}]
    wanted = {"Orphan": [_ORPHAN], "Foreground": [_FOREGROUND], "Background": []}[propagation]
    return kept + wanted
