"""StatefulSet -> a drafted PinterestStatefulSet. Pure; one row of `convert.DRAFTERS`.

Pods of a stateful set find each other by names that resolve inside one cluster only, so a draft
stays whole in one cluster until its owner takes that out. Its claims are new: those that exist
belong to the StatefulSet they were made for.
"""

from typing import Any, Final

from federator.api import raw
from federator.convert import deployments, templates
from federator.convert.drafts import Draft, Drafts, Item, LeftAlone, only_fields
from federator.kinds.statefulset import schema

_KNOWN: Final = frozenset(
    {
        "replicas",
        "selector",
        "template",
        "serviceName",
        "podManagementPolicy",
        "updateStrategy",
        "minReadySeconds",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "ordinals",
        "volumeClaimTemplates",
    }
)
_CLAIM_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_CLAIM_META: Final = ("name", "labels", "annotations")
IN_ONE_CLUSTER: Final = {"division": {"strategy": "Capacity", "maxClusters": 1}}


def draft(item: Item, drafts: Drafts) -> Draft:
    """The draft. Raises LeftAlone with the reason, BadInput for an object that no API server would
    accept."""
    notes: list[str] = []
    spec = raw.mapping(item.obj, "spec")
    template, merged = templates.tidy(
        raw.mapping(spec, "template"), "spec.template", notes.append, live=item.live
    )
    deployments.check_selector(item, template)
    only_fields(spec, _KNOWN, {}, "spec")
    if start := raw.integer(spec, "ordinals", "start"):
        raise LeftAlone(
            f"spec.ordinals.start: it counts from {start}, a PinterestStatefulSet counts from 0"
        )
    out = deployments.federation_fields(item)
    out.setdefault("placement", {**IN_ONE_CLUSTER})
    for name in ("replicas", "podManagementPolicy"):
        if name in spec:
            out[name] = spec[name]
    if strategy := _strategy(item, notes):
        out["updateStrategy"] = strategy
    if claims := _claims(item):
        out["volumeClaimTemplates"] = claims
        out["claimRetention"] = _retention(item, notes)
    out["template"] = template
    notes += _what_differs(item)
    return deployments.drafted(item, drafts, schema, out, notes, merged=merged)


def _strategy(item: Item, notes: list[str]) -> dict[str, Any]:
    spec = raw.mapping(item.obj, "spec")
    rolling = deployments.rolling_update(spec, schema.KIND)
    if partition := raw.integer(rolling, "partition"):
        raise LeftAlone(
            f"spec.updateStrategy.rollingUpdate.partition: {partition} halts its roll-out; finish "
            "it first"
        )
    if rolling.get("maxUnavailable") not in (None, 1):
        notes.append(
            "spec.updateStrategy.rollingUpdate.maxUnavailable is left out: pods are replaced one "
            "by one"
        )
    deployments.note_revisions(spec, "StatefulSets", notes)
    return {"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}


def _claims(item: Item) -> list[dict[str, Any]]:
    claims = []
    for index, claim in enumerate(raw.objects(item.obj, "spec", "volumeClaimTemplates")):
        path = f"spec.volumeClaimTemplates[{index}]"
        only_fields(claim, _CLAIM_FIELDS, {}, path)
        meta = raw.mapping(claim, "metadata")
        if not raw.text(meta, "name"):
            raise item.bad(f"{path}.metadata.name", "is required")
        kept = {name: meta[name] for name in _CLAIM_META if meta.get(name)}
        spec = {
            name: value
            for name, value in raw.mapping(claim, "spec").items()
            if not (item.live and name == "volumeMode" and value == "Filesystem")
        }
        claims.append({"metadata": kept, "spec": spec})
    return claims


def _retention(item: Item, notes: list[str]) -> str:
    """Delete if both fields say so. A set that keeps claims in one case keeps them in both."""
    policy = raw.mapping(item.obj, "spec", "persistentVolumeClaimRetentionPolicy")
    both = {raw.text(policy, when, default="Retain") for when in ("whenDeleted", "whenScaled")}
    if len(both) > 1:
        notes.append(
            "spec.persistentVolumeClaimRetentionPolicy deletes claims in one case only: they are "
            "kept in both"
        )
    return "Delete" if both == {"Delete"} else "Retain"


def _what_differs(item: Item) -> list[str]:
    name = item.name or "NAME"
    differences = [
        f"pods are called {name}-BLOCK-ORDINAL, the first one {name}-0-0; it stays in one cluster, "
        "where these names resolve, until spec.placement.division is taken out"
    ]
    if raw.objects(item.obj, "spec", "volumeClaimTemplates"):
        differences.append(
            "its claims are new and empty: bring the data over by what the program offers"
        )
    service = raw.text(item.obj, "spec", "serviceName")
    if service and service != item.name:
        differences.append(
            f"spec.serviceName {service}: the headless Service of its pods is called {name} now, "
            "and what names the other must change"
        )
    return differences
