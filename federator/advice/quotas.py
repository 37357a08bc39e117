"""The tree of quotas with the used, borrowed, lent and pending amounts and the workloads that hold
them. The queue of workloads that lack copies, in the order in which the next cycle takes them.
Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from federator.api import raw
from federator.hub.placing.offline import Situation
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.model import shards
from federator.model.accounts import Balance, QuotaAccount
from federator.model.ask import Ask, Tier, Unit
from federator.model.decision import Reason
from federator.model.fleet import Commitment
from federator.model.names import WorkloadKey
from federator.model.resources import ZERO, Resources
from federator.placement.quota import accounts
from federator.placement.quota.accounts import Trouble
from federator.placement.quota.domain_usage import usage_with_domains
from federator.placement.quota.quota import BY_QUOTA
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from federator.scheduling import ordering
from federator.scheduling.queueing_hints import FOR_ROOM
from federator.scheduling.waiting import starts
from federator.scheduling.waiting.releases import Ran, Releases
from federator.scheduling.waiting.starts import Interval

PLACED = "Placed"


@dataclass(frozen=True, slots=True)
class Held:
    """What one workload holds of one account."""

    key: WorkloadKey
    project: str
    tier: Tier
    copies: int
    usage: Resources
    former: bool = False
    """An edit has left this project or tier, and its copies may still run in it."""


@dataclass(frozen=True, slots=True)
class Account:
    """One FederatedQuota. `depth`: accounts above it."""

    name: str
    parent: str
    depth: int
    balances: Mapping[Tier, Mapping[str, Balance]]
    """By tier and resource: what it limits, or uses."""
    workloads: int
    """Workloads of it and of all below that hold anything."""
    waiting: int
    """Workloads of it and of all below that lack copies because of a quota."""
    holders: tuple["Held", ...]
    """Workloads that are charged to this very account, the most copies first."""
    troubles: tuple[Trouble, ...]
    terminating: Mapping[Tier, Resources]
    """What pods of this very account use beyond the decisions of their workloads."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """One workload that lacks copies."""

    ask: Ask
    missing: int
    reason: str
    """"" while nothing is decided yet."""
    message: str
    since: str
    """When it last began to lack copies, as its status says; "" where that is not known."""
    expected: Interval | None = None
    """When it may be expected to have all it lacks; None where too little is known, or where it
    waits for something else than room."""


def tree(situation: Situation) -> list[Account]:
    """All accounts, each followed by those below it."""
    commitments, whole = situation.commitments, Tree(situation.snapshot.quotas)
    clusters = {name: view.labels for name, view in situation.snapshot.clusters.items()}
    uses = Uses(whole, usage_with_domains(commitments.usage, commitments, whole, clusters))
    capacity = _capacity(situation)
    short = [
        record.terms for record in situation.records.values() if record.terms.reason in BY_QUOTA
    ]
    made = []
    for name in _in_order(whole):
        account, under = whole.accounts[name], whole.under(name)
        made.append(
            Account(
                name,
                whole.path(name)[1] if len(whole.path(name)) > 1 else "",
                len(whole.path(name)) - 1,
                {tier: kept for tier in Tier if (kept := _balances(uses, account, tier))},
                sum(map(commitments.placed, under)),
                sum(terms.project in under for terms in short),
                _holders(situation, set(whole.own(name))),
                accounts.troubles(account, whole, capacity),
                commitments.terminating_in(set(whole.own(name))),
            )
        )
    return made


def queue(
    situation: Situation, project: str = "", *, starts_too: bool = True
) -> list[tuple[int, Waiter]]:
    """(position, waiter) of all that lack copies, or of those of one project; positions count the
    others too. Without `starts_too` nothing is expected of when they start."""
    asks, records = [], situation.records
    for key, workload in situation.workloads.items():
        record = records.get(key)
        if record is not None and record.terms.reason is Reason.SUSPENDED:
            continue
        ask = situation.ask_of(workload)
        if ask is not None and not ask.suspended and missing(situation, ask, record):
            asks.append(ask)
    asks += [ask for ask in situation.for_room or () if ask.key not in situation.workloads]
    commitments, snapshot = situation.commitments, situation.snapshot
    ordered = ordering.order(asks, commitments, commitments.open(snapshot))
    waiters = {
        ask.uid: _waiter(situation, ask) for ask in ordered if ask.key in situation.workloads
    }
    lacking = {
        ask.uid: waiters[ask.uid].missing if ask.uid in waiters else ask.slots
        for ask in ordered
        if starts_too and (ask.uid not in waiters or _for_room(waiters[ask.uid]))
    }
    expected = starts.expected(
        [ask for ask in ordered if ask.uid in lacking],
        commitments,
        commitments.open(snapshot),
        lacking,
        Releases(_ended(situation)),
        running=tuple(_running(situation)),
    )
    return [
        (at, replace(waiters[ask.uid], expected=expected.get(ask.uid)))
        for at, ask in enumerate(ordered, start=1)
        if ask.uid in waiters and project in {"", ask.project}
    ]


def _ended(situation: Situation) -> Iterator[Ran]:
    """The jobs that have ended and are still on the host."""
    jobs = situation.jobs
    if jobs is None:
        known = situation.workloads
        records = situation.records
        jobs = tuple((known[key], records[key]) for key in records if key in known)
    for workload, record in jobs:
        if (ran := _ran(workload, record)) is not None:
            yield ran


def _ran(workload: Workload, record: Record) -> Ran | None:
    """How long a job ran, from its status; None for what is no job or has not ended."""
    ask = workload.ask
    if ask is None or ask.unit is not Unit.SHARDS:
        return None
    status = {"status": workload.live_status()}
    begun_s = raw.epoch_s(raw.text(status, "status", "startTime")) or record.facts.as_of
    for kind in ("Complete", "Failed"):
        condition = raw.condition(status, kind)
        ended_s = raw.epoch_s(raw.text(condition, "lastTransitionTime"))
        if condition.get("status") == "True" and begun_s and ended_s > begun_s:
            return Ran(ask.project, ended_s - begun_s, ask.run_s)
    return None


def _running(situation: Situation) -> Iterator[Commitment]:
    """The jobs that the commitments of the hub's answer leave out: those of others that do not say
    how long they run."""
    for workload, record in situation.jobs or ():
        if workload.key in situation.workloads or workload.ask is None:
            continue
        commitment = record.commitment(workload.ask)
        if commitment is not None and commitment.run_s is None:
            yield commitment.without(workload.progress().done)


def missing(situation: Situation, ask: Ask, record: Record | None) -> int:
    """Copies that it lacks. Of a job set the shards that could run at once and may not: with one
    slot all its shards have a place."""
    if ask.unit is not Unit.SHARDS:
        return ask.slots if record is None else record.terms.shortfall
    done = situation.workloads[ask.key].progress().done
    left = max(ask.count - shards.size(done), 0)
    given = sum(share.slots for share in record.shares) if record is not None else 0
    return max(min(ask.slots, left) - given, 0)


def _for_room(waiter: Waiter) -> bool:
    """Whether it waits for room, or for its first decision."""
    return not waiter.reason or waiter.reason in FOR_ROOM


def _waiter(situation: Situation, ask: Ask) -> Waiter:
    record = situation.records.get(ask.key)
    status = situation.workloads[ask.key].live_status()
    placed = raw.condition({"status": status}, PLACED)
    since = raw.text(placed, "lastTransitionTime") if placed.get("status") == "False" else ""
    lacks = missing(situation, ask, record)
    if record is None:
        return Waiter(ask, lacks, "", "", since)
    return Waiter(ask, lacks, str(record.terms.reason), record.terms.message, since)


def _in_order(whole: Tree) -> Iterator[str]:
    """Each account before those below it."""
    left = [*reversed(whole.roots)]
    while left:
        name = left.pop()
        yield name
        left += reversed(whole.children(name))


def _balances(uses: Uses, account: QuotaAccount, tier: Tier) -> dict[str, Balance]:
    root = uses.tree.path(account.name)[-1]
    limited = set(uses.tree.names(root, tier))
    return {
        resource: of[account.name]
        for resource, of in uses.balances(root, tier).items()
        if resource in limited or of[account.name].used
    }


def _holders(situation: Situation, projects: set[str]) -> tuple[Held, ...]:
    holders = [
        held
        for commitment in situation.commitments
        for held in _held(commitment)
        if held.project in projects and held.copies
    ]
    return tuple(sorted(holders, key=lambda holder: (-holder.copies, holder.key)))


def _held(of: Commitment) -> Iterator[Held]:
    yield Held(of.key, of.project, of.tier, of.copies, of.usage)
    for former in of.former:
        copies, usage = former.copies, former.usage
        yield Held(of.key, former.project, former.tier, copies, usage, former=True)


def _capacity(situation: Situation) -> Resources:
    """What the clusters have for the federation."""
    total = ZERO
    for view in situation.snapshot.clusters.values():
        if view.capacity is not None:
            total = total + view.capacity.allocatable.scaled(view.usable_permille)
    return total
