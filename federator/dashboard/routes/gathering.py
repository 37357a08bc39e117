"""What pages have in common: the reader's rights, reads of the host, and the sentences about what a
reader is not shown."""

import asyncio
import heapq
import itertools
from collections.abc import Iterable
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.dashboard.routes.route import Request, RequestRefused, Sources
from federator.dashboard.sources.changes import Topic
from federator.dashboard.sources.fleet import FleetCache
from federator.dashboard.sources.rights import Scope
from federator.dashboard.sources.rows import AccountRow, ClusterRow, WorkloadRow
from federator.dashboard.views import workload as workload_views
from federator.hub.query.router import Right
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kinds.pods import revisions
from federator.kinds.pods.revisions import Revision
from federator.kube import clock as clocks
from federator.kube import errors
from federator.model import names, plaintext
from federator.model.kubernetes import selectors

SILENT: Final = "The host does not answer. Lists are shown as it last said."
HOST_S: Final = 8.0
"""A page waits so long for the host, in seconds."""
EVENTS_KEPT: Final = 500
"""Of all Events about a name, the newest are in memory while a page is made."""
_UNREAD: Final[Obj] = {
    "type": "Warning",
    "reason": "TooManyEvents",
    "message": f"There are more Events than could be read within {HOST_S:g} s: newer ones may be"
    " missing.",
}
CLUSTERS, QUOTAS, DECISIONS = (
    registry.KINDS[name] for name in ("MemberCluster", "FederatedQuota", "PlacementDecision")
)


_REVISIONS: Final = Right("list", "apps", revisions.PLURAL)


def visible(fleet: FleetCache, scope: Scope) -> Iterable[WorkloadRow]:
    return (row for row in fleet.workloads() if scope.shows(row.kind, row.namespace))


def unseen(scope: Scope) -> list[str]:
    """What the reader is not shown, as sentences."""
    if scope.unchecked:
        return [
            f"Your rights in {scope.unchecked} namespaces were not checked, so their workloads are"
            " not shown. Choose a namespace."
        ]
    if scope.empty:
        return ["You may list workloads in no namespace that has any."]
    return []


def hidden(rows: object, kind: Kind) -> list[str]:
    return [] if rows is not None else [f"You may not list {kind.plural} on the host."]


def denied(verb: str, kind: Kind, name: str = "", namespace: str = "") -> RequestRefused:
    where = f" in the namespace {plaintext.clipped(namespace, 80)}" if namespace else ""
    what = f"{kind.plural}.{kind.group}"
    named = f" {plaintext.clipped(name, 80)}" if name else ""
    return RequestRefused(403, f"You may not {verb} {what}{named}{where} on the host.")


async def clusters(sources: Sources, request: Request) -> list[ClusterRow] | None:
    """None for a reader without the right."""
    allowed = await sources.rights.sees(request.reader, "list", CLUSTERS)
    return sources.fleet.clusters() if allowed else None


async def accounts(sources: Sources, request: Request) -> list[AccountRow] | None:
    allowed = await sources.rights.sees(request.reader, "list", QUOTAS)
    return sources.fleet.accounts() if allowed else None


async def allowed(sources: Sources, request: Request) -> tuple[Kind, str, str]:
    """Kind, namespace and name of a workload that the reader may get. Raises `RequestRefused`;
    whether it exists is not said to others."""
    given = request.given
    kind, namespace, name = (
        registry.WORKLOADS.get(given["kind"]),
        given["namespace"],
        given["name"],
    )
    if kind is None:
        kinds = ", ".join(registry.WORKLOADS)
        raise RequestRefused(404, f"There are no workloads of this kind; there are {kinds}.")
    if selectors.dns1123_label(namespace) or selectors.dns1123_subdomain(name):
        raise RequestRefused(404, "No workload can have this name.")
    if not await sources.rights.gets(request.reader, kind, namespace, name):
        raise denied("get", kind, name, namespace)
    return kind, namespace, name


async def cluster_name(sources: Sources, request: Request) -> str:
    """The name of a cluster that the reader may get. Raises `RequestRefused`."""
    name = request.given["name"]
    if not await sources.rights.gets(request.reader, CLUSTERS, "", name):
        raise denied("get", CLUSTERS, name)
    if all(row.name != name for row in sources.fleet.clusters()):
        raise RequestRefused(404, f"There is no cluster {plaintext.clipped(name, 80)}.")
    return name


async def topics(sources: Sources, request: Request) -> frozenset[Topic]:
    """What a page of everything that the reader may list waits for."""
    scope = await sources.rights.scope(request.reader, sources.fleet.present())
    seen: set[Topic] = {(kind, "", "") for kind in scope.whole}
    seen |= {(kind, namespace, "") for kind, namespace in scope.parts}
    for kind in (CLUSTERS, QUOTAS):
        if await sources.rights.sees(request.reader, "list", kind):
            seen.add((kind.kind, "", ""))
    return frozenset(seen)


async def read(sources: Sources, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    """The object as the host has it now. Raises `RequestRefused`."""
    try:
        obj = await sources.host.get(kind.ref(namespace, name), timeout_s=HOST_S)
    except errors.NotFound:
        where = f" in the namespace {namespace}" if namespace else ""
        raise RequestRefused(404, f"There is no {kind.kind} {name}{where}.") from None
    except errors.ApiError:
        raise RequestRefused(502, SILENT) from None
    return obj


async def named(sources: Sources, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
    """An object by its name, of a kind that the dashboard may list and not get; None where there is
    none. Raises `RequestRefused`."""
    only = f"metadata.name={name}"
    objects = await listed(sources, kind.api_version, kind.plural, namespace, field_selector=only)
    return {**objects[0], "apiVersion": kind.api_version, "kind": kind.kind} if objects else None


async def decisions(
    sources: Sources, request: Request, obj: Obj, namespace: str
) -> list[Obj] | None:
    """The decisions on a workload; None for a reader without the right to list them."""
    if not await sources.rights.sees(request.reader, "list", DECISIONS, namespace):
        return None
    mark = f"{names.WORKLOAD_UID_LABEL}={obj['metadata']['uid']}"
    return await listed(sources, DECISIONS.api_version, DECISIONS.plural, namespace, label=mark)


async def kept_revisions(sources: Sources, request: Request, obj: Obj) -> list[Revision] | None:
    """The revisions of a workload, the newest last; None for a reader without the right to list
    them."""
    namespace, uid = raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "uid")
    if not await sources.rights.may(request.reader, _REVISIONS, namespace):
        return None
    mark = f"{names.WORKLOAD_UID_LABEL}={uid}"
    objects = await listed(sources, revisions.API_VERSION, revisions.PLURAL, namespace, label=mark)
    return revisions.history(objects, uid)


async def events(sources: Sources, request: Request, namespace: str, name: str) -> list[Obj] | None:
    """The Events about objects of a name; None for a reader without the right to list them."""
    if not await sources.rights.may(request.reader, Right("list", "", "events"), namespace):
        return None
    newest: list[tuple[float, int, Obj]] = []
    numbers = itertools.count()

    def keep(obj: Obj) -> None:
        heapq.heappush(newest, (workload_views.happened_s(obj), next(numbers), obj))
        if len(newest) > EVENTS_KEPT:
            heapq.heappop(newest)

    about = f"involvedObject.name={name}"
    try:
        async with asyncio.timeout(HOST_S):
            await sources.host.collect(
                "v1", "events", keep, most=1, namespace=namespace, field_selector=about
            )
    except TimeoutError:
        return [{**_UNREAD, "lastTimestamp": clocks.stamp(sources.clock.now())}, *_in_order(newest)]
    except errors.ApiError:
        raise RequestRefused(
            502, "The host does not answer. Lists are shown as it last said."
        ) from None
    return _in_order(newest)


def _in_order(newest: list[tuple[float, int, Obj]]) -> list[Obj]:
    return [obj for _, _, obj in newest]


async def listed(
    sources: Sources,
    api_version: str,
    plural: str,
    namespace: str,
    *,
    label: str = "",
    field_selector: str = "",
) -> list[Obj]:
    """Objects of a namespace. Raises `RequestRefused`."""
    try:
        page = await sources.host.list(
            api_version, plural, namespace, label_selector=label, field_selector=field_selector
        )
    except errors.ApiError:
        raise RequestRefused(502, SILENT) from None
    return list(page.items)
