"""Maintenance windows of member clusters (`spec.maintenance`): reports the state of each with
regard to its windows, and requeues workloads that wait for room when one has ended.

What follows from a window follows from the object and the time wherever it is asked (placement
sends nothing new there, `draining` empties it where that is wished, `returning` brings home what
left), so that nothing is lost with a leader. Here is what is said: the condition Maintenance, and
Events.
"""

import logging
from typing import Final

from federator.api import maintenance, raw
from federator.api.maintenance import Maintained, Phase
from federator.api.membercluster import MAINTENANCE, Removal
from federator.hub.cache.router import MemberChanged
from federator.hub.host.controller import Controller
from federator.hub.members.member import Member
from federator.kube.clock import in_slices
from federator.model import plaintext
from federator.status.conditions import FALSE, TRUE, Condition

log = logging.getLogger(__name__)

NEVER: Final = "NeverComes"
_EVENTS: Final = {
    str(Phase.ANNOUNCED): "MaintenanceAnnounced",
    str(Phase.UNDER_WAY): "MaintenanceBegun",
    "": "MaintenanceEnded",
}
"""By what a cluster's condition comes to say."""


class Maintaining(Controller):
    """What was said of each cluster is kept with it (`Vitals.maintenance`)."""

    async def look(self) -> None:
        """Says what is new of all clusters."""
        async for _, member in in_slices(sorted(self.state.members.items()), self.clock):
            said = None
            if member.removal is Removal.NONE:
                said = condition_of(maintenance.of(member.obj, self.clock.now()))
            if said != member.vitals.maintenance:
                self._say(member, said)

    def _say(self, member: Member, said: Condition | None) -> None:
        before = _before(member)
        member.vitals.observe_maintenance(said)
        was, now = _phase(before), _phase(said)
        if was != now:
            note = said.message if said is not None else "It has no maintenance windows now."
            log.info("member %s: %s: %s", member.name, _EVENTS[now], note)
            self.events.drain(member, _EVENTS[now], note)
        if said is not None and said.reason == NEVER and (before is None or before.reason != NEVER):
            self.events.drain(member, "MaintenanceNeverComes", said.message, warning=True)
        opened = bool(was) and not now
        self.state.signals.member_changed(
            MemberChanged.OPENED if opened else MemberChanged.SAID, member
        )


def condition_of(maintained: Maintained) -> Condition | None:
    """What is said of a cluster that stands so; None for one without windows."""
    now, problems = maintained.now, maintained.problems
    if now.phase is Phase.NONE:
        return None
    begins, ends = plaintext.moment(now.begins_s), plaintext.moment(now.ends_s)
    wrong = f" {'; '.join(problems)}." if problems else ""
    match now.phase:
        case Phase.ANNOUNCED:
            text = f"Nothing new is sent there; it is worked on from {begins} to {ends}.{wrong}"
            return Condition(MAINTENANCE, TRUE, str(now.phase), plaintext.clipped(text))
        case Phase.UNDER_WAY:
            text = f"Nothing new is sent there; it is worked on until {ends}.{wrong}"
            return Condition(MAINTENANCE, TRUE, str(now.phase), plaintext.clipped(text))
        case _:
            text = f"The next window is from {begins} to {ends}." if now.begins_s else ""
            reason = NEVER if problems else str(now.phase)
            return Condition(
                MAINTENANCE, FALSE, reason, plaintext.clipped(f"{wrong} {text}".strip())
            )


def _before(member: Member) -> Condition | None:
    """What was said of it last, perhaps by another leader."""
    if member.vitals.maintenance is not None:
        return member.vitals.maintenance
    said = raw.condition(member.obj, MAINTENANCE)
    if not said:
        return None
    status, reason, message = (raw.text(said, name) for name in ("status", "reason", "message"))
    return Condition(MAINTENANCE, status, reason, message)


def _phase(said: Condition | None) -> str:
    """Its reason while it keeps new work away; "" otherwise."""
    return said.reason if said is not None and said.status == TRUE else ""
