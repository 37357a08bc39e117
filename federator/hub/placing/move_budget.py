"""The move budget: how fast edits of policies and of labels move running replicas, over all
workloads of a policy.

All buckets are here: placing asks before replicas leave (`leave`), and reports which workloads
still have replicas to move (`note`). The first of them is queued when the bucket can serve it, so
that a thousand that wait cost one decision at a time. A new leader counts what the decisions of the
last minute say was moved.
"""

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from federator.api import membercluster, raw
from federator.api.placement.decisionfacts import FailedOver
from federator.api.placement.placementdecision import MAX_FAILOVERS
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.records.decisions import Record
from federator.hub.records.policy_use import REQUIRED, Account
from federator.kube.clock import Clock
from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.model.policy import MoveBudget, Policy
from federator.placement.policy import enforcing
from federator.placement.selection import filters, leaving
from federator.placement.selection.leaving import Allowance, Leave

DRAIN: Final = "drain of "
FAILOVER: Final = "failover from "
FAILBACK: Final = "failback to "
"""How causes of decisions begin that draw on the budget of evacuations."""
MINUTE_S = 60.0
COUNTED_FOR_S = 30.0
"""Seconds for which the count of a policy's replicas is used: a percentage of it may be a little
out of date."""
LEAST_WAIT_S = 1.0
PORTION_S = 5.0
"""A workload with many replicas to move is queued when the bucket holds so many seconds' worth."""

EVACUATED: Final[Account] = ("", "", leaving.EVACUATION)
"""What leaves clusters that are being drained draws on no policy's budget."""
HOMEWARD: Final[Account] = ("", "", "/homeward")
"""The same of what goes back to a cluster that it left because it was lost."""


@dataclass(slots=True)
class _Bucket:
    """A token bucket that holds what one minute allows, and fills in one minute."""

    left: float
    at_s: float
    rate: int = 1
    """Replicas per minute."""
    waiting: "OrderedDict[WorkloadKey, int]" = field(default_factory=OrderedDict)
    """Workloads with replicas to move, and how many; the first is served next."""


class MoveBuckets:
    def __init__(
        self, state: HubState, *, clock: Clock, later: Callable[[WorkloadKey, float], None]
    ) -> None:
        self.state = state
        self.clock = clock
        self._later = later
        """Queues a workload after so many seconds."""
        self._buckets: dict[Account, _Bucket] = {}
        self._accounts: dict[WorkloadKey, Account] = {}
        """The account under which a workload waits."""
        self._short: dict[WorkloadKey, Account] = {}
        """The account that last allowed less than a workload asked for."""
        self._by_force: dict[WorkloadKey, dict[Account, int]] = {}
        """What a workload last took from accounts of Required policies."""
        self._granted: dict[WorkloadKey, int] = {}
        """Copies that may leave clusters that are being drained, until the workload is decided."""
        self._homeward: dict[WorkloadKey, tuple[str, int]] = {}
        """Copies that may go back to a cluster, until the workload is decided."""
        self.on_evacuated: Callable[[WorkloadKey, int], None] = _nobody_listens
        """Called with the copies that left so; less than 0 when their decision was not written."""
        self._homes: dict[WorkloadKey, str] = {}
        """The cluster to which copies last went back."""
        self._copies: dict[Account, int] = {}
        self._counted_s = float("-inf")

    def leave(self, ask: Ask, record: Record | None) -> Leave:
        """The engine's question when an edit would move replicas of this workload."""
        return functools.partial(self._allowance, ask, record)

    def grant(self, key: WorkloadKey, copies: int) -> None:
        """The next decision on this workload may take so many copies out of clusters that are being
        drained. 0 takes the turn back."""
        self._granted.pop(key, None)
        if copies > 0:
            self._granted[key] = copies

    def granted(self, key: WorkloadKey) -> int:
        """What the workload was granted and has not used."""
        return self._granted.get(key, 0) or self._homeward.get(key, ("", 0))[1]

    def turn(self, key: WorkloadKey) -> int:
        """Copies that its next decision may take out of clusters that are being emptied."""
        return self._granted.get(key, 0)

    def send_home(self, key: WorkloadKey, cluster: str, copies: int) -> None:
        """The next decision on this workload divides it anew, and may move so many copies for that:
        they left the cluster because it was lost. 0 takes the turn back."""
        self._homeward.pop(key, None)
        if copies > 0:
            self._homeward[key] = (cluster, copies)

    def goes_home(self, key: WorkloadKey) -> bool:
        """Whether its next decision divides it anew."""
        return key in self._homeward

    def _evacuate(self, key: WorkloadKey, copies: int) -> int:
        taken = min(copies, self._granted.pop(key, 0))
        if taken:
            self.on_evacuated(key, taken)
        return taken

    def evacuated(self, record: Record | None) -> tuple[str, str] | None:
        """Why the decision after this one takes copies out of clusters that are being emptied: the
        reason of its Event, and what it is a part of. None when it takes none for that."""
        taken = self._by_force.get(record.key, {}) if record is not None else {}
        if record is not None and taken.get(HOMEWARD, 0):
            home = self._homes.get(record.key, "")
            return "FailedBack", f"{FAILBACK}{home}"
        if record is None or not taken.get(EVACUATED, 0):
            return None
        held = self._holding(record)
        if lost := [_named(member) for member in held if member.gone]:
            return "FailedOver", f"{FAILOVER}{', '.join(lost[:3])}"
        drained = [_drained(member) for member in held if member.draining]
        return "Drained", f"{DRAIN}{', '.join(drained[:3])}"

    def _holding(self, record: Record) -> list[Member]:
        members = self.state.members
        return [
            member for share in record.shares if (member := members.get(share.cluster)) is not None
        ]

    def failovers(self, record: Record | None, decision: Decision) -> tuple[FailedOver, ...]:
        """The clusters that copies have left lately, with this decision, because they are lost or
        for a maintenance window: they may come home."""
        if record is None:
            return ()
        kept = {left.silence: left for left in record.terms.failovers}
        taken, now = self._by_force.get(record.key, {}), decision.as_of
        if taken.get(HOMEWARD, 0):
            home = self._homes.get(record.key, "")
            for left in record.terms.failovers:
                if left.cluster == home:
                    copies = max(left.copies - taken[HOMEWARD], 0)
                    kept[left.silence] = replace(left, copies=copies, back_s=now)
        if taken.get(EVACUATED, 0):
            staying = {share.cluster: copies_of(share) for share in decision.shares}
            for share in record.shares:
                member = self.state.members.get(share.cluster)
                copies = copies_of(share) - staying.get(share.cluster, 0)
                gone = _left(member, now, copies) if member is not None and copies > 0 else None
                if gone is None:
                    continue
                before = kept.pop(gone.silence, None)
                more = before.copies if before is not None else 0
                kept[gone.silence] = replace(gone, copies=copies + more)
        return tuple(kept.values())[-MAX_FAILOVERS:]

    def _allowance(
        self, ask: Ask, record: Record | None, moving: int, forced: Mapping[str, int]
    ) -> Allowance:
        """Moves for Required policies have the pace of each of them; a Lazy policy of the
        workload's own does not hold them."""
        policy, own = ask.policy, moving - sum(forced.values())
        self._short.pop(ask.key, None)
        taken: dict[Account, int] = {}
        paces: list[str] = []
        for demand in policy.required:
            if copies := forced.get(demand.name, 0):
                account = ("", demand.name, REQUIRED)
                rate = self._rate(account, demand.moves)
                taken[account] = self._take(ask.key, account, rate, copies)
                paces.append(
                    f"{rate} a minute at most over all workloads"
                    f" ({enforcing.of('moveBudget', demand)})"
                )
        if copies := forced.get(leaving.EVACUATION, 0):
            # A job set goes as a whole: its turn is for all of it (`leaving.waiting`).
            taken[EVACUATED] = self._evacuate(ask.key, copies)
            paces.append("as the turns of the drain come (hub.evacuated_copies_a_minute)")
        home, homeward = self._homeward.pop(ask.key, ("", 0))
        if own > 0 and homeward:
            taken[HOMEWARD] = min(own, homeward)
            self._homes[ask.key] = home
            paces.append(f"as its turns to go back to {home} come")
            self.on_evacuated(ask.key, taken[HOMEWARD])
        self._by_force[ask.key] = dict(taken)
        if homeward:
            own = 0
        overdue = forced.get(leaving.OVERDUE, 0)  # a Lazy policy does not hold them either
        if own > 0 and is_held(policy, record):
            paces.append(
                f"when somebody asks for it: federator rebalance ({_field(policy)} is Lazy)"
            )
            own = 0
        if (own := max(own, 0) + overdue) > 0:
            account, rate = _account(ask), self._own_rate(ask)
            taken[account] = self._take(ask.key, account, rate, own)
            paces.append(f"{rate} a minute at most over all workloads ({_budget_field(policy)})")
        then = "; ".join(paces)
        return Allowance(
            sum(taken.values()), f" {then}" if then.startswith("when") else f", {then}"
        )

    def _take(self, key: WorkloadKey, account: Account, rate: int, copies: int) -> int:
        bucket = self._bucket(account, rate)
        taken = min(copies, int(bucket.left))
        bucket.left -= taken
        if taken < copies:
            self._short.setdefault(key, account)
        return taken

    def note(self, ask: Ask, decision: Decision) -> None:
        """Records which workloads still have replicas to move, and queues the next one in time."""
        key, account = ask.key, self._short.pop(ask.key, None)
        if self._granted.pop(key, 0) or self._homeward.pop(key, None) is not None:
            self.on_evacuated(key, 0)  # nowhere else is a place
        before = self._accounts.pop(key, None)
        if before is not None:
            self._buckets[before].waiting.pop(key, None)
        if not decision.moved:
            self._by_force.pop(key, None)
        if decision.to_move and account is not None:
            bucket = self._buckets[account]
            bucket.waiting[key] = decision.to_move  # behind the others
            self._accounts[key] = account
            self._look_at_next(bucket)
        if before is not None and before != account:
            self._look_at_next(self._buckets[before])

    def forget(self, key: WorkloadKey) -> None:
        self._by_force.pop(key, None)
        self._short.pop(key, None)
        self._granted.pop(key, None)
        self._homeward.pop(key, None)
        self._homes.pop(key, None)
        account = self._accounts.pop(key, None)
        if account is not None:
            bucket = self._buckets[account]
            bucket.waiting.pop(key, None)
            if bucket.waiting:
                self._later(next(iter(bucket.waiting)), LEAST_WAIT_S)

    def refund(self, ask: Ask, copies: int) -> None:
        """A decision that moved replicas was not written."""
        if not copies:
            return
        forced = self._by_force.pop(ask.key, {})
        if evacuated := forced.pop(EVACUATED, 0) + forced.pop(HOMEWARD, 0):
            copies -= evacuated
            self.on_evacuated(ask.key, -evacuated)
        for account, taken in {**forced, _account(ask): copies - sum(forced.values())}.items():
            if (bucket := self._buckets.get(account)) is not None:
                bucket.left += max(taken, 0)

    def _look_at_next(self, bucket: _Bucket) -> None:
        if not bucket.waiting:
            return
        key, copies = next(iter(bucket.waiting.items()))
        portion = min(copies, max(int(bucket.rate * PORTION_S / MINUTE_S), 1))
        self._later(key, max((portion - bucket.left) * MINUTE_S / bucket.rate, LEAST_WAIT_S))

    def _own_rate(self, ask: Ask) -> int:
        policy = ask.policy
        if policy.origin == "inline" and policy.moves.copies is None:
            return policy.moves.a_minute(ask.slots)
        return self._rate((policy.namespace, policy.name, ""), policy.moves)

    def _rate(self, account: Account, budget: MoveBudget) -> int:
        if budget.copies is not None:
            return budget.a_minute(0)
        now_s = self.clock.monotonic()
        if now_s - self._counted_s > COUNTED_FOR_S:
            self._copies, self._counted_s = self.state.policy_use.copies(), now_s
        return budget.a_minute(self._copies.get(account, 0))

    def _bucket(self, account: Account, rate: int) -> _Bucket:
        now_s = self.clock.monotonic()
        bucket = self._buckets.get(account)
        if bucket is None:
            bucket = self._buckets[account] = _Bucket(
                float(rate - self._moved_lately(account)), now_s
            )
        bucket.left = min(bucket.left + (now_s - bucket.at_s) * rate / MINUTE_S, float(rate))
        bucket.at_s, bucket.rate = now_s, rate
        return bucket

    def _moved_lately(self, account: Account) -> int:
        """Replicas that decisions of the last minute moved, perhaps by another leader."""
        since_s = self.clock.now() - MINUTE_S
        return sum(
            record.terms.moved
            for record in self.state.policy_use.moved_since(since_s)
            if account in _accounts_of(record)
        )


def _left(member: Member, now_s: float, copies: int) -> FailedOver | None:
    """How a decision remembers that copies left this cluster; None where they do not come back."""
    gone = member.gone
    since = raw.text(member.obj, "status", "lastHeard") if gone else ""
    wish = member.drain if not gone else None
    window = wish.window if wish is not None else ""
    if not gone and not window:
        return None
    return FailedOver(
        cluster=member.name, silent_since=since, window=window, at_s=now_s, copies=copies
    )


def _drained(member: Member) -> str:
    wish = member.drain
    if wish is not None and wish.deleted:
        return f"{member.name} for its removal"
    return f"{member.name} for its maintenance" if wish and wish.window else member.name


def _named(member: Member) -> str:
    """A lost cluster with the evidence for it."""
    since = raw.text(member.obj, "status", "lastHeard")
    if member.dead and membercluster.fenced(member.obj):
        return f"{member.name}, fenced"
    if member.dead:
        return member.name
    missed_by = ", ".join(member.vitals.missed_by)
    nor = f" (nor by the standby hub {missed_by})" if missed_by else ""
    return f"{member.name}, not heard since {since}{nor}"


def _nobody_listens(key: WorkloadKey, copies: int) -> None:
    pass


def is_held(policy: Policy, record: Record | None) -> bool:
    """Whether running replicas stay where they are under this policy: it is Lazy, and no rebalance
    was requested since they last were as it wants."""
    if not policy.lazy:
        return False
    return record is None or record.rebalance == record.terms.rebalanced


def moved(record: Record | None, decision: Decision, now_s: float) -> int:
    """What a decision records as moved. It includes the moves of the last minute that the decision
    before recorded, which would be lost with it."""
    recent = record is not None and record.facts.as_of > now_s - MINUTE_S
    return decision.moved + (record.terms.moved if record is not None and recent else 0)


def _account(ask: Ask) -> Account:
    policy = ask.policy
    return (
        ("", "", str(ask.key)) if policy.origin == "inline" else (policy.namespace, policy.name, "")
    )


def _accounts_of(record: Record) -> set[Account]:
    terms = record.terms
    required: set[Account] = {("", name, REQUIRED) for name in terms.required}
    if terms.policy_origin == "inline":
        return {*required, ("", "", str(record.key))}
    return {*required, (terms.policy_namespace, terms.policy_name, "")}


def _field(policy: Policy) -> str:
    return filters.field_of(policy, "onPolicyChange")


def _budget_field(policy: Policy) -> str:
    return filters.field_of(policy, "moveBudget")
