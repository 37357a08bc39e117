"""What an operator may set for the hub. Filled by `settings`; every field says its unit, and why it
is so."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from federator.kube.leader.lease import LeaseOptions
from federator.runtime import fencing


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Tuning of one hub process. Times in seconds."""

    fleet: str = "federator"
    """Marks what this hub owns in members; two federations over the same members need two names."""
    shared_host: bool = False
    """True where the host runs workload controllers itself: native kinds are then refused with
    HostWouldRunIt."""
    credentials_namespace: str = "federator-clusters"
    """The one namespace of the host in which Secrets of members are read, by name."""
    system_namespace: str = "federator-system"
    """Namespace of the hub's own objects on the host (its lease too), and of the member process's
    lease in members."""
    leader_election: bool = True
    """Several hubs may run: one acts, the others keep their caches warm. False only where there
    never is a second."""
    lease_name: str = "federator-hub"
    """The Lease that hubs of one federation stand for."""
    identity: str = ""
    """Names this hub in the Lease; random characters are added. Empty: the machine's name."""
    lease_duration_s: float = 15.0
    """A leader is replaced after no hub saw its lease renewed for this long; the longest take-over
    is this and a retry."""
    lease_renew_deadline_s: float = 10.0
    """A leader that could not renew for this long stops and exits: well before another may act."""
    lease_retry_s: float = 2.0
    """Between two looks at the lease, or two renewals, at most; one try takes at most three
    quarters of it."""
    probe_interval_s: float = 10.0
    """How often a member's /readyz is asked; a tenth of jitter is added."""
    probe_timeout_s: float = 5.0
    """A probe without an answer by then counts as silence."""
    workload_probe_interval_s: float = 0.0
    """How often each cluster is probed with workloads of the hub's; 0: never, unless a
    ClusterStandard says how often, or somebody asks."""
    workload_probe_image: str = ""
    """Image of the pods of these probes, one of federator; empty: that of spec.guard.image of the
    RuntimeProfile default, else federator of the hub's version."""
    workload_probes_at_once: Annotated[int, Field(ge=1, le=64)] = 4
    """Clusters that are probed at the same time: each has up to three pods for each tier."""
    unready_after_s: float = 40.0
    """Silence longer than this makes a member NotReady; shorter blips flip nothing."""
    capacity_stale_after_s: float = 300.0
    """An unheard capacity report older than this takes no new copies."""
    discovery_interval_s: float = 60.0
    """How often the kinds that a member serves, and its version, are read again beside the probe.
    """
    clock_skew_max_s: float = 5.0
    """A member's clock that is further off the hub's than this is told as ClockSkew."""
    fence_lease_s: float = 180.0
    """Guarded shards run on for so long after the last renewal of their cluster's lease: longer
    than an outage of the host, or of all hubs, that they are to survive, and shorter than anybody
    wants to wait for them to begin elsewhere."""
    fence_renew_s: float = 15.0
    """How often that lease is renewed; at most a third of `fence_lease_s`."""
    fence_write_s: float = 10.0
    """A renewal that has not been answered by then has failed."""
    fence_skew_s: float = 10.0
    """How far clocks of nodes may be behind the hub's, as the fence counts; at least
    `clock_skew_max_s`. Too little lets a shard run twice."""
    capacity_copy_interval_s: float = 30.0
    """Least time between two copies of one member's figures to the host: they serve people, not
    decisions."""
    capacity_copy_permille: int = 10
    """Change of free room, in thousandths, below which MemberCluster.status.capacity is left as it
    is, unless the report includes other decisions."""
    token_lifetime_s: Annotated[int, Field(ge=600)] = 604800
    """Life of the hub's tokens in members, in seconds, as asked for; a member may give less. Longer
    than any outage of all hubs that is to be survived without joining members again."""
    token_renew_s: Annotated[float, Field(ge=1.0)] = 86400.0
    """At this age a token is renewed, or after two thirds of its life if that is sooner; up to a
    tenth is taken off."""
    policies_per_namespace: int = 200
    """PlacementPolicies of one namespace that are in force, the oldest ones: each costs time
    whenever one is edited."""
    cron_jobs_per_namespace: Annotated[int, Field(ge=1)] = 1000
    """Cron jobs of one namespace that make runs, the oldest ones: each is looked at whenever it is
    due, and every five minutes."""
    deletions_floor: int = 100
    """Slices of vanished workloads that are deleted in a minute without anybody waiting."""
    deletions_permille: int = 100
    """Beyond that: thousandths of all slices that go in a minute when many workloads vanish; 1000:
    no limit."""
    evacuated_copies_a_minute: int = 300
    """Copies that get another place in a minute because their clusters are drained, over all
    clusters: fewer is gentler to what they start beside."""
    preempted_copies_a_minute: Annotated[int, Field(ge=1)] = 600
    """Copies that are told in a minute to leave for accounts that take back what is theirs; those
    of tier Preemptible and of the same account do not count."""
    batch_size: int = 256
    """Workloads decided on one snapshot at most; a larger batch would hold the event loop for too
    long."""
    batches_at_once: int = 4
    """Batches of decisions that are written side by side: a new batch need not wait for the writes
    before it."""
    batch_linger_s: float = 0.005
    """How long placing waits for more when workloads come one upon another: one snapshot then
    serves many asks."""
    host_writes_in_flight: int = 32
    """Requests to the host at once; a real API server on two cores is saturated by about as many.
    """
    lane_writes_in_flight: int = 16
    """Slices worked on at once in each member: a slow member then costs only its own."""
    status_interval_s: float = 1.0
    """Least time between two status writes of one workload, and how long an unsettled first status
    waits."""
    unschedulable_after_s: float = 60.0
    """A member that could not schedule copies for this long is capped at what it scheduled."""
    unschedulable_decay_s: float = 600.0
    """How long such a cap holds before the cluster is tried again."""
    futile_writes: int = 3
    """After so many writes of the same slice that did not last, it is left alone for a while."""
    futile_window_s: float = 120.0
    """Writes of the same slice that are further apart than this are drift repaired, not a fight."""
    futile_pause_s: float = 300.0
    """How long such a slice is left alone."""
    trust_after_s: float = 600.0
    """A member that said what cannot be takes nothing new until it has not done so again for this
    long."""
    member_objects_max: int = 150_000
    """Objects of one workload kind that are kept of each member; one that holds more takes nothing
    new."""
    member_bytes_max: int = 268_435_456
    """What those are estimated to take, in bytes: a member may hold few objects that are large."""
    member_lists_processor_s: float = 30.0
    """Processor seconds that the hub spends at a time on reading the lists of one member, and on
    its watch events beyond a fifth of a processor; a twentieth of a second comes back each second.
    A member that takes more is listed again after one minute, two, and up to fifteen."""
    document_cache: int = 2048
    """Full workload objects kept for rendering; the rest are read again when they are dispatched.
    """
    shapes_max: int = 256
    """Shapes that members are asked to answer exactly; the least recently used ones go first."""

    def fence(self) -> fencing.Times:
        """The times of the fence. Raises ValueError with the figures where it would not hold."""
        return fencing.Times(
            lease_s=self.fence_lease_s,
            renew_s=self.fence_renew_s,
            write_s=self.fence_write_s,
            skew_s=self.fence_skew_s,
            skew_told_s=self.clock_skew_max_s,
            leader_s=self.lease_duration_s + self.lease_retry_s,
        )

    def lease(self) -> LeaseOptions:
        """The times of the election. Raises ValueError with a sentence where they cannot work."""
        return LeaseOptions(
            duration_s=self.lease_duration_s,
            renew_deadline_s=self.lease_renew_deadline_s,
            retry_s=self.lease_retry_s,
            try_timeout_s=self.lease_retry_s * 0.75,
        )
