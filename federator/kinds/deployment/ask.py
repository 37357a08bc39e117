"""What a plain Deployment asks of placement, and the slice of it that a cluster is given.

What the federation is told about one stands in annotations: its spec is not ours.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.verbs import SliceMark
from federator.model import names
from federator.model.ask import Tier
from federator.model.decision import Share

KIND: Final = "Deployment"
API_VERSION: Final = "apps/v1"
POLICY_ANNOTATION: Final = f"{names.FEDERATION}/policy"
PROJECT_ANNOTATION: Final = f"{names.FEDERATION}/project"
TIER_ANNOTATION: Final = f"{names.FEDERATION}/tier"
PRIORITY_ANNOTATION: Final = f"{names.FEDERATION}/priority"
SUSPEND_ANNOTATION: Final = f"{names.FEDERATION}/suspend"
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "policyRef": ("metadata", "annotations", POLICY_ANNOTATION),
    "priority": ("metadata", "annotations", PRIORITY_ANNOTATION),
    "suspend": ("metadata", "annotations", SUSPEND_ANNOTATION),
}
"""Where people set what the federation reads."""


def count(obj: Obj) -> int:
    return max(raw.integer(obj, "spec", "replicas", default=1), 0)


def pod_template(obj: Obj) -> Obj:
    return raw.mapping(obj, "spec", "template")


def project(obj: Obj) -> str:
    return _annotation(obj, PROJECT_ANNOTATION) or raw.text(obj, "metadata", "namespace")


def tier(obj: Obj) -> Tier:
    return raw.tier(obj, "metadata", "annotations", TIER_ANNOTATION)


def priority(obj: Obj) -> int:
    text = _annotation(obj, PRIORITY_ANNOTATION)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 9 else 0


def placement(obj: Obj) -> Obj:
    policy = _annotation(obj, POLICY_ANNOTATION)
    return {"policyRef": policy} if policy else {}


def suspended(obj: Obj) -> bool:
    return _annotation(obj, SUSPEND_ANNOTATION) == "true"


def paused(obj: Obj) -> bool:
    """Whether its owner has halted the roll-out: no cluster makes pods of a new template."""
    return raw.flag(obj, "spec", "paused")


def max_unavailable(obj: Obj) -> int:
    if raw.text(obj, "spec", "strategy", "type") == "Recreate":
        return count(obj)
    value = raw.at(obj, "spec", "strategy", "rollingUpdate", "maxUnavailable")
    return verbs.share_of_copies(value, count(obj), default_percent=25)


def by_number(obj: Obj) -> bool:
    recreates = raw.text(obj, "spec", "strategy", "type") == "Recreate"
    value = raw.at(obj, "spec", "strategy", "rollingUpdate", "maxUnavailable")
    return isinstance(value, int) and not recreates


def render_slice(obj: Obj, share: Share, mark: SliceMark) -> dict[str, Any]:
    metadata = verbs.slice_metadata(obj, mark)
    annotations = metadata.setdefault("annotations", {})
    annotations[names.SLICE_ANNOTATION] = verbs.annotation_of_mark(mark)
    spec = {**raw.mapping(obj, "spec"), "replicas": share.count}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _annotation(obj: Obj, name: str) -> str:
    return raw.text(obj, "metadata", "annotations", name)


def no_parameters(obj: Obj) -> Obj:
    return raw.NO_FIELDS


def no_profile(obj: Obj) -> str:
    return ""
