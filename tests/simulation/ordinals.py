"""Stateful sets and daemons in simulated worlds, and the rule of ordinals, by objects alone: no
ordinal is in the slices of two clusters at once.

A slice of a stateful set is deleted in the foreground, so it is there as long as its pods are.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from federator.api import membercluster, raw
from federator.api.membercluster import Removal
from federator.model import shards
from federator.model.shards import Ranges
from tests.simulation.invariants import Step

STATEFUL, DAEMON, NAMESPACE = "PinterestStatefulSet", "PinterestDaemon", "data"
TWICE = "1 no ordinal is given to two clusters"
PER_MILLE = 150
"""Of all worlds, so many have a stateful set and a daemon."""
SCALES = 6


class Numbered:
    """The stateful set and the daemon of one world: what their user does."""

    def __init__(self, rng: random.Random) -> None:
        self.any = rng.randrange(1000) < PER_MILLE
        self._rng = rng

    def begin(self, container: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(kind, name, body) of what is created."""
        if self.any:
            template = {"spec": {"containers": [dict(container)]}}
            replicas = self._rng.randint(1, 6)
            yield STATEFUL, "kv", {"spec": {"replicas": replicas, "template": template}}
            yield DAEMON, "agent", {"spec": {"template": template}}

    def moves(self) -> list[dict[str, Any]]:
        """Patches of the stateful set."""
        count = SCALES if self.any else 0
        return [{"spec": {"replicas": self._rng.randint(0, 8)}} for _ in range(count)]


class OnePlace:
    """Remembers which ordinals the slices of each cluster have, of the first host's workloads. A
    host that is restored from a backup has forgotten where some began. What an operator leaves in a
    cluster that he takes out of the fleet by force is not waited for, and not judged until it has
    gone."""

    def __init__(self) -> None:
        self.judged: Counter[str] = Counter()
        self._host: object = None
        self._has: dict[str, dict[str, Ranges]] = {}
        """uid of a workload -> cluster -> its ordinals there."""
        self._left: set[tuple[str, str]] = set()
        """(uid of a workload, cluster) of slices that were there when their cluster left."""

    def breaches(self, step: Step) -> list[str]:
        """What one write breaks."""
        if step.kind == "MemberCluster" and (step.new is None or _is_given_up(step.new)):
            name = step.obj["metadata"]["name"]
            self._left |= {(uid, name) for uid, clusters in self._has.items() if name in clusters}
        if step.kind != STATEFUL or step.cluster == "host":
            return []
        self._host = self._host or step.clusters["host"]
        if step.clusters["host"] is not self._host:
            return []
        uid = raw.text(step.obj, "spec", "slice", "workloadUID")
        clusters = self._has.setdefault(uid, {})
        clusters.pop(step.cluster, None)
        if step.new is None or not uid:
            self._left.discard((uid, step.cluster))
            return []
        mine = shards.normal(raw.ranges(step.new, "spec", "slice", "ranges"))
        clusters[step.cluster] = mine
        if (uid, step.cluster) in self._left:
            return []
        self.judged[TWICE] += 1
        return [
            f"{TWICE}: {step.name} in {step.cluster} and {other}: {shards.text(both)}"
            for other, theirs in clusters.items()
            if other != step.cluster
            and (uid, other) not in self._left
            and (both := shards.intersect(mine, theirs))
        ]


def _is_given_up(cluster: Mapping[str, Any]) -> bool:
    """Whether an operator takes it out of the fleet with whatever runs there."""
    leaves = "deletionTimestamp" in cluster["metadata"]
    return leaves and membercluster.removal(cluster) in (Removal.LOST, Removal.ORPHAN)


def from_zero(pieces: Callable[..., Ranges]) -> Callable[..., Ranges]:
    """A bug: each cluster counts its ordinals from 0."""

    def counted(plan: Any, cluster: str) -> Ranges:
        count = shards.size(pieces(plan, cluster))
        return ((0, count - 1),) if count else ()

    return counted
