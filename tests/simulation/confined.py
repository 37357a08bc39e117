"""What a tenant's workload gets and what it costs, whatever he writes: by objects alone.

2: a decision gives copies only to clusters that every Required policy admits that its hub had heard
of. 6: an edit that asks for more has room in its account, a copy that asks for nothing is charged
what the account says, and nobody is charged to an account of other namespaces. 27: nothing in a
member has pods beyond the level of its namespace. `federator.placement` is never asked.
"""

from collections.abc import Iterable, Iterator, Mapping

from federator.api import capacityfields, placementfields, raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.hub.records.decisions import STRUCK
from federator.kinds import registry
from federator.kinds.natives import NATIVES
from federator.model.kubernetes import taints
from federator.model.kubernetes.quantity import vector
from federator.model.kubernetes.taints import Effect
from tests.simulation.invariants import Obj, Step, charge, is_decision

REQUIRED = "2 required policies hold"
FREE = "6 nothing is free"
EDITS = "6 an edit is an admission"
BOUND = "6 accounts are their namespaces'"
LEVEL = "27 pods within their level"
ASSUMED = {"cpu": "100m", "memory": "200Mi"}
"""What is charged for a copy that asks for nothing where the account says no more, by its
documentation.
"""
MEASURED = ("cpu", "memory")
POD_OWNERS = frozenset({*registry.WORKLOADS, *NATIVES})


def breaches(step: Step) -> Iterator[str]:
    """What one write breaks."""
    yield from (f"{LEVEL}: {text}" for text in _beyond_level(step))
    if not is_decision(step) or not step.writer.startswith("hub"):
        return
    facts = decision_facts(step.obj)
    if facts.terms.shape is None or facts.inputs_hash == STRUCK or not facts.shares:
        return
    for account in step.all_of("FederatedQuota"):
        if facts.terms.project not in raw.texts(account, "spec", "projects") or not step.heard(
            account
        ):
            continue
        before = decision_facts(step.before) if step.before is not None else None
        yield from (f"{FREE}: {text}" for text in _charged_less(step, facts, account))
        spaces = raw.texts(account, "spec", "namespaces")
        if (
            spaces
            and facts.key.namespace not in spaces
            and any(charge(step, facts, resource) for resource in MEASURED)
            and (before is None or before.terms.project != facts.terms.project)
        ):
            yield (
                f"{BOUND}: {step.name} is charged to {account['metadata']['name']}, which is for "
                f"{', '.join(spaces)}"
            )
        if before is not None:
            yield from (f"{EDITS}: {text}" for text in _dearer(step, facts, before, account))


# -- what it costs ---------------------------------------------------------------------------------


def _charged_less(step: Step, facts: DecisionFacts, account: Obj) -> Iterator[str]:
    """Resources that no container of the template asks for, and that are charged less than the
    account says.
    """
    live = next(
        (
            one
            for one in step.all_of(facts.key.kind)
            if one["metadata"]["uid"] == facts.workload_uid
        ),
        None,
    )
    charged = facts.terms.charged
    if live is None or charged is None or charged.generation != live["metadata"].get("generation"):
        return
    due = vector(raw.mapping(account, "spec", "defaultRequests") or ASSUMED)
    containers = _containers(_pods(live))
    assert facts.terms.shape is not None
    for resource in MEASURED:
        asked = any(resource in raw.mapping(one, "resources", "requests") for one in containers)
        limited = any(resource in raw.mapping(one, "resources", "limits") for one in containers)
        if not asked and not limited and facts.terms.shape.requests[resource] < due[resource]:
            has = facts.terms.shape.requests[resource]
            yield (
                f"{step.name}: a copy that asks for no {resource} is charged {has}, "
                f"{due[resource]} are due"
            )


def _dearer(step: Step, facts: DecisionFacts, before: DecisionFacts, account: Obj) -> Iterator[str]:
    """An edit that made each copy dearer although the account has no room for it. What was admitted
    stays running when a limit is lowered, and counts as before.
    """
    now, was = facts.terms.shape, before.terms.shape
    if (
        now is None
        or was is None
        or before.deleting
        or facts.key != before.key
        or not before.shares
    ):
        return
    edited = facts.terms.charged and before.terms.charged
    if not edited or facts.terms.charged.generation == before.terms.charged.generation:  # type: ignore[union-attr]
        return
    tier = str(facts.terms.tier)
    most = vector(raw.mapping(account, "spec", "tiers", tier, "max"))
    others = [
        one for one in map(decision_facts, step.all_of("PlacementDecision")) if one.uid != facts.uid
    ]
    mine = [one for one in others if one.terms.project in raw.texts(account, "spec", "projects")]
    for resource in MEASURED:
        if resource not in most or now.requests[resource] <= was.requests[resource]:
            continue
        if now.requests[resource] > _asked(step, facts, resource):
            continue  # an operator's RuntimeProfile adds to it
        theirs = sum(charge(step, one, resource) for one in mine if str(one.terms.tier) == tier)
        had, used = theirs + charge(step, before, resource), theirs + charge(step, facts, resource)
        if used > max(most[resource], had):
            told = f"from {was.requests[resource]} to {now.requests[resource]} of {resource} a copy"
            yield (
                f"{step.name}: an edit goes {told}: {used} in all after {had}, of {most[resource]}"
            )


def _asked(step: Step, facts: DecisionFacts, resource: str) -> int:
    """What the template itself asks for."""
    live = next(
        (
            one
            for one in step.all_of(facts.key.kind)
            if one["metadata"]["uid"] == facts.workload_uid
        ),
        None,
    )
    asked = (
        [raw.mapping(one, "resources", "requests") for one in _containers(_pods(live))]
        if live is not None
        else []
    )
    return sum(vector(one)[resource] for one in asked if resource in one)


# -- where it may be -------------------------------------------------------------------------------


def required(
    facts: DecisionFacts,
    grown: Mapping[str, int],
    policies: Iterable[Obj],
    workload: Obj,
    members: Mapping[str, Obj | None],
) -> Iterator[str]:
    """Clusters that are given more copies although a Required policy keeps the workload out of
    them. `grown`: what those have now that are given more. `policies`: ClusterPlacementPolicies
    that the hub had heard of.
    """
    for policy in policies:
        spec = raw.mapping(policy, "spec")
        if raw.text(spec, "enforcement") != "Required" or not _selects(spec, facts, workload):
            continue
        for cluster, count in sorted(grown.items()):
            obj = members.get(cluster)
            why = _kept_out(spec, cluster, count, obj) if obj is not None else ""
            if why:
                yield (
                    f"{cluster} is given {count}, and ClusterPlacementPolicy "
                    f"{policy['metadata']['name']} {why}"
                )


def _selects(spec: Obj, facts: DecisionFacts, workload: Obj) -> bool:
    chosen = raw.mapping(spec, "workloads")
    labels = workload["metadata"].get("labels") or {}
    return (
        (not (spaces := raw.texts(chosen, "namespaces")) or facts.key.namespace in spaces)
        and (not (said := raw.texts(chosen, "kinds")) or facts.key.kind in said)
        and (not (projects := raw.texts(chosen, "projects")) or facts.terms.project in projects)
        and all(
            labels.get(key) == value for key, value in raw.text_map(chosen, "matchLabels").items()
        )
    )


def _kept_out(spec: Obj, cluster: str, count: int, obj: Obj) -> str:
    names, exclude = raw.texts(spec, "clusters", "names"), raw.texts(spec, "clusters", "exclude")
    if cluster in exclude or (names and cluster not in names):
        return "does not admit it"
    wanted = raw.text_map(spec, "clusters", "selector", "matchLabels")
    labels = obj["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return "does not select it"
    tainted = capacityfields.taints_of(raw.at(obj, "spec", "taints"))
    tolerated = placementfields.tolerations_of(spec.get("tolerations"))
    if taint := taints.untolerated(tainted, tolerated, (Effect.NO_EXECUTE, Effect.NO_SCHEDULE)):
        return f"lets nobody tolerate its taint {taint}"
    most = raw.mapping(spec, "division").get("maxPerCluster")
    if isinstance(most, int) and count > most:
        return f"allows {most}"
    return ""


# -- what it may be --------------------------------------------------------------------------------


def _beyond_level(step: Step) -> Iterator[str]:
    """Pods of ours in a member that a namespace of the level `baseline` forbids, or that choose
    their node: every namespace of these worlds has that level. Looks for what gives a node away, by
    its own short list.
    """
    if step.cluster == "host" or not step.writer or step.new is None or step.kind not in POD_OWNERS:
        return
    pods = _all_pods(step.new)
    if step.old is not None and step.same and _all_pods(step.old) == pods:
        return
    for found in filter(None, map(_gives_a_node_away, pods)):
        yield (
            f"{step.name}: {step.writer} writes pods beyond their namespace's level: "
            f"{', '.join(found)}"
        )


def _gives_a_node_away(pod: Obj) -> list[str]:
    """The fields of a pod that do."""
    found = [name for name in ("hostPID", "hostIPC", "hostNetwork", "nodeName") if pod.get(name)]
    found += [f"volume {one['name']}" for one in pod.get("volumes") or () if "hostPath" in one]
    containers = [*_containers(pod), *(pod.get("initContainers") or ())]
    found += [
        f"container {one['name']}"
        for one in containers
        if (one.get("securityContext") or {}).get("privileged")
    ]
    important = str(pod.get("priorityClassName"))
    return [*found, *([important] if important.startswith("system-") else [])]


def _pods(obj: Obj) -> Obj:
    return raw.mapping(obj, "spec", "template", "spec")


def _all_pods(obj: Obj) -> list[Obj]:
    """The specs of all pods that an object makes: of a cron job those of its runs, of a training
    job those of its components, too.
    """
    run = raw.mapping(obj, "spec", "jobTemplate")
    parts = raw.objects(obj, "spec", "components")
    found = (_pods(obj), _pods(run), *(raw.mapping(part, "template", "spec") for part in parts))
    return [pod for pod in found if pod]


def _containers(pod: Obj) -> list[Obj]:
    return list(pod.get("containers") or ())
