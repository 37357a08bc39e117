"""The pages: a table of addresses, and what each of them gathers for its reader.

The next page is a row of `ROUTES`, a view model in `views` and a template. A page checks the
reader's rights before it reads anything, and never asks a member.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from federator.api.raw import Obj
from federator.dashboard import listing, runbooks
from federator.dashboard.fleet import Fleet
from federator.dashboard.leader import Leader, NoAnswer
from federator.dashboard.rights import Rights, Scope
from federator.dashboard.rows import AccountRow, ClusterRow, WorkloadRow
from federator.dashboard.sessions import Session
from federator.dashboard.views import clusters as cluster_views
from federator.dashboard.views import overview as overview_views
from federator.dashboard.views import quota as quota_views
from federator.dashboard.views import workload as workload_views
from federator.dashboard.views import workloads as workload_lists
from federator.hub.query.router import Right
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model import names, plaintext
from federator.model.kubernetes import selectors

HOST_S: Final = 8.0
"""A page waits so long for the host, in seconds."""
CLUSTERS, QUOTAS, DECISIONS = (
    registry.KINDS[name] for name in ("MemberCluster", "FederatedQuota", "PlacementDecision")
)


@dataclass(frozen=True, slots=True)
class Sources:
    """What pages are made from."""

    fleet: Fleet
    rights: Rights
    leader: Leader
    host: Client
    clock: Clock


@dataclass(frozen=True, slots=True)
class Request:
    """What a reader asks for."""

    reader: Session
    path: str
    given: Mapping[str, str]
    """Parts of the path by name."""
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A page, before it is HTML or JSON."""

    title: str
    view: Mapping[str, Any]
    status: int = 200
    notes: tuple[str, ...] = ()
    """Sentences about what this reader is not shown."""


class Refused(Exception):
    """There is no such page, or not for this reader: an HTTP status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Route:
    """One row: an address -> what it shows."""

    path: str
    show: Callable[[Sources, Request], Awaitable[Shown]]
    template: str
    navigation: str = ""
    """Its title in the navigation; "" for a page that is reached from others."""
    section: str = ""
    """The path of the navigation's entry that it belongs to; "" for its own."""
    refreshes: bool = True
    """Whether an open page renews itself."""
    is_list: bool = False
    """A list checks its own parameters; other pages have none."""

    def match(self, path: str) -> dict[str, str] | None:
        """The parts of a percent-encoded path by name; None when it is another page."""
        wanted, parts = self.path.split("/"), path.split("/")
        if len(wanted) != len(parts):
            return None
        given: dict[str, str] = {}
        for pattern, part in zip(wanted, parts, strict=True):
            if pattern.startswith("{"):
                given[pattern[1:-1]] = unquote(part)
            elif pattern != part:
                return None
        return given


# -- pages --------------------------------------------------------------------


async def overview(sources: Sources, request: Request) -> Shown:
    """What needs a person first."""
    fleet = sources.fleet
    scope = await sources.rights.scope(request.reader, fleet.present())
    clusters = await _clusters(sources, request)
    accounts = await _accounts(sources, request)
    view = overview_views.view(_visible(fleet, scope), clusters, accounts, sources.clock.now())
    notes = [*_unseen(scope), *_hidden(clusters, CLUSTERS)]
    return Shown("Overview", view, notes=tuple(notes))


async def workloads(sources: Sources, request: Request) -> Shown:
    """All workloads that the reader may list."""
    fleet = sources.fleet
    spec = workload_lists.spec(fleet.decision)
    query = listing.parse(request.path, request.parameters, spec)
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, fleet.present(), named)
    page = listing.select(query, spec, _visible(fleet, scope))
    view = workload_lists.view(page, fleet.decision, sources.clock.now())
    return Shown("Workloads", view, notes=tuple(_unseen(scope)))


async def workload(sources: Sources, request: Request) -> Shown:
    """A single workload."""
    kind, namespace, name = await _allowed(sources, request)
    obj = await _read(sources, kind, namespace, name)
    decisions = await _decisions(sources, request, obj, namespace)
    events = await _events(sources, request, namespace, name)
    view = workload_views.summary(kind, obj, decisions, events, sources.clock.now())
    return Shown(f"{kind.kind} {namespace}/{name}", view)


async def why(sources: Sources, request: Request) -> Shown:
    """Why a workload is where it is, as the leader computes it now. While the leader does not
    answer: what is recorded."""
    kind, namespace, name = await _allowed(sources, request)
    title = f"Why here: {namespace}/{name}"
    try:
        facts = await sources.leader.ask(request.reader, namespace, kind.plural, name, "explain")
    except NoAnswer as none:
        recorded: list[dict[str, Any]] | None = None
        if none.status == 502:
            obj = await _read(sources, kind, namespace, name)
            decisions = await _decisions(sources, request, obj, namespace)
            now_s = sources.clock.now()
            recorded = [workload_views.decision(each, now_s) for each in decisions or ()]
        head = workload_views.head(kind, namespace, name, "why")
        return Shown(title, {**head, "trouble": none.message, "decisions": recorded}, none.status)
    view = workload_views.why(kind, namespace, name, facts)
    return Shown(title, {**view, "trouble": "", "decisions": None})


async def objects(sources: Sources, request: Request) -> Shown:
    """The native objects of a workload in every cluster, as the leader reads them now."""
    kind, namespace, name = await _allowed(sources, request)
    title = f"Objects of {namespace}/{name}"
    try:
        answer = await sources.leader.ask(request.reader, namespace, kind.plural, name, "tree")
    except NoAnswer as none:
        head = workload_views.head(kind, namespace, name, "objects")
        return Shown(title, {**head, "trouble": none.message, "clusters": []}, none.status)
    view = workload_views.objects(kind, namespace, name, answer)
    return Shown(title, {**view, "trouble": ""})


async def clusters(sources: Sources, request: Request) -> Shown:
    """All members, by risk."""
    query = listing.parse(request.path, request.parameters, cluster_views.SPEC)
    rows = await _clusters(sources, request)
    if rows is None:
        raise _denied("list", CLUSTERS)
    page = listing.select(query, cluster_views.SPEC, rows)
    return Shown("Clusters", cluster_views.view(page, sources.clock.now()))


async def cluster(sources: Sources, request: Request) -> Shown:
    """A single member, with what it runs."""
    name, fleet = request.given["name"], sources.fleet
    if not await sources.rights.gets(request.reader, CLUSTERS, "", name):
        raise _denied("get", CLUSTERS, name)
    row = cluster_views.known(fleet.clusters(), name)
    if row is None:
        raise Refused(404, f"There is no cluster {plaintext.clipped(name, 80)}.")
    obj = await _read(sources, CLUSTERS, "", name)
    scope = await sources.rights.scope(request.reader, fleet.present())
    holders = (
        (workload, decision)
        for workload in _visible(fleet, scope)
        if (decision := fleet.decision(workload.uid)) is not None
    )
    view = cluster_views.single(row, obj, holders, sources.clock.now())
    return Shown(f"Cluster {name}", view, notes=tuple(_unseen(scope)))


async def quota(sources: Sources, request: Request) -> Shown:
    """The tree of accounts, and what waits."""
    fleet = sources.fleet
    scope = await sources.rights.scope(request.reader, fleet.present())
    accounts = await _accounts(sources, request)
    lacking = workload_lists.waiting(
        _visible(fleet, scope), fleet.decision, sources.clock.now(), quota_views.WAITING_MAX
    )
    notes = [*_unseen(scope), *_hidden(accounts, QUOTAS)]
    return Shown("Quota and queue", quota_views.view(accounts, lacking), notes=tuple(notes))


async def account(sources: Sources, request: Request) -> Shown:
    """A single account."""
    name = request.given["name"]
    if not await sources.rights.gets(request.reader, QUOTAS, "", name):
        raise _denied("get", QUOTAS, name)
    rows = sources.fleet.accounts()
    if not await sources.rights.sees(request.reader, "list", QUOTAS):
        rows = [row for row in rows if row.name == name]
    view = quota_views.single(rows, name)
    if view is None:
        raise Refused(404, f"There is no FederatedQuota {plaintext.clipped(name, 80)}.")
    return Shown(f"Account {name}", view)


async def runbook(sources: Sources, request: Request) -> Shown:
    """A page of docs/operating."""
    page = runbooks.page(request.given["name"])
    if page is None:
        raise Refused(404, f"There is no runbook {plaintext.clipped(request.given['name'], 80)}.")
    return Shown(page["title"], page)


# -- what they have in common -------------------------------------------------


def _visible(fleet: Fleet, scope: Scope) -> Iterable[WorkloadRow]:
    return (row for row in fleet.workloads() if scope.shows(row.kind, row.namespace))


def _unseen(scope: Scope) -> list[str]:
    """What the reader is not shown, as sentences."""
    if scope.unchecked:
        return [
            f"Your rights in {scope.unchecked} namespaces were not checked, so their workloads are"
            " not shown. Choose a namespace."
        ]
    if scope.empty:
        return ["You may list workloads in no namespace that has any."]
    return []


def _hidden(rows: object, kind: Kind) -> list[str]:
    return [] if rows is not None else [f"You may not list {kind.plural} on the host."]


def _denied(verb: str, kind: Kind, name: str = "", namespace: str = "") -> Refused:
    where = f" in the namespace {plaintext.clipped(namespace, 80)}" if namespace else ""
    what = f"{kind.plural}.{kind.group}"
    named = f" {plaintext.clipped(name, 80)}" if name else ""
    return Refused(403, f"You may not {verb} {what}{named}{where} on the host.")


async def _clusters(sources: Sources, request: Request) -> list[ClusterRow] | None:
    """None for a reader without the right."""
    allowed = await sources.rights.sees(request.reader, "list", CLUSTERS)
    return sources.fleet.clusters() if allowed else None


async def _accounts(sources: Sources, request: Request) -> list[AccountRow] | None:
    allowed = await sources.rights.sees(request.reader, "list", QUOTAS)
    return sources.fleet.accounts() if allowed else None


async def _allowed(sources: Sources, request: Request) -> tuple[Kind, str, str]:
    """Kind, namespace and name of a workload that the reader may get. Raises `Refused`; whether
    it exists is not said to others."""
    given = request.given
    kind, namespace, name = (
        registry.WORKLOADS.get(given["kind"]),
        given["namespace"],
        given["name"],
    )
    if kind is None:
        kinds = ", ".join(registry.WORKLOADS)
        raise Refused(404, f"There are no workloads of this kind; there are {kinds}.")
    if selectors.dns1123_label(namespace) or selectors.dns1123_subdomain(name):
        raise Refused(404, "No workload can have this name.")
    if not await sources.rights.gets(request.reader, kind, namespace, name):
        raise _denied("get", kind, name, namespace)
    return kind, namespace, name


async def _read(sources: Sources, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    """The object as the host has it now. Raises `Refused`."""
    try:
        obj = await sources.host.get(kind.ref(namespace, name), timeout_s=HOST_S)
    except errors.NotFound:
        where = f" in the namespace {namespace}" if namespace else ""
        raise Refused(404, f"There is no {kind.kind} {name}{where}.") from None
    except errors.ApiError:
        raise Refused(502, "The host does not answer. Lists are shown as it last said.") from None
    return obj


async def _decisions(
    sources: Sources, request: Request, obj: Obj, namespace: str
) -> list[Obj] | None:
    """The decisions on a workload; None for a reader without the right to list them."""
    if not await sources.rights.sees(request.reader, "list", DECISIONS, namespace):
        return None
    mark = f"{names.WORKLOAD_UID_LABEL}={obj['metadata']['uid']}"
    return await _listed(sources, DECISIONS.api_version, DECISIONS.plural, namespace, label=mark)


async def _events(
    sources: Sources, request: Request, namespace: str, name: str
) -> list[Obj] | None:
    """The Events about objects of a name; None for a reader without the right to list them."""
    if not await sources.rights.may(request.reader, Right("list", "", "events"), namespace):
        return None
    about = f"involvedObject.name={name}"
    return await _listed(sources, "v1", "events", namespace, field_selector=about)


async def _listed(
    sources: Sources,
    api_version: str,
    plural: str,
    namespace: str,
    *,
    label: str = "",
    field_selector: str = "",
) -> list[Obj]:
    """Objects of a namespace. Raises `Refused`."""
    try:
        page = await sources.host.list(
            api_version, plural, namespace, label_selector=label, field_selector=field_selector
        )
    except errors.ApiError:
        raise Refused(502, "The host does not answer. Lists are shown as it last said.") from None
    return list(page.items)


_WORKLOAD: Final = "/workloads/{kind}/{namespace}/{name}"
ROUTES: Final[tuple[Route, ...]] = (
    Route("/", overview, "overview.html.j2", "Overview"),
    Route("/workloads", workloads, "workloads.html.j2", "Workloads", is_list=True),
    Route(_WORKLOAD, workload, "workload.html.j2", section="/workloads"),
    Route(f"{_WORKLOAD}/why", why, "why.html.j2", section="/workloads", refreshes=False),
    Route(f"{_WORKLOAD}/objects", objects, "objects.html.j2", section="/workloads"),
    Route("/clusters", clusters, "clusters.html.j2", "Clusters", is_list=True),
    Route("/clusters/{name}", cluster, "cluster.html.j2", section="/clusters"),
    Route("/quota", quota, "quota.html.j2", "Quota and queue"),
    Route("/quota/{name}", account, "account.html.j2", section="/quota"),
    Route("/runbooks/{name}", runbook, "runbook.html.j2", section="/", refreshes=False),
)
"""In the order of the navigation."""


def matching(path: str) -> tuple[Route, dict[str, str]] | None:
    """The row of a path, and the parts of the path by name."""
    for route in ROUTES:
        given = route.match(path)
        if given is not None:
            return route, given
    return None


def navigation(route: Route | None) -> list[dict[str, Any]]:
    """The entries, with the current one marked."""
    current = (route.section or route.path) if route is not None else ""
    return [
        {"title": each.navigation, "href": each.path, "current": each.path == current}
        for each in ROUTES
        if each.navigation
    ]
