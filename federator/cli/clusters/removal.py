"""Removing a member, as functions that `federator cluster remove` prints: what may be asked, the asking, and watching
how far it is.

The hub does the work (its `removing`); what is asked stands on the MemberCluster, so that it goes on whoever watches.
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
"""How often a person who waits is looked for news."""
KIND = registry.KINDS["MemberCluster"]


async def find(host: Client, name: str) -> dict[str, Any]:
    """The MemberCluster. Raises FieldError with what there is instead."""
    try:
        return await host.get(KIND.ref("", name))
    except errors.NotServed:
        raise
    except errors.NotFound:
        pass
    others = sorted(obj["metadata"]["name"] for obj in (await host.list(KIND.api_version, KIND.plural)).items)
    text = f"there is no member {name}; the members are {', '.join(others) or 'none'}"
    try:
        await host.get(_secret_ref(name))
    except errors.NotFound:
        raise FieldError("", text) from None
    left = f"its credentials are still there: kubectl delete secret {name} -n {granting.CREDENTIALS_NAMESPACE}"
    raise FieldError("", f"{text}; {left}")


def refuse_unfit(obj: Mapping[str, Any], how: Removal) -> None:
    """Raises FieldError for a cluster that is to be given up as lost and is heard."""
    name, ready = obj["metadata"]["name"], raw.condition(obj, "Ready")
    if how is Removal.LOST and (raw.text(ready, "status") == "True" or raw.text(ready, "reason") == "NotReporting"):
        raise FieldError(
            "",
            f"{name} is heard, so it is not lost: `federator cluster remove {name}` empties it first, and with --orphan"
            " what runs there is left as it is",
        )


async def ask(host: Client, obj: Mapping[str, Any], how: Removal) -> None:
    """Says how the cluster is to go, and deletes its MemberCluster. Raises ApiErrors."""
    meta = obj["metadata"]
    ref, told = KIND.ref("", meta["name"]), raw.text_map(meta, "annotations").get(names.REMOVAL_ANNOTATION, "")
    wanted = str(how) if how in (Removal.ORPHAN, Removal.LOST) else ""
    if wanted and told != wanted:
        mark = {names.REMOVAL_ANNOTATION: wanted}
        await host.patch(ref, {"metadata": {"uid": meta["uid"], "annotations": mark}})
    if raw.text(meta, "deletionTimestamp"):
        return
    if not wanted and told:
        await host.patch(ref, {"metadata": {"uid": meta["uid"], "annotations": {names.REMOVAL_ANNOTATION: None}}})
    await host.delete(ref, uid=meta["uid"])


async def watch(host: Client, obj: Mapping[str, Any], tell: Callable[[str], None]) -> str:
    """Waits until the MemberCluster is gone, and tells every change of what it waits for. Returns the hub's last word
    on it, "" where none was said. Raises ApiErrors."""
    name, uid, told = obj["metadata"]["name"], obj["metadata"]["uid"], ""
    while True:
        try:
            live = await host.get(KIND.ref("", name))
        except errors.NotServed:
            raise
        except errors.NotFound:
            return await _last_word(host, uid)
        if live["metadata"]["uid"] != uid:
            return await _last_word(host, uid)
        condition = raw.condition(live, "Removing")
        text = f"{raw.text(condition, 'reason')}: {raw.text(condition, 'message')}" if condition else ""
        if text and text != told:
            tell(text)
            told = text
        await asyncio.sleep(LOOK_S)


async def _last_word(host: Client, uid: str) -> str:
    """What the hub said when the cluster had left, which may come a moment after it has."""
    for _ in range(3):
        found = (await host.list("events.k8s.io/v1", "events", field_selector=f"regarding.uid={uid}")).items
        ends = [one for one in found if one.get("reason") in ("Removed", "Orphaned", "RemovedAsLost")]
        if ends:
            return raw.text(ends[-1], "note")
        await asyncio.sleep(LOOK_S / 2)
    return ""


async def drop_credentials(host: Client, obj: Mapping[str, Any]) -> None:
    """Deletes the Secret of a member that has left, and the hub's right to it, unless another one uses it; the host's
    garbage collector may be faster."""
    secret = granting.secret_of(obj)
    if not secret:
        return
    others = (await host.list(KIND.api_version, KIND.plural)).items
    if any(granting.secret_of(other) == secret for other in others):
        return
    with contextlib.suppress(errors.NotFound):
        await host.delete(_secret_ref(secret), uid=(await host.get(_secret_ref(secret)))["metadata"]["uid"])
    await granting.revoke(host, secret)


def _secret_ref(name: str) -> ObjectRef:
    return ObjectRef("v1", "secrets", granting.CREDENTIALS_NAMESPACE, name, "Secret")
