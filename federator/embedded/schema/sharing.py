"""One copy of each schema of a CustomResourceDefinition for the whole process.

Hundreds of clusters of one process install the same few definitions, each of megabytes once parsed.
A shared schema is found by its identity, so that it is not hashed again. Stored objects never
change.
"""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from federator.embedded.storage.schema import LazyNode, Node

_LIMIT: Final = 256
"""Schemas kept; all are dropped when there are more."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """One schema of the process: its tree, defaults filled in, and its parsed form with everything
    compiled on it.
    """

    schema: dict[str, Any]
    node: LazyNode


_BY_DIGEST: dict[bytes, Shared] = {}
_BY_IDENTITY: dict[int, Shared] = {}
"""The same by `id` of the tree, which lives as long as its row."""


def find(schema: object) -> Shared | None:
    """What this very tree is, if it is a shared one."""
    return _BY_IDENTITY.get(id(schema))


def share(schema: dict[str, Any]) -> Shared:
    """The process-wide copy of a schema. The caller must not change `schema` afterwards: it may
    become that copy.
    """
    known = find(schema)
    if known is not None:
        return known
    digest = hashlib.sha256(msgspec.json.encode(schema, order="sorted")).digest()
    known = _BY_DIGEST.get(digest)
    if known is None:
        if len(_BY_DIGEST) >= _LIMIT:
            _BY_DIGEST.clear()
            _BY_IDENTITY.clear()
        known = Shared(schema, LazyNode(lambda: Node(schema, None)))
        _BY_DIGEST[digest] = _BY_IDENTITY[id(schema)] = known
    return known
