"""Daemons, by objects alone. At rest: 1 each cluster that a daemon's policy admits has one
DaemonSet of it, and none that the policy refuses; 1 each machine there that its pods may go to has
one pod of it, and no other has any; 1 where that is ready the start-up taint is gone; 19 its status
says what these pods are. At every decision: 2 it leaves a cluster for a reason that a person gave.

Clusters are judged by MemberClusters, machines by Nodes of members and the template on the host.
`federator.placement` is never asked. A cluster that only takes nothing new may have it or not.
"""

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from federator.api import capacityfields, placementfields, raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.embedded.controllers.nodes import Node
from federator.embedded.controllers.scheduling.fit import node_matches
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.model import names
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Effect, Taint
from federator.model.policy import Policy
from tests.simulation import confined
from tests.simulation.invariants import Obj, all_of
from tests.simulation.ordinals import DAEMON
from tests.simulation.world import World

WHERE = "1 a daemon is where it is admitted"
NODES = "1 a daemon is on every node that takes it"
STARTS = "1 a start-up taint goes"
TOLD = "19 a daemon's figures are its nodes"
STAYS = "2 a daemon leaves for a reason"
OF_KUBERNETES = "node.kubernetes.io/"
"""Prefix of the taints that pods of every DaemonSet tolerate."""


class Door(enum.Enum):
    """How far a cluster is open to a daemon."""

    OPEN = "open"
    KEEPS = "takes nothing new"
    UNCHOSEN = "not chosen"
    CLOSED = "closed"


class Part(NamedTuple):
    """What one cluster has of a daemon."""

    desired: int
    """Machines that its pods may go to."""
    current: int
    ready: int
    updated: int
    """Pods with the template of the host's object."""


def door(cluster: Obj, policy: Policy, kept_out: str = "") -> Door:
    """By a MemberCluster. `kept_out`: what a Required policy says of it."""
    name, spec = cluster["metadata"]["name"], raw.mapping(cluster, "spec")
    tainted = capacityfields.taints_of(spec.get("taints"))
    evicted = taints.untolerated(tainted, policy.tolerations, (Effect.NO_EXECUTE,))
    leaves = "deletionTimestamp" in cluster["metadata"] or spec.get("drain") is not None
    if name in policy.exclude or evicted is not None or leaves or "does not" in kept_out:
        return Door.CLOSED
    labels = raw.text_map(cluster, "metadata", "labels")
    if (policy.names and name not in policy.names) or (
        policy.selector is not None and not policy.selector.matches(labels)
    ):
        return Door.UNCHOSEN
    shut = taints.untolerated(tainted, policy.tolerations, (Effect.NO_SCHEDULE,)) is not None
    shut = shut or raw.flag(spec, "cordoned") or bool(kept_out) or _says_no(cluster)
    return Door.KEEPS if shut or any(spec.get(one) for one in _BOUND) else Door.OPEN


_BOUND = ("projects", "tiers", "maintenance", "declaredDead", "fenced")
"""Fields of a cluster that keep some away at times: where one is set, nothing is demanded."""


def _says_no(cluster: Obj) -> bool:
    ready, distrusted = (raw.condition(cluster, one) for one in ("Ready", "Untrustworthy"))
    return ready.get("status") != "True" or distrusted.get("status") == "True"


def left(  # noqa: PLR0917 what a decision was made from
    facts: DecisionFacts,
    before: DecisionFacts,
    policy: Policy,
    members: Mapping[str, Obj | None],
    policies: Iterable[Obj],
    workload: Obj,
) -> Iterator[str]:
    """A sentence for every cluster that a decision takes a daemon from without a reason. `policy`,
    `members`, `policies` (ClusterPlacementPolicies) and `workload` as its hub had heard of them.
    """
    if policy.problem:
        return
    policies = list(policies)
    doors = {
        name: door(obj, policy, _kept_out(facts, name, obj, policies, workload))
        for name, obj in members.items()
        if obj is not None
    }
    unknown = len(doors) < len(members)
    somewhere = unknown or any(one in (Door.OPEN, Door.KEEPS) for one in doors.values())
    has = {share.cluster for share in facts.shares}
    for share in before.shares:
        found = doors.get(share.cluster, Door.CLOSED)
        if share.cluster in has or found is Door.CLOSED:
            continue
        if found is not Door.UNCHOSEN:
            yield f"{share.cluster} loses it, and is {found.value}"
        elif not somewhere:
            yield f"{share.cluster} loses it, and its policy admits no cluster"


def _kept_out(
    facts: DecisionFacts, name: str, cluster: Obj, policies: Iterable[Obj], workload: Obj
) -> str:
    """What a Required policy says against this cluster, "" for nothing."""
    told = confined.required(facts, {name: 1}, policies, workload, {name: cluster})
    return next(told, "").partition("ClusterPlacementPolicy")[2]


class EveryNode:
    """The rules of a world at rest. `judged`: clusters and machines that were looked at."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()

    def at_rest(self, world: World) -> Iterator[str]:
        """What is wrong with each daemon of the host."""
        for daemon in all_of(world.federation.host, DAEMON):
            if "deletionTimestamp" in daemon["metadata"]:
                continue
            sets = {
                name: daemon_sets(member, daemon["metadata"]["uid"])
                for name, member in world.federation.members.items()
            }
            yield from (f"{WHERE}: {text}" for text in self._where(world, daemon, sets))
            parts: dict[str, Part] = {}
            for name in sorted(name for name, found in sets.items() if found):
                member = world.federation.members[name]
                there = pods(member, {one["metadata"]["uid"] for one in sets[name]})
                yield from (f"{NODES}: {text}" for text in self._nodes(member, daemon, there))
                yield from (f"{STARTS}: {text}" for text in self._started(member, daemon, there))
                parts[name] = _part(member, daemon, there)
            yield from (f"{TOLD}: {text}" for text in self._told(daemon, parts))

    def _where(
        self, world: World, daemon: Obj, sets: Mapping[str, Collection[Obj]]
    ) -> Iterator[str]:
        host, uid = world.federation.host, daemon["metadata"]["uid"]
        placement = registry.verbs_of(DAEMON).placement(daemon) or {}
        policies = all_of(host, "ClusterPlacementPolicy")
        if placement.get("policyRef") or (not placement and _may_match(host, daemon, policies)):
            return
        policy = placementfields.policy_from_inline(placement) if placement else Policy()
        found = map(decision_facts, all_of(host, "PlacementDecision"))
        facts = next((one for one in found if one.workload_uid == uid), None)
        if facts is None:
            yield f"{_name(daemon)} has no decision"
            return
        clusters = {obj["metadata"]["name"]: obj for obj in all_of(host, "MemberCluster")}
        doors = {
            name: door(obj, policy, _kept_out(facts, name, obj, policies, daemon))
            for name, obj in clusters.items()
        }
        somewhere = any(one in (Door.OPEN, Door.KEEPS) for one in doors.values())
        asks = not raw.flag(daemon, "spec", "suspend") and _is_welcome(host, facts.terms.project)
        for name in sorted(doors.keys() & sets.keys()):
            self.judged[WHERE] += 1
            has = len(sets[name])
            if has > 1:
                yield f"{_name(daemon)}: {has} DaemonSets in {name}"
            if doors[name] is Door.OPEN and asks and not has:
                yield f"{_name(daemon)}: {name} is open to it, and has none"
            out = doors[name] is Door.CLOSED or (doors[name] is Door.UNCHOSEN and somewhere)
            if out and has:
                yield f"{_name(daemon)}: {name} is {doors[name].value}, and has it"

    def _nodes(
        self, member: EmbeddedCluster, daemon: Obj, there: Mapping[str, list[Obj]]
    ) -> Iterator[str]:
        for node in machines(member):
            self.judged[NODES] += 1
            name, due = node["metadata"]["name"], int(takes(node, daemon))
            if len(there.get(name, ())) != due:
                yield (
                    f"{_name(daemon)}: {len(there.get(name, ()))} pods on {member.name}/{name}, "
                    f"{due} are due"
                )

    def _started(
        self, member: EmbeddedCluster, daemon: Obj, there: Mapping[str, list[Obj]]
    ) -> Iterator[str]:
        taint = startup_taint(daemon)
        for node in machines(member) if taint is not None else ():
            name = node["metadata"]["name"]
            if not any(_is_ready(pod) for pod in there.get(name, ())):
                continue
            self.judged[STARTS] += 1
            if taint in capacityfields.taints_of(raw.at(node, "spec", "taints")):
                yield f"{_name(daemon)}: {member.name}/{name} has taint {taint}, and is ready"

    def _told(self, daemon: Obj, parts: Mapping[str, Part]) -> Iterator[str]:
        status = raw.mapping(daemon, "status")
        self.judged[TOLD] += 1
        rows = {row["cluster"]: row for row in raw.objects(status, "clusterStatuses")}
        for name in sorted(rows.keys() | parts.keys()):
            is_, said = parts.get(name, Part(0, 0, 0, 0)), _said(rows.get(name, {}))
            if is_ != said:
                yield f"{_name(daemon)}: {name} has {is_}, its row says {said}"
        total = Part(*map(sum, zip(*parts.values(), strict=True))) if parts else Part(0, 0, 0, 0)
        if total != _said(status):
            yield f"{_name(daemon)}: members have {total}, the status says {_said(status)}"
        if unknown := raw.integer(status, "unknown"):
            yield f"{_name(daemon)}: {unknown} nodes are told as unknown"


def _said(status: Obj) -> Part:
    return Part(*(raw.integer(status, field) for field in Part._fields))


def _name(daemon: Obj) -> str:
    return f"{daemon['metadata']['namespace']}/{daemon['metadata']['name']}"


def _may_match(host: EmbeddedCluster, daemon: Obj, policies: Collection[Obj]) -> bool:
    """Whether a policy may be in force of which the daemon says nothing itself."""
    space = daemon["metadata"]["namespace"]
    own = [one for one in all_of(host, "PlacementPolicy") if one["metadata"]["namespace"] == space]
    return bool(own) or any(raw.text(one, "spec", "enforcement") != "Required" for one in policies)


def _is_welcome(host: EmbeddedCluster, project: str) -> bool:
    """Whether no account keeps the daemon's project away. Whether one has enough for it is not
    judged here.
    """
    specs = [raw.mapping(one, "spec") for one in all_of(host, "FederatedQuota")]
    if any(project in raw.texts(spec, "projects") for spec in specs):
        return False
    said = [raw.text(spec, "unknownProjects") for spec in specs if "parent" not in spec]
    return not specs or ({*said} - {""} == {"Allow"})


def daemon_sets(member: EmbeddedCluster, uid: str) -> list[Obj]:
    """The DaemonSets of a daemon in one cluster."""
    found = member.store.items(member.registry.get("apps", "daemonsets"))
    return [
        one.obj
        for one in found
        if raw.text_map(one.obj, "metadata", "labels").get(names.WORKLOAD_UID_LABEL) == uid
    ]


def pods(member: EmbeddedCluster, owners: Collection[str]) -> dict[str, list[Obj]]:
    """Pods of these DaemonSets that are there to stay, by the machine that they are on or for."""
    found: dict[str, list[Obj]] = {}
    for entry in member.store.items(member.registry.get("", "pods")):
        pod = entry.obj
        mine = any(one["uid"] in owners for one in raw.objects(pod, "metadata", "ownerReferences"))
        ended = raw.text(pod, "status", "phase") in ("Succeeded", "Failed")
        if mine and not ended and "deletionTimestamp" not in pod["metadata"]:
            found.setdefault(raw.text(pod, "spec", "nodeName"), []).append(pod)
    return found


def machines(member: EmbeddedCluster) -> list[Obj]:
    """The Nodes of a cluster."""
    return [one.obj for one in member.store.items(member.registry.get("", "nodes"))]


def takes(node: Obj, daemon: Obj) -> bool:
    """Whether the pods of a daemon may go to a machine, by what the host's object asks for. Room is
    no matter.
    """
    pod = raw.mapping(daemon, "spec", "template", "spec")
    machine = Node(node["metadata"]["name"])
    machine.describe(dict(node))
    tolerated = [taints.toleration_from_dict(dict(one)) for one in raw.objects(pod, "tolerations")]
    own = [
        one
        for one in machine.taints
        if not one.key.startswith(OF_KUBERNETES) and one != startup_taint(daemon)
    ]
    return node_matches(pod, machine) and taints.untolerated(own, tolerated) is None


def startup_taint(daemon: Obj) -> Taint | None:
    """The taint that its machines come with."""
    asked = raw.mapping(daemon, "spec", "startupTaint")
    if not asked:
        return None
    effect = raw.text(asked, "effect", default="NoSchedule")
    return Taint(asked["key"], raw.text(asked, "value"), effect)


def _part(member: EmbeddedCluster, daemon: Obj, there: Mapping[str, list[Obj]]) -> Part:
    wanted = [node["metadata"]["name"] for node in machines(member) if takes(node, daemon)]
    mine = [pod for name in wanted for pod in there.get(name, ())]
    image = _image(raw.mapping(daemon, "spec", "template"))
    return Part(
        desired=len(wanted),
        current=len(mine),
        ready=sum(map(_is_ready, mine)),
        updated=sum(_image(pod) == image for pod in mine),
    )


def _is_ready(pod: Obj) -> bool:
    return raw.condition(pod, "Ready").get("status") == "True"


def _image(pod: Obj) -> str:
    return str(raw.objects(pod, "spec", "containers")[0]["image"])
