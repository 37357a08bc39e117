"""The first page, and the runbooks that it leads to."""

from typing import Final

from federator.dashboard import runbooks
from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Refused, Request, Route, Shown, Sources
from federator.dashboard.views import overview as overview_views
from federator.model import plaintext


async def overview(sources: Sources, request: Request) -> Shown:
    """What needs a person first."""
    fleet = sources.fleet
    scope = await sources.rights.scope(request.reader, fleet.present())
    clusters = await gathering.clusters(sources, request)
    accounts = await gathering.accounts(sources, request)
    view = overview_views.view(
        gathering.visible(fleet, scope), clusters, accounts, sources.clock.now()
    )
    notes = [*gathering.unseen(scope), *gathering.hidden(clusters, gathering.CLUSTERS)]
    return Shown("Overview", view, notes=tuple(notes))


async def runbook(sources: Sources, request: Request) -> Shown:
    """A page of docs/operating."""
    page = runbooks.page(request.given["name"])
    if page is None:
        raise Refused(404, f"There is no runbook {plaintext.clipped(request.given['name'], 80)}.")
    return Shown(page["title"], page)


ROUTES: Final[tuple[Route, ...]] = (
    Route("/", overview, "overview.html.j2", "Overview"),
    Route("/runbooks/{name}", runbook, "runbook.html.j2", section="/", refreshes=False),
)
