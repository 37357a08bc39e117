"""A plan as it is sent to the leader's query port (`POST /v1/plan`)."""

from collections.abc import Mapping
from typing import Any

import msgspec

from federator.api import raw
from federator.hub.placing.offline import Id
from federator.hub.query.router import LARGE_BYTES


def body_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The body. `asked`: the edits, as `asked` reads them."""
    return {
        **asked,
        "deleted": [_id_fields(which) for which in asked["deleted"]],
        "scaled": [{**_id_fields(which), "count": count} for which, count in asked["scaled"]],
    }


def query_of(body: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The parameter that says where the caller may list workloads, of a large body only: a hub of
    before does not know it."""
    if len(msgspec.json.encode(body)) <= LARGE_BYTES:
        return ()
    named = [raw.text(obj, "metadata", "namespace") for obj in body["applied"]]
    named += [each.get("namespace", "") for each in (*body["deleted"], *body["scaled"])]
    return next(((("namespace", name),) for name in named if name), ())


def _id_fields(which: Id) -> dict[str, str]:
    kind, namespace, name = which
    return {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
