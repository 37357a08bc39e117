"""What a PinterestStatefulSet asks of placement, and the slice of it that a cluster is given."""

from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.shared import workloads
from federator.kinds.statefulset.schema import KIND
from federator.kinds.verbs import SliceMark
from federator.model.ask import ANY_NUMBER, Ordinals
from federator.model.decision import Share

DEFAULTS: Final[dict[str, Any]] = {
    "tier": "OnDemand",
    "podManagementPolicy": "OrderedReady",
    "claimRetention": "Retain",
}


def count(obj: Obj) -> int:
    return max(raw.integer(obj, "spec", "replicas", default=1), 0)


def max_unavailable(obj: Obj) -> int:
    return ANY_NUMBER


def ordinals(obj: Obj) -> Ordinals:
    return Ordinals(
        claims=bool(raw.objects(obj, "spec", "volumeClaimTemplates")),
        released=tuple(sorted(raw.texts(obj, "spec", "release"))),
    )


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    """The cluster's ordinals are those of the mark, else of the share."""
    if not mark.ranges:
        mark = replace(mark, ranges=share.ranges)
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    spec.pop("release", None)
    spec["replicas"] = share.count
    if raw.items(spec, "service", "ports"):
        listed = raw.objects(spec, "service", "ports")
        # As an API server stores it: with the default that a list of ports is keyed by.
        spec["service"] = {
            **spec["service"],
            "ports": [{"protocol": "TCP", **port} for port in listed],
        }
    return workloads.rendered(KIND, obj, mark, spec)
