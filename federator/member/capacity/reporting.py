"""Writes the ClusterCapacity status: what the nodes offer, what is left, and exact answers to the
shapes that the hub asks about.

Free = allocatable - what bound pods have - what is owed: slices up to what they are entitled to,
pods that wait, DaemonSet pods that are missing. Computed when something changed, at most once per
`capacity_interval_s`; written only when it says something new.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from federator.api import capacityfields, clustercapacity, raw
from federator.api.capacityfields import MAX_MACHINES, MAX_WAITING
from federator.kinds import registry, verbs
from federator.kube import errors
from federator.kube.clock import Clock
from federator.kube.control.applier import Applier
from federator.member.cache.caches import Caches
from federator.member.cache.rows import Node
from federator.member.capacity.limits import NamespaceReport
from federator.member.capacity.owing import Entitlement, Owing
from federator.member.capacity.room import Masks, Room
from federator.member.options import MemberOptions
from federator.model.ask import PodShape
from federator.model.fleet import Capacity
from federator.model.kubernetes import diffs, quantity
from federator.model.resources import ZERO, Resources
from federator.model.scaleup import INSTANCE_TYPE
from federator.model.steps import Create, Patch
from federator.placement.room import capacity as capacities


class CapacityReporter:
    """Keeps the report true until cancelled."""

    def __init__(
        self,
        caches: Caches,
        applier: Applier,
        entitlement: Entitlement,
        *,
        options: MemberOptions,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._applier = applier
        self._entitlement = entitlement
        self.owing = Owing(caches, entitlement)
        self._options = options
        self._clock = clock
        self._dirty = asyncio.Event()
        self._reminder: asyncio.TimerHandle | None = None
        self._masks = Masks(())
        self._masks_epoch = -1
        self._includes_seq = 0
        self._kept_version = 0
        """What the last report said of the highest seqs."""
        self._late_told = 0
        """How many late slices the last report included."""
        self._written: Mapping[str, Any] | None = None
        """What the last write led to, until the watch has caught up."""
        self._written_at_s: float | None = None
        self._tells_rules = True
        self.surveys = 0
        caches.signals.to_survey.append(self._dirty.set)

    async def run(self) -> None:
        self._dirty.set()
        while True:
            await self._dirty.wait()
            await self._caches.until(lambda: self._caches.room_synced)
            self._dirty.clear()
            wait_s = self._options.capacity_interval_s
            try:
                later_s = await self._report()
            except errors.ApiError as exc:
                self._dirty.set()
                wait_s = max(wait_s, self._options.capacity_write_s, exc.retry_after_s or 0.0)
            else:
                self._remind(later_s)
            await asyncio.sleep(wait_s)

    def _remind(self, later_s: float) -> None:
        """Looks again in so many seconds (0: no need); anything that happens before is looked at
        before."""
        if self._reminder is not None:
            self._reminder.cancel()
            self._reminder = None
        if later_s > 0:
            self._reminder = asyncio.get_running_loop().call_later(later_s, self._dirty.set)

    async def _report(self) -> float:
        """Writes the report if there is news and it is time; returns in how many seconds it will
        be, 0 for nothing."""
        question = self._caches.questions.get(("", clustercapacity.NAME))
        live = self._live(question)
        late = self._caches.late_slices
        versions = self._slice_versions()
        capacity, error = await self.survey(
            {} if question is None else clustercapacity.asked(question)
        )
        generation = 0 if question is None else question["metadata"].get("generation", 0)
        self._caches.remember(live)
        version, kept = self._caches.highest.version, self._caches.highest.fields()
        status = (
            clustercapacity.from_capacity(capacity, observed_generation=generation, error=error)
            | kept
            | versions
            | self._rules()
        )
        if self._written_at_s is None:
            # A process that has just started does not know when the report was written: a small
            # change can wait.
            self._written_at_s = self._clock.monotonic() if live else float("-inf")
            self._late_told = late
        if _same(status, live) and self._late_told == late:
            return 0.0
        due_s = self._written_at_s + self._pause_s(status, live, capacity)
        if due_s > self._clock.monotonic():
            return due_s - self._clock.monotonic()
        status = clustercapacity.from_capacity(
            capacity, observed_generation=generation, error=error, as_of_s=self._clock.now()
        )
        await self._write(question, live, status | kept | versions | self._rules())
        self._late_told, self._kept_version = late, version
        return 0.0

    def _live(self, question: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """The status as last heard or written, whichever is newer."""
        live: Mapping[str, Any] = {} if question is None else question.get("status") or {}
        if self._written is not None and question is not None:
            if _version(self._written) > _version(question):
                return self._written.get("status") or {}
            self._written = None
        return live

    def _pause_s(
        self, status: Mapping[str, Any], live: Mapping[str, Any], capacity: Capacity
    ) -> float:
        """Least time since the last write: none when a slice or a question waits for it, long when
        next to nothing changed."""
        if status["includesSeq"] != live.get("includesSeq"):
            return 0.0
        if self._kept_version != self._caches.highest.version:
            return 0.0  # the next life is to know it too
        if self._late_told != self._caches.late_slices:
            return 0.0  # by its seq the hub holds it for included since an earlier report
        if status["observedGeneration"] != live.get("observedGeneration"):
            return 0.0
        before = capacityfields.to_capacity(live)
        if before.allocatable != capacity.allocatable or _tainted(live) != _tainted(status):
            return self._options.capacity_write_s
        if before.waiting != capacity.waiting or before.machines != capacity.machines:
            return self._options.capacity_write_s
        if before.rules != capacity.rules or before.quotas != capacity.quotas:
            return self._options.capacity_write_s
        total, old, new = capacity.allocatable, before.free, capacity.free
        permille = max(
            (abs(new[name] - old[name]) * 1000 // total[name] for name in total if total[name]),
            default=0,
        )
        small = permille < self._options.capacity_small_permille
        return self._options.capacity_small_write_s if small else self._options.capacity_write_s

    async def _write(
        self, question: Mapping[str, Any] | None, live: Mapping[str, Any], status: Mapping[str, Any]
    ) -> None:
        kind = registry.KINDS[clustercapacity.KIND]
        ref = kind.ref("", clustercapacity.NAME)
        if question is None:
            body = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": ref.name},
                "spec": {},
            }
            made = await self._applier.apply(Create(ref, body))
            if made.error is not None and not isinstance(made.error, errors.AlreadyExists):
                raise made.error
            live = {}
        patch = Patch(ref, {"status": diffs.replacement_patch(live, status)}, subresource="status")
        outcome = await self._applier.apply(patch)
        if outcome.error is not None:
            raise outcome.error
        self._written = outcome.obj
        self._written_at_s = self._clock.monotonic()
        self._tells_rules = raw.at(outcome.obj or {}, "status", "expander") is not None

    def _rules(self) -> dict[str, Any]:
        """The rules of expansion that this process knows; none where the definition of before does
        not keep them, or the report would differ for ever."""
        return {"expander": verbs.EXPANDER} if self._tells_rules else {}

    def _slice_versions(self) -> dict[str, Any]:
        """Up to where the slices of each kind were seen, which a report of now includes."""
        stores = self._caches.slices.items()
        return clustercapacity.from_slice_versions(
            {kind: store.resource_version for kind, store in stores if store.resource_version}
        )

    async def survey(self, asked: Mapping[str, PodShape]) -> tuple[Capacity, str]:
        """The report as of now, and a sentence on what rounding hides ("" when nothing).

        Large members take tens of milliseconds: others get their turn between the stages, after
        everything was read.
        """
        self.surveys += 1
        caches = self._caches
        includes_seq = self._includes_seq = max(self._includes_seq, caches.highest_seq)
        if self._masks_epoch != caches.nodes_epoch:
            nodes = caches.nodes.items()
            self._masks = Masks([nodes[key] for key in sorted(nodes) if nodes[key].usable])
            self._masks_epoch = caches.nodes_epoch
        room = Room(self._masks, caches.commitments.used)
        self._owe_daemons(room)
        waiting = self._owe_slices(room) + self._owe_waiting(room) + self._orphaned()
        namespaces = NamespaceReport(caches, self.owing, self._options.system_namespace)
        rules, quotas = namespaces.rules(), namespaces.quotas(room)
        machines = _machines(caches.nodes.items().values())
        await asyncio.sleep(0)
        every = room.rows()
        await asyncio.sleep(0)
        rows = capacities.summarise(every)
        await asyncio.sleep(0)
        lost = capacities.lost(every, rows)
        error = ""
        if lost != ZERO:
            hidden = ", ".join(f"{amount} {name}" for name, amount in quantity.render(lost).items())
            error = f"Rounding to {len(rows)} rows hides at most {hidden} of free room."
        error = " ".join(filter(None, (error, namespaces.error)))
        capacity = Capacity(
            rows=rows,
            copies={shape_id: room.copies(asked[shape_id]) for shape_id in sorted(asked)},
            includes_seq=includes_seq,
            exact=lost == ZERO,
            waiting=_most_first(waiting),
            machines=machines,
            rules=rules,
            quotas=quotas,
        )
        return capacity, error

    def _owe_daemons(self, room: Room) -> None:
        """Every node that a DaemonSet admits and that has no pod of it yet will get one."""
        for _, daemon in sorted(self._caches.natives["DaemonSet"].items().items()):
            if daemon.shape is not None:
                have = self._caches.commitments.nodes_of(daemon.uid)
                without = np.array(
                    [node.name not in have for node in self._masks.nodes], dtype=np.bool_
                )
                room.claim_each(daemon.shape, without)

    def _owe_slices(self, room: Room) -> Counter[PodShape]:
        """Slices hold what they are entitled to, whether their pods are bound yet or not: those of
        earlier decisions first, as they are bound. Equal copies take their room at once: in a
        burst, or without controllers, a thousand slices may lack all of theirs. Returns the pods
        that no node has room for."""
        without: Counter[PodShape] = Counter()
        lacking: list[tuple[int, PodShape, int]] = []
        for seq, shape, copies, apart in self.owing.of_slices():
            if shape.every_node and apart:
                room.claim_each(shape, np.ones(len(self._masks.nodes), dtype=np.bool_))
            elif apart:
                without[shape] += copies - room.claim(shape, copies)
            else:
                lacking.append((seq, shape, copies))
        missing: Counter[PodShape] = Counter()
        for _, shape, copies in sorted(lacking, key=lambda entry: entry[0]):
            missing[shape] += copies
        for shape, copies in missing.items():
            without[shape] += copies - room.claim(shape, copies)
        return without

    def _owe_waiting(self, room: Room) -> Counter[PodShape]:
        """Pods of others that wait for room will take it; a nominated one on the node it was
        promised. Returns those that no node has room for."""
        caches = self._caches
        plain: Counter[PodShape] = Counter()
        for _, pod in sorted(caches.commitments.waiting.items()):
            slice_key = caches.slice_of_pod(pod.controller_uid)
            row = caches.slice(slice_key) if slice_key is not None else None
            if row is not None and self._entitlement(row) is not None:
                continue
            if pod.nominated:
                there = np.array(
                    [node.name == pod.nominated for node in self._masks.nodes], dtype=np.bool_
                )
                room.claim(pod.shape, 1, only=there)
            else:
                plain[pod.shape] += 1
        without: Counter[PodShape] = Counter()
        for shape, copies in sorted(plain.items(), key=lambda item: item[0].id):
            without[shape] += copies - room.claim(shape, copies)
        return without

    def _orphaned(self) -> Counter[PodShape]:
        """What pods have on nodes that are gone, each node as one pod: they are still bound, and
        will need such a node again when they are made anew."""
        used, nodes = self._caches.commitments.used, self._caches.nodes.items()
        gone = used.keys() - {node.name for node in nodes.values()}
        wanted = (Resources(used[name]) for name in sorted(gone))
        return Counter(PodShape(amounts) for amounts in wanted if amounts)


def _most_first(waiting: Mapping[PodShape, int]) -> tuple[tuple[PodShape, int], ...]:
    """The shapes with most copies, as many as a report names; those for every node never wait for
    room on another one."""
    named = ((shape, copies) for shape, copies in waiting.items() if copies > 0)
    plain = [entry for entry in named if not entry[0].every_node]
    return tuple(sorted(plain, key=lambda entry: (-entry[1], entry[0].id))[:MAX_WAITING])


def _machines(nodes: Iterable[Node]) -> dict[str, int]:
    """Nodes by instance type, of the types with most nodes."""
    counts = Counter(kind for node in nodes if (kind := node.labels.get(INSTANCE_TYPE)))
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:MAX_MACHINES])


def _same(status: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether the report says what is there already, apart from when it was made and up to which
    versions it had seen slices: also that nothing else is there. A row that has lost its taints has
    fewer fields than before."""
    said, there = (
        {name: fields[name] for name in fields if fields[name] is not None}
        for fields in (status, live)
    )
    for fields in (said, there):
        fields.pop("asOf", None)
        fields.pop("sliceVersions", None)
    return said == there


def _version(obj: Mapping[str, Any]) -> int:
    text = obj["metadata"].get("resourceVersion", "")
    return int(text) if text.isdigit() else -1


def _tainted(status: Mapping[str, Any]) -> Counter[str]:
    """How many machines carry which taints: without a change of what is free, others may be used
    now."""
    carried: Counter[str] = Counter()
    for row in raw.objects(status, "nodes"):
        carried[repr(sorted(sorted(taint.items()) for taint in raw.objects(row, "taints")))] += (
            raw.integer(row, "count")
        )
    return carried
