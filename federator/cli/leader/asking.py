"""Queries behind `pods`, `logs` and `tree`: to the leader's query port, or directly to members with
the user's own contexts. `explain` and `place` use the same port.

Both ways give the same answer, because both collect it with the same code. Each member that does
not answer is named in one line on stderr, and the command exits with 1.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click
import msgspec

from federator.cli import common

if TYPE_CHECKING:
    from federator.hub.query.announcing import Announcement
    from federator.hub.query.collecting import LogSelection
    from federator.hub.query.selection import Selection
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])
LEASE_NAMESPACE, LEASE_NAME = "federator-system", "federator-hub"
LEADER_WAIT_S = 6.0
"""How long to wait for a new leader to announce its query port, in seconds."""
ANSWER_S = 30.0
IN_NAMESPACES = "/v1/namespaces/"
OWN = "use --own-contexts to ask the members with contexts of your own"


def options(command: F) -> F:
    """Adds the options of commands that query members."""
    command = common.leader_option(command)
    command = click.option(
        "--own-contexts",
        is_flag=True,
        help="Ask members with your own contexts, named like the clusters.",
    )(command)
    command = click.option("-C", "--cluster", default="", help="This cluster only.")(command)
    command = click.option(
        "-n", "--namespace", default="", help="Namespace (default: the context's)."
    )(command)
    return common.connection_options(command)


@dataclass(frozen=True, slots=True)
class WorkloadQuery:
    """A query about one workload: what it has in members, and how to ask."""

    kind: "Kind"
    name: str
    namespace: str
    cluster: str
    kubeconfig: str
    context: str
    own_contexts: bool
    leader_address: str

    @property
    def title(self) -> str:
        return f"{self.kind.singular} {self.namespace}/{self.name}"

    @property
    def numbered(self) -> bool:
        """Whether each of its pods runs a shard that has a number."""
        return self.kind.verbs is not None and self.kind.verbs.lookup.shards is not None

    async def answer(
        self, question: str, parameters: Mapping[str, str | int | bool], *, again: bool = False
    ) -> dict[str, Any]:
        """The answer to `question` ("pods", "logs", "tree" or "runtime"). Exits with an error when
        there is none.

        `again`: the banner has been printed by an earlier call.
        """
        if self.own_contexts:
            return await self._from_members(question, parameters)
        with_client = common.with_host if again else common.with_federation
        return await with_client(
            self.kubeconfig,
            self.context,
            lambda host: self._from_leader(host, question, parameters),
        )

    # -- the leader's query port ----------------------------------------------

    async def _from_leader(
        self, host: "Client", question: str, parameters: Mapping[str, str | int | bool]
    ) -> dict[str, Any]:
        texts = [
            (name, _text(value)) for name, value in parameters.items() if value not in ("", False)
        ]
        chosen = (("cluster", self.cluster),) if self.cluster else ()
        leader = Leader(self.kubeconfig, self.context, self.leader_address, f"; {OWN}")
        return await leader.ask(
            host, (self.namespace, self.kind.plural, self.name, question), (*chosen, *texts)
        )

    # -- the user's own contexts ----------------------------------------------

    async def _from_members(self, question: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        from federator.hub.query import collecting
        from federator.model.errors import FieldError

        try:
            selection, pieces, uids = await common.with_host(
                self.kubeconfig, self.context, self._parts
            )
        except FieldError as bad:
            common.fail(str(bad))
        names = [name for name in sorted(pieces) if self.cluster in ("", name)]
        if self.cluster and not names:
            where = ", ".join(sorted(pieces)) or "no cluster"
            common.fail(f"{self.cluster} has no part of {self.title}; it is in {where}")
        wanted: LogSelection = collecting.LogSelection(
            **{name: value for name, value in parameters.items() if value != ""}
        )
        async with contextlib.AsyncExitStack() as opened:
            clients = [await own_client(opened, name, self.kubeconfig) for name in names]
            troubles = await asyncio.gather(
                *(
                    context_problem(client, uids.get(name, ""))
                    for name, client in zip(names, clients, strict=True)
                )
            )
            targets = [
                collecting.Target(name, client, away=away, pieces=pieces[name])
                for name, client, away in zip(names, clients, troubles, strict=True)
            ]
            ask = {
                "pods": collecting.pods,
                "logs": collecting.logs,
                "tree": collecting.natives,
                "runtime": collecting.runtimes,
            }[question]
            return await ask(targets, selection, wanted)

    async def _parts(self, host: "Client") -> tuple["Selection", dict[str, Any], dict[str, str]]:
        """(which pods belong to the workload, cluster -> its shards there, cluster -> its uid).

        The uids are empty where the caller may not read MemberClusters. Raises FieldError for a
        workload that selects no pods.
        """
        from federator.api import membercluster
        from federator.api.placement import decisionfacts
        from federator.hub.query import selection
        from federator.kinds import registry
        from federator.kube import errors
        from federator.model import names

        try:
            obj = await host.get(self.kind.ref(self.namespace, self.name))
        except errors.NotFound:
            common.fail(f'{self.kind.plural} "{self.name}" not found in namespace {self.namespace}')
        chosen = selection.of_workload(self.kind.kind, obj)
        row = registry.KINDS["PlacementDecision"]
        mark = f"{names.WORKLOAD_UID_LABEL}={chosen.uid}"
        pieces: dict[str, Any] = {}
        for decision in (
            await host.list(row.api_version, row.plural, self.namespace, label_selector=mark)
        ).items:
            facts = decisionfacts.decision_facts(decision)
            pieces |= dict.fromkeys(facts.terms.leaving, ())
            pieces |= {share.cluster: share.ranges for share in facts.shares}
        uids: dict[str, str] = {}
        with contextlib.suppress(errors.Denied):  # callers without that right rely on context names
            members = registry.KINDS["MemberCluster"]
            listing = await host.list(members.api_version, members.plural)
            uids = {
                obj["metadata"]["name"]: membercluster.recorded_uid(obj) for obj in listing.items
            }
        return chosen, pieces, uids


@dataclass(frozen=True, slots=True)
class Leader:
    """The query port of the leading hub, and the context with the credentials that are sent to
    it."""

    kubeconfig: str
    context: str
    address: str
    """HOST:PORT; "" for the address in the Lease."""
    instead: str = ""
    """Advice for when it does not answer, as the end of a sentence."""

    async def ask(
        self,
        host: "Client",
        parts: tuple[str, ...],
        query: tuple[tuple[str, str], ...] = (),
        body: Mapping[str, Any] | None = None,
        *,
        root: str = IN_NAMESPACES,
    ) -> dict[str, Any]:
        """The answer for the path `parts` (namespace, plural and what follows) below `root`; sent
        by POST when there is a body. Exits with an error when there is no answer."""
        async with self.opened(host) as port:
            return await port.ask(parts, query, body, root=root)

    @contextlib.asynccontextmanager
    async def opened(self, host: "Client") -> AsyncIterator["Port"]:
        """The port, for many questions."""
        from federator.kube.client import Client
        from federator.kube.login import connect

        announcement = await announcement_of(host, self.instead)
        address = self.address or announcement.address
        door = connect.Door(
            f"https://{address}", announcement.ca_pem.encode("ascii"), announcement.server_name
        )
        transport = await connect.to_door(door, self.kubeconfig, self.context)
        try:
            yield Port(Client(transport, "leader"), announcement, address, self.instead)
        finally:
            await transport.close()


@dataclass(frozen=True, slots=True)
class Port:
    """An open connection to the query port."""

    leader: "Client"
    announcement: "Announcement"
    address: str
    instead: str

    async def ask(
        self,
        parts: tuple[str, ...],
        query: tuple[tuple[str, str], ...] = (),
        body: Mapping[str, Any] | None = None,
        *,
        root: str = IN_NAMESPACES,
    ) -> dict[str, Any]:
        """As `Leader.ask`."""
        from federator.kube import errors

        path = root + "/".join(quote(part, safe="") for part in parts)
        sent = msgspec.json.encode(body) if body is not None else b""
        try:
            answer = await self.leader.raw(
                "POST" if sent else "GET", path, query, body=sent, timeout_s=ANSWER_S
            )
            return dict(msgspec.json.decode(answer))
        except errors.Unreachable as failure:
            common.fail(unreachable(self.announcement, self.address, failure, self.instead))
        except errors.ApiError as failure:
            common.fail(str(failure).partition(f"{path}: ")[2] or str(failure))
        except (msgspec.MsgspecError, ValueError):
            common.fail(f"the server at {self.address} is not a query port of federator")


def query_of(workload: str, name: str, flags: Mapping[str, Any]) -> WorkloadQuery:
    """The query for KIND/NAME, or KIND and NAME. Exits with an error for other kinds. `given`: the
    values of `options`."""
    from federator.cli import views

    named, slash, after = workload.partition("/")
    kind = views.kind_named(named)
    chosen = after if slash else name
    if kind.verbs is None:
        common.fail(f"a {kind.kind} has no pods; name a {views.WORKLOADS}")
    if not chosen:
        common.fail("name a workload, such as psvc/web")
    namespace = flags["namespace"] or common.default_namespace(
        flags["kubeconfig"], flags["context"]
    )
    rest = {
        key: flags[key]
        for key in ("cluster", "kubeconfig", "context", "own_contexts", "leader_address")
    }
    return WorkloadQuery(kind=kind, name=chosen, namespace=namespace, **rest)


async def announcement_of(host: "Client", instead: str) -> "Announcement":
    """The leader's query port as announced in the Lease. Waits up to `LEADER_WAIT_S`; exits with an
    error that ends with `instead` when there is none."""
    from federator.hub.query import announcing
    from federator.kube import errors
    from federator.model.steps import ObjectRef

    ref = ObjectRef("coordination.k8s.io/v1", "leases", LEASE_NAMESPACE, LEASE_NAME, "Lease")
    lease_text = f"the Lease {LEASE_NAMESPACE}/{LEASE_NAME} on the host"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEADER_WAIT_S
    while True:
        try:
            return announcing.read(await host.get(ref))
        except errors.NotFound:
            common.fail(
                f"{lease_text} does not exist: no hub with a query port runs there{instead}"
            )
        except errors.Denied:
            common.fail(f"you may not read {lease_text}, which says where the leader is{instead}")
        except announcing.NoPort as failure:
            if not failure.waiting or loop.time() >= deadline:
                common.fail(f"{failure} ({lease_text}){instead}")
        await asyncio.sleep(0.5)


def unreachable(
    announcement: "Announcement", address: str, failure: Exception, instead: str
) -> str:
    """The error when the leader does not answer, and what helps. The banner before it reports a
    leader that has stopped."""
    pod = announcement.holder.rpartition("_")[0] or announcement.holder
    way = (
        f"kubectl port-forward -n {LEASE_NAMESPACE} pod/{pod}"
        f" 8444:{announcement.address.rpartition(':')[2]}"
    )
    if "certificate" in str(failure).lower():
        return (
            f"the server at {address} is not the leading hub ({announcement.holder}): its"
            " certificate is a"
            " different one"
        )
    return (
        f"the query port of the leader {announcement.holder} cannot be reached at {address}."
        f" From outside its network: {way}, and --leader-address"
        f" 127.0.0.1:8444{instead.replace('; ', '; or ')}"
    )


async def own_client(
    opened: contextlib.AsyncExitStack, cluster: str, kubeconfig: str
) -> "Client | None":
    """A client of a member by the user's own context of that name, closed with the stack; None
    without one."""
    from federator.kube.client import Client
    from federator.kube.login import connect

    if cluster not in connect.contexts(kubeconfig):
        return None
    transport = await connect.from_kubeconfig(kubeconfig, cluster)
    opened.push_async_callback(transport.close)
    return Client(transport, cluster)


async def context_problem(client: "Client | None", uid: str) -> str:
    """Why a cluster cannot be queried through a context: there is none, or it leads to another
    cluster. "" when it can be tried; missing rights and timeouts show up in the query itself."""
    from federator.kube import errors

    if client is None:
        return "has no context of yours"
    if not uid:
        return ""
    try:
        async with asyncio.timeout(ANSWER_S / 3):
            actual = await client.kube_system_uid()
    except (errors.ApiError, TimeoutError):
        return ""
    return (
        ""
        if actual == uid
        else "is another cluster than the one that your context of this name leads to"
    )


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def report_unanswered(clusters: Iterable[Mapping[str, Any]]) -> bool:
    """Prints a line on stderr for each cluster that did not answer. Returns whether there was
    one."""
    away = [row for row in clusters if not row.get("answered")]
    for row in away:
        common.say(f"{row.get('cluster')}: not shown, it {row.get('reason')}", err=True)
    return bool(away)


def exit_if_partial(partial: bool) -> None:
    """Exits with 1 when only a part could be shown."""
    if partial:
        sys.exit(1)


async def plan(
    asked: Mapping[str, Any], given: Mapping[str, str], host: "Client"
) -> dict[str, Any]:
    """The document of a plan that the leading hub computes. `asked`: the edits, as
    `advice.plans.asked` reads them; `given`: the options of the connection."""
    from federator.advice.plans import sending

    leader = Leader(
        given["kubeconfig"],
        given["context"],
        given["leader_address"],
        "; or plan on a dump: --dump",
    )
    body = sending.body_of(asked)
    return await leader.ask(host, ("plan",), sending.query_of(body), body=body, root="/v1/")
