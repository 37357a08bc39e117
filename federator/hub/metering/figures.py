"""The gauges of the federation's product, read from the hub's memory by the leader every quarter of
a minute: workloads by state and reason, copies, quota by account, room by cluster, and changes
under way.

A pass over a hundred thousand workloads takes a third of a second in all; other work gets its turn
in between, so that a reading may mix two moments a blink apart.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence

from federator.hub.cache.state import HubState
from federator.hub.metering.reconcile_times import ReconcileTimes
from federator.hub.records.decisions import Record
from federator.hub.records.workloads import Workload
from federator.kube.metrics import Metrics
from federator.model.ask import Tier
from federator.model.decision import Decision, Reason, Share
from federator.model.resources import CPU
from federator.placement.quota.uses import Uses

PASS_S = 15.0
"""Seconds between two readings."""
AT_ONCE = 1000
"""Workloads that are looked at before other work gets its turn."""

PUBLISHED = (
    "federator_workloads",
    "federator_copies",
    "federator_copies_short",
    "federator_quota",
    "federator_profile_held_back",
    "federator_cluster_capacity",
    "federator_cluster_free",
    "federator_reconcile_waiting",
    "federator_reconcile_oldest_seconds",
)

Labels = tuple[str, ...]
PLACED, SHORT, WAITING, SUSPENDED = "placed", "short", "waiting", "suspended"


class Figures:
    """Publishes a reading at intervals, while this hub leads."""

    def __init__(self, state: HubState, times: ReconcileTimes) -> None:
        self._state = state
        self._times = times

    async def run(self) -> None:
        """Until cancelled; then the figures end, for another hub publishes them."""
        metrics = self._state.metrics
        if metrics is None:
            return
        try:
            while True:
                metrics.publish(await self.read())
                await asyncio.sleep(PASS_S)
        finally:
            metrics.publish({name: {} for name in PUBLISHED})
            self._times.clear()

    async def read(self) -> dict[str, dict[Labels, float]]:
        """One reading of everything."""
        workloads, short = Counter[Labels](), Counter[Labels]()
        copies = Counter[Labels]()
        for number, workload in enumerate(list(self._state.workloads.values())):
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            record, kind = self._state.record_of(workload), workload.key.kind
            state, reason = standing(workload, record)
            workloads[kind, state, reason] += 1
            if record is not None:
                if record.terms.shortfall > 0:
                    short[kind, reason] += record.terms.shortfall
                for share in record.shares:
                    copies[share.cluster, kind] += share.slots or share.count
        return {
            "federator_workloads": dict(workloads),
            "federator_copies": dict(copies),
            "federator_copies_short": dict(short),
            "federator_quota": self._quota(),
            "federator_profile_held_back": {
                (name,): count for name, count in self._state.held_profiles.counts().items()
            },
            **self._room(),
            "federator_reconcile_waiting": {
                (kind, str(step)): count for (kind, step), count in self._times.waiting().items()
            },
            "federator_reconcile_oldest_seconds": {
                (str(step),): age_s for step, age_s in self._times.oldest_s().items()
            },
        }

    def _quota(self) -> dict[Labels, float]:
        accounts = tuple(account for _, account in sorted(self._state.quotas.items()))
        tree = self._state.commitments.tree(accounts)
        uses = Uses(tree, self._state.commitments.usage)
        samples: dict[Labels, float] = {}
        for root in sorted({tree.path(account.name)[-1] for account in accounts}):
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

    def _room(self) -> dict[str, dict[Labels, float]]:
        capacity: dict[Labels, float] = {}
        free: dict[Labels, float] = {}
        for name, member in sorted(self._state.members.items()):
            if member.contents.report is None or member.abandoned:
                continue
            reported = member.contents.report.capacity
            for samples, amounts in (capacity, reported.allocatable), (free, reported.free):
                for resource, amount in amounts.items():
                    samples[name, resource] = in_units(resource, amount)
        return {"federator_cluster_capacity": capacity, "federator_cluster_free": free}


def standing(workload: Workload, record: Record | None) -> tuple[str, str]:
    """State and reason of a workload; the reason is that of its decision."""
    if workload.ask is None:
        return WAITING, Reason.MISCONFIGURED.value
    if workload.ask.suspended:
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
