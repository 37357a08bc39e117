"""What is decoded of the host's workloads and decisions: all but `managedFields`, which is half of
their bytes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kube.wire import decode

_UNREAD: Final = msgspec.Raw(b"[]")


class HostMeta(decode.Meta):
    """The metadata of an object, whatever stands in it."""

    generateName: Any = None
    generation: Any = None
    labels: Any = None
    annotations: Any = None
    finalizers: Any = None
    ownerReferences: Any = None
    creationTimestamp: Any = None
    deletionTimestamp: Any = None
    deletionGracePeriodSeconds: Any = None
    managedFields: msgspec.Raw = _UNREAD


class HostShape(msgspec.Struct):
    metadata: HostMeta
    apiVersion: Any = None
    kind: Any = None
    spec: Any = None
    status: Any = None

    def as_object(self, api_version: str, kind: str) -> dict[str, Any]:
        """The same as a decoded object with its type, without fields that are null.
        `managedFields` stay undecoded (`msgspec.Raw`)."""
        meta = self.metadata
        obj: dict[str, Any] = {
            "apiVersion": self.apiVersion or api_version,
            "kind": self.kind or kind,
            "metadata": {
                name: value for name in _META if (value := getattr(meta, name)) is not None
            },
        }
        if self.spec is not None:
            obj["spec"] = self.spec
        if self.status is not None:
            obj["status"] = self.status
        return obj


_META: Final = HostMeta.__struct_fields__


def reading(kind: Kind, project: Callable[[dict[str, Any]], Any]) -> Mapping[str, Any]:
    """How a reflector of this kind reads its objects for `project`: arguments of `Reflector`.
    Others than workloads and decisions are few, and the verbs of cron jobs read `managedFields`."""
    if kind.kind != "PlacementDecision" and kind.kind not in registry.WORKLOADS:
        return {"project": project}

    def projected(shown: HostShape) -> Any:
        return project(shown.as_object(kind.api_version, kind.kind))

    return {"project": projected, "shape": HostShape}
