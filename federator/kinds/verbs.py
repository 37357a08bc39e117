"""What every workload kind can be asked: one frozen table of plain functions per kind, filled in
its own folder.

Hub, member, placement's callers and the command line go through these verbs and so never ask
"which kind is it". The functions are pure and total on anything an API server can hold; they never
change their argument.
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol

import msgspec

from federator.api import raw
from federator.api.raw import Obj
from federator.model import interning, names, shards
from federator.model import seq as seqs
from federator.model.ask import Disruptions, Ordinals, Tier, Unit
from federator.model.decision import Share
from federator.model.ending import EndRules
from federator.model.errors import FieldError
from federator.model.kubernetes.taints import Taint
from federator.model.observation import SliceObservation
from federator.model.quickly import quickly
from federator.model.shards import Range, Ranges
from federator.status.fold import Fold

EXPANDER: Final = "2"
"""Version of the rules by which kinds are expanded; a slice names the one that its natives must be
made by.
"""
BARE: Final = "1"
"""The rules without the standard environment: of slices that an earlier release wrote."""
EXPANDERS: Final = (BARE, EXPANDER)
"""The versions that a member process of this release knows, the newest last."""
DEFAULT_PROFILE: Final = "default"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_PRIVATE_PREFIXES: Final = (f"{names.FEDERATION}/", "deployment.kubernetes.io/")
"""Annotations and labels under these stay where they are: ours, and what a member's own controllers
write.
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the pods of a slice learn of their project, their owner and their place, in addition to
    the rest of the slice. Texts are empty where nothing is known.

    It stays with the slice until its pods are made anew: a relabelled cluster, or an account with
    another owner, is no reason to restart a pod.
    """

    project: str = ""
    owner: str = ""
    region: str = ""
    zone: str = ""


NO_ENVIRONMENT: Final = Environment()


Profile = tuple[str, str]
"""Name and hash of the RuntimeProfile that a slice pins; empty where there is none."""
NO_PROFILE: Final[Profile] = ("", "")


@dataclass(frozen=True, slots=True)
class PodRules:
    """By what a member makes the pods of a slice: most slices of a cluster have the same."""

    profile: Profile = NO_PROFILE
    expander: str = EXPANDER
    environment: Environment = NO_ENVIRONMENT
    ran_until_s: int = 0
    """Due times up to then had their runs before the cluster was given its share, in epoch seconds;
    0 where none had, and for kinds that do not repeat."""
    overrides: str = ""
    """Digest of what policies change of the workload in this cluster; "" where they change nothing.
    """


USUAL_RULES: Final = PodRules()


@dataclass(frozen=True, slots=True)
class SliceMark:
    """All that the hub adds to a user's spec in a member (`spec.slice`, or an annotation for kinds
    that are not ours).

    `ranges` are the pieces of a JobSet: sorted and disjoint, adjacent ones not joined, since each
    has its own Job.
    """

    fleet: str
    workload_uid: str
    origin_generation: int
    cluster: str
    seq: int
    ranges: Ranges = ()
    rules: PodRules = USUAL_RULES
    pods: tuple[int, ...] = ()
    """Pods of each component of a gang that got fewer than it asks for."""


class HostStatus(Protocol):
    """(fold, merged conditions as the API spells them, name of the policy in force) -> the whole
    host `.status`.
    """

    def __call__(
        self, obj: Obj, fold: Fold, conditions: Sequence[Obj], *, policy: str = ""
    ) -> dict[str, Any]: ...


Natives = tuple[dict[str, Any], ...]
"""Native objects, those that others need first."""
Expand = Callable[[Obj, Obj | None], Natives]
"""(slice, RuntimeProfile object or None) -> native objects, those that others need first. Raises
FieldError.
"""


@dataclass(frozen=True, slots=True)
class PodLookup:
    """How the pods of a workload are found in a member, where pods carry no mark of ours."""

    selector: Callable[[Obj], str]
    """The label selector of its pods, as a list request takes it. Raises FieldError for one that
    selects none.
    """
    made_for: Callable[[str, Obj, Mapping[str, str]], bool]
    """(workload's name, controlling owner reference, labels) -> whether a pod so selected is its
    own.
    """
    shards: Callable[[str, Ranges], Callable[[str, str], int | None]] | None = None
    """(workload's name, ranges of the slice) -> (name of the owner, completion index) -> shard, or
    None where that cannot be told. Absent for interchangeable pods.
    """


@dataclass(frozen=True, slots=True)
class Role:
    """Equal pods of a gang."""

    name: str
    template: Obj
    path: str
    """Where the template stands in the object."""
    count: int
    """How many are wanted; on a slice, how many there are to be."""
    least: int
    """With fewer than these the gang is useless."""


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What of a Job in a member its gang's PodGroup depends on."""

    group: str
    """The PodGroup that its pods belong to, "" for none. It is fixed."""
    succeeded: int
    """Pods that have completed."""


@dataclass(frozen=True, slots=True)
class GangVerbs:
    """Of a kind that places all its pods together: one shard of it is all its pods."""

    roles: Callable[[Obj], tuple[Role, ...]]
    """Its components, in the order in which they are given pods."""
    completes: Callable[[Obj], frozenset[str]]
    """The components of which all pods must complete for the gang to be complete."""
    timeout_s: Callable[[Obj], float]
    """How long some of its pods may find no node before all give their nodes back, in seconds."""
    grouped: Callable[[Obj, Natives, Mapping[str, LiveJob], bool], Natives]
    """(slice, its natives, Jobs that are there by name, whether its PodGroup is) -> the natives for
    a cluster that serves PodGroups."""
    ungrouped: Callable[[Obj], str]
    """Why its pods belong to no PodGroup of ours wherever it runs, in words; "" where they do."""


@dataclass(frozen=True, slots=True)
class OrdinalVerbs:
    """Of a kind with numbered copies: each stays in the cluster where it began."""

    of: Callable[[Obj], Ordinals]
    sets: Callable[[str, Ranges], Mapping[str, Range]]
    """(workload's name, blocks of the slice) -> name of the native StatefulSet -> its block."""


@dataclass(frozen=True, slots=True)
class RepeatVerbs:
    """Of a kind that a controller in each cluster of its policy runs again and again by itself."""

    after: Callable[[Obj], int]
    """(slice) -> up to when others have run what was due, in epoch seconds; 0 for never. Its native
    object begins no run before it has been told so."""
    last: Callable[[Obj], int]
    """(status on the host) -> the newest due time that any cluster has run, in epoch seconds; 0
    where none has."""
    due_of: Callable[[str], int]
    """The scheduled time in the name of a run's native object, in epoch seconds; 0 for none."""


def _never(obj: Obj) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class WorkloadVerbs:
    """One row per workload kind."""

    unit: Unit
    """Quota admits shards entirely or not at all."""
    count: Callable[[Obj], int]
    """Replicas or shards."""
    slots: Callable[[Obj], int]
    """How many copies may run at once; equal to `count` for replicas."""
    pod_template: Callable[[Obj], Obj]
    pods: Callable[[Obj], dict[str, Any]]
    """Fields of spec that its pods are made from; a change of them is a roll-out (`podparts`)."""
    project: Callable[[Obj], str]
    """The quota account; the namespace's name when none is given."""
    tier: Callable[[Obj], Tier]
    priority: Callable[[Obj], int]
    placement: Callable[[Obj], Obj]
    """`{policyRef: name}` or the inline fields of a policy; {} when there are none."""
    fields: Mapping[str, tuple[str, ...]] = field(hash=False)
    """Where people set policyRef, priority and suspend: path in the object."""
    suspended: Callable[[Obj], bool]
    profile: Callable[[Obj], str]
    """Name of the RuntimeProfile that its pods get; "" for none."""
    sidecars: Callable[[Obj], Obj]
    """Parameters for the profile's containers, by container name."""
    max_unavailable: Callable[[Obj], int]
    """Copies that may be missing while shares move."""
    render_slice: Callable[[Obj, Share, SliceMark], dict[str, Any]]
    """The complete object for the member, every field of ours defaulted."""
    amount: str
    """The field of a slice's spec that says how much of the workload this cluster has, beside the
    mark; "" where having a slice says it all.
    """
    read_mark: Callable[[Obj], SliceMark | None]
    observe: Callable[[Obj, str, bool], SliceObservation]
    """(slice, cluster, reporting) -> what was last seen of it. The slice of one that does not exist
    is {}.
    """
    slice_status: Callable[[SliceObservation, Sequence[Obj]], dict[str, Any] | None]
    """The `.status` that the member writes on a slice (`observe` reads it back); None where a
    native controller writes it.
    """
    host_status: HostStatus
    lookup: PodLookup
    gang: GangVerbs | None = None
    """Of a kind that places its pods together or not at all. Its count is 1."""
    every_node: bool = False
    """A daemon: a cluster has it or not, and if it does, a pod runs on each node that admits it.
    Its count is 1.
    """
    startup_taint: Callable[[Obj], Taint | None] | None = None
    """Of a daemon: the taint that nodes lose when it is ready there; None where it asks for none.
    """
    overlaps: bool = False
    """Two copies of the same may run for a while without harm: only such kinds leave a cluster that
    is merely silent, where the former copies may be running on.
    """
    exclusive: Callable[[Obj], bool] = _never
    """Whether none of its shards may run in two clusters at once."""
    by_number: Callable[[Obj], bool] = _never
    """Whether its `maxUnavailable` is a number, which every cluster applies to its own share, and
    no percentage."""
    halted: Callable[[Obj], bool] = _never
    """Whether its owner has halted its roll-out: clusters make no pods of a changed template."""
    disruptions: Callable[[Obj], Disruptions | None] = lambda obj: None
    """Of its own disruption budget; None where it has none."""
    guarded: Callable[[Obj], bool] = _never
    """Whether guards in its pods stop them when their cluster's lease is over."""
    ordinals: OrdinalVerbs | None = None
    """For copies with numbers; None for interchangeable ones and for shards."""
    repeats: RepeatVerbs | None = None
    """For what each cluster of the policy runs again and again by itself. Its copies are what one
    run takes."""
    bounds: Callable[[Obj], tuple[int, int] | None] | None = None
    """(slice) -> between how many copies an autoscaler of the member chooses; None where it runs
    just its own. None for kinds without autoscaling."""
    end_rules: Callable[[Obj], EndRules] | None = None
    """When it ends, and what becomes of it then. None for what does not end."""
    expand: Expand | None = None
    """None for a native kind: a member's own controllers run its slice."""
    refusal: Callable[[Obj], FieldError | None] = lambda obj: None
    """Why it can never be placed as it is written; None when it can."""
    needs: Callable[[Obj], tuple[str, ...]] = lambda obj: ()
    """Kinds beside its own that a cluster has to serve, as `Kind.group`."""

    @property
    def carried(self) -> bool:
        """A native kind that is its own native object in members."""
        return self.expand is None


def encode_mark(mark: SliceMark) -> dict[str, Any]:
    """The slice block, as `spec.slice` holds it."""
    rules = mark.rules
    block: dict[str, Any] = {
        "fleet": mark.fleet,
        "workloadUID": mark.workload_uid,
        "originGeneration": mark.origin_generation,
        "cluster": mark.cluster,
        "seq": mark.seq,
        "expander": rules.expander,
    }
    if mark.ranges:
        block["ranges"] = shards.text(mark.ranges)
    if mark.pods:
        block["pods"] = list(mark.pods)
    if rules.profile[0]:
        block["profile"] = dict(zip(("name", "hash"), rules.profile, strict=True))
    if rules.environment is not NO_ENVIRONMENT and rules.environment != NO_ENVIRONMENT:
        texts = ((name, getattr(rules.environment, name)) for name in _ENVIRONMENT_FIELDS)
        block["environment"] = {name: text for name, text in texts if text}
    if rules.ran_until_s:
        block["ranUntil"] = raw.second(rules.ran_until_s)
    if rules.overrides:
        block["overrides"] = rules.overrides
    return block


ENVIRONMENT_TEXT_MAX: Final = 256
"""Characters of each text that are read: members may hold anything."""
_ENVIRONMENT_FIELDS: Final = tuple(field.name for field in fields(Environment))


def _environment(block: object) -> Environment:
    written = raw.mapping(block, "environment")
    if not written:
        return NO_ENVIRONMENT
    texts = {name: raw.text(written, name)[:ENVIRONMENT_TEXT_MAX] for name in _ENVIRONMENT_FIELDS}
    return Environment(**texts)


RULES_TEXT_MAX: Final = 512
"""Characters of the names in rules that are kept for other slices: members may hold anything."""


def _pod_rules(block: object) -> PodRules:
    profile = raw.mapping(block, "profile")
    name, content = raw.text(profile, "name"), raw.text(profile, "hash")
    expander, environment = raw.text(block, "expander"), _environment(block)
    ran_until_s = int(raw.epoch_s(raw.text(block, "ranUntil")))
    overrides = raw.text(block, "overrides")
    if len(name) + len(content) + len(expander) + len(overrides) > RULES_TEXT_MAX:
        return PodRules((name, content), expander, environment, ran_until_s, overrides)
    return _shared_rules((name, content), expander, environment, ran_until_s, overrides)


@functools.lru_cache(maxsize=4096)
def _shared_rules(
    profile: Profile, expander: str, environment: Environment, ran_until_s: int, overrides: str
) -> PodRules:
    return PodRules(profile, expander, environment, ran_until_s, overrides)


def newest_common(theirs: str) -> str:
    """The newest version of the rules that both sides know. `theirs` is the newest that a member
    process knows, "" for one that does not say: those before there was a second one.
    """
    if not theirs:
        return BARE
    return theirs if theirs in EXPANDERS else EXPANDER


def decode_mark(block: object) -> SliceMark | None:
    """Reads a slice block; None when it is none, or does not name its fleet and workload."""
    fleet, uid = raw.text(block, "fleet"), raw.text(block, "workloadUID")
    if not fleet or not uid:
        return None
    shared = interning.text
    return made_mark(
        fleet=shared(fleet),
        workload_uid=shared(uid),
        origin_generation=raw.integer(block, "originGeneration"),
        cluster=shared(raw.text(block, "cluster")),
        seq=interning.listed(seqs.clamped(raw.integer(block, "seq"))),
        ranges=raw.ranges(block, "ranges"),
        rules=_pod_rules(block),
        pods=raw.integers(block, "pods"),
    )


made_mark = quickly(SliceMark)


def mark_of_annotation(obj: Obj) -> SliceMark | None:
    """The mark of a kind that carries it as JSON in an annotation."""
    text = raw.text(obj, "metadata", "annotations", names.SLICE_ANNOTATION)
    return _mark_of_text(text) if text else None


@functools.lru_cache(maxsize=8)  # an object's mark is asked for several times while it is read
def _mark_of_text(text: str) -> SliceMark | None:
    try:
        return _usual_mark(text) or decode_mark(_decoded(text))
    except (ValueError, RecursionError):
        return None


_BLOCK: Final = ("fleet", "workloadUID", "originGeneration", "cluster", "seq", "expander")
_SELDOM: Final = ("ranges", "pods", "profile", "environment", "ranUntil", "overrides")
_Block = msgspec.defstruct("_Block", [(name, Any, None) for name in (*_BLOCK, *_SELDOM)])
_read_block = msgspec.json.Decoder(_Block).decode
_NONE_OF_THEM: Final = [None] * len(_SELDOM)


def _usual_mark(text: str) -> SliceMark | None:
    """What `decode_mark` makes of a block as nearly all are, in a third of the time: a hub that
    starts reads one for each slice. None for all others."""
    try:
        block = msgspec.structs.astuple(_read_block(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    fleet, uid, generation, cluster, seq, expander, *seldom = block
    texts = type(fleet) is type(uid) is type(cluster) is type(expander) is str
    if not (texts and type(generation) is type(seq) is int and seldom == _NONE_OF_THEM):
        return None
    if not (fleet and uid and len(expander) <= RULES_TEXT_MAX):
        return None
    fleet, uid, cluster = map(interning.text, (fleet, uid, cluster))
    number = interning.listed(seqs.clamped(seq))
    return made_mark(fleet, uid, generation, cluster, number, (), _usual_rules(expander))


@functools.lru_cache(maxsize=64)
def _usual_rules(expander: str) -> PodRules:
    return _shared_rules(NO_PROFILE, expander, NO_ENVIRONMENT, 0, "")


def _decoded(text: str) -> Any:
    """Python's own parser, ten times as slow, also takes what is no JSON: NaN, and half a surrogate
    pair."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return json.loads(text)


def is_as_written(obj: Obj, mark: SliceMark) -> bool:
    """Whether the block of this slice and its two labels say what `mark` says, spelled as the hub
    spells it.
    """
    labels = raw.mapping(obj, "metadata", "labels")
    if (
        labels.get(names.FLEET_LABEL) != mark.fleet
        or labels.get(names.WORKLOAD_UID_LABEL) != mark.workload_uid
    ):
        return False
    block = raw.at(obj, "spec", "slice")
    if block is not None:
        return bool(block == encode_mark(mark))
    return raw.text(obj, "metadata", "annotations", names.SLICE_ANNOTATION) == annotation_of_mark(
        mark
    )


def annotation_of_mark(mark: SliceMark) -> str:
    block = encode_mark(mark)
    try:
        quick = msgspec.json.encode(block, order="sorted")
    except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or a number beyond 64 bits
        quick = b""
    # The slow way escapes what is no ASCII, and slices are compared with what is written in members
    # already.
    plain = quick.isascii() and b"\x7f" not in quick
    return (
        quick.decode()
        if quick and plain
        else json.dumps(block, sort_keys=True, separators=(",", ":"))
    )


def slice_metadata(obj: Obj, mark: SliceMark) -> dict[str, Any]:
    """Name, namespace, the user's labels and annotations without private ones, and our two
    labels.
    """
    labels = _public(raw.text_map(obj, "metadata", "labels"))
    labels[names.FLEET_LABEL] = mark.fleet
    labels[names.WORKLOAD_UID_LABEL] = mark.workload_uid
    annotations = _public(raw.text_map(obj, "metadata", "annotations"))
    annotations.pop(LAST_APPLIED, None)
    metadata: dict[str, Any] = {
        "name": raw.text(obj, "metadata", "name"),
        "namespace": raw.text(obj, "metadata", "namespace"),
        "labels": labels,
    }
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _public(entries: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in entries.items() if not name.startswith(_PRIVATE_PREFIXES)
    }


def surge(value: object, copies: int) -> int:
    """A Deployment's maxSurge for so many copies: 25 % when left out, percentages rounded up. More
    than one additional pod for each copy does not count as surge."""
    if value is None or isinstance(value, str):
        percent = share_of_copies(value, 100, default_percent=25)
        return -(-copies * percent // 100)
    return min(share_of_copies(value, copies, default_percent=25), copies)


def share_of_copies(value: object, copies: int, *, default_percent: int) -> int:
    """An int-or-percent of `copies`, percentages rounded down (a Deployment's maxUnavailable)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(value, 0)
    percent = default_percent
    if (
        isinstance(value, str)
        and value.endswith("%")
        and value[:-1].isascii()
        and value[:-1].isdigit()
    ):
        percent = int(value[:-1])
    return copies * min(percent, 100) // 100
