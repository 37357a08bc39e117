"""`federator rebalance KIND/NAME`: running copies that stayed where they were go where their policy wants them now.

It asks by an annotation on the PlacementDecision (when, and who), which outlives the hub; the hub notes in
`spec.rebalanced` which request is done with. Moves keep to the policy's move budget.
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
    """Move what runs to where its policy wants it: of one workload (psvc/NAME, pjs/NAME, deploy/NAME), or of all that a
    policy (pp/NAME, cpp/NAME) speaks for. Needed under onPolicyChange: Lazy, and where copies stay of a strategy
    Duplicate that is no longer in force: those beyond the count leave."""
    from federator.cli import views

    named, _, name = target.partition("/")
    kind = views.kind_named(named)
    if kind.verbs is None and kind.kind not in POLICIES:
        common.fail(f"a {kind.kind} has no copies; rebalance a {views.WORKLOADS}, or a pp or cpp")
    if not name:
        common.fail("name a workload or a policy, such as psvc/web or cpp/us-only")
    where = "" if kind.kind == "ClusterPlacementPolicy" else namespace or common.default_namespace(kubeconfig, context)

    async def work(client: "Client") -> list[tuple[str, int, int]]:
        return await ask(client, kind, where, name)

    asked = common.run(common.with_host(kubeconfig, context, work))
    for workload, to_move, surplus in asked:
        rest = f"{to_move} to move, within the move budget of its policy" if to_move else "nothing to move"
        rest = f"{surplus} beyond its count leave" if surplus else rest
        common.say(f"{workload}: rebalance asked for; {rest}")
    if not asked:
        common.say(f"{target} has no workload that was placed; nothing to do.")


async def ask(client: "Client", kind: "Kind", namespace: str, name: str) -> list[tuple[str, int, int]]:
    """Marks the decisions that are meant. Returns each workload with how many of its copies are to move, and how many
    beyond its count leave. Raises ApiErrors; NotFound where there is no such object."""
    from federator.api import raw
    from federator.api.placement.decisionfacts import decision_facts
    from federator.kinds import registry
    from federator.model import names

    await client.get(kind.ref(namespace, name))
    decision = registry.KINDS["PlacementDecision"]
    mark = {names.REBALANCE_ANNOTATION: f"{raw.rfc3339(time.time())} by {_user()}"}
    asked: list[tuple[str, int, int]] = []
    for obj in (await client.list(decision.api_version, decision.plural)).items:
        facts = decision_facts(obj)
        if facts.deleting or not _meant(kind, namespace, name, facts):
            continue
        patch = {"metadata": {"uid": facts.uid, "annotations": mark}}
        await client.patch(decision.ref(facts.key.namespace, facts.name), patch)
        asked.append((str(facts.key), facts.terms.to_move, facts.terms.surplus))
    return sorted(asked)


def _meant(kind: "Kind", namespace: str, name: str, facts: Any) -> bool:
    if kind.verbs is not None:
        return (facts.key.kind, facts.key.namespace, facts.key.name) == (kind.kind, namespace, name)
    inline = facts.terms.policy_origin == "inline"
    return not inline and (facts.terms.policy_namespace, facts.terms.policy_name) == (namespace, name)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unnamed user"
