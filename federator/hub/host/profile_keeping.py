"""The status of RuntimeProfiles: the versions that pods may have, and how many workloads keep a
former one.

A version is kept on the host before any member gets it. So the version that an account has paid for
outlives the hub, and no member can say that pods had another one.
"""

import asyncio
import logging
from typing import Any, Final

from federator.api import raw, runtimeprofile
from federator.hub.cache import profile_versions
from federator.hub.host.controller import Controller, Tools
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import plaintext
from federator.model.kubernetes import diffs
from federator.status import conditions
from federator.status.conditions import Condition

log = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
"""Seconds after a decision until it is counted in the status: many decisions follow one edit."""
VERSIONS: Final = 8
"""Versions that are kept whether pods have them or not."""


class ProfileKeeping(Controller):
    """The only writer of the status of RuntimeProfiles; `queue` holds their names."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("profiles")
        self._one_at_a_time = asyncio.Lock()
        self._unserved: set[str] = set()
        """Hashes of versions that the host does not keep: its CRD or the hub's rights are of an
        earlier release."""
        self.state.held_profiles.on_changed.append(self._count_soon)

    def _count_soon(self, name: str) -> None:
        if self.state.leading:
            self.queue.add_after(name, PAUSE_S)

    async def run(self) -> None:
        """Works while this hub leads, until cancelled."""
        for name in sorted(self.state.profiles):
            self.queue.add(name)
        await self.queue.run(self.write)

    async def keep(self, name: str) -> None:
        """Returns when the status keeps the present version. Raises ApiErrors."""
        async with self._one_at_a_time:
            known = self.state.profiles.get(name)
            if known is not None and not known["kept"] and known["hash"] not in self._unserved:
                await self._write(name)

    async def write(self, name: str) -> None:
        """Brings the status of one profile up to date. Raises ApiErrors."""
        async with self._one_at_a_time:
            await self._write(name)

    async def _write(self, name: str) -> None:
        known = self.state.profiles.get(name)
        if known is None:
            return
        live, meta = known["status"], known["metadata"]
        condition = self._condition(name, raw.integer(meta, "generation"))
        wanted: dict[str, Any] = {
            **live,
            "conditions": conditions.merge(
                raw.objects(live, "conditions"),
                (condition,),
                self.clock.rfc3339(),
                (runtimeprofile.ADMITTED,),
            ),
            "heldBack": self.state.held_profiles.count(name),
            "versions": self._versions(name),
        }
        if not (patch := diffs.replacement_patch(live, wanted)):
            return
        body = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "status": patch,
        }
        ref = registry.KINDS[runtimeprofile.KIND].ref("", name)
        try:
            answer = await self.host.patch(ref, body, subresource="status")
        except (errors.NotFound, errors.Denied, errors.Invalid) as refused:
            log.warning(
                "the status of RuntimeProfile %s cannot be written, so its former versions are lost"
                " (are config/crd and deploy/host of this release applied?): %s",
                name,
                refused,
            )
            self._unserved.add(known["hash"])
            return
        profile_versions.observe(self.state, name, answer)

    def _versions(self, name: str) -> list[dict[str, Any]]:
        """The present version, and former ones: not more than `VERSIONS`, unless pods have more."""
        known = self.state.profiles[name]
        kept = [(known["hash"], known["object"]), *known["former"]]
        if len(kept) > VERSIONS:
            used = profile_versions.in_use(self.state, name)
            kept = [
                version for at, version in enumerate(kept) if at < VERSIONS or version[0] in used
            ]
        return [
            {"hash": content, "spec": dict(raw.mapping(obj, "spec"))}
            for content, obj in kept[: runtimeprofile.VERSIONS_MAX]
        ]

    def _condition(self, name: str, generation: int) -> Condition:
        held = self.state.held_profiles
        count, first = held.count(name), held.first(name)
        record = self.state.records.get(first) if first is not None else None
        if record is None:
            message = "No workload keeps a former version of it."
            return Condition(
                runtimeprofile.ADMITTED, conditions.TRUE, "NotHeldBack", message, generation
            )
        keep = "1 workload keeps" if count == 1 else f"{count} workloads keep"
        message = plaintext.clipped(
            f"{keep} a former version, because the present one asks for more than quota or room"
            f" allow. {record.key}: {record.terms.message}"
        )
        reason = record.terms.reason.value
        return Condition(runtimeprofile.ADMITTED, conditions.FALSE, reason, message, generation)
