"""`federator explain` of a placement policy and of a cluster: reads the host's objects, and makes
the text of their facts (`advice.standing`). For operators with the right to read all of
them.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from federator.cli import common
from federator.cli.files import situations
from federator.model import plaintext
from federator.model.plaintext import counted

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

KINDS: Final = ("PlacementPolicy", "ClusterPlacementPolicy", "MemberCluster")
"""Kinds that are explained here."""
INSTEAD: Final = "this reads policies, clusters and decisions of the whole federation"


async def gathered(client: "Client", kind: "Kind", namespace: str, name: str) -> dict[str, Any]:
    """The facts about one policy or cluster. Ends the command when there is none of that name."""
    from federator.advice import standing

    situation = await situations.from_host(client, INSTEAD)
    if kind.kind == "MemberCluster":
        facts = standing.of_cluster(situation, name)
    else:
        facts = standing.of_policy(situation, (namespace if kind.namespaced else "", name))
    if facts is None:
        where = f" in namespace {namespace}" if kind.namespaced else ""
        common.fail(f'{kind.plural} "{name}" not found{where}')
    return facts


def text(facts: Mapping[str, Any]) -> str:
    facts = plaintext.every(facts)
    return "\n".join(_of_policy(facts) if "policy" in facts else _of_cluster(facts))


def _of_policy(facts: Mapping[str, Any]) -> Iterator[str]:
    policy = facts["policy"]
    required = ", Required" if policy["required"] else ""
    yield (
        f"{policy['kind']}/{policy['name']}  priority {policy['priority']}{required},"
        f" generation {policy['generation']}"
    )
    if not policy["inForce"]:
        yield "  not in force: its namespace has too many policies, and older ones go first"
    if facts["problem"]:
        yield f"  cannot be used: {facts['problem']}"
    conditions = [f"{name} {_listed(value)}" for name, value in facts["selects"].items()]
    yield f"  selects workloads with {'; '.join(conditions)}" if conditions else "  selects all"
    followers = counted(facts["matched"], "workload follows it", "workloads follow it")
    named, left = ", ".join(facts["examples"]), facts["matched"] - len(facts["examples"])
    more = f" and {left} more" if left else ""
    yield f"  {followers}{f': {named}{more}' if named else ''}"
    if facts["passed"]:
        selected = counted(facts["passed"], "workload that it selects", "workloads that it selects")
        yield f"  {selected} with another policy or a placement of its own"
    for title, lines in (
        ("conflicts", facts["conflicts"]),
        ("no cluster has", facts["unknown"]),
        ("refused overrides", facts["refused"]),
    ):
        yield from _part(title, lines)
    rows = [[each["cluster"], each["why"] or "chosen"] for each in facts["clusters"]]
    yield from ("", common.table(["CLUSTER", "CHOICE"], rows))
    overrides = [
        f"{each['path']}: {', '.join(each['set'])} in {_listed(each['clusters']) or 'no cluster'}"
        + (f"; cannot be used: {each['problem']}" if each["problem"] else "")
        for each in facts["overrides"]
    ]
    yield from _part("overrides", overrides)


def _of_cluster(facts: Mapping[str, Any]) -> Iterator[str]:
    ready = next((each for each in facts["conditions"] if each["type"] == "Ready"), None)
    state = f"Ready={ready['status']} ({ready['reason']})" if ready else "not yet reported"
    copies = counted(facts["copies"], "copy", "copies")
    yield (
        f"MemberCluster/{facts['cluster']}  {state}  {copies} of"
        f" {counted(facts['workloads'], 'workload', 'workloads')}"
    )
    if ready and ready["status"] != "True" and ready["message"]:
        yield f"  {ready['message']}"
    yield f"  labels {_listed(facts['labels']) or 'none'}"
    if facts["taints"]:
        yield f"  taints {', '.join(facts['taints'])}"
    yield f"  free {_amounts(facts['free']) or 'not reported'}"
    closed = f"no: {facts['closed']}" if facts["closed"] else "yes"
    yield f"  takes a workload without policy and tolerations: {closed}"
    yield from _part("most copies", [f"{e['workload']}: {e['copies']}" for e in facts["most"]])
    rows = [
        [each["policy"], each["why"] or "chosen", ", ".join(each["overrides"])]
        for each in facts["policies"]
    ]
    if rows:
        yield from ("", common.table(["POLICY", "CHOICE", "OVERRIDES"], rows))


def _part(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    return ", ".join(map(str, value))


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())
