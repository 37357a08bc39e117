"""Finds out whether the host runs a garbage collector, by what happens to an object that one
deletes.

The probe is a ConfigMap with an owner that does not exist. A garbage collector deletes it within
seconds. A Lease of kube-controller-manager would prove less: it may run without that controller,
without an election, or under another name.
"""

import logging

from federator.api import raw
from federator.hub.host.controller import Controller, Tools
from federator.kube import errors
from federator.model.steps import ObjectRef

log = logging.getLogger(__name__)

PROBE = "federator-garbage-probe"
"""Name of the ConfigMap, in the system namespace."""
NO_OWNER = "00000000-0000-4000-8000-000000000000"
"""Uid of the owner: no object has it."""
PATIENCE_S = 30.0
"""Seconds within which a garbage collector deletes the probe: one that has just started reads all
objects first."""
VALID_S = 600.0
"""Seconds after which the host is probed again: somebody may have started or ended a controller."""
READ_S = 1.0
"""Seconds between two reads of the probe."""


class Collector(Controller):
    """The host's garbage collector. Used by one queue with one worker."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._runs: bool | None = True if self.state.options.shared_host else None
        self._until_s = float("inf") if self.state.options.shared_host else 0.0
        self._probe: tuple[str, float] | None = None
        """Uid of the probe, and when it was created, in monotonic seconds."""

    @property
    def ref(self) -> ObjectRef:
        return ObjectRef(
            "v1", "configmaps", self.state.options.system_namespace, PROBE, "ConfigMap"
        )

    async def runs(self) -> bool | None:
        """Whether there is one; None while the probe has not shown it. Raises ApiErrors."""
        now_s = self.clock.monotonic()
        if self._runs is not None and now_s < self._until_s:
            return self._runs
        if self._probe is None:
            made = await self.host.patch(self.ref, self._body(), kind="apply", force=True)
            self._probe = (made["metadata"]["uid"], now_s)
            return None
        uid, since_s = self._probe
        if await self._is_there(uid):
            if now_s - since_s < PATIENCE_S:
                return None
            await self._remove(uid)
            return self._conclude(False, now_s)
        return self._conclude(True, now_s)

    def _conclude(self, runs: bool, now_s: float) -> bool:
        if runs is not self._runs:
            log.info("the host runs %s garbage collector", "a" if runs else "no")
        self._runs, self._until_s, self._probe = runs, now_s + VALID_S, None
        return runs

    def _body(self) -> dict[str, object]:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": PROBE + "-owner", "uid": NO_OWNER}
        namespace = self.state.options.system_namespace
        meta = {"name": PROBE, "namespace": namespace, "ownerReferences": [owner]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    async def _is_there(self, uid: str) -> bool:
        live = await self.host.find(self.ref)
        if live is None:
            return False
        return raw.text(live, "metadata", "uid") == uid

    async def _remove(self, uid: str) -> None:
        try:
            await self.host.delete(self.ref, uid=uid)
        except errors.NotFound:
            log.debug("the probe of the garbage collector is gone already")
