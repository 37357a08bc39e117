"""`federator place -f FILE...`: runs the engine offline. Reads a fleet, policies, quotas and
workloads from files and prints decisions. With --live, the leading hub computes where the workloads
of the files would go in its fleet; nothing is written.

Exit 0: everything is placed. Exit 3: something is short, slots of a job set included. Exit 1: bad
input, with nothing on stdout. The same input always prints the same output.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from federator.api import raw
from federator.cli import common
from federator.cli.files import manifests
from federator.model.manifests import Manifest, Unreadable

if TYPE_CHECKING:
    from federator.hub.placing.offline import Situation
    from federator.model.ask import Ask
    from federator.model.decision import Decision
    from federator.scheduling.optimality import Gap

SHORTFALL_EXIT = 3


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    help="File, directory (recursive), kustomization, or - for stdin.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    help="Namespace of objects without one (default: default; with --live the context's).",
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@click.option(
    "--live",
    is_flag=True,
    help="Ask the leading hub, with your own rights; the files contain workloads only.",
)
@common.leader_option
@common.connection_options
def place(
    files: tuple[str, ...], namespace: str, output: str, *, live: bool, **connection: str
) -> None:
    """Show where workloads would go, given MemberClusters with status.capacity, policies, quotas
    and PlacementDecisions; or, with --live, in the hub's present fleet."""
    from federator.hub.placing import offline

    if live:
        where = namespace or common.default_namespace(
            connection["kubeconfig"], connection["context"]
        )
        decisions = common.run(_ask_leader(load(files, where), connection))
        common.show(rendered(decisions, output))
        sys.exit(SHORTFALL_EXIT if any(map(_short, decisions)) else 0)
    objs = load(files, namespace or "default")
    try:
        situation = situation_of(objs)
    except Unreadable as bad:
        common.fail(*bad.sentences)
    if not situation.snapshot.clusters:
        common.fail(
            "the files contain no MemberCluster, so nothing can be placed; use --live to ask the"
            " hub"
        )
    if not situation.workloads:
        _fail_without_workloads()
    for warning in warnings(situation):
        common.say(f"warning: {warning}", err=True)
    made, gap = situation.decide_batch()
    decisions = [offline.as_object(ask, decision, "placed offline") for ask, decision in made]
    common.show(rendered(decisions, output, _outcome(situation, made), gap))
    sys.exit(SHORTFALL_EXIT if any(map(_short, decisions)) else 0)


def situation_of(objs: Sequence[Mapping[str, Any]]) -> "Situation":
    """All that placing these objects depends on. Raises `Unreadable` for accounts whose
    parent is missing, and for workloads that placing cannot read."""
    from federator.hub.placing import offline
    from federator.placement.quota import accounts

    situation = offline.read(objs, as_of=picture_s(objs))
    if orphans := [
        f"FederatedQuota/{name}: {why} (add it to the files, or correct spec.parent)"
        for name, why in accounts.unknown_parents(situation.snapshot.quotas)
    ]:
        raise Unreadable("; ".join(orphans))
    unreadable = [
        f"{key}: {workload.problem}"
        for key, workload in situation.workloads.items()
        if workload.problem
    ]
    if unreadable:
        raise Unreadable("; ".join(unreadable))
    return situation


def _fail_without_workloads() -> NoReturn:
    from federator.kinds import registry

    common.fail(f"the files contain no workload ({', '.join(registry.WORKLOADS)})")


async def _ask_leader(
    objs: Sequence[Mapping[str, Any]], connection: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The leader's decision for each workload, each computed without the others."""
    from federator.cli.leader import asking
    from federator.kinds import registry

    other = next((obj for obj in objs if obj.get("kind") not in registry.WORKLOADS), None)
    if other is not None:
        title = f"{other.get('kind')}/{raw.text(other, 'metadata', 'name')}"
        common.fail(
            f"{title}: with --live the fleet comes from the hub; the files may contain workloads"
            " only"
        )
    if not objs:
        _fail_without_workloads()
    if len(objs) > 1:
        common.say(
            f"each of the {len(objs)} workloads is placed separately, beside what already runs",
            err=True,
        )
    leader = asking.Leader(
        connection["kubeconfig"], connection["context"], connection["leader_address"]
    )

    async def ask(host: Any) -> list[dict[str, Any]]:
        answers = []
        for obj in objs:
            parts = (
                raw.text(obj, "metadata", "namespace"),
                registry.KINDS[str(obj["kind"])].plural,
                "place",
            )
            answers.append(await leader.ask(host, parts, body=obj))
        return answers

    return await common.with_federation(leader.kubeconfig, leader.context, ask)


def picture_s(objs: Sequence[Mapping[str, Any]]) -> float:
    """The time the files describe, in epoch seconds: the newest report or condition of a
    MemberCluster, 0 without any. Not the current time: the same files must give the same decisions.
    """
    stamps: list[str] = []
    for obj in objs:
        if obj.get("kind") == "MemberCluster":
            stamps.append(raw.text(obj, "status", "capacity", "asOf"))
            stamps += [
                raw.text(condition, "lastTransitionTime")
                for condition in raw.objects(obj, "status", "conditions")
            ]
    return max(map(raw.epoch_s, stamps), default=0.0)


def warnings(situation: "Situation") -> Iterator[str]:
    """Warnings about likely mistakes: policies in force for no workload, and unknown cluster
    names."""
    from federator.advice import overridden
    from federator.placement.policy import mentions
    from federator.placement.policy.policies import Subject

    def subject(ask: "Ask") -> Subject:
        key = ask.key
        return Subject(key.kind, key.namespace, ask.labels, ask.project, name=key.name)

    asks = [
        ask
        for entry in situation.workloads.values()
        if (ask := situation.ask_of(entry)) is not None
    ]
    in_force = {
        (ask.policy.namespace, ask.policy.name)
        for ask in asks
        if ask.policy.origin in ("policyRef", "match")
    }
    clusters = situation.snapshot.clusters
    in_force |= {("", demand.name) for ask in asks for demand in ask.policy.required}
    for rule in situation.rules:
        named = policy_title(rule.policy.namespace, rule.policy.name)
        if not situation.rules.in_force(rule.id):
            count, most = situation.rules.count(rule.policy.namespace), situation.rules.in_force_max
            yield f"{named} is not in force: its namespace has {count}, and the {most} oldest are"
        elif rule.id not in in_force:
            matched = [
                f"{ask.key.kind}/{ask.key.name}" for ask in asks if rule.matches(subject(ask))
            ]
            follows = "its own placement, or a policy that goes first"
            why = (
                f"it matches {matched[0]}, which follows {follows}"
                if matched
                else "it matches no workload"
            )
            yield f"{named} is in force for nothing: {why}"
        for mention in mentions.unknown(rule.policy, clusters):
            yield f"{named}: spec.{mention.field} {mention.sentence}"
    for ask in asks:
        for cluster, why in overridden.refused(situation, ask.key, clusters).items():
            named = f"{ask.key.kind}/{ask.key.name} in {cluster}"
            yield f"{named}: its slice would not be written: {why}"
        if ask.policy.origin == "inline":
            for mention in mentions.unknown(ask.policy, clusters):
                yield (
                    f"{ask.key.kind}/{ask.key.name}: spec.placement.{mention.field}"
                    f" {mention.sentence}"
                )


def policy_title(namespace: str, name: str) -> str:
    return f"PlacementPolicy {namespace}/{name}" if namespace else f"ClusterPlacementPolicy {name}"


def _short(decision: Mapping[str, Any]) -> bool:
    """Whether copies or shards have no cluster, or parallel shards have no slot."""
    from federator.model.decision import Reason

    spec = raw.mapping(decision, "spec")
    return raw.integer(spec, "shortfall") > 0 or raw.text(spec, "reason") != Reason.CHOSEN


def load(files: Sequence[str], namespace: str) -> list[dict[str, Any]]:
    """The objects of the files that placement reads, checked against their schemas.

    Exits with the field of the first invalid object; ignored objects are named on stderr. A
    namespaced object without a namespace gets `namespace`.
    """

    from federator.hub.placing import objects

    def ignored(manifest: Manifest, why: str) -> None:
        common.say(f"ignored {objects.title(manifest.obj)} ({manifest.where}): {why}", err=True)

    read = manifests.read(files, recursive=True, command="federator place -f -")
    try:
        return objects.checked(read, namespace, ignored)
    except Unreadable as bad:
        common.fail(*bad.sentences)


def _outcome(
    situation: "Situation", made: "Sequence[tuple[Ask, Decision]]"
) -> dict[str, list[dict[str, Any]]]:
    """The admitted workloads, the pending ones, and the victims with their preemptors. A victim has
    its place until it is gone, so it is among the admitted too."""
    admitted: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    preempted: list[dict[str, Any]] = []
    for ask, decision in made:
        key, gone = situation.name_of(decision.key), decision.preempted
        record = situation.records.get(decision.key)
        leaves = gone is not None and (record is None or record.terms.preempted != gone)
        shares = record.shares if leaves and record is not None else decision.shares
        clusters = [share.cluster for share in shares if share.count]
        if clusters:
            admitted.append({"key": key, "flavor": situation.flavor(ask, clusters)})
        if gone is not None and leaves:
            by = situation.name_of(gone.by)
            preempted.append({"key": key, "by": by, "reason": gone.why, "copies": gone.copies})
        elif not clusters and (decision.shortfall or str(decision.reason) != "Chosen"):
            reason = {"reason": str(decision.reason), "message": decision.message}
            waiting.append({"key": key, **reason})
    return {"admitted": admitted, "waiting": waiting, "preempted": preempted}


def rendered(
    decisions: Sequence[Mapping[str, Any]],
    output: str,
    outcome: Mapping[str, Any] | None = None,
    gap: "Gap | None" = None,
) -> str:
    """PlacementDecision objects as a table, or as JSON or YAML, there with the outcome. The table
    names the optimality gap only if something is short."""
    if output == "table":
        short = gap is not None and any(map(_short, decisions))
        return f"{table(decisions)}\n\n{_gap_line(gap)}" if gap and short else table(decisions)
    listed = {"apiVersion": "v1", "kind": "List", "items": list(decisions)} | dict(outcome or {})
    if gap is not None:
        listed["optimality"] = {
            "placedWork": _percent(gap.placed),
            "boundWork": _percent(gap.bound),
            "gapPercent": _percent(gap.ratio),
        }
    return common.dump(listed, output)


def _gap_line(gap: "Gap") -> str:
    return (
        f"Optimality gap: at most {_percent(gap.ratio)} % (placed work {_percent(gap.placed)}; no"
        f" placement exceeds {_percent(gap.bound)})"
    )


def _percent(part: float) -> float:
    return round(100 * part, 2)


def table(decisions: Sequence[Mapping[str, Any]]) -> str:
    """One row per share, and one row with the reason for what is short."""
    from federator.api.placement import decisionfacts
    from federator.model import scaleup, shards

    rows: list[list[str]] = []
    for decision in decisions:
        facts, spec = decisionfacts.decision_facts(decision), raw.mapping(decision, "spec")
        where, name, message = (
            facts.key.namespace,
            f"{facts.key.kind}/{facts.key.name}",
            raw.text(spec, "message"),
        )
        waits = scaleup.by_cluster(facts.terms.additions)
        for share in facts.shares:
            amount = shards.text(share.ranges) if share.ranges else str(share.count)
            if share.ranges and share.slots < share.count:
                amount += f" ({share.slots} at once)"
            coming = [
                f"{each.copies} wait for {each.text}" for each in waits.get(share.cluster, ())
            ]
            rows.append([where, name, share.cluster, amount, "; ".join(coming)])
        if _short(decision):
            missing = raw.integer(spec, "shortfall")
            what = f"short {missing}" if missing else "short of slots"
            rows.append([where, name, "-", what, f"{raw.text(spec, 'reason')}: {message}"])
        elif not facts.shares:
            rows.append([where, name, "-", "0", message])
    return common.table(["NAMESPACE", "WORKLOAD", "CLUSTER", "SHARE", "REASON"], rows)
