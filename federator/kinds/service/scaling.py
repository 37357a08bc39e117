"""Autoscaling of a PinterestService: how many copies it is placed and charged for, and between
which bounds an autoscaler chooses in each cluster.

The federation never says how many copies run. It splits `min` and `max` as the copies that it
charges are divided: a slice has its part of these, so that its bounds follow from itself.
"""

import math
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity

DEFAULT_CPU_PERCENT: Final = 80


def of(obj: Obj) -> Obj:
    """What the object says of it; empty where its copies are as many as it says."""
    return raw.mapping(obj, "spec", "autoscaling")


def by_member(scaling: Obj) -> bool:
    """Whether an autoscaler that is in the clusters already owns the copies."""
    return raw.text(scaling, "owner") == "Member"


def charged(scaling: Obj) -> int:
    """Copies that are placed and charged: `max`, or as much above `min` as chargePercent says."""
    least, most = _bounds(scaling)
    percent = min(max(raw.integer(scaling, "chargePercent", default=100), 0), 100)
    return least + math.ceil((most - least) * percent / 100)


def bounds(scaling: Obj, share: int) -> tuple[int, int]:
    """(fewest, most) copies of a cluster that has so many of the charged ones. All clusters
    together have at least `min` copies, and at most `max`.

        min 10, max 100, share 30 of 100 -> 3 to 30
    """
    least, most = _bounds(scaling)
    whole = charged(scaling)
    share = min(share, whole)  # one of an earlier `max` may be more than the whole is now
    low = min(max(-(-least * share // whole), 1), max(share, 1))
    return low, max(most * share // whole, low)


def _bounds(scaling: Obj) -> tuple[int, int]:
    least = max(raw.integer(scaling, "min", default=1), 1)
    return least, max(raw.integer(scaling, "max", default=least), least)


def spec_of(scaling: Obj, share: int, target: str) -> dict[str, Any]:
    """`.spec` of the HorizontalPodAutoscaler of a cluster, for the Deployment of this name."""
    low, high = bounds(scaling, share)
    metrics = [_metric(metric) for metric in raw.objects(scaling, "metrics")]
    spec: dict[str, Any] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": metrics or [_resource({"resource": "cpu"}, _usual())],
    }
    wait_s = raw.integer(scaling, "scaleDownStabilizationSeconds", default=-1)
    if wait_s >= 0:
        spec["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": wait_s}}
    return spec


def _usual() -> dict[str, Any]:
    return {"type": "Utilization", "averageUtilization": DEFAULT_CPU_PERCENT}


def _metric(asked: Obj) -> dict[str, Any]:
    target: dict[str, Any]
    if "averageUtilization" in asked:
        target = {
            "type": "Utilization",
            "averageUtilization": raw.integer(asked, "averageUtilization"),
        }
    else:
        target = {"type": "AverageValue", "averageValue": _canonical(asked.get("averageValue"))}
    if "resource" in asked:
        return _resource(asked, target)
    field = "pods" if "pods" in asked else "external"
    metric: dict[str, Any] = {"name": raw.text(asked, field)}
    if labels := raw.text_map(asked, "matchLabels"):
        metric["selector"] = {"matchLabels": labels}
    return {"type": field.capitalize(), field: {"metric": metric, "target": target}}


def _canonical(amount: Any) -> str:
    """As an API server writes it, so that nothing differs from what was written."""
    try:
        return str(quantity.from_json(amount))
    except FieldError:
        return str(amount)


def _resource(asked: Obj, target: dict[str, Any]) -> dict[str, Any]:
    measured: dict[str, Any] = {"name": raw.text(asked, "resource"), "target": target}
    if container := raw.text(asked, "container"):
        measured["container"] = container
        return {"type": "ContainerResource", "containerResource": measured}
    return {"type": "Resource", "resource": measured}
