"""Writes an edit into an object as somebody has seen it.

Every status update changes the resourceVersion, and the hub writes one each second. What a person
decides on are spec, labels and annotations: the mark is made from these. The write itself has the
resourceVersion as its precondition.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from federator.kube import errors
from federator.kube.client import Client
from federator.model.steps import ObjectRef

TRIES: Final = 10
"""Attempts to write against concurrent status updates."""


def mark(obj: Mapping[str, Any]) -> str:
    """Changes when the object is replaced, or its spec, data, labels or annotations change."""
    meta = obj["metadata"]
    seen = (
        meta.get("uid"),
        *(obj.get(name) for name in ("spec", "data")),
        *(meta.get(name) for name in ("labels", "annotations", "deletionTimestamp")),
    )
    return hashlib.sha256(msgspec.json.encode(seen, order="sorted")).hexdigest()


async def patch(
    client: Client, ref: ObjectRef, seen: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Writes a merge patch into the object with this mark. Raises `errors.Conflict` when it was
    changed meanwhile, and the other ApiErrors."""
    for _ in range(TRIES):
        current = await client.get(ref)
        if mark(current) != seen:
            raise errors.Conflict(f"{ref.kind} {ref.name} was changed meanwhile")
        version = {"resourceVersion": current["metadata"]["resourceVersion"]}
        whole = {**body, "metadata": {**body.get("metadata", {}), **version}}
        try:
            return await client.patch(ref, whole, strict=True)
        except errors.Conflict:
            continue
    raise errors.Conflict(f"{ref.kind} {ref.name} changes faster than it can be written")
