"""What a new leader waits for before it places new workloads: a first report of each member.

A hub leads as soon as it has read its members. In a new federation their member processes have not
reported any capacity then, so the first workloads would all go to the cluster that reports first.
Workloads with a decision, or with slices in members, never wait.
"""

import logging
from collections.abc import Callable
from typing import Final

from federator.api.membercluster import Removal
from federator.hub.cache.router import MemberTurn
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.workloads import Workload
from federator.kube.clock import Clock
from federator.model.names import WorkloadKey

log = logging.getLogger(__name__)

MOST_S: Final = 10.0
"""Seconds after the beginning of a term for which new workloads wait at most. A running member
process reports within a second; one that does not run must not keep others from work."""


class FirstReports:
    """One per hub. Keys of `again` are placed again, now or in so many seconds."""

    def __init__(
        self, state: HubState, *, clock: Clock, again: Callable[[WorkloadKey, float], None]
    ) -> None:
        self._state = state
        self._clock = clock
        self._again = again
        self._missing: list[str] = []
        """Members registered when this hub began to lead that have not reported since."""
        self._until_s = 0.0
        """Monotonic time at which nothing is waited for any more."""
        self._held: set[WorkloadKey] = set()
        """Workloads that wait."""
        for turn in (MemberTurn.HINT_CLUSTER, MemberTurn.HINT_ROOM):
            state.signals.on_member(turn, lambda _: self._look())

    def begin(self) -> None:
        """This hub leads from now on."""
        self._missing, self._held = sorted(self._state.members), set()
        self._until_s = self._clock.monotonic() + MOST_S

    def holds(self, workload: Workload) -> bool:
        """Whether the workload, which has no decision, waits. If so, it is placed again later."""
        wait_s = self._wait_s()
        if not wait_s:
            return False
        if any(self._state.slices_with_uid(workload.key, workload.uid)):
            return False  # the host was restored: it runs already
        self._held.add(workload.key)
        self._again(workload.key, wait_s)
        return True

    def _look(self) -> None:
        if self._held:
            self._wait_s()

    def _wait_s(self) -> float:
        """Seconds for which new workloads wait at most from now. At 0.0 all that wait are placed
        again."""
        members = self._state.members
        self._missing = [
            name for name in self._missing if name in members and _is_awaited(members[name])
        ]
        left_s = self._until_s - self._clock.monotonic()
        if self._missing and left_s > 0:
            return left_s
        held, missing = sorted(self._held), self._missing
        self._missing, self._held = [], set()
        if held and missing:
            log.warning(
                "%d new workloads are placed without a capacity report of %s: none came within"
                " %.0f s since this hub leads",
                len(held),
                ", ".join(missing),
                MOST_S,
            )
        for key in held:
            self._again(key, 0.0)
        return 0.0


def _is_awaited(member: Member) -> bool:
    """Whether it may still take new work, and neither its capacity nor its silence is known."""
    if member.removal is not Removal.NONE:
        return False
    report = member.contents.report
    return not member.known_or_unknown or (
        member.heard and (report is None or not report.status_digest)
    )
