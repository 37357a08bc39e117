"""The ReplicaSet stand-in: as many active pods as asked for, adoption and release by selector,
counts in status.

Deployments drive it through spec.replicas and read its status; people may use ReplicaSets alone.
"""

from collections.abc import Collection, Iterator
from typing import Any

from federator.embedded.controllers.keyed import PodOwner
from federator.embedded.controllers.pods import Group, Pod, PodIndex
from federator.embedded.controllers.tools import (
    Key,
    Tools,
    condition,
    owner_reference,
    stated,
    with_list,
)
from federator.embedded.storage.revisions import JsonObject
from federator.kube import clock as clocks
from federator.model.kubernetes import selectors

REPLICA_FAILURE = "ReplicaFailure"


class ReplicaSets(PodOwner):
    """One controller for all ReplicaSets of a cluster."""

    COMPONENT = "replicaset-controller"

    def __init__(self, tools: Tools, pods: PodIndex) -> None:
        super().__init__(tools, tools.kinds.replicasets, pods)
        self._relabelled: set[Key] = set()
        self._odd: set[str] = set()
        """Uids of sets with pods that may carry other labels than the template says."""
        self._refusals: dict[Key, str] = {}
        """Why the last pod of a set could not be made."""

    def _forget(self, key: Key, uid: str) -> None:
        super()._forget(key, uid)
        self._odd.discard(uid)
        self._refusals.pop(key, None)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (new, old):
            if (key := self._owner_of(pod)) is not None:
                if old is not None and new is not None and old.labels != new.labels:
                    self._relabelled.add(key)
                self._dirty.add(key)
                return
        if (
            new is not None
            and new.owner is None
            and (old is None or old.labels != new.labels or old.owner is not None)
        ):
            # An orphan may be adopted by any set of its namespace; there are few of both.
            for revision in self._tools.store.items(self._resource, new.key[0]):
                if selectors.from_dict(revision.obj["spec"].get("selector")).matches(new.labels):
                    self._dirty.add(revision.key)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        if "deletionTimestamp" not in obj["metadata"]:
            yield from self._claim(key, obj)
            yield from self._manage(key)
        if (current := self._tools.get(self._resource, key)) is not None:
            self._report(key, current)
            yield

    def _claim(self, key: Key, obj: JsonObject) -> Iterator[None]:
        orphans = self._pods.orphans.get(key[0])
        if orphans:
            selector = selectors.from_dict(obj["spec"].get("selector"))
            for name in sorted(orphans):
                pod = orphans.get(name)
                if pod is not None and pod.active and selector.matches(pod.labels):
                    references = [
                        *(pod.obj["metadata"].get("ownerReferences") or ()),
                        owner_reference(self._resource, obj),
                    ]
                    self._refer(pod, references)
                    self._odd.add(obj["metadata"]["uid"])
                    yield
        if key in self._relabelled:
            self._relabelled.discard(key)
            selector = selectors.from_dict(obj["spec"].get("selector"))
            uid = obj["metadata"]["uid"]
            self._odd.add(uid)
            for pod in list(self._pods.group(uid).pods.values()):
                if pod.active and not selector.matches(pod.labels):
                    references = [
                        r for r in pod.obj["metadata"]["ownerReferences"] if r["uid"] != uid
                    ]
                    self._refer(pod, references)
                    yield

    def _refer(self, pod: Pod, references: list[dict[str, Any]]) -> None:
        fresh = with_list(pod.obj, "ownerReferences", references)
        self._tools.store.update(self._tools.kinds.pods, fresh)

    def _manage(self, key: Key) -> Iterator[None]:
        """Creates or deletes one pod at a time, looking again after each: people may change the set
        meanwhile."""
        tools, created, deleted = self._tools, 0, 0
        victims: list[Pod] | None = None
        while True:
            obj = tools.get(self._resource, key)
            if obj is None or "deletionTimestamp" in obj["metadata"]:
                return
            wanted = wanted_replicas(obj)
            group = self._pods.group(obj["metadata"]["uid"])
            if group.active < wanted:
                name = f"{key[1]}-{tools.suffix()}"
                if (key[0], name) in self._pods.by_key:
                    continue
                mould = self._moulds.of(obj)
                if why := mould.refusal(name):
                    self._refused(key, obj, f"Error creating: {why}")
                    self._refusals[key] = why
                    return
                pod = mould.pod(name, generate_name=key[1] + "-")
                tools.store.create(tools.kinds.pods, pod)
                created += 1
                if created <= 10:
                    self._say(obj, "SuccessfulCreate", f"Created pod: {name}")
            elif group.active > wanted:
                if not victims:
                    victims = least_needed(group, group.active - wanted)
                    victims.reverse()
                pod_to_go = self._pods.by_key.get(victims.pop().key)
                if pod_to_go is None or not pod_to_go.active:
                    continue
                tools.delete_pod(pod_to_go.obj)
                deleted += 1
                if deleted <= 10:
                    self._say(obj, "SuccessfulDelete", f"Deleted pod: {pod_to_go.name}")
            else:
                break
            yield
        self._refusals.pop(key, None)
        self._backoff.forget(key)

    def _conditions(self, key: Key, old: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """ReplicaFailure as long as a pod cannot be made, with the words of the first refusal."""
        have, why = condition(old, REPLICA_FAILURE), self._refusals.get(key)
        others = [entry for entry in old or () if entry is not have]
        if why is None:
            return others
        row = (REPLICA_FAILURE, "True", "FailedCreate", why)
        return [*others, have or stated(None, row, self._tools.now())]

    def _report(self, key: Key, obj: JsonObject) -> None:
        group = self._pods.group(obj["metadata"]["uid"])
        old = obj.get("status") or {}
        labelled = group.active
        if obj["metadata"]["uid"] in self._odd:
            template_labels = (
                (obj["spec"]["template"].get("metadata") or {}).get("labels") or {}
            ).items()
            labelled = sum(
                pod.active and template_labels <= pod.labels.items() for pod in group.pods.values()
            )
        available, next_change = available_pods(
            self._tools, group, obj["spec"].get("minReadySeconds") or 0
        )
        status: dict[str, Any] = {
            "replicas": group.active,
            "fullyLabeledReplicas": labelled,
            "readyReplicas": group.ready,
            "availableReplicas": available,
            "terminatingReplicas": group.terminating,
            "observedGeneration": obj["metadata"]["generation"],
            "conditions": self._conditions(key, old.get("conditions")),
        }
        self._write_status(obj, status, ("replicas", "terminatingReplicas"), next_change)


def wanted_replicas(obj: JsonObject) -> int:
    """spec.replicas with its default."""
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def available_pods(tools: Tools, group: Group, min_ready_s: int) -> tuple[int, float | None]:
    """(pods ready for at least `min_ready_s` seconds, seconds until the next becomes so or
    None)."""
    if min_ready_s == 0:
        return group.ready, None
    now, available, soonest = tools.clock.now(), 0, None
    for pod in group.pods.values():
        if pod.ready and pod.active:
            left = clocks.parse(pod.ready_since) + min_ready_s - now
            if left <= 0:
                available += 1
            elif soonest is None or left < soonest:
                soonest = left
    return available, soonest


def least_needed(group: Group, count: int, *, but: Collection[str] = ()) -> list[Pod]:
    """The pods a real controller would delete first: unassigned, pending, not ready, cheap,
    crowded, young ones; none with a name in `but`."""
    active = [pod for pod in group.pods.values() if pod.active and pod.name not in but]
    if count >= len(active):
        return active
    crowd: dict[str, int] = {}
    for pod in active:
        crowd[pod.node] = crowd.get(pod.node, 0) + 1
    active.sort(key=lambda pod: pod.name)
    # Younger first: by reversed time, so two stable sorts instead of negating texts.
    active.sort(
        key=lambda pod: (pod.ready_since, pod.obj["metadata"]["creationTimestamp"]), reverse=True
    )
    active.sort(key=lambda pod: _rank(pod, crowd))
    return active[:count]


def _rank(pod: Pod, crowd: dict[str, int]) -> tuple[bool, bool, bool, int, int]:
    cost = pod.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0")
    number = int(cost) if cost.lstrip("-").isdecimal() else 0
    return (bool(pod.node), pod.phase == "Running", pod.ready, number, -crowd[pod.node])
