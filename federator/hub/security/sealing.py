"""Sealing: decisions of a release without seals get theirs once; from then on none is obeyed
without.

Writes to the host only, a few at a time; members are not concerned. Runs while this hub leads, and
ends for good.
"""

import asyncio
import logging

from federator.hub.host.controller import Controller
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kube import errors

log = logging.getLogger(__name__)

AT_ONCE = 8
ROUND_S = 5.0
"""Seconds between two rounds: what could not be sealed is tried again."""


class Sealing(Controller):
    """Seals the decisions of an older release."""

    async def run(self) -> None:
        """Runs until every decision of ours is sealed, and the Secret says so."""
        seals = self.state.seals
        while seals.usable and not seals.complete:
            due = [
                record
                for record in self.state.records.values()
                if not (record.sealed or record.lost)
            ]
            try:
                for at in range(0, len(due), AT_ONCE):
                    await asyncio.gather(*map(self._seal, due[at : at + AT_ONCE]))
                if not due:
                    await seals.finish(
                        self.host, self.state.options.system_namespace, self.clock.rfc3339_micro()
                    )
                    return
            except errors.ApiError as trouble:
                log.info("decisions could not be sealed yet: %s", trouble)
            await asyncio.sleep(ROUND_S * self.rng.uniform(0.8, 1.2))

    async def _seal(self, record: Record) -> None:
        """Seals one decision, unless it has changed: then the watch will show it."""
        seals = self.state.seals
        ref = registry.KINDS["PlacementDecision"].ref(record.key.namespace, record.name)
        try:
            live = await self.host.get(ref)
            meta = live["metadata"]
            if (meta.get("uid"), meta.get("resourceVersion")) != (
                record.uid,
                record.resource_version,
            ):
                return
            operations = [
                {
                    "op": "replace",
                    "path": "/metadata/resourceVersion",
                    "value": record.resource_version,
                },
                {
                    "op": "add",
                    "path": "/spec/seal",
                    "value": seals.of(ref.namespace, ref.name, live["spec"]),
                },
            ]
            written = await self.host.patch(ref, operations, kind="json")
        except (errors.NotFound, errors.Conflict):
            return
        seals.kept(written)
        self.state.observe_decision(record.key.namespace, self.state.read_record(written))
