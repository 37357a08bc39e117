"""What a plan comes to: how workloads, accounts and losses differ from the present. Values, and how
they are computed from the fleet before and after. Pure."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict, TypeVar

from federator.advice import drills, overridden, quotas
from federator.advice.drills import Each
from federator.advice.plans.edits import Edited
from federator.advice.plans.settling import Settled
from federator.hub.placing.offline import Situation
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model.accounts import Balance
from federator.model.ask import Ask, Tier
from federator.model.decision import Reason
from federator.model.fleet import copies_of
from federator.model.names import WorkloadKey
from federator.scheduling.drill import DrillResult as LossOutcome

Group = TypeVar("Group", bound=Hashable)
NO_BALANCE: Final = Balance()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One workload with other shares, waiting copies or another reason than at present."""

    key: WorkloadKey
    policy: str
    """Of the decision that is in force then: `PlacementPolicy NAMESPACE/NAME`, or how else it was
    chosen."""
    project: str
    tier: Tier
    before: Mapping[str, int]
    """Cluster -> copies that it has there."""
    after: Mapping[str, int]
    created: bool = False
    deleted: bool = False
    restarted_in_place: int = 0
    """Copies that are replaced where they run, because what runs changes."""
    short_before: int = 0
    short: int = 0
    """Copies without a place, and those that only a lost cluster has; of a job set, slots that
    could run and may not."""
    waits: int = 0
    """Copies that stay where the policy gives them no place, or move only when somebody asks for
    it."""
    held_back: bool = False
    """This edit asks for more than there is: what ran before stays in force."""
    preempted_by: WorkloadKey | None = None
    """The workload that preempts its copies."""
    preempted: int = 0
    reason: str = ""
    """Why it does not get all; "" when it does."""
    message: str = ""
    by_budget: Mapping[str, int] | None = None
    """Moves by the budget that they draw on (`settling.Moved`)."""

    leaves: Mapping[str, int] = field(init=False)
    """Cluster -> copies that end there."""
    enters: Mapping[str, int] = field(init=False)
    """Cluster -> copies that start there."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "leaves", _more(self.before, self.after))
        object.__setattr__(self, "enters", _more(self.after, self.before))

    @property
    def moves(self) -> int:
        """Copies that leave one cluster and start in another."""
        return min(sum(self.leaves.values()), sum(self.enters.values()))

    @property
    def restarted(self) -> int:
        """Copies that end and start again, here or elsewhere."""
        return self.moves + self.restarted_in_place

    @property
    def worse(self) -> bool:
        """Whether it ends shorter than it is now, or its edit is not in force."""
        return self.short > self.short_before or self.held_back


def _more(there: Mapping[str, int], than: Mapping[str, int]) -> dict[str, int]:
    """Cluster -> copies that are there in addition."""
    return {
        name: copies - than.get(name, 0)
        for name, copies in there.items()
        if copies > than.get(name, 0)
    }


@dataclass(frozen=True, slots=True)
class AccountChange:
    """What one account uses of one resource in one tier, before and after."""

    account: str
    tier: Tier
    resource: str
    before: Balance
    after: Balance


@dataclass(frozen=True, slots=True)
class Uncovered:
    """The loss of a cluster after which more copies have no place than after the same loss now."""

    name: str
    before: int
    """Copies without a place if it were lost now."""
    after: int
    """The same once the plan is carried out."""
    worst: tuple[tuple[WorkloadKey, int, str], ...]
    """(workload, copies, why) of those with the most."""


WORST: Final = 5
"""Workloads that are named of one loss."""


def changes(present: Situation, edited: Edited, settled: Settled) -> list[Change]:
    """Every workload that differs, the most copies on the move first."""
    final = settled.situation
    beside = _Beside(present, edited, settled, _dead(present), _dead(final))
    rows = [
        change for key in sorted(beside.candidates()) if (change := beside.change(key)) is not None
    ]
    return sorted(rows, key=lambda change: (-_weight(change), change.key))


def _weight(change: Change) -> int:
    return max(
        change.restarted, sum(change.enters.values()), sum(change.leaves.values()), change.short
    )


@dataclass(frozen=True, slots=True)
class _Beside:
    """The fleet at present and then, side by side."""

    present: Situation
    edited: Edited
    settled: Settled
    dead_before: frozenset[str]
    dead_after: frozenset[str]

    def candidates(self) -> Iterator[WorkloadKey]:
        """The workloads that may differ."""
        present, final = self.present, self.settled.situation
        yield from present.workloads.keys() - final.workloads.keys()
        overrides = present.rules.overriding or final.rules.overriding
        for key, workload in final.workloads.items():
            record = final.records.get(key)
            same = record is not None and record is present.records.get(key)
            if overrides or not same or not self._is_same(workload, record):
                yield key

    def change(self, key: WorkloadKey) -> Change | None:
        """How one workload differs; None when it does not."""
        final = self.settled.situation
        was, now = self.present.records.get(key), final.records.get(key)
        workload = final.workloads.get(key)
        if workload is None:
            now = None
        subject = workload or self.present.workloads[key]
        before, _ = _running(was, self.dead_before)
        after, stranded = _running(now, self.dead_after)
        held_back = now is not None and bool(now.terms.held_back or now.terms.held_profile)
        restarted = 0
        if key in self.edited.restarted and not held_back:
            restarted = sum(min(copies, after.get(name, 0)) for name, copies in before.items())
        elif not held_back:
            restarted = overridden.restarted(self.present, final, key, before, after)
        short_before = _short(self.present, key, was)
        short = _short(final, key, now) + stranded if workload is not None else 0
        waits = max(_waits(now) - stranded, 0)
        failure = self.settled.failed.get(key, "")
        failure = failure or (subject.problem if workload is not None else "")
        created, deleted = key not in self.present.workloads, workload is None
        same = (before, short_before, _waits(was)) == (after, short, waits)
        newly_held = held_back and key in self.edited.edited
        if same and not (created or deleted or restarted or newly_held or failure):
            return None
        return Change(
            key=key,
            policy=_policy(now or was),
            project=subject.ask.project if subject.ask is not None else "",
            tier=subject.ask.tier if subject.ask is not None else Tier.ON_DEMAND,
            before=before,
            after=after,
            created=created,
            deleted=deleted,
            restarted_in_place=restarted,
            short_before=short_before,
            short=short,
            waits=waits,
            held_back=newly_held,
            by_budget=self.settled.moved.get(key),
            **_preempted(was, now),
            **_why(now, failure, held_back=held_back),
        )

    def _is_same(self, workload: Workload, record: Record | None) -> bool:
        """Whether nothing that a change is made of differs, where the decision is the same."""
        if workload is not self.present.workloads.get(workload.key) or record is None:
            return False
        if workload.problem or workload.key in self.settled.failed:
            return False
        if self.dead_before != self.dead_after:
            dead = self.dead_before ^ self.dead_after
            if any(portion.cluster in dead for portion in record.facts.portions):
                return False
        if self.edited.same_asks:
            return True
        then, now = self.settled.situation.ask_of(workload), self.present.ask_of(workload)
        return then is now or _asks_alike(then, now)


def _asks_alike(then: Ask | None, now: Ask | None) -> bool:
    """Whether as many copies are missing under both asks, where the decision is the same."""
    if then is None or now is None:
        return then is now
    same = (then.slots, then.count, then.suspended) == (now.slots, now.count, now.suspended)
    return same and then.unit is now.unit


class _Preempted(TypedDict):
    preempted_by: WorkloadKey | None
    preempted: int


class _Why(TypedDict):
    reason: str
    message: str


def _preempted(was: Record | None, now: Record | None) -> _Preempted:
    gone = now.terms.preempted if now is not None else None
    if gone is None or (was is not None and gone == was.terms.preempted):
        return {"preempted_by": None, "preempted": 0}
    return {"preempted_by": gone.by, "preempted": gone.copies}


def _why(now: Record | None, failure: str, *, held_back: bool) -> _Why:
    """Why a workload does not get all that it asks for; nothing when it does."""
    if failure:
        return {"reason": str(Reason.MISCONFIGURED), "message": failure}
    if now is not None and now.terms.additions and now.terms.reason is Reason.CHOSEN:
        return {"reason": "ScalingUp", "message": now.terms.message}
    if now is None or (now.terms.reason is Reason.CHOSEN and not held_back):
        return {"reason": "", "message": ""}
    reason = "" if now.terms.reason is Reason.CHOSEN else str(now.terms.reason)
    return {"reason": reason, "message": now.terms.message}


def _running(record: Record | None, dead: frozenset[str]) -> tuple[dict[str, int], int]:
    """(copies by cluster, copies that a decision still gives clusters of which nothing is left)."""
    shares = record.shares if record is not None else ()
    copies = {share.cluster: each for share in shares if (each := copies_of(share))}
    stranded = sum(copies.pop(name) for name in dead & copies.keys())
    return copies, stranded


def _dead(situation: Situation) -> frozenset[str]:
    """The clusters of which nothing is left."""
    views = situation.snapshot.clusters
    return frozenset(name for name, view in views.items() if view.dead)


def _waits(record: Record | None) -> int:
    return record.terms.held + record.terms.to_move if record is not None else 0


def _short(situation: Situation, key: WorkloadKey, record: Record | None) -> int:
    workload = situation.workloads.get(key)
    ask = situation.ask_of(workload) if workload is not None else None
    if ask is None or ask.suspended or record is None:
        return ask.slots if ask is not None and not ask.suspended else 0
    return quotas.missing(situation, ask, record)


def _policy(record: Record | None) -> str:
    if record is None:
        return ""
    terms = record.terms
    if terms.policy_origin in ("inline", "default"):
        return {"inline": "(its own placement)", "default": "(no policy)"}[terms.policy_origin]
    if terms.policy_namespace:
        return f"PlacementPolicy {terms.policy_namespace}/{terms.policy_name}"
    return f"ClusterPlacementPolicy {terms.policy_name}"


def accounts(present: Situation, final: Situation) -> list[AccountChange]:
    """What accounts use, borrow and lend otherwise than now."""
    before, after = _balances(present), _balances(final)
    keys = sorted({*before, *after}, key=lambda key: (key[0], list(Tier).index(key[1]), key[2]))
    rows = (
        AccountChange(*key, before.get(key, NO_BALANCE), after.get(key, NO_BALANCE)) for key in keys
    )
    return [change for change in rows if change.before != change.after]


def _balances(situation: Situation) -> dict[tuple[str, Tier, str], Balance]:
    return {
        (account.name, tier, resource): balance
        for account in quotas.tree(situation)
        for tier, balances in account.balances.items()
        for resource, balance in balances.items()
    }


def uncovered(
    present: Situation, final: Situation, a_minute: int, gone: Iterable[str], each: Each = map
) -> list[Uncovered]:
    """The losses of single clusters that leave more copies without a place than they would now.
    `gone`: clusters that are lost or removed by the plan itself."""
    before = {out.loss.name: out for out in drills.of_all(present, "", a_minute, each)}
    left_out = frozenset(gone)
    rows = []
    for out in drills.of_all(final, "", a_minute, each):
        was = _unplaced(before.get(out.loss.name))
        if out.loss.name not in left_out and _unplaced(out) > was:
            worst = tuple((each.key, each.copies, each.why) for each in out.unplaced[:WORST])
            rows.append(Uncovered(out.loss.name, was, _unplaced(out), worst))
    return rows


def _unplaced(out: LossOutcome | None) -> int:
    return sum(lacking.copies for lacking in out.unplaced) if out is not None else 0


Pair = tuple[str, str]


def by_pair(change: Change) -> Iterator[tuple[Pair, int]]:
    """((from, to), copies) of one workload: "" stands for nowhere. What leaves is matched with what
    starts in the order of the clusters' names."""
    leaves, enters = sorted(change.leaves.items()), sorted(change.enters.items())
    while leaves and enters:
        (source, out), (target, come) = leaves[0], enters[0]
        copies = min(out, come)
        yield (source, target), copies
        leaves = ([(source, out - copies)] if out > copies else []) + leaves[1:]
        enters = ([(target, come - copies)] if come > copies else []) + enters[1:]
    yield from (((source, ""), out) for source, out in leaves)
    yield from ((("", target), come) for target, come in enters)


def totals(
    changed: Sequence[Change], of: Callable[[Change], Iterable[tuple[Group, int]]]
) -> list[tuple[Group, int, int]]:
    """(group, workloads, copies) of all groups, the most copies first."""
    sums: dict[Group, tuple[int, int]] = {}
    for change in changed:
        for group, copies in of(change):
            workloads, total = sums.get(group, (0, 0))
            sums[group] = (workloads + 1, total + copies)
    rows = [(group, workloads, copies) for group, (workloads, copies) in sums.items()]
    return sorted(rows, key=lambda row: (-row[2], str(row[0])))
