"""Plans of edits (`POST /v1/plan`): the rights that a plan needs, the data that it is computed
from, and how.

An edit needs the right to make it, object by object. A caller that may list clusters, quotas and
decisions in all namespaces sees the whole plan; others see the workloads in the namespaces that
they edit and may list, and sums of the rest. The body is read and the plan is computed next to the
event loop (`hub/snapshot`), on the memory as it was when the rights were known, and only as long as
the caller waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from federator.api import decoding, membercluster, raw
from federator.hub.placing import offline
from federator.hub.placing.offline import Id, Situation
from federator.hub.query.access import AccessRefused
from federator.hub.query.advising import Inputs
from federator.hub.query.router import LARGE_BYTES, Question, Right
from federator.hub.snapshot.places import Kind
from federator.hub.snapshot.world import StateCopy
from federator.kinds import read, registry
from federator.kube import errors
from federator.kube.threads import Stop
from federator.model import plaintext
from federator.model.errors import FieldError

BODY_MAX_BYTES: Final = 8 * 1024 * 1024
OBJECTS_MAX: Final = 2000
"""Objects that one plan may edit."""
RIGHTS_MAX: Final = 200
"""Rights that are asked of the host for one plan, by object."""
READS_AT_ONCE: Final = 8
NAMESPACES: Final = "namespaces"
FIELDS: Final = ("applied", "deleted", "lost", "scaled", "losses")
WHOLE: Final = ("MemberCluster", "FederatedQuota", "PlacementDecision")
"""A caller that may list these in all namespaces sees all of a plan."""
May = Callable[[Right, str], Awaitable[bool]]
"""Whether the caller has a right in a namespace; "" for rights on what has none."""
Plan = Callable[[Situation, Mapping[str, Any], frozenset[str] | None, Stop], dict[str, Any]]
"""The document of a plan (`advice.plans.asked`): of a floor above, so it is handed in. Raises
ValueError with a sentence for an edit that cannot be planned."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked, once the body was read."""

    applied: tuple[Mapping[str, Any], ...]
    deleted: tuple[Id, ...]
    lost: tuple[str, ...]
    scaled: tuple[tuple[Id, int], ...]
    losses: bool

    @property
    def edited(self) -> list[Id]:
        """The objects that there may be already."""
        applied = [offline.id_of(obj) for obj in self.applied]
        return list(dict.fromkeys((*applied, *(which for which, _ in self.scaled))))

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}


@dataclass(frozen=True, slots=True)
class Edits:
    """Which objects a body edits, without their content: what rights are asked for."""

    edited: tuple[Id, ...]
    """The objects that there may be already."""
    deleted: tuple[Id, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A plan to compute. The body is read once more where that is done: its content is large, and
    passing it on as objects would hold the event loop."""

    body: bytes
    live: Mapping[Id, Mapping[str, Any]]
    """The edited objects that the host has."""
    native: frozenset[str]
    """Kinds that the host runs itself."""
    spaces: frozenset[str] | None
    """As in `Plan`."""
    compute: Plan


async def allow_large(question: Question) -> None:
    """Returns when the caller may list the workloads of all kinds, in all namespaces or in the one
    that the parameter `namespace` names. Raises `AccessRefused` 403 otherwise: the edits of others
    are in no large body."""
    spaces = ("", *filter(None, (question.parameters.get("namespace"),)))
    for space in spaces:
        if await _lists(question.may, space):
            return
    raise AccessRefused(
        403,
        "Forbidden",
        f"a body of more than {LARGE_BYTES} bytes is read only if you may list the workloads of all"
        " kinds, in all namespaces or in the one that the parameter namespace names",
    )


async def planned(inputs: Inputs, body: bytes, may: May, compute: Plan) -> msgspec.Raw:
    """The document of a plan in JSON, as its asker may see it. Raises `AccessRefused`."""
    edits = await inputs.computed(Kind.PLAN, _edits, body)
    _refuse_elsewhere(inputs, edits)
    live = await _present(inputs, edits.edited)
    await _allow(inputs, edits, live, may)
    spaces = None if await _sees_all(may) else await _spaces(edits, may)
    native = frozenset(kind for kind in registry.WORKLOADS if inputs.state.refuses_native(kind))
    task = Task(body, live, native, spaces, compute)
    return msgspec.Raw(await inputs.computed(Kind.PLAN, document, task))


def _edits(_: StateCopy, body: bytes, __: Stop) -> Edits:
    asked = parsed(body)
    return Edits(tuple(asked.edited), asked.deleted, asked.lost)


def document(world: StateCopy, task: Task, stop: Stop) -> bytes:
    """The document in JSON. Raises `AccessRefused`."""
    situation = world.situation(task.native, task.live)
    fields = parsed(task.body).fields()
    try:
        made = task.compute(situation, fields, task.spaces, stop)
    except ValueError as bad:
        raise AccessRefused(422, "Invalid", plaintext.clipped(str(bad))) from None
    return msgspec.json.encode(plaintext.every(made))


# -- the body -----------------------------------------------------------------


def parsed(body: bytes) -> Asked:
    """What a body asks for. Raises `AccessRefused` with every field that is wrong."""
    try:
        given = decoding.from_json(body)
    except FieldError as bad:
        raise AccessRefused(400, "BadRequest", plaintext.clipped(str(bad))) from None
    if not isinstance(given, dict) or (unknown := given.keys() - set(FIELDS)):
        names = ", ".join(FIELDS)
        extra = f"; there is no {sorted(unknown)[0][:40]}" if isinstance(given, dict) else ""
        raise AccessRefused(400, "BadRequest", f"the body must be an object with {names}{extra}")
    lists = {name: given.get(name, []) for name in FIELDS[:-1]}
    for name, items in lists.items():
        if not isinstance(items, list):
            raise AccessRefused(400, "BadRequest", f"{name}: must be a list")
    if sum(map(len, lists.values())) > OBJECTS_MAX:
        raise AccessRefused(400, "BadRequest", f"a plan takes {OBJECTS_MAX} edits at most")
    losses = given.get("losses", True)
    if not isinstance(losses, bool):
        raise AccessRefused(400, "BadRequest", "losses: must be true or false")
    asked = Asked(
        tuple(_object(obj, at) for at, obj in enumerate(lists["applied"])),
        tuple(_id(each, f"deleted[{at}]") for at, each in enumerate(lists["deleted"])),
        tuple(_text(each, f"lost[{at}]") for at, each in enumerate(lists["lost"])),
        tuple(_count(each, f"scaled[{at}]") for at, each in enumerate(lists["scaled"])),
        losses,
    )
    if not (asked.applied or asked.deleted or asked.lost or asked.scaled):
        raise AccessRefused(422, "Invalid", "the body has no edit")
    return asked


def _object(obj: Any, at: int) -> Mapping[str, Any]:
    path = f"applied[{at}]"
    try:
        if not (isinstance(obj, dict) and _is_namespace(obj)):
            kind = read.check(obj, path)
            meta = obj["metadata"]
            if kind.namespaced and not raw.text(meta, "namespace"):
                raise AccessRefused(422, "Invalid", f"{path}.metadata.namespace: is required")
    except read.InvalidObject as bad:
        raise AccessRefused(
            422, "Invalid", plaintext.clipped(str(bad).replace("\n", "; "))
        ) from None
    if not raw.text(obj, "metadata", "name"):
        raise AccessRefused(422, "Invalid", f"{path}.metadata.name: is required")
    checked: Mapping[str, Any] = obj
    return checked


def _is_namespace(obj: Mapping[str, Any]) -> bool:
    return (obj.get("apiVersion"), obj.get("kind")) == offline.NAMESPACE


def _id(given: Any, path: str) -> Id:
    if not isinstance(given, dict):
        raise AccessRefused(
            400, "BadRequest", f"{path}: must be an object with kind, namespace and name"
        )
    kind, name = _text(given.get("kind"), f"{path}.kind"), _text(given.get("name"), f"{path}.name")
    if kind not in registry.KINDS:
        raise AccessRefused(422, "Invalid", f"{path}.kind: there is no kind {kind[:60]}")
    namespace = given.get("namespace") or ""
    if not isinstance(namespace, str) or bool(namespace) != registry.KINDS[kind].namespaced:
        needs = "is required" if registry.KINDS[kind].namespaced else "must be left out"
        raise AccessRefused(422, "Invalid", f"{path}.namespace: {needs}")
    return kind, namespace, name


def _text(given: Any, path: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= 317 or not given.isprintable():
        raise AccessRefused(422, "Invalid", f"{path}: must be a name")
    return given


def _count(given: Any, path: str) -> tuple[Id, int]:
    which = _id(given, path)
    count = given.get("count")
    if which[0] not in registry.WORKLOADS:
        raise AccessRefused(422, "Invalid", f"{path}.kind: a {which[0]} has no copies")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 10**9:
        raise AccessRefused(422, "Invalid", f"{path}.count: must be a whole number")
    return which, count


def _refuse_elsewhere(inputs: Inputs, asked: Edits) -> None:
    """Raises `AccessRefused` for workloads that the host runs itself, and for those of no
    namespace."""
    new = {name for kind, _, name in asked.edited if kind == offline.NAMESPACE[1]}
    for kind, namespace, name in asked.edited:
        if namespace and namespace not in inputs.state.spaces and namespace not in new:
            raise AccessRefused(404, "NotFound", f'namespace "{namespace}" not found')
        if kind in registry.WORKLOADS and inputs.state.refuses_native(kind):
            sentence = f"this host runs a {kind} itself, so {name} is not carried to members"
            raise AccessRefused(422, "Invalid", sentence)


# -- rights -------------------------------------------------------------------


async def _allow(inputs: Inputs, asked: Edits, live: Mapping[Id, Any], may: May) -> None:
    """Returns when the caller may make each of the edits. Raises `AccessRefused` 403 otherwise."""
    wanted: dict[tuple[Right, str], None] = {}
    for which in asked.edited:
        wanted[_right("update" if which in live else "create", which)] = None
    for which in asked.deleted:
        wanted[_right("delete", which)] = None
    for text in asked.lost:
        name = "" if "=" in text else text
        wanted[_right("update", (membercluster.KIND, "", name))] = None
    for right, namespace in await _missing(wanted, may):
        where = f' in the namespace "{namespace}"' if namespace else ""
        raise AccessRefused(403, "Forbidden", f"you cannot {right} {right.name}{where} on the host")


async def _missing(wanted: Iterable[tuple[Right, str]], may: May) -> list[tuple[Right, str]]:
    """The rights that the caller lacks. A right for all names is not checked again name by name."""
    by_kind: dict[tuple[Right, str], list[tuple[Right, str]]] = {}
    for right, namespace in wanted:
        of_all = Right(right.verb, right.group, right.resource)
        by_kind.setdefault((of_all, namespace), []).append((right, namespace))
    if len(by_kind) > RIGHTS_MAX:
        raise AccessRefused(
            400, "BadRequest", "the edits are in too many namespaces; plan them in parts"
        )
    allowed = await asyncio.gather(*(may(right, space) for right, space in by_kind))
    by_name = [
        each
        for yes, rights in zip(allowed, by_kind.values(), strict=True)
        if not yes
        for each in rights
    ]
    if len(by_name) > RIGHTS_MAX:
        return by_name[:1]
    single = await asyncio.gather(*(may(right, space) for right, space in by_name))
    return [each for yes, each in zip(single, by_name, strict=True) if not yes]


def _right(verb: str, which: Id) -> tuple[Right, str]:
    kind, namespace, name = which
    if kind == offline.NAMESPACE[1]:
        return Right(verb, "", NAMESPACES, name=name), ""
    row = registry.KINDS[kind]
    return Right(verb, row.group, row.plural, name=name), namespace


async def _sees_all(may: May) -> bool:
    kinds = (*(registry.KINDS[name] for name in WHOLE), *registry.WORKLOADS.values())
    return all(
        await asyncio.gather(*(may(Right("list", kind.group, kind.plural), "") for kind in kinds))
    )


async def _spaces(asked: Edits, may: May) -> frozenset[str]:
    """The namespaces with edits in which the caller may list workloads of every kind."""
    edited = (*asked.edited, *asked.deleted)
    spaces = sorted({namespace for _, namespace, _ in edited if namespace})
    yes = await asyncio.gather(*(_lists(may, space) for space in spaces[:RIGHTS_MAX]))
    return frozenset(space for space, may_list in zip(spaces, yes, strict=False) if may_list)


async def _lists(may: May, space: str) -> bool:
    """Whether the caller may list workloads of every kind in a namespace; "" for all."""
    kinds = [kind for kind in registry.WORKLOADS.values() if kind.model is not None]
    return all(
        await asyncio.gather(
            *(may(Right("list", kind.group, kind.plural), space) for kind in kinds)
        )
    )


# -- what it is computed from -------------------------------------------------


async def _present(inputs: Inputs, edited: Iterable[Id]) -> dict[Id, dict[str, Any]]:
    """Those of the edited objects that the host has. Raises `AccessRefused`."""
    gate = asyncio.Semaphore(READS_AT_ONCE)

    async def read_one(which: Id) -> dict[str, Any] | None:
        async with gate:
            return await _listed(inputs, which)

    ids = list(edited)
    objects = await asyncio.gather(*map(read_one, ids))
    return {which: obj for which, obj in zip(ids, objects, strict=True) if obj is not None}


async def _listed(inputs: Inputs, which: Id) -> dict[str, Any] | None:
    """An object of the host, by its name: the hub's account may list these kinds, and not get all
    of them."""
    kind, namespace, name = which
    row = registry.KINDS.get(kind)
    version, plural = (row.api_version, row.plural) if row is not None else ("v1", NAMESPACES)
    try:
        async with asyncio.timeout(inputs.timeout_s):
            listing = await inputs.host.list(
                version, plural, namespace, field_selector=f"metadata.name={name}"
            )
    except (errors.ApiError, TimeoutError):
        raise AccessRefused(
            503, "ServiceUnavailable", "the host cannot be asked for it", retry_after_s=2
        ) from None
    return next(({**obj, "apiVersion": version, "kind": kind} for obj in listing.items), None)
