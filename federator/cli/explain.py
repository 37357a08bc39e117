"""`federator explain KIND/NAME`: why a workload is where it is, and what would help.

Who may read all that decisions depend on (operators) has it computed here, from the host alone. For anybody else the
hub that leads computes it, and tells what the owner of this workload may know.
"""

import time
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.cli.leader.asking import Leader
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

READ = ("MemberCluster", "ClusterPlacementPolicy", "PlacementPolicy", "FederatedQuota", "RuntimeProfile")
"""What a decision depends on besides the workload and the decisions."""
PAST_MAX = 1000
"""Entries of the history that are looked through for how it was."""


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option("--cluster", default="", help="This cluster only.")
@click.option("--at", default="", help="How it was so long ago (15m, 2h), as the leader's history has it.")
@click.option("-o", "--output", default="text", type=click.Choice(["text", "json", "yaml"]), help="Format.")
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@click.option("--leader-address", default="", help="HOST:PORT of the leader's query port (default: as the Lease says).")
@common.connection_options
def explain(workload: str, name: str, cluster: str, at: str, output: str, namespace: str, **given: str) -> None:
    """Why a workload (psvc/NAME, pjs/NAME, deploy/NAME) is where it is: every cluster with its verdict, the split, what
    is short and what would help."""
    from federator.cli import explaining, views
    from federator.cli.leader import asking
    from federator.cli.leader import history as histories
    from federator.cli.leader.logs import seconds

    if at:
        ago_s = seconds(at, "--at")
        past = histories.asked(workload, name, namespace, {"before_seconds": ago_s, "limit": PAST_MAX}, given)
        common.show(
            common.dump(past, output) if output != "text" else histories.then(past["entries"], ago_s, past["begins"])
        )
        return
    named, slash, after = workload.partition("/")
    kind = views.kind_named(named)
    chosen = after if slash else name
    if kind.verbs is None:
        common.fail(f"a {kind.kind} is not placed; explain a {views.WORKLOADS}")
    if not chosen:
        common.fail("name a workload, such as psvc/web")
    kubeconfig, context = given["kubeconfig"], given["context"]
    where = namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> dict[str, Any]:
        leader = asking.Leader(kubeconfig, context, given["leader_address"])
        return await gathered(client, kind, where, chosen, leader)

    found = common.run(common.with_federation(kubeconfig, context, work))
    rows = found.get("clusters", [])
    if cluster and cluster not in {row["cluster"] for row in rows}:
        known = ", ".join(row["cluster"] for row in rows) or "none"
        common.fail(f"there is no cluster {cluster!r}; the fleet has {known}")
    if output == "text":
        common.show(explaining.text(found, cluster=cluster))
    else:
        if cluster:
            found["clusters"] = [row for row in rows if row["cluster"] == cluster]
        common.show(common.dump(found, output))


async def gathered(
    client: "Client", kind: "Kind", namespace: str, name: str, leader: "Leader | None" = None
) -> dict[str, Any]:
    """The facts of one workload: from objects of the host, or from the leader where the caller may not read those."""
    from federator.advice import facts
    from federator.cli import uncarried
    from federator.hub import offline
    from federator.kinds import registry
    from federator.kube import errors
    from federator.model.names import WorkloadKey

    try:
        obj = await client.get(kind.ref(namespace, name))
    except errors.NotFound:
        common.fail(f'{kind.plural} "{name}" not found in namespace {namespace}')
    objs: list[dict[str, Any]] = [{**obj, "apiVersion": kind.api_version, "kind": kind.kind}]
    try:
        for other in (*READ, "PlacementDecision"):
            row = registry.KINDS[other]
            listing = await client.list(row.api_version, row.plural)
            objs += listing.items
    except errors.Denied:
        if leader is None:
            raise
        found = await leader.asked(client, (namespace, kind.plural, name, "explain"))
    else:
        situation = offline.read(objs, as_of=time.time())
        found = facts.facts(obj, situation, situation.workloads[WorkloadKey(kind.kind, namespace, name)])
    return {**found, "uncarried": await uncarried.beside(client, obj, kind.kind)}
