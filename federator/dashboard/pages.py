"""The table of addresses, assembled from the modules of `routes`.

The next page is a row of `ROUTES` in one of them, a view model in `views` and a template. A page
checks the reader's rights before it reads anything, and never asks a member.
"""

from typing import Any, Final

from federator.dashboard.routes import (
    actions,
    alerts,
    changes,
    clusters,
    jobs,
    overview,
    plan,
    quota,
    simulations,
    timeline,
    why,
    workloads,
)
from federator.dashboard.routes.route import Route

ROUTES: Final[tuple[Route, ...]] = (
    *overview.ROUTES,
    *workloads.ROUTES,
    *why.ROUTES,
    *jobs.ROUTES,
    *timeline.ROUTES,
    *clusters.ROUTES,
    *changes.ROUTES,
    *alerts.ROUTES,
    *quota.ROUTES,
    *actions.ROUTES,
    *plan.ROUTES,
    *simulations.ROUTES,
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
