"""Keeps the PriorityClasses of the tiers in a member: made when missing, never changed (their values are fixed by
the API anyway)."""

import asyncio

from federator.expand import priorities
from federator.kube import errors
from federator.kube.applier import Applier
from federator.member.caches import Caches
from federator.model.steps import Create, ObjectRef


class TierClasses:
    """Makes the classes at the start, and again when somebody removes one. Runs until cancelled."""

    def __init__(self, caches: Caches, applier: Applier) -> None:
        self._caches = caches
        self._applier = applier
        self._changed = asyncio.Event()
        caches.signals.to_reference.append(self._on_reference)

    def _on_reference(self, kind: str, _: str, name: str) -> None:
        if kind == "PriorityClass" and any(body["metadata"]["name"] == name for body in priorities.PRIORITY_CLASSES):
            self._changed.set()

    async def run(self) -> None:
        """Raises ApiErrors other than "it is there already"; the supervisor then starts it again."""
        while True:
            self._changed.clear()
            existing = self._caches.referenced["PriorityClass"]
            for body in priorities.PRIORITY_CLASSES:
                name = body["metadata"]["name"]
                if ("", name) in existing:
                    continue
                ref = ObjectRef(body["apiVersion"], "priorityclasses", "", name, "PriorityClass")
                outcome = await self._applier.apply(Create(ref, body))
                if outcome.error is not None and not isinstance(outcome.error, errors.AlreadyExists):
                    raise outcome.error
            await self._changed.wait()
