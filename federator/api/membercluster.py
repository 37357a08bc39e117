"""MemberCluster: one joined cluster, as operators describe it and the hub sees it. Schema and
conversion."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from federator.api import (
    capacityfields,
    maintenance,
    memberfields,
    raw,
    scaleupfields,
    tainttimes,
)
from federator.api.capacityfields import CapacityFields, TaintFields
from federator.api.common import (
    LIST_SET,
    OPERATOR_APIS,
    WORKLOAD_APIS,
    Amount,
    Conditions,
    Metadata,
    Model,
    Moment,
    Sentence,
    ShortText,
    TierName,
    list_map,
    many,
    rules,
)
from federator.api.maintenance import WINDOWS_MAX
from federator.api.memberfields import Credentials, ProbeStatus, StatedFields, SuccessFields
from federator.api.raw import Obj
from federator.api.schedulefields import BeforeText, LastsText, ScheduleText, ZoneName
from federator.api.tainttimes import HubTaint, TaintTime
from federator.model import names, plaintext
from federator.model.ask import Tier
from federator.model.fleet import Capacity, ClusterView
from federator.model.kubernetes.taints import UNREACHABLE_TAINT

KIND: Final = "MemberCluster"
CLOCK_SYNCED: Final = "ClockSynced"
NOT_ASKED: Final = "NotAsked"
"""Reason of Ready: the hub lacks file descriptors to ask it; nothing is known against it."""
NOT_REPORTING: Final = "NotReporting"
"""Reason of a reachable cluster that reports nothing about its workloads."""

_EVERY_API: Final = WORKLOAD_APIS | OPERATOR_APIS
"""The APIs assumed of a cluster before its discovery is read."""

UNTRUSTWORTHY: Final = "Untrustworthy"
"""Condition of a cluster that says what cannot be."""


class Removal(StrEnum):
    """How a cluster leaves the fleet."""

    NONE = ""
    """It stays."""
    EMPTY = "Empty"
    """What this federation made there goes first; copies leave when they have somewhere to be."""
    ORPHAN = "Orphan"
    """What runs there stays and runs on, and belongs to nobody."""
    LOST = "Lost"
    """It is not heard and will not come back: nothing is waited for."""


DRAINING: Final = "Draining"
"""Condition of a cluster that is to be empty: True while that is done, False when refused."""
DRAIN_REFUSED: Final = "Refused"
"""Its reason while copies have no other place."""
FAILING_OVER: Final = "FailingOver"
"""Condition of a silent cluster that nobody declared dead, while work leaves it or waits to."""
DEAD: Final = "Dead"
"""Condition of a silent cluster that a person declared dead, while its copies get another place."""
DRAIN_JOBS_FINISH_S: Final = 3600
"""Seconds for which job sets may run on in a cluster that is drained, unless its spec says."""
MAINTENANCE: Final = "Maintenance"
"""Condition of a cluster with maintenance windows: True while one is announced or under way."""
DRAIN_STAYS_MAX: Final = 20
"""Workloads that one cluster's status names as staying during a drain."""
FORGOTTEN_MAX: Final = 500
"""Workloads that one cluster's status remembers as given up."""


class Drain(Model):
    """The wish that the cluster be empty. It holds until it is taken away."""

    force: bool | None = None
    """True: copies without another place stay and are named. Otherwise a drain that would leave any
    is refused."""
    jobs_finish_seconds: Annotated[int, Field(ge=0, le=604_800)] = DRAIN_JOBS_FINISH_S
    """How long running job sets may finish there before they restart in other clusters; 0 restarts
    them immediately."""
    then_remove: bool | None = None
    """True: the hub deletes the MemberCluster when nothing is left in the cluster. Until then you
    can take the drain back."""


class Maintenance(Model):
    """A window, again and again, in which people work on the cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!self.schedule.startsWith('@every')",
                "a maintenance window has no @every, which has no beginning to count from:"
                " give five fields, such as 0 2 * * tue",
            ),
            (
                "!has(self.drain) || !has(self.drain.thenRemove)",
                "a maintenance window ends, so it removes no cluster: set spec.drain.thenRemove",
            ),
        )
    )

    schedule: ScheduleText
    """When windows begin: minute, hour, day of month, month and day of week, as in "0 2 * * tue"
    and with the meaning that schedules of a PinterestCronJob have."""
    time_zone: ZoneName | None = None
    """IANA name of the zone that the schedule is read in, such as America/Los_Angeles; UTC when
    left out."""
    duration: LastsText
    """How long a window lasts: 4h, 90m or 1h30m."""
    notice: BeforeText = maintenance.NOTICE
    """For so long before a window nothing new is sent there, and what is to leave leaves."""
    drain: Drain | None = None
    """Empties the cluster from the notice to the end of the window, as spec.drain does; what leaves
    comes home after it, as after a failover. Left out: what is there stays."""


class Spec(StatedFields):
    """What operators say about the cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(oldSelf.clusterUID)"
                " || (has(self.clusterUID) && self.clusterUID == oldSelf.clusterUID)",
                "clusterUID is pinned when the cluster joins:"
                " remove the MemberCluster and join the other cluster again",
            )
        )
    )

    credentials: Credentials | None = None
    """How the cluster is reached."""
    cluster_uid: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, alias="clusterUID"
    )
    """Uid of the cluster's kube-system namespace, pinned when it joins."""
    taints: list[TaintFields] = many(32, list_map("key", "effect"))
    """Keep away work that does not tolerate them."""
    usable: Annotated[str, Field(max_length=8, pattern=r"^(100(\.0)?|[0-9]{1,2}(\.[0-9])?)%$")] = (
        "100%"
    )
    """How much of what its nodes offer may be filled."""
    failover_buffer: Annotated[
        str, Field(max_length=8, pattern=r"^(100(\.0)?|[0-9]{1,2}(\.[0-9])?)%$")
    ] = "0%"
    """How much of what its nodes offer is kept for copies that leave other clusters because these
    are lost or drained. Until then work of tier Preemptible may have it, and leaves when it is
    needed; all other work grows no further than to it."""
    scale_up: scaleupfields.Classes = Field(default_factory=list)
    """Nodes that the cluster's autoscaler can add; none when left out."""
    cordoned: bool | None = None
    """True keeps new work away; what is there stays."""
    declared_dead: Moment | None = None
    """The `status.lastHeard` of an unreachable cluster. It confirms that nothing runs there any
    more, so its copies fail over. Void when the cluster is reachable again."""
    fenced: Moment | None = None
    """The same, also for the shards of Exclusive job sets: it confirms that nothing runs there any
    more, because its machines are off, or cut off from everything that shards write to. Void when
    the cluster is reachable again."""
    drain: Drain | None = None
    """Moves what is there to other clusters, at a pace, and keeps new work away."""
    maintenance: list[Maintenance] = many(WINDOWS_MAX)
    """Windows in which people work on the cluster: nothing new is sent there before and during
    one."""
    tiers: list[TierName] = many(3, LIST_SET)
    """Tiers that are welcome; all when empty."""
    projects: list[Annotated[str, Field(min_length=1, max_length=63)]] = many(256, LIST_SET)
    """Projects that are welcome; all when empty."""
    take_over_from: Annotated[str, Field(max_length=64)] | None = None
    """Uid of a host that this host replaces permanently: the cluster's slices are this host's from
    then on."""


class ForgottenWorkload(Model):
    """A deleted workload that was given up here while the cluster could not be heard."""

    workload_uid: Annotated[str, Field(min_length=1, max_length=64)] = Field(alias="workloadUID")
    """Its uid on the host."""
    kind: ShortText
    """Its kind."""
    namespace: ShortText
    """Its namespace."""
    name: ShortText
    """Its name."""


class StayingWorkload(Model):
    """A workload that does not leave a cluster that is being drained now, and why."""

    workload: ShortText
    """Its kind, namespace and name, as Kind/namespace/name."""
    copies: Amount
    """Copies of it that stay."""
    why: Sentence
    """What they wait for."""


class DrainProgress(Model):
    """How far a drain is."""

    since: Moment
    """When it began."""
    copies: Amount = 0
    """Copies that were there then."""
    left: Amount = 0
    """Copies that are still there."""
    under_way: Amount = 0
    """Those of them that leave when their replacements elsewhere are ready."""
    per_minute: Amount = 0
    """Copies that got another place in the last minute, over all drains."""
    estimated_end: Moment | None = None
    """When it would be done at this pace; absent when nothing moves."""
    stays: list[StayingWorkload] = many(DRAIN_STAYS_MAX)
    """Workloads that cannot leave now, the largest first."""


class Status(Model):
    """What the hub sees."""

    observed_generation: Amount = 0
    """The newest generation that this status speaks about."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: it answers, is the cluster that joined, and reports; and what is wrong with it.
    Untrustworthy: it says what contradicts what it was given, and takes nothing new."""
    cluster_uid: Annotated[str, Field(max_length=64)] = Field(default="", alias="clusterUID")
    """Uid of the kube-system namespace that was seen."""
    host_uid: Annotated[str, Field(max_length=64)] = Field(default="", alias="hostUID")
    """Uid of another host, if the cluster records that it holds that host's slices; empty when it
    records this host."""
    version: ShortText = ""
    """Version of its API server."""
    apis: list[ShortText] = many(64, LIST_SET)
    """Workload kinds that it serves in a compatible schema, as Kind.group, and kinds of operators
    that workloads can become there."""
    slices: Amount = 0
    """Slices that it holds."""
    summary: ShortText = ""
    """One line for tables: Ready, or why not."""
    capacity: CapacityFields | None = None
    """A copy of what the cluster last reported, refreshed when it changes by more than one percent
    or includes other decisions."""
    success: SuccessFields | None = None
    """How well copies start and jobs end there; absent while nothing has failed."""
    unknown_slices: Amount = 0
    """Slices of this fleet that no workload and no decision of the host accounts for; they are left
    as they are."""
    forgotten: list[ForgottenWorkload] = many(FORGOTTEN_MAX, list_map("workloadUID"))
    """Slices that are removed from the cluster as soon as it is reachable again. The deletion of
    their workloads did not wait for that."""
    drain: DrainProgress | None = None
    """How far its drain is, or the failover from it when it was declared dead; absent without
    one."""
    taints: list[HubTaint] = many(8, list_map("key", "effect"))
    """Taints that the hub has set itself; those of people are in spec.taints."""
    taint_times: list[TaintTime] = many(32, list_map("key"))
    """When the hub saw NoExecute taints of spec.taints first that have no timeAdded. Tolerations
    with seconds count from then."""
    last_heard: Moment | None = None
    """When it, or its member process, was last heard of before it fell silent; absent while it is
    heard."""
    probe: ProbeStatus | None = None
    """The last probe with workloads; absent when there was none and none is asked for."""


class MemberCluster(Model):
    """One cluster that workloads can be placed in."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "size(self.metadata.name) <= 63"
                " && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
                "a cluster's name has at most 63 lower-case letters, digits and '-'",
            )
        )
    )

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["MemberCluster"]
    """MemberCluster."""
    metadata: Metadata
    """Standard metadata; labels such as region and zone are what policies select and spread by."""
    spec: Spec
    """What operators say about the cluster."""
    status: Status | None = None
    """What the hub sees."""


def recorded_uid(obj: Obj) -> str:
    """The uid of kube-system of the cluster that joined: pinned in its spec, or as its hub found
    it; "" for neither."""
    return raw.text(obj, "spec", "clusterUID") or raw.text(obj, "status", "clusterUID")


def removal(obj: Obj) -> Removal:
    """How it is being removed; NONE while nobody has deleted it."""
    if raw.at(obj, "metadata", "deletionTimestamp") is None:
        return Removal.NONE
    asked = raw.text_map(raw.mapping(obj, "metadata"), "annotations").get(
        names.REMOVAL_ANNOTATION, ""
    )
    return Removal(asked) if asked in (Removal.ORPHAN, Removal.LOST) else Removal.EMPTY


@dataclass(frozen=True, slots=True)
class DrainWish:
    """That the cluster be empty, as its spec says."""

    force: bool = False
    jobs_finish_s: int = DRAIN_JOBS_FINISH_S
    remove: bool = False
    """The MemberCluster is deleted when it is empty."""
    window: str = ""
    """When the maintenance window begins that asks for it; "" for a person's wish, which has no
    end of its own."""
    deleted: bool = False
    """The MemberCluster is deleted, and its finalizer empties the cluster: nothing refuses this
    drain or takes it back."""


OF_DELETION: Final = DrainWish(force=True, jobs_finish_s=0, deleted=True)
"""The wish of a deleted MemberCluster. Its job sets restart elsewhere immediately."""


def drain_wish(obj: Obj, now_s: float) -> DrainWish | None:
    """The wish that it be empty: a person's, that of a maintenance window that is announced or
    under way, or that of its deletion. None without one, and while it is removed as it is
    (`Orphan`)."""
    how = removal(obj)
    if how is not Removal.NONE:
        return None if how is Removal.ORPHAN else OF_DELETION
    asked = raw.at(obj, "spec", "drain")
    if isinstance(asked, dict):
        return _wish(asked, "")
    now = maintenance.of(obj, now_s).now
    wishes = [raw.at(raw.objects(obj, "spec", "maintenance")[n], "drain") for n in now.closing]
    asked = next((wish for wish in wishes if isinstance(wish, dict)), None)
    return _wish(asked, plaintext.moment(now.begins_s)) if asked is not None else None


def _wish(asked: Obj, window: str) -> DrainWish:
    finish_s = asked.get("jobsFinishSeconds", DRAIN_JOBS_FINISH_S)
    valid = isinstance(finish_s, int) and not isinstance(finish_s, bool) and finish_s >= 0
    finish_s = finish_s if valid else DRAIN_JOBS_FINISH_S
    remove = asked.get("thenRemove") is True and not window
    return DrainWish(asked.get("force") is True, finish_s, remove, window)


def declared_dead(obj: Obj) -> bool:
    """Whether a person declared it dead in its present silence, by the object alone. A silent
    member process beside an API server that answers is no silence of the cluster."""
    return _is_of_this_silence(obj, "declaredDead") or fenced(obj)


def fenced(obj: Obj) -> bool:
    """Whether a person fenced it in its present silence: it is dead, and they vouch for that even
    where no shard may run twice."""
    return _is_of_this_silence(obj, "fenced")


def _is_of_this_silence(obj: Obj, field: str) -> bool:
    word = raw.text(obj, "spec", field)
    if not word or removal(obj) is not Removal.NONE:
        return False
    ready = raw.condition(obj, "Ready")
    if ready.get("status") == "True":
        return False
    return word == raw.text(obj, "status", "lastHeard") and ready.get("reason") not in (
        NOT_REPORTING,
        NOT_ASKED,
    )


def tainted(obj: Obj) -> bool:
    """Whether the hub has recorded that it tainted the cluster as unreachable, and since when it is
    silent: before that nothing leaves it."""
    taint = next(
        (
            entry
            for entry in raw.objects(obj, "status", "taints")
            if raw.text(entry, "key") == UNREACHABLE_TAINT.key
        ),
        None,
    )
    return taint is not None and bool(raw.text(obj, "status", "lastHeard"))


def hub_taint(since: str) -> list[dict[str, str]]:
    """`status.taints` of a cluster that is unreachable since then."""
    taint = UNREACHABLE_TAINT
    return [{"key": taint.key, "effect": str(taint.effect), "timeAdded": since}]


def unreachable(obj: Obj) -> bool:
    """Whether the hub held it to be unreachable, by the object alone."""
    ready = raw.condition(obj, "Ready")
    silent = ready.get("status") == "Unknown" and ready.get("reason") != NOT_ASKED
    return silent and tainted(obj) and removal(obj) is Removal.NONE


def process_silent_since(obj: Obj) -> str:
    """Since when its member process is recorded as not heard, although the cluster answers; "" when
    it is not."""
    silent = raw.condition(obj, "Ready").get("reason") == NOT_REPORTING
    return raw.text(obj, "status", "lastHeard") if silent else ""


def labels(obj: Obj) -> dict[str, str]:
    """Its labels, such as region and zone."""
    return raw.text_map(obj, "metadata", "labels")


def to_view(obj: Obj, as_of: float) -> ClusterView:
    """The cluster as placement sees it, from the object alone (the hub lays what it knows better
    over it).

    Without a Ready condition a cluster that reported capacity counts as ready (fleet files).
    Ready=False and Unknown make it unready with that condition's message; Unknown also makes its
    report stale since the time of the condition.
    """
    ready, wish = raw.condition(obj, "Ready"), drain_wish(obj, as_of)
    silent = ready.get("status") == "Unknown"
    since_s = raw.epoch_s(raw.text(ready, "lastTransitionTime")) if silent else 0.0
    return replace(
        lasting_view(obj),
        maintained=maintenance.closed(obj, as_of),
        draining=wish is not None and raw.condition(obj, DRAINING).get("status") != "False",
        drain_waits=drain_waits(obj, wish),
        capacity_age_s=max(as_of - since_s, 0.0) if since_s else 0.0,
    )


def drain_waits(obj: Obj, wish: DrainWish | None) -> bool:
    """Whether its drain, by this wish, was refused and waits."""
    waits = raw.condition(obj, DRAINING).get("reason") == DRAIN_REFUSED
    return waits and wish is not None and not wish.force


def lasting_view(obj: Obj) -> ClusterView:
    """The part of `to_view` that is the same at all times: a hub with a thousand members reads each
    object once, not for every batch."""
    ready = raw.condition(obj, "Ready")
    verdict = ready.get("status")
    reported = raw.mapping(obj, "status").get("capacity")
    capacity: Capacity | None = (
        capacityfields.to_capacity(reported) if isinstance(reported, dict) else None
    )
    status = raw.mapping(obj, "status")
    projects = raw.texts(obj, "spec", "projects")
    tiers = frozenset(tier for tier in Tier if tier in raw.texts(obj, "spec", "tiers"))
    return ClusterView(
        name=raw.text(obj, "metadata", "name"),
        labels=labels(obj),
        taints=capacityfields.taints_of(raw.at(obj, "spec", "taints")),
        tainted_s=tainttimes.added_s(obj),
        cordoned=raw.flag(obj, "spec", "cordoned"),
        ready=verdict == "True" or (verdict is None and capacity is not None),
        unready_reason="" if verdict == "True" else _unready(ready, capacity),
        removing=raw.at(obj, "metadata", "deletionTimestamp") is not None,
        dead=declared_dead(obj),
        fenced=fenced(obj),
        unreachable=unreachable(obj),
        untrustworthy=_contradiction(obj),
        skewed=_skewed(obj),
        unproven=memberfields.unproven(obj),
        apis=frozenset(raw.texts(status, "apis")) if "apis" in status else _EVERY_API,
        tiers=tiers or frozenset(Tier),
        projects=frozenset(projects) if projects else None,
        usable_permille=memberfields.usable_permille(raw.text(obj, "spec", "usable")),
        buffer_permille=memberfields.buffer_permille(raw.text(obj, "spec", "failoverBuffer")),
        scale_up=scaleupfields.to_classes(raw.at(obj, "spec", "scaleUp")),
        capacity=capacity,
        stale=verdict == "Unknown",
        stated=memberfields.stated_of(obj),
        success_permille=memberfields.success_permille(obj),
        failing=memberfields.avoided(obj),
    )


def _contradiction(obj: Obj) -> str:
    """What its hub holds against it, in the condition's one word; "" for nothing."""
    condition = raw.condition(obj, UNTRUSTWORTHY)
    if condition.get("status") != "True":
        return ""
    return raw.word(condition, "reason") or UNTRUSTWORTHY


def _skewed(obj: Obj) -> str:
    """How far its clock is off, in the words of its hub; "" while it is right."""
    condition = raw.condition(obj, CLOCK_SYNCED)
    if condition.get("status") != "False":
        return ""
    message = raw.sentence(condition, "message").removesuffix(".")
    return f"{message[:1].lower()}{message[1:]}" or "its clock is not right"


def _unready(ready: Obj, capacity: Capacity | None) -> str:
    if ready:
        message = raw.text(ready, "message").removesuffix(".")
        return f"{message[:1].lower()}{message[1:]}" or raw.text(ready, "reason")
    return "" if capacity is not None else "it has no Ready condition and no report of its capacity"
