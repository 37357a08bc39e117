"""The objects by which clusters run recurring objects by themselves: read, made, changed and
deleted, as the kind's `plan` says.

One of them has the name of the recurring object, so that two leaders cannot make two. Its moment of
the handover is written when it is made, and moved by edits of the schedule.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from federator.api import raw
from federator.hub.host.controller import Controller, Tools
from federator.kinds import registry
from federator.kinds.kind import Kind
from federator.kinds.recurring import Handover, Native, Plan, RecurringVerbs
from federator.kube import errors
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from federator.model import names, plaintext
from federator.model.kubernetes import diffs
from federator.model.names import ObjectName, WorkloadKey
from federator.model.steps import Create, Delete, Patch

log = logging.getLogger(__name__)

SETTLED_S: Final = 10.0
"""So long clusters have to be heard of as stopped: a controller that has not noticed yet may begin
one more run."""
Obj = raw.Obj


class Handing(Controller):
    """One per hub. Keys are those of recurring objects."""

    def __init__(self, tools: Tools, changed: Callable[[WorkloadKey], None]) -> None:
        super().__init__(tools)
        self._reflectors: dict[str, Reflector[Native]] = {}
        self._stopped_since_s: dict[WorkloadKey, float] = {}
        for kind in registry.RECURRING.values():
            self._reflectors[kind.kind] = self._reflector(kind, changed)

    @property
    def reflectors(self) -> tuple[Reflector[Native], ...]:
        return tuple(self._reflectors.values())

    def synced(self, key: WorkloadKey) -> bool:
        return self._reflectors[key.kind].store.synced

    def heard(self, key: WorkloadKey) -> Native | None:
        """As the watch told it."""
        return self._reflectors[key.kind].store.get((key.namespace, key.name))

    async def read(self, key: WorkloadKey) -> Native | None:
        """As the host has it now. Raises ApiErrors."""
        verbs = _verbs(key)
        ref = registry.KINDS[verbs.native_kind].ref(key.namespace, key.name)
        live = await self.host.find(ref)
        return verbs.read_native(live) if live is not None else None

    async def carry_out(self, key: WorkloadKey, obj: Obj, plan: Plan, now_s: float) -> None:
        """Carries out the handover of the decision on runs. Raises ApiErrors."""
        match plan.handover:
            case Handover.MAKE:
                await self._make(key, obj, int(now_s), held=plan.held)
            case Handover.CHANGE if plan.native is not None:
                after_s = max(plan.native.after_s, plan.since_s)
                await self._change(key, obj, plan.native, after_s, held=plan.held)
            case Handover.END if plan.native is not None:
                await self._end(key, obj, plan.native)

    def unsettled_s(self, key: WorkloadKey, plan: Plan) -> float:
        """How many seconds the clusters have still to be heard of as stopped before their object
        may go; 0.0 when it may, or is not to."""
        if plan.handover is not Handover.END:
            self._stopped_since_s.pop(key, None)
            return 0.0
        now_s = self.clock.monotonic()
        since_s = self._stopped_since_s.setdefault(key, now_s)
        return max(since_s + SETTLED_S - now_s, 0.0)

    async def _make(self, key: WorkloadKey, obj: Obj, after_s: int, *, held: bool) -> None:
        verbs, uid = _verbs(key), raw.text(obj, "metadata", "uid")
        body = verbs.render_native(obj, after_s, held)
        ref = registry.KINDS[verbs.native_kind].ref(key.namespace, key.name)
        outcome = await self.applier.apply(Create(ref, body), key)
        if outcome.error is None:
            log.info("%s: its clusters run what is due after %s", key, raw.second(after_s))
            note = f"Its clusters run what is due after {raw.second(after_s)}."
            self.events.tell(key, uid, "HandedOver", note, action="Run")
        elif not isinstance(outcome.error, errors.AlreadyExists):
            self._refused(key, uid, outcome.error)
            raise outcome.error

    async def _change(
        self, key: WorkloadKey, obj: Obj, native: Native, after_s: int, *, held: bool
    ) -> None:
        """Writes what is asked for now. The moment of the handover stays, until an edit of the
        schedule moves it: clusters run nothing that was due before it."""
        verbs = _verbs(key)
        ref = registry.KINDS[verbs.native_kind].ref(key.namespace, key.name)
        wanted = verbs.render_native(obj, after_s, held)
        live = await self.host.get(ref)
        meta = wanted["metadata"]
        body = {
            "metadata": {"labels": meta["labels"], "annotations": meta["annotations"]},
            "spec": diffs.replacement_patch(raw.mapping(live, "spec"), wanted["spec"]),
        }
        version = raw.text(live, "metadata", "resourceVersion")
        patch = Patch(ref, body, uid=native.uid, resource_version=version)
        outcome = await self.applier.apply(patch, key)
        if outcome.error is not None and not outcome.gone:
            self._refused(key, raw.text(obj, "metadata", "uid"), outcome.error)
            raise outcome.error

    async def _end(self, key: WorkloadKey, obj: Obj, native: Native) -> None:
        ref = registry.KINDS[_verbs(key).native_kind].ref(key.namespace, key.name)
        outcome = await self.applier.apply(Delete(ref, native.uid))
        if outcome.error is not None and not outcome.gone:
            raise outcome.error
        self._stopped_since_s.pop(key, None)
        last = raw.second(native.last_s) or "none"
        note = f"The hub runs what is due from now on; the last run of its clusters: {last}."
        self.events.tell(key, raw.text(obj, "metadata", "uid"), "TakenBack", note, action="Run")

    def _refused(self, key: WorkloadKey, uid: str, error: errors.ApiError) -> None:
        if isinstance(error, errors.Denied | errors.Invalid) and not self.events.repeats(
            uid, "HandoverRefused"
        ):
            why = plaintext.clipped(str(error))
            self.events.tell(key, uid, "HandoverRefused", why, action="Run", warning=True)

    def _reflector(self, kind: Kind, changed: Callable[[WorkloadKey], None]) -> Reflector[Native]:
        assert kind.recurring is not None
        made = registry.KINDS[kind.recurring.native_kind]

        def on_change(key: ObjectName, old: Any, new: Any) -> None:
            if old != new:
                changed(names.key(kind.kind, *key))

        return self.reflector(
            made.api_version,
            made.plural,
            Store(f"host/clusters of {kind.plural}"),
            project=kind.recurring.read_native,
            on_change=on_change,
        )


def _verbs(key: WorkloadKey) -> RecurringVerbs:
    verbs = registry.KINDS[key.kind].recurring
    assert verbs is not None
    return verbs
