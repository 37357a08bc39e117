"""Writes into the ClusterCapacity of a member what the hub asks: the claim of the host, and the
shapes of pods that decisions need counted.
"""

import logging
from typing import Final

from federator.api import clustercapacity
from federator.hub.cache.router import MemberChanged, MemberTurn
from federator.hub.host.controller import Controller, Tools
from federator.hub.members import claims
from federator.hub.members.member import Member
from federator.hub.members.reachability import Reachability
from federator.kinds import registry
from federator.kube import errors
from federator.kube.control.work_queue import WorkQueue

log = logging.getLogger(__name__)

CLAIM_PAUSE_S: Final = 3.0
"""Seconds between two attempts to claim a member, however many workloads wait for it."""
SETTLE_S: Final = 0.5
"""Shapes that are wanted within so many seconds are written together."""


class Asking(Controller):
    """Claims members, and asks them for shapes."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.queue: WorkQueue[str] = self.new_queue("asking")
        self._claim_due: dict[str, float] = {}
        """Member -> monotonic seconds of the next attempt to claim it."""
        signals = self.state.signals
        signals.ask_members.append(self.ask_all)
        signals.on_member(MemberTurn.ASK, lambda member: self.queue.add(member.name))
        signals.on_member(
            MemberTurn.ASK_SOON, lambda member: self.queue.add_after(member.name, SETTLE_S)
        )
        signals.on_member(MemberTurn.CLAIM, self.claim)

    async def run(self) -> None:
        """Serves the queue until cancelled."""
        await self.queue.run(self.ask, workers=8)

    def ask_all(self) -> None:
        for name in sorted(self.state.members):
            self.queue.add_after(name, SETTLE_S)

    def claim(self, member: Member) -> None:
        """A workload waits for this member to be claimed."""
        name, now = member.name, self.clock.monotonic()
        due = self._claim_due.get(name, now)
        if due <= now:
            self._claim_due[name] = now + CLAIM_PAUSE_S
        self.queue.add_after(name, max(0.0, due - now))

    async def ask(self, name: str) -> None:
        """Writes into the member's ClusterCapacity the shapes that decisions need, and the host's
        claim."""
        member = self.state.members.get(name)
        if (
            member is None
            or member.link.client is None
            or not member.contents.claim_known
            or member.released
            or member.abandoned
        ):
            return
        if member.link.reachability.state is not Reachability.LIVE:
            # it will be asked when it answers again; until then every try would be one more that is
            # lost
            return
        if member.duplicate_of or (
            member.other_host and member.other_host != claims.given_up(member.obj)
        ):
            return
        spec = clustercapacity.to_spec(self.state.shapes.values())
        asked = member.contents.report.shapes if member.contents.report is not None else ()
        news = {"spec": spec} if {shape["id"] for shape in spec["shapes"]} - set(asked) else {}
        if member.claimed and not news:
            return
        kind = registry.KINDS["ClusterCapacity"]
        ref = kind.ref("", clustercapacity.NAME)
        if not member.claimed and (trouble := await self._identity_trouble(member)):
            raise errors.Conflict(f"{name} is not claimed: {trouble}")
        claim = {"annotations": {claims.annotation(member.fleet): member.host_uid}}
        before = member.contents.report
        if before is None:
            body = {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": ref.name, **claim},
            }
            try:
                member.note_capacity(await member.link.client.create(ref, {**body, "spec": spec}))
            except errors.AlreadyExists as meanwhile:
                # the watch will tell, in a moment
                raise errors.Conflict(str(meanwhile)) from meanwhile
        elif member.claimed:
            await member.link.client.patch(ref, {"metadata": {"uid": before.uid}, **news})
        else:
            # Two hosts that come at the same time: the version lets one of them have it, and the
            # other see that.
            meta = {"uid": before.uid, "resourceVersion": before.resource_version, **claim}
            member.note_capacity(await member.link.client.patch(ref, {"metadata": meta, **news}))
            log.info(
                "%s belongs to this host from now on (before: %s)", name, before.host or "nobody"
            )
            self.state.signals.member_changed(MemberChanged.CLAIMED, member)

    async def _identity_trouble(self, member: Member) -> str:
        """Reads its identity again before it is claimed: a cluster that was created anew at the
        same address has lost its claim (F35), and the next probe that asks may be a minute away.
        Raises ApiErrors."""
        if member.link.client is None:
            raise errors.Unreachable(f"{member.name}: there is no connection")
        uid = await member.link.client.kube_system_uid()
        trouble = member.identity_trouble(uid, member.host_uid)
        if uid != member.link.uid:
            trouble = trouble or f"it answers as {uid}, and was {member.link.uid} at the last probe"
        if trouble:
            member.link.meet_other(uid)
        return trouble
