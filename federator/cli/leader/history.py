"""`federator history KIND/NAME`: what was decided about a workload and what became of it, as the leader has it."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common
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
@click.option("--limit", default=100, type=click.IntRange(1, 1000), help="The newest so many.", show_default=True)
@click.option("-o", "--output", default="", type=click.Choice(["", "json"]), help="Format.")
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@click.option("--leader-address", default="", help="HOST:PORT of the leader's query port (default: as the Lease says).")
@common.connection_options
def history(workload: str, name: str, since: str, limit: int, output: str, namespace: str, **given: str) -> None:
    """What was decided about a workload (psvc/NAME, pjs/NAME, deploy/NAME), and what became of it.

    Asks the leading hub with your rights on the host (get the workload). It knows what it wrote down itself: where
    another hub led in between, a line says so.
    """
    parameters = {"limit": limit}
    if since:
        parameters["since_seconds"] = seconds(since)
    found = asked(workload, name, namespace, parameters, given)
    if output == "json":
        common.show(common.dump(found, "json"))
        return
    if any(entry.get("key") for entry in found["entries"]):
        common.show(common.table(list(HEADINGS), [row(entry) for entry in found["entries"]]))
    else:
        common.say("Nothing of it is written down for this time.", err=True)
    if found["more"]:
        common.say(f"the newest {limit} are shown, there are more (--limit)", err=True)
    if found["begins"] is not None:
        common.say(f"the history begins at {moment(found['begins'])}", err=True)


def asked(
    workload: str, name: str, namespace: str, parameters: Mapping[str, int], given: Mapping[str, str]
) -> dict[str, Any]:
    """The leader's answer. Ends the command with a sentence where there is none."""
    kubeconfig, context, address = given["kubeconfig"], given["context"], given["leader_address"]
    wanted = asking.asking(workload, name, {**given, "namespace": namespace, "cluster": "", "own_contexts": False})
    parts = (wanted.namespace, wanted.kind.plural, wanted.name, "history")
    query = tuple((parameter, str(value)) for parameter, value in parameters.items())

    async def work(host: "Client") -> dict[str, Any]:
        return await asking.Leader(kubeconfig, context, address).asked(host, parts, query)

    found = common.run(common.with_federation(kubeconfig, context, work))
    return {"entries": found.get("entries") or [], "more": bool(found.get("more")), "begins": found.get("begins")}


def row(entry: Mapping[str, Any]) -> list[str]:
    """One line of the table."""
    kind = str(entry.get("kind", ""))
    told = (entry.get("evidence"),) if kind == "Condition" else (entry.get("cause"), entry.get("evidence"))
    why = ": ".join(str(text) for text in told if text)
    if kind == "Gap":
        before, after = moment(entry.get("from")), moment(entry.get("to"))
    elif kind == "Decision":
        before, after = shares(entry.get("from")), shares(entry.get("to"))
    else:
        before, after = (str(entry.get(end, "")) for end in ("from", "to"))
    return [moment(entry.get("at")), kind, before or NOTHING, after or NOTHING, why]


def shares(given: object) -> str:
    """`us-east-1a 30, us-east-1b 20`; "nowhere" for no shares, "" where there was no decision."""
    if not isinstance(given, Mapping):
        return ""
    return ", ".join(f"{cluster} {count}" for cluster, count in sorted(given.items())) or "nowhere"


def moment(at: object) -> str:
    """Epoch seconds as API servers write times."""
    if not isinstance(at, int | float) or isinstance(at, bool):
        return NOTHING
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def then(entries: Sequence[Mapping[str, Any]], ago_s: float, begins: float | None) -> str:
    """What a workload was like so long ago, by the last entries before that time."""
    at = moment(time.time() - ago_s)
    decided = next((entry for entry in reversed(entries) if entry.get("kind") == "Decision"), None)
    if decided is None:
        since = f"; the history begins at {moment(begins)}" if begins is not None else ""
        return f"At {at} nothing was decided that is written down{since}."
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
        lines.append(f"  {entry.get('to')} since {moment(entry.get('at'))}: {entry.get('evidence', '')}")
    gaps = [entry for entry in entries if entry.get("kind") == "Gap" and entry.get("at", 0) > decided.get("at", 0)]
    lines += [f"  not written down since then: {gap.get('cause', '')}" for gap in gaps]
    return "\n".join(lines)
