"""What a PinterestService asks of placement, and the slice of it that a cluster is given."""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.service import scaling
from federator.kinds.service.schema import KIND
from federator.kinds.shared import workloads
from federator.kinds.verbs import SliceMark
from federator.model.ask import Disruptions
from federator.model.decision import Share

DEFAULTS: Final[dict[str, Any]] = {"tier": "OnDemand"}
DEFAULT_MAX_UNAVAILABLE_PERCENT: Final = 25


def count(obj: Obj) -> int:
    """Copies that are placed and charged; of a slice, those of its cluster."""
    scaled = scaling.of(obj)
    if scaled and not raw.integer(obj, "spec", "slice", "seq"):  # no hub has divided it
        return scaling.charged(scaled)
    return max(raw.integer(obj, "spec", "replicas", default=1), 0)


def bounds(obj: Obj) -> tuple[int, int] | None:
    """Between which an autoscaler chooses for a slice; None where it has just its copies. One of
    the member's own has a least number of its own, which may be none."""
    scaled = scaling.of(obj)
    if not scaled:
        return None
    low, high = scaling.bounds(scaled, count(obj))
    return (0 if scaling.by_member(scaled) else low), high


def max_unavailable(obj: Obj) -> int:
    """Copies that may be missing. Where an autoscaler chooses, percents are of the fewest that it
    may ask for: of what is charged most may be copies that nobody asks for."""
    value = raw.at(obj, "spec", "updateStrategy", "maxUnavailable")
    scaled, copies = scaling.of(obj), count(obj)
    if scaled:
        copies, _ = scaling.bounds(scaled, copies)
    return verbs.share_of_copies(value, copies, default_percent=DEFAULT_MAX_UNAVAILABLE_PERCENT)


def by_number(obj: Obj) -> bool:
    return isinstance(raw.at(obj, "spec", "updateStrategy", "maxUnavailable"), int)


def budget(obj: Obj) -> int | str | None:
    """Pods of one cluster's share that may be missing while nodes are drained or others take back
    what they lent, as a number or in percent; None without a budget."""
    if raw.at(obj, "spec", "disruptionBudget") is None:
        return None
    allowed = raw.at(obj, "spec", "disruptionBudget", "maxUnavailable")
    if allowed is None:
        allowed = raw.at(obj, "spec", "updateStrategy", "maxUnavailable")
    return allowed if isinstance(allowed, int | str) else f"{DEFAULT_MAX_UNAVAILABLE_PERCENT}%"


def disruptions(obj: Obj) -> Disruptions | None:
    allowed = budget(obj)
    if allowed is None or isinstance(allowed, int):
        return None if allowed is None else Disruptions(copies=allowed)
    return Disruptions(
        percent=verbs.share_of_copies(allowed, 100, default_percent=DEFAULT_MAX_UNAVAILABLE_PERCENT)
    )


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    spec["replicas"] = share.count
    if raw.items(spec, "service", "ports"):
        spec["service"] = _with_protocols(spec["service"])
    if raw.items(spec, "additionalServices"):
        spec["additionalServices"] = [
            _with_protocols(service) for service in raw.objects(spec, "additionalServices")
        ]
    if raw.items(spec, "loadBalancers"):
        doors = raw.objects(spec, "loadBalancers")
        spec["loadBalancers"] = [{"protocol": "http", "path": "/", **door} for door in doors]
    return workloads.rendered(KIND, obj, mark, spec)


def _with_protocols(service: Obj) -> dict[str, Any]:
    """As an API server stores it: with the default that a list of ports is keyed by."""
    return {
        **service,
        "ports": [{"protocol": "TCP", **port} for port in raw.objects(service, "ports")],
    }
