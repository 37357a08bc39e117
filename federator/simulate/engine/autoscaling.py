"""The autoscalers of a simulation: which nodes they order, when these come and go, and what the hub
does about nodes that do not come.

Copies that were placed and that no node has room for are Pending in their cluster. The nodes for
them are counted by the functions by which the hub promises nodes, so that none is ordered twice. A
node is there after the minutes of its class. Copies with the highest priority are bound first, then
those that have waited longest. A node that has stood empty for the stated time is removed.

Copies that are still Pending after twice the minutes of the slowest class that could hold them are
given up, by the rules of the hub's `placing/unschedulable`: their cluster is capped at what it
bound, and nothing is promised of these classes for a while.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.model.ask import PodShape
from federator.model.decision import Reason
from federator.model.names import WorkloadKey
from federator.model.scaleup import NodeClass, ScaleUp
from federator.placement.growth.growth import largest_first
from federator.placement.growth.promises import Promises, late_after_s
from federator.scheduling.queueing_hints import Hint, HintKind
from federator.simulate.engine.fleet import SimulatedFleet
from federator.simulate.engine.members.growing import GrowingMember, Pods
from federator.simulate.engine.running import Running
from federator.simulate.outcome import SCALING_UP, GrownNode, NodePrice

UNSCHEDULABLE_AFTER_S: Final = 60
"""Without nodes that could be added, copies are given up then: the hub's default."""
CAPPED_S: Final = 600
"""How long a cap is in force: the hub's default `unschedulable_decay_s`."""


@dataclass(slots=True)
class _Node:
    at: int
    """Number of its class in the cluster."""
    life: GrownNode
    """As far as it is known."""
    comes_s: int | None
    """None: it does not come, for what is known now."""


@dataclass(slots=True)
class _Cluster:
    """The autoscaler of one cluster, from when the cluster comes until it is lost."""

    member: GrowingMember
    stated: tuple[NodeClass, ...]
    """Its classes, at the prices of now."""
    barren: set[int]
    """Classes of which no node comes."""
    promises: Promises = field(default_factory=Promises)
    on_the_way: list[_Node] = field(default_factory=list)
    there: dict[int, _Node] = field(default_factory=dict)
    """By the numbers of the member."""
    empty_since: dict[int, int] = field(default_factory=dict)
    since: dict[WorkloadKey, int] = field(default_factory=dict)
    """Work with copies that are Pending here -> since when."""
    moves: int = -1
    """Of the member, when copies were bound last."""
    stale: bool = True
    """Whether the pods that wait may be others than those that the member reports."""


@dataclass(slots=True)
class Changes:
    """What the scheduler of a cluster, or its autoscaler, has done."""

    bound: list[Running] = field(default_factory=list)
    due: list[WorkloadKey] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)


class Autoscalers:
    """Those of all clusters that state classes of nodes."""

    def __init__(
        self, fleet: SimulatedFleet, live: Mapping[WorkloadKey, Running], idle_s: int
    ) -> None:
        """`idle_s`: after so long without pods a node is removed."""
        self._fleet, self._live, self._idle_s = fleet, live, idle_s
        self._clusters: dict[str, _Cluster] = {}
        self._lives: list[_Node] = []
        """Every node that was ordered."""
        self.prices: list[NodePrice] = []
        self._agenda: list[tuple[int, int, str, WorkloadKey | None]] = []
        """Heap of (second, number, cluster, work): when there is something to look at."""
        self._numbers = itertools.count()
        self._looks: dict[tuple[str, WorkloadKey], int] = {}
        """The last of those of the agenda that are for this work."""
        self._barren: dict[str, set[int]] = {}
        """Cluster -> classes of which no node comes; also while the cluster is lost."""
        self._caps: dict[WorkloadKey, dict[str, tuple[int, int]]] = {}
        """Work -> cluster -> (copies that it could bind, second until which that counts)."""
        for name in fleet.members:
            self.join(name, 0)

    # -- clusters ----------------------------------------------------------------------------------

    def join(self, name: str, now_s: int) -> None:
        """A cluster has come, or come back, without any node of its autoscaler."""
        member = self._fleet.members[name]
        if isinstance(member, GrowingMember):
            known = {(last.cluster, last.node_class): last.per_hour for last in self.prices}
            self.prices += [
                NodePrice(now_s, name, each.name, each.price or 0)
                for each in member.classes
                if (name, each.name) not in known
            ]
            stated = tuple(
                replace(each, price=known.get((name, each.name), each.price))
                for each in member.classes
            )
            self._clusters[name] = _Cluster(member, stated, self._barren.setdefault(name, set()))
            self._refresh(name, now_s)

    def lose(self, name: str, now_s: int) -> None:
        """The cluster is gone with its nodes; nothing is bound there any more."""
        cluster = self._clusters.pop(name, None)
        for node in cluster.there.values() if cluster is not None else ():
            node.life = replace(node.life, removed_s=now_s)

    def renew(self, name: str, now_s: int) -> None:
        """The cluster has other nodes of its own: those of its autoscaler are there still."""
        cluster, member = self._clusters.get(name), self._fleet.members.get(name)
        if cluster is None or not isinstance(member, GrowingMember):
            return
        cluster.member, cluster.moves, cluster.stale = member, -1, True
        cluster.there = {member.add(node.at): node for node in cluster.there.values()}
        cluster.empty_since.clear()
        self._refresh(name, now_s)

    def reprice(self, name: str, node_class: str, price: int, now_s: int) -> None:
        """A node of the class costs so many millionths an hour from now on."""
        self.prices.append(NodePrice(now_s, name, node_class, price))
        cluster = self._clusters.get(name)
        if cluster is not None:
            cluster.stated = tuple(
                replace(each, price=price) if each.name == node_class else each
                for each in cluster.stated
            )
            self._refresh(name, now_s)

    def deliver(self, name: str, node_class: str, now_s: int, *, delivers: bool) -> None:
        """Nodes of the class, or of all with "", come from now on, or do not."""
        stated = self._fleet.described[name].scale_up
        chosen = {at for at, each in enumerate(stated) if node_class in ("", each.name)}
        barren = self._barren[name]
        (barren.difference_update if delivers else barren.update)(chosen)
        cluster = self._clusters.get(name)
        for node in cluster.on_the_way if cluster is not None else ():
            if node.at in chosen and (node.comes_s is None) == delivers:
                node.comes_s = self._due(name, node.at, now_s)

    # -- copies that wait --------------------------------------------------------------------------

    def note(self, running: Running, now_s: int) -> None:
        """A decision is in force: which of its copies wait for nodes now."""
        key, before = running.ask.key, running.pending
        shares = {share.cluster: share.slots for share in running.shares}
        running.pending = {
            name: lacking
            for name in self._clusters
            if (lacking := shares.get(name, 0) - running.copies(name)) > 0
        }
        for name in {*before, *running.pending}:
            cluster = self._clusters[name]
            cluster.stale = True
            if name not in running.pending:
                del cluster.since[key]
                continue
            running.waited_for_nodes += max(running.pending[name] - before.get(name, 0), 0)
            if key not in cluster.since:
                cluster.since[key] = now_s
                self._look(now_s + UNSCHEDULABLE_AFTER_S, name, key)
        trusted = running.pending.keys() - self.capped(key, now_s).keys()
        if trusted and running.waiting_for == Reason.UNSCHEDULABLE.value:
            running.waits_from(now_s, SCALING_UP)

    def forget(self, running: Running) -> None:
        """The work is over, or has nothing in any cluster."""
        for name in running.pending:
            self._clusters[name].since.pop(running.ask.key, None)
            self._clusters[name].stale = True
        running.pending.clear()

    def leave(self, running: Running, name: str) -> None:
        """The work has nothing in the cluster any more."""
        if running.pending.pop(name, None) is not None:
            del self._clusters[name].since[running.ask.key]
            self._clusters[name].stale = True

    def capped(self, key: WorkloadKey, now_s: int) -> Mapping[str, int]:
        """Cluster -> copies that it could bind lately."""
        caps = self._caps.get(key, {})
        return {name: most for name, (most, until_s) in caps.items() if until_s > now_s}

    # -- time --------------------------------------------------------------------------------------

    @property
    def next_s(self) -> int | None:
        """When there is something to look at."""
        return self._agenda[0][0] if self._agenda else None

    def happen(self, now_s: int) -> Changes:
        """Nodes come and go, copies are bound, and what did not come is given up."""
        changes = Changes()
        looks: list[tuple[str, WorkloadKey]] = []
        while self._agenda and self._agenda[0][0] <= now_s:
            at_s, _, name, key = heapq.heappop(self._agenda)
            if name in self._clusters:
                if key is not None:
                    if self._looks.get((name, key)) == at_s:
                        looks.append((name, key))
                elif self._come(name, now_s):
                    changes.hints.append(Hint(HintKind.ROOM, name))
        for name, cluster in self._clusters.items():
            if cluster.since and cluster.member.moves != cluster.moves:
                self._bind(name, cluster, changes, now_s)
        for name, cluster in self._clusters.items():
            if cluster.empty_since and self._retire(cluster, now_s):
                changes.hints.append(Hint(HintKind.ROOM, name))
        for name, key in looks:
            self._judge(name, key, changes, now_s)
        self.report()
        return changes

    def report(self) -> None:
        """Members report the pods that wait for nodes."""
        for name, cluster in self._clusters.items():
            if cluster.stale:
                cluster.stale = False
                cluster.member.wait(self._pods(name, cluster))

    def order(self, now_s: int) -> None:
        """Orders the nodes that are needed and not on the way yet, and notes which are empty."""
        self.report()
        for name, cluster in self._clusters.items():
            if cluster.since or cluster.on_the_way:
                self._order(name, cluster, now_s)
            if cluster.there:
                self._note_empty(name, cluster, now_s)

    def lives(self) -> tuple[GrownNode, ...]:
        """Every node that was ordered, by order."""
        return tuple(node.life for node in self._lives)

    def _look(self, at_s: int, name: str, key: WorkloadKey | None = None) -> None:
        if key is not None:
            self._looks[name, key] = at_s
        heapq.heappush(self._agenda, (at_s, next(self._numbers), name, key))

    def _due(self, name: str, at: int, now_s: int) -> int | None:
        """When a node that is ordered now is there."""
        cluster = self._clusters[name]
        if at in cluster.barren:
            return None
        comes_s = now_s + cluster.stated[at].minutes * 60
        self._look(comes_s, name)
        return comes_s

    def _come(self, name: str, now_s: int) -> bool:
        """Nodes arrive; whether there is more room, or more that can be added."""
        cluster, came = self._clusters[name], False
        due = (node for node in cluster.on_the_way if node.comes_s is not None)
        for node in [each for each in due if (each.comes_s or 0) <= now_s]:
            cluster.on_the_way.remove(node)
            node.life = replace(node.life, ready_s=now_s)
            cluster.there[cluster.member.add(node.at)] = node
            came = True
        return self._refresh(name, now_s) or came

    def _refresh(self, name: str, now_s: int) -> bool:
        """The hub counts on those classes that are not late. Returns whether that has changed."""
        cluster = self._clusters[name]
        trusted = cluster.promises.in_force(cluster.stated, cluster.member.machines, now_s)
        if trusted == cluster.member.classes:
            return False
        self._fleet.change(name, scale_up=trusted)
        return True

    def _bind(self, name: str, cluster: _Cluster, changes: Changes, now_s: int) -> None:
        """The scheduler of the cluster looks at the pods that wait."""

        def turn(key: WorkloadKey) -> tuple[int, int, WorkloadKey]:
            return -self._live[key].ask.priority, cluster.since[key], key

        for key in sorted(cluster.since, key=turn):
            running = self._live[key]
            shape = self._shape(running, name)
            bound = cluster.member.take(shape, running.pending[name], key.namespace)
            if not bound:
                continue
            running.enter(name, bound, now_s)
            running.pending[name] -= sum(copies for _, copies in bound)
            if not running.pending[name]:
                del running.pending[name], cluster.since[key]
            running.came(now_s)
            changes.bound.append(running)
            cluster.stale = True
        cluster.moves = cluster.member.moves

    def _shape(self, running: Running, name: str) -> PodShape:
        return running.shape_in(next(share for share in running.shares if share.cluster == name))

    def _pods(self, name: str, cluster: _Cluster) -> Pods:
        """The pods that wait, largest first as the hub counts them."""
        pods: Counter[PodShape] = Counter()
        for key in cluster.since:
            running = self._live[key]
            for pod, count in self._shape(running, name).pods:
                pods[pod] += count * running.pending[name]
        return tuple(sorted(pods.items(), key=largest_first))

    def _order(self, name: str, cluster: _Cluster, now_s: int) -> None:
        for at, needed in enumerate(cluster.member.ordered()):
            ordered = [node for node in cluster.on_the_way if node.at == at]
            beyond = max(len(ordered) - needed, 0)
            for node in [each for each in ordered if each.comes_s is None][:beyond]:
                cluster.on_the_way.remove(node)  # nobody waits for it any more
            for _ in range(needed - len(ordered)):
                life = GrownNode(name, cluster.stated[at].name, now_s)
                node = _Node(at, life, self._due(name, at, now_s))
                cluster.on_the_way.append(node)
                self._lives.append(node)

    def _note_empty(self, name: str, cluster: _Cluster, now_s: int) -> None:
        empty = set(cluster.member.empty())
        for node in cluster.empty_since.keys() - empty:
            del cluster.empty_since[node]
        for node in sorted(empty - cluster.empty_since.keys()):
            cluster.empty_since[node] = now_s
            self._look(now_s + self._idle_s, name)

    def _retire(self, cluster: _Cluster, now_s: int) -> bool:
        """Removes the nodes that have been empty for long enough. Returns whether there are any."""
        over = [n for n, since_s in cluster.empty_since.items() if since_s + self._idle_s <= now_s]
        gone = sorted({*over} & {*cluster.member.empty()}) if over else []
        for node in gone:
            cluster.member.remove(node)
            del cluster.empty_since[node]
            cluster.there[node].life = replace(cluster.there[node].life, removed_s=now_s)
            del cluster.there[node]
        return bool(gone)

    def _judge(self, name: str, key: WorkloadKey, changes: Changes, now_s: int) -> None:
        """Gives up copies that have waited for too long."""
        cluster, running = self._clusters[name], self._live.get(key)
        if running is None:
            self._caps.pop(key, None)
            return
        if key not in cluster.since:
            if running.missing and name in self._caps.get(key, {}):
                changes.due.append(key)  # its cap is over, so that the cluster is tried again
            return
        never = running.ask.policy.scale_up is ScaleUp.NEVER
        pods = () if never else self._shape(running, name).pods
        coming = cluster.member.could_add_for(pods)
        after_s = int(max([UNSCHEDULABLE_AFTER_S, *map(late_after_s, coming)]))
        if now_s < cluster.since[key] + after_s:
            self._look(cluster.since[key] + after_s, name, key)
            return
        until_s = now_s + CAPPED_S
        self._caps.setdefault(key, {})[name] = running.copies(name), until_s
        self._look(until_s, name, key)
        changes.due.append(key)
        for each in coming:
            if cluster.promises.note_late(each, cluster.member.machines, now_s) is not None:
                self._look(int(cluster.promises.until_s(each.name)), name)
        self._refresh(name, now_s)
