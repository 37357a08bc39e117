"""`federator history KIND/NAME`: the decisions about a workload and what came of them, or what
happened to a cluster, from the leader."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common, views
from federator.cli.leader import asking
from federator.cli.leader.logs import seconds

if TYPE_CHECKING:
    from federator.kube.client import Client

HEADINGS = ("TIME", "WHAT", "FROM", "TO", "WHY")
NOTHING = "-"


@click.command()
@click.argument("workload", metavar="KIND/NAME")
@click.argument("name", required=False, default="")
@click.option("--since", default="", help="Not older than this: 30s, 15m, 2h, 3d.")
@click.option(
    "--limit",
    default=100,
    type=click.IntRange(1, 1000),
    help="Number of newest entries.",
    show_default=True,
)
@click.option("-o", "--output", default="", type=click.Choice(["", "json"]), help="Format.")
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@common.leader_option
@common.connection_options
def history(
    workload: str, name: str, since: str, limit: int, output: str, namespace: str, **connection: str
) -> None:
    """List the decisions about a workload (psvc/NAME, pjs/NAME, deploy/NAME), and what came of
    them; or what happened to a cluster (mc/NAME).

    Asks the leading hub with your rights on the host (get the workload, or the MemberCluster). Its
    history has only its own records; a Gap line marks times when another hub led.
    """
    parameters = {"limit": limit}
    if since:
        parameters["since_seconds"] = seconds(since)
    answer = fetch(workload, name, namespace, parameters, connection)
    if output == "json":
        common.show(common.dump(answer, "json"))
        return
    if any(entry.get("key") for entry in answer["entries"]):
        common.show(common.table(list(HEADINGS), [row(entry) for entry in answer["entries"]]))
    else:
        common.say("Nothing of it is recorded for this time.", err=True)
    if answer["more"]:
        common.say(f"only the newest {limit} are shown; use --limit for more", err=True)
    if answer["begins"] is not None:
        common.say(f"the history begins at {moment(answer['begins'])}", err=True)


def fetch(
    workload: str,
    name: str,
    namespace: str,
    parameters: Mapping[str, int],
    connection: Mapping[str, str],
) -> dict[str, Any]:
    """The leader's answer: `entries`, `more`, `begins`. Exits with an error when there is none."""
    kubeconfig, context, address = (
        connection["kubeconfig"],
        connection["context"],
        connection["leader_address"],
    )
    root, parts = _path(workload, name, namespace, connection)
    query = tuple((parameter, str(value)) for parameter, value in parameters.items())

    async def work(host: "Client") -> dict[str, Any]:
        return await asking.Leader(kubeconfig, context, address).ask(host, parts, query, root=root)

    answer = common.run(common.with_federation(kubeconfig, context, work))
    return {
        "entries": answer.get("entries") or [],
        "more": bool(answer.get("more")),
        "begins": answer.get("begins"),
    }


def _path(
    workload: str, name: str, namespace: str, connection: Mapping[str, str]
) -> tuple[str, tuple[str, ...]]:
    """(root, what follows) of the question. Exits with an error for kinds without a history."""
    named, slash, after = workload.partition("/")
    if views.kind_named(named).kind == "MemberCluster":
        if not (cluster := after if slash else name):
            common.fail("name a cluster, such as mc/us-east-1a")
        return "/v1/memberclusters/", (cluster, "history")
    target = asking.query_of(
        workload, name, {**connection, "namespace": namespace, "cluster": "", "own_contexts": False}
    )
    return asking.IN_NAMESPACES, (target.namespace, target.kind.plural, target.name, "history")


def row(entry: Mapping[str, Any]) -> list[str]:
    kind = str(entry.get("kind", ""))
    texts = (
        (entry.get("evidence"),)
        if kind == "Condition"
        else (entry.get("cause"), entry.get("evidence"))
    )
    why = ": ".join(str(text) for text in texts if text)
    if kind == "Gap":
        before, after = moment(entry.get("from")), moment(entry.get("to"))
    elif kind == "Decision":
        before, after = shares(entry.get("from")), shares(entry.get("to"))
    else:
        before, after = (str(entry.get(end, "")) for end in ("from", "to"))
    return [moment(entry.get("at")), kind, before or NOTHING, after or NOTHING, why]


def shares(counts: object) -> str:
    """`us-east-1a 30, us-east-1b 20`; "nowhere" for no shares, "" where there was no decision."""
    if not isinstance(counts, Mapping):
        return ""
    return ", ".join(f"{cluster} {count}" for cluster, count in sorted(counts.items())) or "nowhere"


def moment(at: object) -> str:
    """Epoch seconds as RFC 3339 in UTC; "-" for anything else."""
    if not isinstance(at, int | float) or isinstance(at, bool):
        return NOTHING
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def state_text(entries: Sequence[Mapping[str, Any]], ago_s: float, begins: float | None) -> str:
    """The state of a workload `ago_s` seconds ago, from the last entries before that time."""
    at = moment(time.time() - ago_s)
    decided = next((entry for entry in reversed(entries) if entry.get("kind") == "Decision"), None)
    if decided is None:
        since = f"; the history begins at {moment(begins)}" if begins is not None else ""
        return f"No decision is recorded for {at} or before{since}."
    lines = [
        f"At {at}, by the decision of {moment(decided.get('at'))} (seq {decided.get('seq', 0)}):",
        f"  {shares(decided.get('to'))}",
        f"  {decided.get('cause', '')}: {decided.get('evidence', '')}",
    ]
    conditions: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        if entry.get("kind") == "Condition":
            conditions[str(entry.get("to", "")).partition("=")[0]] = entry
    for _, entry in sorted(conditions.items()):
        lines.append(
            f"  {entry.get('to')} since {moment(entry.get('at'))}: {entry.get('evidence', '')}"
        )
    gaps = [
        entry
        for entry in entries
        if entry.get("kind") == "Gap" and entry.get("at", 0) > decided.get("at", 0)
    ]
    lines += [f"  not recorded since then: {gap.get('cause', '')}" for gap in gaps]
    return "\n".join(lines)
