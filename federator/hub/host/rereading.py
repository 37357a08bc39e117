"""Reads all decisions once more before this hub leads, unless it has read all that the former
leader can have written."""

import asyncio
from collections.abc import Callable

from federator.hub.host.controller import Controller, Tools
from federator.hub.records.decisions import Record
from federator.kinds import registry
from federator.kube.clock import in_slices
from federator.kube.store import version_number
from federator.kube.watch.reflector import Reflector
from federator.kube.wire import decode
from federator.model.names import ObjectName

Changed = Callable[[ObjectName, Record | None, Record | None], None]


class Rereading(Controller):
    """One per hub. `watched` is the reflector of decisions, and `changed` stores what is news."""

    def __init__(self, tools: Tools, watched: Reflector[Record], changed: Changed) -> None:
        super().__init__(tools)
        self._watched, self._changed = watched, changed
        self._since_s = float("-inf")
        """From when on, on `Clock.elapsed()`, all decisions were read with the present key."""

    def begin(self) -> None:
        """The first list begins."""
        if self.state.seals.usable:
            self._since_s = self.clock.elapsed()

    def key_changed(self) -> None:
        """The key of decisions is another one: what was read before was not checked with it."""
        self._since_s = float("-inf")

    def is_due(self, vacant_s: float) -> bool:
        """Whether the former leader may have written something that was not read, if no hub has led
        since `vacant_s`: the list was begun before, or its watch had trouble."""
        watched = self._watched.store.synced and self._watched.trouble is None
        return not watched or self._since_s < vacant_s

    async def run(self) -> None:
        """Lists all decisions, stores them and forgets those that are gone: the last writes of the
        former leader may not have come by watch yet. Decisions must be charged before anything is
        decided, and members must not get what the host no longer records."""
        kind = registry.KINDS["PlacementDecision"]
        unseen, version = set(self.state.records), -1

        def cached_version(name: ObjectName) -> ObjectName:
            unseen.discard(name)
            return self._version_of(name)

        async for page in self.host.pages(kind.api_version, kind.plural):
            version = version_number(page.metadata.resourceVersion)
            # Page by page, and only what is news: all of them at once would take several times the
            # hub's memory.
            changed = decode.changed_items(page, cached_version)
            async for name, obj in in_slices(changed, self.clock):
                self._changed(name, None, self.state.read_record(obj))
            await asyncio.sleep(0)
        for name in sorted(unseen):
            record = self.state.records.get(name)
            # A list may be older than what we know (F11), and proves nothing about what is newer
            # than it.
            if record is not None and 0 <= version_number(record.resource_version) <= version:
                self._changed(name, record, None)

    def _version_of(self, name: ObjectName) -> tuple[str, str]:
        """uid and resourceVersion of a decision as it is known."""
        record = self.state.records.get(name)
        checked = record is not None and (record.sealed or not self.state.seals.usable)
        return (record.uid, record.resource_version) if checked and record is not None else ("", "")
