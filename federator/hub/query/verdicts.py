"""The verdict on a submission (`POST /v1/namespaces/{namespace}/verdict`): the decision of the next
cycle about some workloads that are not written yet.

The submission gateway asks for it, with its own account and after it has checked the rights of its
user, so the port asks for a right of its own: `create verdicts.federation.pinterest.com`. No such
objects exist. The answer names workloads of others no more than `place` does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from federator.api import decoding, raw
from federator.hub.placing import offline
from federator.hub.placing.offline import Situation
from federator.hub.query import advising
from federator.hub.query.access import Refused
from federator.hub.query.advising import Inputs, Subject
from federator.hub.snapshot.places import Kind
from federator.hub.snapshot.world import World
from federator.kinds import read, registry
from federator.kube.threads import Stop
from federator.model import plaintext
from federator.model.errors import FieldError
from federator.model.names import WorkloadKey

BODY_MAX_BYTES: Final = 2 * 1024 * 1024
OBJECTS_MAX: Final = 32
"""Workloads of one submission."""
RESOURCE: Final = "verdicts"
Verdict = Callable[
    [
        Callable[[], Situation],
        Sequence[WorkloadKey],
        Callable[[WorkloadKey], Situation],
        Stop,
    ],
    dict[str, Any],
]
"""The verdict (`advice.plans.verdicts`): of a floor above, so it is handed in."""


async def judged(inputs: Inputs, namespace: str, body: bytes, verdict: Verdict) -> msgspec.Raw:
    """The verdict on the workloads of a body, as objects, in JSON. Raises `Refused`."""
    if namespace not in inputs.state.spaces:
        raise Refused(404, "NotFound", f'namespace "{namespace}" not found')
    subjects = []
    for at, obj in enumerate(parsed(body)):
        subjects.append(await _subject(inputs, obj, namespace, f"objects[{at}]"))
    return msgspec.Raw(
        await inputs.computed(Kind.VERDICT, document, tuple(subjects), verdict),
    )


def parsed(body: bytes) -> list[dict[str, Any]]:
    """The workloads of a body `{"objects": [...]}`. Raises `Refused` with what is wrong."""
    try:
        given = decoding.from_json(body)
    except FieldError as bad:
        raise Refused(400, "BadRequest", plaintext.clipped(str(bad))) from None
    objects = given.get("objects") if isinstance(given, dict) and len(given) == 1 else None
    if not isinstance(objects, list) or not 0 < len(objects) <= OBJECTS_MAX:
        sentence = f"the body must be an object with objects: a list of 1 to {OBJECTS_MAX}"
        raise Refused(400, "BadRequest", sentence)
    for at, obj in enumerate(objects):
        try:
            read.check(obj, f"objects[{at}]")
        except read.InvalidObject as bad:
            sentence = plaintext.clipped(str(bad).replace("\n", "; "))
            raise Refused(422, "Invalid", sentence) from None
    return objects


async def _subject(inputs: Inputs, obj: dict[str, Any], namespace: str, path: str) -> Subject:
    kind, meta = raw.text(obj, "kind"), raw.mapping(obj, "metadata")
    if kind not in registry.WORKLOADS:
        raise Refused(422, "Invalid", f"{path}.kind: a {kind} is no workload")
    if inputs.state.refuses_native(kind):
        raise Refused(422, "Invalid", f"{path}.kind: this host runs a {kind} itself")
    name = raw.text(meta, "name")
    if raw.text(meta, "namespace") != namespace or not name:
        sentence = f"{path}.metadata: must have a name and the namespace {namespace}"
        raise Refused(422, "Invalid", sentence)
    known = inputs.state.workloads.get(WorkloadKey(kind, namespace, name))
    live = await inputs.read(registry.KINDS[kind].ref(namespace, name)) if known else None
    subject = await advising.subject_of(
        inputs, kind, advising.edited(obj, live, inputs.clock.rfc3339())
    )
    if problem := subject.workload.problem:
        raise Refused(422, "Invalid", f"{path}.{plaintext.visible(problem)}")
    return subject


def document(world: World, subjects: tuple[Subject, ...], verdict: Verdict, stop: Stop) -> bytes:
    """The verdict in JSON."""
    by_key = {subject.workload.key: subject for subject in subjects}

    def narrow(key: WorkloadKey) -> Situation:
        return advising.situation_of(world, by_key[key])

    made = verdict(lambda: _situation(world, by_key), tuple(by_key), narrow, stop)
    return msgspec.json.encode(plaintext.every(made))


def _situation(world: World, subjects: Mapping[WorkloadKey, Subject]) -> Situation:
    """All that the next cycle reads, with the workloads of the submission as they would be."""
    added = {key: subject.workload for key, subject in subjects.items()}
    objects = [obj for subject in subjects.values() for obj in subject.objects]
    return Situation(
        snapshot=world.snapshot,
        rules=world.rules,
        workloads={**world.workloads, **added},
        records={workload.key: record for workload, record in world.records()},
        commitments=world.commitments,
        objects={offline.id_of(obj): obj for obj in objects},
        standings={key: subject.standing for key, subject in subjects.items()},
        for_room=tuple(
            advising.asks(world, {key for each in subjects.values() for key in each.for_room})
        ),
        rivals={host: rival for each in subjects.values() for host, rival in each.rivals.items()},
    )
