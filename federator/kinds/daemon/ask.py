"""What a PinterestDaemon asks of placement, and the slice of it that a cluster is given.

A cluster has a daemon or it has not, so the count is 1: how many pods that makes is the nodes'
affair.
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.daemon.schema import KIND
from federator.kinds.shared import workloads
from federator.kinds.verbs import SliceMark
from federator.model.ask import ANY_NUMBER
from federator.model.decision import Share
from federator.model.kubernetes.taints import Effect, Taint

DEFAULTS: Final[dict[str, Any]] = {"tier": "OnDemand"}


def count(obj: Obj) -> int:
    return 1


def startup_taint(obj: Obj) -> Taint | None:
    """The taint that nodes lose when it is ready there; None where it asks for none."""
    asked = raw.mapping(obj, "spec", "startupTaint")
    key = raw.text(asked, "key")
    if not key:
        return None
    effect = raw.text(asked, "effect", default=Effect.NO_SCHEDULE)
    return Taint(key, raw.text(asked, "value"), effect)


def pod_template(obj: Obj) -> Obj:
    """The template, which tolerates the start-up taint."""
    template, taint = workloads.pod_template(obj), startup_taint(obj)
    if taint is None:
        return template
    spec = raw.mapping(template, "spec")
    tolerated = {"key": taint.key, "operator": "Exists", "effect": str(taint.effect)}
    tolerations = [*raw.items(spec, "tolerations"), tolerated]
    return {**template, "spec": {**spec, "tolerations": tolerations}}


def max_unavailable(obj: Obj) -> int:
    return ANY_NUMBER


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    return workloads.rendered(KIND, obj, mark, spec)
