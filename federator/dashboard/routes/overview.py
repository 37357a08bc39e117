"""The first page, and the runbooks that it leads to."""

from typing import Any, Final

from federator.dashboard import runbooks
from federator.dashboard.routes import actions, gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.sources.leader import NoAnswer
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
    pairs = [(kind.kind, space) for kind, space in sources.fleet.present()]
    shown = (pair for pair in pairs if scope.shows(*pair))
    view |= {
        "trend": overview_views.trend(sources.trend.series(shown)),
        "drill": await _drill(sources, request) if clusters is not None else None,
        "actions": await actions.of_federation(sources, request),
    }
    notes = [*gathering.unseen(scope), *gathering.hidden(clusters, gathering.CLUSTERS)]
    return Shown("Overview", view, notes=tuple(notes))


async def _drill(sources: Sources, request: Request) -> dict[str, Any]:
    """What the loss of each cluster would come to."""
    try:
        return overview_views.drill(await sources.leader.drill(request.reader))
    except NoAnswer as none:
        return {"trouble": none.message, "rows": [], "covered": 0}


async def runbook(sources: Sources, request: Request) -> Shown:
    """A page of docs/operating."""
    page = runbooks.page(request.given["name"])
    if page is None:
        raise RequestRefused(
            404, f"There is no runbook {plaintext.clipped(request.given['name'], 80)}."
        )
    return Shown(page["title"], page)


ROUTES: Final[tuple[Route, ...]] = (
    Route("/", overview, "overview.html.j2", "Overview", live=gathering.topics),
    Route("/runbooks/{name}", runbook, "runbook.html.j2", section="/", refreshes=False),
)
