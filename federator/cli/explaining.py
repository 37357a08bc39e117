"""What `federator explain` shows, as one plain object and as text: the verdict first, then clusters, arithmetic, what
is short, and what would help. Every number names its source, every negative its fix.

Made from a `hub.offline.Situation` and the engine's own explanation; reads nothing, writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from federator.api import raw
from federator.cli import common
from federator.hub.offline import Situation
from federator.hub.workloads import Workload
from federator.model import quantity, shards
from federator.model.ask import Ask, Policy, Unit
from federator.model.decision import Reason, Share, Verdict
from federator.model.fleet import NodeRow
from federator.placement import capacity, filters
from federator.placement import explain as engine
from federator.placement.explain import Explanation

FIXES: Final[Mapping[Reason, str]] = {
    Reason.MISCONFIGURED: "correct the field that the message names",
    Reason.SUSPENDED: "set spec.suspend of the workload to false",
    Reason.HOST_WOULD_RUN_IT: "use a dedicated host, or write a PinterestService instead",
    Reason.NOT_SELECTED: "change {policy} spec.clusters or spec.division, or the labels of MemberCluster {cluster}",
    Reason.NO_MATCHING_CLUSTER: "change {policy} spec.clusters",
    Reason.NO_CLUSTER_ADMITTED: "correct the field of {policy} that the message names, or the labels of the clusters",
    Reason.API_NOT_AVAILABLE: "install the CRDs there: federator crd install --context {cluster}",
    Reason.TAINTED: "tolerate it in {policy} spec.tolerations, or take it from MemberCluster {cluster} spec.taints",
    Reason.CORDONED: "federator cluster uncordon {cluster}",
    Reason.NOT_ALLOWED: "change spec.tiers or spec.projects of MemberCluster {cluster}",
    Reason.CLUSTER_UNHEALTHY: "federator cluster check {cluster}",
    Reason.CLUSTER_STALE: "federator cluster check {cluster}",
    Reason.PENDING_EVALUATION: "wait for the member's answer in its ClusterCapacity status.copies",
    Reason.PRIORITY_EXCEEDS_MAX: "lower spec.priority, or raise spec.maxPriority of the FederatedQuota",
    Reason.EXCEEDS_MAX_QUOTA: "ask for less, or raise spec.tiers of the FederatedQuota",
    Reason.QUOTA_EXCEEDED: (
        "raise what the message names of the FederatedQuota, or scale another workload of the project down"
    ),
    Reason.INSUFFICIENT_CAPACITY: (
        "add nodes to {cluster}, raise spec.usable of its MemberCluster, or lower the request of one copy"
    ),
    Reason.UNSCHEDULABLE: "look at the pending pods in {cluster}; the cap goes away by itself after a while",
    Reason.SPREAD_UNSATISFIABLE: "relax {policy} spec.spread, or label MemberCluster {cluster}",
    Reason.GANG_INCOMPLETE: "set {policy} spec.partial to Allow, or make room for all copies",
    Reason.BELOW_MINIMUM: "lower {policy} spec.division.minPerCluster",
    Reason.AT_MAXIMUM: "raise {policy} spec.division.maxPerCluster or maxClusters",
}
"""What to do about each reason; what is not here needs nothing done."""
NOT_BY_QUOTA = "change spec.namespaces or spec.projects of the FederatedQuota that the message names, or the project"
"""Instead, where no cluster but a quota does not allow it."""


def facts(obj: Mapping[str, Any], situation: Situation, workload: Workload) -> dict[str, Any]:
    """Everything that is known about the placement of one workload."""
    found: dict[str, Any] = {"workload": _identity(workload, obj), "verdict": _verdict(obj, situation, workload)}
    ask = situation.ask_of(workload)
    if ask is None:
        return found | {
            "missing": found["verdict"]["desired"],
            "reason": str(Reason.MISCONFIGURED),
            "message": workload.problem,
            "fix": FIXES[Reason.MISCONFIGURED],
        }
    record = situation.records.get(workload.key)
    why = engine.explain(
        ask,
        situation.held(workload),
        situation.snapshot,
        situation.books,
        previous_hash=record.facts.inputs_hash if record is not None else "",
        finished=workload.progress().done,
    )
    shares = {share.cluster: share for share in (record.shares if record is not None else ())}
    decision = why.decision
    found |= {
        "missing": why.missing,
        "reason": str(decision.reason),
        "message": decision.message,
        "policy": _policy(ask.policy),
        "request": quantity.render(ask.shape.requests),
        "clusters": [_cluster(one, ask, obj, why, shares, situation) for one in decision.verdicts],
        "arithmetic": list(why.arithmetic),
        "remedies": [
            *({"field": one.field, "change": one.message, "gains": one.gains} for one in why.remedies),
            *_more_nodes(ask, situation, why),
        ],
        "violations": list(decision.violations),
        "unlimitedQuota": decision.unlimited_quota,
        "decision": _recorded(situation, workload),
        "sources": _sources(ask),
    }
    by_clusters = any(filters.refusal(ask, view) is not None for view in situation.snapshot.clusters.values())
    if why.missing and (fix := _fix(decision.reason, by_quota=not by_clusters)):
        found["fix"] = fix.format(policy=policy_name(ask.policy), cluster="a cluster")
    return found


def _fix(reason: Reason, *, by_quota: bool) -> str:
    return NOT_BY_QUOTA if by_quota and reason is Reason.NOT_ALLOWED else FIXES.get(reason, "")


def _identity(workload: Workload, obj: Mapping[str, Any]) -> dict[str, Any]:
    verbs = workload.verbs
    return {
        "kind": workload.key.kind,
        "namespace": workload.key.namespace,
        "name": workload.key.name,
        "generation": workload.generation,
        "project": verbs.project(obj),
        "tier": str(verbs.tier(obj)),
        "priority": verbs.priority(obj),
    }


def _verdict(obj: Mapping[str, Any], situation: Situation, workload: Workload) -> dict[str, Any]:
    verbs, record = workload.verbs, situation.records.get(workload.key)
    placed = raw.condition(obj, "Placed")
    found: dict[str, Any] = {
        "desired": verbs.count(obj),
        "placed": sum(share.count for share in record.shares) if record is not None else 0,
    }
    if verbs.unit is Unit.SHARDS:
        found |= {"running": raw.integer(obj, "status", "running"), "done": raw.integer(obj, "status", "done")}
    else:
        ready = raw.at(obj, "status", "ready")
        found["ready"] = ready if isinstance(ready, int) else raw.integer(obj, "status", "readyReplicas")
    if placed:
        found["Placed"] = {name: placed.get(name, "") for name in ("status", "reason", "message")}
    else:
        found["Placed"] = {"status": "Unknown", "reason": "NotYetSeen", "message": "the hub has not reported on it yet"}
    return found


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "namespace": policy.namespace,
        "origin": policy.origin,
        "strategy": str(policy.division.strategy),
    }


def policy_name(policy: Policy) -> str:
    """Where to change the policy in force."""
    if policy.origin == "inline":
        return "spec.placement of the workload, in place of"
    if policy.origin == "default":
        return "the built-in default by a PlacementPolicy:"
    return f"PlacementPolicy {policy.name}" if policy.namespace else f"ClusterPlacementPolicy {policy.name}"


def _more_nodes(ask: Ask, situation: Situation, why: Explanation) -> list[dict[str, Any]]:
    """How many more of the nodes that take most copies would do, where room is what is short."""
    if not why.missing or why.decision.reason is not Reason.INSUFFICIENT_CAPACITY or not ask.shape.plain:
        return []
    best: tuple[int, str, NodeRow] | None = None
    for name, view in sorted(situation.snapshot.clusters.items()):
        if view.capacity is None or filters.refusal(ask, view) is not None:
            continue
        for row in view.capacity.rows:
            copies = capacity.copies((replace(row, count=1, free=row.allocatable),), ask.shape)
            if copies > (best[0] if best is not None else 0):
                best = (copies, name, row)
    if best is None:
        return []
    copies, name, row = best
    nodes = -(-why.missing // copies)
    each = ", ".join(f"{what} {amount}" for what, amount in quantity.render(row.allocatable).items())
    change = f"{nodes} more nodes like those of {name} ({each}), {copies} copies on each (+{why.missing})"
    field = f"MemberCluster {name} status.capacity.nodes[].allocatable"
    return [{"field": field, "change": change, "gains": why.missing}]


def _cluster(
    one: Verdict,
    ask: Ask,
    obj: Mapping[str, Any],
    why: Explanation,
    shares: Mapping[str, Share],
    situation: Situation,
) -> dict[str, Any]:
    row: dict[str, Any] = {"cluster": one.cluster, "verdict": str(one.reason), "message": one.message}
    row |= {"fit": one.fit, "got": one.got, "score": one.score, "terms": dict(one.terms)}
    share = shares.get(one.cluster)
    row["placed"] = share.count if share is not None else 0
    if share is not None and share.ranges:
        row["ranges"] = shards.text(share.ranges)
    reported = next(
        (entry for entry in raw.objects(obj, "status", "clusterStatuses") if entry.get("cluster") == one.cluster), {}
    )
    field = "running" if ask.unit is Unit.SHARDS else "ready"
    row["ready"] = raw.integer(reported, field) if reported else None
    if reported.get("reason"):
        row["trouble"] = {"reason": reported["reason"], "message": raw.text(reported, "message")}
    split = next((entry for entry in why.rows if entry.cluster == one.cluster), None)
    if split is not None:
        row |= {"weight": split.weight, "held": split.held, "room": split.room, "atMost": split.cap}
    view = situation.snapshot.clusters.get(one.cluster)
    closed = filters.refusal(ask, view) if view is not None else None
    fix = _fix(closed.reason if closed is not None else one.reason, by_quota=closed is None)
    if fix:
        row["fix"] = fix.format(policy=policy_name(ask.policy), cluster=one.cluster)
    return row


def _recorded(situation: Situation, workload: Workload) -> dict[str, Any] | None:
    record = situation.records.get(workload.key)
    if record is None:
        return None
    return {
        "name": record.facts.name,
        "seq": record.facts.seq,
        "asOf": raw.rfc3339(record.facts.as_of),
        "causes": list(record.terms.causes),
    }


def _sources(ask: Ask) -> dict[str, str]:
    """Where each number comes from."""
    jobs = ask.unit is Unit.SHARDS
    return {
        "desired": "spec.shards" if jobs else "spec.replicas",
        "placed": "PlacementDecision spec.shares",
        "ready": "status.clusterStatuses[].running" if jobs else "status.clusterStatuses[].ready",
        "fit": "MemberCluster status.capacity and spec.usable, less what newer decisions took",
        "score": "thousandths, the sum of its terms; it chooses clusters and does not change how copies are divided",
        "got": "the engine asked again now, with what is held",
        "request": "spec.template and the RuntimeProfile",
    }


def text(found: Mapping[str, Any], *, cluster: str = "") -> str:
    """The facts for people; of one cluster only when it is named."""
    lines = [first_line(found)]
    if found["missing"]:
        lines.append(f"  {found['message']}")
        if "fix" in found:
            lines.append(f"  fix: {found['fix']}")
    if "policy" not in found:
        return "\n".join(lines)
    policy, identity = found["policy"], found["workload"]
    named = f"{policy['namespace']}/{policy['name']}" if policy["namespace"] else policy["name"]
    request = ", ".join(f"{name} {amount}" for name, amount in found["request"].items()) or "nothing"
    quota = "; no FederatedQuota limits the project" if found["unlimitedQuota"] else ""
    lines.append(
        f"  policy {named} ({policy['origin']}), strategy {policy['strategy']}; project {identity['project']}, "
        f"tier {identity['tier']}, priority {identity['priority']}{quota}"
    )
    lines.append(f"  one copy asks for {request}")
    rows = [row for row in found["clusters"] if not cluster or row["cluster"] == cluster]
    lines += ["", _table(rows)]
    lines += _remarks(rows)
    split = [line for line in found["arithmetic"] if not cluster or line.startswith(f"{cluster}:")]
    lines += ["", "split", *(f"  {line}" for line in split)]
    lines += [f"  not kept: {violation}" for violation in found["violations"]]
    lines += _short(found)
    lines += ["", "sources", *(f"  {name}: {where}" for name, where in found["sources"].items())]
    if found["decision"] is not None:
        recorded = found["decision"]
        lines.append(f"  decision: PlacementDecision {recorded['name']}, seq {recorded['seq']}, {recorded['asOf']}")
    return "\n".join(lines)


def first_line(found: Mapping[str, Any]) -> str:
    """The verdict."""
    identity, verdict = found["workload"], found["verdict"]
    numbers = "  ".join(f"{name} {value}" for name, value in verdict.items() if name != "Placed")
    placed = verdict["Placed"]
    reason = f" ({placed['reason']})" if placed["reason"] else ""
    return f"{identity['kind']}/{identity['name']}  {numbers}  Placed={placed['status']}{reason}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    terms = list(dict.fromkeys(name for row in rows for name in row["terms"]))
    score = f"SCORE = {' + '.join(terms)}" if terms else "SCORE"
    cells: list[list[str]] = []
    for row in rows:
        sums = " + ".join(str(row["terms"].get(name, 0)) for name in terms)
        shown = f"{row['score']} = {sums}" if row["terms"] else "-"
        ready = "-" if row["ready"] is None else str(row["ready"])
        cells.append(
            [row["cluster"], str(row["fit"]), str(row["placed"]), ready, str(row["got"]), shown, row["verdict"]]
        )
    return common.table(["CLUSTER", "FIT", "PLACED", "READY", "GOT", score, "VERDICT"], cells)


def _remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for row in rows:
        lines.append(f"  {row['cluster']}: {row['message'].removeprefix('cluster ' + row['cluster'] + ' ')}")
        if "fix" in row:
            lines.append(f"    fix: {row['fix']}")
        if "trouble" in row:
            trouble = row["trouble"]
            lines.append(f"    there: {trouble['reason']}: {trouble['message']} (status.clusterStatuses)")
        if row["placed"] != row["got"] and "ranges" not in row:
            lines.append(
                f"    holds {row['placed']} by the recorded decision; asked again now it would get {row['got']}"
            )
    return ["", *lines] if lines else []


def _short(found: Mapping[str, Any]) -> list[str]:
    if not found["missing"]:
        return []
    lines = ["", f"short by {found['missing']} ({found['reason']})"]
    if found["remedies"]:
        lines.append("would fit more if")
        lines += [f"  {one['change']}   [{one['field']}]" for one in found["remedies"]]
    else:
        lines.append("  no single change that was tried would place more")
    return lines
