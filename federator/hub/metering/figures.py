"""The gauges of the federation's product, read from the hub's memory by the leader every quarter of
a minute: workloads by state and reason, copies, quota by account, room by cluster, lost clusters,
and changes under way.

The optimality gap of batches is observed here too.

A pass over a hundred thousand workloads takes a third of a second in all; other work gets its turn
in between, so that a reading may mix two moments a blink apart.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from federator.api import memberfields, raw
from federator.hub.cache.state import HubState
from federator.hub.members.member import Member
from federator.hub.metering.readiness import Group, Readiness
from federator.hub.metering.reconcile_times import ReconcileTimes
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kube.clock import Clock, TimeSlices
from federator.kube.metrics import Metrics
from federator.model.ask import Tier
from federator.model.decision import Decision, Reason, Share
from federator.model.fleet import FleetSnapshot
from federator.model.resources import CPU
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from federator.placement.room.commitments import Commitments
from federator.scheduling import optimality
from federator.scheduling.governor import Health
from federator.scheduling.optimality import Batch
from federator.scheduling.write_order import Decided

PASS_S = 15.0
"""Seconds between two readings, or longer where one takes long."""
SHARE = 0.003
"""The part of a processor that readings may take: one of 100,000 workloads takes a quarter of a
second."""
GAPS_S = 15.0
"""Seconds from one measured batch to the next."""

PUBLISHED = (
    "federator_workloads",
    "federator_copies",
    "federator_copies_short",
    "federator_copies_not_ready",
    "federator_copies_beyond_budget",
    "federator_account_owner_info",
    "federator_quota",
    "federator_quota_uncovered",
    "federator_cluster_lost",
    "federator_member_process_silent",
    "federator_paused",
    "federator_profile_held_back",
    "federator_cluster_capacity",
    "federator_cluster_free",
    "federator_cluster_success_ratio",
    "federator_reconcile_waiting",
    "federator_reconcile_oldest_seconds",
)

Labels = tuple[str, ...]
NOBODY = "platform"
"""Owner of what no account names an owner for: the operators of the federation."""
PLACED, SHORT, WAITING, SUSPENDED = "placed", "short", "waiting", "suspended"


class Figures:
    """Publishes a reading at intervals, while this hub leads."""

    def __init__(
        self, state: HubState, times: ReconcileTimes, readiness: Readiness, *, clock: Clock
    ) -> None:
        self._state = state
        self._clock = clock
        self._times = times
        self._readiness = readiness

    async def run(self) -> None:
        """Until cancelled; then the figures end, for another hub publishes them."""
        metrics = self._state.metrics
        if metrics is None:
            return
        try:
            while True:
                slices = TimeSlices(self._clock)
                metrics.publish(await self.read(slices))
                await asyncio.sleep(max(PASS_S, slices.took_s / SHARE))
        finally:
            metrics.publish({name: {} for name in PUBLISHED})
            self._times.clear()
            self._readiness.clear()

    async def read(self, slices: TimeSlices) -> dict[str, dict[Labels, float]]:
        workloads, short = Counter[Labels](), Counter[Labels]()
        copies = Counter[Labels]()
        for workload in list(self._state.workloads.values()):
            if slices.used_up:
                await slices.give_way()
            record, kind = self._state.record_of(workload), workload.key.kind
            state, reason = standing(workload, record)
            workloads[kind, state, reason] += 1
            if record is not None:
                if record.terms.shortfall > 0:
                    short[kind, reason] += record.terms.shortfall
                for share in record.facts.portions:
                    copies[share.cluster, kind] += share.slots or share.count
        return {
            "federator_workloads": dict(workloads),
            "federator_copies": dict(copies),
            "federator_copies_short": dict(short),
            **self._accounts(),
            "federator_paused": {(): float(self._state.paused)},
            "federator_profile_held_back": {
                (name,): count for name, count in self._state.held_profiles.counts().items()
            },
            **self._clusters(),
            "federator_reconcile_waiting": {
                (kind, str(step)): count for (kind, step), count in self._times.waiting().items()
            },
            "federator_reconcile_oldest_seconds": {
                (str(step),): age_s for step, age_s in self._times.oldest_s().items()
            },
        }

    def _accounts(self) -> dict[str, dict[Labels, float]]:
        """What is said of accounts: their owners, what they may use and use, what they lack."""
        accounts = tuple(account for _, account in sorted(self._state.quotas.items()))
        tree = self._state.commitments.tree(accounts)
        quota = _balances(tree, Uses(tree, self._state.commitments.usage))
        owners: dict[Labels, float] = {
            (account.name, _owner(tree, account.name)): 1.0 for account in accounts
        }
        return {
            "federator_copies_not_ready": _by_account(tree, self._readiness.missing),
            "federator_copies_beyond_budget": _by_account(tree, self._readiness.beyond),
            "federator_account_owner_info": {**owners, ("", NOBODY): 1.0},
            "federator_quota": quota,
            "federator_quota_uncovered": self._uncovered(tree, quota),
        }

    def _uncovered(self, tree: Tree, quota: Mapping[Labels, float]) -> dict[Labels, float]:
        """What accounts without a parent are guaranteed in all, beyond what the nodes of clusters
        that are not lost have. Nothing is said before a cluster has reported."""
        reports = [
            (member.contents.report.capacity.allocatable, _usable_permille(member))
            for member in self._state.members.values()
            if member.contents.report is not None and not (member.abandoned or _lost(member))
        ]
        if not reports:
            return {}
        promised: dict[str, float] = defaultdict(float)
        for (account, _, resource, figure), amount in quota.items():
            if figure == "guaranteed" and tree.path(account)[-1] == account and amount:
                promised[resource] += amount
        there = {
            resource: sum(
                in_units(resource, has[resource] * usable // 1000) for has, usable in reports
            )
            for resource in promised
        }
        return {
            (account, resource): max(promised[resource] - there[resource], 0.0)
            for account, _, resource, figure in quota
            if figure == "guaranteed" and resource in promised and tree.path(account)[-1] == account
        }

    def _clusters(self) -> dict[str, dict[Labels, float]]:
        """What is known of each cluster: what its nodes have, and what is wrong with it."""
        capacity: dict[Labels, float] = {}
        free: dict[Labels, float] = {}
        lost: dict[Labels, float] = {}
        silent: dict[Labels, float] = {}
        for name, member in sorted(self._state.members.items()):
            if member.abandoned:
                continue
            lost[name,] = float(_lost(member))
            silent[name,] = float(member.is_current and not member.process.speaks)
            if member.contents.report is None:
                continue
            reported = member.contents.report.capacity
            for samples, amounts in (capacity, reported.allocatable), (free, reported.free):
                for resource, amount in amounts.items():
                    samples[name, resource] = in_units(resource, amount)
        rates: dict[Labels, float] = {
            (name,): member.vitals.success.permille / 1000
            for name, member in sorted(self._state.members.items())
            if member.vitals.success.as_of_s is not None and not member.abandoned
        }
        return {
            "federator_cluster_capacity": capacity,
            "federator_cluster_free": free,
            "federator_cluster_lost": lost,
            "federator_member_process_silent": silent,
            "federator_cluster_success_ratio": rates,
        }


def _lost(member: Member) -> bool:
    return member.health in (Health.UNREACHABLE, Health.DEAD)


def _usable_permille(member: Member) -> int:
    return memberfields.usable_permille(raw.text(member.obj, "spec", "usable"))


def _owner(tree: Tree, account: str) -> str:
    """The team of an account, or of the nearest one above it that names one."""
    named = (tree.accounts[name].owner for name in tree.path(account))
    return next(filter(None, named), NOBODY)


def _by_account(tree: Tree, copies: Mapping[Group, int]) -> dict[Labels, float]:
    """Counts by project as counts by account; account "" for projects without one."""
    counts = Counter[Labels]()
    for (project, kind), count in copies.items():
        counts[next(iter(tree.charged(project)), ""), kind] += count
    return dict(counts)


def _balances(tree: Tree, uses: Uses) -> dict[Labels, float]:
    samples: dict[Labels, float] = {}
    for root in sorted({tree.path(account)[-1] for account in tree.accounts}):
        for tier in Tier:
            for resource, balances in uses.balances(root, tier).items():
                for account, balance in balances.items():
                    for figure, amount in (
                        ("guaranteed", balance.guaranteed or 0),
                        ("used", balance.used),
                        ("lent", balance.lent),
                        ("borrowed", balance.borrowed),
                    ):
                        labels = (account, tier.value, resource, figure)
                        samples[labels] = in_units(resource, amount)
    return samples


class Gaps:
    """How far batches are from the best placement that a bound allows, while this hub leads.

    Only batches that left copies without a place for want of room are measured, one at a time and
    one every quarter of a minute at most. The search for the bound gives other work its turn after
    every few milliseconds. Decisions do not wait for it.
    """

    def __init__(self, commitments: Commitments, metrics: Metrics | None) -> None:
        self._commitments = commitments
        self._metrics = metrics
        self._batch: Batch | None = None
        self._noted = asyncio.Event()
        self._listens = False

    def note(self, decided: Sequence[Decided], snapshot: FleetSnapshot) -> None:
        """A cycle has decided; its decisions are not in the commitments yet. Kept is only what the
        bound is computed from."""
        if self._listens and not self._noted.is_set() and optimality.lacks_room(decided):
            self._batch = optimality.of_cycle(decided, self._commitments.open(snapshot))
            self._noted.set()

    async def run(self) -> None:
        """Until cancelled."""
        if self._metrics is None:
            return
        self._listens = True
        try:
            while True:
                await self._noted.wait()
                batch, self._batch = self._batch, None
                assert batch is not None
                ratio = 0.0
                for gap in batch.gaps(batch.few):
                    ratio = gap.ratio
                    await asyncio.sleep(0)
                self._metrics.child("federator_batch_gap_ratio").observe(ratio)
                await asyncio.sleep(GAPS_S)
                self._noted.clear()
        finally:
            self._listens = False
            self._noted.clear()


def standing(workload: Workload, record: Record | None) -> tuple[str, str]:
    """State and reason of a workload; the reason is that of its decision."""
    if workload.wants is None:
        return WAITING, Reason.MISCONFIGURED.value
    if workload.wants.suspended:
        return SUSPENDED, Reason.SUSPENDED.value
    if record is None:
        return WAITING, Reason.PENDING_EVALUATION.value
    if record.terms.shortfall <= 0:
        return PLACED, Reason.CHOSEN.value
    return (SHORT if record.shares else WAITING), record.terms.reason.value


async def forget_cluster(state: HubState, name: str, ending: Sequence[asyncio.Task[None]]) -> None:
    """Drops the metrics of a cluster that has left, once its cancelled tasks have ended and measure
    nothing any more. A cluster that has joined under the same name meanwhile keeps them."""
    if ending:
        await asyncio.wait(ending)
    if state.metrics is not None and name not in state.members:
        state.metrics.forget_cluster(name)


def count(metrics: Metrics | None, record: Record | None, decision: Decision) -> None:
    """A decision was written, in place of that in `record`."""
    if metrics is None:
        return
    kind = decision.key.kind
    metrics.child("federator_decisions_total", kind, decision.reason.value).inc()
    if copies := moved(record.shares if record is not None else (), decision.shares):
        metrics.child("federator_moves_total", kind).inc(copies)


def moved(before: Sequence[Share], after: Sequence[Share]) -> int:
    """Copies that go from one cluster to another between two decisions; what only grows or shrinks
    moves nowhere.

        a: 3, b: 2  ->  a: 1, b: 5: two leave a, three come to b: two moved
    """
    change: dict[str, int] = defaultdict(int)
    for sign, shares in (-1, before), (1, after):
        for share in shares:
            change[share.cluster] += sign * share.count
    gained = sum(amount for amount in change.values() if amount > 0)
    return min(gained, gained - sum(change.values()))


def in_units(resource: str, amount: int) -> float:
    """An amount as people and dashboards count it: cores instead of thousandths."""
    return amount / 1000 if resource == CPU else float(amount)
