"""The parts of native objects that several kinds are made of: metadata, the pod template, ConfigMap
and ServiceAccount.

Used by the expanders of the kinds. Names and selectors are derived from the slice alone and never
change while it lives.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds import verbs
from federator.kinds.labels import (
    CONFIG_HASH_ANNOTATION,
    IAM_ROLE_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
)
from federator.kinds.pods import inject as injection
from federator.kinds.pods import priorities
from federator.kinds.shared import environment, runtimefields, workloads
from federator.model import names
from federator.model.kubernetes import selectors

CONFIG_VOLUME: Final = "pinterest-config"
CONFIG_PATH: Final = "/etc/pinterest/config"


def name_of(obj: Obj) -> str:
    return raw.text(obj, "metadata", "name")


def config_map_name(name: str) -> str:
    """Name of the ConfigMap that `spec.config` of the workload of this name becomes."""
    return f"{name}-config"


def metadata(obj: Obj, mark: verbs.SliceMark | None, name: str, component: str) -> dict[str, Any]:
    """Name, namespace, labels (the user's, recommended ones, ours) and the owner inside this
    cluster.
    """
    labels = _labels(obj, component)
    if mark is not None:
        labels[names.FLEET_LABEL] = mark.fleet
        labels[names.WORKLOAD_UID_LABEL] = mark.workload_uid
        labels |= environment.labels(mark)
    return {
        "name": name,
        "namespace": raw.text(obj, "metadata", "namespace"),
        "labels": labels,
        "ownerReferences": [owner(obj)],
    }


def owner(obj: Obj) -> dict[str, Any]:
    return {
        "apiVersion": raw.text(obj, "apiVersion"),
        "kind": raw.text(obj, "kind"),
        "name": name_of(obj),
        "uid": raw.text(obj, "metadata", "uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _labels(obj: Obj, component: str) -> dict[str, str]:
    """Recommended labels where the user gave none; the manager label is always ours. Private labels
    of the slice stay behind.
    """
    own = {
        key: value
        for key, value in raw.text_map(obj, "metadata", "labels").items()
        if not key.startswith(f"{names.FEDERATION}/")
    }
    name = name_of(obj)
    suggested = {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}
    project = raw.text(obj, "spec", "project")
    if project and selectors.check_label_value(project) is None:
        suggested["app.kubernetes.io/part-of"] = project
    return {**suggested, **own, MANAGED_BY_LABEL: MANAGED_BY}


def pod_template(
    obj: Obj, profile: Obj | None, selector: Mapping[str, str], *, batch: bool, config_hash: bool
) -> dict[str, Any]:
    """The injected template with the selector's labels, the configuration mounted, service account
    and priority class named.
    """
    template = injection.inject(
        raw.mapping(obj, "spec", "template"),
        profile,
        raw.mapping(obj, "spec", "sidecars"),
        batch=batch,
        uid=raw.text(obj, "metadata", "uid"),
    )
    pod = dict(raw.mapping(template, "spec"))
    meta = {
        key: value
        for key, value in raw.mapping(template, "metadata").items()
        if key in ("labels", "annotations")
    }
    suggested = {"app.kubernetes.io/name": name_of(obj), MANAGED_BY_LABEL: MANAGED_BY}
    mark = workloads.read_mark(obj)
    meta["labels"] = {
        **suggested,
        **raw.text_map(meta, "labels"),
        **environment.labels(mark),
        **selector,
    }
    pod = runtimefields.with_variables(obj, pod, own_containers(obj))
    config = raw.text_map(obj, "spec", "config")
    if config:
        pod = _with_config(pod, config_map_name(name_of(obj)), own_containers(obj))
        if config_hash:
            meta["annotations"] = {
                **raw.text_map(meta, "annotations"),
                CONFIG_HASH_ANNOTATION: hash_of(config),
            }
    account = service_account_name(obj)
    if account:
        pod["serviceAccountName"] = account
    if not raw.text(pod, "priorityClassName") and "priority" not in pod:
        pod["priorityClassName"] = priorities.class_name(raw.tier(obj, "spec", "tier"))
    return {"metadata": meta, "spec": environment.with_variables(obj, mark, pod)}


def own_containers(obj: Obj) -> frozenset[str]:
    """Names of the workload's own containers, as opposed to injected ones."""
    pod = raw.mapping(obj, "spec", "template", "spec")
    return frozenset(
        raw.text(container, "name")
        for field in ("initContainers", "containers")
        for container in raw.objects(pod, field)
    )


def hash_of(config: Mapping[str, str]) -> str:
    return names.short_hash(json.dumps(config, sort_keys=True), length=12)


def _with_config(pod: dict[str, Any], config_map: str, own: frozenset[str]) -> dict[str, Any]:
    """Mounts the ConfigMap in the workload's own containers, unless its template uses the ConfigMap
    itself or has the path.
    """
    if _mentions(pod, config_map):
        return pod
    volume = {"name": CONFIG_VOLUME, "configMap": {"name": config_map}}
    mount = {"name": CONFIG_VOLUME, "mountPath": CONFIG_PATH, "readOnly": True}
    out = {**pod, "volumes": [*raw.objects(pod, "volumes"), volume]}
    for field in ("initContainers", "containers"):
        if field in pod:
            out[field] = [
                mounted(c, mount) if c.get("name") in own else c for c in raw.objects(pod, field)
            ]
    return out


def mounted(container: Obj, mount: Mapping[str, Any]) -> dict[str, Any]:
    mounts = raw.objects(container, "volumeMounts")
    if any(entry.get("mountPath") == mount["mountPath"] for entry in mounts):
        return dict(container)
    return {**container, "volumeMounts": [*mounts, dict(mount)]}


def _mentions(pod: Obj, config_map: str) -> bool:
    """Whether the template refers to the ConfigMap by name, in a volume or in a container's
    variables.
    """
    for volume in raw.objects(pod, "volumes"):
        if (
            raw.text(volume, "name") == CONFIG_VOLUME
            or raw.text(volume, "configMap", "name") == config_map
        ):
            return True
        sources = raw.objects(volume, "projected", "sources")
        if any(raw.text(source, "configMap", "name") == config_map for source in sources):
            return True
    for field in ("initContainers", "containers"):
        for container in raw.objects(pod, field):
            whole = [
                raw.text(entry, "configMapRef", "name")
                for entry in raw.objects(container, "envFrom")
            ]
            single = [
                raw.text(e, "valueFrom", "configMapKeyRef", "name")
                for e in raw.objects(container, "env")
            ]
            if config_map in whole or config_map in single:
                return True
    return False


def config_map(obj: Obj, mark: verbs.SliceMark | None, component: str) -> list[dict[str, Any]]:
    config = raw.text_map(obj, "spec", "config")
    if not config:
        return []
    meta = metadata(obj, mark, config_map_name(name_of(obj)), component)
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": config}]


def service_account_name(obj: Obj) -> str:
    """The account that the template names; else, for a workload with a role, one of its own name;
    else "" (the default).
    """
    pod = raw.mapping(obj, "spec", "template", "spec")
    named = raw.text(pod, "serviceAccountName") or raw.text(pod, "serviceAccount")
    return named or (name_of(obj) if raw.text(obj, "spec", "iamRole") else "")


def service_account(obj: Obj, mark: verbs.SliceMark | None, component: str) -> list[dict[str, Any]]:
    """The account that the pods run under, annotated with the role.

    An account that the template names may serve several workloads, so it has no owner: the first
    workload makes it, and it stays.
    """
    name = service_account_name(obj)
    if not name or name == "default":
        return []
    role = raw.text(obj, "spec", "iamRole")
    shared = name != name_of(obj)
    if shared:
        labels = {MANAGED_BY_LABEL: MANAGED_BY} | ({names.FLEET_LABEL: mark.fleet} if mark else {})
        meta: dict[str, Any] = {
            "name": name,
            "namespace": raw.text(obj, "metadata", "namespace"),
            "labels": labels,
        }
    else:
        meta = metadata(obj, mark, name, component)
    if role:
        meta["annotations"] = {IAM_ROLE_ANNOTATION: role}
    return [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}]
