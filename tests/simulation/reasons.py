"""Every reason that the federation can give: in conditions, decisions, verdicts and Events; and
which have been seen.

`running` counts at every write what `spoken` finds in it. A campaign of many seeds in which a
reason of `EXPECTED` never appeared has not looked everywhere; reasons of `ELSEWHERE` cannot appear
in these worlds. A test compares the table with the words in the product's sources.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from federator.kinds import registry
from federator.model.decision import Reason

Obj = Mapping[str, Any]
COMPONENT = "federation.pinterest.com/"
"""What the reporter of an Event of ours begins with."""

_UNKNOWN = frozenset({"PendingEvaluation", "ClusterUnknown"})
OWN: Mapping[str, frozenset[str]] = {
    "workload Ready": _UNKNOWN
    | {"Failed", "Completed", "Suspended", "Ready", "Progressing", "RollingOut"},
    "workload Placed": frozenset(
        {"PendingEvaluation", "Suspended", "Placed", "MovesPending", "CopiesKept", "ScalingUp"}
    ),
    "workload Applied": _UNKNOWN | {"Leaving", "Applying", "NothingPlaced", "Applied"},
    "workload Healthy": _UNKNOWN | {"Finished", "Progressing", "NothingPlaced", "Healthy"},
    "workload Reconciling": _UNKNOWN
    | {"Paused", "Settled", "Deleting", "Applying", "Progressing", "Failed", "DeploymentPaused"},
    "workload Stalled": frozenset({"NotStalled", "Failed"}),
    "workload QuotaUnlimited": frozenset({"NoQuota"}),
    "workload ProjectRefused": frozenset({"NotAllowed"}),
    "workload Reclaiming": frozenset({"NoticeGiven"}),
    "workload MovesWithoutRoom": frozenset({"NoRoomToSurge"}),
    "workload DecisionRefused": frozenset({"NotTheHubs"}),
    "workload SpreadViolated": frozenset({"SpreadUnsatisfiable"}),
    "workload Suspended": frozenset({"Suspended"}),
    "workload Paused": frozenset({"Paused"}),
    "workload Failed": frozenset({"ShardsFailed", "SuccessPolicyUnreachable"})
    | {"MaxFailedShardsExceeded", "PodFailurePolicy", "DeadlineExceeded"},
    "workload Complete": frozenset({"AllShardsCompleted", "AnyShardCompleted", "SuccessPolicyMet"}),
    "slice Failed": frozenset({"PodFailurePolicy"}),
    "workload Available": frozenset(
        {"MinimumReplicasAvailable", "MinimumReplicasUnavailable", "ClusterUnknown"}
    ),
    "workload Progressing": frozenset({"NewReplicaSetAvailable", "ReplicaSetUpdated"}),
    "recurring Ready": frozenset({"Scheduled", "Suspended", "RunRefused", "NeverRuns"})
    | {"InvalidSchedule", "UnknownTimeZone", "Native", "HandingOver", "ClustersNotReady"}
    | {"NameTaken", "TooManyCronJobs"},
    "recurring Stalled": frozenset(
        {"NeverRuns", "TooManyCronJobs", "InvalidSchedule", "UnknownTimeZone"}
    ),
    "slice Ready": frozenset({"Ready", "Completed", "Progressing"})
    | {"DeadlineExceeded", "PodFailurePolicy"},
    "slice Stalled": frozenset({"ProgressDeadlineExceeded"}),
    "slice Expanded": frozenset({"Expanded", "Applying"}),
    "slice Conflict": frozenset({"ForeignObject"}),
    "slice MissingDependency": frozenset({"NotFound"}),
    "slice DriftRestored": frozenset({"PutBack"}),
    "MemberCluster Ready": frozenset(
        {
            "Ready",
            "NotProbed",
            "Unreachable",
            "AuthFailed",
            "IdentityChanged",
            "HostIdentityChanged",
            "NotReporting",
        }
        | {"NotAsked"}
    ),
    "MemberCluster Untrustworthy": frozenset(
        {"ShardsNotGiven", "TooManyCopies", "SeqNotIssued", "BeyondBounds", "Unreadable"}
    ),
    "MemberCluster Authenticated": frozenset({"AuthFailed"}),
    "MemberCluster ClockSynced": frozenset({"Synced", "ClockSkew"}),
    "MemberCluster Watching": frozenset({"WatchFailing"}),
    "MemberCluster Listing": frozenset({"EndlessList", "ProcessorBudget"}),
    "MemberCluster CredentialsRenewed": frozenset({"RenewalFailed"}),
    "MemberCluster SlicesKnown": frozenset({"UnknownSlices"}),
    "MemberCluster Removing": frozenset(
        {"Emptying", "NowhereToGo", "Suspended", "UnknownSlices", "NotHeard"}
    )
    | {"LettingGo", "Paused"},
    "MemberCluster Dead": frozenset({"Moving", "Waiting", "Moved", "Paused"}),
    "MemberCluster FailingOver": frozenset({"Moving", "Waiting", "Moved", "Held", "Paused"}),
    "MemberCluster Draining": frozenset(
        {"Emptying", "Waiting", "Emptied", "Paused", "Refused", "NotHeard"}
    ),
    "MemberCluster ProbePassed": frozenset(
        {"Passed", "ProbeFailed", "ClusterBusy", "ProbeNotRun", "ProbeAwaited"}
    ),
    "MemberCluster Maintenance": frozenset({"Scheduled", "Announced", "UnderWay", "NeverComes"}),
    "PlacementPolicy InForce": frozenset({"TooManyPolicies"}),
    "PlacementInvariant Holds": frozenset({"InvariantHolds", "InvariantBroken", "NotDrilled"}),
    "PlacementInvariant Valid": frozenset({"Valid", "NeverHolds"}),
    "deletion": frozenset({"DeletionBlocked", "DeletionBudget"}),
    "Event": frozenset(
        {
            "Placed",
            "Rebalanced",
            "Scaled",
            "CopiesKept",
            "NotReady",
            "Unreachable",
            "NotReporting",
            "NotAsked",
            "AuthFailed",
            "IdentityChanged",
            "HostIdentityChanged",
            "MemberWentBack",
            "Untrustworthy",
            "ForeignDecision",
            "DriftRestored",
            "Ready",
            "Completed",
        }
    )
    | {"FailedOver", "FailedBack", "DeclaredDead", "Fenced"}
    | {"FailingOver", "Moved", "HeardAgain"}
    | {"FailoverHeld", "FailoverReleased", "HeardByStandby"}
    | {"Drained", "Draining", "DrainRefused", "Emptied", "DrainEnded"}
    | {"ProbeFailed", "ProbePassed"}
    | {"MaintenanceAnnounced", "MaintenanceBegun", "MaintenanceEnded", "MaintenanceNeverComes"}
    | {
        "DeletionBlocked",
        "DeletionBudget",
        "Removing",
        "RemovalWaits",
        "Removed",
        "Orphaned",
        "RemovedAsLost",
    }
    | {"PodFailurePolicy", "DeadlineExceeded"}
    | {"RunMade", "RunsMissed", "RunRefused", "RunNameTaken"}
    | {"HandedOver", "TakenBack", "HandoverRefused"}
    | {"InvariantBroken", "InvariantHolds"},
}
"""Where -> the reasons that are that place's own."""

PLACEMENT = frozenset(str(reason) for reason in Reason)
"""Why copies are missing, or a cluster was not chosen: of decisions and verdicts, and from there in
any condition.
"""
MEMBERS = frozenset(
    {"Conflict", "MissingDependency", "ExpansionFailed", "StaleSlice", "CannotConverge"}
    | {"ServiceAccountNotAllowed"}
) | {
    *(
        "NamespaceTerminating",
        "ImagePullFailed",
        "ContainerConfigError",
        "ContainerStartFailed",
        "CrashLooping",
    ),
    *(
        "PodFailed",
        "JobFailed",
        "NoLoadBalancer",
        "NotAccepted",
        "NotExported",
        "RollingOut",
        "NotAvailable",
        "NotObserved",
        "FailedIndexes",
        "GangTimedOut",
        "RunFailed",
    ),
    *(
        "BackoffLimitExceeded",
        "FailedCreate",
        "ProgressDeadlineExceeded",
        "SuccessCriteriaMet",
        "CompletionsReached",
    ),
}
"""What a member and its pods can have that is worth telling, in any condition of the workload."""
REFUSALS = frozenset(
    {"Denied", "Invalid", "AlreadyExists", "Unreachable", "Malformed", "Throttled", "LaneClosed"}
) | {
    *("ServerTrouble", "NotLeading", "WentBack", "Expired", "Unauthenticated", "OwnShortage"),
}
"""How a write into a member can fail: the names of the client's errors."""
ANYWHERE = "anywhere"
BORROWED = PLACEMENT | MEMBERS | REFUSALS
EVERY = frozenset(f"{place}: {one}" for place, own in OWN.items() for one in own) | {
    f"{ANYWHERE}: {one}" for one in BORROWED
}
"""Every reason, in its place."""

_KUBELET = (
    "The stand-in kubelet has no such trouble: containers start, end or wait for their image."
)
_PASSED = "Passed on from a cluster's own controller, which does not say it here."
_CLIENT = (
    "Other callers of the client meet it; a write into a member ends with it only by a rare "
    "meeting of faults."
)
_DEAD = "No script declares a cluster dead; tests/unit/hub/test_declared_dead.py does."
_EXCLUSIVE = "No job set of these worlds is Exclusive: tests/unit/hub/test_exclusive.py has it."
_SILENT = (
    "Episodes end before anything fails over (300 s of being Unreachable), and a hub that restarts"
    " begins to count anew; tests/unit/hub/test_failover.py has it."
)
_MAINTAINED = "No cluster of these worlds has windows; tests/unit/hub/test_maintaining.py has."
_DRAINED = "No script drains a cluster; tests/unit/hub/test_draining.py does."
ELSEWHERE: Mapping[str, str] = {
    "workload Placed: Suspended": (
        "Who is suspended here was placed before, or is short for a reason of its own."
    ),
    "workload Placed: MovesPending": (
        "A hundred copies a minute may always move; no policy here asks for fewer."
    ),
    "workload Placed: ScalingUp": (
        "No cluster of these worlds can add nodes: tests/simulation/growing.py."
    ),
    "workload Paused: Paused": "No script pauses the federation.",
    "workload Reconciling: Paused": "No script pauses the federation.",
    "workload Reconciling: DeploymentPaused": (
        "No Deployment of these worlds is paused: tests/unit/hub/test_clusters.py."
    ),
    "workload Reconciling: Failed": (
        "Shards that failed are the last news of a job set, except for a moment."
    ),
    "workload Reconciling: Deleting": (
        "No workload on the host has a finalizer, so it is gone at once."
    ),
    **{
        f"recurring {place}": (
            "No cron job of these worlds is written so: tests/unit/kinds/test_cron_runs.py."
        )
        for place in (
            *(
                "Ready: NeverRuns",
                "Ready: InvalidSchedule",
                "Ready: UnknownTimeZone",
                "Ready: RunRefused",
            ),
            *(
                "Stalled: NeverRuns",
                "Stalled: InvalidSchedule",
                "Stalled: UnknownTimeZone",
                "Ready: Suspended",
                "Ready: NameTaken",
            ),
        )
    },
    "Event: HandoverRefused": "Nothing refuses the hub a native cron job in these worlds.",
    "Event: RunRefused": "Nothing refuses the hub its runs in these worlds.",
    "Event: RunNameTaken": "Nobody takes the name of a run in these worlds.",
    "slice Stalled: ProgressDeadlineExceeded": (
        "A run is over before the ten minutes that a deadline gives."
    ),
    "slice Conflict: ForeignObject": (
        "The namesake is of the workload's own kind: the hub meets it, not the member."
    ),
    "MemberCluster Ready: NotProbed": "A MemberCluster is written up only after its first probe.",
    "anywhere: OwnShortage": (
        "Only a few worlds have hubs short of descriptors while there is something to write."
    ),
    "MemberCluster Ready: NotAsked": (
        "Only a few worlds have hubs short of descriptors, and not all of them for long."
    ),
    "Event: NotAsked": (
        "Only a few worlds have hubs short of descriptors, and not all of them for long."
    ),
    "MemberCluster CredentialsRenewed: RenewalFailed": (
        "Members of these worlds are reached without a token."
    ),
    "MemberCluster SlicesKnown: UnknownSlices": (
        "Slices are unknown only after a restore without a decision."
    ),
    "PlacementPolicy InForce: TooManyPolicies": (
        "No namespace of these worlds has two hundred policies."
    ),
    "deletion: DeletionBudget": (
        "A world has fewer slices than the hundred that may go within a minute."
    ),
    "Event: DeletionBudget": (
        "A world has fewer slices than the hundred that may go within a minute."
    ),
    "Event: ForeignDecision": "Admission on the host keeps decisions from everybody but the hub.",
    "Event: MemberWentBack": "No fault of the table restores a member from a backup.",
    **{
        f"MemberCluster Untrustworthy: {one}": (
            "Only some worlds have a lying member, and of few of them this lie."
        )
        for one in ("TooManyCopies", "SeqNotIssued", "BeyondBounds", "Unreadable")
    },
    **{f"MemberCluster Draining: {one}": _DRAINED for one in sorted(OWN["MemberCluster Draining"])},
    **{
        f"MemberCluster Maintenance: {one}": _MAINTAINED
        for one in sorted(OWN["MemberCluster Maintenance"])
    },
    **{
        f"Event: {one}": _MAINTAINED
        for one in (
            "MaintenanceAnnounced",
            "MaintenanceBegun",
            "MaintenanceEnded",
            "MaintenanceNeverComes",
        )
    },
    **{f"MemberCluster Dead: {one}": _DEAD for one in sorted(OWN["MemberCluster Dead"])},
    **{f"Event: {one}": _DEAD for one in ("DeclaredDead", "Moved")},
    "Event: Fenced": _EXCLUSIVE,
    "anywhere: MayStillRun": _EXCLUSIVE,
    **{
        f"MemberCluster FailingOver: {one}": _SILENT
        for one in sorted(OWN["MemberCluster FailingOver"])
    },
    **{
        f"Event: {one}": _SILENT
        for one in (
            "FailedOver",
            "FailedBack",
            "FailingOver",
            "HeardAgain",
            "FailoverHeld",
            "FailoverReleased",
            "HeardByStandby",
        )
    },
    **{
        f"Event: {one}": _DRAINED
        for one in ("Drained", "Draining", "DrainRefused", "Emptied", "DrainEnded")
    },
    "anywhere: ClusterUntrustworthy": (
        "Told where nothing is placed while a member lies: few worlds have that."
    ),
    "anywhere: HostWouldRunIt": "Every host here is a dedicated one.",
    "anywhere: NamespaceLimits": (
        "No namespace of these members has a ResourceQuota or a LimitRange:"
        " tests/unit/hub/test_namespace_limits.py."
    ),
    "workload ProjectRefused: NotAllowed": (
        "No workload of these worlds names a project that no quota has."
    ),
    "anywhere: IdentityNotAllowed": (
        "No workload of these worlds names an account, a role or a class of its own."
    ),
    "anywhere: NotAllowed": "No quota of these worlds keeps a namespace out.",
    "anywhere: PriorityExceedsMax": "No quota of these worlds bounds priorities.",
    "anywhere: PendingEvaluation": "Told in conditions that have it as their own.",
    "anywhere: Suspended": (
        "Told in conditions that have it as their own, and by decisions of what was never placed."
    ),
    **{f"anywhere: {one}": _KUBELET for one in ("ContainerConfigError", "ContainerStartFailed")},
    **{
        f"anywhere: {one}": _PASSED
        for one in (
            "JobFailed",
            "FailedIndexes",
            "BackoffLimitExceeded",
            "FailedCreate",
            "ProgressDeadlineExceeded",
        )
    },
    "anywhere: GangTimedOut": (
        "Of a few worlds somebody else's pods take the room of a gang, and not all for long enough."
    ),
    "anywhere: SuccessCriteriaMet": "For carried Jobs, which are not a kind of workload yet.",
    "anywhere: CompletionsReached": "For carried Jobs, which are not a kind of workload yet.",
    "anywhere: NotAccepted": "No cluster of these worlds has a gateway.",
    "anywhere: NotExported": "No cluster of these worlds exports services.",
    "anywhere: NoLoadBalancer": "No service of these worlds asks for a load balancer.",
    "anywhere: RollingOut": "Told in the condition that has it as its own.",
    "anywhere: NotAvailable": "Progress, which is told as Progressing.",
    "anywhere: NotObserved": "Progress, which is told as Progressing.",
    "anywhere: ExpansionFailed": (
        "Every workload of the script expands, and one expander version is in use."
    ),
    "anywhere: StaleSlice": "Needs a member process that outlives a restore of its cluster.",
    **{
        f"anywhere: {one}": _CLIENT
        for one in (
            "Invalid",
            "AlreadyExists",
            "NotLeading",
            "WentBack",
            "Expired",
            "Unauthenticated",
        )
    },
}
"""What these worlds cannot be relied on to say, and why."""
EXPECTED = EVERY - ELSEWHERE.keys()
"""What a long campaign must see."""


def spoken(kind: str, cluster: str, old: Obj | None, new: Obj | None) -> Iterator[str]:
    """What `new` says and `old` did not, as "place: reason"."""
    if new is None:
        return
    if kind == "PlacementDecision":
        yield from _decision(new["spec"])
    elif kind == "Event":
        if str(new.get("reportingComponent")).startswith(COMPONENT):
            yield _named("Event", str(new.get("reason", "")))
    elif kind in ("MemberCluster", *registry.RECURRING) or (
        kind in registry.WORKLOADS and not (registry.verbs_of(kind).carried and cluster != "host")
    ):
        live = (new.get("status") or {}).get("conditions") or ()
        if live and live != ((old or {}).get("status") or {}).get("conditions"):
            place = (
                kind if kind == "MemberCluster" else "workload" if cluster == "host" else "slice"
            )
            place = "recurring" if kind in registry.RECURRING else place
            yield from (_named(f"{place} {one['type']}", one.get("reason", "")) for one in live)


def _decision(spec: Obj) -> Iterator[str]:
    yield _named("decision", str(spec.get("reason", "")))
    for group in (spec.get("verdicts") or {}).get("rejected") or ():
        yield _named("verdict", group["reason"])
    if spec.get("deletion"):
        yield _named("deletion", spec["deletion"]["reason"])


def _named(place: str, reason: str) -> str:
    """A reason in its place; one that can be told in many counts once for all of them."""
    own = OWN.get(place, frozenset())
    return (
        f"{ANYWHERE}: {reason}"
        if reason not in own and reason in BORROWED
        else f"{place}: {reason}"
    )
