"""Claims, by objects alone: a claim lives as long as what it is for, whoever is tried again finds
his own, an ordinal stays where its claim is, and what is not to be retained goes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from federator.api import raw
from federator.embedded.server import EmbeddedCluster
from federator.kinds import registry
from federator.model import names, shards
from federator.model.shards import Ranges
from tests.simulation.endings import INDEX_LABEL
from tests.simulation.invariants import Obj, Step, all_of
from tests.simulation.lives import JOBSET, NAMESPACE, STATEFUL
from tests.simulation.world import World

LIVES = "1 a claim lives as long as it is for"
FOUND = "1 who is tried again finds his claim"
HOME = "1 an ordinal with a claim stays"
LEFT = "8 claims go with their workload"
MOVES = frozenset(
    {
        "cluster-made-anew",
        "joined-twice",
        "left-and-back",
        "lost-and-back",
        "host-restored",
        "host-wrong",
        "decision-forged",
    }
)
"""Faults after which an ordinal may rightly begin in another cluster: the one that had it is not in
the fleet any more, or the host has forgotten where it was.
"""
SETS = {JOBSET: "pinterest.com/jobset", STATEFUL: "pinterest.com/statefulset"}
"""Kind -> the label of its pods and claims."""
Where = tuple[EmbeddedCluster, str]
_VARIABLE = re.compile(r"\$\((\w+)\)")


class Claimed:
    """Remembers which claim everybody has had, and where each ordinal began. `excused`: whether
    something befell the world after which ordinals may move.
    """

    def __init__(self, excused: Callable[[], bool]) -> None:
        self.judged: Counter[str] = Counter()
        self._excused = excused
        self._retained: set[Where] = set()
        """(cluster, name) of claims that are to stay, whatever goes."""
        self._passing: dict[Where, str] = {}
        """(cluster, name) of claims that go with a slice -> its uid."""
        self._had: dict[tuple[EmbeddedCluster, str], dict[int, tuple[str, str]]] = defaultdict(dict)
        """(cluster, uid of a slice) -> shard -> uid of its claim, and its directory there."""
        self._owners: dict[tuple[EmbeddedCluster, str], int] = {}
        """(cluster, directory of a claim) -> the shard whose it is."""
        self._homes: dict[str, dict[str, Ranges]] = defaultdict(dict)
        """uid of a stateful set -> cluster -> the ordinals that ever were there."""

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.cluster == "host" or step.obj["metadata"].get("namespace") != NAMESPACE:
            return []
        if step.kind == "PersistentVolumeClaim":
            return list(self._claim(step))
        if step.kind == "Pod" and step.old is None:
            return list(self._tried(step))
        if step.kind == STATEFUL:
            return list(self._moved(step))
        if step.kind == JOBSET:
            self._forget(step)
        return []

    def _claim(self, step: Step) -> Iterator[str]:
        """A claim comes, or goes."""
        where = step.clusters[step.cluster], step.obj["metadata"]["name"]
        slice_ = _slice_of(step)
        if step.old is None:
            keeps = slice_ is not None and _retains(slice_)
            (self._retained.add if keeps else self._retained.discard)(where)
            self._passing.pop(where, None)
            if slice_ is not None and not keeps:
                self._passing[where] = slice_["metadata"]["uid"]
            return
        if step.new is not None and "deletionTimestamp" not in step.new["metadata"]:
            return
        self.judged[LIVES] += 1
        if where in self._retained:
            yield f"{LIVES}: {step.name}: it goes, and was to be retained"
        elif slice_ is not None and self._needed(step, slice_):
            yield f"{LIVES}: {step.name}: it goes, and its workload is there"

    def _needed(self, step: Step, slice_: Obj) -> bool:
        """Whether the slice is there to stay, and gives the ordinal that the claim is of."""
        if "deletionTimestamp" in slice_["metadata"]:
            return False
        owners = raw.objects(step.obj, "metadata", "ownerReferences")
        if slice_["kind"] == JOBSET:  # not one of the same name before
            return any(owner["uid"] == slice_["metadata"]["uid"] for owner in owners)
        if any(owner["kind"] == "Pod" for owner in owners):
            # Given away when its ordinal was scaled away: as in Kubernetes it goes with that pod,
            # also where the ordinal is wanted again before the pod has ended.
            return False
        ordinal = int(step.obj["metadata"]["name"].rpartition("-")[2])
        mine = shards.normal(raw.ranges(slice_, "spec", "slice", "ranges"))
        return bool(shards.intersect(((ordinal, ordinal),), mine))

    def _tried(self, step: Step) -> Iterator[str]:
        """A pod comes: of a shard whose claim is another than before, or that does not find what it
        wrote there, or finds what another shard wrote.
        """
        pod, cluster = step.obj, step.clusters[step.cluster]
        slice_, found, base = _slice_of(step), _volume(pod), _base(pod)
        index = raw.text_map(pod, "metadata", "labels").get(INDEX_LABEL)
        if slice_ is None or slice_["kind"] != JOBSET or index is None or base is None:
            return
        if not _has_data(slice_):
            return
        shard = base + int(index)
        if found is None:
            yield f"{FOUND}: {step.name}: shard {shard} has a claim, and mounts none"
            return
        claim = cluster.store.get(
            cluster.registry.get("", "persistentvolumeclaims"), NAMESPACE, found
        )
        if claim is None:
            return
        uid = claim.obj["metadata"]["uid"]
        mine = uid, _directory(pod, index)
        before = self._had[cluster, slice_["metadata"]["uid"]].setdefault(shard, mine)
        self.judged[FOUND] += 1
        if before != mine:
            yield f"{FOUND}: {step.name}: shard {shard} has {mine}, and had {before}"
        owner = self._owners.setdefault((cluster, "/".join(mine)), shard)
        if owner != shard:
            yield f"{FOUND}: {step.name}: shard {shard} has {mine}, which is that of {owner}"

    def _forget(self, step: Step) -> None:
        """Shards that leave a cluster leave their data."""
        mine = shards.normal(raw.ranges(step.new or {}, "spec", "slice", "ranges"))
        had = self._had.get((step.clusters[step.cluster], step.obj["metadata"]["uid"]), {})
        for shard in list(had):
            if not shards.intersect(((shard, shard),), mine):
                del had[shard]

    def _moved(self, step: Step) -> Iterator[str]:
        """A slice has ordinals that began elsewhere."""
        mark = registry.verbs_of(STATEFUL).read_mark(step.obj)
        if step.new is None or mark is None or self._excused():
            return
        homes, mine = self._homes[mark.workload_uid], shards.normal(mark.ranges)
        self.judged[HOME] += 1
        for other, theirs in homes.items():
            if other != step.cluster and (both := shards.intersect(mine, theirs)):
                yield f"{HOME}: {step.name}: ordinals {shards.text(both)} began in {other}"
        homes[step.cluster] = shards.union(homes.get(step.cluster, ()), mine)

    def at_rest(self, world: World) -> Iterator[str]:
        """No claim that goes with its workload is there without it."""
        for name, member in world.federation.members.items():
            live = {obj["metadata"]["uid"] for kind in SETS for obj in all_of(member, kind)}
            claims = member.registry.get("", "persistentvolumeclaims")
            for (cluster, claim), slice_uid in self._passing.items():
                if cluster is not member or slice_uid in live:
                    continue
                self.judged[LEFT] += 1
                if member.store.get(claims, NAMESPACE, claim) is not None:
                    yield f"{LEFT}: {claim} in {name} is left"


def _slice_of(step: Step) -> Obj | None:
    """The slice that a pod or a claim is of, by the label that both have."""
    have = raw.text_map(step.obj, "metadata", "labels")
    for kind, label in SETS.items():
        for obj in step.all_of(kind, step.cluster):
            meta = obj["metadata"]
            mine = have.get(label) or _named(have, kind, step.obj)
            if (meta["namespace"], meta["name"]) == (NAMESPACE, mine):
                return obj
    return None


def _named(have: dict[str, str], kind: str, obj: Obj) -> str:
    """The name of the job set that a claim is of: it has the workload's labels, and is called
    after it.
    """
    if kind != JOBSET or names.WORKLOAD_UID_LABEL not in have:
        return ""
    name: str = obj["metadata"]["name"]
    return name.rpartition("-")[0]


def _retains(slice_: Obj) -> bool:
    if slice_["kind"] == STATEFUL:
        return raw.text(slice_, "spec", "claimRetention", default="Retain") == "Retain"
    claims = raw.objects(slice_, "spec", "volumeClaimTemplates")
    return any(raw.text(claim, "retention") == "Retain" for claim in claims)


def _has_data(slice_: Obj) -> bool:
    """Whether its shards have a claim that outlives their pods."""
    claims = raw.objects(slice_, "spec", "volumeClaimTemplates")
    return any(raw.text(claim, "lifetime") == "Shard" for claim in claims)


def _volume(pod: Obj) -> str | None:
    """The claim that a pod mounts."""
    for volume in raw.objects(pod, "spec", "volumes"):
        if name := raw.text(volume, "persistentVolumeClaim", "claimName"):
            return name
    return None


def _container(pod: Obj) -> Any:
    return next(iter(raw.objects(pod, "spec", "containers")), raw.NO_FIELDS)


def _told(pod: Obj) -> dict[str, str]:
    """The variables that its container is told by value."""
    return {
        one["name"]: one["value"]
        for one in raw.objects(_container(pod), "env")
        if isinstance(one.get("value"), str)
    }


def _base(pod: Obj) -> int | None:
    """The first shard of the Job that a pod is of, as its container is told."""
    text = _told(pod).get("SHARD_BASE")
    return int(text) if text is not None else None


def _directory(pod: Obj, index: str) -> str:
    """Where on the claim the container finds its data, as its kubelet expands it; "" is all of
    the claim.
    """
    claimed = {
        raw.text(volume, "name")
        for volume in raw.objects(pod, "spec", "volumes")
        if raw.mapping(volume, "persistentVolumeClaim")
    }
    told = {**_told(pod), "JOB_COMPLETION_INDEX": index}
    for mount in raw.objects(_container(pod), "volumeMounts"):
        if mount.get("name") in claimed:
            path = raw.text(mount, "subPathExpr", default=raw.text(mount, "subPath"))
            return _VARIABLE.sub(lambda name: told.get(name[1], name[0]), path)
    return ""


def is_retained(obj: Obj) -> bool:
    """A claim that outlives its workload says so by having no owner."""
    return obj.get("kind") == "PersistentVolumeClaim" and not raw.objects(
        obj, "metadata", "ownerReferences"
    )
