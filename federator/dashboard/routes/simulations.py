"""Reports of simulations, in the folder that the operator names."""

from typing import Final

from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.sources import reports
from federator.dashboard.views import simulations as simulation_views

HOW: Final = (
    "No folder with reports is named: start the dashboard with --simulations DIR, and write reports"
    " there with federator simulate --out DIR/NAME."
)


async def simulations(sources: Sources, request: Request) -> Shown:
    """The reports, the newest first."""
    await _allow(sources, request)
    folder, now_s = sources.simulations, sources.clock.now()
    if folder is None:
        return Shown("Simulations", simulation_views.view(None, (), now_s), notes=(HOW,))
    try:
        newest, unread = await sources.compute(reports.newest, folder)
    except OSError as trouble:
        raise RequestRefused(
            502, f"The folder with reports cannot be read: {trouble.strerror}."
        ) from None
    return Shown("Simulations", simulation_views.view(newest, unread, now_s))


async def simulation(sources: Sources, request: Request) -> Shown:
    """One report."""
    await _allow(sources, request)
    if sources.simulations is None:
        raise RequestRefused(404, HOW)
    try:
        report = await sources.compute(reports.read, sources.simulations, request.given["name"])
    except reports.Unreadable as bad:
        raise RequestRefused(404, str(bad)) from None
    return Shown(f"Simulation {report.name}", simulation_views.single(report, sources.clock.now()))


async def _allow(sources: Sources, request: Request) -> None:
    """Returns for readers that may list clusters: a report is about the whole fleet, and names
    works of everybody."""
    if not await sources.rights.sees(request.reader, "list", gathering.CLUSTERS):
        raise gathering.denied("list", gathering.CLUSTERS)


ROUTES: Final[tuple[Route, ...]] = (
    Route("/simulations", simulations, "simulations.html.j2", "Simulations", refreshes=False),
    Route(
        "/simulations/{name}",
        simulation,
        "simulation.html.j2",
        section="/simulations",
        refreshes=False,
    ),
)
