"""What happens to pods when their node is unwell: taints, lost readiness, eviction, and the pods of
nodes that are gone.

Follows the Kubernetes node lifecycle, taint eviction and pod garbage collection controllers 1.37. A
node is made unwell by writing its Ready condition (False or Unknown) through the API; its kubelet
then does nothing until Ready is True again.
"""

from collections.abc import Iterator
from typing import Any, Final

from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.kubelet import podstatus
from federator.embedded.controllers.nodes import NodeIndex
from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.embedded.controllers.tools import Tools, condition
from federator.embedded.storage.revisions import Event, JsonObject
from federator.model.kubernetes import taints

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
CORDONED: Final = "node.kubernetes.io/unschedulable"
_OURS: Final = frozenset({NOT_READY, UNREACHABLE, CORDONED})
_GONE_S: Final = 40.0
"""How long pods are left alone after their node was deleted."""
_COMPONENT: Final = "taint-eviction-controller"


class NodeLife:
    """One controller for all nodes of a cluster."""

    def __init__(self, tools: Tools, pods: PodIndex, nodes: NodeIndex) -> None:
        self._tools = tools
        self._pods = pods
        self._nodes = nodes
        self._dirty: Dirty[str] = Dirty()
        self._evictions: Dirty[tuple[Key, str]] = Dirty()
        self._bound: dict[str, set[Key]] = {}
        pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        self._dirty.add(event.key[1])

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None and old.node:
                self._bound.get(old.node, set()).discard(old.key)
            return
        if new.node and (old is None or not old.node):
            self._bound.setdefault(new.node, set()).add(new.key)
            node = self._nodes.by_name.get(new.node)
            if node is None or not node.ready or node.taints:
                self._dirty.add(new.node)

    def steps(self) -> Iterator[None]:
        for name in self._dirty.drain():
            obj = self._tools.get(self._tools.kinds.nodes, ("", name))
            if obj is None:
                if self._bound.get(name):
                    self._tools.agenda.after(_GONE_S, self._mark_gone, name)
                continue
            self._taint(obj)
            yield
            yield from self._look_after(name)
        for key, uid in self._evictions.drain():
            pod = self._pods.by_key.get(key)
            if pod is not None and pod.uid == uid and pod.active:
                self._evict(pod)
                yield

    def _taint(self, obj: JsonObject) -> None:
        """Keeps the taints that tell of the node's state."""
        ready = condition((obj.get("status") or {}).get("conditions"), "Ready")
        value = ready["status"] if ready is not None else "True"
        wanted: list[tuple[str, str]] = []
        if value != "True":
            key = NOT_READY if value == "False" else UNREACHABLE
            wanted += [(key, "NoSchedule"), (key, "NoExecute")]
        if obj["spec"].get("unschedulable"):
            wanted.append((CORDONED, "NoSchedule"))
        have = obj["spec"].get("taints") or []
        kept = [
            taint
            for taint in have
            if taint["key"] not in _OURS or (taint["key"], taint["effect"]) in wanted
        ]
        present = {(taint["key"], taint["effect"]) for taint in kept}
        new: list[dict[str, Any]] = [
            {"key": key, "effect": effect} for key, effect in wanted if (key, effect) not in present
        ]
        for taint in new:
            if taint["effect"] == "NoExecute":
                taint["timeAdded"] = self._tools.now()
        if not new and len(kept) == len(have):
            return
        spec = {**obj["spec"], "taints": kept + new}
        if not spec["taints"]:
            del spec["taints"]
        self._tools.store.update(self._tools.kinds.nodes, {**obj, "spec": spec})

    def _look_after(self, name: str) -> Iterator[None]:
        node = self._nodes.by_name.get(name)
        if node is None:
            return
        for key in sorted(self._bound.get(name, ())):
            pod = self._pods.by_key.get(key)
            if pod is None or not pod.active:
                continue
            if not node.ready and pod.ready:
                status = podstatus.with_ready(pod.obj, self._tools.now(), ready=False)
                self._tools.set_status(self._tools.kinds.pods, pod.obj, status)
                yield
            self._judge(pod, [taint for taint in node.taints if taint.effect == "NoExecute"])

    def _judge(self, pod: Pod, taints_there: list[taints.Taint]) -> None:
        """Evicts now, later or never, by the pod's tolerations of NoExecute taints."""
        if not taints_there:
            return
        tolerations = [
            taints.toleration_from_dict(toleration)
            for toleration in pod.obj["spec"].get("tolerations") or ()
        ]
        soonest: int | None = None
        for taint in taints_there:
            matching = [toleration for toleration in tolerations if toleration.tolerates(taint)]
            if not matching:
                self._evictions.add((pod.key, pod.uid))
                return
            limits = [toleration.seconds for toleration in matching if toleration.seconds >= 0]
            if limits and (soonest is None or min(limits) < soonest):
                soonest = min(limits)
        if soonest is not None:
            self._tools.agenda.after(float(soonest), self._evict_if_still, pod.key, pod.uid)

    def _evict_if_still(self, key: Key, uid: str) -> None:
        pod = self._pods.by_key.get(key)
        node = self._nodes.by_name.get(pod.node) if pod is not None else None
        if (
            pod is not None
            and node is not None
            and any(taint.effect == "NoExecute" for taint in node.taints)
        ):
            self._evictions.add((key, uid))

    def _mark_gone(self, name: str) -> None:
        if name not in self._nodes.by_name:
            for key in sorted(self._bound.get(name, ())):
                pod = self._pods.by_key.get(key)
                if pod is not None:
                    self._evictions.add((key, pod.uid))

    def _evict(self, pod: Pod) -> None:
        tools, gone = self._tools, pod.node not in self._nodes.by_name
        if gone:  # no kubelet is left to report how it ended
            why = "DeletionByPodGC", "PodGC: node no longer exists"
        else:
            why = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        obj = tools.disrupt(pod.obj, why, failed=gone)
        if not gone:
            text = f"Marking for deletion Pod {pod.key[0]}/{pod.name}"
            tools.events.emit(obj, "TaintManagerEviction", text, _COMPONENT)
        tools.delete(tools.kinds.pods, obj)
