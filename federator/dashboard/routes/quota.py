"""The tree of accounts with what waits, and a single account."""

from typing import Final

from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.views import quota as quota_views
from federator.dashboard.views import workloads as workload_lists
from federator.model import plaintext


async def quota(sources: Sources, request: Request) -> Shown:
    """The tree of accounts, and what waits."""
    fleet = sources.fleet
    scope = await sources.rights.scope(request.reader, fleet.present())
    accounts = await gathering.accounts(sources, request)
    lacking = workload_lists.waiting(
        gathering.visible(fleet, scope),
        fleet.decision,
        sources.clock.now(),
        quota_views.WAITING_MAX,
    )
    notes = [*gathering.unseen(scope), *gathering.hidden(accounts, gathering.QUOTAS)]
    return Shown("Quota and queue", quota_views.view(accounts, lacking), notes=tuple(notes))


async def account(sources: Sources, request: Request) -> Shown:
    """A single account."""
    name = request.given["name"]
    if not await sources.rights.gets(request.reader, gathering.QUOTAS, "", name):
        raise gathering.denied("get", gathering.QUOTAS, name)
    rows = sources.fleet.accounts()
    if not await sources.rights.sees(request.reader, "list", gathering.QUOTAS):
        rows = [row for row in rows if row.name == name]
    view = quota_views.single(rows, name)
    if view is None:
        raise RequestRefused(404, f"There is no FederatedQuota {plaintext.clipped(name, 80)}.")
    return Shown(f"Account {name}", view)


ROUTES: Final[tuple[Route, ...]] = (
    Route("/quota", quota, "quota.html.j2", "Quota and queue"),
    Route("/quota/{name}", account, "account.html.j2", section="/quota"),
)
