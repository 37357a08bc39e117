"""This federation as a platform: objects on the host, written with the rights of the caller, and
verdicts of the leading hub."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from federator.api import raw
from federator.gateway.api import problems
from federator.gateway.api.models import Logs, Verdict, WorkloadVerdict
from federator.gateway.api.problems import Problem
from federator.gateway.callers import Caller, of_access
from federator.gateway.platforms import kinds
from federator.gateway.platforms.events import SubmissionEvent
from federator.gateway.platforms.leader import Query
from federator.gateway.platforms.platform import Parts
from federator.hub.query.access import REVIEW_S, AccessRefused
from federator.hub.query.router import Right
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kube import errors
from federator.model.steps import ObjectRef

Obj = dict[str, Any]
KINDS: Final[Mapping[str, Kind]] = {
    each.kind: registry.KINDS[each.kind] for each in kinds.OF_THE_FEDERATION
}
READ_S: Final = 5.0
WRITE_S: Final = 10.0
DELETE_TRIES: Final = 10
"""So often the status may have changed between a look at an object and its deletion."""
DUE: Final = "its runs are placed when they are due"


class Federation:
    """Implements `platform.Platform`."""

    def __init__(self, parts: Parts) -> None:
        self._callers = parts.callers
        self._judge = parts.judge
        self._access = parts.access
        self._events = parts.events
        self._admitting: WeakValueDictionary[tuple[Any, ...], asyncio.Lock] = WeakValueDictionary()

    async def admit(self, caller: Caller, namespace: str) -> None:
        """Returns when the caller may create any of the kinds there, or might a few seconds ago:
        before that, nothing is fetched for the caller. The host checks each create again. Raises
        `Problem`."""
        key = caller.name, caller.user.groups, namespace
        lock = self._admitting.setdefault(key, asyncio.Lock())
        try:
            # Of submissions that come together, the first asks for all. While the host does not
            # answer, each waits no longer than for a review of its own.
            async with asyncio.timeout(REVIEW_S), lock:
                await self._review(caller, namespace)
        except TimeoutError:
            sentence = "The host does not say whether you may create workloads here."
            raise Problem(503, "HostUnavailable", sentence, retry_after_s=2) from None

    async def _review(self, caller: Caller, namespace: str) -> None:
        rights = [Right("create", row.group, row.plural) for row in KINDS.values()]
        if any(self._access.had_lately(caller.user, right, namespace) for right in rights):
            return
        asked = (self._access.may(caller.user, right, namespace) for right in rights)
        try:
            allowed = await asyncio.gather(*asked)
        except AccessRefused as refused:
            raise of_access(refused) from None
        if not any(allowed):
            sentence = f"You may not create workloads in the namespace {namespace}."
            raise Problem(403, "Forbidden", sentence)

    def record_event(self, about: SubmissionEvent, identity: str, obj: Mapping[str, Any]) -> None:
        """An Event on the object is written soon."""
        self._events.add(about, identity, ref_of(obj), raw.text(obj, "metadata", "uid"))

    async def live(self, caller: Caller, obj: Mapping[str, Any]) -> Obj | None:
        """The object of this kind, namespace and name; None where there is none. Raises
        `Problem`."""
        try:
            return await self._callers.client(caller).get(ref_of(obj), timeout_s=READ_S)
        except errors.NotFound:
            return None
        except errors.ApiError as trouble:
            raise problems.of_host(trouble, path_of(obj)) from None

    async def labelled(
        self, caller: Caller, namespace: str, selectors: Mapping[str, str]
    ) -> list[Obj]:
        """Objects that the caller may list, by the selector of labels of each kind. Raises
        `Problem` where that is none of the kinds."""
        client = self._callers.client(caller)

        async def of_kind(name: str, selector: str) -> list[Obj] | errors.Denied:
            row = KINDS[name]
            try:
                async with asyncio.timeout(READ_S):
                    listing = await client.list(
                        row.api_version, row.plural, namespace, label_selector=selector
                    )
            except errors.Denied as denied:
                return denied
            except errors.NotServed:
                return []
            except (errors.ApiError, TimeoutError) as trouble:
                given = trouble if isinstance(trouble, errors.ApiError) else None
                raise problems.of_host(given or errors.Unreachable("late"), row.plural) from None
            return [{**obj, "apiVersion": row.api_version, "kind": name} for obj in listing.items]

        answers = await asyncio.gather(*(of_kind(*each) for each in selectors.items()))
        denied = [each for each in answers if isinstance(each, errors.Denied)]
        if denied and len(denied) == len(answers):
            raise problems.of_host(denied[0], namespace)
        return [obj for each in answers if not isinstance(each, errors.Denied) for obj in each]

    async def verdict(self, namespace: str, objects: Sequence[Obj]) -> Verdict:
        """The leader's verdict. Recurring kinds are not placed themselves. Raises `Problem`."""
        judged = [obj for obj in objects if obj["kind"] in registry.WORKLOADS]
        recurring = [
            WorkloadVerdict(
                kind=obj["kind"],
                name=raw.text(obj, "metadata", "name"),
                verdict="queued",
                message=DUE,
            )
            for obj in objects
            if obj["kind"] not in registry.WORKLOADS
        ]
        if not judged:
            return Verdict(verdict="queued", asOf="", workloads=recurring)
        given = await self._judge.verdict(namespace, judged)
        return given.model_copy(update={"workloads": [*given.workloads, *recurring]})

    async def logs(self, caller: Caller, obj: Mapping[str, Any], query: Query) -> Logs:
        """The logs of the pods of a workload, which the leader reads in members if the caller may
        see them. Raises `Problem`."""
        meta, row = obj["metadata"], KINDS[obj["kind"]]
        parts = (raw.text(meta, "namespace"), row.plural, raw.text(meta, "name"))
        return await self._judge.logs(
            parts, query, caller.headers, impersonated=caller.impersonated
        )

    async def write(
        self, caller: Caller, obj: Obj, live: Mapping[str, Any] | None, *, dry_run: bool = False
    ) -> Obj | None:
        """The object as stored, created or in place of `live`; None where another request was
        faster, so that the live object is to be read again. Raises `Problem`."""
        client, ref = self._callers.client(caller), ref_of(obj)
        try:
            async with asyncio.timeout(WRITE_S):
                if live is None:
                    return await client.create(ref, obj, dry_run, strict=True)
                return await client.replace(ref, obj, dry_run=dry_run, strict=True)
        except (errors.AlreadyExists, errors.Conflict):
            return None
        except (errors.ApiError, TimeoutError) as trouble:
            given = trouble if isinstance(trouble, errors.ApiError) else errors.Unreachable("late")
            raise problems.of_host(given, path_of(obj)) from None

    async def delete(self, caller: Caller, obj: Mapping[str, Any]) -> bool:
        """Deletes this very object. False where it was gone already. Raises `Problem`, 409 where
        somebody has changed the object since it was read: the hub writes its status all the time,
        which counts for no change."""
        uid = raw.text(obj, "metadata", "uid")
        known: Mapping[str, Any] = obj
        for _ in range(DELETE_TRIES):
            try:
                await self._callers.client(caller).delete(
                    ref_of(obj),
                    uid=uid,
                    resource_version=raw.text(known, "metadata", "resourceVersion"),
                )
            except errors.NotFound:
                return False
            except errors.Conflict:
                now = await self.live(caller, obj)
                if now is None or raw.text(now, "metadata", "uid") != uid:
                    return False
                if raw.text(now, "metadata", "deletionTimestamp"):
                    return False
                if _intent(now) != _intent(obj):
                    break
                known = now
            except errors.ApiError as trouble:
                raise problems.of_host(trouble, path_of(obj)) from None
            else:
                return True
        raise Problem(
            409,
            "Changed",
            f"{path_of(obj)} was changed while this request ran, so it is not deleted. Look at it,"
            " and cancel again.",
        )


def _intent(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """What people and gateways write of an object, and the hub does not."""
    meta = raw.mapping(obj, "metadata")
    return obj.get("spec"), raw.mapping(meta, "labels"), raw.mapping(meta, "annotations")


def ref_of(obj: Mapping[str, Any]) -> ObjectRef:
    """What names the object to the host."""
    meta = obj["metadata"]
    return KINDS[obj["kind"]].ref(raw.text(meta, "namespace"), raw.text(meta, "name"))


def path_of(obj: Mapping[str, Any]) -> str:
    """What names the object to a caller."""
    return f"{obj['kind']}/{raw.text(obj, 'metadata', 'name')}"
