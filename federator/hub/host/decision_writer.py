"""Writes PlacementDecisions: one request each, which fails if somebody wrote in between."""

from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.api.placement.decisionfacts import decision_facts
from federator.api.placement.placementdecision import MAX_CAUSES
from federator.hub.records import decisions
from federator.hub.records.decisions import STRUCK, Record
from federator.hub.records.seals import Seals, author
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model import names
from federator.model.names import WorkloadKey


async def write(
    host: Client, key: WorkloadKey, uid: str, before: Record | None, spec: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Writes the decision of a workload; returns the object that the host has now. Raises
    ApiErrors.

    One request and no read: it replaces the whole spec if the version is still the known one.
    """
    kind = registry.KINDS["PlacementDecision"]
    name = decisions.name_of(key, uid)
    ref = kind.ref(key.namespace, name)
    if before is None or before.lost:
        meta = {
            "name": name,
            "namespace": key.namespace,
            "labels": {names.WORKLOAD_UID_LABEL: uid, names.OWNED_LABEL: "true"},
            "ownerReferences": [owner(key, uid)],
            "finalizers": [names.DECISION_FINALIZER],
        }
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}
        return await host.create(ref, body)
    operations: list[dict[str, Any]] = [
        {
            "op": "replace",
            "path": "/metadata/resourceVersion",
            "value": before.facts.resource_version,
        },
        {"op": "replace", "path": "/spec", "value": spec},
    ]
    return await host.patch(ref, operations, kind="json")


async def read(host: Client, key: WorkloadKey, uid: str) -> Mapping[str, Any]:
    """The decision of a workload as the host has it. Raises ApiErrors."""
    kind = registry.KINDS["PlacementDecision"]
    return await host.get(kind.ref(key.namespace, decisions.name_of(key, uid)))


def may_be_written(trouble: errors.ApiError) -> bool:
    """Whether a write that ended so may have taken effect."""
    return isinstance(trouble, errors.Unreachable | errors.ServerTrouble | errors.Malformed)


def owner(key: WorkloadKey, uid: str) -> dict[str, Any]:
    """The owner reference of a decision. It blocks the workload: a garbage collector that deletes
    the workload in the foreground waits until the members are empty and the decision is gone."""
    kind = registry.KINDS[key.kind]
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "name": key.name, "uid": uid}
    return {**head, "blockOwnerDeletion": True}


async def set_owner(host: Client, record: Record, *, owned: bool) -> Mapping[str, Any] | None:
    """Gives a decision the reference to its workload, or removes it, as a garbage collector does
    that orphans dependents. Returns the decision; None when it is gone. Raises ApiErrors."""
    references = [owner(record.key, record.workload_uid)] if owned else []
    meta = {
        "uid": record.uid,
        "resourceVersion": record.resource_version,
        "labels": {names.OWNED_LABEL: "true"},
        "ownerReferences": references,
    }
    ref = registry.KINDS["PlacementDecision"].ref(record.key.namespace, record.name)
    try:
        return await host.patch(ref, {"metadata": meta})
    except errors.NotServed:
        raise
    except errors.NotFound:
        return None


async def strike(
    host: Client, record: Record, cluster: str, seq: int, seals: Seals
) -> Mapping[str, Any] | None:
    """Removes a cluster that was released from a decision that is not made again by itself (its
    workload is suspended, unreadable or gone), unless that is done already. `seq` is the decision's
    new seq. Returns the decision, None when it is gone. Raises ApiErrors."""
    kind = registry.KINDS["PlacementDecision"]
    ref = kind.ref(record.key.namespace, record.name)
    live = await host.find(ref)
    if live is None:
        return None
    meta, spec = live["metadata"], live["spec"]
    if meta.get("uid") != record.uid:
        return None
    if record.sealed and not seals.is_ours(live):
        raise errors.Conflict(f"{record.name} was written by {author(live)}", reason="Conflict")
    facts = decision_facts(live)
    share = next((share for share in facts.shares if share.cluster == cluster), None)
    if share is None and cluster not in raw.texts(spec, "leaving"):
        return live  # by a write of ours without an answer
    lost = share.count if share is not None else 0
    kept = [share for share in raw.objects(spec, "shares") if share.get("cluster") != cluster]
    changed: dict[str, Any] = {
        "seq": max(seq, raw.integer(spec, "seq")),
        "causes": [*raw.texts(spec, "causes"), f"{cluster} left the fleet"][-MAX_CAUSES:],
        "inputsHash": STRUCK,
        "shares": kept,
        "clusters": len(kept),
        "placed": max(raw.integer(spec, "placed") - lost, 0),
        "shortfall": raw.integer(spec, "shortfall") + lost,
        "leaving": [name for name in raw.texts(spec, "leaving") if name != cluster] or None,
    }
    whole = {name: value for name, value in {**spec, **changed}.items() if value is not None}
    if seal := seals.of(ref.namespace, ref.name, whole):
        changed["seal"] = seal
    body = {
        "metadata": {"uid": record.uid, "resourceVersion": meta["resourceVersion"]},
        "spec": changed,
    }
    return await host.patch(ref, body)
