"""The questions that the port answers: its table of routes, and what each of them asks.

The next question is a row of `ROUTES`. An answer is computed from a snapshot taken in one turn of
the event loop, and from what is asked of the host and members after that; it never waits for a
controller.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from federator.api import raw
from federator.hub.cache.state import HubState
from federator.hub.history.entry import ABOUT_ALL, HistoryEntry
from federator.hub.history.journal import Compute as Reads
from federator.hub.history.journal import Journal
from federator.hub.history.segments import EntrySelection as WantedEntries
from federator.hub.members.member import Member
from federator.hub.query import advising, collecting, planning, router, selection, verdicts
from federator.hub.query.access import AccessRefused
from federator.hub.query.advising import Explain, Inputs
from federator.hub.query.collecting import LogSelection, Target
from federator.hub.query.options import QueryOptions
from federator.hub.query.planning import Plan
from federator.hub.query.router import Question, Right, Route
from federator.hub.query.verdicts import VerdictMakers
from federator.hub.records.workloads import Workload
from federator.hub.snapshot.computing import Compute
from federator.hub.snapshot.places import Kind
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.threads import Overloaded
from federator.model.ask import Ask, Tier
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.names import WorkloadKey
from federator.scheduling.drill import DrillResult
from federator.scheduling.entry import Standing

TAIL_MAX: Final = 10_000
SINCE_MAX_S: Final = 10 * 365 * 86400
HISTORY_LIMIT: Final = 100
HISTORY_LIMIT_MAX: Final = 1000


@dataclass(slots=True)
class Sources:
    """What answers are made from."""

    state: HubState
    host: Client
    clock: Clock
    options: QueryOptions
    explain: Explain
    compute: Compute
    """Computes on the hub's memory."""
    standing: Callable[[Workload], Standing]
    journal: Journal
    gates: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    """By member: bounds what all callers together ask of it at once."""
    for_room: Callable[[], Iterable[Ask]] = tuple
    """Those that hold nothing and wait for room."""
    plan: Plan | None = None
    """None where no plans are made."""
    drilled: Callable[[], Mapping[str, DrillResult]] = dict
    """What the last drill of each cluster came to."""
    verdict: VerdictMakers | None = None
    """None where no verdicts are given."""
    read: Reads = field(kw_only=True)
    """Reads the files of the history in a thread."""

    def gate(self, cluster: str) -> asyncio.Semaphore:
        return self.gates.setdefault(
            cluster, asyncio.Semaphore(self.options.requests_to_one_member)
        )


async def pods(sources: Sources, question: Question) -> Mapping[str, Any]:
    """Every pod of a workload, cluster by cluster."""
    targets, chosen = await _asked(sources, question)
    return await collecting.pods(targets, chosen, _wanted(sources.options, question))


async def runtimes(sources: Sources, question: Question) -> Mapping[str, Any]:
    """What the runtimes of a workload's pods have."""
    targets, chosen = await _asked(sources, question)
    return await collecting.runtimes(targets, chosen, _wanted(sources.options, question))


async def logs(sources: Sources, question: Question) -> Mapping[str, Any]:
    """The ends of the logs of a workload's pods."""
    targets, chosen = await _asked(sources, question)
    return await collecting.logs(targets, chosen, _wanted(sources.options, question))


async def tree(sources: Sources, question: Question) -> Mapping[str, Any]:
    """The native objects of a workload, cluster by cluster."""
    targets, chosen = await _asked(sources, question)
    return await collecting.natives(targets, chosen, _wanted(sources.options, question))


async def explain(sources: Sources, question: Question) -> msgspec.Raw:
    """Why a workload is where it is, and what would help."""
    key = WorkloadKey(question.given["kind"], question.namespace, question.given["name"])
    return await advising.explained(_inputs(sources), key, sources.explain)


async def place(sources: Sources, question: Question) -> msgspec.Raw:
    """Where a workload would go, if this manifest were applied."""
    return await advising.tried(
        _inputs(sources), question.given["kind"], question.namespace, question.body
    )


async def plan(sources: Sources, question: Question) -> msgspec.Raw:
    """What would happen if these edits were made."""
    if sources.plan is None:
        raise AccessRefused(404, "NotFound", "this hub makes no plans")
    return await planning.planned(_inputs(sources), question.body, question.may, sources.plan)


async def drill(sources: Sources, _: Question) -> Mapping[str, Any]:
    """What the loss of each cluster would come to, by the last drill in the background: sums."""
    return {
        "clusters": [
            {
                "cluster": name,
                "workloads": outcome.workloads,
                "copies": outcome.copies,
                "missing": {str(tier): outcome.missing(tier) for tier in Tier},
                "recoverySeconds": outcome.recovery_s,
            }
            for name, outcome in sorted(sources.drilled().items())
        ]
    }


async def verdict(sources: Sources, question: Question) -> msgspec.Raw:
    """Where the workloads of a submission would go, and why not."""
    if sources.verdict is None:
        raise AccessRefused(404, "NotFound", "this hub gives no verdicts")
    return await verdicts.judged(
        _inputs(sources), question.namespace, question.body, sources.verdict
    )


async def history(sources: Sources, question: Question) -> Mapping[str, Any]:
    """What was decided about a workload and became of it, or what happened to a cluster, as far as
    this hub wrote it down."""
    _refuse_unkept(sources)
    parts = (question.given["kind"], question.namespace, question.given["name"])
    uid, born = await _life(sources, question)
    key = "/".join(filter(None, parts))
    return await _entries(sources, question, WantedEntries(key, 0.0, 0.0, 0, uid, born))


async def whole_history(sources: Sources, question: Question) -> Mapping[str, Any]:
    """What was decided and what happened in the whole federation, as far as this hub wrote it
    down."""
    _refuse_unkept(sources)
    return await _entries(sources, question, WantedEntries("", 0.0, 0.0, 0))


def _refuse_unkept(sources: Sources) -> None:
    if not sources.journal.kept:
        raise AccessRefused(
            404, "NotFound", "this hub keeps no history: its setting history.directory is empty"
        )


async def _entries(sources: Sources, question: Question, about: WantedEntries) -> Mapping[str, Any]:
    """The entries about something, within the times and the number of the parameters."""
    now, given = sources.clock.now(), question.parameters
    since = now - given.get("since_seconds", SINCE_MAX_S)
    wanted = replace(
        about,
        since=since if about.uid else max(since, about.born),
        until=now - given.get("before_seconds", 0),
        limit=given.get("limit", HISTORY_LIMIT),
    )
    try:
        page = await sources.journal.read(wanted, sources.read)
    except Overloaded:
        raise AccessRefused(
            429, "TooManyRequests", "too much is computed already", retry_after_s=2
        ) from None
    except TimeoutError:
        raise AccessRefused(
            504, "Timeout", "the history could not be read in time; ask for a shorter time"
        ) from None
    except OSError:
        raise AccessRefused(
            503, "ServiceUnavailable", "the files of the history cannot be read"
        ) from None
    return {
        "entries": [_shown(entry) for entry in page.entries],
        "more": page.more,
        "begins": page.begins,
    }


async def _life(sources: Sources, question: Question) -> tuple[str, float]:
    """(uid, epoch seconds of its creation) of the workload that has the name now. When there is
    none, ("", creation of its namespace): what was there before belonged to somebody else. Of a
    cluster ("", 0): operators read all that had its name. Raises `AccessRefused`."""
    namespace, timeout_s = question.namespace, sources.options.member_timeout_s
    if not namespace:
        return "", 0.0
    ref = registry.KINDS[question.given["kind"]].ref(namespace, question.given["name"])
    try:
        try:
            meta = raw.mapping(await sources.host.get(ref, timeout_s=timeout_s), "metadata")
            return raw.text(meta, "uid"), raw.epoch_s(raw.text(meta, "creationTimestamp"))
        except errors.NotFound:
            chosen = f"metadata.name={namespace}"
            listing = await sources.host.list("v1", "namespaces", field_selector=chosen)
    except errors.ApiError:
        raise AccessRefused(
            503, "ServiceUnavailable", "the host did not report which namespace has this name now"
        ) from None
    created = [raw.text(obj, "metadata", "creationTimestamp") for obj in listing.items]
    return "", raw.epoch_s(created[0]) if created else sources.clock.now()


def _shown(entry: HistoryEntry) -> Any:
    """The entry without the names of hubs: only whether another hub led."""
    fields = msgspec.to_builtins(entry)
    return {
        name: value
        for name, value in fields.items()
        if entry.kind not in ABOUT_ALL or name != "evidence"
    }


def _inputs(sources: Sources) -> Inputs:
    return Inputs(
        sources.state,
        sources.host,
        sources.clock,
        sources.compute,
        sources.standing,
        sources.options.member_timeout_s,
        sources.for_room,
    )


def _wanted(options: QueryOptions, question: Question) -> LogSelection:
    given = {name: value for name, value in question.parameters.items() if name != "cluster"}
    return LogSelection(
        pods_max=options.pods_max,
        log_pods_max=options.log_pods_max,
        log_bytes_max=options.log_bytes_max,
        timeout_s=options.member_timeout_s,
        **given,
    )


def completed(given: Mapping[str, str]) -> dict[str, str]:
    """The parts of a path with the group and the kind of their plural. Raises `AccessRefused` 404
    for a kind that we do not know, and for names that no object can have."""
    if not given:
        return {"namespace": "", "plural": "all"}
    if "name" not in given and "plural" not in given:
        if selectors.dns1123_label(given["namespace"]):
            raise AccessRefused(404, "NotFound", "no namespace can have this name")
        return {**given, "plural": verdicts.RESOURCE}
    if "plural" not in given:
        if selectors.dns1123_subdomain(given["name"]):
            raise AccessRefused(404, "NotFound", "no cluster can have this name")
        return {
            **given,
            "namespace": "",
            "plural": _CLUSTERS.plural,
            "group": _CLUSTERS.group,
            "kind": _CLUSTERS.kind,
        }
    kind = next(
        (kind for kind in registry.WORKLOADS.values() if kind.plural == given["plural"]), None
    )
    if kind is None:
        kinds = ", ".join(sorted(kind.plural for kind in registry.WORKLOADS.values()))
        raise AccessRefused(
            404, "NotFound", f"there are no workloads of this kind; there are {kinds}"
        )
    named = "name" not in given or not selectors.dns1123_subdomain(given["name"])
    if selectors.dns1123_label(given["namespace"]) or not named:
        raise AccessRefused(404, "NotFound", "no object can have this name")
    return {**given, "group": kind.group, "kind": kind.kind}


async def _asked(sources: Sources, question: Question) -> tuple[list[Target], selection.Selection]:
    """Which clusters are asked, for which pods. Raises `AccessRefused` where the workload is not
    there."""
    kind = registry.KINDS[question.given["kind"]]
    namespace, name = question.namespace, question.given["name"]
    try:
        obj = await sources.host.get(
            kind.ref(namespace, name), timeout_s=sources.options.member_timeout_s
        )
        chosen = selection.of_workload(kind.kind, obj)
    except errors.NotFound:
        raise AccessRefused(
            404, "NotFound", f'{kind.plural} "{name}" not found in namespace {namespace}'
        ) from None
    except errors.ApiError:
        raise AccessRefused(
            503, "ServiceUnavailable", "the host cannot be asked for it", retry_after_s=2
        ) from None
    except FieldError as bad:
        raise AccessRefused(422, "Invalid", str(bad)) from None
    possible = targets(sources, WorkloadKey(kind.kind, namespace, name), chosen.uid)
    only = question.parameters.get("cluster", "")
    if only and only not in {target.cluster for target in possible}:
        where = ", ".join(target.cluster for target in possible) or "no cluster"
        raise AccessRefused(
            404, "NotFound", f"{only[:60]} has no part of {kind.singular} {name}; it is in {where}"
        )
    return [target for target in possible if only in ("", target.cluster)], chosen


def targets(sources: Sources, key: WorkloadKey, uid: str) -> list[Target]:
    """Every cluster that holds a slice of this very workload, or was given a share of it, in
    order."""
    state, fleet = sources.state, sources.state.options.fleet
    records = [record for record in state.records_of(key) if record.workload_uid == uid]
    clusters = {cluster for record in records for cluster in record.clusters}
    clusters |= {seen.cluster for seen in state.slices_with_uid(key, uid)}
    possible = []
    for cluster in sorted(clusters):
        member = state.members.get(cluster)
        shares = [share for record in records if (share := record.share_of(cluster)) is not None]
        target = Target(
            cluster, pieces=shares[0].ranges if shares else (), gate=sources.gate(cluster)
        )
        seen = member.contents.slice_of(key) if member is not None else None
        if member is None:
            target = replace(target, away="is no member any more")
        elif away := _away(member, sources.clock.monotonic()):
            target = replace(target, away=away)
        elif seen is not None and not seen.serves(fleet, uid):
            target = replace(target, away="holds another object of this name")
        else:
            target = replace(target, client=member.link.client)
        possible.append(target)
    return possible


def _away(member: Member, now_s: float) -> str:
    """Why a member is not asked; "" when it is."""
    if member.duplicate_of:
        return f"is the same cluster as {member.duplicate_of}"
    if member.link.unasked:
        return "was not asked: the hub is short of file descriptors"
    if not member.link.reachability.trusted or member.link.client is None:
        since = f"since {now_s - member.link.reachability.since_s:.0f} s"
        state, reason = member.link.reachability.state.value, member.link.reason
        return f"is {state}{f' ({reason})' if reason != state else ''} {since}"
    return "belongs to another host" if member.other_host else ""


_PAGES: Final = {
    "since_seconds": router.count(SINCE_MAX_S),
    "before_seconds": router.count(SINCE_MAX_S),
    "limit": router.count(HISTORY_LIMIT_MAX),
}
_CLUSTERS: Final = registry.KINDS["MemberCluster"]
_WORKLOAD: Final = Right("get", "{group}", "{plural}", name="{name}")
_ONE: Final = "/v1/namespaces/{namespace}/{plural}/{name}"
SEEN_IN_HISTORY: Final = (
    registry.KINDS["PlacementDecision"],
    registry.KINDS["MemberCluster"],
    *registry.WORKLOADS.values(),
)
"""Kinds of which the whole history tells: its reader may list them in all namespaces."""
_CHOICE: Final = {"cluster": router.word, "pod": router.word, "shard": router.count(2**31)}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        f"{_ONE}/pods",
        pods,
        rights=(_WORKLOAD, Right("list", "", "pods")),
        parameters=_CHOICE,
        summary="Every pod of a workload, in all its clusters.",
    ),
    Route(
        f"{_ONE}/runtime",
        runtimes,
        rights=(_WORKLOAD, Right("list", "", "pods")),
        parameters={"cluster": router.word},
        summary="Identity, secrets, configuration and registration of the pods of a workload.",
    ),
    Route(
        f"{_ONE}/tree",
        tree,
        rights=(_WORKLOAD,),
        parameters={"cluster": router.word},
        summary="The native objects of a workload, in all its clusters.",
    ),
    Route(
        f"{_ONE}/explain",
        explain,
        rights=(_WORKLOAD,),
        parameters={},
        summary="Why a workload is where it is, and what would help.",
        kind=Kind.WHAT_IF,
    ),
    Route(
        "/v1/namespaces/{namespace}/{plural}/place",
        place,
        rights=(Right("create", "{group}", "{plural}"), Right("get", "{group}", "{plural}")),
        parameters={},
        summary="Where a workload would go. Nothing is written.",
        body_max=advising.BODY_MAX_BYTES,
        kind=Kind.WHAT_IF,
    ),
    Route(
        "/v1/plan",
        plan,
        rights=(),
        parameters={"namespace": router.word},
        summary="What edits would come to. Nothing is written.",
        body_max=planning.BODY_MAX_BYTES,
        kind=Kind.PLAN,
        by_object=True,
        allow_large=planning.allow_large,
    ),
    Route(
        "/v1/drill",
        drill,
        rights=(Right("list", _CLUSTERS.group, _CLUSTERS.plural),),
        parameters={},
        summary="What the loss of each cluster would come to.",
    ),
    Route(
        "/v1/namespaces/{namespace}/verdict",
        verdict,
        rights=(Right("create", registry.KINDS["FederatedQuota"].group, verdicts.RESOURCE),),
        parameters={},
        summary="The verdict on a submission. Nothing is written or reserved.",
        body_max=verdicts.BODY_MAX_BYTES,
        kind=Kind.VERDICT,
    ),
    Route(
        f"{_ONE}/history",
        history,
        rights=(_WORKLOAD,),
        parameters=_PAGES,
        summary="What was decided about a workload, and what became of it.",
    ),
    Route(
        "/v1/memberclusters/{name}/history",
        history,
        rights=(Right("get", "{group}", "{plural}", name="{name}"),),
        parameters=_PAGES,
        summary="What happened to a cluster.",
    ),
    Route(
        "/v1/history",
        whole_history,
        rights=tuple(Right("list", kind.group, kind.plural) for kind in SEEN_IN_HISTORY),
        parameters=_PAGES,
        summary="What was decided and what happened in the whole federation.",
    ),
    Route(
        f"{_ONE}/logs",
        logs,
        rights=(_WORKLOAD, Right("get", "", "pods", "log")),
        parameters={
            **_CHOICE,
            "container": router.word,
            "tail": router.count(TAIL_MAX),
            "since_seconds": router.count(SINCE_MAX_S),
            "timestamps": router.flag,
            "previous": router.flag,
        },
        summary="The ends of the logs of a workload's pods.",
    ),
)
"""Path -> what it answers -> which rights on the host that takes, all of them in the namespace of
the path, if it has one."""
