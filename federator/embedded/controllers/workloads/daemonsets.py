"""The DaemonSet stand-in: one pod on every node that takes it, replaced a few at a time when the
template changes.

Follows the Kubernetes daemon set controller 1.37; the pods name their node by affinity and go
through the scheduler. Revisions are told apart by the hash label only; no ControllerRevision
objects are kept.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.controllers.keyed import PodOwner
from federator.embedded.controllers.nodes import Node, NodeIndex
from federator.embedded.controllers.pods import Pod, PodIndex
from federator.embedded.controllers.scheduling import fit
from federator.embedded.controllers.tools import Key, Tools
from federator.embedded.controllers.workloads import rolling
from federator.embedded.controllers.workloads.history import template_hash
from federator.embedded.controllers.workloads.replicasets import available_pods
from federator.embedded.storage.revisions import Event, JsonObject
from federator.model.kubernetes import taints

REVISION_LABEL: Final = "controller-revision-hash"
_TOLERATED: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("not-ready", "NoSchedule"),
        ("unreachable", "NoExecute"),
        ("unreachable", "NoSchedule"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
]


class DaemonSets(PodOwner):
    """One controller for all DaemonSets of a cluster."""

    COMPONENT = "daemonset-controller"

    def __init__(self, tools: Tools, pods: PodIndex, nodes: NodeIndex) -> None:
        super().__init__(tools, tools.kinds.daemonsets, pods)
        self._nodes = nodes

    def notice(self, event: Event) -> None:
        if event.resource.kind == "Node":
            for revision in self._tools.store.items(self._resource):
                self._dirty.add(revision.key)
        else:
            super().notice(event)

    def _sync(self, key: Key, obj: JsonObject) -> Iterator[None]:
        by_node: dict[str, list[Pod]] = {}
        for pod in self._pods.group(obj["metadata"]["uid"]).pods.values():
            by_node.setdefault(_target(pod), []).append(pod)
        wanted = [node for _, node in sorted(self._nodes.by_name.items()) if _takes(obj, node)]
        digest = template_hash(obj["spec"]["template"])
        if "deletionTimestamp" not in obj["metadata"]:
            yield from self._place(key, obj, wanted, by_node, digest)
            yield from self._roll(obj, wanted, by_node, digest)
        self._report(key, obj, wanted, by_node, digest)
        yield

    def _place(
        self,
        key: Key,
        obj: JsonObject,
        wanted: list[Node],
        by_node: dict[str, list[Pod]],
        digest: str,
    ) -> Iterator[None]:
        tools, refused = self._tools, ""
        for node in wanted:
            pods = by_node.get(node.name, ())
            for pod in pods:
                if pod.finished and not pod.deleting:
                    tools.delete(tools.kinds.pods, pod.obj)
                    yield
            if any(not pod.finished for pod in pods):
                continue
            mould = self._moulds.of(obj)
            base = f"{obj['metadata']['name']}-"
            name = base + tools.suffix()
            if refused := mould.refusal(name):
                break
            spec = {
                "affinity": _on(mould.spec.get("affinity"), node.name),
                "tolerations": _tolerations(mould.spec),
            }
            pod_obj = mould.pod(
                name, generate_name=base, labels={REVISION_LABEL: digest}, spec=spec
            )
            if (mould.namespace, pod_obj["metadata"]["name"]) not in self._pods.by_key:
                tools.store.create(tools.kinds.pods, pod_obj)
                self._say(obj, "SuccessfulCreate", f"Created pod: {name}")
            yield
        if refused:
            self._refused(key, obj, f"Error creating: {refused}")
        else:
            self._backoff.forget(key)
        names = {node.name for node in wanted}
        for name, pods in sorted(by_node.items()):
            # A node that is there but does not take the pod; pods of nodes that are gone go as
            # well.
            if name not in names:
                for pod in pods:
                    if pod.active:
                        tools.delete(tools.kinds.pods, pod.obj)
                        yield

    def _roll(
        self, obj: JsonObject, wanted: list[Node], by_node: dict[str, list[Pod]], digest: str
    ) -> Iterator[None]:
        strategy = obj["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        budget = max(1, rolling.scaled(limit, len(wanted), up=True))
        old: list[Pod] = []
        for node in wanted:
            active = [pod for pod in by_node.get(node.name, ()) if pod.active]
            if not active or not active[0].ready:
                budget -= 1
            old += [pod for pod in active if pod.labels.get(REVISION_LABEL) != digest]
        # Pods that are down anyway cost nothing to replace.
        for pod in sorted(old, key=lambda pod: (pod.ready, pod.name)):
            if pod.ready:
                if budget <= 0:
                    return
                budget -= 1
            self._tools.delete(self._tools.kinds.pods, pod.obj)
            yield

    def _report(
        self,
        key: Key,
        obj: JsonObject,
        wanted: list[Node],
        by_node: dict[str, list[Pod]],
        digest: str,
    ) -> None:
        names = {node.name for node in wanted}
        active = [
            pod for name, pods in by_node.items() if name in names for pod in pods if pod.active
        ]
        misplaced = sum(
            pod.active for name, pods in by_node.items() if name not in names for pod in pods
        )
        group = self._pods.group(obj["metadata"]["uid"])
        available, next_change = available_pods(
            self._tools, group, obj["spec"].get("minReadySeconds") or 0
        )
        status: dict[str, Any] = {
            "currentNumberScheduled": len(active),
            "numberMisscheduled": misplaced,
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(pod.ready for pod in active),
            "observedGeneration": obj["metadata"]["generation"],
            "updatedNumberScheduled": sum(
                pod.labels.get(REVISION_LABEL) == digest for pod in active
            ),
            "numberAvailable": available,
            "numberUnavailable": max(0, len(wanted) - available),
        }
        optional = ("updatedNumberScheduled", "numberAvailable", "numberUnavailable")
        kept = tuple(status.keys() - set(optional))
        current = self._tools.get(self._resource, key)
        if current is not None and current["metadata"]["uid"] == obj["metadata"]["uid"]:
            self._write_status(current, status, kept, next_change)


def _target(pod: Pod) -> str:
    """The node a daemon pod is on or meant for."""
    if pod.node:
        return pod.node
    affinity = (pod.obj["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for entry in term.get("matchFields") or ():
            return str(entry["values"][0])
    return ""


def _takes(obj: JsonObject, node: Node) -> bool:
    spec = obj["spec"]["template"].get("spec") or {}
    tolerations = [taints.toleration_from_dict(entry) for entry in _tolerations(spec)]
    return taints.untolerated(node.taints, tolerations) is None and fit.node_matches(spec, node)


def _tolerations(spec: dict[str, Any]) -> list[dict[str, Any]]:
    own = [entry for entry in spec.get("tolerations") or () if "tolerationSeconds" not in entry]
    return own + [entry for entry in _TOLERATED if entry not in own]


def _on(affinity: dict[str, Any] | None, name: str) -> dict[str, Any]:
    """The template's affinity, narrowed to one node. Its own node rules were checked already, so
    they are replaced."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {
        **(affinity or {}),
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
    }
