"""What must hold of a world at rest, read from the stores alone: one function and one row of `REST`
per rule.

Also the end state in a form that two runs of one script can be compared by: without what time and
chance leave in it (uids, versions, times, seq) and without the choice between clusters, which
rightly depends on the order of events.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from federator.api import federatedquota, membercluster, raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.controllers.nodes import Node
from federator.embedded.controllers.scheduling.fit import node_matches
from federator.embedded.server import EmbeddedCluster
from federator.hub.cache import policying
from federator.hub.deletion import departed
from federator.hub.options import HubOptions
from federator.hub.records import workloads
from federator.kinds import labels, registry
from federator.kinds.natives import NATIVES
from federator.kinds.shared import environment
from federator.model import names, shards
from federator.model.ask import PodShape, Unit
from federator.model.decision import Reason
from federator.model.kubernetes.quantity import vector
from federator.model.policy import Policy, Strategy
from federator.model.shards import Ranges
from federator.placement.policy.policies import Bindings, Policies, Subject
from tests.simulation import (
    claimed,
    endings,
    feasibility,
    foreign,
    lives,
    promises,
    scaled,
    withheld,
)
from tests.simulation.invariants import Obj, all_of, finished
from tests.simulation.ordinals import DAEMON
from tests.simulation.tenants import OWNED
from tests.simulation.world import World

Uid = str
JOBS = "Jobs of"
_MEASURED = ("cpu", "memory")
NO_ROOM = frozenset({Reason.INSUFFICIENT_CAPACITY, Reason.UNSCHEDULABLE})


def host_workloads(world: World) -> dict[Uid, tuple[str, Obj]]:
    """(kind, object) of every workload on the host, by uid."""
    return {
        obj["metadata"]["uid"]: (kind, obj)
        for kind in registry.WORKLOADS
        for obj in all_of(world.federation.host, kind)
    }


def decisions(world: World) -> list[DecisionFacts]:
    return [decision_facts(obj) for obj in all_of(world.federation.host, "PlacementDecision")]


def slices(world: World, kind: str, uid: Uid) -> dict[str, Obj]:
    """The slices of one workload by cluster."""
    return {
        cluster: obj
        for cluster, member in world.federation.members.items()
        for obj in all_of(member, kind)
        if (mark := registry.verbs_of(kind).read_mark(obj)) is not None and mark.workload_uid == uid
    }


def no_orphans(world: World) -> Iterator[str]:
    """Nothing in a member, and no decision, speaks of a workload that is gone.

    Where a member's administrator raised numbers while nobody heard it, nothing proves that such a
    slice is of the time before its cluster was given up. It is left and told of:
    status.unknownSlices. So it is where a tenant had the garbage collector take the decision of a
    service (admission is the hold, which these worlds have not), every hub died before it decided
    anew, and the service was deleted meanwhile: no decision and no tombstone proves anything. Where
    the decision is still there, with his owner instead of the service, it reads as one of a service
    that was deleted with the policy Orphan: what members hold is released.
    """
    alive = host_workloads(world)
    told = {
        obj["metadata"]["name"]
        for obj in all_of(world.federation.host, "MemberCluster")
        if _unknown_slices(obj)
    }
    left = told & world.liars if world.fired["numbers-raised"] else set()
    for facts in decisions(world):
        if facts.workload_uid not in alive:
            yield f"decision {facts.name} outlives {facts.key}"
    for cluster, member in world.federation.members.items():
        if cluster in left:
            continue
        for info in member.registry.stored():
            for found in member.store.items(info):
                labels = found.obj["metadata"].get("labels") or {}
                if claimed.is_retained(found.obj):
                    continue
                excused = cluster in told or _is_released(member)
                if found.key == OWNED and world.fired["decision-owned"] and excused:
                    continue
                if labels.get(names.WORKLOAD_UID_LABEL, "") not in {"", *alive}:
                    yield (
                        f"{info.plural} {'/'.join(found.key)} in {cluster} belongs to a workload "
                        "that is gone"
                    )


def _is_released(member: EmbeddedCluster) -> bool:
    """Whether the service of the tenant's attack is there without a mark."""
    return any(
        (obj["metadata"]["namespace"], obj["metadata"]["name"]) == OWNED
        and registry.verbs_of("PinterestService").read_mark(obj) is None
        for obj in all_of(member, "PinterestService")
    )


def _unknown_slices(cluster: Obj) -> int:
    return int((cluster.get("status") or {}).get("unknownSlices") or 0)


def decided_as_asked(world: World) -> Iterator[str]:
    """Every workload has one decision, for as many copies as it asks, and members hold exactly its
    shares.
    """
    found = decisions(world)
    for uid, (kind, obj) in sorted(host_workloads(world).items()):
        name = f"{kind} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
        mine = [facts for facts in found if facts.workload_uid == uid]
        if len(mine) != 1:
            yield f"{name} has {len(mine)} decisions"
            continue
        (facts,) = mine
        asked = registry.verbs_of(kind).count(obj) - _done_elsewhere(kind, obj, facts)
        if (
            _policy(world, facts, obj).division.strategy is Strategy.DUPLICATE
            and facts.terms.unit is Unit.REPLICAS
        ):
            asked *= max(
                facts.terms.wanted // max(asked, 1), 1
            )  # in how many clusters is the split, and free
        elif facts.terms.surplus and facts.terms.per_cluster == asked:
            asked = min(
                sum(min(share.count, asked) for share in facts.shares), asked + facts.terms.surplus
            )
        if facts.terms.wanted != asked and kind != DAEMON:  # one for each cluster: `daemonrules`
            yield f"{name} asks for {asked}, its decision is for {facts.terms.wanted}"
        if facts.terms.unit is Unit.SHARDS and shards.size(finished(obj)) == registry.verbs_of(
            kind
        ).count(obj):
            continue
        shares = {share.cluster: share.count for share in facts.shares}
        held = {cluster: _held(kind, one) for cluster, one in slices(world, kind, uid).items()}
        if shares != held:
            yield f"{name}: decided {shares}, members hold {held}"


def _done_elsewhere(kind: str, obj: Obj, facts: DecisionFacts) -> int:
    """Shards that need no run and are in no share, because a cluster that had them has none any
    more: nobody has to be given them.
    """
    assigned = shards.normal(one for share in facts.shares for one in share.ranges)
    over = endings.over(kind, obj) if facts.terms.unit is Unit.SHARDS else ()
    return shards.size(shards.minus(over, assigned))


def _held(kind: str, obj: Obj) -> int:
    mark = registry.verbs_of(kind).read_mark(obj)
    assert mark is not None
    return (
        shards.size(mark.ranges)
        if kind == "PinterestJobSet"
        else int(obj["spec"].get("replicas", 1))
    )


def _completed(world: World, cluster: str, kind: str, slice_: Obj) -> Ranges:
    """Shards that a slice says are done. A member that once said so of others' shards keeps these
    words, as it keeps all that was ever told as done, and the host cuts them: where the job set
    ends before the others have come so far, they are never true. Its own shards count.
    """
    said = workloads.read_ranges(raw.text(slice_, "status", "completedIndexes"))
    if cluster not in world.liars or not world.fired["others-shards-done"]:
        return said
    mark = registry.verbs_of(kind).read_mark(slice_)
    return shards.intersect(said, shards.normal(mark.ranges)) if mark is not None else ()


def status_is_true(world: World) -> Iterator[str]:
    """What the host's status says is what the natives in the members add up to, and it speaks of
    the present spec.
    """
    for uid, (kind, obj) in sorted(host_workloads(world).items()):
        meta, status = obj["metadata"], obj.get("status") or {}
        name = f"{kind} {meta['namespace']}/{meta['name']}"
        if status.get("observedGeneration") != meta["generation"]:
            yield (
                f"{name}: generation {meta['generation']}, observed "
                f"{status.get('observedGeneration')}"
            )
        if kind == "PinterestJobSet":
            done = [
                one
                for cluster, slice_ in slices(world, kind, uid).items()
                for one in _completed(world, cluster, kind, slice_)
            ]
            said = workloads.read_ranges(status.get("completedIndexes") or "")
            if shards.minus(shards.normal(done), said):
                yield (
                    f"{name}: members completed {shards.text(shards.normal(done))}, status says "
                    f"{shards.text(said)}"
                )
            continue
        if kind == DAEMON:
            continue  # its figures are nodes: `daemonrules`
        ready = sum(
            int((native.obj.get("status") or {}).get("readyReplicas", 0))
            for member in world.federation.members.values()
            for native in member.store.items(
                member.registry.get("apps", "deployments"), meta["namespace"]
            )
            if (native.obj["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL) == uid
        )
        says = int(status.get("readyReplicas" if kind == "Deployment" else "ready", 0))
        if says != ready:
            yield f"{name}: {ready} pods are ready in members, status says {says}"


def planted_untouched(world: World) -> Iterator[str]:
    """Objects of somebody else in members are what they were."""
    for cluster, key, before in world.planted:
        member = world.federation.members[cluster]
        found = member.store.get(member.registry.get(key[0], key[1]), *key[2:])
        if found is None or foreign.lasting(found.obj) != before:
            yield f"{key[1]} {'/'.join(key[2:])} in {cluster} is not ours and was changed"


def nothing_withheld(world: World) -> Iterator[str]:
    """No quota is said to be full that is not (`withheld`)."""
    alive = host_workloads(world)

    def whole(facts: DecisionFacts) -> bool:
        live = alive.get(facts.workload_uid)
        return live is not None and _policy(world, facts, live[1]).require_all

    accounts = promises.Accounts(all_of(world.federation.host, "FederatedQuota"))
    yield from withheld.withheld(accounts, decisions(world), whole)


def room_is_used(world: World) -> Iterator[str]:
    """Who is told that clusters, or their schedulers, have no room could not have one copy more in
    any that is open to it.
    """
    host, alive = world.federation.host, host_workloads(world)
    for facts in decisions(world):
        terms = facts.terms
        if terms.reason not in NO_ROOM or terms.shape is None or facts.workload_uid not in alive:
            continue
        if promises.lacks_only_an_edit(facts):
            continue
        policy = _policy(world, facts, alive[facts.workload_uid][1])
        for cluster in all_of(host, "MemberCluster"):
            member = world.federation.members.get(cluster["metadata"]["name"])
            share = next(
                (s for s in facts.shares if s.cluster == cluster["metadata"]["name"]), None
            )
            whole = terms.per_cluster and share is not None and share.count >= terms.per_cluster
            if whole or raw.condition(cluster, "Untrustworthy").get("status") == "True":
                continue  # Duplicate gives it no more, or what it says of its room counts no more
            closed = any(
                feasibility.refusals(cluster, policy, terms.project, terms.tier, grows=True)
            )
            if member is not None and not closed and _fits(member, terms.shape):
                yield (
                    f"decision {facts.name}: {terms.shortfall} are missing, {member.name} has "
                    "room for one of them"
                )


def _policy(world: World, facts: DecisionFacts, obj: Obj) -> Policy:
    """The policy in force for a workload."""
    host, verbs = world.federation.host, registry.verbs_of(facts.key.kind)
    rules = Policies(
        policying.rule_of(kind, obj) for kind in feasibility.POLICIES for obj in all_of(host, kind)
    )
    bound = Bindings([federatedquota.to_account(obj) for obj in all_of(host, "FederatedQuota")]).of(
        facts.key.namespace
    )
    labels, placement = obj["metadata"].get("labels") or {}, verbs.placement(obj) or {}
    key = facts.key
    who = Subject(key.kind, key.namespace, labels, facts.terms.project, bound, key.name)
    return policying.in_force(who, placement, rules)


def _fits(member: EmbeddedCluster, shape: PodShape) -> bool:
    """Whether any machine that such a pod may go to has the cpu and memory of one more free."""
    free = {
        node.obj["metadata"]["name"]: vector(
            {name: node.obj["status"]["allocatable"][name] for name in _MEASURED}
        )
        for node in member.store.items(member.registry.get("", "nodes"))
        if _may_go(shape, node.obj)
    }
    for pod in member.store.items(member.registry.get("", "pods")):
        node = pod.obj["spec"].get("nodeName", "")
        if node in free and (pod.obj.get("status") or {}).get("phase") not in (
            "Succeeded",
            "Failed",
        ):
            for container in pod.obj["spec"]["containers"]:
                requests = (container.get("resources") or {}).get("requests") or {}
                free[node] = free[node] - vector(
                    {name: requests[name] for name in _MEASURED if name in requests}
                )
    return any(
        all(left[name] >= shape.requests[name] for name in _MEASURED) for left in free.values()
    )


def _may_go(shape: PodShape, node: Obj) -> bool:
    """Whether the stand-in scheduler would let it go there, by labels."""
    asked = json.loads(shape.node_selector or "{}")
    spec: dict[str, Any] = {"nodeSelector": asked.get("nodeSelector")}
    if terms := asked.get("nodeAffinity"):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    machine = Node(node["metadata"]["name"])
    machine.describe(dict(node))
    return node_matches(spec, machine)


def shards_have_jobs(world: World) -> Iterator[str]:
    """Every shard that a slice is given and that is not done has one Job there, no shard is in two
    Jobs of one job set anywhere, and no Job has shards that its slice is not given.
    """
    for uid, (kind, obj) in sorted(host_workloads(world).items()):
        if kind != "PinterestJobSet":
            continue
        name, done = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}", finished(obj)
        given: list[tuple[int, int]] = []
        for cluster, slice_ in sorted(slices(world, kind, uid).items()):
            mark = registry.verbs_of(kind).read_mark(slice_)
            assert mark is not None
            pieces = [
                piece
                for job in jobs(world.federation.members[cluster], uid)
                if (piece := shards_of(job))
            ]
            given += pieces
            if stray := shards.minus(shards.normal(pieces), mark.ranges):
                yield (
                    f"{name}: {cluster} has Jobs for shards {shards.text(stray)}, which it is "
                    "not given"
                )
            if missing := shards.minus(shards.minus(mark.ranges, done), shards.normal(pieces)):
                yield f"{name}: {cluster} has no Jobs for shards {shards.text(missing)}"
        if shards.size(given) != shards.size(shards.normal(given)):
            yield f"{name}: a shard is in two Jobs: {shards.text(sorted(given))}"


def jobs(member: EmbeddedCluster, uid: Uid) -> list[Obj]:
    """The Jobs that a member runs for one workload."""
    found = (job.obj for job in member.store.items(member.registry.get("batch", "jobs")))
    return [
        job
        for job in found
        if (job["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL) == uid
    ]


def shards_of(job: Obj) -> tuple[int, int] | None:
    """The range of shards that a Job runs."""
    return labels.piece_of(job["metadata"].get("annotations") or {})


def gone_clusters_are_gone(world: World) -> Iterator[str]:
    """No decision and no status names a cluster that is not in the fleet, none is being removed any
    more, and none of those that are in it is still on the list of lost ones.
    """
    host = world.federation.host
    fleet = {obj["metadata"]["name"]: obj for obj in all_of(host, "MemberCluster")}
    for name, obj in sorted(fleet.items()):
        if "deletionTimestamp" in obj["metadata"]:
            yield f"{name} is still being removed"
    for facts in decisions(world):
        for name in sorted({share.cluster for share in facts.shares} | set(facts.terms.leaving)):
            if name not in fleet:
                yield f"decision {facts.name} names {name}, which has left"
    for kind, obj in host_workloads(world).values():
        for row in (obj.get("status") or {}).get("clusterStatuses") or ():
            if row["cluster"] not in fleet:
                yield (
                    f"{kind} {obj['metadata']['name']}: the status names {row['cluster']}, which "
                    "has left"
                )
    listed = host.store.get(
        host.registry.get("", "configmaps"), HubOptions().system_namespace, departed.OBJECT
    )
    lost = departed.parse(listed.obj.get("data") or {}) if listed is not None else {}
    for name, obj in sorted(fleet.items()):
        if membercluster.recorded_uid(obj) in lost:
            yield f"{name} is back, and still on the list of lost clusters"


Rule = Callable[[World], Iterator[str]]

REST: Mapping[str, Rule] = {
    "1 decided as asked": decided_as_asked,
    "5 foreign objects": planted_untouched,
    "1 shards have Jobs": shards_have_jobs,
    "2 room is used": room_is_used,
    "6 quota": nothing_withheld,
    "8 no orphans": no_orphans,
    endings.DUE: endings.ended_when_due,
    endings.AFTER: endings.nothing_runs_after,
    endings.GONE: endings.gone_in_time,
    scaled.CHARGED: scaled.charged,
    scaled.SUMS: scaled.add_up,
    scaled.TOLD: scaled.told,
    "8 clusters leave clean": gone_clusters_are_gone,
    "19 status truth": status_is_true,
}
"""By number and name in the list of invariants."""


def breaches(world: World) -> list[str]:
    return [f"{name}: {text}" for name, rule in REST.items() for text in rule(world)]


def end_state(world: World, *, contended: bool, profiled: bool) -> dict[str, Any]:
    """What two runs of one script must agree on.

    `contended`: how much is placed depends on who came first, or on what was held before (a quota,
    a policy that binds). Whether a soft spread rule is kept does in any case, as the split does. So
    does how much is left of a workload that its policy admits nowhere: what ran before that was
    said. `profiled`: pods were given a profile, so that what a Job runs depends on when it was
    made.
    """
    found: dict[str, Any] = {}
    stranded = _stranded(world)
    for uid, (kind, obj) in host_workloads(world).items():
        if obj["metadata"]["namespace"] == lives.NAMESPACE:
            continue  # by when they end, and what is asked of them when, no two runs are alike
        if uid in stranded:
            name = f"{kind} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
            found[name] = {"spec": obj["spec"], "status": {}}
            continue
        meta, status = obj["metadata"], obj.get("status") or {}
        says = {
            name: status.get(name)
            for name in (
                "desired",
                "ready",
                "unknownReplicas",
                "shards",
                "done",
                "completedIndexes",
            )
            if not contended
        } | {
            one["type"]: one["status"]
            for one in status.get("conditions") or ()
            if not contended and one["type"] != "SpreadViolated"
        }
        found[f"{kind} {meta['namespace']}/{meta['name']}"] = {"spec": obj["spec"], "status": says}
    natives = (
        {}
        if contended
        else {**_natives(world, stranded), **_jobs(world, stranded, profiled=profiled)}
    )
    return {**found, **natives}


def _stranded(world: World) -> set[str]:
    """uids of workloads of which a decision says that their policy admits no cluster, or keeps
    copies all the same.
    """
    decisions = [decision_facts(obj) for obj in all_of(world.federation.host, "PlacementDecision")]
    nowhere = (Reason.NO_MATCHING_CLUSTER, Reason.NO_CLUSTER_ADMITTED)
    return {
        facts.workload_uid
        for facts in decisions
        if facts.terms.held > 0 or facts.terms.reason in nowhere
    }


def _jobs(world: World, stranded: Collection[str], *, profiled: bool) -> dict[str, Any]:
    """What the Jobs of each job set run, over all members, without what tells one range from
    another.

    Where a webhook or an older definition changed what is written (F47), or a profile did, Jobs
    that have ended are left out: nobody can put right what they ran, because the template of a Job
    stays as it was made.
    """
    found: dict[str, Any] = {}
    changed = profiled or world.fired["webhook-changes"] > 0
    for uid, (_, obj) in host_workloads(world).items():
        if uid in stranded or obj["metadata"]["namespace"] == lives.NAMESPACE:
            continue
        mine = [job for member in world.federation.members.values() for job in jobs(member, uid)]
        if changed:
            mine = [job for job in mine if not _has_ended(job)]
        if mine:
            contents = {
                workloads.digest([_impersonal(job["spec"]["template"]["spec"])]) for job in mine
            }
            found[f"{JOBS} {obj['metadata']['namespace']}/{obj['metadata']['name']}"] = sorted(
                contents
            )
    return found


def _has_ended(job: Obj) -> bool:
    told = (job.get("status") or {}).get("conditions") or ()
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in told)


def _impersonal(pod: Obj) -> Obj:
    """A pod without its place among the others, and without what it is told of where it runs and of
    the uid of its workload: these depend on the order of events, and on chance.
    """
    lists = {
        name: [
            {**container, "env": [entry for entry in container.get("env") or () if _counts(entry)]}
            for container in pod[name]
        ]
        for name in ("initContainers", "containers")
        if pod.get(name)
    }
    return {**pod, **lists}


def _counts(variable: Obj) -> bool:
    name = str(variable["name"])
    return name != "SHARD_BASE" and not name.startswith(environment.PREFIX)


DELETE_PODS = ("deleted-by-hand", "node-drained")
"""Faults in which somebody deletes pods that run. A lost node returns before it evicts any."""


def agree(what: str, one: Any, other: Any, *, pods_deleted: bool = False) -> bool:
    """Whether two runs ended alike in this. Jobs of a job set may be there in one only: they go
    with a cluster's share, also when all its shards are done, so where they ran depends on the
    order of events. `pods_deleted`: somebody deleted pods, or Jobs with their pods. To Kubernetes
    that is a failure of the index, so a shard that may not be tried again has failed for good.
    """
    if (
        pods_deleted
        and one
        and other
        and "spec" in one
        and one["spec"].get("backoffLimitPerShard") == 0
    ):
        return bool(one["spec"] == other["spec"])
    return one == other or (what.startswith(JOBS) and (one is None or other is None))


def _natives(world: World, stranded: Collection[str]) -> dict[str, Any]:
    """What members run, over all of them, without the number of copies: (kind, namespace, name) ->
    contents.
    """
    found: dict[str, set[bytes]] = {}
    for member in world.federation.members.values():
        for kind, row in NATIVES.items():
            # The names and bounds of Jobs are the ranges, which depend on the order of events: see
            # `_jobs`. No member here has the operators of optional kinds.
            if kind == "Job" or row.optional:
                continue
            group = row.api_version.rpartition("/")[0]
            for native in member.store.items(member.registry.get(group, row.plural)):
                meta = native.obj["metadata"]
                labels = meta.get("labels") or {}
                if (
                    names.FLEET_LABEL in labels
                    and meta.get("namespace") != lives.NAMESPACE
                    and labels.get(names.WORKLOAD_UID_LABEL) not in stranded
                ):
                    template = (native.obj.get("spec") or {}).get("template") or {}
                    contents = workloads.digest(
                        [_impersonal(template.get("spec") or {}), native.obj.get("data")]
                    )
                    found.setdefault(
                        f"native {kind} {meta['namespace']}/{meta['name']}", set()
                    ).add(contents)
    return {name: sorted(contents) for name, contents in sorted(found.items())}
