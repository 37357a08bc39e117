"""The list of clusters, and a single one."""

from typing import Final

from federator.api.raw import Obj
from federator.dashboard import listing
from federator.dashboard.edits import Edits
from federator.dashboard.routes import actions, gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.sources.rows import ClusterRow
from federator.dashboard.views import clusters as cluster_views
from federator.dashboard.views import plan as plan_views
from federator.model import plaintext


async def clusters(sources: Sources, request: Request) -> Shown:
    """All members, by risk."""
    query = listing.parse(request.path, request.parameters, cluster_views.SPEC)
    rows = await gathering.clusters(sources, request)
    if rows is None:
        raise gathering.denied("list", gathering.CLUSTERS)
    page = listing.select(query, cluster_views.SPEC, rows)
    return Shown("Clusters", cluster_views.view(page, sources.clock.now()))


async def cluster(sources: Sources, request: Request) -> Shown:
    """A single member, with what it runs."""
    row, obj = await _known(sources, request)
    fleet, spec = sources.fleet, cluster_views.HOLDERS
    query = listing.parse(request.path, request.parameters, spec)
    scope = await sources.rights.scope(request.reader, fleet.present())
    decided = (
        (workload, decision)
        for workload in gathering.visible(fleet, scope)
        if (decision := fleet.decision(workload.uid)) is not None
    )
    held = list(cluster_views.holders(row.name, decided))
    page, copies = listing.select(query, spec, held), sum(each.copies for each in held)
    view = cluster_views.single(row, obj, page, copies, sources.clock.now())
    view["actions"] = await actions.buttons(sources, request, actions.cluster(row.name), obj)
    return Shown(f"Cluster {row.name}", view, notes=tuple(gathering.unseen(scope)))


async def drain(sources: Sources, request: Request) -> Shown:
    """What a drain of a member would move, where to, and what has no other place: a plan of the
    leading hub."""
    row, obj = await _known(sources, request)
    title = f"Drain forecast of cluster {row.name}"
    head = cluster_views.head(row.name, "drain")
    wanted = Edits(applied=[cluster_views.forced_drain({**obj, **_KIND})])
    try:
        document = await sources.leader.plan(request.reader, wanted.asked())
    except NoAnswer as none:
        return Shown(title, {**head, "trouble": none.message, "plan": None}, none.status)
    return Shown(title, {**head, "trouble": "", "plan": plan_views.outcome(document)})


_KIND: Final = {
    "apiVersion": gathering.CLUSTERS.api_version,
    "kind": gathering.CLUSTERS.kind,
}


async def _known(sources: Sources, request: Request) -> tuple[ClusterRow, Obj]:
    """The cluster of the path. Raises `RequestRefused`."""
    name = request.given["name"]
    if not await sources.rights.gets(request.reader, gathering.CLUSTERS, "", name):
        raise gathering.denied("get", gathering.CLUSTERS, name)
    row = cluster_views.known(sources.fleet.clusters(), name)
    if row is None:
        raise RequestRefused(404, f"There is no cluster {plaintext.clipped(name, 80)}.")
    return row, await gathering.read(sources, gathering.CLUSTERS, "", name)


ROUTES: Final[tuple[Route, ...]] = (
    Route("/clusters", clusters, "clusters.html.j2", "Clusters", is_list=True),
    Route("/clusters/{name}", cluster, "cluster.html.j2", section="/clusters", is_list=True),
    Route("/clusters/{name}/drain", drain, "drain.html.j2", section="/clusters", refreshes=False),
)
