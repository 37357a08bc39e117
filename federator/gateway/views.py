"""What became of a submission, read from its objects. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from federator.api import raw, submissions
from federator.api.submissions import Record
from federator.gateway.api.models import Member, Submission, Verdict
from federator.gateway.platforms import table
from federator.model import plaintext

ENDED: Final = frozenset({"Succeeded", "Failed", "Superseded", "Deleted"})
"""States that do not change any more."""
STATES: Final = (
    "Failed",
    "Deleted",
    "Incomplete",
    "Queued",
    "Pending",
    "Placed",
    "Running",
    "Succeeded",
)
"""States of objects; the first of them is that of the submission."""
SUPERSEDED: Final = "Superseded"


def submission(
    namespace: str, record: Record, objs: Sequence[Mapping[str, Any]], **more: Any
) -> Submission:
    """The submission as it is answered. `objs`: its objects that are there."""
    by_name = {f"{obj['kind']}/{raw.text(obj, 'metadata', 'name')}": obj for obj in objs}
    members = [_member(name, by_name.get(name)) for name in record.objects]
    newest = [each for obj in objs for each in submissions.read(obj)[:1]]
    if newest and all(each.id != record.id for each in newest):
        state = SUPERSEDED
    else:
        state = min((each.state for each in members), key=STATES.index, default="Incomplete")
    return Submission(
        id=record.id,
        namespace=namespace,
        workflow=record.workflow,
        platform=platform_of(record),
        state=state,
        artifact=record.artifact,
        version=record.version,
        digest=record.digest,
        parameters=dict(record.parameters),
        submittedBy=plaintext.visible(record.by),
        submittedAt=record.at,
        objects=members,
        **more,
    )


def listed(namespace: str, workflow: str, objs: Iterable[Mapping[str, Any]]) -> list[Submission]:
    """All submissions of a workflow that its objects tell of, the newest first."""
    known: dict[str, Record] = {}
    holders: dict[str, list[Mapping[str, Any]]] = {}
    for obj in objs:
        for at, record in enumerate(submissions.read(obj)):
            if record.workflow != workflow:
                continue
            if at == 0 or record.id not in known:
                known[record.id] = record
            holders.setdefault(record.id, []).append(obj)
    made = [submission(namespace, record, holders[each]) for each, record in known.items()]
    return sorted(made, key=lambda each: (each.submitted_at, each.id), reverse=True)


def _member(name: str, obj: Mapping[str, Any] | None) -> Member:
    kind, _, own = name.partition("/")
    if obj is None:
        return Member(kind=kind, name=own, state="Incomplete", message="is not created, or deleted")
    progress = table.PLATFORMS.kinds[kind].progress(obj)
    return Member(
        kind=kind,
        name=own,
        state=progress.state,
        desired=progress.desired,
        placed=progress.placed,
        ready=progress.ready,
        clusters=progress.clusters,
        message=progress.message,
    )


def platform_of(record: Record) -> str:
    """The name of the platform of a submission: all its objects are of one."""
    return table.PLATFORMS.name_of(record.objects[0].partition("/")[0]) if record.objects else ""


def with_queue(shown: Submission, verdict: Verdict) -> Submission:
    """With the place in the queue of each object that waits."""
    places = {(each.kind, each.name): each.queue for each in verdict.workloads}
    members = [
        each.model_copy(update={"queue": places.get((each.kind, each.name))})
        for each in shown.objects
    ]
    return shown.model_copy(update={"objects": members})
