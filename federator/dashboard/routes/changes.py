"""Changes of the federation, with their causes and times."""

from typing import Final

from federator.dashboard import listing
from federator.dashboard.routes import gathering
from federator.dashboard.routes.gathering import DECISIONS
from federator.dashboard.routes.route import Request, Route, Shown, Sources
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.sources.rows import WorkloadRow
from federator.dashboard.views import changes as change_views
from federator.dashboard.views.changes import ChangeRow
from federator.model.errors import FieldError
from federator.model.plaintext import counted

ENTRIES_MAX: Final = 1000
"""Entries of the history that one page is made from, the newest."""


async def changes(sources: Sources, request: Request) -> Shown:
    """The leader's history, and edits. A reader without the right to it, and everybody while nobody
    answers, sees the newest decision of each workload instead, where decisions may be listed."""
    now_s, fleet = sources.clock.now(), sources.fleet
    spec = change_views.spec(now_s)
    query = listing.parse(request.path, request.parameters, spec)
    chosen = query.filters.get("since", "")
    if chosen not in ("", *change_views.SINCE):
        raise FieldError("since", f"must be one of {', '.join(change_views.SINCE)}")
    since_s = now_s - change_views.SINCE.get(chosen, change_views.LONGEST_S)
    named = query.filters.get("namespace", "")
    scope = await sources.rights.scope(request.reader, fleet.present(), named)
    seen = list(gathering.visible(fleet, scope))
    rows = list(change_views.edits(seen, since_s))
    notes = gathering.unseen(scope)
    history, why = await _history(sources, request, int(now_s - since_s))
    if history is None:
        readable = await _with_decisions(sources, request, seen, named)
        rows += change_views.newest(readable, fleet.decision, since_s)
        clusters = await gathering.clusters(sources, request)
        rows += change_views.turns(clusters or (), since_s)
        notes.append(f"Shown is the newest decision of each workload that you may list. {why}")
        if len(readable) < len(seen):
            notes.append(
                f"Of {counted(len(seen) - len(readable), 'workload', 'workloads')} no decision is"
                f" shown: you may not list {DECISIONS.plural} in their namespaces."
            )
    else:
        rows += history
        if len(history) == ENTRIES_MAX:
            notes.append(f"The newest {ENTRIES_MAX} entries of the history are shown.")
    page = listing.select(query, spec, rows)
    return Shown("Changes", change_views.view(page, now_s), notes=tuple(notes))


async def _with_decisions(
    sources: Sources, request: Request, rows: list[WorkloadRow], named: str
) -> list[WorkloadRow]:
    """The workloads in namespaces where the reader may list decisions: why and when a workload was
    placed stands in no other object."""
    spaces = {(DECISIONS, row.namespace) for row in rows}
    scope = await sources.rights.scope(request.reader, spaces, named)
    return [row for row in rows if scope.shows(DECISIONS.kind, row.namespace)]


async def _history(
    sources: Sources, request: Request, since_s: int
) -> tuple[list[ChangeRow] | None, str]:
    """(the leader's history, "") or (None, why not)."""
    query = (("limit", str(ENTRIES_MAX)), ("since_seconds", str(since_s)))
    try:
        answer = await sources.leader.history(request.reader, query)
    except NoAnswer as none:
        return None, none.message
    return list(change_views.of_history(answer)), ""


ROUTES: Final[tuple[Route, ...]] = (
    Route("/changes", changes, "changes.html.j2", "Changes", is_list=True),
)
