"""Writes the pause object, for `federator pause` and `resume` and for the dashboard."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from federator.hub.query.banner import SYSTEM_NAMESPACE
from federator.hub.records.pauses import PAUSE_OBJECT
from federator.model.steps import ObjectRef

if TYPE_CHECKING:
    from federator.kube.client import Client

PAUSE: Final = ObjectRef("v1", "configmaps", SYSTEM_NAMESPACE, PAUSE_OBJECT, "ConfigMap")


async def read(client: "Client") -> dict[str, Any]:
    """The pause object; one without data when there is none."""
    from federator.kube import errors

    try:
        return await client.get(PAUSE)
    except errors.NotFound:
        return {"metadata": {"name": PAUSE.name, "namespace": PAUSE.namespace}}


async def switch(
    client: "Client", wanted: Mapping[str, str], before: Mapping[str, Any] | None = None
) -> tuple[bool, Mapping[str, str]]:
    """Begins or ends a pause. `before`: the object as somebody has seen it. Returns whether there
    was a pause, and the data written. Raises `errors.Conflict` when the object is another one by
    now, and the other ApiErrors."""
    if before is None:
        before = await read(client)
    data = before.get("data") or {}
    was_paused, pauses = data.get("paused") == "true", wanted["paused"] == "true"
    if not was_paused and not pauses:
        return False, wanted
    if pauses and was_paused and data.get("since"):
        # already paused: keep since and by
        wanted = {**data, **{name: text for name, text in wanted.items() if name == "reason"}}
    meta = {"name": PAUSE.name, "namespace": PAUSE.namespace}
    if version := before["metadata"].get("resourceVersion"):
        meta["resourceVersion"] = version
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(wanted)}
    await client.patch(PAUSE, body, kind="apply", force=True)
    return was_paused, wanted
