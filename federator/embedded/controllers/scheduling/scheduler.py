"""The scheduler stand-in: binds pending pods in order of priority to the emptiest node that fits.

Pods of one shape share a `ShapeQueue`: a heap of fitting nodes that is kept while nodes only fill
up and rebuilt once room was freed. A shape for which no node fits waits as a whole until something
is freed, so a thousand unschedulable pods cost one scan. Pods of a PodGroup are bound at once or
not at all (`gangs`); nobody is preempted for them.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.embedded.controllers import templates
from federator.embedded.controllers.kubelet import mounts, podstatus
from federator.embedded.controllers.nodes import Node, NodeIndex
from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.embedded.controllers.requests import Sizes
from federator.embedded.controllers.scheduling import fit
from federator.embedded.controllers.scheduling.diagnosis import explain
from federator.embedded.controllers.scheduling.fit import Shape
from federator.embedded.controllers.scheduling.gangs import Gangs, Ticket
from federator.embedded.controllers.scheduling.neighbours import Neighbours, Rules
from federator.embedded.controllers.scheduling.preemption import Preemption
from federator.embedded.controllers.tools import SCHEDULER, Tools, condition, stated
from federator.embedded.storage.revisions import ADDED, Event

_COMPONENT: Final = "default-scheduler"
_REWRITE_S: Final = 5.0
"""A waiting pod's message is not rewritten more often."""

_TOO_FEW: Final = "waiting for minCount pods from a gang to be scheduled"

_Entry = tuple[int, int, Key, str, "ShapeQueue | None"]
"""(-priority, arrival, key, uid, queue of its shape) of a queued pod; None for new pods."""


@dataclass(slots=True, eq=False)
class ShapeQueue:
    """The pending pods of one shape, and the nodes that could take them."""

    shape: Shape
    epoch: int = -1
    hopeless_at: int = -1
    heap: list[tuple[int, int, str, int]] = field(default_factory=list)
    domains: dict[str, frozenset[str]] = field(default_factory=dict)
    waiting: list[_Entry] = field(default_factory=list)
    message: str = ""
    message_at: float = 0.0


class Scheduler:
    def __init__(
        self, tools: Tools, pods: PodIndex, nodes: NodeIndex, neighbours: Neighbours, gangs: Gangs
    ) -> None:
        self._tools = tools
        self._pods = pods
        self._nodes = nodes
        self._neighbours = neighbours
        self._gangs = gangs
        self._sizes = Sizes()
        self._queue: list[_Entry] = []
        self._shape_queues: dict[tuple[Any, ...], ShapeQueue] = {}
        self._arrivals = 0
        self._tried_at = (-1, -1)
        self._claimless: dict[Key, list[_Entry]] = {}
        """Pods by the claim (namespace, name) that they wait for."""
        self._preemption = Preemption(tools, pods, nodes)
        pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        """A claim that comes is what its pods wait for; nodes are followed by the index."""
        if event.resource.key == self._tools.kinds.claims.key and event.type is ADDED:
            for entry in self._claimless.pop(event.key, ()):
                heapq.heappush(self._queue, entry)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or new.node or not new.active:
            if old is not None and not old.node:
                self._preemption.forget(old.key)
            return
        if old is None or old.obj["spec"] is not new.obj["spec"]:
            self._enqueue(new)

    def _enqueue(self, pod: Pod) -> None:
        spec = pod.obj["spec"]
        if spec.get("schedulerName", "default-scheduler") != "default-scheduler":
            return
        priority = spec.get("priority")
        if priority is None:
            priority = templates.priority_of(self._tools, spec)[1]
        self._arrivals += 1
        heapq.heappush(self._queue, (-priority, self._arrivals, pod.key, pod.uid, None))

    def steps(self) -> Iterator[None]:
        now, before = (self._nodes.freed, self._nodes.placed), self._tried_at
        for ticket in self._gangs.retry(freed=now[0] != before[0]):
            heapq.heappush(self._queue, (*ticket, None))
        if now != before:
            self._tried_at = now
            for shape_queue in self._shape_queues.values():
                # More pods help only those that look for company, or for an even spread.
                social = bool(
                    shape_queue.shape.neighbours.together or shape_queue.shape.neighbours.spread
                )
                if shape_queue.waiting and (social or now[0] != before[0]):
                    heapq.heappush(self._queue, heapq.heappop(shape_queue.waiting))
        while self._queue:
            entry = heapq.heappop(self._queue)
            pod = self._pods.by_key.get(entry[2])
            if pod is None or pod.uid != entry[3] or pod.node or not pod.active:
                self._advance(entry[4])
                continue
            self._schedule(pod, entry)
            yield
        if len(self._shape_queues) > 1000:
            self._shape_queues = {
                key: shape_queue
                for key, shape_queue in self._shape_queues.items()
                if shape_queue.waiting
            }

    def _advance(self, shape_queue: ShapeQueue | None) -> None:
        """Queues the next pod of the shape after one was bound or deleted."""
        if shape_queue is not None and shape_queue.waiting:
            heapq.heappush(self._queue, heapq.heappop(shape_queue.waiting))

    def _schedule(self, pod: Pod, entry: _Entry) -> None:
        if pod.obj["spec"].get("schedulingGates"):
            text = "Scheduling is blocked due to non-empty scheduling gates"
            self._refuse(pod, "SchedulingGated", text)
            return
        if self._waits_for_a_claim(pod, entry):
            return
        if (group := self._gangs.of(pod)) is not None:
            self._gangs.wait(group, entry[:4])
            self._schedule_together(group)
            return
        shape_queue = self._shape_queue(pod)
        entry = (*entry[:4], shape_queue)
        if shape_queue.epoch == self._nodes.freed and not shape_queue.heap and shape_queue.message:
            # Nothing was freed since this shape was refused; there is no need to look at the nodes
            # again.
            heapq.heappush(shape_queue.waiting, entry)
            nominated = self._make_way(shape_queue, pod, entry)
            if nominated or condition(pod.status.get("conditions"), "PodScheduled") is None:
                self._refuse(pod, "Unschedulable", shape_queue.message, nominated)
            return
        rules = self._neighbours.rules(
            pod, shape_queue.shape.neighbours, self._domains(shape_queue)
        )
        node = self._pick(shape_queue, rules, entry)
        if node is not None:
            self._bind(pod, node)
            self._advance(shape_queue)
            return
        heapq.heappush(shape_queue.waiting, entry)
        nominated = self._make_way(shape_queue, pod, entry)
        now = self._tools.clock.monotonic()
        fresh = shape_queue.message and now - shape_queue.message_at < _REWRITE_S
        if fresh and not nominated and condition(pod.status.get("conditions"), "PodScheduled"):
            return
        shape_queue.message = explain(
            shape_queue.shape, rules, self._nodes, pod.obj["spec"], preempted=bool(nominated)
        )
        shape_queue.message_at = now
        self._refuse(pod, "Unschedulable", shape_queue.message, nominated)

    def _schedule_together(self, group: Key) -> None:
        """Binds the pods of a group that wait, if enough of them find nodes at once."""
        lacks = self._gangs.lacks(group)
        if lacks is None:
            return
        nodes, left, message = self._try(self._gangs.take(group))
        if len(nodes) < lacks:
            left, nodes = [*left, *(ticket for ticket, _ in nodes)], []
        for ticket, node in nodes:
            self._bind(self._pods.by_key[ticket[2]], node)
        for ticket in left:
            self._gangs.wait(group, ticket)
            self._refuse(self._pods.by_key[ticket[2]], "Unschedulable", message)

    def _try(
        self, tickets: Sequence[Ticket]
    ) -> tuple[list[tuple[Ticket, Node]], list[Ticket], str]:
        """(pods and the nodes that they find together, those that find none, why the first of these
        does not). Nodes are charged with each pod in turn, and given back before anybody else
        looks."""
        freed, placed = self._nodes.freed, self._nodes.placed
        nodes: list[tuple[Ticket, Node]] = []
        left: list[Ticket] = []
        charged: list[tuple[Pod, Pod]] = []
        message = ""
        for ticket in tickets:
            pod = self._pods.by_key.get(ticket[2])
            if pod is None or pod.uid != ticket[3] or pod.node or not pod.active:
                continue
            shape_queue = self._shape_queue(pod)
            shape_queue.epoch = -1
            domains = self._domains(shape_queue)
            rules = self._neighbours.rules(pod, shape_queue.shape.neighbours, domains)
            node = self._pick(shape_queue, rules, (*ticket, shape_queue))
            shape_queue.epoch = -1  # its nodes are filled for a moment only
            if node is None:
                left.append(ticket)
                message = message or explain(
                    shape_queue.shape, rules, self._nodes, pod.obj["spec"], preempted=False
                )
                continue
            there = Pod({**pod.obj, "spec": {**pod.obj["spec"], "nodeName": node.name}})
            for follow in (self._nodes.on_pod, self._neighbours.on_pod):
                follow(pod, there)
            charged.append((pod, there))
            nodes.append((ticket, node))
        for pod, there in charged:
            for follow in (self._nodes.on_pod, self._neighbours.on_pod):
                follow(there, pod)
        self._nodes.freed, self._nodes.placed = freed, placed
        return nodes, left, message or _TOO_FEW

    def _waits_for_a_claim(self, pod: Pod, entry: _Entry) -> bool:
        tools, nodes = self._tools, len(self._nodes.by_name)
        for claim in mounts.claims(pod.obj):
            if tools.get(tools.kinds.claims, (pod.key[0], claim)) is not None:
                continue
            self._claimless.setdefault((pod.key[0], claim), []).append((*entry[:4], None))
            self._advance(entry[4])
            self._refuse(
                pod,
                "Unschedulable",
                f'0/{nodes} nodes are available: persistentvolumeclaim "{claim}" not found.'
                f" preemption: 0/{nodes} nodes"
                f" are available: {nodes} Preemption is not helpful for scheduling.",
            )
            return True
        return False

    def _make_way(self, shape_queue: ShapeQueue, pod: Pod, entry: _Entry) -> str:
        """The node that others leave for this pod, or "". Tried again only after something was
        freed."""
        if shape_queue.hopeless_at == self._nodes.freed or not self._nodes.has_below(-entry[0]):
            return ""
        rules = self._neighbours.rules(pod, shape_queue.shape.neighbours, shape_queue.domains)
        nominated = self._preemption.make_way(pod, shape_queue.shape, rules, -entry[0])
        if nominated is None:
            shape_queue.hopeless_at = self._nodes.freed
        return nominated or ""

    def _shape_queue(self, pod: Pod) -> ShapeQueue:
        spec = pod.obj["spec"]
        kept = (
            spec.get("containers"),
            spec.get("initContainers"),
            spec.get("nodeSelector"),
            spec.get("affinity"),
            spec.get("tolerations"),
            spec.get("topologySpreadConstraints"),
        )
        key: tuple[Any, ...] = tuple(id(part) for part in kept)
        if kept[3] is not None or kept[5] is not None:
            # Inter-pod rules look at labels and namespace as well; a completion index sets pods of
            # a Job apart.
            key = (*key, pod.key[0], tuple(sorted(pod.labels.items())))
        shape_queue = self._shape_queues.get(key)
        if shape_queue is None:
            shape_queue = self._shape_queues[key] = ShapeQueue(
                fit.shape_of(pod.obj, self._sizes.of(pod.obj), kept)
            )
        return shape_queue

    def _domains(self, shape_queue: ShapeQueue) -> dict[str, frozenset[str]]:
        """Rebuilds the node heap when room was freed since. Returns the topology values, by key, of
        the nodes that may take these pods."""
        if shape_queue.epoch == self._nodes.freed:
            return shape_queue.domains
        shape_queue.epoch = self._nodes.freed
        shape, by_name = shape_queue.shape, self._nodes.by_name
        nodes = (
            by_name.values()
            if shape.named is None
            else [by_name[n] for n in shape.named if n in by_name]
        )
        open_nodes = [node for node in nodes if fit.refusal(shape, node) is None]
        shape_queue.heap = [_score(node) for node in open_nodes if fit.fits(shape, node)]
        heapq.heapify(shape_queue.heap)
        keys = {rule.term.topology_key for rule in shape.neighbours.spread}
        shape_queue.domains = {
            key: frozenset(node.labels[key] for node in open_nodes if key in node.labels)
            for key in sorted(keys)
        }
        return shape_queue.domains

    def _pick(self, shape_queue: ShapeQueue, rules: Rules | None, entry: _Entry) -> Node | None:
        """The emptiest node that fits. Nodes that can only get worse leave the heap until room is
        freed."""
        heap, shape = shape_queue.heap, shape_queue.shape
        put_back: list[tuple[int, int, str, int]] = []
        chosen = None
        while heap:
            best = heapq.heappop(heap)
            node = self._nodes.by_name.get(best[2])
            if node is None or not fit.fits(shape, node):
                continue
            if node.version != best[3]:
                heapq.heappush(heap, _score(node))
                continue
            refused = rules.refusal(node) if rules is not None else None
            if refused is None and not self._preemption.allows(shape, node, -entry[0], entry[2]):
                refused = ("", False)
            if refused is None:
                chosen = node
                put_back.append(best)
                break
            if not refused[1]:
                put_back.append(best)
        for scored in put_back:
            heapq.heappush(heap, scored)
        return chosen

    def _bind(self, pod: Pod, node: Node) -> None:
        tools = self._tools
        obj = pod.obj
        status = podstatus.bound(obj, node.address, tools.now())
        tools.store.update(
            tools.kinds.pods,
            {**obj, "spec": {**obj["spec"], "nodeName": node.name}, "status": status},
            same_generation=True,
        )
        text = f"Successfully assigned {pod.key[0]}/{pod.name} to {node.name}"
        tools.events.emit(obj, "Scheduled", text, _COMPONENT)

    def _refuse(self, pod: Pod, reason: str, message: str, nominated: str = "") -> None:
        status = dict(pod.status)
        have = condition(status.get("conditions"), "PodScheduled")
        before = (have["reason"], have["message"]) if have is not None else ("", "")
        if before == (reason, message) and status.get("nominatedNodeName", "") == nominated:
            return
        old, row = status.get("conditions"), ("PodScheduled", "False", reason, message)
        entry = {
            "type": "PodScheduled",
            "observedGeneration": pod.obj["metadata"].get("generation", 1),
            **stated(old, row, self._tools.now(), lastProbeTime=None),
        }
        others = [other for other in old or () if other["type"] != "PodScheduled"]
        status["conditions"] = [*others, entry]
        if nominated:
            status["nominatedNodeName"] = nominated
        else:
            status.pop("nominatedNodeName", None)
        self._tools.set_status(self._tools.kinds.pods, pod.obj, status, manager=SCHEDULER)
        if reason == "Unschedulable":
            self._tools.events.emit(pod.obj, "FailedScheduling", message, _COMPONENT, warning=True)


def _score(node: Node) -> tuple[int, int, str, int]:
    return (-node.emptiness(), len(node.pods), node.name, node.version)
