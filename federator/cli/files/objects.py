"""Objects from files to an API server: which resource they are, and creating them in the order they are given."""

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
"""Native kinds that application files hold beside ours."""


def ref_of(obj: Mapping[str, Any]) -> ObjectRef:
    """The resource an object belongs to. Raises FieldError for kinds that we do not know."""
    kind = registry.kind_of(obj)
    if kind is not None:
        return kind.ref_of(obj)
    found = _PLURALS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    if found is None:
        raise FieldError("kind", f"{obj.get('apiVersion')} {obj.get('kind')} is no kind that federator knows")
    meta = obj["metadata"]
    namespace = meta.get("namespace", "default") if found[1] else ""
    return ObjectRef(str(obj["apiVersion"]), found[0], namespace, meta["name"], str(obj["kind"]))


async def create(client: Client, obj: Mapping[str, Any]) -> None:
    """Creates the object; one that is there already is left as it is."""
    try:
        await client.create(ref_of(obj), obj)
    except errors.AlreadyExists:
        return
