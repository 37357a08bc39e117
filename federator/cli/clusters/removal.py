"""The functions behind `federator cluster remove`: checking the request, making it, and watching
its progress.

The hub does the work (its `removing`). The request is stored on the MemberCluster, so that the
removal continues whether or not anyone watches.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from federator.api import raw
from federator.api.membercluster import Removal
from federator.cli.clusters import granting
from federator.kinds import registry
from federator.kube import errors
from federator.kube.client import Client
from federator.model import names
from federator.model.errors import FieldError
from federator.model.steps import ObjectRef

LOOK_S = 1.0
"""Interval of polling while waiting, in seconds."""
KIND = registry.KINDS["MemberCluster"]


async def find(host: Client, name: str) -> dict[str, Any]:
    """The MemberCluster. Raises FieldError that lists the existing members."""
    try:
        return await host.get(KIND.ref("", name))
    except errors.NotServed:
        raise
    except errors.NotFound:
        pass
    others = sorted(
        obj["metadata"]["name"] for obj in (await host.list(KIND.api_version, KIND.plural)).items
    )
    text = f"there is no member {name}; the members are {', '.join(others) or 'none'}"
    try:
        await host.get(_secret_ref(name))
    except errors.NotFound:
        raise FieldError("", text) from None
    left = (
        f"its credentials are still there: kubectl delete secret {name} -n"
        f" {granting.CREDENTIALS_NAMESPACE}"
    )
    raise FieldError("", f"{text}; {left}")


def refuse_unfit(obj: Mapping[str, Any], how: Removal) -> None:
    """Raises FieldError when a reachable cluster is to be given up as lost."""
    name, ready = obj["metadata"]["name"], raw.condition(obj, "Ready")
    if how is Removal.LOST and (
        raw.text(ready, "status") == "True" or raw.text(ready, "reason") == "NotReporting"
    ):
        raise FieldError(
            "",
            f"{name} is reachable, so it is not lost: `federator cluster remove {name}` empties it"
            " first; with"
            " --orphan, what runs there is left as it is",
        )


async def ask(host: Client, obj: Mapping[str, Any], how: Removal) -> None:
    """Annotates how the cluster is to be removed, and deletes its MemberCluster. Raises
    ApiErrors."""
    meta = obj["metadata"]
    ref, current = (
        KIND.ref("", meta["name"]),
        raw.text_map(meta, "annotations").get(names.REMOVAL_ANNOTATION, ""),
    )
    requested = str(how) if how in (Removal.ORPHAN, Removal.LOST) else ""
    if requested and current != requested:
        mark = {names.REMOVAL_ANNOTATION: requested}
        await host.patch(ref, {"metadata": {"uid": meta["uid"], "annotations": mark}})
    if raw.text(meta, "deletionTimestamp"):
        return
    if not requested and current:
        await host.patch(
            ref, {"metadata": {"uid": meta["uid"], "annotations": {names.REMOVAL_ANNOTATION: None}}}
        )
    await host.delete(ref, uid=meta["uid"])


async def watch(host: Client, obj: Mapping[str, Any], report: Callable[[str], None]) -> str:
    """Waits until the MemberCluster is gone; calls `report` with each change of its condition
    Removing. Returns the note of the hub's final event, "" without one. Raises ApiErrors."""
    name, uid, last = obj["metadata"]["name"], obj["metadata"]["uid"], ""
    while True:
        try:
            live = await host.get(KIND.ref("", name))
        except errors.NotServed:
            raise
        except errors.NotFound:
            return await _final_note(host, uid)
        if live["metadata"]["uid"] != uid:
            return await _final_note(host, uid)
        condition = raw.condition(live, "Removing")
        text = (
            f"{raw.text(condition, 'reason')}: {raw.text(condition, 'message')}"
            if condition
            else ""
        )
        if text and text != last:
            report(text)
            last = text
        await asyncio.sleep(LOOK_S)


async def _final_note(host: Client, uid: str) -> str:
    """The note of the hub's final event about the removal, which may appear a moment after it."""
    for _ in range(3):
        events = (
            await host.list("events.k8s.io/v1", "events", field_selector=f"regarding.uid={uid}")
        ).items
        ends = [
            event
            for event in events
            if event.get("reason") in ("Removed", "Orphaned", "RemovedAsLost")
        ]
        if ends:
            return raw.text(ends[-1], "note")
        await asyncio.sleep(LOOK_S / 2)
    return ""


async def drop_credentials(host: Client, obj: Mapping[str, Any]) -> None:
    """Deletes the Secret of a removed member and the hub's right to it, unless another member uses
    them. The host's garbage collector may have done so already."""
    secret = granting.secret_of(obj)
    if not secret:
        return
    others = (await host.list(KIND.api_version, KIND.plural)).items
    if any(granting.secret_of(other) == secret for other in others):
        return
    with contextlib.suppress(errors.NotFound):
        await host.delete(
            _secret_ref(secret), uid=(await host.get(_secret_ref(secret)))["metadata"]["uid"]
        )
    await granting.revoke(host, secret)


def _secret_ref(name: str) -> ObjectRef:
    return ObjectRef("v1", "secrets", granting.CREDENTIALS_NAMESPACE, name, "Secret")
