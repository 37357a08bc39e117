"""Keeps the PriorityClasses of the tiers in a member: made when missing, never changed (their
values are fixed by the API anyway)."""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Any

from federator.kinds.pods import priorities
from federator.kube import backoff, errors
from federator.kube.control.applier import Applier
from federator.member.cache.caches import Caches
from federator.model.steps import Create, ObjectRef

log = logging.getLogger(__name__)


class TierClasses:
    """Makes the classes at the start, and again when one is removed. Runs until cancelled."""

    def __init__(self, caches: Caches, applier: Applier, *, rng: random.Random) -> None:
        self._caches = caches
        self._rng = rng
        self._applier = applier
        self._changed = asyncio.Event()
        caches.signals.to_reference.append(self._on_reference)

    def _on_reference(self, kind: str, _: str, name: str) -> None:
        if kind == "PriorityClass" and any(
            _name(body) == name for body in priorities.PRIORITY_CLASSES
        ):
            self._changed.set()

    async def run(self) -> None:
        """Makes what is missing, for ever; what failed is tried again with longer waits."""
        waits = backoff.Backoff(self._rng, base_s=0.25, cap_s=60.0)
        while True:
            self._changed.clear()
            failed = [
                body
                for body in priorities.PRIORITY_CLASSES
                if not await self._make(body, _name(body))
            ]
            if failed:
                await asyncio.sleep(waits.next())
                continue
            waits.reset()
            await self._changed.wait()

    async def _make(self, body: Mapping[str, Any], name: str) -> bool:
        """Whether the class is there now, made or found."""
        if ("", name) in self._caches.referenced["PriorityClass"]:
            return True
        outcome = await self._applier.apply(
            Create(
                ObjectRef(body["apiVersion"], "priorityclasses", "", name, "PriorityClass"), body
            )
        )
        if outcome.error is None or isinstance(outcome.error, errors.AlreadyExists):
            return True
        log.info("PriorityClass %s not made yet: %s", name, outcome.error)
        return False


def _name(body: Mapping[str, Any]) -> str:
    return str(body["metadata"]["name"])
