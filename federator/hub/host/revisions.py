"""Revisions: before a rollout reaches the first member, the former and the new pod template are
kept on the host, as ControllerRevisions of the workload.

A workload that never changed its pods has none. The first rollout writes two, every later one
writes one; the last ten are kept. Called by the slice writer with the leader's own host client. A
history that cannot be written does not delay a rollout.
"""

import asyncio
import logging
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from federator.api import raw
from federator.hub.host.controller import Controller, Tools
from federator.hub.records.workloads import Workload
from federator.kinds import registry
from federator.kinds.pods import podparts, revisions
from federator.kinds.pods.revisions import Revision
from federator.kinds.verbs import Profile
from federator.kube import errors
from federator.model import names
from federator.model.ask import Unit
from federator.model.names import WorkloadKey
from federator.model.steps import Create, Delete, ObjectRef, Step

log = logging.getLogger(__name__)

REMEMBERED = 4096
"""Number of workloads for which the hub remembers that their present revision is kept; for others
it reads again."""


class Revisions(Controller):
    """The only writer of the ControllerRevisions of workloads on the host."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._kept: OrderedDict[WorkloadKey, tuple[int, str]] = OrderedDict()
        """The newest revision that this process wrote or read: generation of the workload, name of
        the revision."""
        self._turns: weakref.WeakValueDictionary[WorkloadKey, asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        """Members are written concurrently: the first one keeps the revision, the others wait for
        it."""

    async def before_roll_out(
        self,
        workload: Workload,
        obj: Mapping[str, Any],
        profile: Profile,
        live: Mapping[str, Any] | None,
    ) -> None:
        """Keeps the revision that `obj` makes, and the one of the slice `live` when none was kept
        yet. `live` None: nothing proves that the slice is as the hub once wrote it. A member's
        word must not become a template that an undo gives to every cluster."""
        if workload.verbs.unit is not Unit.REPLICAS:
            return  # shards keep their template: there is nothing to go back to
        parts = workload.verbs.pods(obj)
        name = revisions.name_of(obj, parts, profile)
        turn = self._turns.setdefault(workload.key, asyncio.Lock())
        async with turn:
            generation = raw.integer(obj, "metadata", "generation")
            newest, kept_name = self._kept.get(workload.key, (0, ""))
            if kept_name == name or generation < newest:
                return  # kept already, or another turn has read a later one meanwhile
            try:
                await self._keep(workload, obj, parts, profile, live)
            except errors.NotLeading:
                return  # nor will the slice be written
            except errors.ApiError as trouble:
                log.warning("%s: its revision could not be kept: %s", workload.key, trouble)
                if not isinstance(trouble, errors.Denied):
                    return
            self._kept[workload.key] = (generation, name)
            self._kept.move_to_end(workload.key)
            while len(self._kept) > REMEMBERED:
                self._kept.popitem(last=False)

    async def _keep(
        self,
        workload: Workload,
        obj: Mapping[str, Any],
        parts: Mapping[str, Any],
        profile: Profile,
        live: Mapping[str, Any] | None,
    ) -> None:
        kind = registry.KINDS[workload.key.kind]
        selector = f"{names.WORKLOAD_UID_LABEL}={workload.uid}"
        listing = await self.host.list(
            revisions.API_VERSION, revisions.PLURAL, workload.key.namespace, label_selector=selector
        )
        kept = revisions.history(listing.items, workload.uid)
        if not kept:
            former = self._former(workload, obj, profile, live)
            if former is not None and former != (parts, profile):
                before, pinned = former
                first = revisions.body(
                    obj,
                    kind.kind,
                    kind.api_version,
                    before,
                    pinned,
                    number=1,
                    fleet=self.state.options.fleet,
                )
                kept = [revisions.read(await self._apply(Create(_ref(first), first)))]
        number = kept[-1].number + 1 if kept else 1
        cause = revisions.cause_of(obj)
        wanted = revisions.body(
            obj,
            kind.kind,
            kind.api_version,
            parts,
            profile,
            number=number,
            fleet=self.state.options.fleet,
        )
        wanted["metadata"] |= {"annotations": {revisions.CHANGE_CAUSE: cause}} if cause else {}
        again = next(
            (revision for revision in kept if revision.name == wanted["metadata"]["name"]), None
        )
        if again is None or again is not kept[-1]:
            if again is not None:
                # Made anew under its new number: API servers compare its data byte by byte, as
                # somebody once sent them, and refuse a patch that leaves them alone.
                await self._apply(Delete(_ref(wanted), again.uid))
            await self._apply(Create(_ref(wanted), wanted))
        await self._prune(workload, [revision for revision in kept if revision is not again])

    async def _prune(self, workload: Workload, others: list[Revision]) -> None:
        """Deletes those of `others`, oldest first, that are too many beside the newest."""
        for old in others[: max(len(others) + 1 - revisions.KEPT, 0)]:
            await self._apply(Delete(_named(workload.key.namespace, old.name), old.uid))

    def _former(
        self,
        workload: Workload,
        obj: Mapping[str, Any],
        profile: Profile,
        live: Mapping[str, Any] | None,
    ) -> tuple[Mapping[str, Any], Profile] | None:
        """What the pods were made from: by the host's object as it was before, if that was seen;
        else by the slice. None where neither tells."""
        mark = workload.verbs.read_mark(live) if live is not None else None
        pinned = mark.rules.profile if mark is not None else profile
        before = self.documents.former(workload)
        parts = workload.verbs.pods(before) if before is not None else None
        if parts is None or parts == workload.verbs.pods(obj):
            parts = workload.verbs.pods(live) if live is not None else None
        return (parts, pinned) if parts is not None else None

    async def _apply(self, step: Step) -> Mapping[str, Any]:
        outcome = await self.applier.apply(step)
        if outcome.error is not None and not isinstance(outcome.error, errors.AlreadyExists):
            raise outcome.error
        return outcome.obj or {}


def rolls_out(live_mark_is_old: bool, patch: Mapping[str, Any]) -> bool:
    """Whether a patch of a slice changes its pod template. A patch that only undoes drift begins no
    rollout: `live_mark_is_old` says that the workload or its profile has changed since the slice
    was written."""
    spec = raw.mapping(patch, "spec")
    return live_mark_is_old and (
        any(name in spec for name in podparts.FIELDS) or "profile" in raw.mapping(spec, "slice")
    )


def _ref(body: Mapping[str, Any]) -> ObjectRef:
    return _named(body["metadata"]["namespace"], body["metadata"]["name"])


def _named(namespace: str, name: str) -> ObjectRef:
    return ObjectRef(revisions.API_VERSION, revisions.PLURAL, namespace, name, revisions.KIND)
