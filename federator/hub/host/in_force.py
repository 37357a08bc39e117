"""What stays in force while an edit of a workload is held back: the spec that members have, kept on
the host.

A decision that holds an edit back names a ControllerRevision, owned by the decision, with the
workload's spec as it was admitted. New slices are made from it by any leader. It is deleted when
the edit is admitted, or with the decision. Called by placing before such a decision is written, and
by dispatching.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.hub.cache.router import Changed
from federator.hub.host.controller import Controller, Tools
from federator.hub.records import slices, workloads
from federator.hub.records.decisions import Record
from federator.hub.records.slices import SliceSeen
from federator.hub.records.workloads import Served, Workload
from federator.kinds import registry
from federator.kinds.pods import revisions
from federator.kube import errors
from federator.model import names
from federator.model.names import WorkloadKey
from federator.model.steps import Create, Delete, ObjectRef

log = logging.getLogger(__name__)

_NOT_KEPT: Final = frozenset({"slice", *workloads.TAKEN_AT_ONCE})

FIRST_SLICE_RECHECK_S: Final = 1.0
"""Seconds between two looks of placing at a workload while its first slice is being created."""

Spec = tuple[int, Mapping[str, Any]]
"""Generation of the workload and its spec then, without fields that take effect at once."""


class SpecsInForce(Controller):
    """The only writer of the ControllerRevisions that decisions own."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._specs: dict[WorkloadKey, tuple[str, str, Spec]] = {}
        """(uid of the workload, revision, spec) of workloads with an edit held back."""

    async def keep(self, workload: Workload, record: Record) -> str:
        """Keeps the spec in force before a decision holds an edit back. Returns the revision's
        name; "" when the spec in force is unknown (then nothing new is made from it). Raises
        ApiErrors."""
        if record.terms.held_back and record.terms.revision:
            return record.terms.revision
        kept = await self._present(workload, record)
        if kept is None:
            log.warning(
                "%s: an edit is held back, and no slice tells what was before it", workload.key
            )
            return ""
        name, body = self._body(workload, record, kept)
        outcome = await self.applier.apply(
            Create(_ref(workload.key, name), body), workload.key.namespace
        )
        if outcome.error is not None and not isinstance(outcome.error, errors.AlreadyExists):
            raise outcome.error
        self._specs[workload.key] = (workload.uid, name, kept)
        return name

    async def adopt(self, workload: Workload, record: Record) -> None:
        """A decision that holds an edit back has a new object: moves the revision to it, because
        what the old object owned is deleted with it. Without the revision, members are read after a
        restart."""
        try:
            spec = await self._spec(workload, record)
            if spec is None:
                return
            name, body = self._body(workload, record, spec)
            if name != record.terms.revision:
                # This was read from members, not kept: there is no revision of this name to remove.
                log.warning(
                    "%s: %s cannot be kept again, what is known is %s",
                    workload.key,
                    record.terms.revision,
                    name,
                )
                return
            ref = _ref(workload.key, name)
            live = await self._live(ref)
            if live is not None:
                if any(
                    owner.get("uid") == record.uid
                    for owner in raw.objects(live, "metadata", "ownerReferences")
                ):
                    return
                await self.applier.apply(
                    Delete(ref, live["metadata"]["uid"]), workload.key.namespace
                )
            outcome = await self.applier.apply(Create(ref, body), workload.key.namespace)
            if outcome.error is not None:
                raise outcome.error
        except errors.ApiError as trouble:
            log.info(
                "%s: the revision in force is not the new decision's: %s", workload.key, trouble
            )

    async def _live(self, ref: ObjectRef) -> Mapping[str, Any] | None:
        try:
            return await self.host.get(ref)
        except errors.NotFound:
            return None

    async def drop(self, key: WorkloadKey, revision: str) -> None:
        """Deletes a revision that no decision names. If that fails, it is deleted with its
        decision."""
        self._specs.pop(key, None)
        self.state.serve(key, None)
        if not revision:
            return
        try:
            live = await self.host.get(_ref(key, revision))
        except errors.ApiError as trouble:
            log.info("%s: %s could not be read: %s", key, revision, trouble)
            return
        outcome = await self.applier.apply(
            Delete(_ref(key, revision), live["metadata"]["uid"]), key.namespace
        )
        if outcome.error is not None:
            log.info("%s: %s stays until its decision goes: %s", key, revision, outcome.error)

    async def load(self, workload: Workload, record: Record) -> Workload | None:
        """The workload as its members are to have it; None while that is unknown. Raises
        ApiErrors."""
        if not record.terms.held_back:
            return workload
        served = self.state.served.get(workload.key)
        if (
            served is not None
            and served.serves(workload, record.terms.revision)
            and served.base == workload.content
        ):
            return self.state.serving(workload, record)
        spec = await self._spec(workload, record)
        obj = await self.documents.fetch(workload)
        if spec is None or obj is None:
            return None
        generation, kept = spec
        whole, verbs = workloads.composed(obj, kept, generation), workload.verbs
        served = Served(
            uid=workload.uid,
            revision=record.terms.revision,
            base=workload.content,
            generation=generation,
            spec=kept,
            content=workloads.content_digest(verbs, workloads.neutral(verbs, whole)),
            profile=verbs.profile(whole),
        )
        self.state.serve(workload.key, served)
        self.state.changed(Changed.SERVED, workload.key)
        return self.state.serving(workload, record)

    def came_to_nothing(self, workload: Workload, record: Record) -> bool:
        """Whether no cluster has got its share of the decision in force, and what it was made for
        is lost: the hub died before the first slice, and the workload or its RuntimeProfile has
        changed since. Nothing runs that could stay in force."""
        return self._has_no_slice(workload, record) and not self._is_being_created(record)

    def is_being_replaced(self, workload: Workload, record: Record) -> bool:
        """Whether the decision in force has come to nothing, and the host does not show yet what
        placing has decided instead. A first slice would start copies which that decision may give
        to another cluster."""
        assumed = self.state.commitments.commitment(workload.uid)
        if assumed is None or all(share.seq <= record.seq for share in assumed.holdings):
            return False
        return self.came_to_nothing(workload, record)

    def first_slice_wait_s(self, workload: Workload, record: Record) -> float:
        """Seconds until placing looks again, because this hub is creating the first slice of the
        decision in force, and only its member's response shows if the decision has come to nothing;
        0.0 when placing need not wait."""
        if not self._is_being_created(record):
            return 0.0
        return FIRST_SLICE_RECHECK_S if self._has_no_slice(workload, record) else 0.0

    def _is_being_created(self, record: Record) -> bool:
        holders = map(self.state.holder, record.clusters)
        return any(
            member is not None and record.key in member.writes.creating for member in holders
        )

    def _has_no_slice(self, workload: Workload, record: Record) -> bool:
        """Whether no member shows a slice, and the spec that the decision charges is unknown."""
        charged = record.terms.charged
        if charged is None or record.terms.revision or not record.shares or not charged.content:
            return False
        as_written = (
            charged.generation == workload.generation or charged.content == workload.content
        )
        if as_written and (workload.ask is None or charged.shape == workload.ask.shape):
            return False
        before = self.documents.former(workload)
        if (
            before is not None
            and raw.integer(before, "metadata", "generation") == charged.generation
        ):
            return False
        holders = [self.state.holder(share.cluster) for share in record.shares]
        return all(member is not None and member.lacks(workload.key) for member in holders)

    async def _spec(self, workload: Workload, record: Record) -> Spec | None:
        key, name = workload.key, record.terms.revision
        cached = self._specs.get(key)
        if cached is not None and cached[:2] == (workload.uid, name):
            return cached[2]
        kept: Spec | None = None
        if name:
            obj = await self._live(_ref(key, name))
            kept = _read(name, obj) if obj is not None else None
            if kept is None:
                gone = "gone" if obj is None else "not as the hub wrote it"
                log.warning("%s: the revision in force, %s, is %s", key, name, gone)
        if kept is None:
            kept = await self._present(workload, record)
        if kept is not None:
            self._specs[key] = (workload.uid, name, kept)
        return kept

    async def _present(self, workload: Workload, record: Record) -> Spec | None:
        """The spec that a member holds and the decision's seal proves. For a decision without a
        digest, what all members agree on. The host's former object is the same without a member's
        defaults; it is used when the slice proves it, or when the decision was made for that
        generation. Raises ApiErrors."""
        fleet, charged = self.state.options.fleet, record.terms.charged
        seen = [
            slice_seen
            for slice_seen in self.state.slices_of(workload.key).values()
            if slice_seen.serves(fleet, workload.uid) and not slice_seen.deleting
        ]
        newest = max(map(_origin, seen), default=0)
        before = self.documents.former(workload)
        if before is not None:
            generation = raw.integer(before, "metadata", "generation")
            digest = workloads.content_digest(
                workload.verbs, workloads.neutral(workload.verbs, before)
            )
            if charged is not None and charged.content == digest:
                # Members may not have it: it was edited again before they were written to.
                return charged.generation, _kept(raw.mapping(before, "spec"))
            # One proof is enough: another slice may have been edited in its member.
            proven = any(
                slice_seen.live == digest for slice_seen in seen if _origin(slice_seen) == newest
            )
            if proven or (charged is not None and charged.generation == generation):
                return generation, _kept(raw.mapping(before, "spec"))
        if charged is not None and charged.generation:
            # A member may claim any generation: newer than the admitted one does not count.
            seen = [slice_seen for slice_seen in seen if _origin(slice_seen) <= charged.generation]
        sealed = bool(record.terms.revision) or (charged is not None and bool(charged.content))
        if not sealed and len({slice_seen.live for slice_seen in seen}) > 1:
            log.warning(
                "%s: members hold different specs, and nobody can tell which is in force",
                workload.key,
            )
            return None
        for slice_seen in sorted(seen, key=lambda slice_seen: slice_seen.cluster):
            member = self.state.holder(slice_seen.cluster)
            if member is None or member.link.client is None or not member.heard or member.trust.why:
                continue
            key = workload.key
            live = await member.link.client.get(
                registry.KINDS[key.kind].ref(key.namespace, key.name)
            )
            candidate = _origin(slice_seen), _kept(raw.mapping(live, "spec"))
            spec = _proven(workload, record, live, candidate) if sealed else candidate
            if spec is not None:
                return spec
            log.warning("%s: what %s holds is not what was admitted", key, slice_seen.cluster)
        return None

    def _body(self, workload: Workload, record: Record, spec: Spec) -> tuple[str, dict[str, Any]]:
        generation, kept = spec
        name = f"{record.name[:200]}-{_digest(generation, kept)}"
        kind = registry.KINDS["PlacementDecision"]
        owner = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": record.name,
            "uid": record.uid,
        }
        metadata = {
            "name": name,
            "namespace": workload.key.namespace,
            "labels": {names.FLEET_LABEL: self.state.options.fleet},
            "ownerReferences": [owner],
        }
        head = {"apiVersion": revisions.API_VERSION, "kind": revisions.KIND, "metadata": metadata}
        return name, {
            **head,
            "revision": max(generation, 1),
            "data": {"generation": generation, "spec": dict(kept)},
        }


def _proven(
    workload: Workload, record: Record, live: Mapping[str, Any], candidate: Spec
) -> Spec | None:
    """The spec in the slice `live` if it is the admitted one, by the revision's name or by the
    digest that the decision charges; both are sealed. A member may hold anything, and its
    administrator may edit it. The digest does not cover the generation, so the decision's counts.
    Labels and annotations that others added to the slice are left out of the comparison.
    """
    charged, revision = record.terms.charged, record.terms.revision
    if revision and revision.endswith(f"-{_digest(*candidate)}"):
        return candidate
    if charged is None or not charged.content:
        return None
    same = charged.content in (
        workloads.content_digest(workload.verbs, live),
        workloads.content_digest(workload.verbs, slices.with_our_notes(live)),
    )
    return (charged.generation, candidate[1]) if same else None


def _digest(generation: int, kept: Mapping[str, Any]) -> str:
    return workloads.digest([generation, kept]).hex()


def _read(name: str, obj: Mapping[str, Any]) -> Spec | None:
    """The content of a revision; None when its name was not made from it. The name is in the sealed
    decision; the revision is in the tenant's namespace, where users may replace it."""
    data = raw.mapping(obj, "data")
    generation, spec = raw.integer(data, "generation"), raw.mapping(data, "spec")
    return (generation, spec) if name.endswith(f"-{_digest(generation, spec)}") else None


def _origin(seen: SliceSeen) -> int:
    return seen.mark.origin_generation if seen.mark is not None else 0


def _kept(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in _NOT_KEPT}


def _ref(key: WorkloadKey, name: str) -> ObjectRef:
    return ObjectRef(revisions.API_VERSION, revisions.PLURAL, key.namespace, name, revisions.KIND)
