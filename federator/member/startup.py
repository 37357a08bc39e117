"""Takes the start-up taint of a daemon from a node when the daemon is ready there.

Nodes come with the taint: a member process that set it would always be later than the scheduler.
Where several daemons name the same taint, it goes when all of them that have a pod on the node are
ready; a daemon without a pod on the node delays nothing.
"""

import random
from collections.abc import Iterator
from typing import Final

from federator.api import capacityfields, raw
from federator.kinds import registry
from federator.kube.control.applier import Applier
from federator.kube.control.work_queue import WorkQueue
from federator.kube.metrics import Metrics
from federator.member.cache.caches import Caches
from federator.member.cache.rows import SliceRow
from federator.member.expansion.expanding import Expander
from federator.model.kubernetes.taints import Taint
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef, Patch

_DAEMONS: Final = tuple(
    kind
    for kind, row in registry.WORKLOADS.items()
    if row.verbs is not None and row.verbs.startup_taint is not None
)


class StartupTaints:
    """One per process; a turn looks at one node."""

    def __init__(
        self,
        caches: Caches,
        expander: Expander,
        applier: Applier,
        *,
        rng: random.Random,
        metrics: Metrics | None,
    ) -> None:
        self._caches = caches
        self._expander = expander
        self._applier = applier
        self._queue: WorkQueue[str] = WorkQueue("startup-taints", rng=rng, metrics=metrics)
        self._tainted: set[str] = set()
        """Nodes that had a taint when they were looked at last."""
        caches.signals.to_node.append(self._on_node)
        caches.signals.to_expand.append(self._on_slice)

    async def run(self) -> None:
        """Until cancelled."""
        await self._queue.run(self._turn, 1)

    def _on_node(self, name: str) -> None:
        node = self._caches.nodes.get(("", name))
        if name in self._tainted or (node is not None and node.taints):
            self._queue.add(name)

    def _on_slice(self, key: WorkloadKey) -> None:
        row = self._caches.slice(key)
        if row is not None and row.verbs.startup_taint is not None:
            for node in self._caches.nodes.items().values():
                if node.taints:
                    self._queue.add(node.name)

    async def _turn(self, name: str) -> None:
        """Takes away the taints of daemons that are ready. Raises ApiErrors."""
        node = self._caches.nodes.get(("", name))
        taints_there = node.taints if node is not None else ()
        (self._tainted.add if taints_there else self._tainted.discard)(name)
        asked: set[Taint] = set()
        for row, taint in self._daemons():
            self._caches.signals.roll_up(row.key)  # it tells how many nodes have its taint
            asked.add(taint)
        done = {taint for taint in asked & set(taints_there) if self._ready(name, taint)}
        live = await self._caches.read_node(name) if done else None
        if live is None:
            return
        taints = raw.items(live, "spec", "taints")
        kept = [entry for entry in taints if not done & set(capacityfields.taints_of([entry]))]
        if len(kept) == len(taints):
            return
        meta = raw.mapping(live, "metadata")
        ref = ObjectRef("v1", "nodes", "", name, "Node")
        body = {"spec": {"taints": kept or None}}
        version = raw.text(meta, "resourceVersion")
        step = Patch(ref, body, uid=raw.text(meta, "uid"), resource_version=version)
        outcome = await self._applier.apply(step, name)
        if outcome.error is not None and not outcome.gone:
            raise outcome.error

    def _daemons(self) -> Iterator[tuple[SliceRow, Taint]]:
        """The slices that ask for a start-up taint."""
        for kind in _DAEMONS:
            for row in self._caches.slices[kind].items().values():
                asks = row.verbs.startup_taint
                if asks is None or row.deleting or self._expander.mark_of(row) is None:
                    continue
                taint = asks(row.obj())
                if taint is not None:
                    yield row, taint

    def _ready(self, node: str, taint: Taint) -> bool:
        """Whether daemons with this taint have pods on the node, and all are ready."""
        crews = {
            crew
            for row, asked in self._daemons()
            if asked == taint
            for crew in self._caches.crews_of(row)
        }
        pods = [
            pod
            for pod in self._caches.pods.items().values()
            if pod.node == node and pod.controller_uid in crews and not pod.deleting
        ]
        return bool(pods) and all(pod.ready for pod in pods)
