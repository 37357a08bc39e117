"""The lists of workloads and of submissions, and the pages of a single workload."""

from typing import Final

from federator.dashboard import listing
from federator.dashboard.routes import actions, gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.sources.changes import Topic
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.views import submissions as submission_views
from federator.dashboard.views import workload as workload_views
from federator.dashboard.views import workloads as workload_lists
from federator.model.kubernetes import selectors

WORKLOAD: Final = "/workloads/{kind}/{namespace}/{name}"


async def workloads(sources: Sources, request: Request) -> Shown:
    """All workloads that the reader may list."""
    fleet = sources.fleet
    spec = workload_lists.spec(fleet.decision)
    query = listing.parse(request.path, request.parameters, spec)
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, fleet.present(), named)
    page = listing.select(query, spec, gathering.visible(fleet, scope))
    view = workload_lists.view(page, fleet.decision, sources.clock.now())
    return Shown("Workloads", view, notes=tuple(gathering.unseen(scope)))


async def workload(sources: Sources, request: Request) -> Shown:
    """A single workload."""
    kind, namespace, name = await gathering.allowed(sources, request)
    obj = await gathering.read(sources, kind, namespace, name)
    decisions = await gathering.decisions(sources, request, obj, namespace)
    events = await gathering.events(sources, request, namespace, name)
    view = workload_views.summary(kind, obj, decisions, events, sources.clock.now())
    subject = actions.workload(kind, namespace, name)
    view["submissions"] = submission_views.of_workload(obj, sources.clock.now())
    view["actions"] = await actions.buttons(sources, request, subject, obj)
    return Shown(f"{kind.kind} {namespace}/{name}", view)


async def submissions(sources: Sources, request: Request) -> Shown:
    """The last submission of each workload that the reader may list."""
    query = listing.parse(request.path, request.parameters, submission_views.SPEC)
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, sources.fleet.present(), named)
    own = (
        (row, row.submission)
        for row in gathering.visible(sources.fleet, scope)
        if row.submission is not None
    )
    view = submission_views.view(
        listing.select(query, submission_views.SPEC, own), sources.clock.now()
    )
    return Shown("Submissions", view, notes=tuple(gathering.unseen(scope)))


async def objects(sources: Sources, request: Request) -> Shown:
    """The native objects of a workload in every cluster, as the leader reads them now."""
    kind, namespace, name = await gathering.allowed(sources, request)
    title = f"Objects of {namespace}/{name}"
    try:
        answer = await sources.leader.ask(request.reader, namespace, kind.plural, name, "tree")
    except NoAnswer as none:
        head = workload_views.head(kind, namespace, name, "objects")
        return Shown(title, {**head, "trouble": none.message, "clusters": []}, none.status)
    view = workload_views.objects(kind, namespace, name, answer)
    return Shown(title, {**view, "trouble": ""})


async def runtime(sources: Sources, request: Request) -> Shown:
    """Identity, secrets, configuration and registration of the pods, as the leader reads them
    now."""
    kind, namespace, name = await gathering.allowed(sources, request)
    title = f"Runtime of {namespace}/{name}"
    cluster = request.parameters.get("cluster", "")
    if selectors.dns1123_subdomain(cluster or "a"):
        raise RequestRefused(404, "No cluster can have this name.")
    query = (("cluster", cluster),) if cluster else ()
    try:
        answer = await sources.leader.ask(
            request.reader, namespace, kind.plural, name, "runtime", query=query
        )
    except NoAnswer as none:
        view = workload_views.no_runtime(kind, namespace, name, cluster, none.message)
        return Shown(title, view, none.status)
    return Shown(title, workload_views.runtime(kind, namespace, name, cluster, answer))


async def _topics(sources: Sources, request: Request) -> frozenset[Topic]:
    kind, namespace, name = await gathering.allowed(sources, request)
    return frozenset({(kind.kind, namespace, name)})


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "/workloads",
        workloads,
        "workloads.html.j2",
        "Workloads",
        is_list=True,
        live=gathering.topics,
    ),
    Route(WORKLOAD, workload, "workload.html.j2", section="/workloads", live=_topics),
    Route(
        f"{WORKLOAD}/runtime",
        runtime,
        "runtime.html.j2",
        section="/workloads",
        parameters=frozenset({"cluster"}),
    ),
    Route(f"{WORKLOAD}/objects", objects, "objects.html.j2", section="/workloads"),
    Route(
        "/submissions",
        submissions,
        "submissions.html.j2",
        "Submissions",
        is_list=True,
        live=gathering.topics,
    ),
)
