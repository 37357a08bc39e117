"""Removes the finalizers of foreground and orphan deletion from workloads, on a host that runs no
garbage collector.

The API server adds `foregroundDeletion` or `orphan` when somebody deletes an object with
`--cascade=foreground` or `--cascade=orphan`. Only a garbage collector removes them. Without one the
hub does, when the workload has no decision any more: then the members are empty, or their objects
are released. `Collector` says if a garbage collector runs. While it does, the hub leaves the
finalizers to it, because it also waits for dependents that the hub does not know.

A namespace that is deleted on a host without a namespace controller stays, with its workloads. The
hub reports that in an Event on the namespace.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from federator.api import raw
from federator.hub.cache.router import Changed
from federator.hub.host.collector import READ_S, Collector
from federator.hub.host.controller import Controller, Tools
from federator.hub.records import decisions
from federator.hub.records.workloads import FOREGROUND, ORPHAN, Workload, cascade
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model.names import WorkloadKey
from federator.model.steps import ObjectRef, RequeueAfter

log = logging.getLogger(__name__)

SLOW_RECHECK_S = 60.0
"""Seconds until a workload is examined again that the garbage collector handles."""
CONTROLLERS = "kube-controller-manager with namespace-controller and garbage-collector-controller"
UNTOUCHED_S = 60.0
"""Seconds after which a namespace controller has deleted the workloads of a deleted namespace."""
SHOWN = 3
"""Workloads that an Event names."""


class Cascades(Controller):
    """Keys of its queue are workloads; `START` is the check at the start of a term."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.collector = Collector(tools)
        self._ending_s: dict[str, float] = {}
        """Deleted namespace -> since when this process knows it, in monotonic seconds."""
        self.queue: WorkQueue[WorkloadKey] = self.new_queue("cascades")
        self.state.signals.cascade.append(self._look)
        self.state.signals.note.append(self._note)
        self.state.signals.space.append(self._look_at_space)

    async def run(self) -> None:
        """Serves the queue until cancelled."""
        if not self.state.records:  # a hub that is started again writes nothing
            self.queue.add(START)
        for space in sorted(self.state.spaces):
            self._look_at_space(space)
        await self.queue.run(self._turn, workers=1)

    def _note(self, what: Changed, key: WorkloadKey) -> None:
        if what in _HEARD and self.state.signals.heeded:
            self._look(key)

    def _look(self, key: WorkloadKey) -> None:
        if key.kind in registry.RECURRING:
            self.queue.add(key)
            return
        workload = self.state.workloads.get(key)
        if workload is not None and workload.cascade:
            self.queue.add(key)

    def _look_at_space(self, name: str) -> None:
        space = self.state.spaces.get(name)
        if space is not None and space.ending:
            self.queue.add(WorkloadKey(SPACE, "", name))
        else:
            self._ending_s.pop(name, None)

    async def _turn(self, key: WorkloadKey) -> RequeueAfter | None:
        if not self.state.ready or self.state.paused:
            return None
        if key == START:
            return await self._check_host()
        if key.kind == SPACE:
            return await self._space(key)
        try:
            recurs = key.kind in registry.RECURRING
            return await (self._recurring(key) if recurs else self.turn(key))
        except errors.Denied as refusal:
            await self._tell_denied(key, refusal)
            raise

    async def _tell_denied(self, key: WorkloadKey, refusal: errors.Denied) -> None:
        """The manifests on the host are those of an earlier release."""
        ref = registry.KINDS[key.kind].ref(key.namespace, key.name)
        uid = raw.text(await self.host.get(ref), "metadata", "uid")
        if not self.events.repeats(uid, "DeletionWaits"):
            note = f"The hub may not end its deletion: apply deploy/host/access. {refusal}"[:1024]
            self.events.tell(key, uid, "DeletionWaits", note, action="Delete", warning=True)

    async def turn(self, key: WorkloadKey) -> RequeueAfter | None:
        """One workload that is being deleted. Raises ApiErrors."""
        workload = self.state.workloads.get(key)
        if workload is None or not workload.cascade or self.state.refuses_native(key.kind):
            return None
        if self.state.record_of(workload) is not None:
            return None  # its end is signalled
        if any(self.state.slices_with_uid(key, workload.uid)):
            return RequeueAfter(key, SLOW_RECHECK_S, "members hold something of it")
        if wait := await self._leave_to_collector(key):
            return wait
        if await self._has_decision(workload):
            return RequeueAfter(key, READ_S, "it has a decision")
        await self._remove_finalizers(key, workload.uid)
        return None

    async def _leave_to_collector(self, key: WorkloadKey) -> RequeueAfter | None:
        """None when the host runs no garbage collector. Raises ApiErrors."""
        runs = await self.collector.runs()
        wait_s = READ_S if runs is None else SLOW_RECHECK_S
        why = "the host's garbage collector handles it"
        return None if runs is False else RequeueAfter(key, wait_s, why)

    async def _recurring(self, key: WorkloadKey) -> RequeueAfter | None:
        """One recurring object that is being deleted: its runs are deleted first, or lose their
        reference to it. Raises ApiErrors."""
        kind = registry.KINDS[key.kind]
        try:
            meta = (await self.host.get(kind.ref(key.namespace, key.name)))["metadata"]
        except errors.NotServed:
            raise
        except errors.NotFound:
            return None
        if not (policy := cascade(meta)):
            return None
        if wait := await self._leave_to_collector(key):
            return wait
        left = [made async for made in self._made_by(key, meta["uid"])]
        for ref, made in left:
            if policy == ORPHAN:
                await self._disown(ref, made, meta["uid"])
            elif "deletionTimestamp" not in made:
                await self.host.delete(ref, uid=made["uid"], propagation="Foreground")
        if left:
            return RequeueAfter(key, READ_S, "what was made for it is deleted or released")
        await self._remove_finalizers(key, meta["uid"])
        return None

    async def _made_by(
        self, key: WorkloadKey, uid: str
    ) -> AsyncIterator[tuple[ObjectRef, Mapping[str, Any]]]:
        """Reference and metadata of what the host has that was made for a recurring object."""
        verbs = registry.KINDS[key.kind].recurring
        assert verbs is not None
        chosen = f"{verbs.run_label}={key.name}"
        for name in (verbs.run_kind, verbs.native_kind):
            kind = registry.KINDS[name]
            listing = await self.host.list(
                kind.api_version, kind.plural, key.namespace, label_selector=chosen
            )
            for obj in listing.items:
                if any(owner.get("uid") == uid for owner in _owners(obj["metadata"])):
                    yield kind.ref(key.namespace, obj["metadata"]["name"]), obj["metadata"]

    async def _disown(self, ref: ObjectRef, meta: Mapping[str, Any], uid: str) -> None:
        rest = [owner for owner in _owners(meta) if owner.get("uid") != uid]
        head = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        await self.host.patch(ref, {"metadata": {**head, "ownerReferences": rest}})

    async def _has_decision(self, workload: Workload) -> bool:
        """Reads the host itself: absence in a cache is no proof. Raises ApiErrors."""
        name = decisions.name_of(workload.key, workload.uid)
        ref = registry.KINDS["PlacementDecision"].ref(workload.key.namespace, name)
        try:
            await self.host.get(ref)
        except errors.NotServed:
            raise
        except errors.NotFound:
            return False
        return True

    async def _remove_finalizers(self, key: WorkloadKey, uid: str) -> None:
        ref = registry.KINDS[key.kind].ref(key.namespace, key.name)
        try:
            meta = (await self.host.get(ref))["metadata"]
            if meta.get("uid") != uid:
                return
            rest = [name for name in raw.texts(meta, "finalizers") if name not in _COLLECTORS]
            head = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
            await self.host.patch(ref, {"metadata": {**head, "finalizers": rest}})
        except errors.NotServed:
            raise
        except errors.NotFound:
            return
        log.info("%s: removed the finalizers of the garbage collector", key)

    async def _check_host(self) -> RequeueAfter | None:
        """Reports that the host lacks controllers. Raises ApiErrors."""
        try:
            runs = await self.collector.runs()
        except errors.Denied as refusal:
            log.warning("the host cannot be probed (apply deploy/host/access): %s", refusal)
            return None
        if runs is None:
            return RequeueAfter(START, READ_S, "the probe of the garbage collector")
        space = self.state.options.system_namespace
        if not runs and (uid := await self._uid_of(space)):
            note = (
                "The host runs no garbage collector. Deletions of namespaces do not end there, and"
                " objects of a deleted owner stay. The hub itself ends the deletion of"
                f" workloads. Run {CONTROLLERS} for the host (docs/operating/deploy.md)."
            )
            log.warning("%s", note)
            self.events.about_space(space, uid, "NoGarbageCollector", note)
        return None

    async def _space(self, key: WorkloadKey) -> RequeueAfter | None:
        """Reports a deleted namespace if nothing deletes its workloads. Raises ApiErrors."""
        name, now_s = key.name, self.clock.monotonic()
        space = self.state.spaces.get(name)
        if space is None or not space.ending:
            self._ending_s.pop(name, None)
            return None
        passed_s = now_s - self._ending_s.setdefault(name, now_s)
        if passed_s < UNTOUCHED_S:
            return RequeueAfter(key, UNTOUCHED_S - passed_s, "its controller has time to empty it")
        left = [
            workload
            for workload in self.state.workloads_in(name)
            if not self.state.workloads[workload].deleting
        ]
        uid = await self._uid_of(name) if left else ""
        if uid and not self.events.repeats(uid, "NamespaceNotEmptied"):
            shown = ", ".join(map(str, left[:SHOWN]))
            more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
            note = (
                f"The namespace is being deleted, and nobody has deleted {shown}{more} within"
                f" {UNTOUCHED_S:.0f} s: their copies run on. Run {CONTROLLERS} for the host, or"
                " delete the workloads yourself."
            )
            log.warning("namespace %s: %s", name, note)
            self.events.about_space(name, uid, "NamespaceNotEmptied", note)
        return RequeueAfter(key, SLOW_RECHECK_S, "it is being deleted")

    async def _uid_of(self, space: str) -> str:
        chosen = f"metadata.name={space}"
        listed = (await self.host.list("v1", "namespaces", field_selector=chosen)).items
        return raw.text(listed[0], "metadata", "uid") if listed else ""


SPACE = "Namespace"
"""Kind of the keys that are namespaces."""
START = WorkloadKey("", "", "")
_HEARD = frozenset({Changed.ASKED, Changed.ENDED, Changed.LEADING, Changed.RESUMED})
_COLLECTORS = frozenset({FOREGROUND, ORPHAN})


def _owners(meta: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return list(raw.objects(meta, "ownerReferences"))
