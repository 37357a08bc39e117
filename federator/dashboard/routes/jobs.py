"""Jobs: the lists, the shards of one, and what runs on a schedule."""

from typing import Final

from federator.advice import recurrences
from federator.dashboard import listing
from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.routes.workloads import WORKLOAD
from federator.dashboard.views import jobs as job_views
from federator.kinds import registry
from federator.model.ask import Unit
from federator.model.kubernetes import selectors

KINDS: Final = frozenset(
    name
    for name, kind in registry.WORKLOADS.items()
    if kind.verbs is not None and kind.verbs.unit is Unit.SHARDS
)
(CRON,) = registry.RECURRING.values()


async def jobs(sources: Sources, request: Request) -> Shown:
    """All jobs that the reader may list."""
    fleet, spec = sources.fleet, job_views.SPEC
    query = listing.parse(request.path, request.parameters, spec)
    present = [pair for pair in fleet.present() if pair[0].kind in KINDS]
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, present, named)
    own = (row for row in gathering.visible(fleet, scope) if row.kind in KINDS)
    view = job_views.view(listing.select(query, spec, own), sources.clock.now())
    return Shown("Jobs", view, notes=tuple(gathering.unseen(scope)))


async def shards(sources: Sources, request: Request) -> Shown:
    """The shards of a job set, or the components of a training job: which are done, and where."""
    kind, namespace, name = await gathering.allowed(sources, request)
    if kind.kind not in KINDS:
        raise RequestRefused(404, f"A {kind.kind} has no shards.")
    obj = await gathering.read(sources, kind, namespace, name)
    decisions = await gathering.decisions(sources, request, obj, namespace)
    notes = gathering.hidden(decisions, gathering.DECISIONS)
    view = job_views.parts(kind, obj, decisions)
    return Shown(f"Shards of {namespace}/{name}", view, notes=tuple(notes))


async def crons(sources: Sources, request: Request) -> Shown:
    """All cron jobs that the reader may list."""
    fleet, spec = sources.fleet, job_views.CRONS
    query = listing.parse(request.path, request.parameters, spec)
    present = {(CRON, row.namespace) for row in fleet.crons()}
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, present, named)
    own = (row for row in fleet.crons() if scope.shows(row.kind, row.namespace))
    view = job_views.crons(listing.select(query, spec, own), sources.clock.now())
    return Shown("Cron jobs", view, notes=tuple(gathering.unseen(scope)))


async def cron(sources: Sources, request: Request) -> Shown:
    """A single cron job: its last runs, and the next times."""
    namespace, name = request.given["namespace"], request.given["name"]
    if selectors.dns1123_label(namespace) or selectors.dns1123_subdomain(name):
        raise RequestRefused(404, "No cron job can have this name.")
    if not await sources.rights.gets(request.reader, CRON, namespace, name):
        raise gathering.denied("get", CRON, name, namespace)
    verbs = CRON.recurring
    assert verbs is not None
    obj = await gathering.named(sources, CRON, namespace, name)
    if obj is None:
        raise RequestRefused(404, f"There is no {CRON.kind} {name} in the namespace {namespace}.")
    run_kind, native_kind = (registry.KINDS[each] for each in (verbs.run_kind, verbs.native_kind))
    runs, native, notes = [], None, []
    if await sources.rights.sees(request.reader, "list", run_kind, namespace):
        runs = await gathering.listed(
            sources,
            run_kind.api_version,
            run_kind.plural,
            namespace,
            label=f"{verbs.run_label}={name}",
        )
    else:
        notes = gathering.hidden(None, run_kind)
    if await sources.rights.gets(request.reader, native_kind, namespace, name):
        native = await gathering.named(sources, native_kind, namespace, name)
    facts = recurrences.facts(CRON, obj, runs, sources.clock.now(), native=native)
    return Shown(f"{CRON.kind} {namespace}/{name}", job_views.cron(facts), notes=tuple(notes))


ROUTES: Final[tuple[Route, ...]] = (
    Route("/jobs", jobs, "jobs.html.j2", "Jobs", is_list=True),
    Route(f"{WORKLOAD}/shards", shards, "shards.html.j2", section="/workloads"),
    Route("/cronjobs", crons, "crons.html.j2", section="/jobs", is_list=True),
    Route("/cronjobs/{namespace}/{name}", cron, "cron.html.j2", section="/jobs"),
)
