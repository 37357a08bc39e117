"""`federator place -f FILE...`: the engine offline. Reads a fleet, policies, quotas and workloads, prints decisions.

Exit 0: everything is placed; 3: something is short, slots of a job set included; 1: bad input, with nothing printed on
stdout. The same input prints the same output, whenever it is run.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from federator.api import raw
from federator.cli import common, manifests

if TYPE_CHECKING:
    from federator.hub.offline import Situation

SHORTFALL_EXIT = 3


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    help="File, directory (with all below it) or kustomization, or - for stdin.",
)
@click.option("-n", "--namespace", default="default", help="Of objects that name none, as for kubectl apply.")
@click.option("-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format.")
def place(files: tuple[str, ...], namespace: str, output: str) -> None:
    """Where workloads would go, given MemberClusters with status.capacity, policies, quotas and PlacementDecisions."""
    from federator.hub import offline

    objs = load(files, namespace)
    situation = offline.read(objs, as_of=picture_s(objs))
    if not situation.snapshot.clusters:
        common.fail("the files hold no MemberCluster, so there is nowhere to place anything")
    if not situation.workloads:
        common.fail("the files hold no workload (PinterestService, PinterestJobSet or Deployment)")
    unreadable = [f"{key}: {found.problem}" for key, found in situation.workloads.items() if found.problem]
    if unreadable:
        common.fail("; ".join(unreadable))
    for warning in warnings(situation):
        common.say(f"warning: {warning}", err=True)
    decided = situation.decide_all()
    common.show(rendered(decided, output))
    sys.exit(SHORTFALL_EXIT if any(_short(decision) for _, decision in decided) else 0)


def picture_s(objs: Sequence[Mapping[str, Any]]) -> float:
    """The time of the fleet's picture, in epoch seconds: that of the newest report or condition of a MemberCluster, 0
    when none says. Not the present: the same files are to give the same decisions."""
    stamps: list[str] = []
    for obj in objs:
        if obj.get("kind") == "MemberCluster":
            stamps.append(raw.text(obj, "status", "capacity", "asOf"))
            stamps += [raw.text(one, "lastTransitionTime") for one in raw.objects(obj, "status", "conditions")]
    return max(map(raw.epoch_s, stamps), default=0.0)


def warnings(situation: "Situation") -> Iterator[str]:
    """What is probably not meant: policies in force for nothing, and names that no cluster has."""
    from federator.placement import mentions
    from federator.placement.policies import Subject

    asks = [ask for one in situation.workloads.values() if (ask := situation.ask_of(one)) is not None]
    in_force = {(ask.policy.namespace, ask.policy.name) for ask in asks if ask.policy.origin in ("policyRef", "match")}
    clusters = situation.snapshot.clusters
    in_force |= {("", demand.name) for ask in asks for demand in ask.policy.required}
    for rule in situation.rules:
        named = policy_title(rule.policy.namespace, rule.policy.name)
        if not situation.rules.in_force(rule.id):
            found, most = situation.rules.count(rule.policy.namespace), situation.rules.in_force_max
            yield f"{named} is not in force: its namespace has {found}, and the {most} oldest are"
        elif rule.id not in in_force:
            matched = [
                f"{ask.key.kind}/{ask.key.name}"
                for ask in asks
                if rule.matches(Subject(ask.key.kind, ask.key.namespace, ask.labels, ask.project))
            ]
            follows = "its own placement, or a policy that goes first"
            why = f"it matches {matched[0]}, which follows {follows}" if matched else "it matches no workload"
            yield f"{named} is in force for nothing: {why}"
        for one in mentions.unknown(rule.policy, clusters):
            yield f"{named}: spec.{one.field} {one.sentence}"
    for ask in asks:
        if ask.policy.origin == "inline":
            for one in mentions.unknown(ask.policy, clusters):
                yield f"{ask.key.kind}/{ask.key.name}: spec.placement.{one.field} {one.sentence}"


def policy_title(namespace: str, name: str) -> str:
    return f"PlacementPolicy {namespace}/{name}" if namespace else f"ClusterPlacementPolicy {name}"


def _short(decision: Any) -> bool:
    """Whether copies or shards have no cluster, or shards that may run at once have no slot."""
    from federator.model.decision import Reason

    return bool(decision.shortfall) or decision.reason is not Reason.CHOSEN


def load(files: Sequence[str], namespace: str) -> list[dict[str, Any]]:
    """Every object of the files that placing reads, checked against its schema. Ends the command at the first bad one,
    with its field; what is not read is named on stderr. What names no namespace gets this one, where its kind has
    one."""
    from federator.api import read

    objs: list[dict[str, Any]] = []
    seen: dict[tuple[str, str, str], str] = {}
    for given in manifests.read(files, recursive=True, command="federator place -f -"):
        obj, where = given.obj, given.where
        title = f"{obj.get('kind') or 'an object without kind'}/{raw.text(obj, 'metadata', 'name')}"
        try:
            if _is_namespace(obj):
                objs.append(obj)
                continue
            if not _is_read(obj):
                common.say(f"ignored {title} ({where}): placing does not read this kind", err=True)
                continue
            _settle(obj, namespace)
            read.check(obj)
        except read.InvalidObject as bad:
            common.fail(f"{where}: {bad}")
        key = (str(obj["kind"]), raw.text(obj, "metadata", "namespace"), raw.text(obj, "metadata", "name"))
        if not key[2]:
            common.fail(f"{where}: metadata.name: is required here, where no server makes names")
        if key in seen:
            common.fail(f"{where}: metadata.name: {title} was given before, in {seen[key]}")
        seen[key] = where
        objs.append(obj)
    return objs


def _settle(obj: dict[str, Any], namespace: str) -> None:
    from federator.api import kinds

    kind, meta = kinds.kind_of(obj), obj.get("metadata")
    if kind is not None and kind.namespaced and isinstance(meta, dict) and not meta.get("namespace"):
        meta["namespace"] = namespace


def _is_namespace(obj: Mapping[str, Any]) -> bool:
    """Whether it is one: its labels say which Pod Security level holds for the workloads in it."""
    from federator.hub import offline

    return (obj.get("apiVersion"), obj.get("kind")) == offline.NAMESPACE and bool(raw.text(obj, "metadata", "name"))


def _is_read(obj: Mapping[str, Any]) -> bool:
    """Whether it is of a kind that we know; one of ours under a wrong apiVersion is, so that it is refused."""
    from federator.api import kinds

    known = kinds.KINDS.get(str(obj.get("kind")))
    return kinds.kind_of(obj) is not None or (known is not None and known.model is not None)


def rendered(decided: Sequence[tuple[Any, Any]], output: str) -> str:
    """The decisions as a table, or as PlacementDecision objects."""
    if output == "table":
        return table(decided)
    items = [as_object(ask, decision) for ask, decision in decided]
    return common.dump({"apiVersion": "v1", "kind": "List", "items": items}, output)


def as_object(ask: Any, decision: Any) -> dict[str, Any]:
    """A decision as the hub would write it."""
    from federator.api import kinds, placementdecision
    from federator.model import names

    kind = kinds.KINDS["PlacementDecision"]
    short = kinds.KINDS[ask.key.kind].short_names[0]
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": names.decision_name(short, ask.key.name, ask.uid), "namespace": ask.key.namespace},
        "spec": placementdecision.to_spec(decision, ("placed offline",), ask),
    }


def table(decided: Sequence[tuple[Any, Any]]) -> str:
    """One row per share; what is short gets a row of its own with the reason."""
    from federator.model import shards

    rows: list[list[str]] = []
    for ask, decision in decided:
        name = f"{ask.key.kind}/{ask.key.name}"
        for share in decision.shares:
            given = shards.text(share.ranges) if share.ranges else str(share.count)
            if share.ranges and share.slots < share.count:
                given += f" ({share.slots} at once)"
            rows.append([ask.key.namespace, name, share.cluster, given, ""])
        if _short(decision):
            what = f"short {decision.shortfall}" if decision.shortfall else "short of slots"
            rows.append([ask.key.namespace, name, "-", what, f"{decision.reason}: {decision.message}"])
        elif not decision.shares:
            rows.append([ask.key.namespace, name, "-", "0", decision.message])
    return common.table(["NAMESPACE", "WORKLOAD", "CLUSTER", "SHARE", "REASON"], rows)
