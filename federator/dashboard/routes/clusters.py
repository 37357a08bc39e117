"""The list of clusters, and a single one."""

from typing import Final

from federator.dashboard import listing
from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Refused, Request, Route, Shown, Sources
from federator.dashboard.views import clusters as cluster_views
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
    name, fleet = request.given["name"], sources.fleet
    if not await sources.rights.gets(request.reader, gathering.CLUSTERS, "", name):
        raise gathering.denied("get", gathering.CLUSTERS, name)
    row = cluster_views.known(fleet.clusters(), name)
    if row is None:
        raise Refused(404, f"There is no cluster {plaintext.clipped(name, 80)}.")
    obj = await gathering.read(sources, gathering.CLUSTERS, "", name)
    scope = await sources.rights.scope(request.reader, fleet.present())
    holders = (
        (workload, decision)
        for workload in gathering.visible(fleet, scope)
        if (decision := fleet.decision(workload.uid)) is not None
    )
    view = cluster_views.single(row, obj, holders, sources.clock.now())
    return Shown(f"Cluster {name}", view, notes=tuple(gathering.unseen(scope)))


ROUTES: Final[tuple[Route, ...]] = (
    Route("/clusters", clusters, "clusters.html.j2", "Clusters", is_list=True),
    Route("/clusters/{name}", cluster, "cluster.html.j2", section="/clusters"),
)
