"""Creates objects from files on an API server, and finds the resource of each."""

from collections.abc import Mapping
from typing import Any

from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

_PLURALS: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("v1", "Namespace"): ("namespaces", False),
    ("v1", "Secret"): ("secrets", True),
    ("v1", "ConfigMap"): ("configmaps", True),
    ("v1", "Service"): ("services", True),
    ("v1", "ServiceAccount"): ("serviceaccounts", True),
}
"""Native kinds in application files: (apiVersion, kind) -> (plural, whether namespaced)."""


def ref_of(obj: Mapping[str, Any]) -> ObjectRef:
    """The reference of an object. Raises FieldError for unknown kinds."""
    kind = registry.kind_of(obj)
    if kind is not None:
        return kind.ref_of(obj)
    resource = _PLURALS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    if resource is None:
        raise FieldError(
            "kind", f"{obj.get('apiVersion')} {obj.get('kind')} is not a kind that federator knows"
        )
    meta = obj["metadata"]
    namespace = meta.get("namespace", "default") if resource[1] else ""
    return ObjectRef(str(obj["apiVersion"]), resource[0], namespace, meta["name"], str(obj["kind"]))


async def create(client: Client, obj: Mapping[str, Any]) -> None:
    """Creates the object, unless it already exists."""
    try:
        await client.create(ref_of(obj), obj)
    except errors.AlreadyExists:
        return
