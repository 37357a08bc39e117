"""What an operator may set for the hub. Filled by `settings`; every field says its unit, and why it is so."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Tuning of one hub process. Times in seconds."""

    fleet: str = "federator"
    """Marks what this hub owns in members; two federations over the same members need two names."""
    shared_host: bool = False
    """True where the host runs workload controllers itself: native kinds are then refused with HostWouldRunIt."""
    credentials_namespace: str = "federator-clusters"
    system_namespace: str = "federator-system"
    probe_interval_s: float = 10.0
    probe_timeout_s: float = 5.0
    unready_after_s: float = 40.0
    """Silence longer than this makes a member NotReady; shorter blips flip nothing."""
    capacity_stale_after_s: float = 300.0
    """An unheard capacity report older than this takes no new copies."""
    identity_check_interval_s: float = 60.0
    capacity_copy_interval_s: float = 30.0
    capacity_copy_permille: int = 10
    """Change of free room, in thousandths, below which MemberCluster.status.capacity is left as it is."""
    batch_size: int = 256
    batch_linger_s: float = 0.005
    """How long placing waits for company before it takes a batch: one snapshot then serves many asks."""
    host_writes_in_flight: int = 32
    lane_writes_in_flight: int = 16
    status_interval_s: float = 1.0
    """Least time between two status writes of one workload, and how long an unsettled first status waits."""
    unschedulable_after_s: float = 60.0
    """A member that could not schedule copies for this long is capped at what it scheduled."""
    unschedulable_decay_s: float = 600.0
    document_cache: int = 2048
    """Full workload objects kept for rendering; the rest are read again when they are dispatched."""
    shapes_max: int = 256
