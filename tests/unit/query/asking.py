"""A query port over a federation on virtual time, and users of the host with a token each. Used by
the tests beside it.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from federator.advice import facts, trials
from federator.advice.plans import asked, verdicts
from federator.advice.trials import Stop
from federator.embedded.storage.messages import Caller
from federator.hub.history.journal import Journal
from federator.hub.query.access import Access
from federator.hub.query.options import QueryOptions
from federator.hub.query.port import QueryPort
from federator.hub.query.questions import Sources
from federator.hub.snapshot.computing import InProcess
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import Certificate, Incoming, Outgoing
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World

T = TypeVar("T")
RBAC = "rbac.authorization.k8s.io/v1"
WEB = "/v1/namespaces/feed/pinterestservices/web"
PSVC = {
    "apiGroups": ["pinterest.com"],
    "resources": ["pinterestservices", "pinterestjobsets"],
    "verbs": ["get"],
}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
LOGS = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}


async def at_once(work: Callable[[Stop], T]) -> T:
    """Computes where it is asked: there are no threads on virtual time."""
    return work(trials.never)


def port_of(
    world: World,
    *,
    leader: str = "",
    options: QueryOptions | None = None,
    hub: str = "hub",
    compute: Any = at_once,
    metrics: Metrics | None = None,
    journal: Journal | None = None,
) -> QueryPort:
    """The query port of one hub of the world."""
    process = world.federation.processes[hub]
    clock = world.federation.clock
    options, standing = options or QueryOptions(), process.controllers.placing.as_now
    sources = Sources(
        process.state,
        process.host,
        clock,
        options,
        facts.facts,
        InProcess(lambda: process.state, clock, compute),
        standing,
        journal or process.journal,
        plan=asked.answer,
        drilled=lambda: process.controllers.drilling.outcomes,
        verdict=verdicts.VERDICT,
        for_room=process.controllers.placing.inadmissible.for_room,
        read=compute,
    )
    access = Access(world.federation.client("host", "query"), clock=clock)
    return QueryPort(access, lambda: sources, lambda: leader, metrics=metrics or Metrics())


async def grant(world: World, user: str, namespace: str, *rules: dict[str, Any]) -> None:
    """Lets a user in with the token `TOKEN-OF-user`, and gives these rights in one namespace of the
    host.
    """
    world.federation.host.add_token(token(user), Caller(user))
    await world.namespace(namespace)
    await _bind(world, user, namespace, rules)


async def grant_everywhere(
    world: World, user: str, *rules: dict[str, Any], subject: str = "User"
) -> None:
    """Gives a user, or a group, these rights on the whole host."""
    await _bind(world, user, "", rules, subject)


async def _bind(
    world: World,
    user: str,
    namespace: str,
    rules: Sequence[dict[str, Any]],
    subject: str = "User",
) -> None:
    """A role with these rules and its binding, in a namespace, or everywhere with ""."""
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": user, "namespace": namespace} if namespace else {"name": user}
    role = {"apiVersion": RBAC, "kind": kind, "metadata": meta, "rules": list(rules)}
    bound = {
        "apiVersion": RBAC,
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": subject, "name": user}],
    }
    for obj in (role, bound):
        plural = f"{str(obj['kind']).lower()}s"
        await world.host.create(ObjectRef(RBAC, plural, namespace, user, str(obj["kind"])), obj)


def token(user: str) -> str:
    return f"TOKEN-OF-{user}"


def request(
    path: str, *, user: str = "", query: str = "", certificate: str = "", **more: Any
) -> Incoming:
    return Incoming(
        more.pop("method", "GET"),
        path,
        query=query,
        authorization=more.pop("authorization", f"Bearer {token(user)}" if user else ""),
        certificate=Certificate(certificate) if certificate else None,
        **more,
    )


def body(answer: Outgoing) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    return found
