"""HorizontalPodAutoscalers -> `spec.autoscaling` of the PinterestServices of the Deployments that
they scale. Pure.

One with something that `autoscaling` cannot say (metrics of objects, pace of scaling) is left.
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, only_fields
from federator.kinds.service import schema

API_VERSION: Final = "autoscaling/v2"
KIND: Final = "HorizontalPodAutoscaler"
_FIELDS: Final = frozenset({"scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"})
_KINDS: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "External": "external",
}


def absorb(drafts: Drafts) -> None:
    """Decides the fate of every autoscaler."""
    for item in list(drafts.open(API_VERSION, KIND)):
        try:
            draft = _target(item, drafts)
            draft.spec["autoscaling"] = _bounds(item)
        except LeftAlone as why:
            drafts.leave(item, str(why))
            continue
        draft.spec.pop("replicas", None)
        drafts.absorb(item, draft)
        drafts.note(
            draft,
            f"minReplicas and maxReplicas of {item.title} count over all clusters; max is placed"
            " and charged, unless spec.autoscaling.chargePercent says less",
        )


def _target(item: Item, drafts: Drafts) -> Draft:
    target = raw.mapping(item.obj, "spec", "scaleTargetRef")
    kind, name = raw.text(target, "kind"), raw.text(target, "name")
    for draft in drafts.made:
        given = draft.item
        if (given.kind, given.namespace, given.name) != (kind, item.namespace, name):
            continue
        if draft.obj["kind"] != schema.KIND:
            raise LeftAlone(f"spec.scaleTargetRef: {draft.title} has no autoscaling")
        if "autoscaling" in draft.spec:
            raise LeftAlone(f"spec.scaleTargetRef: another autoscaler scales {kind}/{name}")
        return draft
    raise LeftAlone(f"spec.scaleTargetRef: {kind}/{name} is not given, or becomes no workload")


def _bounds(item: Item) -> dict[str, Any]:
    spec = raw.mapping(item.obj, "spec")
    only_fields(spec, _FIELDS, {}, "spec")
    least = raw.integer(spec, "minReplicas", default=1)
    if least < 1:
        raise LeftAlone("spec.minReplicas: a service has at least one copy in each of its clusters")
    made: dict[str, Any] = {"min": least, "max": raw.integer(spec, "maxReplicas")}
    metrics = [
        _metric(metric, f"spec.metrics[{at}]")
        for at, metric in enumerate(raw.objects(spec, "metrics"))
    ]
    if metrics:
        made["metrics"] = metrics
    behavior = raw.mapping(spec, "behavior")
    only_fields(behavior, frozenset({"scaleDown"}), {"scaleUp": _PACE}, "spec.behavior")
    down = raw.mapping(behavior, "scaleDown")
    window = "stabilizationWindowSeconds"
    only_fields(down, frozenset({window}), {"policies": _PACE}, "spec.behavior.scaleDown")
    if window in down:
        made["scaleDownStabilizationSeconds"] = raw.integer(down, window)
    return made


_PACE: Final = "spec.autoscaling does not say how fast copies come and go"


def _metric(metric: Obj, path: str) -> dict[str, Any]:
    kind = raw.text(metric, "type")
    field = _KINDS.get(kind)
    if field is None:
        raise LeftAlone(f"{path}.type: {kind or 'none'}; only {', '.join(_KINDS)} can be said")
    said = raw.mapping(metric, field)
    made = _named(said, field)
    target = raw.mapping(said, "target")
    if "averageUtilization" in target:
        made["averageUtilization"] = raw.integer(target, "averageUtilization")
    elif "averageValue" in target:
        made["averageValue"] = target["averageValue"]
    else:
        raise LeftAlone(f"{path}.{field}.target: only averages for each pod can be said")
    return made


def _named(said: Obj, field: str) -> dict[str, Any]:
    if field in ("resource", "containerResource"):
        container = raw.text(said, "container")
        return {"resource": raw.text(said, "name")} | raw.present({"container": container})
    selector = raw.mapping(said, "metric", "selector")
    only_fields(selector, frozenset({"matchLabels"}), {}, f"spec.metrics.{field}.metric.selector")
    labels = raw.text_map(selector, "matchLabels")
    return {field: raw.text(said, "metric", "name")} | raw.present({"matchLabels": labels})
