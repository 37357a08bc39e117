"""One work while it is not completed: its copies on nodes, its clock, and what is to be told
of it.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from federator.model.ask import Admitted, Ask, PodShape, Unit
from federator.model.decision import Decision, Reason, Share
from federator.model.fleet import Holding
from federator.model.quickly import quickly
from federator.scheduling import queueing_hints
from federator.scheduling.entry import Recorded, Standing
from federator.simulate.demand import BACKOFF_LIMIT, Failing, Work
from federator.simulate.engine.members.member import Bound
from federator.simulate.outcome import Stay, Wait

BACKOFF_S: Final = 10
"""Before the second attempt; doubled before each further one, as Kubernetes does for Jobs."""
BACKOFF_MAX_S: Final = 360


_stay, _wait = quickly(Stay), quickly(Wait)
_NOTHING: Final = Standing()


@dataclass(slots=True)
class Running:
    """A work that was submitted. A job runs while all its shards are bound; a service runs from its
    first copy on.
    """

    work: Work
    ask: Ask
    shares: tuple[Share, ...] = ()
    """What the last decision gives, without clusters that were lost since."""
    bound: dict[str, Bound] = field(default_factory=dict)
    """Cluster -> where its copies are."""
    decision: Decision | None = None
    inputs: str = ""
    """Hash of the inputs of the decision in force."""
    attempt: int = 0
    running: bool = False
    began_s: int = 0
    """When the present attempt began."""
    done_s: int = 0
    """Run time that is saved in a check-point."""
    start_s: int | None = None
    restarts: int = 0
    lost_s: int = 0
    preempted: int = 0
    preempted_s: int = 0
    barred_s: int = 0
    """It is not decided on before."""
    failures: int = 0
    failed_s: int = 0
    ready_s: int = 0
    """Its next attempt does not begin before."""
    backoff_s: int = 0
    wanted: int | None = None
    """Copies that a service asks for since it was scaled; None: those of its work."""
    scalings: int = 0
    scaled_late: int = 0
    displaced: int = 0
    """Copies that it has lost with their cluster, and lacks still."""
    pending: dict[str, int] = field(default_factory=dict)
    """Cluster -> copies that wait there for nodes which its autoscaler adds."""
    waited_for_nodes: int = 0
    """Copies that did so, each time that they were placed."""
    stays: list[Stay] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    _placed: int = 0
    """Copies that are bound, in all clusters."""
    _since: dict[str, int] = field(default_factory=dict)
    """Cluster -> since when its present number of copies is there."""
    _waiting: Wait | None = None
    _idle_s: int | None = None
    """Since when its copies wait in their places for the next attempt."""
    _made_way_s: int | None = None
    """When it made way for another last."""
    _back: bool = False
    """Whether it has come back since."""
    _in_vain: int = 0
    """How often it came back at the instant at which it had made way, and had to go again."""
    _under: Ask | None = None
    """The ask that the decision in force charges."""
    _base: int | None = None
    """What the curve of a service says now; None: what its work does."""
    _times: Fraction = Fraction(1)
    """So many times that is asked for."""
    _more: bool = False
    """Whether it has just asked for more."""

    @property
    def is_job(self) -> bool:
        return self.ask.unit is Unit.SHARDS

    @property
    def missing(self) -> int:
        """Copies that are asked for and not bound."""
        missing = self.ask.slots - self._placed
        return missing if missing > 0 else 0

    @property
    def waiting_for(self) -> str:
        """The reason of its present wait; "" when it lacks nothing."""
        return self._waiting.reason if self._waiting is not None else ""

    def copies(self, cluster: str) -> int:
        here = self.bound.get(cluster)
        if here is None:
            return 0
        return here[0][1] if len(here) == 1 else sum(copies for _, copies in here)

    @property
    def places(self) -> tuple[str, ...]:
        """The clusters in which copies are bound or wait for nodes."""
        return tuple({**self.bound, **self.pending}) if self.pending else tuple(self.bound)

    def shape_in(self, share: Share) -> PodShape:
        """What is bound for a copy of that share: an elastic gang may have fewer pods than it asks
        for.
        """
        return self.ask.shape.granted(share.pods) if share.pods else self.ask.shape

    def standing(self) -> Standing:
        """What the next decision reads of it."""
        decision = self.decision
        if decision is None or not (self.shares or decision.preempted):
            return _NOTHING
        holdings = tuple(
            Holding(
                share.cluster,
                share.count,
                share.slots,
                share.seq,
                share.ranges,
                tolerated=decision.tolerated.get(share.cluster, ()),
                pods=share.pods,
            )
            for share in self.shares
        )
        recorded = Recorded(
            seq=decision.seq,
            inputs_hash=self.inputs,
            shares=self.shares,
            wanted=decision.wanted,
            tolerated=decision.tolerated,
            per_cluster=decision.per_cluster,
            surplus=decision.surplus,
            to_move=decision.to_move,
            preempted=decision.preempted,
        )
        return Standing(held=holdings, recorded=recorded, admitted=self._admitted())

    def _admitted(self) -> Admitted | None:
        """What was admitted last, of a service that was scaled. What is never edited needs none."""
        under = self._under
        if under is None or not self.scalings:
            return None
        return Admitted(
            under.generation, under.shape, under.project, under.tier, under.priority, under.slots
        )

    def decided(self, decision: Decision, now_s: int) -> None:
        self.decision, self.shares, self.inputs = decision, decision.shares, decision.inputs_hash
        self._under = decision.under or self.ask
        if self._more:
            self.scaled_late += self.missing > 0
            self._more = False
        if self.displaced:
            self.displaced = min(self.displaced, self.missing)
        self._wait(self._meant(decision.reason), now_s)

    def _meant(self, reason: Reason) -> Reason:
        """The reason of a decision about the ask, for the work: that all copies are in one cluster
        is what a gang is, and no maximum that somebody set."""
        division = self.ask.policy.division
        if reason is Reason.AT_MAXIMUM and self.ask.whole and division.max_clusters == 1:
            return Reason.GANG_INCOMPLETE
        return reason

    def scale(self, copies: int | None, times: Fraction | None = None) -> int:
        """A service follows its curve to so many copies; with `times`, that is so many times what
        it says from now on. Its ask is to be made anew. Returns how many it asks for beside those
        before.
        """
        before = self.ask.count
        if copies is not None:
            self._base = copies
        if times is not None:
            self._times = times if copies is not None else self._times * times
        self.wanted = math.ceil(
            (self.work.shards if self._base is None else self._base) * self._times
        )
        self.scalings += self.wanted != before
        self._more = self.wanted > before
        return self.wanted - before

    def enter(self, cluster: str, bound: Bound, now_s: int) -> None:
        """Copies were bound in a cluster, beside those that are there."""
        if not bound:
            return
        self._back = True
        self._leave_off(cluster, now_s)
        if len(bound) == 1 and cluster not in self.bound:
            self.bound[cluster] = bound
            self._placed += bound[0][1]
        else:
            here = dict(self.bound.get(cluster, ()))
            for node, copies in bound:
                here[node] = here.get(node, 0) + copies
                self._placed += copies
            self.bound[cluster] = tuple(sorted(here.items()))
        self._since[cluster] = now_s

    def came(self, now_s: int) -> None:
        """Copies that waited for nodes were bound."""
        if not self.missing:
            self._close_wait(now_s)
        elif self._waiting is not None:
            self.waits_from(now_s, self._waiting.reason)

    def shrink(self, cluster: str, copies: int, now_s: int) -> Bound:
        """Keeps so many copies in a cluster; returns those that go, from the fullest nodes
        first.
        """
        self._leave_off(cluster, now_s)
        left, gone, kept = self.copies(cluster) - copies, [], []
        for node, here in sorted(self.bound[cluster], key=lambda place: (-place[1], place[0])):
            take = min(here, left)
            left -= take
            self._placed -= take
            if take:
                gone.append((node, take))
            if here > take:
                kept.append((node, here - take))
        if kept:
            self.bound[cluster] = tuple(sorted(kept))
            self._since[cluster] = now_s
        else:
            self.bound.pop(cluster, None)
            self._since.pop(cluster, None)
        return tuple(gone)

    def leave(self, cluster: str, now_s: int) -> None:
        """Nothing of it is in the cluster any more, and no share either. What is still open of its
        stay was lost with the cluster.
        """
        self._leave_off(cluster, now_s, lost=True)
        self._placed -= self.copies(cluster)
        self.bound.pop(cluster, None)
        self.pending.pop(cluster, None)
        self._since.pop(cluster, None)
        self.shares = tuple([share for share in self.shares if share.cluster != cluster])

    @property
    def _failing(self) -> Failing | None:
        """How the present attempt fails; None when it completes."""
        failing = self.work.failing
        return (
            failing
            if failing is not None and self.is_job and self.failures < failing.times
            else None
        )

    def begin(self, now_s: int) -> int | None:
        """The attempt begins; returns how long it runs, None for ever."""
        self._end_idling(now_s)
        self.attempt += 1
        self.running, self.began_s = True, now_s
        if self.start_s is None:
            self.start_s = now_s
        left_s = None if self.work.runtime_s is None else self.work.runtime_s - self.done_s
        failing = self._failing
        if failing is None or failing.after_s is None:
            return left_s
        return failing.after_s if left_s is None else min(failing.after_s, left_s)

    def break_off(self, now_s: int, *, made_way: bool = False) -> None:
        """A job loses its places, and its attempt if one runs: it begins again from its last
        check-point, if it has any. `made_way`: not because of its cluster, but for another's quota.
        """
        self._end_idling(now_s)
        if not self.running:
            return
        lost_s = self._stop(now_s)
        if made_way:
            self.preempted_s += lost_s
        else:
            self.lost_s += lost_s
            self.restarts += 1

    def make_way(self, now_s: int) -> None:
        """It gives up places so that another gets its quota. If it had just come back, the other
        could not use them: then it stays away for a while, as with back-off in the hub's queue.
        """
        self.preempted += 1
        if self._made_way_s == now_s and self._back:
            self.barred_s = now_s + int(queueing_hints.retry_after_s(self._in_vain))
            self._in_vain += 1
        self._made_way_s, self._back = now_s, False

    def fail(self, now_s: int) -> bool:
        """The attempt is over; whether it has failed. Then the job waits in its places before it
        begins again from its last check-point, unless that was one failure too many: `failed` says
        so.
        """
        if self._failing is None:
            return False
        self.failed_s += self._stop(now_s)
        self.failures += 1
        if self.failed:
            self.failed_s += self.done_s
        else:
            self.ready_s = now_s + min(BACKOFF_S << min(self.failures - 1, 10), BACKOFF_MAX_S)
        return True

    @property
    def failed(self) -> bool:
        """Whether there is no further attempt."""
        failing = self.work.failing
        limit = BACKOFF_LIMIT if failing is None or failing.limit is None else failing.limit
        return self.failures > limit

    def idle(self, now_s: int) -> None:
        """Its copies are in their places, and its next attempt begins later."""
        if self._idle_s is None:
            self._idle_s = now_s

    def _end_idling(self, now_s: int) -> None:
        if self._idle_s is not None:
            self.backoff_s += now_s - self._idle_s
            self._idle_s = None

    def _stop(self, now_s: int) -> int:
        """The attempt ends before its time. Returns the run time that no check-point saved."""
        ran_s = now_s - self.began_s
        every_s = self.work.checkpoint_s
        saved_s = ran_s // every_s * every_s if every_s else 0
        self.done_s += saved_s
        self.attempt += 1
        self.running = False
        return ran_s - saved_s

    def end(self, now_s: int | None) -> None:
        """Closes what is open: at its completion, or with None at the end of the simulation."""
        for cluster in sorted(self._since):
            self.stays.append(_stay(cluster, self.copies(cluster), self._since[cluster], now_s))
        self._since.clear()
        if self._waiting is not None:
            self.waits.append(
                _wait(self._waiting.start_s, now_s, self._waiting.reason, self.missing)
            )
            self._waiting = None

    def waits_from(self, now_s: int, reason: str) -> None:
        """It lacks copies from now on, for a reason that no decision says yet."""
        if self._waiting is None or (self._waiting.reason, self._waiting.copies) != (
            reason,
            self.missing,
        ):
            self._close_wait(now_s)
            self._waiting = Wait(now_s, None, reason, self.missing)

    def _wait(self, reason: Reason, now_s: int) -> None:
        if not self.missing:
            self._close_wait(now_s)
            return
        self.waits_from(
            now_s, reason.value if reason is not Reason.CHOSEN else Reason.UNSCHEDULABLE.value
        )

    def _close_wait(self, now_s: int) -> None:
        if self._waiting is not None:
            if now_s > self._waiting.start_s:
                self.waits.append(
                    _wait(self._waiting.start_s, now_s, self._waiting.reason, self._waiting.copies)
                )
            self._waiting = None

    def _leave_off(self, cluster: str, now_s: int, *, lost: bool = False) -> None:
        since = self._since.get(cluster)
        if since is not None and now_s > since:
            self.stays.append(_stay(cluster, self.copies(cluster), since, now_s, lost))
