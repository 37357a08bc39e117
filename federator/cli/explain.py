"""`federator explain KIND/NAME`: why a workload is where it is, and what would help.

For callers who may read everything a decision depends on (operators), it is computed here from the
host's objects. For others the leading hub computes it, and returns what the owner of the workload
may see.
"""

import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
from federator.cli.files import situations, standing

if TYPE_CHECKING:
    from federator.cli.leader.asking import Leader
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

PAST_MAX = 1000
"""Number of history entries searched for `--at`."""


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option("--cluster", default="", help="Show this cluster only.")
@click.option(
    "--at", default="", help="The state so long ago (15m, 2h), from the leader's history."
)
@click.option(
    "-o", "--output", default="text", type=click.Choice(["text", "json", "yaml"]), help="Format."
)
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@common.leader_option
@common.connection_options
def explain(
    workload: str, name: str, cluster: str, at: str, output: str, namespace: str, **connection: str
) -> None:
    """Explain why a workload (psvc/NAME, pjs/NAME, deploy/NAME) is where it is: the verdict of each
    cluster, the split, what is short and what would help. Of a cron job (pcj/NAME): when it makes
    runs, what keeps it from making one, and where its runs went. Of a policy (pp/NAME, cpp/NAME):
    which workloads follow it, which clusters it chooses, conflicts, and names and labels that no
    cluster has. Of a cluster (mc/NAME): what it holds, and which policies choose it."""
    if at:
        _show_past(workload, name, namespace, at, output, connection)
        return
    kind, chosen = _named(workload, name)
    kubeconfig, context = connection["kubeconfig"], connection["context"]
    about = kind, namespace or common.default_namespace(kubeconfig, context), chosen
    if kind.kind in standing.KINDS:
        _show(standing.gathered, standing.text, about, output, connection)
    elif kind.recurring is not None:
        if cluster:
            common.fail(f"a {kind.kind} is in no cluster; explain one of its runs")
        from federator.cli import recurrences

        _show(recurrences.gathered, recurrences.text, about, output, connection)
    else:
        _show_placed(about, cluster, output, connection)


def _show_past(
    workload: str, name: str, namespace: str, at: str, output: str, connection: Mapping[str, str]
) -> None:
    """The state so long ago."""
    from federator.cli.leader import history as histories
    from federator.cli.leader.logs import seconds

    ago_s = seconds(at, "--at")
    past = histories.fetch(
        workload, name, namespace, {"before_seconds": ago_s, "limit": PAST_MAX}, connection
    )
    common.show(
        common.dump(past, output)
        if output != "text"
        else histories.state_text(past["entries"], ago_s, past["begins"])
    )


def _named(workload: str, name: str) -> tuple["Kind", str]:
    """The kind and the name in `psvc/web`, or in `psvc` and `web`."""
    from federator.cli import views

    named, slash, after = workload.partition("/")
    kind = views.kind_named(named)
    if kind.verbs is None and kind.recurring is None and kind.kind not in standing.KINDS:
        others = "a policy (pp, cpp) or a cluster (mc)"
        common.fail(f"a {kind.kind} is not placed; explain a {views.WORKLOADS}, {others}")
    chosen = after if slash else name
    if not chosen:
        common.fail("name a workload, a policy or a cluster, such as psvc/web or pp/zonal")
    return kind, chosen


def _show_placed(
    about: tuple["Kind", str, str], cluster: str, output: str, connection: Mapping[str, str]
) -> None:
    """A workload that clusters hold."""
    from federator.cli import explaining
    from federator.cli.leader import asking

    kubeconfig, context = connection["kubeconfig"], connection["context"]

    async def work(client: "Client") -> dict[str, Any]:
        leader = asking.Leader(kubeconfig, context, connection["leader_address"])
        return await gathered(client, *about, leader)

    # What all decisions of the host hold is read once and kept until the end: the collector would
    # look through it again and again, for a third of the time.
    gc.disable()
    try:
        facts = common.run(common.with_federation(kubeconfig, context, work))
    finally:
        gc.freeze()  # nor does the collector of the program's end
        gc.enable()
    rows = facts.get("clusters", [])
    if cluster and cluster not in {row["cluster"] for row in rows}:
        fleet = ", ".join(row["cluster"] for row in rows) or "none"
        common.fail(f"there is no cluster {cluster!r}; the fleet has {fleet}")
    if output == "text":
        common.show(explaining.text(facts, cluster=cluster))
    else:
        if cluster:
            facts["clusters"] = [row for row in rows if row["cluster"] == cluster]
        common.show(common.dump(facts, output))


def _show(
    gather: Callable[["Client", "Kind", str, str], Awaitable[dict[str, Any]]],
    text: Callable[[Mapping[str, Any]], str],
    about: tuple["Kind", str, str],
    output: str,
    connection: Mapping[str, str],
) -> None:
    """Prints the facts about an object that has no decision: kind, namespace and name."""

    async def work(client: "Client") -> dict[str, Any]:
        return await gather(client, *about)

    facts = common.run(
        common.with_federation(connection["kubeconfig"], connection["context"], work)
    )
    common.show(text(facts) if output == "text" else common.dump(facts, output))


async def gathered(
    client: "Client", kind: "Kind", namespace: str, name: str, leader: "Leader | None" = None
) -> dict[str, Any]:
    """The facts about one workload (`advice.facts`): computed from the host's objects, or by the
    leader where the caller may not read those."""
    from federator.advice import facts
    from federator.api import raw
    from federator.cli import uncarried
    from federator.hub.placing import offline
    from federator.hub.records import decisions
    from federator.kinds import registry
    from federator.kube import errors
    from federator.kube.client import OBJECTS_MAX
    from federator.model.names import WorkloadKey

    try:
        obj = await client.get(kind.ref(namespace, name))
    except errors.NotFound:
        common.fail(f'{kind.plural} "{name}" not found in namespace {namespace}')
    objs: list[dict[str, Any]] = [{**obj, "apiVersion": kind.api_version, "kind": kind.kind}]
    kinds = [*situations.READ]
    placed = raw.condition(obj, "Placed")
    generation = raw.integer(obj, "metadata", "generation")
    judged = not 0 < raw.integer(placed, "observedGeneration") < generation
    alone = placed.get("status") == "True" and judged
    if not alone:
        # For the other pending workloads, and for the holder of a host name that an edit adds.
        kinds += registry.WORKLOADS
    key, decided = WorkloadKey(kind.kind, namespace, name), registry.KINDS["PlacementDecision"]

    def others(decision: dict[str, Any]) -> decisions.Record | None:
        """What the decision on another workload holds; its object is not kept."""
        of = raw.mapping(decision, "spec", "workload")
        meta = decision["metadata"]
        if (of.get("kind"), meta.get("namespace"), of.get("name")) != key:
            return decisions.summarise(decisions.charged_part(decision) if alone else decision)
        objs.append({**decision, "apiVersion": decided.api_version, "kind": decided.kind})
        return None

    try:
        for other in kinds:
            row = registry.KINDS[other]
            try:
                listing = await client.list(row.api_version, row.plural)
            except errors.NotFound:
                continue  # its definition came with this version and is not installed yet
            head = {"apiVersion": row.api_version, "kind": other}
            objs += [{**item, **head} for item in listing.items]
        records = await client.collect(
            decided.api_version, decided.plural, others, most=OBJECTS_MAX
        )
    except errors.Denied:
        if leader is None:
            raise
        answer = await leader.ask(client, (namespace, kind.plural, name, "explain"))
    else:
        situation = offline.read(objs, as_of=time.time(), others=records)
        answer = facts.facts(obj, situation, situation.workloads[key])
    return {**answer, "uncarried": await uncarried.beside(client, obj, kind.kind)}
