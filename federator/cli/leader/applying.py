"""The writes of a saved plan, one after the other, on the objects as they were planned with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.advice.plans import edits
from federator.advice.plans.edits import Obj
from federator.advice.plans.saved import Saved
from federator.cli import common
from federator.hub.placing import offline
from federator.hub.placing.offline import Id
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef

TRIES: Final = 10
"""Writes of one object, where each is refused because its status was written just before."""
ORDER: Final = (
    "Namespace",
    "RuntimeProfile",
    "FederatedQuota",
    "PlacementInvariant",
    "ClusterPlacementPolicy",
    "PlacementPolicy",
    "MemberCluster",
)
"""Kinds in the order in which they are written; workloads come last."""
_PLANNED: Final = ("uid", "generation", "deletionTimestamp", "labels", "annotations")
"""Metadata that a status write leaves as it is."""


UNANSWERED: Final = (errors.Unreachable, errors.ServerTrouble, errors.Malformed)
"""Errors of a write that may have taken effect."""


class Unknown(Exception):
    """It is unknown if a write took effect."""


class StatusConflicts(Exception):
    """Every try was refused because the status of the object was written just before."""


@dataclass(frozen=True, slots=True)
class Step:
    """The write of one object."""

    what: str
    """`applied`, `scaled` or `deleted`."""
    which: Id
    given: Obj | None = None
    """The object to apply."""
    count: int | None = None
    """The copies to scale to."""

    @property
    def title(self) -> str:
        return f"{self.which[0]}/{self.which[2]}"

    def __str__(self) -> str:
        return f"{self.title} {self.what}"


def steps_of(made: Saved) -> list[Step]:
    """The writes of a plan in their order. An object that is applied and scaled is written once."""
    counts = dict(made.scaled)
    applied = {offline.id_of(obj) for obj in made.applied}
    ordered = [(offline.id_of(obj), obj) for obj in sorted(made.applied, key=_order)]
    return [
        *(Step("applied", which, obj, counts.get(which)) for which, obj in ordered),
        *(
            Step("scaled", which, count=count)
            for which, count in counts.items()
            if which not in applied
        ),
        *(Step("deleted", which) for which in made.deleted),
    ]


def _order(obj: Obj) -> int:
    kind = str(obj["kind"])
    return ORDER.index(kind) if kind in ORDER else len(ORDER)


async def live(host: Client, made: Saved) -> dict[Id, Obj]:
    """The objects that the plan edits, as far as they exist. Raises ApiError."""
    seen: dict[Id, Obj] = {}
    for step in steps_of(made):
        if step.which not in seen and (obj := await _read(host, step.which)) is not None:
            seen[step.which] = obj
    return seen


async def write(host: Client, made: Saved, live: Mapping[Id, Obj]) -> None:
    """Carries out the plan on the objects as they were read before it was planned again. Ends the
    command at the first write that fails, with what was written before."""
    steps = steps_of(made)
    for step in steps:
        if step.what == "scaled" and step.which not in live:
            common.fail(f"{step.title}: not scaled: it does not exist", "nothing was written")
    for at, step in enumerate(steps):
        try:
            await _written(host, step, live.get(step.which))
        except Unknown as trouble:
            unknown = f"it is unknown if it was {step.what}: {trouble}"
            common.fail(f"{step.title}: {unknown}", *_done(steps[:at]), *_open(steps[at + 1 :]))
        except StatusConflicts:
            why = f"its status was written just before each of {TRIES} tries; apply the plan again"
            common.fail(f"{step.title}: not {step.what}: {why}", *_left(steps, at))
        except errors.Conflict:
            why = "it was changed by somebody else meanwhile"
            common.fail(f"{step.title}: not {step.what}: {why}", *_left(steps, at))
        except errors.ApiError as trouble:
            common.fail(f"{step.title}: not {step.what}: {trouble}", *_left(steps, at))
        common.say(str(step))


def _left(steps: Sequence[Step], at: int) -> list[str]:
    return [*(_done(steps[:at]) or ["nothing was written"]), *_open(steps[at + 1 :])]


def _done(steps: Sequence[Step]) -> list[str]:
    return [f"done before: {', '.join(map(str, steps))}"] if steps else []


def _open(steps: Sequence[Step]) -> list[str]:
    """The writes that were not tried, in words."""
    return [f"left to do: {', '.join(map(str, steps))}"] if steps else []


async def _written(host: Client, step: Step, live: Obj | None) -> None:
    """One write, of the state of the object that was planned with. Its status may have changed
    since, as each write of the plan makes the hub write status. Raises ApiError, `Unknown` and
    `StatusConflicts`."""
    for _ in range(TRIES):
        try:
            await _send(host, step, live)
        except errors.Conflict:
            newer = await _read(host, step.which)
            if live is None or newer is None or _planned(newer) != _planned(live):
                raise
            live = newer
        else:
            return
    raise StatusConflicts


def _planned(obj: Obj) -> tuple[Any, ...]:
    """The object without its status and what a status write changes."""
    meta = obj["metadata"]
    return obj.get("spec"), *(meta.get(name) for name in _PLANNED)


async def _send(host: Client, step: Step, live: Obj | None) -> None:
    """Raises ApiError; `Unknown` if there is no answer and the object does not show the write."""
    if step.what == "deleted" and live is None:
        return
    body = None if step.what == "deleted" else _body(step, live)
    try:
        await _request(host, step, live, body)
    except UNANSWERED as trouble:
        try:
            seen = await _read(host, step.which)
        except errors.ApiError:
            raise Unknown(str(trouble)) from trouble
        if not _shows(seen, body, live):
            raise Unknown(f"{trouble}; a read after it does not show the write") from trouble


async def _request(host: Client, step: Step, live: Obj | None, body: dict[str, Any] | None) -> None:
    ref = _ref(step.which)
    if body is None:
        assert live is not None
        meta = live["metadata"]
        await host.delete(ref, uid=meta["uid"], resource_version=meta["resourceVersion"])
    elif live is None:
        await host.create(ref, body, strict=True)
    else:
        await host.replace(ref, body, strict=True)


def _shows(seen: Obj | None, body: Obj | None, live: Obj | None) -> bool:
    """Whether the object is as it is after the write. `body`: None for a deletion."""
    if seen is None or body is None:
        uid = live["metadata"]["uid"] if live is not None else ""
        meta = seen["metadata"] if seen is not None else {"uid": ""}
        return body is None and (meta["uid"] != uid or "deletionTimestamp" in meta)
    texts = ("labels", "annotations")
    return _holds(body.get("spec", {}), seen.get("spec", {})) and all(
        _holds(body["metadata"].get(name) or {}, seen["metadata"].get(name) or {}) for name in texts
    )


def _holds(wanted: Any, seen: Any) -> bool:
    """Whether everything wanted is there; the server may have added defaults."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return all(name in seen and _holds(part, seen[name]) for name, part in wanted.items())
    if isinstance(wanted, list) and isinstance(seen, list):
        return len(wanted) == len(seen) and all(map(_holds, wanted, seen))
    return bool(wanted == seen)


def _body(step: Step, live: Obj | None) -> dict[str, Any]:
    """The object that an `applied` or `scaled` step writes."""
    body = dict(live or {}) if step.given is None else edits.written(step.given, live)
    if step.count is not None:
        amount = registry.verbs_of(step.which[0]).amount
        body["spec"] = {**body["spec"], amount: step.count}
    return body


async def _read(host: Client, which: Id) -> Obj | None:
    """The object; None if there is none. Raises ApiError."""
    try:
        return await host.get(_ref(which))
    except errors.NotServed:
        raise  # a proxy may have answered: it does not prove that there is no such object
    except errors.NotFound:
        return None


def _ref(which: Id) -> ObjectRef:
    kind, namespace, name = which
    if kind == "Namespace":
        return ObjectRef("v1", "namespaces", "", name, kind)
    return registry.KINDS[kind].ref(namespace, name)
