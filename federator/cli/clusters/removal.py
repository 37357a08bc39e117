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

NOTE_S = 0.5
"""Interval of polling for the final Event, in seconds."""
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


async def drain(host: Client, obj: Mapping[str, Any], *, force: bool) -> dict[str, Any]:
    """Asks the hub to drain the cluster and then to delete its MemberCluster. A drain that is under
    way keeps how long its job sets may run. Returns the object. Raises ApiErrors."""
    meta = obj["metadata"]
    if raw.text(meta, "deletionTimestamp"):
        return dict(obj)
    wish: dict[str, Any] = {"thenRemove": True, **({"force": True} if force else {})}
    if raw.at(obj, "spec", "drain") is None:
        wish["jobsFinishSeconds"] = 0
    body = {"metadata": {"uid": meta["uid"]}, "spec": {"drain": wish}}
    return await host.patch(KIND.ref("", meta["name"]), body)


async def cancel(host: Client, obj: Mapping[str, Any]) -> None:
    """Ends a removal that has not come to the deletion of the MemberCluster, and its drain. Raises
    FieldError when there is none, ApiErrors."""
    meta = obj["metadata"]
    name = meta["name"]
    if raw.text(meta, "deletionTimestamp"):
        raise FieldError(
            "",
            f"MemberCluster {name} is already deleted, which nobody can take back. When it is gone,"
            f" join the cluster again: federator cluster add {name}",
        )
    if raw.at(obj, "spec", "drain", "thenRemove") is not True:
        raise FieldError(
            "", f"MemberCluster {name} is not being removed (spec.drain.thenRemove is not true)"
        )
    body = {"metadata": {"uid": meta["uid"]}, "spec": {"drain": None}}
    await host.patch(KIND.ref("", name), body)


class Watch:
    """Follows a removal and reports each change of the conditions Draining and Removing."""

    def __init__(self, host: Client, obj: Mapping[str, Any], report: Callable[[str], None]) -> None:
        self.host = host
        self.obj = obj
        self.report = report
        self.note = ""
        """The note of the hub's final Event about it."""
        self._last = ""

    async def look(self) -> bool:
        """Whether the MemberCluster is gone. Raises FieldError when the hub refuses the drain,
        which is then taken back, and when somebody ends it; ApiErrors."""
        name, uid = self.obj["metadata"]["name"], self.obj["metadata"]["uid"]
        live: dict[str, Any] | None
        try:
            live = await self.host.get(KIND.ref("", name))
        except errors.NotServed:
            raise
        except errors.NotFound:
            live = None
        if live is None or live["metadata"]["uid"] != uid:
            self.note = await _final_note(self.host, uid)
            return True
        deleted = bool(raw.text(live["metadata"], "deletionTimestamp"))
        condition = raw.condition(live, "Removing" if deleted else "Draining")
        if not deleted:
            await _check(self.host, self.obj, live, condition)
        text = (
            f"{raw.text(condition, 'reason')}: {raw.text(condition, 'message')}"
            if condition
            else ""
        )
        if text and text != self._last:
            self.report(text)
            self._last = text
        return False


async def _check(
    host: Client, obj: Mapping[str, Any], live: Mapping[str, Any], said: Mapping[str, Any]
) -> None:
    """Raises FieldError when the removal that `obj` asks for has ended."""
    name = live["metadata"]["name"]
    if raw.at(live, "spec", "drain", "thenRemove") is not True:
        raise FieldError("", f"somebody has ended the removal of {name}: it stays a member")
    generation = raw.integer(obj, "metadata", "generation")
    if raw.integer(said, "observedGeneration") < generation or raw.text(said, "status") != "False":
        return
    reason, message = raw.text(said, "reason"), raw.text(said, "message")
    await cancel(host, live)
    hint = f" If it will not come back: federator cluster remove {name} --lost."
    raise FieldError(
        "",
        f"{name} is not removed. {reason}: {message}{hint if reason == 'NotHeard' else ''}",
    )


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
        await asyncio.sleep(NOTE_S)
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
