"""Why a workload is where it is, as one plain object: the verdict, every cluster, the arithmetic,
what is short, and what would help. Every number names its source, every negative its fix.

Made from a `hub.offline.Situation` and the engine's own explanation; reads nothing, writes nothing.
The command line asks it with what an operator may read, the leader's query port with what the owner
of a workload may know.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.advice import overridden, quotas, search, trials
from federator.advice.search import Fix
from federator.advice.trials import Stop, never
from federator.api import raw
from federator.api.membercluster import DEAD, DRAINING, FAILING_OVER
from federator.api.placement.decisionfacts import FailedOver
from federator.hub.placing.offline import Situation
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kinds.natives import NATIVES, POD_GROUP, qualified
from federator.kube import clock as clocks
from federator.model import plaintext, shards
from federator.model.ask import Ask, Unit
from federator.model.decision import REFUSALS, Decision, Reason, Share, Verdict
from federator.model.fleet import copies_of
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.policy import Policy
from federator.model.resources import Resources
from federator.placement import explain as split
from federator.placement.explain import Explanation
from federator.placement.policy import mentions
from federator.placement.quota import quota
from federator.placement.selection import filters
from federator.scheduling.write_order import Decided

UNHEARD: Final = "ClusterUnknown"
"""Reason of a row of the status that shows the last figures seen."""
HINTS: Final[Mapping[Reason, str]] = {
    Reason.MISCONFIGURED: "correct the field that the message names",
    Reason.HOST_WOULD_RUN_IT: "use a dedicated host, or write a PinterestService instead",
    Reason.POD_SECURITY_VIOLATION: "correct the field that the message names, or have an operator"
    " set the label "
    "pod-security.kubernetes.io/enforce of the namespace on the host",
    Reason.IDENTITY_NOT_ALLOWED: "correct the field that the message names, or have an operator"
    " add its value to the "
    "list of the FederatedQuota, or raise the maximum there",
    Reason.PENDING_EVALUATION: "wait for the member's answer in its ClusterCapacity status.copies",
    Reason.UNSCHEDULABLE: (
        "look at the pending pods there; the cap goes away by itself after a while"
    ),
    Reason.CONFLICT: "rename the workload, or have the object of its name in that cluster deleted",
}
"""Advice where no change of an object can be tried. The engine has tried everything else that is
advised."""
BAD: Final[Mapping[str, tuple[str, ...]]] = {
    "Ready": ("False", "Unknown"),
    "Applied": ("False", "Unknown"),
    "Healthy": ("False", "Unknown"),
    "Reconciling": ("True",),
    "Stalled": ("True",),
    "Reclaiming": ("True",),
}
"""Conditions that are shown -> the values that mean something is wrong."""


def facts(
    obj: Mapping[str, Any], situation: Situation, workload: Workload, stop: Stop = never
) -> dict[str, Any]:
    """Everything about the placement of one workload, as a plain object. Raises `trials.Stopped`
    once `stop` returns True."""
    answer: dict[str, Any] = {
        "workload": _identity(workload, obj),
        "verdict": _verdict(obj, situation, workload),
        **_reported(obj, workload),
    }
    ask, record = situation.ask_of(workload), situation.records.get(workload.key)
    if ask is None:
        return answer | _unplaced(answer, Reason.MISCONFIGURED, workload.problem)
    if record is not None and record.terms.reason in (Reason.HOST_WOULD_RUN_IT, *REFUSALS):
        return answer | _unplaced(answer, record.terms.reason, record.terms.message)
    made = trials.made(situation, workload, ask, situation.snapshot)
    decision = made.decision
    if decision.reason in REFUSALS:
        return answer | _unplaced(answer, decision.reason, decision.message)
    missing = trials.missing(ask, decision, made.entry.standing.done)
    why = _split(situation, ask, made)
    advice = search.advise(situation, workload.key, decision, missing, stop)
    shares = {share.cluster: share for share in (record.shares if record is not None else ())}
    return answer | {
        **_waits(situation, workload, missing),
        "reason": str(decision.reason),
        "message": decision.message,
        "policy": _policy(ask.policy),
        **_request(workload, ask),
        "inForce": quantity.render(decision.under.shape.requests)
        if decision.held_back and decision.under
        else {},
        "clusters": [
            _cluster(verdict, ask, obj, why=why, shares=shares, situation=situation)
            | _fix(verdict, ask, decision, missing, situation)
            for verdict in decision.verdicts
        ],
        "arithmetic": list(why.arithmetic),
        "remedies": [_remedy(fix) for fix in advice.fixes],
        "tried": {"changes": list(advice.tried), "trials": advice.trials},
        **_overridden(situation, workload, decision, shares),
        "warnings": [*_warnings(ask, situation), *_unsafe(obj, workload, decision, situation)],
        "violations": list(decision.violations),
        "unlimitedQuota": decision.unlimited_quota,
        "decision": _recorded(situation, workload),
        "sources": _sources(ask, scaled=_scaled(obj, workload)),
    }


def _split(situation: Situation, ask: Ask, made: Decided) -> Explanation:
    """The arithmetic of the decision."""
    standing = made.entry.standing
    return split.explain(
        ask,
        standing.held,
        situation.snapshot,
        situation.commitments,
        made.decision,
        capped=standing.capped,
        ceilings=made.ceilings,
    )


def _remedy(fix: Fix) -> dict[str, Any]:
    return {
        "change": fix.text,
        "gains": fix.gains,
        "missing": fix.left,
        "commands": list(fix.commands),
        "byOperator": fix.by_operator,
    }


def _overridden(
    situation: Situation, workload: Workload, decision: Decision, shares: Mapping[str, Share]
) -> dict[str, Any]:
    """What differs in the clusters that have, or should have, a part of it; nothing for none."""
    clusters = {*shares, *(share.cluster for share in decision.shares)}
    rows = overridden.rows(situation, workload, clusters)
    return {"overrides": rows} if rows else {}


def _waits(situation: Situation, workload: Workload, missing: int) -> dict[str, Any]:
    """What it lacks, its position in the queue, and when it may be expected to have it."""
    place: dict[str, Any] | None = None
    for position, waiter in quotas.queue(situation) if missing else ():
        if waiter.ask.key == workload.key:
            expected = waiter.expected
            place = {"position": position, "from": "", "to": ""}
            if expected is not None:
                place["from"] = plaintext.moment(expected.low_s)
                place["to"] = plaintext.moment(expected.high_s)
    return {"missing": missing, "waits": place}


def _unplaced(record: Mapping[str, Any], reason: Reason, message: str) -> dict[str, Any]:
    """The facts of a workload that the engine does not decide on."""
    return {
        "missing": record["verdict"]["desired"],
        "reason": str(reason),
        "message": message,
        "fix": HINTS[reason],
    }


def _state(obj: Mapping[str, Any], workload: Workload) -> list[str]:
    """How far the placed copies run: conditions that are not as wanted, and a rollout in
    progress."""
    lines = [
        f"{condition['type']}={condition.get('status')} ({condition.get('reason', '')}):"
        f" {condition.get('message', '')}"
        for condition in raw.objects(obj, "status", "conditions")
        if condition.get("status") in BAD.get(str(condition.get("type")), ())
        and condition.get("reason") != "Settled"
    ]
    status = raw.mapping(obj, "status")
    updated, exist = raw.integer(status, "updatedReplicas"), raw.integer(status, "replicas")
    if workload.verbs.unit is Unit.REPLICAS and exist and updated < exist:
        lines.insert(
            0,
            f"roll-out: {updated} of {exist} copies have the present template"
            " (status.updatedReplicas)",
        )
    return lines


def _warnings(ask: Ask, situation: Situation) -> list[str]:
    """Names in the policy that no cluster has."""
    return [
        f"{filters.field_of(ask.policy, mention.field)} {mention.sentence}"
        for mention in mentions.unknown(ask.policy, situation.snapshot.clusters)
    ]


def _unsafe(
    obj: Mapping[str, Any], workload: Workload, decision: Decision, situation: Situation
) -> Iterator[str]:
    """Where the pods of a gang may be bound one by one, and why."""
    gang = workload.verbs.gang
    for share in decision.shares if gang is not None else ():
        why = gang.ungrouped(obj) if gang is not None else ""
        if why := why or _without_group(obj, share.cluster, situation):
            yield (
                f"not gang-safe there ({share.cluster}): its scheduler binds the pods one by one,"
                f" as {why}; a part that finds no node for spec.gangTimeoutSeconds gives back what"
                " it has"
            )


def _without_group(obj: Mapping[str, Any], cluster: str, situation: Situation) -> str:
    """Why a gang has no PodGroup in a cluster; "" where it has one, or will have."""
    view = situation.snapshot.clusters.get(cluster)
    if view is None or qualified(POD_GROUP) not in view.apis:
        return f"the cluster serves no {POD_GROUP} ({NATIVES[POD_GROUP].api_version})"
    rows = raw.objects(obj, "status", "clusterStatuses")
    row = next((row for row in rows if raw.text(row, "cluster") == cluster), None)
    if row is None or raw.text(row, "podGroup"):
        return ""
    return (
        f"its Jobs there name no {POD_GROUP}: they were made before the cluster served it, or the"
        " member process may not make one"
    )


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


def _given(share: Share) -> int:
    """Copies or shards, or for a daemon nodes."""
    return share.count if share.nodes is None else share.nodes


def _scaled(obj: Mapping[str, Any], workload: Workload) -> bool:
    """Whether autoscalers choose how many copies of it run."""
    bounds = workload.verbs.bounds
    return bounds is not None and bounds(obj) is not None


def _reported(obj: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    """What its status says beside the verdict."""
    without = raw.present({"nodesWithout": _nodes_without(obj)})
    return {"state": _state(obj, workload), **without}


def _nodes_without(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Nodes that do not have a daemon, as its clusters say: by cluster and reason."""
    return [
        {
            "cluster": raw.text(row, "cluster"),
            "why": raw.text(group, "why"),
            "count": raw.figure(group, "count"),
            "names": list(raw.texts(group, "names")),
        }
        for row in raw.objects(obj, "status", "clusterStatuses")
        for group in raw.objects(row, "nodesWithout")
    ]


def _verdict(obj: Mapping[str, Any], situation: Situation, workload: Workload) -> dict[str, Any]:
    verbs, record = workload.verbs, situation.records.get(workload.key)
    placed = raw.condition(obj, "Placed")
    counted_there = verbs.every_node or _scaled(obj, workload)
    verdict: dict[str, Any] = {
        "desired": raw.integer(obj, "status", "desired") if counted_there else verbs.count(obj),
        **({"charged": verbs.count(obj)} if _scaled(obj, workload) else {}),
        "placed": sum(map(_given, record.shares)) if record is not None else 0,
    }
    if verbs.unit is Unit.SHARDS:
        verdict |= {
            "running": raw.integer(obj, "status", "running"),
            "done": raw.integer(obj, "status", "done"),
        }
    else:
        ready = raw.at(obj, "status", "ready")
        verdict["ready"] = (
            ready if isinstance(ready, int) else raw.integer(obj, "status", "readyReplicas")
        )
    unknown = max(raw.integer(obj, "status", name) for name in ("unknown", "unknownReplicas"))
    if unknown:
        verdict["unknown"] = unknown
    if placed:
        verdict["Placed"] = {name: placed.get(name, "") for name in ("status", "reason", "message")}
    else:
        verdict["Placed"] = {
            "status": "Unknown",
            "reason": "NotYetSeen",
            "message": "the hub has not reported on it yet",
        }
    return verdict


def _request(workload: Workload, ask: Ask) -> dict[str, Any]:
    """The request of one copy, and the defaults charged for resources it does not request."""
    own = workload.ask.shape.requests if workload.ask is not None else ask.shape.requests
    assumed = {
        name: amount - own[name]
        for name, amount in ask.shape.requests.items()
        if amount > own[name]
    }
    return {"request": quantity.render(own), "charged": quantity.render(Resources(assumed))}


def _policy(policy: Policy) -> dict[str, Any]:
    return {
        "name": policy.name,
        "namespace": policy.namespace,
        "origin": policy.origin,
        "strategy": str(policy.division.strategy),
        "required": [
            {"name": demand.name, "generation": demand.generation, "title": demand.title}
            for demand in policy.required
        ],
    }


def _cluster(
    verdict: Verdict,
    ask: Ask,
    obj: Mapping[str, Any],
    *,
    why: Explanation,
    shares: Mapping[str, Share],
    situation: Situation,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "cluster": verdict.cluster,
        "verdict": str(verdict.reason),
        "message": verdict.message,
    }
    row |= {
        "fit": verdict.fit,
        "got": verdict.got,
        "score": verdict.score,
        "terms": dict(verdict.terms),
    }
    share = shares.get(verdict.cluster)
    row["placed"] = share.count if share is not None else 0
    if share is not None and share.ranges:
        row["ranges"] = shards.text(share.ranges)
    reported = next(
        (
            entry
            for entry in raw.objects(obj, "status", "clusterStatuses")
            if entry.get("cluster") == verdict.cluster
        ),
        {},
    )
    unheard = reported.get("reason") == UNHEARD
    row["ready"] = _runs_there(ask, reported) if reported and not unheard else None
    if unheard:
        row["unknown"] = _runs_there(ask, reported)
    if reported.get("reason"):
        row["trouble"] = {"reason": reported["reason"], "message": raw.text(reported, "message")}
    part = next((entry for entry in why.rows if entry.cluster == verdict.cluster), None)
    if part is not None:
        row |= {"weight": part.weight, "held": part.held, "room": part.room, "atMost": part.cap}
        if part.after:
            row["afterScaleUp"] = part.after
        if (
            part.lacks
            and why.short
            and verdict.reason in (Reason.CHOSEN, Reason.INSUFFICIENT_CAPACITY)
        ):
            row["lacks"] = part.lacks
    if ask.suspended:
        row |= {
            "got": row["placed"],
            "message": f"keeps what it has, {row['placed']}: spec.suspend is true",
        }
    return row


def _fix(
    verdict: Verdict, ask: Ask, decision: Decision, missing: int, situation: Situation
) -> dict[str, str]:
    """What would open a cluster. Nothing where an account is what refuses, and of a cluster that
    the policy does not choose only while copies are missing."""
    view = situation.snapshot.clusters.get(verdict.cluster)
    closed = filters.refusal(ask, view) if view is not None else None
    if closed is not None:
        by_account = decision.reason in quota.BY_QUOTA or quota.refusal(
            ask, situation.snapshot.quotas
        )
        if by_account or (closed.reason is Reason.NOT_SELECTED and not missing):
            return {}
        if opening := search.openings(situation, ask.key, verdict.cluster):
            return {"fix": f"{opening[0]}: {opening[1]}"}
    hint = HINTS.get(verdict.reason, "")
    return {"fix": hint} if hint else {}


def _recorded(situation: Situation, workload: Workload) -> dict[str, Any] | None:
    record = situation.records.get(workload.key)
    if record is None:
        return None
    clusters = {
        name: obj for (kind, _, name), obj in situation.objects.items() if kind == "MemberCluster"
    }
    return {
        "name": record.facts.name,
        "seq": record.facts.seq,
        "asOf": raw.rfc3339(record.facts.as_of),
        "causes": list(record.terms.causes),
        "moves": _moves(record, clusters),
    }


def _moves(record: Record, clusters: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which lost clusters it has left, oldest first; then what holds it in one. `clusters`:
    MemberCluster objects by name."""
    failovers = [_left(left) for left in record.terms.failovers]
    return [*failovers, *_held(record, clusters)]


def _left(left: FailedOver) -> str:
    since = f", which was not heard since {left.silent_since}" if left.silent_since else ""
    since = f", for its maintenance from {left.window}" if left.window else since
    text = f"left {left.cluster} at {clocks.stamp(left.at_s)}{since}"
    if left.back_s is not None:
        text += f"; went back at {clocks.stamp(left.back_s)}"
    if left.copies:
        text += f"; {left.copies} are away from there"
    return text


def _held(record: Record, clusters: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for share in record.shares:
        obj = clusters.get(share.cluster, {})
        for kind in (DEAD, FAILING_OVER, DRAINING):
            condition = raw.condition(obj, kind)
            if condition.get("status") == "True":
                why = _why(obj, record.key, condition)
                yield f"{copies_of(share)} are still in {share.cluster} ({kind}): {why}"
                break


def _why(obj: Mapping[str, Any], key: WorkloadKey, condition: Mapping[str, Any]) -> str:
    if condition.get("reason") in {"Held", "Paused"}:
        return raw.text(condition, "message").removesuffix(".")
    for entry in raw.objects(obj, "status", "drain", "stays"):
        if raw.text(entry, "workload") == str(key):
            return raw.text(entry, "why")
    return "their turn comes, at the pace of hub.evacuated_copies_a_minute"


def _runs_there(ask: Ask, reported: Mapping[str, Any]) -> int:
    """Copies that run in a cluster, by its row; of what has components, the pods of all of them."""
    if "components" in reported:
        return sum(raw.figure(role, "active") for role in raw.objects(reported, "components"))
    return raw.integer(reported, "running" if ask.unit is Unit.SHARDS else "ready")


def _sources(ask: Ask, *, scaled: bool) -> dict[str, str]:
    """Where each number comes from."""
    jobs, parts = ask.unit is Unit.SHARDS, bool(ask.shape.parts)
    running = "components[].active" if parts else "running" if jobs else "ready"
    counted = "spec.shards" if jobs else "spec.replicas"
    if parts:
        roles = ", ".join(f"{part.name} {part.count}" for part in ask.shape.parts)
        counted = f"1 for all that spec.components[].replicas say together: {roles}"
    return {
        "desired": "status.desired" if ask.shape.every_node or scaled else counted,
        **({"charged": "spec.autoscaling: max, or what chargePercent says"} if scaled else {}),
        "placed": "PlacementDecision spec.shares",
        "ready": f"status.clusterStatuses[].{running}",
        "fit": "MemberCluster status.capacity and spec.usable, less what newer decisions took",
        "score": (
            "thousandths, the sum of its terms; it chooses clusters and does not change how copies"
            " are divided"
        ),
        "got": "the engine asked again now, with what is held",
        "request": "spec.template and the RuntimeProfile",
    }
