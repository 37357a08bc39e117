"""What the hub remembers of a workload on the host: a summary that decisions need, never the whole
object.

`summarise` is the projection of the host's reflectors. Whole objects are read again when a slice is
rendered (`hub/host/documents.py`).
"""

import functools
import hashlib
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import msgspec

from federator.api import raw
from federator.hub.records import packing
from federator.kinds import asks, read, registry
from federator.kinds.labels import MEMBER_STATUS_ANNOTATION
from federator.kinds.pods import effective
from federator.kinds.verbs import DEFAULT_PROFILE, SliceMark, WorkloadVerbs
from federator.kube.store import version_number
from federator.model import interning, names, shards
from federator.model.ask import Ask, PodShape, Unit
from federator.model.decision import Share
from federator.model.ending import EARLY, NO_RULES, Ending, EndRules
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.model.policy import DEFAULT_POLICY
from federator.model.quickly import likewise, quickly
from federator.model.resources import Resources
from federator.model.shards import Ranges

NEUTRAL_MARK = SliceMark(fleet="", workload_uid="", origin_generation=0, cluster="", seq=0)
"""The mark used where only the content of a slice matters, not its workload."""


FOREGROUND = "foregroundDeletion"
"""Finalizer of the API server (`--cascade=foreground`): the object stays until its dependents that
block it are gone."""
ORPHAN = "orphan"
"""The same (`--cascade=orphan`): it stays until its dependents have no reference to it."""


@dataclass(frozen=True, slots=True)
class Formerly:
    """The pods of a workload with a former version of its RuntimeProfile."""

    version: str
    """Hash of the version."""
    shape: PodShape
    own: Resources | None
    """As `Ask.own`."""


Pin = tuple[str, float]
"""Name of a version, and until when in epoch seconds."""
NO_PIN: Pin = ("", 0.0)


@dataclass(frozen=True, slots=True)
class Traits:
    """What many workloads have in common beside what they ask for: they share one."""

    deleting: bool
    placement: Mapping[str, Any]
    profile: str
    """Name of the RuntimeProfile its pods get, "" for none."""
    max_unavailable: int
    """Copies that may be missing while its shares move."""
    scaled: bool
    """Autoscalers choose how many of its copies run."""
    problem: str = ""
    by_number: bool = False
    """`max_unavailable` is a number, which every cluster applies to its own share."""
    halted: bool = False
    """Its owner has halted its roll-out (`spec.paused`)."""
    end_rules: EndRules = NO_RULES
    """When it ends before all its shards are done."""
    formerly: tuple["Formerly", ...] = ()
    """Its pods with the former versions of its RuntimeProfile that need another shape, the newest
    first."""
    cascade: str = ""
    """Of one that is being deleted: the finalizer with which the API server asks the garbage
    collector to handle the dependents, FOREGROUND or ORPHAN; "" for none."""
    pin: Pin = NO_PIN
    """The version of its RuntimeProfile that its pods keep for a time (`spec.runtime.version`)."""
    served: Mapping[str, Any] | None = None
    """The spec that members are to have where an edit is held back (`hub.host.in_force`); None: its
    own."""
    edited: int = 0
    """The generation of that edit, for which it asks; 0 where none is held back."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload of the host, as last heard."""

    key: WorkloadKey
    uid: str
    generation: int
    version: int | str
    """The resourceVersion: a number if it is one, which takes half the memory of a text."""
    labels: Mapping[str, str]
    wants: Ask | None
    """`ask` without all that is its own: one for all that ask for the same."""
    created_s: float
    content: bytes
    """Digest of what every member would be given, whatever its share; b"" when it cannot be
    rendered."""
    status: bytes
    """The live status, packed (`packing`), because it is read only when a fold writes."""
    traits: Traits

    @property
    def ask(self) -> Ask | None:
        """Under the default policy; None when `problem` says why it cannot be read."""
        if self.wants is None:
            return None
        made = _asks.get(self.uid)
        if made is not None and made[0] is self:
            return made[1]
        generation = self.traits.edited or self.generation
        ask = _own_ask(self.wants, self.key, self.uid, generation, self.created_s, self.labels)
        if len(_asks) >= _ASKS_MAX:
            _asks.clear()
        _asks[self.uid] = self, ask
        return ask

    @property
    def resource_version(self) -> str:
        return str(self.version)

    @property
    def deleting(self) -> bool:
        return self.traits.deleting

    @property
    def pin(self) -> Pin:
        return self.traits.pin

    @property
    def placement(self) -> Mapping[str, Any]:
        return self.traits.placement

    @property
    def profile(self) -> str:
        return self.traits.profile

    @property
    def max_unavailable(self) -> int:
        return self.traits.max_unavailable

    @property
    def scaled(self) -> bool:
        return self.traits.scaled

    @property
    def problem(self) -> str:
        return self.traits.problem

    @property
    def by_number(self) -> bool:
        return self.traits.by_number

    @property
    def halted(self) -> bool:
        return self.traits.halted

    @property
    def end_rules(self) -> EndRules:
        return self.traits.end_rules

    @property
    def formerly(self) -> tuple["Formerly", ...]:
        return self.traits.formerly

    @property
    def cascade(self) -> str:
        return self.traits.cascade

    @property
    def served(self) -> Mapping[str, Any] | None:
        return self.traits.served

    def serving(
        self,
        spec: Mapping[str, Any],
        *,
        generation: int,
        content: bytes,
        profile: str,
        max_unavailable: int,
    ) -> "Workload":
        """The same with the spec of an earlier generation in force; it still asks for its own."""
        traits = replace(
            self.traits,
            served=spec,
            profile=profile,
            max_unavailable=max_unavailable,
            edited=self.generation,
        )
        return replace(self, generation=generation, content=content, traits=traits)

    @property
    def verbs(self) -> WorkloadVerbs:
        return registry.verbs_of(self.key.kind)

    def asks_like(self, other: "Workload") -> bool:
        """Whether nothing that a decision or a slice is made from differs: only what was written
        into its status."""
        return (
            self.uid == other.uid
            and self.generation == other.generation
            and (self.wants is other.wants or self.wants == other.wants)
            and self.created_s == other.created_s
            and self.labels == other.labels
            and self.content == other.content
            and (self.deleting, self.cascade) == (other.deleting, other.cascade)
            and self.placement == other.placement
        )

    def live_status(self) -> dict[str, Any]:
        return packing.unpacked(self.status)

    def with_status(self, status: Mapping[str, Any], resource_version: str) -> "Workload":
        """The same with a later status, in the object with this version."""
        return replace(self, status=packing.packed(status), version=_version(resource_version))

    def stub(self) -> dict[str, Any]:
        """As much of the object as its status is made from."""
        return {
            "metadata": {
                "name": self.key.name,
                "namespace": self.key.namespace,
                "generation": self.generation,
            }
        }

    def progress(self) -> "Progress":
        """Which shards the host's status records as done; empty for replicas."""
        if self.verbs.unit is not Unit.SHARDS:
            return Progress()
        status = self.live_status()
        return Progress(
            completed=read_ranges(raw.text(status, "completedIndexes")),
            failed=read_ranges(raw.text(status, "failedIndexes")),
            ending=early_ending(status),
            count=self.ask.count if self.ask is not None else 0,
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Shards that are done for good."""

    completed: Ranges = ()
    failed: Ranges = ()
    ending: Ending | None = None
    """How it ended, where it did before all shards were done."""
    count: int = 0

    @property
    def done(self) -> Ranges:
        """Shards that need no run: all of them once it has ended."""
        if self.ending is not None and self.count > 0:
            return ((0, self.count - 1),)
        return shards.union(self.completed, self.failed)

    @property
    def all_done(self) -> bool:
        """Whether every shard was completed or has failed."""
        return shards.size(shards.union(self.completed, self.failed)) >= self.count


def early_ending(status: Mapping[str, Any]) -> Ending | None:
    """How a job set ended by its status, where it did before all its shards were done."""
    for kind in ("Complete", "Failed"):
        shown = raw.condition({"status": status}, kind)
        if shown.get("status") == "True" and shown.get("reason") in EARLY:
            cause = raw.text(shown, "message").partition(": ")[2].removesuffix(".")
            return Ending(kind == "Complete", raw.text(shown, "reason"), cause)
    return None


def read_ranges(text: str) -> Ranges:
    """The ranges of a status field; none for a text that is no set of indexes (another client
    wrote it)."""
    try:
        return shards.parse(text)
    except ValueError:
        return ()


def cascade(meta: Mapping[str, Any]) -> str:
    """The value of `Workload.cascade`, by an object's metadata."""
    held = raw.texts(meta, "finalizers") if "deletionTimestamp" in meta else ()
    return next((name for name in (ORPHAN, FOREGROUND) if name in held), "")


def digest(value: Any) -> bytes:
    """A digest of decoded JSON that does not depend on the order of keys."""
    return interning.listed(
        hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=12).digest()
    )


MARK_LABELS = frozenset({names.FLEET_LABEL, names.WORKLOAD_UID_LABEL})
MARK_ANNOTATIONS = frozenset({names.SLICE_ANNOTATION})


def content_digest(verbs: WorkloadVerbs, slice_obj: Mapping[str, Any]) -> bytes:
    """Of everything of a slice that we write, but what makes it the slice of one cluster: mark and
    amount."""
    meta = slice_obj["metadata"]
    spec, labels = {**raw.mapping(slice_obj, "spec")}, {**raw.mapping(meta, "labels")}
    annotations = lasting(raw.mapping(meta, "annotations"))
    for own in ("slice", verbs.amount):
        spec.pop(own, None)
    for own in MARK_LABELS:
        labels.pop(own, None)
    for own in MARK_ANNOTATIONS:
        annotations.pop(own, None)
    return digest([spec, labels, annotations])


def lasting(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the member writes: its roll-out revision, and what it says of a carried
    Deployment."""
    return {
        name: text
        for name, text in annotations.items()
        if name != MEMBER_STATUS_ANNOTATION and not name.startswith("deployment.kubernetes.io/")
    }


def summarise(
    kind: str,
    obj: Mapping[str, Any],
    profile: Mapping[str, Any] | None,
    former: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> Workload:
    """Total: whatever an API server can hold gives a summary, if need be one with a `problem`.
    `former`: hash and object of the versions before `profile`, the newest first."""
    meta = obj["metadata"]
    key = names.key(kind, meta.get("namespace", ""), meta["name"])
    ask: Ask | None = None
    content, problem = b"", ""
    placement: Mapping[str, Any] = raw.NO_FIELDS
    verbs = registry.verbs_of(kind)
    try:
        if refused := read.host_problems(obj):
            raise refused[0]
        _check_profile(obj, profile)
        placement = verbs.placement(obj) or raw.NO_FIELDS
        # The kind is the list's; what an object says of itself may be anything.
        created = interning.value(created_s(obj))
        ask = asks.ask(obj, verbs, DEFAULT_POLICY, profile, created_s=created, key=key)
        content = content_digest(verbs, neutral(verbs, obj))
    except FieldError as bad:
        problem = str(bad)
    return _workload(
        key=key,
        uid=interning.uid(meta.get("uid", "")),
        generation=raw.integer(meta, "generation"),
        version=_version(meta.get("resourceVersion", "")),
        labels=ask.labels if ask is not None else raw.text_map(meta, "labels"),
        wants=_in_common(ask) if ask is not None else None,
        created_s=ask.created_s if ask is not None else 0.0,
        content=content,
        status=interning.value(packing.packed(raw.mapping(obj, "status"))),
        traits=_traits(
            "deletionTimestamp" in meta,
            placement,
            interning.text(verbs.profile(obj)),
            verbs.max_unavailable(obj),
            verbs.bounds is not None and verbs.bounds(obj) is not None,
            problem,
            verbs.by_number(obj),
            verbs.halted(obj),
            _end_rules(verbs, obj),
            _formerly(obj, verbs, former) if ask is not None else (),
            cascade(meta),
            _pin(obj),
        ),
    )


def _pin(obj: Mapping[str, Any]) -> Pin:
    version = raw.mapping(obj, "spec", "runtime", "version")
    if not version:
        return NO_PIN
    name, until_s = raw.text(version, "name"), raw.epoch_s(raw.text(version, "until"))
    return name, until_s


def _version(text: str) -> int | str:
    number = version_number(text)
    return number if str(number) == text else text


_workload = quickly(Workload)
_own_ask = likewise(Ask, "key", "uid", "generation", "created_s", "labels")
_NOBODY = WorkloadKey("", "", "")
_ASKS_MAX = 512
_asks: dict[str, tuple[Workload, Ask]] = {}
"""By uid, the asks that were read last: one turn of a workload reads its ask a hundred times."""
_WANTS_MAX = 4096
_wants: dict[tuple[Any, ...], Ask] = {}
_common_fields = operator.attrgetter(
    *(
        field.name
        for field in fields(Ask)
        if field.name not in ("key", "uid", "generation", "created_s", "labels", "policy")
    )
)


def _in_common(ask: Ask) -> Ask:
    """What it has in common with others under the same policy, the default one."""
    said = _common_fields(ask)
    wants = _wants.get(said)
    if wants is None:
        if len(_wants) >= _WANTS_MAX:
            _wants.clear()
        wants = _wants[said] = _own_ask(ask, _NOBODY, "", 0, 0.0, raw.NO_FIELDS)
    return wants


def _traits(deleting: bool, placement: Mapping[str, Any], *others: Any) -> Traits:
    if placement:
        return Traits(deleting, placement, *others)
    return _shared_traits(deleting, *others)


@functools.lru_cache(maxsize=4096)
def _shared_traits(deleting: bool, *others: Any) -> Traits:
    return Traits(deleting, raw.NO_FIELDS, *others)


def _formerly(
    obj: Mapping[str, Any],
    verbs: WorkloadVerbs,
    former: Sequence[tuple[str, Mapping[str, Any]]],
) -> tuple[Formerly, ...]:
    """The pods with each former version under which the object can be read."""
    shapes: list[Formerly] = []
    for version, profile in former:
        try:
            shape = asks.shape_of(obj, verbs, profile)
            own = asks.own_requests(obj, verbs, shape)
        except FieldError:
            continue
        shapes.append(Formerly(version, shape, own))
    return tuple(shapes)


def _check_profile(obj: Mapping[str, Any], profile: Mapping[str, Any] | None) -> None:
    """Raises FieldError if the RuntimeProfile that an object names does not exist: its pods would
    run without the platform's containers. The profile "default" need not exist."""
    named = raw.text(obj, "spec", "runtimeProfile")
    if profile is None and named not in ("", DEFAULT_PROFILE):
        raise FieldError(
            "spec.runtimeProfile",
            (
                f"there is no RuntimeProfile {named!r}; name one that `kubectl get runtimeprofiles`"
                f" shows, or leave the field out for {DEFAULT_PROFILE!r}"
            ),
        )


def _end_rules(verbs: WorkloadVerbs, obj: Mapping[str, Any]) -> EndRules:
    return interning.value(verbs.end_rules(obj)) if verbs.end_rules is not None else NO_RULES


def neutral(verbs: WorkloadVerbs, obj: Mapping[str, Any]) -> dict[str, Any]:
    """A slice without a cluster: what the slices of all clusters have in common."""
    return verbs.render_slice(obj, Share("", 0, 0), NEUTRAL_MARK)


TAKEN_AT_ONCE = frozenset(
    {"placement", "suspend", "replicas", "autoscaling", "shards", "parallelism"}
)
"""Fields of spec that are obeyed although an edit of others is held back: a decision has judged
them."""


def composed(
    obj: Mapping[str, Any], served: Mapping[str, Any] | None, generation: int
) -> Mapping[str, Any]:
    """The object with `served` as its spec, but for what is taken at once, as it was in
    `generation`; the object itself where `served` is None."""
    if served is None:
        return obj
    spec = raw.mapping(obj, "spec")
    taken = {name: spec[name] for name in TAKEN_AT_ONCE if name in spec}
    return {
        **obj,
        "metadata": {**obj["metadata"], "generation": generation},
        "spec": {**served, **taken},
    }


def requests(
    workload: Workload, spec: Mapping[str, Any], profile: Mapping[str, Any] | None
) -> tuple[Resources, Resources] | None:
    """What each pod of a spec of this workload asks for with this RuntimeProfile, and what its own
    containers do; None where it cannot be read."""
    verbs, obj = workload.verbs, {"spec": spec}
    try:
        whole = asks.shape_of(obj, verbs, profile).requests
        if verbs.gang is not None:
            return whole, whole
        return whole, effective.pod_requests(raw.mapping(verbs.pod_template(obj), "spec"))
    except FieldError:
        return None


def created_s(obj: Mapping[str, Any]) -> float:
    return raw.epoch_s(raw.text(obj, "metadata", "creationTimestamp"))


@dataclass(frozen=True, slots=True)
class Served:
    """What the members of one workload are to have while an edit of it is held back."""

    uid: str
    revision: str
    base: bytes
    """`Workload.content` of the object that it was composed with."""
    generation: int
    spec: Mapping[str, Any]
    content: bytes
    profile: str

    def serves(self, workload: Workload, revision: str) -> bool:
        return (self.uid, self.revision) == (workload.uid, revision)
