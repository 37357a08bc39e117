"""Releases members' objects: a workload that is deleted with the policy Orphan leaves its copies.

A released slice has no mark: no label, annotation or slice block of the federation. The hub and the
member process leave it alone. What the slice owns stays with it, pods included.
"""

from typing import Any

from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.model import names
from federator.model.steps import Delete, ObjectRef, Patch


def ending_step(record: Record, ref: ObjectRef, uid: str) -> Delete | Patch:
    """What ends a slice of a workload that is deleted: its deletion, or its release. A deleted
    slice is gone only when its pods are, which are charged until then."""
    if record.orphaned:
        return Patch(ref, _unmarked(record.key.kind), uid=uid)
    return Delete(ref, uid, propagation="Foreground")


def _unmarked(kind: str) -> dict[str, Any]:
    """The merge patch that removes every mark."""
    labels = dict.fromkeys((names.FLEET_LABEL, names.WORKLOAD_UID_LABEL))
    if registry.verbs_of(kind).carried:
        annotations = dict.fromkeys((names.SLICE_ANNOTATION,))
        return {"metadata": {"labels": labels, "annotations": annotations}}
    return {"metadata": {"labels": labels}, "spec": {"slice": None}}
