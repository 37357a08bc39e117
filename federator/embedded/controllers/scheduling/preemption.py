"""Preemption: which pods of lower priority make way, and the room that is kept for the pods they
made way for.

Called by `scheduler` for a pod that found no node. Follows the default preemption of kube-scheduler
1.36 without disruption budgets: fewest and least important victims; a nominated node keeps its room
from pods of lower priority.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from federator.embedded.controllers.nodes import Node, NodeIndex
from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.embedded.controllers.requests import Amounts
from federator.embedded.controllers.scheduling import fit
from federator.embedded.controllers.scheduling.fit import Shape
from federator.embedded.controllers.scheduling.neighbours import Rules
from federator.embedded.controllers.tools import SCHEDULER, Tools

_WHY: Final = (
    "PreemptionByScheduler",
    "default-scheduler: preempting to accommodate a higher priority pod",
)


@dataclass(frozen=True, slots=True)
class _Claim:
    node: str
    priority: int
    wanted: Amounts


class Preemption:
    """The nominations of one cluster."""

    def __init__(self, tools: Tools, pods: PodIndex, nodes: NodeIndex) -> None:
        self._tools = tools
        self._pods = pods
        self._nodes = nodes
        self._claims: dict[Key, _Claim] = {}
        self._by_node: dict[str, dict[Key, _Claim]] = {}

    def forget(self, key: Key) -> None:
        """The pod was bound, or is gone."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._by_node[claim.node].pop(key, None)
            if not self._by_node[claim.node]:
                del self._by_node[claim.node]

    def allows(self, shape: Shape, node: Node, priority: int, key: Key) -> bool:
        """Whether the node has room besides what is kept there for others at least as important."""
        claims = self._by_node.get(node.name)
        if not claims:
            return True
        kept = [
            claim.wanted
            for other, claim in claims.items()
            if other != key and claim.priority >= priority
        ]
        return not kept or _fits(shape, node, node.used, kept)

    def make_way(self, pod: Pod, shape: Shape, rules: Rules | None, priority: int) -> str | None:
        """Deletes the victims of the best node and nominates it; its name, or None when no node can
        be had."""
        if pod.obj["spec"].get("preemptionPolicy") == "Never":
            return None
        claim = self._claims.get(pod.key)
        if claim is not None:
            if self._still_leaving(claim):
                return claim.node
            self.forget(pod.key)
        best: tuple[tuple[int, int, int, str], Node, list[Pod]] | None = None
        for node in self._nodes.by_name.values():
            if fit.refusal(shape, node) is not None:
                continue
            if rules is not None and rules.refusal(node) is not None:
                continue
            victims = self._victims(shape, node, priority)
            if victims is None:
                continue
            costs = [_priority(victim) for victim in victims]
            rank = (max(costs, default=-(2**31)), sum(costs), len(victims), node.name)
            if best is None or rank < best[0]:
                best = (rank, node, victims)
        if best is None:
            return None
        _, node, victims = best
        claim = self._claims[pod.key] = _Claim(node.name, priority, shape.wanted)
        self._by_node.setdefault(node.name, {})[pod.key] = claim
        for victim in victims:
            self._evict(victim, pod)
        return node.name

    def _still_leaving(self, claim: _Claim) -> bool:
        """Whether less important pods are on their way out of the nominated node."""
        node = self._nodes.by_name.get(claim.node)
        pods = [self._pods.by_key.get(key) for key in node.pods] if node is not None else []
        return any(
            pod is not None and pod.deleting and _priority(pod) < claim.priority for pod in pods
        )

    def _victims(self, shape: Shape, node: Node, priority: int) -> list[Pod] | None:
        """The pods that must go from a node, fewest first; None when not even all of them would
        do."""
        kept = [
            claim.wanted
            for claim in self._by_node.get(node.name, {}).values()
            if claim.priority >= priority
        ]
        used = dict(node.used)
        candidates = []
        for key, wanted in node.pods.items():
            pod = self._pods.by_key.get(key)
            if pod is None or _priority(pod) >= priority:
                continue
            _take(used, wanted)  # those going already leave their room as well
            if not pod.deleting:
                candidates.append((pod, wanted))
        if not _fits(shape, node, used, kept):
            return None
        victims = []
        # The most important ones are spared first, and among equals the older ones.
        candidates.sort(
            key=lambda entry: (
                -_priority(entry[0]),
                entry[0].status.get("startTime") or "",
                entry[0].key,
            )
        )
        for pod, wanted in candidates:
            spared = dict(used)
            for name, amount in wanted:
                spared[name] = spared.get(name, 0) + amount
            if _fits(shape, node, spared, kept):
                used = spared
            else:
                victims.append(pod)
        return victims

    def _evict(self, victim: Pod, winner: Pod) -> None:
        tools = self._tools
        pod = tools.disrupt(victim.obj, _WHY, manager=SCHEDULER)
        text = f"Preempted by pod {winner.uid} on node {victim.node}"
        tools.events.emit(pod, "Preempted", text, "default-scheduler")
        tools.delete(tools.kinds.pods, pod)


def _priority(pod: Pod) -> int:
    return int(pod.obj["spec"].get("priority") or 0)


def _take(used: dict[str, int], wanted: Amounts) -> None:
    for name, amount in wanted:
        used[name] -= amount


def _fits(shape: Shape, node: Node, used: Mapping[str, int], kept: list[Amounts]) -> bool:
    total = dict(used)
    for wanted in (*kept, shape.wanted):
        for name, amount in wanted:
            total[name] = total.get(name, 0) + amount
    asked = {name for name, _ in shape.wanted}
    return all(
        amount <= node.allocatable.get(name, 0) for name, amount in total.items() if name in asked
    )
