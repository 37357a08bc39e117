"""What a job set cannot ask for where clusters run it again and again by themselves: the rules of
API servers, and the same for files.
"""

from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.model.errors import FieldError

LEAST_DEADLINE_S: Final = 10
"""Seconds. Under a shorter one a native controller may miss every time."""

EXCLUSIVE: Final = "each cluster has runs of its own: execution Exclusive and guard have no meaning"
UNDIVIDED: Final = (
    "each cluster of the policy runs it: placement.division and placement.spread have no meaning"
)
RUN_RULES: Final = (
    ("self.execution != 'Exclusive'", EXCLUSIVE),
    (
        "!has(self.placement) || (!has(self.placement.division) && !has(self.placement.spread))",
        UNDIVIDED,
    ),
)
"""On the spec of a run."""
CLAIMS: Final = (
    "a claim with lifetime Shard would be shared by all runs of a cluster; use lifetime Pod, or "
    "name a claim in the template"
)


def of_model(spec: Any) -> str:
    """Why the model of a run's spec has no meaning natively; "" when it has. Checked here and where
    it is placed: what a list holds no CEL rule may ask within the cost that API servers allow.
    """
    if spec.execution == "Exclusive":
        return EXCLUSIVE
    if spec.placement is not None and spec.placement.model_fields_set & {"division", "spread"}:
        return UNDIVIDED
    if any(claim.lifetime == "Shard" for claim in spec.volume_claim_templates):
        return CLAIMS
    return ""


def refusal(obj: Obj) -> FieldError | None:
    """The same of an object that an API server holds."""
    if raw.text(obj, "spec", "execution") == "Exclusive":
        return FieldError("spec.execution", EXCLUSIVE)
    placement = raw.mapping(obj, "spec", "placement")
    for field in ("division", "spread"):
        if field in placement:
            return FieldError(f"spec.placement.{field}", UNDIVIDED)
    for at, claim in enumerate(raw.objects(obj, "spec", "volumeClaimTemplates")):
        if raw.text(claim, "lifetime") == "Shard":
            return FieldError(f"spec.volumeClaimTemplates[{at}].lifetime", CLAIMS)
    return None
