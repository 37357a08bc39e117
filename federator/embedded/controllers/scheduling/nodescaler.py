"""The cluster autoscaler stand-in: adds nodes of a pool for pods that no node has room for, and
removes nodes that stand empty.

Only pools with a `most` grow and shrink. Pods count once the scheduler has marked them
Unschedulable. They are laid on the nodes that are on their way first, so that none is ordered
twice; then a node of the first pool that holds the pod is ordered, and is there `start_s` later. A
node without pods, DaemonSets' left out, is removed after `idle_s`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from federator.embedded.controllers import requests
from federator.embedded.controllers.agenda import Dirty
from federator.embedded.controllers.nodes import Node, NodeIndex, NodePool, node_object
from federator.embedded.controllers.pods import Key, Pod, PodIndex
from federator.embedded.controllers.scheduling import fit
from federator.embedded.controllers.tools import Tools, condition
from federator.embedded.storage.revisions import DELETED, Event

UNSCHEDULABLE: Final = "Unschedulable"


@dataclass(slots=True)
class _Ordered:
    """A node that is on its way."""

    pool: NodePool
    node: Node
    """As it will be, with the pods that are laid on it."""


class NodeScaler:
    """One for the pools of a cluster."""

    def __init__(
        self, tools: Tools, pods: PodIndex, nodes: NodeIndex, pools: Sequence[NodePool]
    ) -> None:
        self._tools = tools
        self._pods = pods
        self._nodes = nodes
        self.pools = [pool for pool in pools if pool.most is not None]
        """Those that it sizes; what they deliver may change while it runs."""
        self._waiting: set[Key] = set()
        """Pods that no node has room for."""
        self._ordered: dict[str, _Ordered] = {}
        self._arrived: Dirty[str] = Dirty()
        """Ordered nodes with a start time that is over."""
        self._leaving: Dirty[str] = Dirty()
        """Nodes that are taken away."""
        self._idle: dict[str, int] = {}
        """Nodes of its pools without pods -> number of the look that began the time."""
        self._looks = 0
        self._changed = False
        if self.pools:
            pods.listeners.append(self._on_pod)

    def notice(self, event: Event) -> None:
        """Nodes come and go, and room with them."""
        if self.pools:
            self._changed = True
            if event.type is DELETED:
                self._idle.pop(event.key[1], None)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        key = new.key if new is not None else old.key if old is not None else ("", "")
        waits = new is not None and new.active and not new.node and _is_marked(new)
        if waits:
            self._waiting.add(key)
        else:
            self._waiting.discard(key)
        bound = {pod.node for pod in (old, new) if pod is not None} - {""}
        self._changed = self._changed or waits or bool(bound)

    def steps(self) -> Iterator[None]:
        for name in self._arrived.drain():
            yield from self._register(name)
        for name in self._leaving.drain():
            self._idle.pop(name, None)
            if self._tools.get(self._tools.kinds.nodes, ("", name)) is not None:
                self._tools.store.delete(self._tools.kinds.nodes, "", name)
                yield
        if self._changed:
            self._changed = False
            self._order()
            self._watch_idle()

    def _order(self) -> None:
        """Orders nodes for pods that neither nodes nor ordered ones have room for."""
        for ordered in self._ordered.values():
            ordered.node = _blank(ordered.pool, ordered.node.name)
        for key in sorted(self._waiting):
            pod = self._pods.by_key[key]
            wanted = requests.of_spec(pod.obj["spec"])
            shape = fit.shape_of(pod.obj, wanted, ())
            if any(_takes(shape, node) for node in self._nodes.by_name.values()):
                continue  # the scheduler has not seen yet that a node is there
            holder = next(
                (each.node for each in self._ordered.values() if _takes(shape, each.node)), None
            )
            if holder is None:
                holder = self._new_for(shape)
            if holder is not None:
                holder.charge(key, wanted)

    def _new_for(self, shape: fit.Shape) -> Node | None:
        for pool in self.pools:
            names = {name for name in self._nodes.by_name if _is_of(name, pool)}
            names |= {name for name in self._ordered if _is_of(name, pool)}
            assert pool.most is not None
            if len(names) >= pool.most:
                continue
            free = (f"{pool.name}-{number}" for number in range(len(names) + 1))
            name = next(name for name in free if name not in names)
            node = _blank(pool, name)
            if _takes(shape, node):
                self._ordered[name] = _Ordered(pool, node)
                if pool.start_s is not None:
                    self._tools.agenda.after(pool.start_s, self._arrived.add, name)
                return node
        return None

    def _register(self, name: str) -> Iterator[None]:
        """The node is there."""
        ordered = self._ordered.pop(name, None)
        if ordered is None:
            return
        number = len(self._nodes.by_name) + 1
        obj = node_object(ordered.pool, name, number, self._tools.now())
        self._tools.store.create(self._tools.kinds.nodes, obj)
        self._changed = True
        if ordered.pool.lives_s is not None:
            self._tools.agenda.after(ordered.pool.lives_s, self._leaving.add, name)
        yield

    def _watch_idle(self) -> None:
        """Begins the time of nodes that have become empty."""
        for pool in self.pools:
            for name in [name for name in self._nodes.by_name if _is_of(name, pool)]:
                if self._is_used(name):
                    self._idle.pop(name, None)
                elif name not in self._idle:
                    self._looks += 1
                    self._idle[name] = self._looks
                    self._tools.agenda.after(pool.idle_s, self._retire, name, self._looks)

    def _is_used(self, name: str) -> bool:
        pods = [self._pods.by_key.get(key) for key in self._nodes.by_name[name].pods]
        return any(pod is not None and (pod.owner or ("", ""))[0] != "DaemonSet" for pod in pods)

    def _retire(self, name: str, look: int) -> None:
        if self._idle.get(name) == look and name in self._nodes.by_name:
            self._leaving.add(name)


def _is_marked(pod: Pod) -> bool:
    scheduled = condition(pod.status.get("conditions"), "PodScheduled")
    return scheduled is not None and scheduled.get("reason") == UNSCHEDULABLE


def _is_of(name: str, pool: NodePool) -> bool:
    head, _, number = name.rpartition("-")
    return head == pool.name and number.isdecimal()


def _blank(pool: NodePool, name: str) -> Node:
    node = Node(name)
    node.describe(node_object(pool, name, 1, ""))
    return node


def _takes(shape: fit.Shape, node: Node) -> bool:
    return fit.refusal(shape, node) is None and fit.fits(shape, node)
