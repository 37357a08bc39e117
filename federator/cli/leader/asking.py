"""How `pods` and `logs` get their answers: from the leader's query port, or from members with a person's own contexts.
`explain` and `place` ask the same port.

Both ways give the same answer, because both collect it with the same code. What a member that is away leaves out is
said on stderr, one line for each, and the command ends with 1.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import click
import msgspec

from federator.cli import common

if TYPE_CHECKING:
    from federator.hub.query.announcing import Announcement
    from federator.hub.query.collecting import Wanted
    from federator.hub.query.selection import Selection
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

F = TypeVar("F", bound=Callable[..., Any])
LEASE_NAMESPACE, LEASE_NAME = "federator-system", "federator-hub"
LEADER_WAIT_S = 6.0
"""How long the word of a leader that has just changed is waited for, in seconds."""
ANSWER_S = 30.0
OWN = "use --own-contexts to ask the members with contexts of your own"


def options(command: F) -> F:
    """Options of every command that asks for what is in members."""
    command = click.option(
        "--leader-address", default="", help="HOST:PORT of the leader's query port (default: as the Lease says)."
    )(command)
    command = click.option(
        "--own-contexts", is_flag=True, help="Ask members with your own contexts, called as the clusters are."
    )(command)
    command = click.option("-C", "--cluster", default="", help="This cluster only.")(command)
    command = click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")(command)
    return common.connection_options(command)


@dataclass(frozen=True, slots=True)
class Asking:
    """One workload, and whom to ask for what it has in members."""

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
        """The answer to `pods` or `logs`. Ends the command with a sentence where there is none. `again`: what a person
        must know before reading it has been said."""
        if self.own_contexts:
            return await self._from_members(question, parameters)
        asking = common.with_host if again else common.with_federation
        return await asking(self.kubeconfig, self.context, lambda host: self._from_leader(host, question, parameters))

    # -- the leader's query port -----------------------------------------------------------------------------------

    async def _from_leader(
        self, host: "Client", question: str, parameters: Mapping[str, str | int | bool]
    ) -> dict[str, Any]:
        texts = [(name, _text(value)) for name, value in parameters.items() if value not in ("", False)]
        chosen = (("cluster", self.cluster),) if self.cluster else ()
        leader = Leader(self.kubeconfig, self.context, self.leader_address, f"; {OWN}")
        return await leader.asked(host, (self.namespace, self.kind.plural, self.name, question), (*chosen, *texts))

    # -- contexts of one's own -------------------------------------------------------------------------------------

    async def _from_members(self, question: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        from federator.hub.query import collecting
        from federator.model.errors import FieldError

        try:
            selection, pieces, uids = await common.with_host(self.kubeconfig, self.context, self._parts)
        except FieldError as bad:
            common.fail(str(bad))
        names = [name for name in sorted(pieces) if self.cluster in ("", name)]
        if self.cluster and not names:
            where = ", ".join(sorted(pieces)) or "no cluster"
            common.fail(f"{self.cluster} has no part of {self.title}; it is in {where}")
        wanted: Wanted = collecting.Wanted(**{name: value for name, value in parameters.items() if value != ""})
        async with contextlib.AsyncExitStack() as opened:
            clients = [await own_client(opened, name, self.kubeconfig) for name in names]
            troubles = await asyncio.gather(
                *(trouble(client, uids.get(name, "")) for name, client in zip(names, clients, strict=True))
            )
            targets = [
                collecting.Target(name, client, away=away, pieces=pieces[name])
                for name, client, away in zip(names, clients, troubles, strict=True)
            ]
            ask = {"pods": collecting.pods, "logs": collecting.logs, "tree": collecting.natives}[question]
            return await ask(targets, selection, wanted)

    async def _parts(self, host: "Client") -> tuple["Selection", dict[str, Any], dict[str, str]]:
        """Which pods belong to the workload, the clusters that have a part of it with their shards, and which cluster
        each name stands for, as far as the caller may know. Raises FieldError for one that selects no pods."""
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
        for decision in (await host.list(row.api_version, row.plural, self.namespace, label_selector=mark)).items:
            facts = decisionfacts.decision_facts(decision)
            pieces |= dict.fromkeys(facts.terms.leaving, ())
            pieces |= {share.cluster: share.ranges for share in facts.shares}
        uids: dict[str, str] = {}
        with contextlib.suppress(errors.Denied):  # who may not see the fleet trusts the names of contexts
            members = registry.KINDS["MemberCluster"]
            listing = await host.list(members.api_version, members.plural)
            uids = {one["metadata"]["name"]: membercluster.recorded_uid(one) for one in listing.items}
        return chosen, pieces, uids


@dataclass(frozen=True, slots=True)
class Leader:
    """The query port of the hub that leads, and whose credentials it is shown."""

    kubeconfig: str
    context: str
    address: str
    """Where it is reached; "" for where the Lease says."""
    instead: str = ""
    """What else can be done where it does not answer, as the end of a sentence."""

    async def asked(
        self,
        host: "Client",
        parts: tuple[str, ...],
        query: tuple[tuple[str, str], ...] = (),
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The answer to the question of this path (`parts`: namespace, plural and what follows), asked by POST where
        there is a body. Ends the command with a sentence where there is none."""
        from federator.kube import errors
        from federator.kube.client import Client
        from federator.kube.login import connect

        said = await announced(host, self.instead)
        address = self.address or said.address
        door = connect.Door(f"https://{address}", said.ca_pem.encode("ascii"), said.server_name)
        transport = await connect.to_door(door, self.kubeconfig, self.context)
        path = "/v1/namespaces/" + "/".join(quote(part, safe="") for part in parts)
        sent = msgspec.json.encode(body) if body is not None else b""
        try:
            leader = Client(transport, "leader")
            answer = await leader.raw("POST" if sent else "GET", path, query, body=sent, timeout_s=ANSWER_S)
            return dict(msgspec.json.decode(answer))
        except errors.Unreachable as trouble:
            common.fail(unreachable(said, address, trouble, self.instead))
        except errors.ApiError as trouble:
            common.fail(str(trouble).partition(f"{path}: ")[2] or str(trouble))
        except (msgspec.MsgspecError, ValueError):
            common.fail(f"what answers at {address} is no query port")
        finally:
            await transport.close()


def asking(workload: str, name: str, given: Mapping[str, Any]) -> Asking:
    """Reads KIND/NAME, or KIND NAME. Ends the command for what is no workload. `given`: the values of `options`."""
    from federator.cli import views

    named, slash, after = workload.partition("/")
    kind = views.kind_named(named)
    chosen = after if slash else name
    if kind.verbs is None:
        common.fail(f"a {kind.kind} has no pods; name a {views.WORKLOADS}")
    if not chosen:
        common.fail("name a workload, such as psvc/web")
    namespace = given["namespace"] or common.default_namespace(given["kubeconfig"], given["context"])
    rest = {key: given[key] for key in ("cluster", "kubeconfig", "context", "own_contexts", "leader_address")}
    return Asking(kind=kind, name=chosen, namespace=namespace, **rest)


async def announced(host: "Client", instead: str) -> "Announcement":
    """What the Lease says of the leader's query port. Ends the command with a sentence where it says nothing;
    `instead` is its end."""
    from federator.hub.query import announcing
    from federator.kube import errors
    from federator.model.steps import ObjectRef

    ref = ObjectRef("coordination.k8s.io/v1", "leases", LEASE_NAMESPACE, LEASE_NAME, "Lease")
    where = f"the Lease {LEASE_NAMESPACE}/{LEASE_NAME} on the host"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LEADER_WAIT_S
    while True:
        try:
            return announcing.read(await host.get(ref))
        except errors.NotFound:
            common.fail(f"{where} does not exist: no hub that others could ask runs there{instead}")
        except errors.Denied:
            common.fail(f"you may not read {where}, which says where the leader is{instead}")
        except announcing.NoPort as trouble:
            if not trouble.waiting or loop.time() >= deadline:
                common.fail(f"{trouble} ({where}){instead}")
        await asyncio.sleep(0.5)


def unreachable(said: "Announcement", address: str, trouble: Exception, instead: str) -> str:
    """Why nothing was heard of the leader, and what helps. That it has stopped is said by the banner before."""
    pod = said.holder.rpartition("_")[0] or said.holder
    way = f"kubectl port-forward -n {LEASE_NAMESPACE} pod/{pod} 8444:{said.address.rpartition(':')[2]}"
    if "certificate" in str(trouble).lower():
        return f"what answers at {address} is not the hub that leads ({said.holder}): its certificate is another one"
    return (
        f"the query port of the leader {said.holder} cannot be reached at {address}. From outside its network: {way},"
        f" and --leader-address 127.0.0.1:8444{instead.replace('; ', '; or ')}"
    )


async def own_client(opened: contextlib.AsyncExitStack, cluster: str, kubeconfig: str) -> "Client | None":
    """A client of a member by a person's own context of that name, closed with the stack; None where there is none."""
    from federator.kube.client import Client
    from federator.kube.login import connect

    if cluster not in connect.contexts(kubeconfig):
        return None
    transport = await connect.from_kubeconfig(kubeconfig, cluster)
    opened.push_async_callback(transport.close)
    return Client(transport, cluster)


async def trouble(client: "Client | None", uid: str) -> str:
    """Why a cluster is not asked with a context: there is none, or it leads elsewhere. "" when it is asked; what the
    context may not tell, or does not answer, is found out then."""
    from federator.kube import errors

    if client is None:
        return "has no context of yours"
    if not uid:
        return ""
    try:
        async with asyncio.timeout(ANSWER_S / 3):
            found = await client.kube_system_uid()
    except (errors.ApiError, TimeoutError):
        return ""
    return "" if found == uid else "is another cluster than the one that your context of this name leads to"


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def say_who_is_away(clusters: Iterable[Mapping[str, Any]]) -> bool:
    """One line on stderr for every cluster that did not answer; tells whether there was one."""
    away = [row for row in clusters if not row.get("answered")]
    for row in away:
        common.say(f"{row.get('cluster')}: not shown, it {row.get('reason')}", err=True)
    return bool(away)


def end(partial: bool) -> None:
    """Exit 1 when only a part could be shown."""
    if partial:
        sys.exit(1)
