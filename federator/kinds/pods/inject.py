"""Runtime injection: a pod template with the support of a RuntimeProfile. Pure; the template given
is never changed.

Used by `effective` (what a copy will really need, on the host) and by the expanders (what the
member writes), so that both see the same pod. Where a workload already has a variable, label or
annotation of the same name, the workload's own stands; a container or a volume of the same name is
refused. A sidecar with `drain` changes the workload's own containers too (`registration`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from federator.api import raw
from federator.api.raw import Obj
from federator.kinds.pods import registration
from federator.kinds.pods.registration import Registration
from federator.model.errors import FieldError

TEMPLATE = "spec.template"
SIDECARS = "spec.sidecars"
ON_REQUEST = "OnRequest"


def inject(
    template: Obj,
    profile: Obj | None,
    sidecars: Obj = raw.NO_FIELDS,
    *,
    batch: bool = False,
    uid: str = "",
) -> dict[str, Any]:
    """The template with the profile's containers, variables, volumes, labels and annotations.

    `sidecars` are the workload's parameters by container name. `batch`: every sidecar becomes a
    native one, since a pod with an endless container never completes. `uid`: of the slice, in a
    member; its pods are drained with a token made of it. Without a profile the
    template comes back as it is. Raises FieldError for parameters that the profile does not know or
    misses, and for the name of a container or a volume that is taken.
    """
    if profile is None:
        return dict(template)
    support = raw.mapping(profile, "spec")
    name = raw.text(profile, "metadata", "name")
    _check_parameters(support, sidecars, name)
    pod = dict(raw.mapping(template, "spec"))
    own_init, own = raw.objects(pod, "initContainers"), raw.objects(pod, "containers")
    first, beside = _added(support, sidecars, batch=batch)
    _check_names(first + beside, own_init, own, name)
    check_volumes(pod, profile)
    registered = registration.of(support, [*first, *beside], pod, uid)
    if registered is not None:
        own = [registration.stopped(container, registered) for container in own]
        first = [_registering(container, registered) for container in first]
    pod["initContainers"] = first + [_supported(container, support) for container in own_init]
    pod["containers"] = [_supported(container, support) for container in own] + beside
    if not pod["initContainers"]:
        del pod["initContainers"]
    volumes = _joined(raw.objects(pod, "volumes"), raw.objects(support, "volumes"), "name")
    if volumes:
        pod["volumes"] = volumes
    metadata = _metadata(template, support)
    if registered is not None:
        notes = raw.text_map(metadata, "annotations")
        metadata["annotations"] = {**notes, registration.ANNOTATION: registered.sidecar}
    return {**template, "metadata": metadata, "spec": pod}


def parameter_text(value: Any) -> str:
    """A parameter as a variable holds it: lists of scalars joined by commas, objects and the rest
    as JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(
        isinstance(entry, str | int) and not isinstance(entry, bool) for entry in value
    ):
        return ",".join(str(entry) for entry in value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _added(
    support: Obj, sidecars: Obj, *, batch: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(init containers and native sidecars in front of the workload's own, containers beside
    them).
    """
    first: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []
    for entry in _wanted(support, "initContainers", sidecars):
        first.append(_container(entry, sidecars))
    for entry in _wanted(support, "sidecars", sidecars):
        container = _container(entry, sidecars)
        # One that drains has to end after the containers that it drains for.
        if batch or raw.flag(entry, "native") or "drain" in entry:
            first.append({**container, "restartPolicy": "Always"})
        else:
            beside.append(container)
    return first, beside


def _wanted(support: Obj, field: str, sidecars: Obj) -> list[Obj]:
    return [
        entry
        for entry in raw.objects(support, field)
        if raw.text(entry, "inject") != ON_REQUEST or raw.text(entry, "name") in sidecars
    ]


def _container(entry: Obj, sidecars: Obj) -> dict[str, Any]:
    name = raw.text(entry, "name")
    container = {
        "name": name,
        **{key: value for key, value in raw.mapping(entry, "container").items() if key != "name"},
    }
    given = raw.mapping(sidecars, name)
    variables: list[Obj] = []
    for parameter in raw.objects(entry, "parameters"):
        value = given.get(raw.text(parameter, "name"), parameter.get("default"))
        if value is not None:
            variables.append({"name": raw.text(parameter, "env"), "value": parameter_text(value)})
    env = _joined(variables, raw.objects(container, "env"), "name")
    return {**container, "env": env} if env else container


def _registering(container: dict[str, Any], registered: Registration) -> dict[str, Any]:
    if container["name"] != registered.sidecar:
        return container
    env = _joined(raw.objects(container, "env"), registered.variables, "name")
    return {**container, "env": env}


def check_registration(
    pod: Obj, profile: Obj | None, sidecars: Obj = raw.NO_FIELDS, *, batch: bool = False
) -> None:
    """Raises FieldError for what the registering sidecar of the profile can neither ask nor call;
    `inject` refuses the same."""
    support = raw.mapping(profile, "spec") if profile is not None else raw.NO_FIELDS
    if any("drain" in entry for entry in raw.objects(support, "sidecars")):
        _check_parameters(support, sidecars, raw.text(profile or {}, "metadata", "name"))
        first, beside = _added(support, sidecars, batch=batch)
        registration.of(support, [*first, *beside], pod)


def _supported(container: Obj, support: Obj) -> dict[str, Any]:
    """One of the workload's own containers with the profile's variables and mounts."""
    out = dict(container)
    env = _joined(raw.objects(container, "env"), raw.objects(support, "env"), "name")
    mounts = _joined(
        raw.objects(container, "volumeMounts"), raw.objects(support, "volumeMounts"), "mountPath"
    )
    return out | raw.present({"env": env, "volumeMounts": mounts})


def _joined(own: Sequence[Obj], added: Sequence[Obj], key: str) -> list[dict[str, Any]]:
    """`own`, then the entries of `added` with a key that `own` does not have."""
    taken = {entry.get(key) for entry in own}
    return [dict(entry) for entry in own] + [
        dict(entry) for entry in added if entry.get(key) not in taken
    ]


def _metadata(template: Obj, support: Obj) -> dict[str, Any]:
    metadata = dict(raw.mapping(template, "metadata"))
    labels = {**raw.text_map(support, "podLabels"), **raw.text_map(metadata, "labels")}
    annotations = {
        **raw.text_map(support, "podAnnotations"),
        **raw.text_map(metadata, "annotations"),
    }
    return metadata | raw.present({"labels": labels, "annotations": annotations})


def _check_parameters(support: Obj, sidecars: Obj, profile: str) -> None:
    containers: dict[str, Mapping[str, Obj]] = {}
    for field in ("initContainers", "sidecars"):
        for entry in raw.objects(support, field):
            containers[raw.text(entry, "name")] = {
                raw.text(parameter, "name"): parameter
                for parameter in raw.objects(entry, "parameters")
            }
    for name in sorted(sidecars):
        if name not in containers:
            raise FieldError(
                f"{SIDECARS}.{name}",
                (
                    f"RuntimeProfile {profile!r} has no container of this name, only"
                    f" {_names(containers)}"
                ),
            )
        for key in sorted(raw.mapping(sidecars, name)):
            if key not in containers[name]:
                raise FieldError(
                    f"{SIDECARS}.{name}.{key}",
                    (
                        f"container {name!r} of RuntimeProfile {profile!r} knows "
                        f"{_names(containers[name])}, not this parameter"
                    ),
                )
    for field in ("initContainers", "sidecars"):
        for entry in _wanted(support, field, sidecars):
            name = raw.text(entry, "name")
            for parameter in raw.objects(entry, "parameters"):
                given = raw.mapping(sidecars, name).get(raw.text(parameter, "name"))
                if raw.flag(parameter, "required") and given is None:
                    raise FieldError(
                        f"{SIDECARS}.{name}.{raw.text(parameter, 'name')}",
                        f"container {name!r} of RuntimeProfile {profile!r} needs this parameter",
                    )


def _check_names(
    added: Sequence[Obj], own_init: Sequence[Obj], own: Sequence[Obj], profile: str
) -> None:
    taken = {container["name"] for container in added}
    for field, containers in (("initContainers", own_init), ("containers", own)):
        for index, container in enumerate(containers):
            if container.get("name") in taken:
                raise FieldError(
                    f"{TEMPLATE}.spec.{field}[{index}].name",
                    (
                        f"{container['name']!r} names a container that RuntimeProfile "
                        f"{profile!r} adds; rename this one"
                    ),
                )


def check_volumes(pod: Obj, profile: Obj | None) -> None:
    """Raises FieldError for a volume with the name of one of the profile's: the containers of the
    profile would mount the workload's volume instead of their own."""
    support = raw.mapping(profile, "spec") if profile is not None else raw.NO_FIELDS
    taken = {raw.text(volume, "name") for volume in raw.objects(support, "volumes")}
    for index, volume in enumerate(raw.objects(pod, "volumes") if taken else ()):
        if (name := raw.text(volume, "name")) in taken:
            raise FieldError(
                f"{TEMPLATE}.spec.volumes[{index}].name",
                (
                    f"{name!r} names a volume that RuntimeProfile "
                    f"{raw.text(profile, 'metadata', 'name')!r} adds; rename this one, and its"
                    " volumeMounts"
                ),
            )


def _names(entries: Mapping[str, Any]) -> str:
    return ", ".join(sorted(entries)) or "none"
