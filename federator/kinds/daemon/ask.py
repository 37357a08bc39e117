"""What a PinterestDaemon asks of placement, and the slice of it that a cluster is given.

A cluster has a daemon or it has not, so the count is 1: how many pods that makes is the nodes'
affair.
"""

from typing import Any, Final

from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.daemon.schema import API_VERSION, KIND
from federator.kinds.shared import workloads
from federator.kinds.verbs import SliceMark
from federator.model.decision import Share

DEFAULTS: Final[dict[str, Any]] = {"tier": "OnDemand"}
ANY_NUMBER: Final = 1 << 20
"""Of clusters: one that loses the daemon does not wait for others to have it, which run none of its
pods.
"""


def count(obj: Obj) -> int:
    return 1


def max_unavailable(obj: Obj) -> int:
    return ANY_NUMBER


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    spec = workloads.slice_spec(obj, mark, DEFAULTS)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": verbs.slice_metadata(obj, mark),
        "spec": spec,
    }
