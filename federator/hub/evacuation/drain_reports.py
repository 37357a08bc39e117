"""How far drains and failovers are: the condition, figures and Events of each MemberCluster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federator.api import membercluster, raw
from federator.api.membercluster import DEAD, DRAIN_STAYS_MAX, DRAINING, FAILING_OVER, Removal
from federator.hub.cache.router import MemberChanged
from federator.hub.evacuation import drain_words
from federator.hub.evacuation.governing import Governing
from federator.hub.host.controller import Controller, Tools
from federator.hub.members.member import Member
from federator.kube import clock as clocks
from federator.model import plaintext
from federator.model.names import WorkloadKey
from federator.scheduling import evacuation
from federator.scheduling.evacuation import EvacuationPlan
from federator.status.conditions import FALSE, TRUE

TELL_S: Final = 5.0
"""Seconds between two writes of the figures of one drain."""


@dataclass(slots=True)
class Drained:
    """One cluster that is being emptied, as looked at in one turn."""

    member: Member
    since_s: float
    """Epoch seconds."""
    gone: bool
    """What it holds counts as lost."""
    copies: dict[WorkloadKey, int] = field(default_factory=dict)
    """What is there of each workload: by its decision, or still there."""
    under_way: int = 0


class DrainReports(Controller):
    """Says on each MemberCluster how far its drain is. Decides nothing."""

    def __init__(self, tools: Tools, governing: Governing) -> None:
        super().__init__(tools)
        self.governing = governing
        self._told_s: dict[str, float] = {}
        """Name of a cluster -> when its figures were last told."""

    def since_s(self, member: Member) -> float:
        """When its drain began, in epoch seconds."""
        figures = member.vitals.drained or raw.mapping(member.obj, "status", "drain")
        return raw.epoch_s(raw.text(figures, "since")) or self.clock.now()

    def report(
        self,
        drained: Drained,
        paced: EvacuationPlan,
        rate: int,
        in_hand: Callable[[WorkloadKey], bool],
    ) -> bool:
        """Says how far one drain is. Returns whether anything moves. `rate`: copies moved in the
        last minute. `in_hand`: whether a workload has its turn."""
        member, left = drained.member, sum(drained.copies.values())
        stays = [waits for waits in paced.waits if waits.stays and waits.key in drained.copies]
        stays.sort(key=lambda waits: (-waits.copies, waits.key))
        held = [waits for waits in stays if not in_hand(waits.key)]
        held_copies = sum(min(waits.copies, drained.copies[waits.key]) for waits in held)
        drain_status = member.vitals.drained or raw.mapping(member.obj, "status", "drain")
        total = max(raw.integer(drain_status, "copies"), left)
        moving = left > held_copies
        figures: dict[str, Any] = {
            "since": clocks.stamp(self.since_s(member)),
            "copies": total,
            "left": left,
            "underWay": drained.under_way,
            "perMinute": rate,
        }
        a_minute = self.state.options.evacuated_copies_a_minute
        minutes = (paced.left - sum(waits.copies for waits in held)) / (rate or a_minute)
        if moving:
            end_s = self.clock.now() + max(minutes, 0.0) * evacuation.MINUTE_S
            figures["estimatedEnd"] = clocks.stamp(end_s)
        figures["stays"] = [
            {
                "workload": str(waits.key),
                "copies": min(waits.copies, drained.copies[waits.key]),
                "why": plaintext.clipped(waits.why),
            }
            for waits in held[:DRAIN_STAYS_MAX]
        ]
        words = drain_words.of_lost if member.gone else drain_words.of_drained
        words = drain_words.of_deleted if member.removal is not Removal.NONE else words
        reason, message = words(left, total, drained.under_way, held, moving=moving)
        if member.unreachable and left and not self.governing.a_minute(a_minute):
            there = f"{drain_words.copies(left)} are there"
            reason, message = "Held", f"{there}. {self.governing.why()}."
        self.say(member, reason, message, figures)
        return moving

    def say(
        self, member: Member, reason: str, message: str, figures: Mapping[str, Any] | None = None
    ) -> None:
        """Tells what is new, and figures not more often than they can be read."""
        vitals, said = member.vitals, drain_words.condition(member, TRUE, reason, message)
        before = vitals.drain
        turned = before is None or (before.status, before.reason) != (TRUE, reason)
        since_s = self.clock.monotonic() - self._told_s.get(member.name, float("-inf"))
        news = before != said or (
            figures is not None
            and drain_words.timeless(figures) != drain_words.timeless(vitals.drained)
        )
        if not news or (since_s < TELL_S and not turned):
            return
        vitals.observe_drain(said, figures if figures is not None else vitals.drained)
        if turned and (
            (
                reason in ("Emptied", "Moved")
                and figures
                and figures["copies"]
                and member.removal is Removal.NONE
            )
            or (said.type != DRAINING and reason == "Moving")
        ):
            begins = "DeclaredDead" if said.type == DEAD else "FailingOver"
            begins = "Fenced" if membercluster.fenced(member.obj) else begins
            self.events.drain(member, begins if reason == "Moving" else reason, message)
        self.tell(member)

    def refuse(self, member: Member, reason: str, message: str) -> None:
        said = drain_words.condition(member, FALSE, reason, plaintext.clipped(message))
        if member.vitals.drain == said:
            return
        same_reason = member.vitals.drain is not None and member.vitals.drain.reason == reason
        member.vitals.observe_drain(said, None)
        if not same_reason:
            self.events.drain(member, "DrainRefused", said.message, warning=True)
        self.tell(member)

    def end(self, member: Member) -> None:
        """Says no more of a drain that nobody wishes, or of a failover that has ended."""
        said = member.vitals.drain
        if said is None and member.vitals.drained is None:
            return
        if said is not None and said.type in (DEAD, FAILING_OVER):
            if member.gone:
                return
        elif member.drain is not None and not member.dead:
            return
        if said is not None and said.status == TRUE and member.removal is Removal.NONE:
            figures = member.vitals.drained or {}
            left = raw.integer(figures, "left")
            if said.type == DRAINING:
                self.events.drain(
                    member, "DrainEnded", f"{drain_words.copies(left)} were left there."
                )
            elif left < raw.integer(figures, "copies") or said.type == DEAD:
                stay = f"{drain_words.copies(left)} have no other place, and stay there"
                note = f"It is lost no more: {stay}."
                self.events.drain(member, "HeardAgain", note)
        member.vitals.observe_drain(None, None)
        self._told_s.pop(member.name, None)
        self.tell(member)

    def tell(self, member: Member) -> None:
        self._told_s[member.name] = self.clock.monotonic()
        self.state.signals.member_changed(MemberChanged.SAID, member)
