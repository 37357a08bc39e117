"""Why a workload is where it is, and what an edit of it would come to."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.dashboard import whatif
from federator.dashboard.routes import gathering
from federator.dashboard.routes.route import Request, Route, Shown, Sources
from federator.dashboard.routes.workloads import WORKLOAD
from federator.dashboard.sources.leader import NoAnswer
from federator.dashboard.views import plan as plan_views
from federator.dashboard.views import workload as workload_views
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.model.manifests import Unreadable

FORM_MAX: Final = 256 * 1024
POLICIES: Final = ("ClusterPlacementPolicy", "PlacementPolicy")


async def why(sources: Sources, request: Request) -> Shown:
    """Why a workload is where it is, as the leader computes it now, and what the edit that is given
    would come to."""
    kind, _, _ = await gathering.allowed(sources, request)
    given = request.parameters if request.form is None else request.form
    given = {field: text for field, text in given.items() if field in _FIELDS and text.strip()}
    asked = asyncio.create_task(_what_if(sources, request, kind, given))
    try:
        return await _explained(sources, request, kind, given, asked)
    finally:
        asked.cancel()
        await asyncio.wait([asked])


async def _explained(
    sources: Sources,
    request: Request,
    kind: Kind,
    given: Mapping[str, str],
    asked: "asyncio.Task[tuple[int, Mapping[str, Any]]]",
) -> Shown:
    """The page. While the leader does not answer it shows what is recorded."""
    namespace, name = request.given["namespace"], request.given["name"]
    title = f"Why here: {namespace}/{name}"
    try:
        facts = await sources.leader.ask(request.reader, namespace, kind.plural, name, "explain")
    except NoAnswer as none:
        recorded: list[dict[str, Any]] | None = None
        if none.status == 502:
            obj = await gathering.read(sources, kind, namespace, name)
            decisions = await gathering.decisions(sources, request, obj, namespace)
            now_s = sources.clock.now()
            recorded = [workload_views.decision(each, now_s) for each in decisions or ()]
        head = workload_views.head(kind, namespace, name, "why")
        return Shown(title, {**head, "trouble": none.message, "decisions": recorded}, none.status)
    status, answer = await asked
    policy = given.get(whatif.POLICY, "") or await _policy(sources, request, facts)
    view = {
        **workload_views.why(kind, namespace, name, facts),
        "trouble": "",
        "decisions": None,
        "whatIf": plan_views.what_if(kind, given, policy, answer),
    }
    return Shown(title, view, status)


_FIELDS: Final = frozenset({*whatif.FIELDS, whatif.POLICY})
_NOTHING: Final[Mapping[str, Any]] = {"problems": [], "plan": None}


async def _what_if(
    sources: Sources, request: Request, kind: Kind, given: Mapping[str, str]
) -> tuple[int, Mapping[str, Any]]:
    """(status, what the edit comes to)."""
    if not given:
        return 200, _NOTHING
    namespace, name = request.given["namespace"], request.given["name"]
    obj = await gathering.read(sources, kind, namespace, name)
    try:
        account, title = None, ""
        if given.get("quota"):
            assert kind.verbs is not None
            account, title = await _account(sources, request, kind.verbs.project(obj))
        wanted = whatif.of(given, kind, obj, account, title=title)
        document = await sources.leader.plan(request.reader, wanted.asked())
    except Unreadable as bad:
        return 422, {**_NOTHING, "problems": list(bad.sentences)}
    except NoAnswer as none:
        return none.status, {**_NOTHING, "problems": [none.message]}
    return 200, {**_NOTHING, "plan": plan_views.outcome(document, wanted.ignored)}


async def _account(
    sources: Sources, request: Request, project: str
) -> tuple[dict[str, Any] | None, str]:
    """The FederatedQuota of a project, or None and why there is none for this reader."""
    rows = sources.fleet.accounts()
    name = next((row.name for row in rows if project in row.projects), "")
    quotas = gathering.QUOTAS
    if not name or not await sources.rights.gets(request.reader, quotas, "", name):
        return None, "no FederatedQuota that you may get limits the project of this workload"
    return await gathering.named(sources, quotas, "", name), f"{name} is gone"


async def _policy(sources: Sources, request: Request, facts: Mapping[str, Any]) -> str:
    """The policy in force as YAML; "" where it is no object, or not for this reader."""
    chosen = raw.mapping(facts, "policy")
    name, namespace = raw.text(chosen, "name"), raw.text(chosen, "namespace")
    if not name or raw.text(chosen, "origin") not in ("policyRef", "match"):
        return ""
    kind = registry.KINDS[POLICIES[bool(namespace)]]
    if not await sources.rights.gets(request.reader, kind, namespace, name):
        return ""
    obj = await gathering.named(sources, kind, namespace, name)
    return plan_views.as_yaml(whatif.written(kind, obj)) if obj is not None else ""


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        f"{WORKLOAD}/why",
        why,
        "why.html.j2",
        section="/workloads",
        refreshes=False,
        parameters=frozenset(whatif.FIELDS),
        form_max=FORM_MAX,
    ),
)
