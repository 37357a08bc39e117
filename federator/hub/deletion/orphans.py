"""Deletes slices that came back although their workload was finalized: their cluster was restored
from a backup, or a write arrived late.

Called for every slice that no workload and no decision accounts for. A deletion needs the proof in
`tombstones`, a read of the host that shows neither workload nor decision, and the uid that was
judged; a budget limits them per minute. Slices without proof are left alone and reported
(`restored.strangers`).
"""

import logging

from federator.hub.cache import restored
from federator.hub.cache.router import MemberTurn, SliceTurn
from federator.hub.deletion.finalizer import confirm_absence
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue
from federator.model import names
from federator.model.names import WorkloadKey
from federator.model.steps import Delete, RequeueAfter

log = logging.getLogger(__name__)

Place = tuple[str, WorkloadKey]


class Orphans(Controller):
    """One queue of (cluster, key)."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[Place] = self.new_queue("orphans")
        self.state.signals.resumed.append(self.look_everywhere)
        self.state.signals.on_member(MemberTurn.ORPHANS, self.look)
        self.state.signals.on_slice(SliceTurn.ORPHANS, self.look_at)

    async def run(self) -> None:
        """Serves the queue until cancelled."""
        await self.queue.run(self.turn, workers=4)

    def look_everywhere(self) -> None:
        for member in self.state.members.values():
            self.look(member)

    def look(self, member: Member) -> None:
        """Queues everything that a member holds."""
        for key in restored.strangers(self.state, member):
            self.queue.add((member.name, key))

    def look_at(self, member: Member, key: WorkloadKey) -> None:
        """Queues one slice that has changed. When this hub begins to lead it looks at all of them:
        until then each of the first lists is one that nothing accounts for yet."""
        if self.state.ready and restored.is_stranger(self.state, member, key):
            self.queue.add((member.name, key))

    async def turn(self, place: Place) -> RequeueAfter | None:
        """Deletes one slice when it is proven to be an orphan. Raises ApiErrors."""
        cluster, key = place
        member = self.state.members.get(cluster)
        if (
            member is None
            or not self.state.ready
            or self.state.paused
            or not (member.heard and member.claimed)
        ):
            return None
        seen = member.contents.slice_of(key)
        if (
            member.abandoned
            or seen is None
            or seen.mark is None
            or not restored.is_stranger(self.state, member, key)
        ):
            return None
        uid, applier = seen.mark.workload_uid, member.link.applier
        if uid not in self.state.tombstones or applier is None:
            return None
        await confirm_absence(self.host, key, uid)
        await self._confirm_no_decision(key, uid)
        if wait_s := self.state.may_delete(1, self.clock.monotonic()):
            return RequeueAfter(place, wait_s, "deletions are spread over time")
        log.warning(
            "%s: slice of %s came back after its workload %s was deleted; removing it",
            cluster,
            key,
            uid,
        )
        outcome = await applier.apply(
            Delete(registry.KINDS[key.kind].ref(key.namespace, key.name), seen.uid), key
        )
        if outcome.error is not None:
            raise outcome.error
        return None

    async def _confirm_no_decision(self, key: WorkloadKey, uid: str) -> None:
        """Slices of an existing decision are deleted by its finalizer."""
        short = registry.KINDS[key.kind].short_names[0]
        name = names.decision_name(short, key.name, uid)
        ref = registry.KINDS["PlacementDecision"].ref(key.namespace, name)
        if await self.host.find(ref) is not None:
            raise errors.Conflict(
                f"the decision {ref.namespace}/{name} is still there", reason="Conflict"
            )
