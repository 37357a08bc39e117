"""What keeps a kubelet from starting a pod although it has a node: Secrets and ConfigMaps that are
not there.

As kubelets do it: a volume that cannot be set up leaves every container in ContainerCreating, with
an Event FailedMount alone to say why; a variable that cannot be made leaves its container in
CreateContainerConfigError. Both are tried again. Claims are the scheduler's. Pure but for reading
the store.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federator.embedded.controllers.tools import Tools
from federator.embedded.storage.revisions import JsonObject

_KINDS: Final = (("configMap", "name", "configmap"), ("secret", "secretName", "secret"))
"""Field of a volume, field of its name there, and how a kubelet calls the kind."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A missing volume (`container` is "") or a container with variables that cannot be made;
    `text` in the kubelet's words."""

    container: str
    text: str


def unmounted(tools: Tools, pod: JsonObject) -> Missing | None:
    """The first volume that cannot be set up."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for kind, name in _of_volume(volume):
            if _data(tools, kind, namespace, name) is None:
                text = (
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" :'
                    f' {kind} "{name}" not found'
                )
                return Missing("", text)
    return None


def unset(tools: Tools, pod: JsonObject) -> Missing | None:
    """The first container with variables that cannot be made; init containers first."""
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for kind, name, key in _of_container(container):
            data = _data(tools, kind, namespace, name)
            if data is None:
                return Missing(container["name"], f'{kind} "{name}" not found')
            if key and key not in data:
                shown = {"secret": "Secret", "configmap": "ConfigMap"}[kind]
                return Missing(
                    container["name"], f"couldn't find key {key} in {shown} {namespace}/{name}"
                )
    return None


def claims(pod: JsonObject) -> Iterator[str]:
    """The claims that a pod's volumes name."""
    for volume in pod["spec"].get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim:
            yield claim


def _of_volume(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for field, named, kind in _KINDS:
        source = volume.get(field) or {}
        if source.get(named) and not source.get("optional"):
            yield kind, source[named]
        for projected in (volume.get("projected") or {}).get("sources") or ():
            source = projected.get(field) or {}
            if source.get("name") and not source.get("optional"):
                yield kind, source["name"]


def _of_container(container: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, key), the key "" for all of them."""
    for source in container.get("envFrom") or ():
        for field, kind in (("configMapRef", "configmap"), ("secretRef", "secret")):
            named = source.get(field) or {}
            if named.get("name") and not named.get("optional"):
                yield kind, named["name"], ""
    for variable in container.get("env") or ():
        for field, kind in (("configMapKeyRef", "configmap"), ("secretKeyRef", "secret")):
            named = (variable.get("valueFrom") or {}).get(field) or {}
            if named.get("name") and not named.get("optional"):
                yield kind, named["name"], named.get("key", "")


def _data(tools: Tools, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
    resource = tools.kinds.secrets if kind == "secret" else tools.kinds.configmaps
    revision = tools.get(resource, (namespace, name))
    if revision is None:
        return None
    return {**(revision.get("data") or {}), **(revision.get("binaryData") or {})}
