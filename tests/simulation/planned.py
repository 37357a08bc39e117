"""Random fleets and random edits of them, planned and then made: what the hub does afterwards is what
the plan said.

The federation runs on embedded clusters and virtual time, without faults. Each edit is planned
twice: on a dump of the host's objects, and on the memory of the leader, as its query port does it.
Both are taken before the edit. Nothing else changes between the plan and the end, unless `busy`
asks for it. Nodes stand alone in their clusters, because a report does not say on which of several
nodes the copies lie that leave.
"""

import asyncio
import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.advice.plans import plan
from federator.advice.plans.edits import Edits
from federator.advice.trials import never
from federator.api.placement import decisionfacts
from federator.hub.placing import offline
from federator.hub.query import planning
from federator.hub.snapshot.world import StateCopy as SnapshotWorld
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.model.decision import Reason
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests import virtual_time
from tests.simulation.live import AT_ONCE, EPOCH_S

FEDERATION: Final = "federation.pinterest.com/v1alpha1"
DONE_S: Final = 400.0
"""Virtual seconds after which every report has arrived and every wait without a hint is over."""
BUSY_S: Final = 7.0
"""Virtual seconds between two edits on a busy fleet."""
TEAMS: Final = ("ads", "search")
READ: Final = (
    "MemberCluster",
    "ClusterPlacementPolicy",
    "PlacementPolicy",
    "FederatedQuota",
    "RuntimeProfile",
    "PlacementDecision",
    *registry.WORKLOADS,
)
Obj = dict[str, Any]
Share = tuple[Mapping[str, int], int, str]
"""(cluster -> copies, copies without a place, reason)."""
NOTHING: Final[Share] = ({}, 0, "")


@dataclass(frozen=True, slots=True)
class Edit:
    """One object that is applied or deleted."""

    obj: Obj
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """A fleet, what is on it, and the edits that are planned and made, one after the other."""

    cores: tuple[int, ...]
    objects: tuple[Obj, ...]
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Played:
    """What was there, what was planned of one edit, and what came of it."""

    edit: Edit
    present: Mapping[WorkloadKey, Share]
    planned: Mapping[WorkloadKey, Share]
    """By the dump."""
    became: Mapping[WorkloadKey, Share]
    waiting: tuple[str, ...] = ()
    """What had not settled before the edit or at the end, such as a roll-out without room for one
    more copy: a plan takes roll-outs to end."""
    by_leader: Mapping[WorkloadKey, Share] | None = None
    """What was planned on the leader's memory; None where it was not."""
    shrinks: bool = False
    """The edit lowers what each copy of a workload requests."""

    @property
    def different(self) -> dict[WorkloadKey, tuple[Share | None, Share | None]]:
        """Workloads that ended otherwise than planned by the dump or by the leader: (planned,
        became)."""
        by_leader = self._different(self.by_leader) if self.by_leader is not None else {}
        return self._different(self.planned) | by_leader

    @property
    def moved(self) -> bool:
        """Whether the plan, or what came of the edit, is other than what was there."""
        return self.planned != self.present or self.became != self.present

    def copies_elsewhere(self) -> int:
        """Copies of planned workloads that are where the plan has none, or missing where it has."""
        pairs = (
            (planned, self.became.get(key, NOTHING)[0])
            for key, (planned, _, _) in self.planned.items()
        )
        return sum(
            max(
                sum(max(copies - became.get(name, 0), 0) for name, copies in planned.items()),
                sum(max(copies - planned.get(name, 0), 0) for name, copies in became.items()),
            )
            for planned, became in pairs
        )

    def _different(
        self, said: Mapping[WorkloadKey, Share]
    ) -> dict[WorkloadKey, tuple[Share | None, Share | None]]:
        """Of what one plan said.

        Where copies end, or smaller ones replace them, their quota is free before the reports of
        all their clusters say that their room is, and which report comes first is not known: the
        workload with the quota then gets as many copies as planned, some of them perhaps in other
        clusters.
        """
        keys = sorted({*said, *self.became})
        ends = self.shrinks or any(
            sum(said.get(key, NOTHING)[0].values()) < sum(shares.values())
            for key, (shares, _, _) in self.present.items()
        )
        pairs = {key: (said.get(key), self.became.get(key)) for key in keys}
        return {
            key: (planned, became)
            for key, (planned, became) in pairs.items()
            if planned != became and not (ends and self._grows(key, planned, became))
        }

    def _grows(self, key: WorkloadKey, planned: Share | None, became: Share | None) -> bool:
        """Whether a workload gets more copies than it has, as many as planned."""
        if planned is None or became is None or planned[1:] != became[1:]:
            return False
        had = sum(self.present.get(key, NOTHING)[0].values())
        return had < sum(planned[0].values()) == sum(became[0].values())


# -- what is drawn ------------------------------------------------------------


def drawn(seed: int, edits: int = 5) -> World:
    """A world of one seed, and so many edits of it."""
    chance = random.Random(seed)
    cores = tuple(chance.choice((8, 12, 16, 24)) for _ in range(chance.choice((3, 4))))
    rules = [*_policies(chance, len(cores)), *_quotas(chance)]
    works = [_workload(chance, f"w{number}") for number in range(chance.randint(3, 7))]
    there = {offline.id_of(obj): obj for obj in (*rules, *works)}
    made: list[Edit] = []
    for number in range(edits):
        if chance.random() < 0.12 and len(there) > 2:
            made.append(Edit(there.pop(chance.choice(sorted(there))), deletes=True))
            continue
        now = [obj for obj in there.values() if obj["kind"] == "PinterestService"]
        obj = _edit(chance, len(cores), now, f"new{number}")
        made.append(Edit(obj))
        if obj["kind"] != "MemberCluster":
            there[offline.id_of(obj)] = obj
    return World(cores, (*rules, *works), tuple(made))


def member_names(count: int) -> list[str]:
    return list("abcd"[:count])


def _edit(chance: random.Random, clusters: int, works: Sequence[Obj], name: str) -> Obj:
    """An object as somebody may apply it."""
    common = ("scale", "policy", "quota", "cluster")
    what = chance.choice((*common * 2, "requests", "image", "new"))
    if what == "policy":
        return _policy(chance, chance.choice(TEAMS), clusters)
    if what == "quota":
        return _quota(chance, chance.choice(TEAMS))
    if what == "cluster":
        return _cluster(chance, chance.choice(member_names(clusters)))
    if what == "new" or not works:
        return _workload(chance, name)
    return _edited(chance, chance.choice(works), what)


def _edited(chance: random.Random, work: Obj, what: str) -> Obj:
    obj: Obj = json.loads(json.dumps(work))
    (container,) = obj["spec"]["template"]["spec"]["containers"]
    if what == "scale":
        obj["spec"]["replicas"] = chance.randint(0, 14)
    elif what == "requests":
        container["resources"]["requests"]["cpu"] = str(chance.choice((1, 2, 3)))
    else:
        container["image"] = "registry.example/app:2"
    return obj


def _workload(chance: random.Random, name: str) -> Obj:
    team, cpu = chance.choice(TEAMS), chance.choice((1, 1, 2, 3))
    requests = {"cpu": str(cpu), "memory": "1Gi"}
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": requests},
    }
    spec: Obj = {"template": {"spec": {"containers": [container]}}}
    if chance.random() < 0.3:
        spec["tier"] = chance.choice(("Reserved", "Preemptible"))
    if chance.random() < 0.2:
        spec["priority"] = chance.choice((10, 200))
    spec["replicas"] = chance.randint(1, 10)
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": name, "namespace": team, "labels": {"app": name}},
        "spec": spec,
    }


def _rule(kind: str, name: str, namespace: str = "", **spec: Any) -> Obj:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": FEDERATION, "kind": kind, "metadata": meta, "spec": spec}


def _policies(chance: random.Random, clusters: int) -> list[Obj]:
    return [_policy(chance, team, clusters) for team in TEAMS if chance.random() < 0.5]


def _policy(chance: random.Random, team: str, clusters: int) -> Obj:
    names = member_names(clusters)
    spec: Obj = {}
    where = chance.choice(("all", "names", "exclude", "selector"))
    if where == "names":
        spec["clusters"] = {"names": sorted(chance.sample(names, chance.randint(1, clusters)))}
    elif where == "exclude":
        spec["clusters"] = {"exclude": [chance.choice(names)]}
    elif where == "selector":
        spec["clusters"] = {"selector": {"matchLabels": {"pool": "main"}}}
    strategy = chance.choice(("Capacity", "Pack", "Spread", "Weighted"))
    spec["division"] = {"strategy": strategy}
    if strategy == "Weighted":
        weights = [{"names": [name], "weight": chance.randint(1, 3)} for name in names]
        spec["division"]["weights"] = weights
    if chance.random() < 0.3:
        spec["division"]["maxPerCluster"] = chance.randint(1, 6)
    if chance.random() < 0.15:
        spec["partial"] = "RequireAll"
    if chance.random() < 0.15:
        spec["onPolicyChange"] = "Lazy"
    return _rule("PlacementPolicy", "rules", team, **spec)


def _quotas(chance: random.Random) -> list[Obj]:
    return [_quota(chance, team) for team in TEAMS if chance.random() < 0.6]


def _quota(chance: random.Random, team: str) -> Obj:
    limits = {
        tier: {"max": {"cpu": str(chance.choice((4, 8, 12, 20, 40)))}}
        for tier in ("Reserved", "OnDemand", "Preemptible")
    }
    return _rule("FederatedQuota", team, projects=[team], namespaces=[team], tiers=limits)


def _cluster(chance: random.Random, name: str) -> Obj:
    what = chance.choice(("cordon", *["drain", "evict", "label"] * 2, "taint", "usable"))
    spec: Obj = {}
    labels = {"pool": "main" if name in "ab" else "side"}
    if what == "cordon":
        spec["cordoned"] = True
    elif what == "drain":
        spec["drain"] = {}
    elif what in ("taint", "evict"):
        effect = "NoSchedule" if what == "taint" else "NoExecute"
        spec["taints"] = [{"key": "work", "value": "none", "effect": effect}]
    elif what == "label":
        labels["pool"] = chance.choice(("main", "side"))
    else:
        spec["usable"] = chance.choice(("50%", "80%"))
    cluster = _rule("MemberCluster", name, **spec)
    cluster["metadata"]["labels"] = labels
    return cluster


# -- what is played -----------------------------------------------------------


def play(world: World, seed: int) -> list[Played]:
    """Plans each edit of a world, makes it, and waits until the hub is done."""
    return virtual_time.run(played(world, seed))


async def played(world: World, seed: int, *, busy: int = 0) -> list[Played]:
    """The same, in the loop that runs. `busy`: so many edits of other people come between a plan
    and the end."""
    clock = Clock(EPOCH_S)
    members = [
        MemberSpec(
            name=name,
            labels={"pool": "main" if name in "ab" else "side"},
            nodes=[Pool(count=1, cpu=str(cores), memory="256Gi")],
        )
        for name, cores in zip(member_names(len(world.cores)), world.cores, strict=True)
    ]
    federation = Federation(
        fleet=FleetSpec(members=members), clock=clock, rng=random.Random(seed), pods=AT_ONCE
    )
    host = Client(federation.host.transport(), "host", field_manager="kubectl")
    await federation.start()
    await federation.until_settled(60.0)
    for team in TEAMS:
        ref = ObjectRef("v1", "namespaces", "", team, "Namespace")
        await host.create(
            ref, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
        )
    for obj in world.objects:
        await host.create(registry.KINDS[obj["kind"]].ref_of(obj), obj)
    await asyncio.sleep(DONE_S)
    others = iter(_others(random.Random(f"{seed}/others"), world, busy * len(world.edits)))
    came = [
        await _edited_once(federation, host, edit, tuple(itertools.islice(others, busy)))
        for edit in world.edits
    ]
    federation.check()
    await federation.stop()
    return came


def _others(chance: random.Random, world: World, count: int) -> Iterator[Edit]:
    """Edits of other people, of what was there at first."""
    works = [obj for obj in world.objects if obj["kind"] == "PinterestService"]
    for number in range(count):
        yield Edit(_edit(chance, len(world.cores), works, f"other{number}"))


async def _edited_once(
    federation: Federation, host: Client, edit: Edit, others: Sequence[Edit]
) -> Played:
    situation = offline.read(await _objects(host), as_of=federation.clock.now())
    obj = _as_written(edit, situation)
    unfinished = tuple(federation.settled()[1])
    of_leader = _of_leader(federation, situation, obj)
    await _make(host, obj, deletes=edit.deletes)
    for other in others:
        await asyncio.sleep(BUSY_S)
        await _make(host, _as_written(other, situation), deletes=False)
    await asyncio.sleep(DONE_S)
    objects = await _objects(host)
    asked = _asked(edit, obj, situation, objects)
    by_dump = plan.plan(situation, asked, losses=False)
    by_leader = plan.plan(of_leader, asked, losses=False)
    return Played(
        edit,
        {key: _share(record) for key, record in situation.records.items()},
        {key: _share(record) for key, record in by_dump.situation.records.items()},
        _became(objects),
        unfinished or tuple(federation.settled()[1]),
        {key: _share(record) for key, record in by_leader.situation.records.items()},
        _shrinks(situation, by_dump.situation, offline.id_of(obj)),
    )


def _asked(edit: Edit, obj: Obj, before: offline.Situation, after: Sequence[Obj]) -> Edits:
    """The edit. A new object has the uid that the host has given it since: by this, which nobody
    knows in advance, ties are broken."""
    which = offline.id_of(obj)
    if edit.deletes:
        return Edits(deleted=(which,))
    given = next((each for each in after if offline.id_of(each) == which), None)
    if which not in before.objects and given is not None:
        obj = {**obj, "metadata": {**obj["metadata"], "uid": given["metadata"]["uid"]}}
    return Edits((obj,))


def _shrinks(before: offline.Situation, after: offline.Situation, which: offline.Id) -> bool:
    """Whether the copies of this workload request less of anything than before."""
    workloads = [each.workloads.get(WorkloadKey(*which)) for each in (before, after)]
    asks = [workload.ask if workload is not None else None for workload in workloads]
    if asks[0] is None or asks[1] is None:
        return False
    was, now = asks[0].shape.requests, asks[1].shape.requests
    return not was.within(now)


def _of_leader(federation: Federation, dump: offline.Situation, obj: Obj) -> offline.Situation:
    """What the query port of the leading hub plans an edit of this object on."""
    came: list[offline.Situation] = []

    def compute(situation: offline.Situation, *_: Any) -> dict[str, Any]:
        came.append(situation)
        return {}

    which = offline.id_of(obj)
    live = {which: dump.objects[which]} if which in dump.objects else {}
    body = json.dumps({"applied": [obj]}).encode()
    state = federation.processes["hub"].state
    task = planning.Task(body, live, frozenset(), None, compute)
    planning.document(SnapshotWorld.of(state, federation.clock), task, never)
    return came[0]


def _as_written(edit: Edit, situation: offline.Situation) -> Obj:
    """The object with what the host has of a MemberCluster besides: its credentials."""
    obj, live = edit.obj, situation.objects.get(offline.id_of(edit.obj))
    if obj["kind"] != "MemberCluster" or live is None:
        return obj
    meta = {**live["metadata"], "labels": obj["metadata"]["labels"]}
    kept = {"credentials": live["spec"]["credentials"]} if "credentials" in live["spec"] else {}
    return {**obj, "metadata": meta, "spec": {**kept, **obj["spec"]}}


async def _make(host: Client, obj: Obj, *, deletes: bool) -> None:
    ref = registry.KINDS[obj["kind"]].ref_of(obj)
    try:
        live = await host.get(ref)
    except errors.NotFound:
        await host.create(ref, dict(obj))
        return
    if deletes:
        await host.delete(ref, uid=live["metadata"]["uid"])
        return
    labels = {"labels": obj["metadata"].get("labels", {})}
    await host.patch(ref, {"metadata": labels, "spec": _replacing(live["spec"], obj["spec"])})


def _replacing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Obj:
    """The merge patch after which nothing is left of `before` that `after` does not say."""
    patch: Obj = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if isinstance(was, dict) and isinstance(value, dict):
            patch[name] = _replacing(was, value)
        else:
            patch[name] = value
    return patch


async def _objects(host: Client) -> list[Obj]:
    objs: list[Obj] = []
    for name in READ:
        kind = registry.KINDS[name]
        listed = await host.list(kind.api_version, kind.plural)
        objs += [dict(obj) for obj in listed.items]
    listed = await host.list("v1", "namespaces")
    return objs + [{**obj, "apiVersion": "v1", "kind": "Namespace"} for obj in listed.items]


def _share(record: Any) -> Share:
    shares = {share.cluster: copies for share in record.shares if (copies := copies_of(share))}
    terms = record.terms
    short = terms.shortfall
    return shares, short, "" if terms.reason is Reason.CHOSEN else str(terms.reason)


def _became(objs: Sequence[Obj]) -> dict[WorkloadKey, Share]:
    became: dict[WorkloadKey, Share] = {}
    for obj in objs:
        if obj.get("kind") == "PlacementDecision":
            facts = decisionfacts.decision_facts(obj)
            became[facts.key] = _share(facts)
    return became
