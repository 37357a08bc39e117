"""List items of pod templates that a create may name twice and an apply may not. Pure.

API servers identify the items of these lists by key fields in an apply, and do not check in a
create that the keys differ. Of other lists with keys (containers, volumes) they check that always.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.kinds.natives import pod_templates

_OF_PODS: Final = {"imagePullSecrets": ("name",), "hostAliases": ("ip",)}
_OF_CONTAINERS: Final = {"env": ("name",), "ports": ("containerPort", "protocol")}
_DEFAULTS: Final = {"protocol": "TCP"}


def repeated(native: Mapping[str, Any]) -> bool:
    """Whether a pod template of the object has two items with the same key in one list."""
    for items, key in _lists(native):
        keys = [tuple(str(item.get(name, _DEFAULTS.get(name))) for name in key) for item in items]
        if len(set(keys)) < len(keys):
            return True
    return False


def _lists(native: Mapping[str, Any]) -> Iterator[tuple[list[raw.Obj], tuple[str, ...]]]:
    for template in pod_templates(native):
        pod = raw.mapping(template, "spec")
        for name, key in _OF_PODS.items():
            yield raw.objects(pod, name), key
        for containers in ("initContainers", "containers"):
            for container in raw.objects(pod, containers):
                for name, keys in _OF_CONTAINERS.items():
                    yield raw.objects(container, name), keys
