"""The verdict on a submission (`POST /v1/namespaces/{namespace}/verdict`): the decision of the next
cycle about some workloads that are not written yet.

The submission gateway asks for it, with its own account and after it has checked the rights of its
user, so the port asks for a right of its own: `create verdicts.federation.pinterest.com`. No such
objects exist. The answer names workloads of others no more than `place` does.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from federator.api import decoding, raw
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.hub.query import advising
from federator.hub.query.access import AccessRefused
from federator.hub.query.advising import Inputs, Subject
from federator.hub.snapshot.places import Kind
from federator.hub.snapshot.quick import Quick
from federator.hub.snapshot.world import Recorded, StateCopy
from federator.kinds import read, registry
from federator.kube.threads import Stop
from federator.model import plaintext
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey
from federator.model.neighbours import NOBODY

BODY_MAX_BYTES: Final = 2 * 1024 * 1024
OBJECTS_MAX: Final = 32
"""Workloads of one submission."""
QUICK_MAX: Final = 4
"""Workloads of a submission that the worker decides itself; more go to a process of their own."""
WAITING_MAX: Final = 64
"""Workloads that wait for room, beside which a decision is short."""
LAST_SEQ: Final = 1 << 52
"""Above all numbers of decisions. A verdict is not kept."""
RESOURCE: Final = "verdicts"
QUICK_CLUSTERS: Final = 200
"""In a larger fleet the worker decides no changes for a refusal itself."""
Narrow = Callable[[WorkloadKey], Situation]


@dataclass(frozen=True, slots=True)
class VerdictMakers:
    """How verdicts are made (`advice.plans.verdicts`): by functions of a floor above, so they are
    handed in."""

    whole: Callable[[Callable[[], Situation], Sequence[WorkloadKey], Narrow, Stop], dict[str, Any]]
    """Whatever it takes."""
    quick: Callable[[Situation, Sequence[WorkloadKey], Narrow, Stop, bool], dict[str, Any] | None]
    """If one decision is enough, else None. With True, a refusal of one workload counts too."""


async def judged(
    inputs: Inputs, namespace: str, body: bytes, verdict: VerdictMakers
) -> msgspec.Raw:
    """The verdict on the workloads of a body, as objects, in JSON. Raises `AccessRefused`."""
    if namespace not in inputs.state.spaces:
        raise AccessRefused(404, "NotFound", f'namespace "{namespace}" not found')
    subjects = []
    for at, obj in enumerate(parsed(body)):
        subjects.append(await _subject(inputs, obj, namespace, f"objects[{at}]"))
    return msgspec.Raw(
        await inputs.computed(Kind.VERDICT, WORK, tuple(subjects), verdict),
    )


def parsed(body: bytes) -> list[dict[str, Any]]:
    """The workloads of a body `{"objects": [...]}`. Raises `AccessRefused` with what is wrong."""
    try:
        given = decoding.from_json(body)
    except FieldError as bad:
        raise AccessRefused(400, "BadRequest", plaintext.clipped(str(bad))) from None
    objects = given.get("objects") if isinstance(given, dict) and len(given) == 1 else None
    if not isinstance(objects, list) or not 0 < len(objects) <= OBJECTS_MAX:
        sentence = f"the body must be an object with objects: a list of 1 to {OBJECTS_MAX}"
        raise AccessRefused(400, "BadRequest", sentence)
    for at, obj in enumerate(objects):
        try:
            read.check(obj, f"objects[{at}]")
        except read.InvalidObject as bad:
            sentence = plaintext.clipped(str(bad).replace("\n", "; "))
            raise AccessRefused(422, "Invalid", sentence) from None
    return objects


async def _subject(inputs: Inputs, obj: dict[str, Any], namespace: str, path: str) -> Subject:
    kind, meta = raw.text(obj, "kind"), raw.mapping(obj, "metadata")
    if kind not in registry.WORKLOADS:
        raise AccessRefused(422, "Invalid", f"{path}.kind: a {kind} is no workload")
    if inputs.state.refuses_native(kind):
        raise AccessRefused(422, "Invalid", f"{path}.kind: this host runs a {kind} itself")
    name = raw.text(meta, "name")
    if raw.text(meta, "namespace") != namespace or not name:
        sentence = f"{path}.metadata: must have a name and the namespace {namespace}"
        raise AccessRefused(422, "Invalid", sentence)
    known = inputs.state.workloads.get(WorkloadKey(kind, namespace, name))
    live = await inputs.read(registry.KINDS[kind].ref(namespace, name)) if known else None
    subject = await advising.subject_of(
        inputs, kind, advising.edited(obj, live, inputs.clock.rfc3339())
    )
    if problem := subject.workload.problem:
        raise AccessRefused(422, "Invalid", f"{path}.{plaintext.visible(problem)}")
    return subject


def at_once(
    world: StateCopy, subjects: tuple[Subject, ...], verdict: VerdictMakers, stop: Stop
) -> bytes | None:
    """The verdict in JSON if one decision is enough; None if it takes more."""
    if len(subjects) > QUICK_MAX:
        return None
    keys = tuple(subject.workload.key for subject in subjects)
    waiting = _waiting(world, subjects)
    if len(waiting) > WAITING_MAX or any(world.rules.relates(key.namespace) for key in keys):
        return None
    situation = Situation(
        snapshot=world.snapshot,
        rules=world.rules,
        workloads={subject.workload.key: subject.workload for subject in subjects},
        records={
            subject.workload.key: record
            for subject in subjects
            if (record := world.record_of(subject.workload)) is not None
        },
        commitments=world.commitments,  # only read, so what is remembered of them stays
        objects=_objects(subjects),
        standings={subject.workload.key: subject.standing for subject in subjects},
        for_room=tuple(advising.asks(world, waiting)),
        jobs=(),
        peers=NOBODY,
        rivals=_rivals(subjects),
        empty=world.empty,
    )
    few = len(keys) == 1 and len(world.snapshot.clusters) <= QUICK_CLUSTERS
    narrow = _narrow(world, subjects, queue=False)  # a workload in the queue takes more anyway
    made = verdict.quick(situation, keys, narrow, stop, few)
    return None if made is None else _encoded(made)


def document(
    world: StateCopy, subjects: tuple[Subject, ...], verdict: VerdictMakers, stop: Stop
) -> bytes:
    """The verdict in JSON, whatever it takes."""
    by_key = {subject.workload.key: subject for subject in subjects}
    narrow = _narrow(world, subjects)
    return _encoded(verdict.whole(lambda: _situation(world, by_key), tuple(by_key), narrow, stop))


def _narrow(world: StateCopy, subjects: Sequence[Subject], *, queue: bool = True) -> Narrow:
    """The situation of each workload as its owner may know it."""
    by_key = {subject.workload.key: subject for subject in subjects}

    def of(key: WorkloadKey) -> Situation:
        return replace(advising.situation_of(world, by_key[key], queue=queue), empty=world.empty)

    return of


WORK: Final = Quick(at_once, document)
"""What is asked of the snapshot worker."""


def _encoded(made: Mapping[str, Any] | None) -> bytes:
    return msgspec.json.encode(plaintext.every(made))


def _situation(world: StateCopy, subjects: Mapping[WorkloadKey, Subject]) -> Situation:
    """All that the next cycle reads, with the workloads of the submission as they would be."""
    added = {key: subject.workload for key, subject in subjects.items()}
    every = tuple(subjects.values())
    return Situation(
        snapshot=world.snapshot,
        rules=world.rules,
        workloads=ChainMap(added, world.workloads),
        records=ChainMap({}, Recorded(world)),  # type: ignore[arg-type]  # writes go to the first
        last_seq=LAST_SEQ,
        commitments=world.commitments,
        objects=_objects(every),
        standings={key: subject.standing for key, subject in subjects.items()},
        for_room=tuple(advising.asks(world, _waiting(world, every))),
        rivals=_rivals(every),
        empty=world.empty,
    )


def _waiting(world: StateCopy, subjects: Sequence[Subject]) -> set[WorkloadKey]:
    """Those that wait for room and may have it kept for them."""
    if not any(account.backfills for account in world.snapshot.quotas):
        return set()
    return {key for each in subjects for key in each.for_room}


def _objects(subjects: Sequence[Subject]) -> dict[offline.Id, Mapping[str, Any]]:
    return {offline.id_of(obj): obj for subject in subjects for obj in subject.objects}


def _rivals(subjects: Sequence[Subject]) -> dict[str, str]:
    return {host: rival for subject in subjects for host, rival in subject.rivals.items()}
