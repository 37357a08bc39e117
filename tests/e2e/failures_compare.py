"""Compares what a federation holds with what was asked of it: decisions, slices, native objects and
pods, each exactly once and nothing else. Reads the API servers as an administrator; an empty answer
means that all is as it should be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.kinds import labels, registry
from federator.model import shards
from tests.e2e.failures_fleet import FailureFleet, NotAnswering
from tests.e2e.federations import until

PATHS = {
    "PinterestService": "/apis/pinterest.com/v1beta1/namespaces/{}/pinterestservices",
    "PinterestJobSet": "/apis/pinterest.com/v1beta1/namespaces/{}/pinterestjobsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "PlacementDecision": "/apis/federation.pinterest.com/v1alpha1/namespaces/{}/placementdecisions",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Pod": "/api/v1/namespaces/{}/pods",
}
SLICES = ("PinterestService", "PinterestJobSet", "Deployment")
OWNED = ("Deployment", "Service", "ConfigMap", "Job")
MANAGED = {"app.kubernetes.io/managed-by": "federator"}

Key = tuple[str, str]
"""(kind, name) in the namespace of a test."""


@dataclass(slots=True)
class Asked:
    """What people asked for in one namespace: copies or shards by workload. Creating, scaling and
    deleting go through here, so that a comparison knows what to expect.
    """

    ground: FailureFleet
    namespace: str
    wanted: dict[Key, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.ground.ask("host", "/api/v1/namespaces", "POST", body)

    def create(self, obj: Mapping[str, Any]) -> None:
        kind, name = obj["kind"], obj["metadata"]["name"]
        self.ground.ask("host", self._path(kind), "POST", obj)
        self.wanted[kind, name] = int(obj["spec"].get("shards") or obj["spec"].get("replicas"))

    def scale(self, kind: str, name: str, replicas: int) -> None:
        path = f"{self._path(kind)}/{name}/scale"
        found = self.ground.ask("host", path)
        found["spec"]["replicas"] = replicas
        del found["metadata"][
            "resourceVersion"
        ]  # as `kubectl scale` asks: whatever else has changed meanwhile
        self.ground.ask("host", path, "PUT", found)
        self.wanted[kind, name] = replicas

    def delete(self, kind: str, name: str) -> None:
        self.ground.ask("host", f"{self._path(kind)}/{name}", "DELETE")
        del self.wanted[kind, name]

    def clear(self, within_s: float = 90.0) -> None:
        """Takes everything away and waits until nothing of it is left anywhere."""
        for kind, name in list(self.wanted):
            self.delete(kind, name)
        self.comes_about(within_s)

    def comes_about(self, within_s: float = 90.0) -> None:
        """Waits until nothing differs. Raises AssertionError with the differences."""
        until(lambda: not self.differences(), lambda: "; ".join(self.differences()[:8]), within_s)

    def differences(self) -> list[str]:
        """Everything that is not as it was asked and decided, as sentences."""
        try:
            return list(_Comparison(self).sentences())
        except NotAnswering as trouble:
            return [str(trouble)]

    def items(self, cluster: str, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ground.ask(cluster, self._path(kind))["items"]
        return found

    def _path(self, kind: str) -> str:
        return PATHS[kind].format(self.namespace)


class _Comparison:
    """One look at all clusters."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.members = sorted(asked.ground.clusters.keys() - {"host"})
        self.workloads = {
            (kind, obj["metadata"]["name"]): obj
            for kind in SLICES
            for obj in asked.items("host", kind)
        }
        self.decisions: dict[str, dict[str, Any]] = {}
        """By uid of the workload."""
        self.held = {
            name: {kind: asked.items(name, kind) for kind in {*OWNED, *SLICES, "Pod"}}
            for name in self.members
        }

    def sentences(self) -> Iterator[str]:
        if self.workloads.keys() != self.asked.wanted.keys():
            yield (
                f"the host holds {sorted(self.workloads.keys() ^ self.asked.wanted.keys())} "
                "otherwise than asked"
            )
            return
        yield from self._decisions()
        for name in self.members:
            yield from self._slices(name)
            yield from self._natives(name)
        yield from self._statuses()

    def _decisions(self) -> Iterator[str]:
        uids = {obj["metadata"]["uid"]: key for key, obj in self.workloads.items()}
        for decision in self.asked.items("host", "PlacementDecision"):
            name, uid = decision["metadata"]["name"], decision["spec"]["workload"]["uid"]
            if uid not in uids:
                yield f"decision {name} is for a workload that is gone"
            elif uid in self.decisions:
                yield f"decision {name} is the second for {uids[uid]}"
            else:
                self.decisions[uid] = decision
        for uid, key in uids.items():
            placed = sum(_count(share) for share in self._shares(uid))
            if placed != self.asked.wanted[key]:
                yield f"{placed} of {key} are placed, not {self.asked.wanted[key]}"

    def _shares(self, uid: str) -> list[dict[str, Any]]:
        return self.decisions[uid]["spec"].get("shares") or [] if uid in self.decisions else []

    def _slices(self, cluster: str) -> Iterator[str]:
        """Exactly one slice for each share, with its seq and its count."""
        due = {
            key: share
            for key, obj in self.workloads.items()
            for share in self._shares(obj["metadata"]["uid"])
            if share["cluster"] == cluster and _count(share)
        }
        for kind in SLICES:
            for obj in self.held[cluster][kind]:
                key = (kind, obj["metadata"]["name"])
                mark = registry.verbs_of(kind).read_mark(obj)
                if mark is None:
                    continue  # a native of somebody
                share = due.pop(key, None)
                uid = self.workloads[key]["metadata"]["uid"] if key in self.workloads else ""
                if share is None or mark.workload_uid != uid:
                    yield f"{cluster}: {key} is an orphan (of {mark.workload_uid}, seq {mark.seq})"
                elif mark.seq != share["seq"] or _held(obj, mark.ranges) != _count(share):
                    yield (
                        f"{cluster}: {key} holds {_held(obj, mark.ranges)} at {mark.seq}, "
                        f"decided is {share}"
                    )
        for key in due:
            yield f"{cluster}: {key} is not there"

    def _natives(self, cluster: str) -> Iterator[str]:
        """What each slice is expanded to, once; nothing of ours without a slice; as many pods as
        copies.
        """
        held = self.held[cluster]
        owners = {obj["metadata"]["uid"]: obj for kind in SLICES[:2] for obj in held[kind]}
        made: dict[str, list[dict[str, Any]]] = {uid: [] for uid in owners}
        for kind in OWNED:
            for native in held[kind]:
                meta = native["metadata"]
                if not MANAGED.items() <= (meta.get("labels") or {}).items():
                    continue
                owner = next((ref["uid"] for ref in meta.get("ownerReferences") or ()), "")
                if owner not in owners:
                    yield f"{cluster}: {kind} {meta['name']} is left of a slice that is gone"
                elif "deletionTimestamp" not in meta:
                    made[owner].append({**native, "kind": kind})
        for uid, natives in made.items():
            yield from self._expansion(cluster, owners[uid], natives)
        for deployment in held["Deployment"]:
            name, want = deployment["metadata"]["name"], deployment["spec"]["replicas"]
            pods = [
                pod for pod in held["Pod"] if pod["metadata"].get("labels", {}).get("app") == name
            ]
            if len(pods) != want:
                yield f"{cluster}: there are {len(pods)} pods of {name}, not {want}"

    @staticmethod
    def _expansion(
        cluster: str, owner: Mapping[str, Any], natives: list[dict[str, Any]]
    ) -> Iterator[str]:
        name, counts = owner["metadata"]["name"], Counter(native["kind"] for native in natives)
        if "shards" in owner["spec"]:
            ranges = [_range(native) for native in natives if native["kind"] == "Job"]
            mine = shards.normal(shards.parse(owner["spec"]["slice"]["ranges"]))
            if shards.normal(ranges) != mine or sum(
                high - low + 1 for low, high in ranges
            ) != shards.size(mine):
                yield (
                    f"{cluster}: the Jobs of {name} have {ranges}, its slice "
                    f"{owner['spec']['slice']['ranges']}"
                )
            return
        if counts != {"Deployment": 1, "Service": 1, "ConfigMap": 1}:
            yield f"{cluster}: {name} is expanded to {dict(counts)}"
        for native in natives:
            if (
                native["kind"] == "Deployment"
                and native["spec"]["replicas"] != owner["spec"]["replicas"]
            ):
                yield f"{cluster}: Deployment {name} has {native['spec']['replicas']} replicas"

    def _statuses(self) -> Iterator[str]:
        for key, obj in self.workloads.items():
            status, want = obj.get("status") or {}, self.asked.wanted[key]
            ready = status.get(
                {"PinterestService": "ready", "Deployment": "readyReplicas"}.get(key[0], "shards"),
                0,
            )
            if ready != want or status.get("observedGeneration") != obj["metadata"]["generation"]:
                yield (
                    f"the host says {ready} of {want} are ready of {key}: "
                    f"{status.get('summary') or status}"
                )


def _count(share: Mapping[str, Any]) -> int:
    return (
        shards.size(shards.parse(share["ranges"]))
        if "ranges" in share
        else int(share.get("replicas") or 0)
    )


def _held(obj: Mapping[str, Any], ranges: Any) -> int:
    return shards.size(ranges) if "shards" in obj["spec"] else int(obj["spec"]["replicas"])


def _range(job: Mapping[str, Any]) -> tuple[int, int]:
    low, _, high = job["metadata"]["annotations"][labels.SHARDS_ANNOTATION].partition("-")
    return int(low), int(high or low)
