"""The time line of a workload, and the logs of its pods: the leader is asked for both."""

from collections.abc import Mapping
from typing import Any, Final

from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, RequestRefused, Route, Shown, Sources
from federator.dashboard.routes.workloads import WORKLOAD
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.views import logs as log_views
from federator.dashboard.views import timeline as timeline_views
from federator.hub.query.router import Right
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors

HISTORY_LIMIT: Final = "200"
LOG_PARAMETERS: Final = frozenset({"cluster", "pod", "container", "tail", "previous"})


async def timeline(sources: Sources, request: Request) -> Shown:
    """What happened to a workload. Without the leader's history: what its object says."""
    kind, namespace, name = await gathering.allowed(sources, request)
    obj = await gathering.read(sources, kind, namespace, name)
    events = await gathering.events(sources, request, namespace, name)
    kept = await gathering.kept_revisions(sources, request, obj)
    notes = []
    if events is None:
        notes.append("You may not list Events in this namespace.")
    if kept is None:
        notes.append("You may not list ControllerRevisions in this namespace.")
    history: Mapping[str, Any] | None = None
    try:
        history = await sources.leader.ask(
            request.reader,
            namespace,
            kind.plural,
            name,
            "history",
            query=(("limit", HISTORY_LIMIT),),
        )
    except NoAnswer as none:
        notes.append(f"Decisions and earlier conditions are left out. {none.message}")
    known = timeline_views.Known(history, events, kept)
    view = timeline_views.view(kind, obj, known, sources.clock.now())
    return Shown(f"Time line: {namespace}/{name}", view, notes=tuple(notes))


async def logs(sources: Sources, request: Request) -> Shown:
    """The ends of the logs of a workload's pods."""
    kind, namespace, name = await gathering.allowed(sources, request)
    if not await sources.rights.may(request.reader, Right("get", "", "pods", "log"), namespace):
        raise RequestRefused(
            403, f"You may not get pods/log in the namespace {namespace} on the host."
        )
    page = log_views.form(kind, namespace, name, request.parameters)
    title = f"Logs of {namespace}/{name}"
    try:
        answer = await sources.leader.ask(
            request.reader, namespace, kind.plural, name, "logs", query=_query(request.parameters)
        )
    except NoAnswer as none:
        return Shown(title, {**page, "trouble": none.message}, none.status)
    return Shown(title, {**page, **log_views.shown(answer)})


def _query(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The question. Raises FieldError for what no pod, and no number of lines, can be."""
    query = {name: given[name] for name in ("cluster", "pod", "container") if given.get(name)}
    for name, text in query.items():
        if selectors.dns1123_subdomain(text):
            raise FieldError(name, "must be a name")
    tail = given.get("tail", "") or str(log_views.TAILS[0])
    if tail not in map(str, log_views.TAILS):
        accepted = ", ".join(map(str, log_views.TAILS))
        raise FieldError("tail", f"must be one of {accepted}")
    if given.get("previous", "") not in ("", "true"):
        raise FieldError("previous", "must be true, or left out")
    previous = (("previous", "true"),) if given.get("previous") else ()
    return (*query.items(), ("tail", tail), *previous)


ROUTES: Final[tuple[Route, ...]] = (
    Route(f"{WORKLOAD}/timeline", timeline, "timeline.html.j2", section="/workloads"),
    Route(
        f"{WORKLOAD}/logs",
        logs,
        "logs.html.j2",
        section="/workloads",
        refreshes=False,
        parameters=LOG_PARAMETERS,
    ),
)
