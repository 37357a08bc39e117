"""What fires now."""

import asyncio
from typing import Any, Final

from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, Route, Shown, Sources
from federator.dashboard.sources.prometheus import Prometheus, Silent
from federator.dashboard.views import alerts as alert_views

ACCOUNTS_MAX: Final = 200
"""Accounts of alerts of which the right to see them is checked."""


async def alerts(sources: Sources, request: Request) -> Shown:
    """Of Prometheus, where its address is set and it answers; else by what the host's objects
    say."""
    notes = []
    rows: list[dict[str, Any]] | None = None
    if sources.prometheus is not None:
        try:
            rows = await _firing(sources, request, sources.prometheus)
        except Silent as silent:
            notes.append(f"{silent} Shown is what the host's objects say.")
    else:
        notes.append(
            "No Prometheus is configured (dashboard.alerts_url). Shown is what the host's objects"
            " say."
        )
    source = "Prometheus" if rows is not None else "host"
    if rows is None:
        scope = await sources.rights.scope(request.reader, sources.fleet.present())
        clusters = await gathering.clusters(sources, request)
        accounts = await gathering.accounts(sources, request)
        banner = await sources.fleet.banner()
        seen = gathering.visible(sources.fleet, scope)
        rows = alert_views.of_host(seen, clusters, accounts, banner)
        notes += [*gathering.unseen(scope), *gathering.hidden(clusters, gathering.CLUSTERS)]
    view = {"source": source, "rows": rows, "most": alert_views.SHOWN_MAX}
    return Shown("Alerts", view, notes=tuple(notes))


async def _firing(
    sources: Sources, request: Request, prometheus: Prometheus
) -> list[dict[str, Any]]:
    """Raises `Silent`."""
    firing = await prometheus.alerts()
    rights, reader = sources.rights, request.reader
    operator = await rights.sees(reader, "list", gathering.CLUSTERS)
    accounts: frozenset[str] | None = None
    if not await rights.sees(reader, "list", gathering.QUOTAS):
        named = {dict(each.labels).get("account", "") for each in firing} - {""}
        asked = sorted(named)[:ACCOUNTS_MAX]
        allowed = await asyncio.gather(
            *(rights.gets(reader, gathering.QUOTAS, "", name) for name in asked)
        )
        accounts = frozenset(name for name, yes in zip(asked, allowed, strict=True) if yes)
    shown = alert_views.seen(firing, accounts, operator=operator)
    return alert_views.of_prometheus(shown, sources.clock.now())


ROUTES: Final[tuple[Route, ...]] = (Route("/alerts", alerts, "alerts.html.j2", "Alerts"),)
