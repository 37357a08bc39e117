"""`federator rebalance`: divides workloads anew, and moves running copies to where their policy
wants them now.

The request is an annotation on the PlacementDecision (the time, and the user that asked), which
survives a restart of the hub. The hub records the request it has finished in `spec.rebalanced`.
Moves keep to the policy's move budget.
"""

import getpass
import sys
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.planning import situations
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.advice.rebalances import Planned
    from federator.hub.placing.offline import Situation
    from federator.kinds.kind import Kind
    from federator.kube.client import Client
    from federator.model.names import WorkloadKey

POLICIES: Final = ("PlacementPolicy", "ClusterPlacementPolicy")
INSTEAD: Final = "a rebalance reads what all workloads hold"


@click.command()
@click.argument("target", metavar="[KIND/NAME]", default="")
@click.option("-n", "--namespace", default="", help="Namespace (default: the context's).")
@click.option("-A", "--all-namespaces", is_flag=True, help="Workloads of all namespaces.")
@click.option("-l", "--selector", default="", help="Workloads with these labels, as team=ads.")
@click.option(
    "--max-moves",
    type=click.IntRange(1),
    default=None,
    help="Ask only of so many workloads that no more copies move in all.",
)
@click.option("--dry-run", is_flag=True, help="Say what would move, and ask for nothing.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    help="Files with the fleet and its decisions, as for place; with --dry-run only.",
)
@common.connection_options
def rebalance(
    target: str,
    namespace: str,
    all_namespaces: bool,
    selector: str,
    max_moves: int | None,
    dry_run: bool,
    files: tuple[str, ...],
    **given: str,
) -> None:
    """Move running copies to where their policy wants them, as if they were placed for the first
    time. Name one workload (psvc/NAME, pjs/NAME, deploy/NAME) or a policy (pp/NAME, cpp/NAME), or
    select workloads with --selector and -A. Needed when a drained or lost cluster is back, under
    onPolicyChange: Lazy, and after a change from strategy Duplicate to another. Shards and ordinals
    move only from clusters that their policy does not admit."""
    from federator.advice import rebalances

    kind, name = _target(target)
    if kind is None and not (selector or all_namespaces):
        common.fail("name a workload or a policy, or select workloads with --selector or -A")
    if files and not dry_run:
        common.fail("files can only be looked at: add --dry-run")
    everywhere = all_namespaces or (kind is not None and kind.kind == "ClusterPlacementPolicy")
    where = "" if everywhere else namespace or _namespace(files, given)
    situation = situations.read(files, namespace or "default", given, INSTEAD)
    matches = _selected(situation, kind, where, name, selector)
    planned = rebalances.plan(situation, matches, max_moves)
    asked = [plan for plan in planned if not plan.left_out]
    refused: frozenset[WorkloadKey] = frozenset()
    if not dry_run:

        async def work(client: "Client") -> "frozenset[WorkloadKey]":
            return await ask(client, {plan.key for plan in asked})

        refused = common.run(common.with_host(given["kubeconfig"], given["context"], work))
    _show([plan for plan in planned if plan.key not in refused], dry_run=dry_run)
    if not planned:
        common.say(f"No placed workload belongs to {target or 'these'}; nothing to do.")
    if refused:
        sys.exit(1)


def _namespace(files: Sequence[str], given: Any) -> str:
    return "default" if files else common.default_namespace(given["kubeconfig"], given["context"])


def _target(target: str) -> "tuple[Kind | None, str]":
    """(kind, name) of KIND/NAME; (None, "") without a target."""
    from federator.cli import views

    if not target:
        return None, ""
    prefix, _, name = target.partition("/")
    kind = views.kind_named(prefix)
    if kind.verbs is None and kind.kind not in POLICIES:
        common.fail(f"a {kind.kind} has no copies; rebalance a {views.WORKLOADS}, or a pp or cpp")
    if not name:
        common.fail("name a workload or a policy, such as psvc/web or cpp/us-only")
    return kind, name


def _selected(
    situation: "Situation", kind: "Kind | None", namespace: str, name: str, selector: str
) -> "list[WorkloadKey]":
    """The workloads that are meant. Ends the command where the target does not exist, or the
    selector cannot be read."""
    from federator.model.errors import FieldError
    from federator.model.kubernetes import selectors

    try:
        labels = selectors.parse(selector, "--selector")
    except FieldError as bad:
        common.fail(str(bad))
    if kind is not None:
        _check_exists(situation, kind, namespace, name)
    keys = []
    for key, record in situation.records.items():
        workload = situation.workloads.get(key)
        if workload is None or not labels.matches(workload.labels):
            continue
        terms = record.terms
        if kind is None:
            meant = not namespace or key.namespace == namespace
        elif kind.verbs is not None:
            meant = (key.kind, key.namespace, key.name) == (kind.kind, namespace, name)
        else:
            meant = terms.policy_origin != "inline" and (
                (terms.policy_namespace, terms.policy_name) == (namespace, name)
            )
        if meant:
            keys.append(key)
    return keys


def _check_exists(situation: "Situation", kind: "Kind", namespace: str, name: str) -> None:
    if (kind.kind, namespace, name) not in situation.objects:
        within = f" in namespace {namespace}" if namespace else ""
        common.fail(f"there is no {kind.kind} {name}{within}")


def _show(planned: "Sequence[Planned]", *, dry_run: bool) -> None:
    for plan in planned:
        if plan.left_out:
            common.say(f"{plan.key}: left as it is: {plan.left_out}")
            continue
        rest = "nothing to move"
        if plan.moves:
            rest = f"{plan.moves} to move, within the move budget of its policy"
        if plan.surplus:
            rest = f"{plan.surplus} copies beyond its count are removed"
        verb = "would be asked" if dry_run else "rebalance requested"
        common.say(f"{plan.key}: {verb}; {rest}")
        if dry_run:
            for cluster, now, then in plan.changes:
                common.say(f"  {cluster}: {now} -> {then}")
    if dry_run and planned:
        moves = sum(plan.moves for plan in planned if not plan.left_out)
        counted = plaintext.counted(moves, "copy", "copies")
        common.say(f"{counted} would move in all. Nothing was asked for.")


async def ask(client: "Client", keys: "Collection[WorkloadKey]") -> "frozenset[WorkloadKey]":
    """Annotates the decisions of these workloads. Returns those for which the host refused that,
    each told on stderr. Raises ApiErrors when decisions cannot be listed."""
    from federator.api import raw
    from federator.api.placement.decisionfacts import decision_facts
    from federator.kinds import registry
    from federator.kube import errors
    from federator.model import names

    refused: set[WorkloadKey] = set()
    decision = registry.KINDS["PlacementDecision"]
    mark = {names.REBALANCE_ANNOTATION: f"{raw.rfc3339(time.time())} by {_user()}"}
    for obj in (await client.list(decision.api_version, decision.plural)).items:
        facts = decision_facts(obj)
        if facts.deleting or facts.key not in keys:
            continue
        patch = {"metadata": {"uid": facts.uid, "annotations": mark}}
        try:
            await client.patch(decision.ref(facts.key.namespace, facts.name), patch)
        except errors.ApiError as trouble:
            refused.add(facts.key)
            common.say(f"error: {facts.key}: {trouble}", err=True)
    return frozenset(refused)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an unnamed user"
