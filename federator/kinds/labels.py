"""Labels and annotations on native objects and pods that expanders write, and that the member reads
again; and the image of federator itself with the rights of its containers.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator import __version__
from federator.api import raw
from federator.api.raw import Obj
from federator.model import names
from federator.model.shards import Range

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "federator"
IMAGE: Final = f"federator:{__version__}"
"""The image of pods that run federator, where the RuntimeProfile says nothing else."""
SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Of a container that runs federator."""
CONFIG_HASH_ANNOTATION: Final = "pinterest.com/config-hash"
"""On pods of services: a changed ConfigMap changes it, and so replaces the pods."""
IAM_ROLE_ANNOTATION: Final = "pinterest.com/iam-role"
"""On a ServiceAccount: the role that its pods act as."""
SHARDS_ANNOTATION: Final = "pinterest.com/shards"
"""On a Job of a job set: the shards it runs, such as 100-199; its completion index 0 is the first
of them.
"""
AUTOSCALED_ANNOTATION: Final = "pinterest.com/autoscaled"
"""On a Deployment that an autoscaler scales: its bounds, such as 3-30. Its `replicas` are written
when it is made, and then left alone."""
MADE_OF_ANNOTATION: Final = f"{names.FEDERATION}/made-of"
"""On a native object that was created and has not been applied since: the digest of what it was
made of. The first apply takes it away."""
COMPONENT_LABEL: Final = "pinterest.com/component"
"""On Jobs and pods of a training job: the component that they belong to."""
MEMBER_STATUS_ANNOTATION: Final = f"{names.FEDERATION}/member-status"
"""On a carried native object, JSON {reason, message, seq, unschedulable: {count, since}}: what the
member saw beyond the native status.
"""


def bounds_of(annotations: Obj) -> tuple[int, int] | None:
    """Between which numbers of copies an autoscaler chooses; None where none does."""
    low, dash, high = raw.text(annotations, AUTOSCALED_ANNOTATION).partition("-")
    numbers = all(part.isascii() and part.isdecimal() and len(part) < 10 for part in (low, high))
    return (int(low), int(high)) if dash and numbers else None


def piece_of(annotations: Obj) -> Range | None:
    """The range that a Job runs, from its annotations; None for a Job that is not of a job set."""
    ranges = raw.ranges(annotations, SHARDS_ANNOTATION)
    return ranges[0] if len(ranges) == 1 else None
