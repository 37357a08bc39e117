"""What an operator may set for a member process. Filled by `settings`; every field has its unit and
the reason for its default."""

from dataclasses import dataclass

FIELD_MANAGER = "federator-member"
"""Under this name member processes write; what it applied before, an API server knows by it."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """Tuning of one member process. Times in seconds."""

    system_namespace: str = "federator-system"
    """Namespace of the member process's own objects: its lease lives there."""
    workers: int = 16
    """Slices expanded at once."""
    recheck_s: float = 30.0
    """How long a slice waits for its next turn if its writes bring no event."""
    roll_up_interval_s: float = 1.0
    """Least time between two status writes of one slice."""
    heartbeat_s: float = 10.0
    """How often the lease is renewed; the hub counts a member process as silent after four of
    them."""
    capacity_interval_s: float = 1.0
    """Least time between two computations of the capacity report: bursts of pods are one change."""
    capacity_write_s: float = 3.0
    """Least time between two writes of the report, unless a slice or a new question waits for the
    answer."""
    capacity_small_write_s: float = 30.0
    """The same while free room differs by less than `capacity_small_permille` from what was last
    written."""
    capacity_small_permille: int = 10
    """Difference of free room, in thousandths of the allocatable, that counts as small."""
    annotation_interval_s: float = 5.0
    """Least time between two notes on one plain Deployment: its status is not ours to write."""
    futile_writes: int = 3
    """After so many applies of the same content that did not last, the native object is left alone
    for a while."""
    futile_window_s: float = 120.0
    """Applies of the same content that are further apart than this are drift repaired, not a
    fight."""
    futile_pause_s: float = 300.0
    """How long such an object is left alone."""
    gpu_labels: tuple[str, ...] = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator")
    """Node labels that name the GPU model; the first one found counts."""
    family_labels: tuple[str, ...] = (
        "karpenter.k8s.aws/instance-family",
        "cloud.google.com/machine-family",
        "family",
    )
    """Node labels that name the machine's family; without them it is what stands before the dot of
    the instance type."""
