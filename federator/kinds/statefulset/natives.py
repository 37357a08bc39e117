"""PinterestStatefulSet -> ServiceAccount, ConfigMap, headless Service, and one StatefulSet for each
block of ordinals.

A container finds its number in the whole federation in ORDINAL, which is also the end of its pod's
name. Names hold for the life of a block, because its lowest ordinal never changes.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import natives, verbs
from federator.kinds.shared import parts, ports, workloads
from federator.kinds.statefulset import ask
from federator.kinds.statefulset.schema import BLOCK_LABEL, SELECTOR_LABEL
from federator.model import names
from federator.model.shards import Range, Ranges

COMPONENT: Final = "statefulset"
REVISIONS_KEPT: Final = 3
LONGEST_SET_NAME: Final = 52
"""Its pods carry the name, a dash and a hash of ten characters in a label."""
ORDINAL: Final = "ORDINAL"
POD_INDEX: Final = "metadata.labels['apps.kubernetes.io/pod-index']"


def expand(obj: Obj, profile: Obj | None) -> tuple[dict[str, Any], ...]:
    """The native objects of one slice, those that others need first. Raises FieldError as injection
    does."""
    mark = workloads.read_mark(obj)
    template = _template(obj, profile)
    return (
        *parts.service_account(obj, mark, COMPONENT),
        *parts.config_map(obj, mark, COMPONENT),
        _service(obj, mark),
        *(_set(obj, mark, block, template) for block in blocks(obj)),
    )


def blocks(obj: Obj) -> Ranges:
    """The blocks with a StatefulSet each: those of the slice, or all ordinals in a cluster without
    a federation."""
    mark = workloads.read_mark(obj)
    if mark is not None and mark.ranges:
        return mark.ranges
    count = ask.count(obj)
    return ((0, count - 1),) if count else ()


def set_name(name: str, block: Range) -> str:
    """`NAME-LOWEST`, or a shortened name with a hash where labels of its pods would be too long."""
    low = str(block[0])
    plain = f"{name}-{low}"
    if len(plain) <= LONGEST_SET_NAME:
        return plain
    digest = names.short_hash(name, low)
    return f"{name[: LONGEST_SET_NAME - 1 - len(digest)].rstrip('-')}-{digest}"


def sets(name: str, ranges: Ranges) -> Mapping[str, Range]:
    return {set_name(name, block): block for block in ranges}


def _selector(obj: Obj) -> dict[str, str]:
    return {SELECTOR_LABEL: parts.name_of(obj)}


def _metadata(obj: Obj, mark: verbs.SliceMark | None, name: str) -> dict[str, Any]:
    meta = parts.metadata(obj, mark, name, COMPONENT)
    meta["labels"] |= _selector(obj)
    return meta


def _service(obj: Obj, mark: verbs.SliceMark | None) -> dict[str, Any]:
    asked = raw.mapping(obj, "spec", "service")
    listed = raw.objects(asked, "ports")
    spec: dict[str, Any] = {"type": "ClusterIP", "clusterIP": "None", "selector": _selector(obj)}
    if listed:
        spec["ports"] = [ports.written(port, alone=len(listed) == 1) for port in listed]
    if "publishNotReadyAddresses" in asked:
        spec["publishNotReadyAddresses"] = raw.flag(asked, "publishNotReadyAddresses")
    meta = _metadata(obj, mark, parts.name_of(obj))
    return natives.made("Service", meta, spec)


def _template(obj: Obj, profile: Obj | None) -> dict[str, Any]:
    template = parts.pod_template(obj, profile, _selector(obj), batch=False, config_hash=True)
    own, pod = parts.own_containers(obj), dict(template["spec"])
    for field in ("initContainers", "containers"):
        if field in pod:
            pod[field] = [_numbered(c) if c.get("name") in own else c for c in pod[field]]
    return {**template, "spec": pod}


def _numbered(container: Obj) -> dict[str, Any]:
    """With our variable, which no variable of the same name in the template may hide."""
    own = [entry for entry in raw.objects(container, "env") if entry.get("name") != ORDINAL]
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": POD_INDEX}}
    return {**container, "env": [{"name": ORDINAL, "valueFrom": source}, *own]}


def _set(
    obj: Obj, mark: verbs.SliceMark | None, block: Range, template: dict[str, Any]
) -> dict[str, Any]:
    low, high = block
    selector = {**_selector(obj), BLOCK_LABEL: str(low)}
    pods, labels = template["metadata"], {**template["metadata"]["labels"], **selector}
    retention = raw.text(obj, "spec", "claimRetention", default="Retain")
    spec: dict[str, Any] = {
        "serviceName": parts.name_of(obj),
        "ordinals": {"start": low},
        "replicas": high - low + 1,
        "revisionHistoryLimit": REVISIONS_KEPT,
        "selector": {"matchLabels": selector},
        "podManagementPolicy": raw.text(obj, "spec", "podManagementPolicy", default="OrderedReady"),
        "updateStrategy": {"type": "RollingUpdate"},
        "persistentVolumeClaimRetentionPolicy": {
            "whenDeleted": retention,
            "whenScaled": retention,
        },
        "template": {**template, "metadata": {**pods, "labels": labels}},
    }
    strategy = raw.mapping(obj, "spec", "updateStrategy")
    if "minReadySeconds" in strategy:
        spec["minReadySeconds"] = raw.integer(strategy, "minReadySeconds")
    if claims := [_claim(claim) for claim in raw.objects(obj, "spec", "volumeClaimTemplates")]:
        spec["volumeClaimTemplates"] = claims
    meta = _metadata(obj, mark, set_name(parts.name_of(obj), block))
    meta["labels"] |= selector
    return natives.made("StatefulSet", meta, spec)


def _claim(claim: Obj) -> dict[str, Any]:
    """As an API server completes it, so that nothing differs from what was written."""
    meta = raw.present(
        {
            "name": raw.text(claim, "metadata", "name"),
            "labels": raw.text_map(claim, "metadata", "labels"),
            "annotations": raw.text_map(claim, "metadata", "annotations"),
        }
    )
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {"volumeMode": "Filesystem", **raw.mapping(claim, "spec")},
        "status": {"phase": "Pending"},
    }
