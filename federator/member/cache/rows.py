"""What a member process remembers of each object: small projections, made once per event, never the
whole object where a few facts do.

`SliceRow` and `NativeRow` keep the object's bytes until it has been compared with what it should
be; pods and nodes keep what capacity and roll-up need. Projections are total: whatever an API
server can hold gives a row.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from federator.api import capacityfields, raw
from federator.api.raw import Obj
from federator.kinds import registry
from federator.kinds.labels import (
    COMPONENT_LABEL,
    MADE_OF_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    piece_of,
)
from federator.kinds.natives import pod_templates
from federator.kinds.pods import effective, registration
from federator.kinds.verbs import SliceMark, WorkloadVerbs
from federator.kube import clock
from federator.member.options import FIELD_MANAGER, MemberOptions
from federator.model import interning, names
from federator.model.ask import PodShape
from federator.model.errors import FieldError
from federator.model.kubernetes import accountlists, owned_fields, quantity
from federator.model.kubernetes.taints import REFUSING, Taint
from federator.model.names import ObjectName, WorkloadKey
from federator.model.resources import PODS, ZERO, Resources
from federator.model.shards import Range
from federator.status import reasons
from federator.status.reasons import Trouble

NativeKey = tuple[str, str, str]
"""(kind, namespace, name) of a native object."""

_BOOKKEEPING: Final = (
    "managedFields",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "uid",
    "selfLink",
)


def digest(value: Any) -> str:
    """A digest of decoded JSON that does not depend on the order of keys."""
    return _digest(msgspec.json.encode(value, order="sorted"))


def _digest(document: bytes) -> str:
    return hashlib.blake2b(document, digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One object of a workload kind in this member."""

    key: WorkloadKey
    uid: str
    generation: int
    resource_version: str
    mark: SliceMark | None
    deleting: bool
    content: str
    """Digest of what its natives are made from: labels, annotations, spec, which shards are done,
    and how far the pods of a gang have come together."""
    document: bytes
    """The whole object without managedFields, as JSON."""
    observed: bool
    """A life of the member process, or for carried kinds the cluster, has looked at this very
    object before."""

    def obj(self) -> dict[str, Any]:
        """The object; a fresh copy on every call."""
        obj: dict[str, Any] = msgspec.json.decode(self.document)
        return obj

    @property
    def verbs(self) -> WorkloadVerbs:
        return registry.verbs_of(self.key.kind)


def slice_row(kind: str, obj: Obj) -> SliceRow:
    meta, status = raw.mapping(obj, "metadata"), raw.mapping(obj, "status")
    slim = {
        **obj,
        "metadata": {name: value for name, value in meta.items() if name != "managedFields"},
    }
    phase = raw.text(status, "gang", "phase")
    done = (status.get("completedIndexes"), status.get("failedIndexes"), phase)
    return SliceRow(
        key=WorkloadKey(kind, raw.text(meta, "namespace"), raw.text(meta, "name")),
        uid=raw.text(meta, "uid"),
        generation=raw.integer(meta, "generation"),
        resource_version=raw.text(meta, "resourceVersion"),
        mark=registry.verbs_of(kind).read_mark(obj),
        deleting="deletionTimestamp" in meta,
        content=digest([meta.get("labels"), meta.get("annotations"), obj.get("spec"), done]),
        document=msgspec.json.encode(slim),
        observed=raw.integer(status, "observedGeneration") > 0,
    )


@dataclass(slots=True)
class NativeRow:
    """One object of a kind that slices are expanded to; foreign ones too, so that they are never
    overwritten.

    `document` is dropped (None) once the object was found to be as it should: until it changes, its
    digest says so.
    """

    key: NativeKey
    uid: str
    resource_version: str
    owner_uid: str
    """Uid of the controlling owner, "" for none."""
    fleet: str
    """The fleet that marked it, "" for a foreign object."""
    managed: bool
    """Written by a member process (app.kubernetes.io/managed-by)."""
    deleting: bool
    live: str
    """Digest of all that is not status or bookkeeping."""
    document: bytes | None
    status: dict[str, Any]
    generation: int
    spec: dict[str, Any]
    """The few fields of spec that are read again: replicas, type, completions, parallelism,
    deadline, and how many pods a PodGroup waits for."""
    shards: Range | None = None
    """The shards that a Job runs, None for anything else."""
    workload_uid: str = ""
    """The workload that its label names, "" for none."""
    role: str = ""
    """The component of a gang that a Job runs pods of, "" for none."""
    group: str = ""
    """The PodGroup that a Job's pods belong to, "" for none."""
    shape: PodShape | None = None
    """What a DaemonSet's pods take, None for anything else."""
    replicas_ours: bool = False
    """Whether its `spec.replicas` is as member processes applied it last: no autoscaler, and nobody
    else, has changed it since."""
    account: str = ""
    """The service account of its pods; "" for the default, and for what has no pod template."""
    applied: bytes | None = None
    """The fields that member processes applied (FieldsV1, as JSON); dropped together with
    `document`."""
    created: bool = False
    """Whether a member process created it and has not applied it since: its fields are then owned
    by Update, and an apply would not remove one of them."""
    made_of: str = ""
    """The digest of what it was created from, "" once it was applied."""
    carried: SliceRow | None = None
    """The slice that the object is itself, where the hub carries objects of this kind."""

    def as_object(self) -> dict[str, Any]:
        """What judging its health takes."""
        metadata = {"generation": self.generation}
        return {"kind": self.key[0], "metadata": metadata, "spec": self.spec, "status": self.status}


_KEPT_SPEC: Final = (
    *("replicas", "type", "completions", "parallelism", "suspend"),
    "activeDeadlineSeconds",
    "schedulingPolicy",
)


def native_row(kind: str, obj: Obj) -> NativeRow:
    meta = raw.mapping(obj, "metadata")
    desired = {name: value for name, value in obj.items() if name != "status"}
    desired["metadata"] = {name: value for name, value in meta.items() if name not in _BOOKKEEPING}
    document = msgspec.json.encode(desired)
    spec = raw.mapping(obj, "spec")
    labels = raw.mapping(meta, "labels")
    applied = owned_fields.of(meta, FIELD_MANAGER, "Apply")
    created = owned_fields.of(meta, FIELD_MANAGER, "Update")
    return NativeRow(
        key=(kind, raw.text(meta, "namespace"), raw.text(meta, "name")),
        uid=raw.text(meta, "uid"),
        resource_version=raw.text(meta, "resourceVersion"),
        owner_uid=controller_uid(meta),
        fleet=raw.text(labels, names.FLEET_LABEL),
        managed=raw.text(labels, MANAGED_BY_LABEL) == MANAGED_BY,
        deleting="deletionTimestamp" in meta,
        live=_digest(document),
        document=document,
        status=dict(raw.mapping(obj, "status")),
        generation=raw.integer(meta, "generation"),
        spec={name: spec[name] for name in _KEPT_SPEC if name in spec},
        shards=piece_of(raw.mapping(meta, "annotations")) if kind == "Job" else None,
        workload_uid=raw.text(labels, names.WORKLOAD_UID_LABEL),
        role=raw.text(labels, COMPONENT_LABEL) if kind == "Job" else "",
        group=_group_of(spec) if kind == "Job" else "",
        account=_account_of(kind, obj),
        replicas_ours=any(
            "f:replicas" in raw.mapping(fields, "f:spec") for fields in (applied, created)
        ),
        applied=msgspec.json.encode(applied),
        created=bool(created),
        made_of=raw.text(meta, "annotations", MADE_OF_ANNOTATION),
    )


def kept_row(kind: str, obj: Obj) -> NativeRow:
    """The row of a native object as the caches keep it. Of one that no object controls and no
    member process wrote only the identity is kept: it is compared with nothing."""
    meta = raw.mapping(obj, "metadata")
    labels = raw.mapping(meta, "labels")
    if raw.text(labels, MANAGED_BY_LABEL) == MANAGED_BY or controller_uid(meta):
        return native_row(kind, obj)
    return NativeRow(
        key=(kind, raw.text(meta, "namespace"), raw.text(meta, "name")),
        uid=raw.text(meta, "uid"),
        resource_version=raw.text(meta, "resourceVersion"),
        owner_uid="",
        fleet=raw.text(labels, names.FLEET_LABEL),
        managed=False,
        deleting="deletionTimestamp" in meta,
        live="",
        document=None,
        status={},
        generation=raw.integer(meta, "generation"),
        spec={},
        workload_uid=raw.text(labels, names.WORKLOAD_UID_LABEL),
    )


def _account_of(kind: str, obj: Obj) -> str:
    accounts = (account_of(template) for template in pod_templates({**obj, "kind": kind}))
    return interning.text(next(accounts, ""))


def account_of(template: Obj) -> str:
    """The service account that pods run as, "" for the namespace's default."""
    spec = raw.mapping(template, "spec")
    name = raw.text(spec, "serviceAccountName") or raw.text(spec, "serviceAccount")
    return "" if name in accountlists.DEFAULT else name


def account_lists(obj: Obj) -> tuple[tuple[str, str], ...]:
    """What a namespace says of the service accounts of its projects; () for nothing."""
    return tuple(accountlists.ours(raw.text_map(obj, "metadata", "annotations")).items())


def _group_of(job: Obj) -> str:
    return raw.text(job, "template", "spec", "schedulingGroup", "podGroupName")


def controller_uid(meta: Obj) -> str:
    """The uid of the owner that controls the object, "" for none."""
    for owner in raw.objects(meta, "ownerReferences"):
        if raw.flag(owner, "controller"):
            return raw.text(owner, "uid")
    return ""


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """A ReplicaSet: only its slice and its owner."""

    uid: str
    owner_uid: str


def owner_row(obj: Obj) -> OwnerRow:
    meta = raw.mapping(obj, "metadata")
    return OwnerRow(raw.text(meta, "uid"), controller_uid(meta))


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod. `shape` is shared between equal pods."""

    uid: str
    controller_uid: str
    node: str
    nominated: str
    ended: bool
    """Succeeded or Failed: holds no room any more."""
    deleting: bool
    shape: PodShape
    trouble: Trouble | None
    starting: bool = False
    """It has a node, and no container of it runs yet."""
    ready: bool = False
    deregistered: bool = False
    """It is being deleted, and its sidecar has taken it out of the registry of its service."""

    @property
    def holds_room(self) -> bool:
        return bool(self.node) and not self.ended

    @property
    def waits(self) -> bool:
        """Wants room and has none yet."""
        return not self.node and not self.ended and not self.deleting


class Shapes:
    """Pod shapes by what they are made from: thousands of equal pods are read once and share one
    shape."""

    def __init__(self, limit: int = 4096) -> None:
        self._limit = limit
        self._shapes: OrderedDict[str, PodShape] = OrderedDict()

    def of(self, spec: Obj) -> PodShape:
        """The shape of a pod's spec; one that cannot be read asks for nothing but its pod slot."""
        key = repr(
            (
                [
                    (c.get("resources"), c.get("restartPolicy"))
                    for c in raw.objects(spec, "containers")
                ],
                [
                    (c.get("resources"), c.get("restartPolicy"))
                    for c in raw.objects(spec, "initContainers")
                ],
                [
                    spec.get(name)
                    for name in ("resources", "overhead", "nodeSelector", "affinity", "tolerations")
                ],
            )
        )
        shape = self._shapes.get(key)
        if shape is None:
            try:
                shape = PodShape(
                    effective.pod_requests(spec),
                    effective.node_selector(spec),
                    effective.pod_tolerations(spec),
                )
            except FieldError:
                shape = PodShape(Resources({PODS: 1}))
            self._shapes[key] = shape
            if len(self._shapes) > self._limit:
                self._shapes.popitem(last=False)
        return shape


def pod_row(obj: Obj, shapes: Shapes) -> PodRow:
    meta, spec, status = (
        raw.mapping(obj, "metadata"),
        raw.mapping(obj, "spec"),
        raw.mapping(obj, "status"),
    )
    return PodRow(
        uid=raw.text(meta, "uid"),
        controller_uid=controller_uid(meta),
        node=raw.text(spec, "nodeName"),
        nominated=raw.text(status, "nominatedNodeName"),
        ended=raw.text(status, "phase") in ("Succeeded", "Failed"),
        deleting="deletionTimestamp" in meta,
        shape=shapes.of(spec),
        trouble=reasons.of_pod(obj),
        starting=bool(raw.text(spec, "nodeName")) and raw.text(status, "phase") == "Pending",
        ready=raw.condition(obj, "Ready").get("status") == "True",
        deregistered="deletionTimestamp" in meta and _deregistered(meta, status),
    )


def _deregistered(meta: Obj, status: Obj) -> bool:
    """Whether the sidecar that registers a terminating pod is not ready any more: it is ready while
    clients may be sent there."""
    sidecar = raw.text(meta, "annotations", registration.ANNOTATION)
    return bool(sidecar) and any(
        entry.get("name") == sidecar and entry.get("ready") is False
        for entry in raw.objects(status, "initContainerStatuses")
    )


@dataclass(frozen=True, slots=True)
class MountRow:
    """What a kubelet said of a volume that it could not set up."""

    pod: ObjectName
    """(namespace, name)."""
    pod_uid: str
    trouble: Trouble


def mount_rows(obj: Obj) -> tuple[MountRow, ...]:
    """An Event FailedMount; none when it says nothing of a missing object."""
    about = raw.mapping(obj, "involvedObject")
    trouble = reasons.of_mount(raw.text(obj, "message"))
    if trouble is None or raw.text(about, "kind") != "Pod":
        return ()
    pod = raw.text(about, "namespace"), raw.text(about, "name")
    return (MountRow(pod, raw.text(about, "uid"), trouble),)


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """What a Job's controller said last of pods that the API server did not take."""

    job_uid: str
    at_s: float
    """Seconds since 1970, by that controller's clock."""
    message: str


def refusal_rows(obj: Obj) -> tuple[RefusalRow, ...]:
    """An Event FailedCreate about a Job, because a Job's status does not report it; none for other
    objects."""
    about = raw.mapping(obj, "involvedObject")
    message = reasons.of_refusal(raw.text(obj, "message"))
    stamp = (
        raw.text(obj, "series", "lastObservedTime")
        or raw.text(obj, "lastTimestamp")
        or raw.text(obj, "eventTime")
    )
    try:
        at_s = clock.parse(stamp)
    except ValueError:
        return ()
    return (
        (RefusalRow(raw.text(about, "uid"), at_s, message),)
        if raw.text(about, "kind") == "Job" and message
        else ()
    )


@dataclass(frozen=True, slots=True)
class Node:
    """One node that may or may not take pods."""

    name: str
    usable: bool
    """Ready, and not cordoned."""
    allocatable: Resources
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Only those that keep pods away."""
    model: str
    family: str


def node_row(obj: Obj, gpu_labels: Sequence[str], family_labels: Sequence[str]) -> Node:
    meta, status = raw.mapping(obj, "metadata"), raw.mapping(obj, "status")
    labels = raw.text_map(meta, "labels")
    ready = raw.condition(obj, "Ready").get("status") == "True"
    cordoned = raw.flag(obj, "spec", "unschedulable") or "deletionTimestamp" in meta
    return Node(
        name=raw.text(meta, "name"),
        usable=ready and not cordoned,
        allocatable=amounts(raw.mapping(status, "allocatable") or raw.mapping(status, "capacity")),
        labels=labels,
        taints=tuple(
            taint
            for taint in capacityfields.taints_of(raw.at(obj, "spec", "taints"))
            if taint.effect in REFUSING
        ),
        model=_first(labels, gpu_labels),
        family=_first(labels, family_labels)
        or labels.get("node.kubernetes.io/instance-type", "").partition(".")[0],
    )


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def amounts(quantities: Obj) -> Resources:
    """A vector of API quantities; one that cannot be read, or is negative, counts as nothing
    (F56)."""
    try:
        return quantity.vector(dict(quantities)).at_least_zero()
    except FieldError:
        amounts = ZERO
        for name, text in quantities.items():
            try:
                amounts = amounts + quantity.vector({name: text}).at_least_zero()
            except FieldError:
                continue
        return amounts


def daemon_row(obj: Obj, shapes: Shapes) -> NativeRow:
    """A DaemonSet, with what it wants of every node that it matches."""
    row = kept_row("DaemonSet", obj)
    row.shape = shapes.of(raw.mapping(obj, "spec", "template", "spec"))
    return row


def moved(old: NativeRow | OwnerRow | None, new: NativeRow | OwnerRow | None) -> bool:
    """Whether an object came, went, or belongs to another owner."""
    return old is None or new is None or (old.uid, old.owner_uid) != (new.uid, new.owner_uid)


def room(row: PodRow | None) -> tuple[Any, ...]:
    """What of a pod free room depends on."""
    return (
        ()
        if row is None
        else (row.node, row.ended, row.waits, row.nominated, row.shape, row.controller_uid)
    )


def news(row: PodRow | None) -> tuple[Trouble | None, bool, bool]:
    """What of a pod the status of its slice depends on."""
    if row is None:
        return None, False, False
    return row.trouble, row.deleting and not row.ended, row.deregistered and not row.ended


def slice_of(kind: str) -> Callable[[Obj], SliceRow]:
    return lambda obj: slice_row(kind, obj)


def native_of(kind: str, shapes: Shapes, fleet: str = "") -> Callable[[Obj], NativeRow]:
    """`fleet`: objects of this kind that the hub of this fleet carries are slices themselves."""
    if fleet:
        return lambda obj: _carrying_row(kind, obj, fleet)
    if kind == "DaemonSet":
        return lambda obj: daemon_row(obj, shapes)
    return lambda obj: kept_row(kind, obj)


def _carrying_row(kind: str, obj: Obj, fleet: str) -> NativeRow:
    row = kept_row(kind, obj)
    if row.fleet == fleet and registry.verbs_of(kind).read_mark(obj) is not None:
        row.carried = slice_row(kind, obj)
    return row


def node_of(options: MemberOptions) -> Callable[[Obj], Node]:
    return lambda obj: node_row(obj, options.gpu_labels, options.family_labels)
