"""Nodes: descriptions of pools, the Node objects made of them, and the free capacity of each, kept
as changes come in.

`NodeIndex` follows the nodes and the pods bound to them; the scheduler reads it. Amounts are
integers: cpu in milli, all else in base units.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federator.embedded.controllers import requests
from federator.embedded.controllers.pods import Key, Pod
from federator.embedded.controllers.requests import Amounts
from federator.embedded.controllers.tools import Tools, condition, stated
from federator.embedded.schema import builtins, facts
from federator.embedded.storage.revisions import DELETED, Event, JsonObject
from federator.model.kubernetes import taints
from federator.model.kubernetes.taints import Taint

HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class NodePool:
    """`count` equal nodes `<name>-0`, `<name>-1`, ...; `annotations` may say how pods behave there
    (`behaviour`)."""

    count: int = 3
    allocatable: Mapping[str, str] = field(
        default_factory=lambda: {
            "cpu": "16",
            "memory": "64Gi",
            "pods": "110",
            "ephemeral-storage": "100Gi",
        }
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    name: str = "node"
    annotations: Mapping[str, str] = field(default_factory=dict)
    most: int | None = None
    """Nodes that its autoscaler keeps at most (`scheduling.nodescaler`); None: `count`, always."""
    start_s: float | None = 120.0
    """Seconds until a further node is there; None: it never comes."""
    idle_s: float = 600.0
    """Seconds after which a node without pods is removed."""
    lives_s: float | None = None
    """Seconds after which a further node vanishes with what runs on it; None: it does not."""


@dataclass(slots=True, eq=False)
class Node:
    """One node and what is bound to it."""

    name: str
    pods: dict[Key, Amounts] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    allocatable: dict[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    soft_taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    address: str = ""
    version: int = 0
    """Grows with every change of what is used, so that remembered scores can be told from true
    ones."""
    _emptiness: tuple[int, int] = (-1, 0)

    def describe(self, obj: JsonObject) -> None:
        """Takes over what the Node object says."""
        self.version += 1
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        metadata = obj["metadata"]
        self.labels = metadata.get("labels") or {}
        self.annotations = metadata.get("annotations") or {}
        self.allocatable = dict(
            requests.amounts(status.get("allocatable") or status.get("capacity") or {})
        )
        self.allocatable.setdefault("pods", 110)
        taints_there = tuple(taints.taint_from_dict(taint) for taint in spec.get("taints") or ())
        self.taints = tuple(taint for taint in taints_there if taint.effect in taints.REFUSING)
        self.soft_taints = tuple(
            taint for taint in taints_there if taint.effect not in taints.REFUSING
        )
        self.unschedulable = bool(spec.get("unschedulable"))
        ready = condition(status.get("conditions"), "Ready")
        self.ready = ready is None or ready["status"] == "True"
        self.address = next(
            (
                entry["address"]
                for entry in status.get("addresses") or ()
                if entry["type"] == "InternalIP"
            ),
            "",
        )

    def emptiness(self) -> int:
        """The score: thousandths of cpu and memory still free, added up; soft taints count against
        the node."""
        if self._emptiness[0] != self.version:
            total = -10_000 * len(self.soft_taints)
            for name in ("cpu", "memory"):
                have = self.allocatable.get(name, 0)
                if have > 0:
                    total += (have - self.used.get(name, 0)) * 1000 // have
            self._emptiness = (self.version, total)
        return self._emptiness[1]

    def charge(self, key: Key, wanted: Amounts) -> None:
        self.version += 1
        self.pods[key] = wanted
        used = self.used
        for name, amount in wanted:
            used[name] = used.get(name, 0) + amount

    def release(self, key: Key) -> bool:
        wanted = self.pods.pop(key, None)
        if wanted is None:
            return False
        self.version += 1
        used = self.used
        for name, amount in wanted:
            used[name] -= amount
        return True


class NodeIndex:
    """All nodes by name. `freed` grows whenever room may have appeared, so that waiting pods are
    tried again."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.by_name: dict[str, Node] = {}
        self.freed = 0
        self.placed = 0
        """Grows with every pod bound, for those that want to be near others."""
        self._priorities: dict[Key, int] = {}
        self._by_priority: collections.Counter[int] = collections.Counter()
        self._waiting: dict[str, dict[Key, Amounts]] = {}
        self._sizes = requests.Sizes()

    def notice(self, event: Event) -> None:
        """Follows Node objects."""
        name = event.key[1]
        if event.type is DELETED:
            self.by_name.pop(name, None)
            self.freed += 1
            return
        node = self.by_name.get(name)
        if node is None:
            node = self.by_name[name] = Node(name)
            for key, wanted in self._waiting.pop(name, {}).items():
                node.charge(key, wanted)
        node.describe(event.current.obj)
        self.freed += 1

    def on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Follows pods: a bound pod holds room until it has ended or is gone."""
        held = old is not None and bool(old.node) and not old.finished
        holds = new is not None and bool(new.node) and not new.finished
        if held == holds:
            return
        if holds and new is not None:
            self.placed += 1
            priority = self._priorities[new.key] = int(new.obj["spec"].get("priority") or 0)
            self._by_priority[priority] += 1
            wanted = self._sizes.of(new.obj)
            node = self.by_name.get(new.node)
            if node is None:
                self._waiting.setdefault(new.node, {})[new.key] = wanted
            else:
                node.charge(new.key, wanted)
        elif old is not None:
            self._by_priority[self._priorities.pop(old.key, 0)] -= 1
            node = self.by_name.get(old.node)
            if node is not None and node.release(old.key):
                self.freed += 1

    def has_below(self, priority: int) -> bool:
        """Whether any bound pod is less important."""
        return any(count > 0 and level < priority for level, count in self._by_priority.items())

    def is_down(self, name: str) -> bool:
        """Whether the node's kubelet does nothing: it is there, and not ready."""
        node = self.by_name.get(name)
        return node is not None and not node.ready

    def annotations(self, name: str) -> Mapping[str, str]:
        node = self.by_name.get(name)
        return {} if node is None else node.annotations

    def address(self, name: str) -> str:
        node = self.by_name.get(name)
        return "" if node is None else node.address


def provide(tools: Tools, pools: Sequence[NodePool]) -> Iterator[None]:
    """Makes the nodes of the pools that do not exist yet."""
    number = 0
    for pool in pools:
        for index in range(pool.count):
            number += 1
            name = f"{pool.name}-{index}"
            if tools.store.get(tools.kinds.nodes, "", name) is None:
                tools.store.create(tools.kinds.nodes, node_object(pool, name, number, tools.now()))
            yield


def node_object(pool: NodePool, name: str, number: int, now: str) -> JsonObject:
    """A Node as a healthy kubelet registers it. `number` makes its address."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
    }
    spec: dict[str, Any] = {"podCIDR": f"10.{64 + number // 256 % 64}.{number % 256}.0/24"}
    if pool.taints:
        spec["taints"] = [dict(taint) for taint in pool.taints]
    amounts = dict(pool.allocatable)
    amounts.setdefault("pods", "110")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {**labels, **pool.labels},
            "annotations": dict(pool.annotations),
        },
        "spec": spec,
        "status": {
            "addresses": [
                {
                    "type": "InternalIP",
                    "address": (
                        f"172.{18 + number // 65536 % 14}.{number // 256 % 256}.{number % 256}"
                    ),
                },
                {"type": "Hostname", "address": name},
            ],
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [
                stated(None, row, now, lastHeartbeatTime=now) for row in facts.of("nodeConditions")
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {**facts.of("nodeInfo"), "kubeletVersion": builtins.kubernetes_version()},
        },
    }
