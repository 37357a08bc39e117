"""6: what a hub charges for is what there is, and who waits for quota gets it when it is free.

A few seconds after every status of a job set, and at rest, the commitments of every hub that has
heard of it are held beside a sum of our own: over decisions and statuses on the host, and at rest
over the members' slices and what they run. This never asks `federator.placement`; fields are read
in their plain meaning.
"""

import collections
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from federator.api import raw
from federator.api.placement.decisionfacts import DecisionFacts, decision_facts
from federator.hub.leading.process import HubProcess
from federator.kinds import registry
from federator.kinds.natives import NATIVES
from federator.model import names, shards
from federator.model.ask import Unit
from federator.model.kubernetes.quantity import vector
from federator.model.names import WorkloadKey
from federator.model.shards import Ranges
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.simulation import daemonrules, endings, hearing, promises
from tests.simulation.invariants import Obj, Step, all_of, finished
from tests.simulation.ordinals import DAEMON
from tests.simulation.world import World

JOBSET = "PinterestJobSet"
NAME = "6 charged as held"
SERVED = "6 who waits is served"
DUE_S = 5.0
"""After a status: without faults it is a matter of milliseconds."""
SERVED_S = 10.0
MEASURED = ("cpu", "memory")
FULL = frozenset({"QuotaExceeded", "ExceedsMaxQuota"})


@dataclass(frozen=True, slots=True)
class Due:
    """A status of a job set that hubs have to have taken in."""

    at_s: float
    uid: str
    leader: str
    """The life that led then."""
    waiting: frozenset[str]
    """uids of job sets that waited for quota then, and had room in it."""


class Charges:
    """Commitments beside objects. `meet` every hub that starts."""

    def __init__(self, world: World) -> None:
        self.found: list[str] = []
        self.judged = 0
        """Charges of job sets that were held beside the host's objects while something went on."""
        self.served = 0
        """Job sets that waited, had room in their account at last, and were looked at again."""
        self._world = world
        self._due: collections.deque[Due] = collections.deque()

    def noted(self, step: Step) -> None:
        """A write: what job sets have done may have changed with it."""
        if (
            step.kind != JOBSET
            or step.cluster != "host"
            or not step.same
            or step.old is None
            or step.new is None
        ):
            return
        if finished(step.old) == finished(step.new):
            return
        now_s = self._world.federation.clock.monotonic()
        uid = step.new["metadata"]["uid"]
        leader = self._world.leader()
        life = self._world.lives[leader].name if leader else ""
        self._due.append(Due(now_s, uid, life, frozenset(self._could_be_served())))

    def sending(self, life: Life, sending: Sending) -> None:
        """A request leaves its process: time has passed."""
        now_s = self._world.federation.clock.monotonic()
        while self._due and self._due[0].at_s + SERVED_S <= now_s:
            due = self._due.popleft()
            self.found += [*self._charged(due.uid), *self._unserved(due, now_s)]

    def _hubs(self) -> Iterator[tuple[str, HubProcess]]:
        """Every hub that looks at the right host."""
        if self._world.facing("host") is self._world.federation.host:
            yield from sorted(self._world.federation.processes.items())

    def _charged(self, uid: str) -> Iterator[str]:
        """What hubs charge for one job set now."""
        obj = next(
            (
                one
                for one in all_of(self._world.federation.host, JOBSET)
                if one["metadata"]["uid"] == uid
            ),
            None,
        )
        facts = next((one for one in self._decisions() if one.workload_uid == uid), None)
        if obj is None or facts is None:
            return
        for name, hub in self._hubs():
            if not _has_heard(hub, obj, facts) or _deciding(hub, facts.key):
                continue
            self.judged += 1
            charged = hub.state.commitments.commitment(uid)
            copies = charged.copies if charged is not None else 0
            # Once it has ended nothing is charged, while the decision that stops it is on its way.
            holds = held(facts, endings.over(JOBSET, obj))
            if copies != holds:
                yield f"{NAME}: {name} charges {copies} pods for {facts.key}, which holds {holds}"

    def _decisions(self) -> list[DecisionFacts]:
        found = map(decision_facts, all_of(self._world.federation.host, "PlacementDecision"))
        return [one for one in found if one.terms.shape is not None]

    def _could_be_served(self) -> Iterator[str]:
        """uids of job sets that hold nothing, are told that their account is full, and would have
        room in it.
        """
        host = self._world.federation.host
        if self._terminating():
            return  # what they use is free when they have ended
        objs = {
            one["metadata"]["uid"]: one for kind in registry.WORKLOADS for one in all_of(host, kind)
        }
        decisions = self._decisions()
        for facts in decisions:
            obj = objs.get(facts.workload_uid)
            waits = (
                facts.terms.unit is Unit.SHARDS
                and str(facts.terms.reason) in FULL
                and not facts.shares
            )
            if (
                obj is None
                or not waits
                or raw.flag(obj, "spec", "suspend")
                or "deletionTimestamp" in obj["metadata"]
            ):
                continue
            accounts = promises.Accounts(all_of(host, "FederatedQuota"))
            if accounts.of(facts.terms.project) and _fits(accounts, facts, obj, decisions, objs):
                yield facts.workload_uid

    def _terminating(self) -> bool:
        """Whether pods are terminating anywhere, or are still reported to be."""
        for cluster in self._world.members:
            member = self._world.federation.members[cluster]
            pods = member.store.items(member.registry.get("", "pods"))
            slices = (one for kind in registry.WORKLOADS for one in all_of(member, kind))
            if any("deletionTimestamp" in entry.obj["metadata"] for entry in pods) or any(
                raw.figure(one, "status", "terminatingReplicas") for one in slices
            ):
                return True
        return False

    def _unserved(self, due: Due, now_s: float) -> Iterator[str]:
        """Who could have been admitted all the time, and was not looked at."""
        world = self._world
        leader = world.leader()
        hub, life = world.federation.processes.get(leader), world.lives.get(leader)
        if (
            hub is None
            or life is None
            or life.name != due.leader
            or not hub.state.ready
            or hub.state.paused
        ):
            return
        since_s = max(
            world.reach.well_since_s(life.name, "host", now_s),
            world.reach.awake_since_s(life.name, now_s),
        )
        if since_s > due.at_s - 2 * SERVED_S or not any(True for _ in self._hubs()):
            return
        still = due.waiting & frozenset(self._could_be_served())
        self.served += len(due.waiting)
        for facts in self._decisions():
            heard = hub.state.workloads.get(facts.key)
            if facts.workload_uid in still and heard is not None and not _deciding(hub, facts.key):
                yield (
                    f"{SERVED}: {facts.key} is told {facts.terms.reason}, and its account has "
                    "room for it"
                )

    def at_rest(self) -> Iterator[str]:
        """All commitments beside what members hold and run, and what accounts say of their use."""
        use, placed = self._used_in_members()
        for name, hub in self._hubs():
            charged: dict[tuple[str, str], Mapping[str, int]] = {
                (project, str(tier)): dict(amounts)
                for (project, tier), amounts in hub.state.commitments.audit().items()
            }
            for account in sorted(use.keys() | charged.keys()):
                for resource in MEASURED:
                    is_, has = (
                        charged.get(account, {}).get(resource, 0),
                        use.get(account, {}).get(resource, 0),
                    )
                    if is_ != has:
                        yield (
                            f"{NAME}: {name} charges {'/'.join(account)} for {is_} {resource}, "
                            f"members have {has}"
                        )
            for project in sorted({project for project, _ in use} | placed.keys()):
                counts = hub.state.commitments.placed(project), placed.get(project, 0)
                if counts[0] != counts[1]:
                    yield (
                        f"{NAME}: {name} counts {counts[0]} workloads of {project}, {counts[1]} "
                        "hold anything"
                    )
        accounts = promises.Accounts(all_of(self._world.federation.host, "FederatedQuota"))
        for name, quota in sorted(accounts.objs.items()):
            yield from _said(name, quota, accounts.projects(name), use, placed)

    def _used_in_members(self) -> tuple[dict[tuple[str, str], Mapping[str, int]], dict[str, int]]:
        """((project, tier) -> what its pods may take, project -> workloads that hold anything): by
        slices, and by the requests in what members run for them.
        """
        use: dict[tuple[str, str], collections.Counter[str]] = {}
        placed: collections.Counter[str] = collections.Counter()
        host = self._world.federation.host
        facts = {one.workload_uid: one for one in self._decisions()}
        for kind in registry.WORKLOADS:
            for obj in all_of(host, kind):
                uid = obj["metadata"]["uid"]
                if uid not in facts:
                    continue
                terms, pods = facts[uid].terms, 0
                assert terms.shape is not None
                account = terms.project, str(terms.tier)
                for cluster in self._world.members:
                    copies = self._pods_of(cluster, kind, uid, finished(obj))
                    request = self._request(cluster, uid) if copies else {}
                    for resource, amount in request.items():
                        use.setdefault(account, collections.Counter())[resource] += amount * copies
                    pods += copies
                placed[terms.project] += bool(pods)
        return {account: dict(found) for account, found in use.items()}, dict(placed)

    def _pods_of(self, cluster: str, kind: str, uid: str, done: Ranges) -> int:
        """Pods that a member's slice of a workload may have."""
        verbs = registry.verbs_of(kind)
        for obj in all_of(self._world.federation.members[cluster], kind):
            mark = verbs.read_mark(obj)
            if mark is None or mark.workload_uid != uid:
                continue
            if kind == DAEMON:
                sets = daemonrules.daemon_sets(self._world.federation.members[cluster], uid)
                return sum(raw.integer(one, "status", "desiredNumberScheduled") for one in sets)
            if kind != JOBSET:
                return int(obj["spec"].get("replicas", 1))
            status = obj.get("status") or {}
            told = [
                shards.parse(status.get(f"{which}Indexes") or "")
                for which in ("completed", "failed")
            ]
            mine = shards.minus(shards.normal(mark.ranges), shards.union(done, shards.union(*told)))
            return min(int(obj["spec"]["parallelism"]), shards.size(mine))
        return 0

    def _request(self, cluster: str, uid: str) -> dict[str, int]:
        """What one pod of a workload asks for, by what a member runs."""
        member = self._world.federation.members[cluster]
        for kind in ("Deployment", "Job", "DaemonSet"):
            native = NATIVES[kind]
            for found in member.store.items(
                member.registry.get(native.api_version.rpartition("/")[0], native.plural)
            ):
                if (found.obj["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL) == uid:
                    pod = found.obj["spec"]["template"]["spec"]
                    return _sum_of(pod)
        return {}


def held(facts: DecisionFacts, done: Ranges) -> int:
    """Pods that a decision lets run at once, when these shards are done."""
    if facts.terms.unit is not Unit.SHARDS:
        return sum(share.count for share in facts.shares)
    return sum(
        min(share.slots, shards.size(shards.minus(shards.normal(share.ranges), done)))
        for share in facts.shares
    )


def _sum_of(pod: Mapping[str, Any]) -> dict[str, int]:
    total: collections.Counter[str] = collections.Counter()
    for container in pod.get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        for resource in MEASURED:
            total[resource] += (
                vector({resource: requests[resource]})[resource] if resource in requests else 0
            )
    return dict(total)


def _fits(
    accounts: promises.Accounts,
    facts: DecisionFacts,
    obj: Obj,
    decisions: list[DecisionFacts],
    objs: Mapping[str, Obj],
) -> bool:
    """Whether a whole job set that holds nothing has room in its account and all above it."""
    project, tier = facts.terms.project, facts.terms.tier
    pods = {
        one.workload_uid: held(one, finished(objs.get(one.workload_uid, {}))) for one in decisions
    }
    for name in {one for own in accounts.of(project) for one in accounts.line(own)}:
        most = raw.at(raw.mapping(accounts.objs[name], "spec"), "maxConcurrentWorkloads")
        under = accounts.projects(name)
        if (
            most is not None
            and sum(bool(pods[one.workload_uid]) for one in decisions if one.terms.project in under)
            >= most
        ):
            return False
    asked = min(
        raw.integer(obj, "spec", "parallelism", default=1),
        raw.integer(obj, "spec", "shards", default=1),
    )
    requests = facts.terms.shape.requests if facts.terms.shape is not None else {}

    def used(resource: str, one: str) -> int:
        return sum(
            other.terms.shape.requests[resource] * pods[other.workload_uid]
            for other in decisions
            if other.terms.shape is not None
            and other.terms.project == one
            and other.terms.tier == tier
        )

    def more(resource: str, one: str) -> int:
        return used(resource, one) + (requests[resource] * asked if one == project else 0)

    return not any(accounts.breaches(project, str(tier), more, used))


def _said(
    name: str,
    quota: Obj,
    projects: list[str],
    use: Mapping[tuple[str, str], Mapping[str, int]],
    placed: Mapping[str, int],
) -> Iterator[str]:
    """An account's status beside what its projects, and those of the accounts below it, have."""
    status = quota.get("status") or {}
    for row in status.get("usage") or ():
        for resource in MEASURED:
            said = (
                vector({resource: row["used"][resource]})[resource]
                if resource in row["used"]
                else 0
            )
            has = sum(use.get((project, row["tier"]), {}).get(resource, 0) for project in projects)
            if said != has:
                yield (
                    f"{NAME}: FederatedQuota {name} says {said} {resource} in {row['tier']}, "
                    f"members have {has}"
                )
    if status and status.get("workloads", 0) != sum(placed.get(project, 0) for project in projects):
        yield (
            f"{NAME}: FederatedQuota {name} says {status.get('workloads', 0)} workloads, "
            f"{dict(placed)} hold anything"
        )


def _has_heard(hub: HubProcess, obj: Obj, facts: DecisionFacts) -> bool:
    """Whether a hub knows this state of a job set, and this decision."""
    meta = obj["metadata"]
    known = hub.state.workloads.get(WorkloadKey(JOBSET, meta["namespace"], meta["name"]))
    record = next((one for one in hub.state.records_of(facts.key) if one.uid == facts.uid), None)
    if (
        known is None
        or known.uid != meta["uid"]
        or known.resource_version != meta["resourceVersion"]
    ):
        store = hearing.store_of(hub, JOBSET)
        version = store.version((meta["namespace"], meta["name"])) if store is not None else None
        if (
            version is None
            or version.uid != meta["uid"]
            or version.number != int(meta["resourceVersion"])
        ):
            return False
    return record is not None and record.resource_version == facts.resource_version


def _deciding(hub: HubProcess, key: WorkloadKey) -> bool:
    """Whether a hub has decided, or is about to, and nobody can know yet."""
    queue = hub.controllers.placing.queue
    return key in queue._running or key in queue._waiting or key in queue._again
