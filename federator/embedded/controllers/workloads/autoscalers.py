"""The HorizontalPodAutoscaler stand-in: keeps a Deployment within the bounds of its autoscaler.

Nothing is measured here. How many replicas the metrics ask for is said by an annotation on the
autoscaler (`embedded.federator/wanted-replicas`); without it they cannot be read, as on a cluster
without a metrics API, and only the bounds count. A new autoscaler is looked at for the first time
after `SYNC_S`, as by the controller of Kubernetes; then scaled at once, without stabilization.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.apply import ownership
from federator.embedded.controllers.keyed import Keyed
from federator.embedded.controllers.tools import MANAGER, Key, Tools, condition
from federator.embedded.storage.revisions import ADDED, DELETED, Event, JsonObject

WANTED: Final = "embedded.federator/wanted-replicas"
SYNC_S: Final = 15.0


class Autoscalers(Keyed):
    """One controller for all HorizontalPodAutoscalers of a cluster, and the Deployments that they
    name."""

    COMPONENT = "horizontal-pod-autoscaler"

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools, tools.kinds.autoscalers)
        self._targets = tools.kinds.deployments
        self._by_target: dict[Key, Key] = {}
        """Deployment -> its autoscaler."""
        self._new: set[Key] = set()
        """Autoscalers that this controller has not examined yet."""

    def notice(self, event: Event) -> None:
        if event.resource is self._targets:
            if (key := self._by_target.get(event.key)) is not None:
                self._dirty.add(key)
            return
        target = (event.key[0], event.current.obj["spec"]["scaleTargetRef"]["name"])
        if event.type is DELETED:
            self._by_target.pop(target, None)
        else:
            self._by_target[target] = event.key
            if event.type is ADDED:
                self._new.add(event.key)
                self._tools.agenda.after(SYNC_S, self._first, event.key)
            else:
                self._dirty.add(event.key)

    def _first(self, key: Key) -> None:
        self._new.discard(key)
        self._dirty.add(key)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        if key not in self._new and "deletionTimestamp" not in obj["metadata"]:
            self._size(key, obj)
            yield

    def _size(self, key: Key, obj: JsonObject) -> None:
        reference = obj["spec"]["scaleTargetRef"]
        target = None
        if (reference.get("apiVersion"), reference["kind"]) == ("apps/v1", "Deployment"):
            target = self._tools.get(self._targets, (key[0], reference["name"]))
        if target is None or "deletionTimestamp" in target["metadata"]:
            text = f'{reference["kind"].lower()}s.apps "{reference["name"]}" not found'
            self._report(obj, {}, [_condition("AbleToScale", "False", "FailedGetScale", text)])
            return
        now, wanted = target["spec"].get("replicas", 1), _wanted(obj)
        desired = _bounded(obj, now if wanted is None else wanted) if now else 0
        if desired != now:
            self._scale(target, desired)
            self._say(obj, "SuccessfulRescale", f"New size: {desired}")
        able = _condition("AbleToScale", "True", "ReadyForNewScale", "it is as recommended")
        current = [able, _active(wanted, now), _limited(wanted, desired)]
        replicas = (target.get("status") or {}).get("replicas", 0)
        self._report(obj, {"currentReplicas": replicas, "desiredReplicas": desired}, current)

    def _scale(self, target: JsonObject, replicas: int) -> None:
        """Writes the number as a client of the scale subresource does: it owns it from then on."""
        fresh = {**target, "spec": {**target["spec"], "replicas": replicas}}
        metadata = target["metadata"]
        if metadata.get("managedFields"):
            entries = ownership.track(
                target, fresh, MANAGER, self._targets, self._tools.now(), "scale"
            )
            fresh["metadata"] = {**metadata, "managedFields": entries}
        self._tools.store.update(self._targets, fresh)

    def _report(
        self, obj: JsonObject, figures: dict[str, Any], current: list[dict[str, Any]]
    ) -> None:
        live = obj.get("status") or {}
        conditions = []
        for said in current:
            before = condition(live.get("conditions"), said["type"])
            same = before is not None and before["status"] == said["status"]
            since = before["lastTransitionTime"] if same and before else self._tools.now()
            conditions.append({**said, "lastTransitionTime": since})
        status = {"currentReplicas": 0, "desiredReplicas": 0, **figures, "conditions": conditions}
        stored = self._tools.get(
            self._resource, (obj["metadata"]["namespace"], obj["metadata"]["name"])
        )
        if stored is not None:
            self._tools.set_status(self._resource, stored, {**live, **status})


def _wanted(obj: JsonObject) -> int | None:
    """What the metrics ask for; None where they cannot be read."""
    text = (obj["metadata"].get("annotations") or {}).get(WANTED, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _bounded(obj: JsonObject, replicas: int) -> int:
    spec: dict[str, int] = obj["spec"]
    return min(max(replicas, spec.get("minReplicas", 1)), spec["maxReplicas"])


def _limited(wanted: int | None, desired: int) -> dict[str, Any]:
    if wanted is None or wanted == desired:
        text = "the desired count is within the acceptable range"
        return _condition("ScalingLimited", "False", "DesiredWithinRange", text)
    few = wanted < desired
    text = f"the desired replica count is {'less' if few else 'more'} than the bounds allow"
    return _condition(
        "ScalingLimited", "True", "TooFewReplicas" if few else "TooManyReplicas", text
    )


def _active(wanted: int | None, now: int) -> dict[str, Any]:
    if now == 0:
        text = "scaling is disabled since the replica count of the target is zero"
        return _condition("ScalingActive", "False", "ScalingDisabled", text)
    if wanted is None:
        text = "the HPA was unable to compute the replica count: there is no metrics API"
        return _condition("ScalingActive", "False", "FailedGetResourceMetric", text)
    text = "the HPA was able to compute a replica count"
    return _condition("ScalingActive", "True", "ValidMetricFound", text)


def _condition(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}
