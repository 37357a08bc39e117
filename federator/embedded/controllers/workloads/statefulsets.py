"""The StatefulSet stand-in: numbered pods with stable names and claims, started and replaced in
order.

Follows the Kubernetes stateful set controller 1.37: OrderedReady and Parallel, partitioned rolling
updates from the highest ordinal down within `maxUnavailable`, OnDelete. Revisions are told apart by
the hash label only; no ControllerRevision objects are kept.

Claims that are to go (`persistentVolumeClaimRetentionPolicy`) are given an owner, and the garbage
collector takes them: the set (`whenDeleted`), or the pod of an ordinal that goes (`whenScaled`).
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.controllers.keyed import Keyed, PodOwner
from federator.embedded.controllers.pods import Group, Pod, PodIndex
from federator.embedded.controllers.tools import Key, Tools, owner_reference
from federator.embedded.controllers.workloads.history import template_hash
from federator.embedded.controllers.workloads.replicasets import available_pods, wanted_replicas
from federator.embedded.controllers.workloads.rolling import scaled
from federator.embedded.storage.revisions import JsonObject

REVISION_LABEL: Final = "controller-revision-hash"


class StatefulSets(PodOwner):
    """One controller for all StatefulSets of a cluster."""

    COMPONENT = "statefulset-controller"

    def __init__(self, tools: Tools, pods: PodIndex) -> None:
        super().__init__(tools, tools.kinds.statefulsets, pods)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        digest = f"{key[1]}-{template_hash(obj['spec']['template'])}"
        if "deletionTimestamp" not in obj["metadata"]:
            yield from self._manage(obj, digest)
        self._report(key, digest)
        yield

    def _manage(self, obj: JsonObject, digest: str) -> Iterator[None]:
        """One round; with OrderedReady it ends at the first pod that is not ready yet."""
        spec, name = obj["spec"], obj["metadata"]["name"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        ordinals = range(start, start + wanted_replicas(obj))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        group = self._pods.group(obj["metadata"]["uid"])
        for ordinal in ordinals:
            pod = group.pods.get(f"{name}-{ordinal}")
            if pod is None:
                if not self._create(obj, ordinal, digest):
                    return
                yield
            elif pod.finished and not pod.deleting:
                self._tools.delete(self._tools.kinds.pods, pod.obj)
                yield
            elif pod.ready and not pod.deleting:
                continue
            if not parallel:
                return
        surplus = sorted(
            (pod for pod in group.pods.values() if _ordinal(pod) not in ordinals), key=_ordinal
        )
        for pod in reversed(surplus):
            if pod.active:
                self._condemn(obj, pod)
                self._remove(obj, pod)
                yield
            if not parallel:
                return
        if not surplus:
            yield from self._roll(obj, group, ordinals, digest)

    def _roll(self, obj: JsonObject, group: Group, ordinals: range, digest: str) -> Iterator[None]:
        """Replaces pods of an old template from the highest ordinal down, so that no more than
        `maxUnavailable` of all are away; with Parallel those that are not ready go at once, because
        replacing them takes nothing away."""
        spec = obj["spec"]
        strategy = spec.get("updateStrategy") or {}
        numbered = [group.pods.get(f"{obj['metadata']['name']}-{ordinal}") for ordinal in ordinals]
        pods = [pod for pod in numbered if pod is not None]
        if strategy.get("type") == "OnDelete" or len(pods) < len(numbered):
            return
        limits = strategy.get("rollingUpdate") or {}
        allowed = max(1, scaled(limits.get("maxUnavailable", 1), len(pods), up=False))
        room = allowed - sum(not pod.ready or pod.deleting for pod in pods)
        old = [
            pod
            for pod in reversed(pods[limits.get("partition", 0) :])
            if pod.labels.get(REVISION_LABEL) != digest and pod.active
        ]
        parallel = spec.get("podManagementPolicy") == "Parallel"
        away = [pod for pod in old if parallel and not pod.ready]
        present = [pod for pod in old if pod.ready]
        for pod in [*away, *present[: max(0, room)]]:
            self._remove(obj, pod)
            yield

    def _create(self, obj: JsonObject, ordinal: int, digest: str) -> bool:
        """Whether the round goes on: not after a refusal."""
        tools, mould = self._tools, self._moulds.of(obj)
        set_name = obj["metadata"]["name"]
        name, key = f"{set_name}-{ordinal}", (mould.namespace, set_name)
        if (mould.namespace, name) in self._pods.by_key:
            return True  # a pod of that name that is not ours: wait for it to go
        spec: dict[str, Any] = {"hostname": name, "subdomain": obj["spec"].get("serviceName") or ""}
        claims = []
        for template in obj["spec"].get("volumeClaimTemplates") or ():
            claim = f"{template['metadata']['name']}-{name}"
            self._claim(obj, template, claim, mould.namespace)
            volume = {"claimName": claim}
            claims.append({"name": template["metadata"]["name"], "persistentVolumeClaim": volume})
        if claims:
            taken = {claim["name"] for claim in claims}
            others = [
                volume for volume in mould.spec.get("volumes") or () if volume["name"] not in taken
            ]
            spec["volumes"] = [*claims, *others]
        if why := mould.refusal(name):
            text = f"Create Pod {name} in StatefulSet {set_name} failed error: {why}"
            self._refused(key, obj, text)
            return False
        self._backoff.forget(key)
        labels = {
            REVISION_LABEL: digest,
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        base = f"{set_name}-"
        tools.store.create(
            tools.kinds.pods, mould.pod(name, generate_name=base, labels=labels, spec=spec)
        )
        text = f"Create Pod {name} in StatefulSet {set_name} successful"
        self._say(obj, "SuccessfulCreate", text)
        return True

    def _claim(self, obj: JsonObject, template: JsonObject, name: str, namespace: str) -> None:
        claims, owners = self._tools.kinds.claims, []
        if _retention(obj, "whenDeleted") == "Delete":
            owners = [owner_reference(self._resource, obj)]
        if (there := self._tools.get(claims, (namespace, name))) is not None:
            self._give(there, owners)
            return
        given = template.get("metadata") or {}
        labels = {
            **(given.get("labels") or {}),
            **((obj["spec"].get("selector") or {}).get("matchLabels") or {}),
        }
        metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
        if owners:
            metadata["ownerReferences"] = owners
        full = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": metadata,
            "spec": template["spec"],
        }
        self._tools.store.create(claims, {**full, "status": {"phase": "Pending"}})

    def _condemn(self, obj: JsonObject, pod: Pod) -> None:
        """The claims of an ordinal that is scaled away go with its pod, where the set says so."""
        if _retention(obj, "whenScaled") != "Delete":
            return
        owners = [owner_reference(self._tools.kinds.pods, pod.obj)]
        for template in obj["spec"].get("volumeClaimTemplates") or ():
            key = (obj["metadata"]["namespace"], f"{template['metadata']['name']}-{pod.name}")
            if (claim := self._tools.get(self._tools.kinds.claims, key)) is not None:
                self._give(claim, owners)

    def _give(self, claim: JsonObject, owners: list[JsonObject]) -> None:
        """The claim has these owners of those that take it along, and all others that it had."""
        metadata = claim["metadata"]
        before = metadata.get("ownerReferences") or []
        others = [owner for owner in before if owner["kind"] not in ("StatefulSet", "Pod")]
        if before != [*others, *owners]:
            fresh = {**metadata, "ownerReferences": [*others, *owners]}
            self._tools.store.update(
                self._tools.kinds.claims, {**claim, "metadata": fresh}, same_generation=True
            )

    def _remove(self, obj: JsonObject, pod: Pod) -> None:
        self._tools.delete(self._tools.kinds.pods, pod.obj)
        text = f"delete Pod {pod.name} in StatefulSet {obj['metadata']['name']} successful"
        self._say(obj, "SuccessfulDelete", text)

    def _report(self, key: Key, digest: str) -> None:
        obj = self._tools.get(self._resource, key)
        if obj is None:
            return
        old = obj.get("status") or {}
        group = self._pods.group(obj["metadata"]["uid"])
        pods = [pod for pod in group.pods.values() if not pod.finished]
        updated = sum(pod.active and pod.labels.get(REVISION_LABEL) == digest for pod in pods)
        wanted = wanted_replicas(obj)
        current = old.get("currentRevision") or digest
        if updated == group.ready == wanted == len(pods):
            current = digest  # the roll-out is over
        available, next_change = available_pods(
            self._tools, group, obj["spec"].get("minReadySeconds") or 0
        )
        status: dict[str, Any] = {
            "observedGeneration": obj["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": group.ready,
            "currentReplicas": sum(
                pod.active and pod.labels.get(REVISION_LABEL) == current for pod in pods
            ),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": digest,
            "collisionCount": 0,
            "availableReplicas": available,
        }
        kept = ("replicas", "collisionCount", "availableReplicas")
        self._write_status(obj, status, kept, next_change)


class Claims(Keyed):
    """Binds every PersistentVolumeClaim to a volume without an object, a moment after it was
    made."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools, tools.kinds.claims)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        if (obj.get("status") or {}).get("phase") == "Bound":
            return
        spec = obj["spec"]
        status = {
            "phase": "Bound",
            "accessModes": spec.get("accessModes") or [],
            "capacity": (spec.get("resources") or {}).get("requests") or {},
        }
        spec = {**spec, "volumeName": spec.get("volumeName") or f"pvc-{obj['metadata']['uid']}"}
        self._tools.store.update(
            self._resource, {**obj, "spec": spec, "status": status}, same_generation=True
        )
        yield


def _retention(obj: JsonObject, when: str) -> str:
    policy: dict[str, str] = obj["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    return policy.get(when, "Retain")


def _ordinal(pod: Pod) -> int:
    tail = pod.name.rpartition("-")[2]
    return int(tail) if tail.isdecimal() else -1
