"""The Deployment stand-in: one ReplicaSet per template, rolled over by the rules of `rolling`,
reported by `rollouts`.

Follows the Kubernetes deployment controller 1.37: revisions and history limit, pause, Recreate,
proportional scaling, progress deadline. It writes ReplicaSets and Deployment status, never pods.
"""

import math
from collections.abc import Iterator
from typing import Any

from federator.embedded.controllers.keyed import Keyed
from federator.embedded.controllers.pods import Pod, PodIndex
from federator.embedded.controllers.tools import Key, Tools, controller_of, owner_reference
from federator.embedded.controllers.workloads import rolling, rollouts
from federator.embedded.controllers.workloads.history import (
    DESIRED,
    HASH_LABEL,
    HISTORY,
    MAX_REPLICAS,
    REVISION,
    copied,
    revision_of,
    split,
    template_hash,
    view,
)
from federator.embedded.controllers.workloads.replicasets import wanted_replicas
from federator.embedded.storage.revisions import DELETED, Event, JsonObject
from federator.model.kubernetes import selectors


class Deployments(Keyed):
    """One controller for all Deployments of a cluster."""

    COMPONENT = "deployment-controller"

    def __init__(self, tools: Tools, pods: PodIndex) -> None:
        super().__init__(tools, tools.kinds.deployments)
        self._pods = pods
        self._sets = tools.kinds.replicasets
        self._owned: dict[str, set[Key]] = {}
        self._orphans: dict[str, set[Key]] = {}
        self._checks: dict[Key, float] = {}
        """When a lack of progress is looked for next, by key. An edit may bring that forward."""
        pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        if event.resource.kind == "Deployment":
            if event.type is DELETED:
                self._owned.pop(event.current.obj["metadata"]["uid"], None)
            self._dirty.add(event.key)
            return
        if event.previous is not None:
            self._unindex(event.key, event.previous.obj)
        if event.type is DELETED:
            self._unindex(event.key, event.current.obj)
        else:
            self._index(event.key, event.current.obj)

    def _index(self, key: Key, obj: JsonObject) -> None:
        owner = controller_of(obj)
        if owner is None:
            self._orphans.setdefault(key[0], set()).add(key)
            for revision in self._tools.store.items(self._resource, key[0]):
                if _selects(revision.obj, obj):
                    self._dirty.add(revision.key)
        elif owner["kind"] == "Deployment":
            self._owned.setdefault(owner["uid"], set()).add(key)
            self._dirty.add((key[0], owner["name"]))

    def _unindex(self, key: Key, obj: JsonObject) -> None:
        owner = controller_of(obj)
        if owner is None:
            self._orphans.get(key[0], set()).discard(key)
        elif owner["kind"] == "Deployment":
            self._owned.get(owner["uid"], set()).discard(key)
            self._dirty.add((key[0], owner["name"]))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        # Recreate waits for the last old pod to be gone, which a ReplicaSet's status shows too
        # late.
        if (
            new is None
            and old is not None
            and old.owner is not None
            and old.owner[0] == "ReplicaSet"
            and old.owner_key
        ):
            owner = self._tools.get(self._sets, old.owner_key)
            reference = controller_of(owner) if owner else None
            if reference is None or reference["kind"] != "Deployment":
                return
            key = (old.key[0], reference["name"])
            deployment = self._tools.get(self._resource, key)
            if deployment is not None and _recreates(deployment):
                self._dirty.add(key)

    def _sync(self, key: Key, deployment: JsonObject) -> Iterator[None]:
        if "deletionTimestamp" in deployment["metadata"]:
            self._report(key, deployment, self._owned_sets(deployment), rollout=False)
            return
        self._adopt(deployment)
        sets = self._owned_sets(deployment)
        new, old = split(deployment, sets)
        if new is not None:
            self._annotate(deployment, new, old)
        if deployment["spec"].get("paused") or self._was_scaled(deployment, sets):
            self._scale_all(deployment)
            self._report(key, deployment, self._owned_sets(deployment), rollout=False)
        else:
            if _recreates(deployment):
                self._recreate(deployment, new, old)
            else:
                self._roll(deployment, new, old)
            self._report(key, deployment, self._owned_sets(deployment), rollout=True)
        yield

    def _owned_sets(self, deployment: JsonObject) -> list[JsonObject]:
        keys = self._owned.get(deployment["metadata"]["uid"], ())
        revisions = [self._tools.get(self._sets, key) for key in sorted(keys)]
        sets = [replica_set for replica_set in revisions if replica_set is not None]
        sets.sort(
            key=lambda replica_set: (
                replica_set["metadata"]["creationTimestamp"],
                replica_set["metadata"]["name"],
            )
        )
        return sets

    def _adopt(self, deployment: JsonObject) -> None:
        for key in sorted(self._orphans.get(deployment["metadata"]["namespace"], ())):
            orphan = self._tools.get(self._sets, key)
            if (
                orphan is None
                or "deletionTimestamp" in orphan["metadata"]
                or not _selects(deployment, orphan)
            ):
                continue
            references = [
                *(orphan["metadata"].get("ownerReferences") or ()),
                owner_reference(self._resource, deployment),
            ]
            metadata = {**orphan["metadata"], "ownerReferences": references}
            self._tools.store.update(self._sets, {**orphan, "metadata": metadata})

    # Growing and shrinking

    def _was_scaled(self, deployment: JsonObject, sets: list[JsonObject]) -> bool:
        wanted = wanted_replicas(deployment)
        for replica_set in sets:
            desired = (replica_set["metadata"].get("annotations") or {}).get(DESIRED, "")
            if wanted_replicas(replica_set) > 0 and desired.isdecimal() and int(desired) != wanted:
                return True
        return False

    def _roll(self, deployment: JsonObject, new: JsonObject | None, old: list[JsonObject]) -> None:
        wanted = wanted_replicas(deployment)
        surge, unavailable = rolling.limits(deployment["spec"], wanted)
        if new is None:
            total = sum(wanted_replicas(replica_set) for replica_set in old)
            self._create(deployment, old, max(0, min(wanted, wanted + surge - total)))
            return
        views = [view(replica_set) for replica_set in old]
        total = wanted_replicas(new) + sum(view.replicas for view in views)
        size = rolling.grow_new(view(new), total, wanted, surge)
        if size != wanted_replicas(new):
            self._scale(deployment, new, size)
            return
        active = [view for view in views if view.replicas > 0]
        sizes = rolling.shrink_old(active, view(new), wanted, unavailable)
        for replica_set in old:
            if replica_set["metadata"]["name"] in sizes:
                self._scale(deployment, replica_set, sizes[replica_set["metadata"]["name"]])

    def _recreate(
        self, deployment: JsonObject, new: JsonObject | None, old: list[JsonObject]
    ) -> None:
        active = [replica_set for replica_set in old if wanted_replicas(replica_set) > 0]
        for replica_set in active:
            self._scale(deployment, replica_set, 0)
        if active:
            return
        for replica_set in old:
            group = self._pods.group(replica_set["metadata"]["uid"])
            if group.active or group.terminating:
                return
        wanted = wanted_replicas(deployment)
        if new is None:
            self._create(deployment, old, wanted)
        elif wanted_replicas(new) != wanted:
            self._scale(deployment, new, wanted)

    def _scale_all(self, deployment: JsonObject) -> None:
        """Scaling by hand, and everything that happens while paused."""
        sets = self._owned_sets(deployment)
        new, old = split(deployment, sets)
        wanted = wanted_replicas(deployment)
        active = [replica_set for replica_set in sets if wanted_replicas(replica_set) > 0]
        if len(active) <= 1:
            latest = active[0] if active else new or (old[-1] if old else None)
            if latest is not None:
                self._scale(deployment, latest, wanted)
            return
        if new is not None:
            seen = view(new)
            if seen.replicas == seen.desired == seen.available == wanted:
                for replica_set in active:
                    if replica_set is not new:
                        self._scale(deployment, replica_set, 0)
                return
        if not _recreates(deployment):
            sizes = rolling.proportional(
                [view(replica_set) for replica_set in active],
                wanted,
                rolling.limits(deployment["spec"], wanted)[0],
            )
            for replica_set in active:
                self._scale(deployment, replica_set, sizes[replica_set["metadata"]["name"]])

    def _scale(self, deployment: JsonObject, replica_set: JsonObject, size: int) -> None:
        before = wanted_replicas(replica_set)
        annotations = (replica_set["metadata"].get("annotations") or {}) | self._sizes(deployment)
        metadata = {**replica_set["metadata"], "annotations": annotations}
        spec = {**replica_set["spec"], "replicas": size}
        self._tools.store.update(self._sets, {**replica_set, "metadata": metadata, "spec": spec})
        if size != before:
            self._say_scaled(deployment, replica_set["metadata"]["name"], before, size)

    def _say_scaled(self, deployment: JsonObject, name: str, before: int, size: int) -> None:
        way = "up" if size > before else "down"
        text = f"Scaled {way} replica set {name} from {before} to {size}"
        self._say(deployment, "ScalingReplicaSet", text)

    def _sizes(self, deployment: JsonObject) -> dict[str, str]:
        wanted = wanted_replicas(deployment)
        return {
            DESIRED: str(wanted),
            MAX_REPLICAS: str(wanted + rolling.limits(deployment["spec"], wanted)[0]),
        }

    # Revisions

    def _annotate(self, deployment: JsonObject, new: JsonObject, old: list[JsonObject]) -> None:
        """The new set carries the deployment's annotations and the newest revision."""
        have = new["metadata"].get("annotations") or {}
        wanted = {**have, **copied(deployment)}
        newest = max((revision_of(replica_set) for replica_set in old), default=0) + 1
        current = revision_of(new)
        if current < newest:
            wanted[REVISION] = str(newest)
            if current:
                wanted[HISTORY] = ",".join(
                    part for part in (have.get(HISTORY, ""), str(current)) if part
                )
        spec, ready_s = new["spec"], deployment["spec"].get("minReadySeconds") or 0
        if (spec.get("minReadySeconds") or 0) != ready_s:
            spec = {**spec, "minReadySeconds": ready_s}
        if wanted != have or spec is not new["spec"]:
            self._tools.store.update(
                self._sets,
                {**new, "metadata": {**new["metadata"], "annotations": wanted}, "spec": spec},
            )

    def _create(self, deployment: JsonObject, old: list[JsonObject], size: int) -> None:
        metadata, spec = deployment["metadata"], deployment["spec"]
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        while True:
            digest = template_hash(spec["template"], collisions)
            name = f"{metadata['name'][:242]}-{digest}"
            if self._tools.store.get(self._sets, metadata["namespace"], name) is None:
                break
            collisions += 1
        template = spec["template"]
        template_metadata = template.get("metadata") or {}
        labels = {**(template_metadata.get("labels") or {}), HASH_LABEL: digest}
        selector = spec.get("selector") or {}
        revision = max((revision_of(replica_set) for replica_set in old), default=0) + 1
        annotations = {**copied(deployment), **self._sizes(deployment), REVISION: str(revision)}
        obj: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [owner_reference(self._resource, deployment)],
            },
            "spec": {
                "replicas": size,
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest},
                },
                "template": {**template, "metadata": {**template_metadata, "labels": labels}},
            },
            "status": {"replicas": 0},
        }
        if spec.get("minReadySeconds"):
            obj["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        self._tools.store.create(self._sets, obj)
        if size:
            self._say_scaled(deployment, name, 0, size)

    def _clean_up(self, deployment: JsonObject, old: list[JsonObject]) -> None:
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        excess = len(old) - (10 if limit is None else limit)
        if excess <= 0:
            return
        for replica_set in sorted(
            old, key=lambda replica_set: (revision_of(replica_set), replica_set["metadata"]["name"])
        )[:excess]:
            status = replica_set.get("status") or {}
            idle = not status.get("replicas") and not wanted_replicas(replica_set)
            if idle and replica_set["metadata"]["generation"] <= status.get(
                "observedGeneration", 0
            ):
                self._tools.delete(self._sets, replica_set)

    # Reporting

    def _report(
        self, key: Key, deployment: JsonObject, sets: list[JsonObject], *, rollout: bool
    ) -> None:
        tools, now = self._tools, self._tools.now()
        new, old = split(deployment, sets)
        status = rollouts.counted(deployment, sets, new, now)
        rollouts.note_pause(deployment, status, now)
        if rollout:
            if new is not None and not any(
                entry["type"] == "Progressing" for entry in status["conditions"]
            ):
                name = new["metadata"]["name"]
                text = f'Created new replica set "{name}"'
                rollouts.put(status, ("Progressing", "True", "NewReplicaSetCreated", text), now)
            rollouts.judge(deployment, status, new, now)
            rollouts.note_failures(status, new, old, now)
        done = rollouts.complete(deployment, status)
        annotations = None
        if new is not None:
            revision = (new["metadata"].get("annotations") or {}).get(REVISION, "")
            have = deployment["metadata"].get("annotations") or {}
            if revision and have.get(REVISION) != revision:
                annotations = {**have, REVISION: revision}
        tools.set_status(
            self._resource, deployment, rollouts.trimmed(status), annotations=annotations
        )
        if done or deployment["spec"].get("paused"):
            self._clean_up(deployment, old)
        check = rollouts.check_in_s(deployment, status, tools.clock.now()) if rollout else None
        if check is not None and (due := tools.clock.now() + check) < self._checks.get(
            key, math.inf
        ):
            self._checks[key] = due
            tools.agenda.after(check, self._check, key)

    def _check(self, key: Key) -> None:
        self._checks.pop(key, None)
        self._dirty.add(key)


def _recreates(deployment: JsonObject) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _selects(deployment: JsonObject, replica_set: JsonObject) -> bool:
    selector = selectors.from_dict(deployment["spec"].get("selector"))
    return selector.matches(replica_set["metadata"].get("labels") or {})
