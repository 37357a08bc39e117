"""Questions that the engine is asked: why a workload is where it is, and where one would go.

The owner of a workload cannot read what decisions depend on: clusters, quotas, cluster-wide
policies, what others hold. The hub asks the engine for them, with a situation that has their own
objects, the clusters, and only sums of everything else, so that the answer cannot name the
workloads of others. The engine runs next to the event loop (`hub/snapshot`), on the memory as it
was when it was asked, and stops when the caller has gone.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from federator.api import raw
from federator.hub.cache import policying
from federator.hub.cache.state import HubState
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.hub.query.access import AccessRefused
from federator.hub.records import decisions, workloads
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.hub.snapshot.computing import Broken, Compute
from federator.hub.snapshot.places import Full, Kind
from federator.hub.snapshot.world import StateCopy
from federator.kinds import read, registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.threads import Overloaded, Stop
from federator.model import plaintext
from federator.model.accounts import QuotaAccount
from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef
from federator.placement.policy.policies import Bindings, Policies
from federator.scheduling.entry import Standing
from federator.scheduling.queueing_hints import FOR_ROOM

T = TypeVar("T")
Explain = Callable[[Mapping[str, Any], Situation, Workload, Stop], dict[str, Any]]
"""The facts of one workload (`advice.facts`): of a floor above, so it is handed in."""
BODY_MAX_BYTES: Final = 256 * 1024
"""Of a manifest: as much as kubectl keeps of one in an annotation."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What answers are computed from."""

    state: HubState
    host: Client
    clock: Clock
    compute: Compute
    standing: Callable[[Workload], Standing]
    """What a workload has, as the hub knows it now."""
    timeout_s: float
    for_room: Callable[[], Iterable[Ask]] = tuple
    """Those that hold nothing and wait for room."""

    async def read(self, ref: ObjectRef) -> dict[str, Any] | None:
        """An object of the host; None where there is none. Raises `AccessRefused`."""
        try:
            return await self.host.get(ref, timeout_s=self.timeout_s)
        except errors.NotFound:
            return None
        except errors.ApiError:
            raise _unasked() from None

    async def computed(self, kind: Kind, work: Callable[..., T], *arguments: Any) -> T:
        """What is computed next to the loop. Raises `AccessRefused`."""
        try:
            return await self.compute(kind, work, *arguments)
        except (Full, Overloaded):
            raise AccessRefused(
                429, "TooManyRequests", "too many questions are being computed", retry_after_s=5
            ) from None
        except Broken:
            sentence = "the process that computes answers has ended and is started again"
            raise AccessRefused(503, "ServiceUnavailable", sentence, retry_after_s=5) from None
        except TimeoutError:
            sentence = "it could not be computed in time; try again, or ask for less"
            raise AccessRefused(503, "Timeout", sentence, retry_after_s=10) from None

    async def policy(self, namespace: str, name: str) -> dict[str, Any] | None:
        """A PlacementPolicy; None where there is none. Raises `AccessRefused`. Listed by its name:
        the hub's account may list policies and get none."""
        kind = registry.KINDS["PlacementPolicy"]
        try:
            async with asyncio.timeout(self.timeout_s):
                listing = await self.host.list(
                    kind.api_version, kind.plural, namespace, field_selector=f"metadata.name={name}"
                )
        except (errors.ApiError, TimeoutError):
            raise _unasked() from None
        return next(({**obj, "kind": kind.kind} for obj in listing.items), None)


def _unasked() -> AccessRefused:
    return AccessRefused(
        503, "ServiceUnavailable", "the host cannot be asked for it", retry_after_s=2
    )


async def explained(inputs: Inputs, key: WorkloadKey, explain: Explain) -> msgspec.Raw:
    """The facts of a workload in JSON, as its owner may know them. Raises `AccessRefused`."""
    kind = registry.KINDS[key.kind]
    obj = await inputs.read(kind.ref(key.namespace, key.name))
    if obj is None:
        raise AccessRefused(
            404, "NotFound", f'{kind.plural} "{key.name}" not found in namespace {key.namespace}'
        )
    subject = await subject_of(inputs, key.kind, obj)
    return msgspec.Raw(await inputs.computed(Kind.WHAT_IF, _explained, obj, subject, explain))


def _explained(
    world: StateCopy, obj: Mapping[str, Any], subject: "Subject", explain: Explain, stop: Stop
) -> bytes:
    situation = situation_of(world, subject)
    return msgspec.json.encode(plaintext.every(explain(obj, situation, subject.workload, stop)))


async def tried(inputs: Inputs, kind: str, namespace: str, body: bytes) -> msgspec.Raw:
    """The decision that the hub would make for a manifest, or for an edit if a workload of its name
    is there. Nothing is written, nothing charged. Raises `AccessRefused`."""
    if inputs.state.refuses_native(kind):
        raise AccessRefused(
            422, "Invalid", f"this host runs a {kind} itself, so it is not carried to members"
        )
    if namespace not in inputs.state.spaces:
        raise AccessRefused(404, "NotFound", f'namespace "{namespace}" not found')
    key, given = await inputs.computed(Kind.WHAT_IF, _read, body, kind, namespace)
    live = await inputs.read(registry.KINDS[kind].ref(namespace, key.name))
    subject = await subject_of(inputs, kind, edited(given, live, inputs.clock.rfc3339()))
    if problem := subject.workload.problem:
        raise AccessRefused(422, "Invalid", plaintext.visible(problem))
    return msgspec.Raw(await inputs.computed(Kind.WHAT_IF, _tried, subject))


def _read(
    _: StateCopy, body: bytes, kind: str, namespace: str, __: Stop
) -> tuple[WorkloadKey, dict[str, Any]]:
    return manifest(body, kind, namespace)


def _tried(world: StateCopy, subject: "Subject", _: Stop) -> bytes:
    ((ask, decision),) = situation_of(world, subject).decide_all()
    shown = offline.as_object(ask, decision, "placed as a trial")
    return msgspec.json.encode(plaintext.every(shown))


def manifest(body: bytes, kind: str, namespace: str) -> tuple[WorkloadKey, dict[str, Any]]:
    """The one workload of a request's body. Raises `AccessRefused` with every field that is
    wrong."""
    try:
        objs = read.load_json(body)
        if len(objs) != 1:
            raise AccessRefused(
                400, "BadRequest", f"the body must hold one {kind}, and holds {len(objs)} objects"
            )
        read.check(objs[0])
    except read.InvalidObject as bad:
        raise AccessRefused(
            422, "Invalid", plaintext.clipped(str(bad).replace("\n", "; "))
        ) from None
    obj = objs[0]
    said, name = raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name")
    if obj.get("kind") != kind or obj.get("apiVersion") != registry.KINDS[kind].api_version:
        raise AccessRefused(
            400, "BadRequest", f"the body must hold a {kind} of {registry.KINDS[kind].api_version}"
        )
    if said not in ("", namespace):
        raise AccessRefused(
            400, "BadRequest", f"metadata.namespace: must be {namespace}, as in the path"
        )
    if not name:
        raise AccessRefused(422, "Invalid", "metadata.name: is required")
    obj["metadata"]["namespace"] = namespace
    return WorkloadKey(kind, namespace, name), obj


def edited(given: Mapping[str, Any], live: Mapping[str, Any] | None, now: str) -> dict[str, Any]:
    """The object as it would be once it is written: a new one, or `live` with the spec, labels and
    annotations that are given."""
    meta = {
        name: value for name, value in given["metadata"].items() if name in ("name", "namespace")
    }
    for name in ("labels", "annotations"):
        meta[name] = {
            **raw.text_map(raw.mapping(live, "metadata"), name),
            **raw.text_map(given["metadata"], name),
        }
    head = {
        "apiVersion": given["apiVersion"],
        "kind": given["kind"],
        "spec": raw.mapping(given, "spec"),
    }
    if live is None:
        uid = f"{given['kind']}/{meta['namespace']}/{meta['name']}"  # ties break the same each time
        return {**head, "metadata": {**meta, "uid": uid, "generation": 1, "creationTimestamp": now}}
    metadata = raw.mapping(live, "metadata")
    kept = {name: metadata[name] for name in ("uid", "creationTimestamp") if name in metadata}
    generation = raw.integer(metadata, "generation") + 1
    return {
        **head,
        "metadata": {**meta, **kept, "generation": generation},
        "status": raw.mapping(live, "status"),
    }


@dataclass(frozen=True, slots=True)
class Subject:
    """What an answer about one workload needs beyond the world: its owner's objects, and what only
    the hub's controllers know."""

    workload: Workload
    """As it is, or as it would be."""
    standing: Standing
    objects: tuple[Mapping[str, Any], ...]
    for_room: tuple[WorkloadKey, ...]
    """Workloads that hold nothing and wait for room."""
    rivals: Mapping[str, str]


async def subject_of(inputs: Inputs, kind: str, obj: Mapping[str, Any]) -> Subject:
    """Reads what belongs to one workload. Raises `AccessRefused`."""
    state = inputs.state
    verbs, namespace = registry.verbs_of(kind), raw.text(obj, "metadata", "namespace")
    versions = state.profiles.get(verbs.profile(obj), {})
    profile = versions.get("object")
    workload = workloads.summarise(kind, obj, profile, versions.get("priced", ()))
    decision = registry.KINDS["PlacementDecision"].ref(
        namespace, decisions.name_of(workload.key, workload.uid)
    )
    ask = policying.asked(workload, state.rules, state.bindings())
    mine = [{**obj, "apiVersion": registry.KINDS[kind].api_version, "kind": kind}]
    known = workload.key in state.workloads  # nothing has been decided about a new one
    if known and (recorded := await inputs.read(decision)) is not None:
        mine.append({**recorded, "kind": decision.kind})
    mine += _holding(inputs, workload)
    if ask is not None and ask.policy.namespace:
        policy = await inputs.policy(namespace, ask.policy.name)
        mine += [policy] if policy is not None else []
    if profile is not None:
        mine.append({**profile, "kind": "RuntimeProfile"})
    waits = _waits(state.record_of(workload), state.quotas.values())
    return Subject(
        workload,
        inputs.standing(workload),
        tuple(mine),
        tuple(ask.key for ask in inputs.for_room()) if waits else (),
        state.host_names.rivals(workload, state.workloads, state.record_of, state.barred),
    )


def _waits(record: Record | None, quotas: Iterable[QuotaAccount]) -> bool:
    """Whether the workload waits for something, or may wait: then what ends counts."""
    if record is None or record.terms.shortfall > 0 or record.terms.reason in FOR_ROOM:
        return True
    return any(account.backfills for account in quotas)


def _holding(inputs: Inputs, workload: Workload) -> list[dict[str, Any]]:
    """The MemberClusters that its decision gives something."""
    record = inputs.state.record_of(workload)
    held = [share.cluster for share in record.shares] if record is not None else []
    members = inputs.state.members
    return [{**members[name].obj, "kind": "MemberCluster"} for name in held if name in members]


def situation_of(world: StateCopy, subject: Subject, *, queue: bool = True) -> Situation:
    """What the engine needs for one workload: of other tenants it has sums and nothing else.
    Without `queue` it has only what decides: no jobs, which say when others end, and of workloads
    that wait only those that may have room kept for them. That costs less in a large fleet."""
    snapshot, workload = world.snapshot, subject.workload
    key = workload.key
    record = world.record_of(workload)
    counted = {
        name: view.capacity.includes_seq
        for name, view in snapshot.clusters.items()
        if view.capacity
    }
    waits = _waits(record, snapshot.quotas)
    ends = waits and (queue or any(account.backfills for account in snapshot.quotas))
    rules = (
        rule for rule in world.rules if rule.cluster_wide or rule.policy.namespace == key.namespace
    )
    bindings = Bindings(snapshot.quotas)
    workloads_in = policying.by_namespace(world.workloads.values())
    peers = policying.nearby(world.rules, bindings, workloads_in)
    others = [peer.uid for peer in peers(key.namespace)]
    return Situation(
        snapshot=snapshot,
        rules=Policies(rules, in_force_max=world.rules.in_force_max),
        workloads={key: workload},
        records={key: record} if record is not None else {},
        commitments=world.commitments.as_now(workload.uid, counted, ends=ends, neighbours=others),
        objects={offline.id_of(obj): obj for obj in subject.objects},
        standings={key: subject.standing},
        for_room=tuple(asks(world, subject.for_room)) if ends else (),
        jobs=tuple(_jobs(world)) if waits and queue else (),
        rivals=subject.rivals,
        peers=peers,
    )


def asks(world: StateCopy, keys: Iterable[WorkloadKey]) -> Iterator[Ask]:
    """The asks of these workloads under the policies in force."""
    bindings = Bindings(world.snapshot.quotas)
    for key in keys:
        workload = world.workloads.get(key)
        ask = policying.asked(workload, world.rules, bindings) if workload is not None else None
        if ask is not None:
            yield ask


def _jobs(world: StateCopy) -> Iterator[tuple[Workload, Record]]:
    """All jobs with their decisions: those that have ended say how long such work runs."""
    for key in sorted(world.jobs):
        workload = world.workloads[key]
        if workload.wants is not None and (record := world.record_of(workload)) is not None:
            yield workload, record
