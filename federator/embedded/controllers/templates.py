"""Pods from pod templates: what ReplicaSet, Job, StatefulSet and DaemonSet controllers hand to the
API server.

All pods of one template share its dicts (labels, spec): stored objects are immutable, and sharing
keeps thousands of pods small and lets caches work by identity. What a real API server's admission
adds to a pod is added once per template.
"""

from typing import Any

from federator.embedded.admission import pod_security, pods
from federator.embedded.controllers.tools import Tools, owner_reference
from federator.embedded.storage import refusals
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.revisions import JsonObject


class Mould:
    """Makes pods of one template for one owner."""

    def __init__(self, tools: Tools, resource: ResourceInfo, owner: JsonObject) -> None:
        template = owner["spec"]["template"]
        metadata = template.get("metadata") or {}
        self.template = template
        self.namespace: str = owner["metadata"]["namespace"]
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self._annotations: dict[str, str] = metadata.get("annotations") or {}
        self._finalizers: list[str] = metadata.get("finalizers") or []
        self._owners = [owner_reference(resource, owner)]
        self.spec = admitted(tools, template.get("spec") or {})
        self._qos = pods.quality(self.spec)
        self._tools = tools
        self._judged: tuple[Any, str] = (None, "")
        """Labels of the namespace, and what they have against the template."""

    def refusal(self, name: str) -> str:
        """Why an API server would not take a pod of this name in the words of its answer; empty
        when it does."""
        namespace = self._tools.get(self._tools.kinds.namespaces, ("", self.namespace))
        labels = None if namespace is None else namespace["metadata"].get("labels")
        if labels is not self._judged[0]:
            # What controllers add to a template for each pod, no standard has anything against.
            self._judged = labels, pod_security.refusal(self.template, labels or {})
        why = self._judged[1]
        return refusals.forbidden("", "pods", name, why).message if why else ""

    def pod(
        self,
        name: str,
        *,
        generate_name: str = "",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        spec: dict[str, Any] | None = None,
    ) -> JsonObject:
        """A Pending pod. `labels` and `annotations` come on top of the template's; `spec` replaces
        fields of it."""
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**self.labels, **labels} if labels else self.labels,
            "ownerReferences": self._owners,
        }
        if generate_name:
            metadata["generateName"] = generate_name
        if annotations or self._annotations:
            metadata["annotations"] = (
                {**self._annotations, **annotations} if annotations else self._annotations
            )
        if self._finalizers:
            metadata["finalizers"] = self._finalizers
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**self.spec, **spec} if spec else self.spec,
            "status": {"phase": "Pending", "qosClass": self._qos},
        }


class Moulds:
    """One mould per owner, made anew when the owner's template changes."""

    __slots__ = ("_moulds", "_resource", "_tools")

    def __init__(self, tools: Tools, resource: ResourceInfo) -> None:
        self._tools = tools
        self._resource = resource
        self._moulds: dict[str, Mould] = {}

    def of(self, owner: JsonObject) -> Mould:
        uid = owner["metadata"]["uid"]
        mould = self._moulds.get(uid)
        if mould is None or mould.template is not owner["spec"]["template"]:
            mould = self._moulds[uid] = Mould(self._tools, self._resource, owner)
        return mould

    def forget(self, uid: str) -> None:
        self._moulds.pop(uid, None)


def admitted(tools: Tools, spec: dict[str, Any]) -> dict[str, Any]:
    """A pod spec as API defaulting and the default admission plugins leave it."""
    name, priority, preemption = priority_of(tools, spec)
    full: dict[str, Any] = {
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": spec.get("serviceAccountName") or "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        **spec,
        "preemptionPolicy": preemption,
        "priority": priority,
    }
    if name:
        full["priorityClassName"] = name
    pods.tolerate(full)
    return full


def priority_of(tools: Tools, spec: dict[str, Any]) -> tuple[str, int, str]:
    """(class name, priority, preemption policy) of a pod spec, from its PriorityClass or the
    cluster's default one."""
    name = spec.get("priorityClassName")
    if name:
        priority_class = tools.get(tools.kinds.priorityclasses, ("", name))
        candidates = [priority_class] if priority_class else []
    else:
        candidates = [
            r.obj
            for r in tools.store.items(tools.kinds.priorityclasses)
            if r.obj.get("globalDefault")
        ]
    if not candidates:
        return (
            name or "",
            spec.get("priority") or 0,
            spec.get("preemptionPolicy") or "PreemptLowerPriority",
        )
    best = candidates[0]
    return (
        best["metadata"]["name"],
        best.get("value", 0),
        best.get("preemptionPolicy") or "PreemptLowerPriority",
    )
