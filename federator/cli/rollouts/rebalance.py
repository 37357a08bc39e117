"""`federator rebalance KIND/NAME`: moves running copies to the clusters that their policy wants
now.

The request is an annotation on the PlacementDecision (when, and by whom), which survives a restart
of the hub. The hub records the request it has finished in `spec.rebalanced`. Moves keep to the
policy's move budget.
"""

import getpass
import time
from typing import TYPE_CHECKING, Any

import click

from federator.cli import common

if TYPE_CHECKING:
    from federator.kinds.kind import Kind
    from federator.kube.client import Client

POLICIES = ("PlacementPolicy", "ClusterPlacementPolicy")


@click.command()
@click.argument("target", metavar="KIND/NAME")
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@common.connection_options
def rebalance(target: str, namespace: str, kubeconfig: str, context: str) -> None:
    """Move running copies to where their policy wants them: of one workload (psvc/NAME, pjs/NAME,
    deploy/NAME), or of all workloads under a policy (pp/NAME, cpp/NAME). Needed under
    onPolicyChange: Lazy, and after strategy Duplicate has ended: copies beyond the count are
    removed."""
    from federator.cli import views

    named, _, name = target.partition("/")
    kind = views.kind_named(named)
    if kind.verbs is None and kind.kind not in POLICIES:
        common.fail(f"a {kind.kind} has no copies; rebalance a {views.WORKLOADS}, or a pp or cpp")
    if not name:
        common.fail("name a workload or a policy, such as psvc/web or cpp/us-only")
    where = (
        ""
        if kind.kind == "ClusterPlacementPolicy"
        else namespace or common.default_namespace(kubeconfig, context)
    )

    async def work(client: "Client") -> list[tuple[str, int, int]]:
        return await ask(client, kind, where, name)

    requests = common.run(common.with_host(kubeconfig, context, work))
    for workload, to_move, surplus in requests:
        rest = (
            f"{to_move} to move, within the move budget of its policy"
            if to_move
            else "nothing to move"
        )
        rest = f"{surplus} copies beyond its count are removed" if surplus else rest
        common.say(f"{workload}: rebalance requested; {rest}")
    if not requests:
        common.say(f"No placed workload belongs to {target}; nothing to do.")


async def ask(
    client: "Client", kind: "Kind", namespace: str, name: str
) -> list[tuple[str, int, int]]:
    """Annotates the matching decisions. Returns (workload, copies to move, copies beyond the count)
    for each. Raises ApiErrors; NotFound when the workload or policy does not exist."""
    from federator.api import raw
    from federator.api.placement.decisionfacts import decision_facts
    from federator.kinds import registry
    from federator.model import names

    await client.get(kind.ref(namespace, name))
    decision = registry.KINDS["PlacementDecision"]
    mark = {names.REBALANCE_ANNOTATION: f"{raw.rfc3339(time.time())} by {_user()}"}
    requests: list[tuple[str, int, int]] = []
    for obj in (await client.list(decision.api_version, decision.plural)).items:
        facts = decision_facts(obj)
        if facts.deleting or not _matches(kind, namespace, name, facts):
            continue
        patch = {"metadata": {"uid": facts.uid, "annotations": mark}}
        await client.patch(decision.ref(facts.key.namespace, facts.name), patch)
        requests.append((str(facts.key), facts.terms.to_move, facts.terms.surplus))
    return sorted(requests)


def _matches(kind: "Kind", namespace: str, name: str, facts: Any) -> bool:
    if kind.verbs is not None:
        return (facts.key.kind, facts.key.namespace, facts.key.name) == (kind.kind, namespace, name)
    inline = facts.terms.policy_origin == "inline"
    return not inline and (facts.terms.policy_namespace, facts.terms.policy_name) == (
        namespace,
        name,
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unnamed user"
