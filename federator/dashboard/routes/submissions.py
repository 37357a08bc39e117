"""The list of submissions through the gateway."""

from typing import Final

from federator.dashboard import listing
from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, Route, Shown, Sources
from federator.dashboard.views import submissions as views


async def submissions(sources: Sources, request: Request) -> Shown:
    """The last submission of each workload that the reader may list."""
    query = listing.parse(request.path, request.parameters, views.SPEC)
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, sources.fleet.present(), named)
    own = (
        (row, row.submission)
        for row in gathering.visible(sources.fleet, scope)
        if row.submission is not None
    )
    view = views.view(listing.select(query, views.SPEC, own), sources.clock.now())
    return Shown("Submissions", view, notes=tuple(gathering.unseen(scope)))


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "/submissions",
        submissions,
        "submissions.html.j2",
        "Submissions",
        is_list=True,
        live=gathering.topics,
    ),
)
