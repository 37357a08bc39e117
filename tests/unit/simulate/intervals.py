"""The count of `recount` for outcomes of weeks: by the intervals between changes, and not second by
second. It shares no code with the report, the recorder or the placement core either.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import pytest

from federator.simulate.outcome import Life
from federator.simulate.report import figures
from federator.simulate.report.measures import Measures
from tests.unit.simulate import growth, recount
from tests.unit.simulate.recount import RESOURCES, Wanted, takes


@dataclass(frozen=True)
class ByIntervals(Wanted):
    """Recounts one outcome; equal to `Wanted` second by second (test_recount.py)."""

    @cached_property
    def until_s(self) -> int:
        return max(self.end_s, self.horizon_s)

    def segments(self) -> Iterator[tuple[int, int, dict[str, tuple[int, dict[str, int]]]]]:
        """(first second, second after the last, what is there) between changes of the fleet."""
        inside = {
            at_s
            for at_s in (
                *(event.at_s for event in self.inputs.events),
                *growth.changes(self.outcome),
            )
            if self.begin_s < at_s < self.until_s
        }
        for start_s, end_s in pairwise(sorted({self.begin_s, *inside, self.until_s})):
            yield start_s, end_s, self.nodes(start_s)

    def spans(self, life: Life) -> Iterator[tuple[str, int, int, int]]:
        """(cluster, copies, from, until) of what stood in the time that is looked at."""
        for stay in life.stays:
            end_s = self.until_s if stay.end_s is None else min(stay.end_s, self.until_s)
            start_s = max(stay.start_s, self.begin_s)
            if start_s < end_s:
                yield stay.cluster, stay.copies, start_s, end_s

    def uses(self) -> dict[tuple[str, str], tuple[float, float, float, float]]:
        segments = list(self.segments())
        names = {"", *self.inputs.clusters, *self.added()}
        changes: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        for life in self.outcome.lives:
            for cluster, copies, start_s, end_s in self.spans(life):
                for resource, amount in takes(life).items():
                    for name in (cluster, ""):
                        changes[name, resource][start_s] += copies * amount
                        changes[name, resource][end_s] -= copies * amount
        return {
            (name, resource): self._use(name, resource, segments, changes[name, resource])
            for name in names
            for resource in self.outcome.resources
        }

    def _use(
        self,
        name: str,
        resource: str,
        segments: Iterable[tuple[int, int, dict[str, tuple[int, dict[str, int]]]]],
        changes: Counter[int],
    ) -> tuple[float, float, float, float]:
        agenda = sorted(changes.items())
        had = took = lasted = most = at = held = 0
        peak = 0.0
        for start_s, end_s, there in segments:
            amounts = [of[resource] for cluster, (_, of) in there.items() if name in ("", cluster)]
            measured_s = max(min(end_s, self.horizon_s) - start_s, 0)
            has = sum(amounts)
            had += has * measured_s
            lasted += measured_s if amounts or not name else 0
            now_s = start_s
            while now_s < end_s:
                while at < len(agenda) and agenda[at][0] <= now_s:
                    held += agenda[at][1]
                    at += 1
                next_s = min(agenda[at][0] if at < len(agenda) else end_s, end_s)
                took += held * max(min(next_s, self.horizon_s) - now_s, 0)
                most = max(most, held)
                peak = max(peak, held / has if has else 0.0)
                now_s = next_s
        unit = RESOURCES[resource][2]
        return had / max(lasted, 1) / unit, took / had if had else 0.0, peak, most / unit

    def lacks(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for life in self.lives:
            for wait in life.waits:
                until_s = self.horizon_s if wait.end_s is None else wait.end_s
                found[wait.reason] += wait.copies * max(until_s - wait.start_s, 0)
        return found

    def instants(self, life: Life) -> Iterable[int]:
        if len({stay.cluster for stay in life.stays}) < 2:
            return ()
        ends = [at_s for stay in life.stays for at_s in (stay.start_s, stay.end_s)]
        changes = [*ends, *(step.at_s for step in life.work.curve), life.end_s]
        return sorted({at_s for at_s in changes if at_s is not None and at_s <= self.end_s})

    def costs(self) -> dict[str, float]:
        """Cluster -> cost of its nodes."""
        found: dict[str, float] = defaultdict(float, self.grown_costs())
        for start_s, end_s, there in self.segments():
            hours = max(min(end_s, self.horizon_s) - start_s, 0) / 3600
            for name, (count, _) in there.items():
                found[name] += self.inputs.price_per_hour.get(name, 0.0) * count * hours
        return found

    def cost(self) -> float:
        return sum(self.costs().values())

    def bill(self) -> dict[tuple[str, str], float]:
        wholes: Counter[tuple[str, str]] = Counter()
        for start_s, end_s, there in self.segments():
            lasted_s = max(min(end_s, self.horizon_s) - start_s, 0)
            for name, (_, amounts) in there.items():
                for resource, amount in amounts.items():
                    wholes[name, resource] += amount * lasted_s
        costs = self.costs()
        found: dict[tuple[str, str], float] = defaultdict(float)
        found |= {("cluster", name): cost for name, cost in costs.items()}
        found["", ""] = sum(costs.values())
        for life in self.outcome.lives:
            for name, copies, start_s, end_s in self.spans(life):
                by = "gpu" if wholes[name, "gpu"] and "gpu" in self.outcome.resources else "cpu"
                if not wholes[name, by]:
                    continue
                copy_s = copies * max(min(end_s, self.horizon_s) - start_s, 0)
                due = costs[name] * copy_s * takes(life)[by] / wholes[name, by]
                found["work", life.work.id] += due
                found["project", life.work.project or "(no project)"] += due
                found["tier", life.work.tier.value] += due
                found["", ""] -= due
        return found


def compare(wanted: ByIntervals, measures: Measures) -> None:
    """Every figure, use and cost of a report is the one that is counted here. What a work costs is
    rounded down to hundredths, and the rest counts as idle."""
    found, expected = figures.values(measures), wanted.figures()
    rounded = 0.01 * (len(wanted.outcome.lives) + 2 * len(wanted.inputs.clusters))
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        loose = rounded if key == "cost_idle" else 0.02 * len(wanted.inputs.clusters)
        if key.startswith("cost_per_") and expected["cost"]:
            loose *= value / expected["cost"]  # the rounded cost, divided by the hours in use
        off = loose if key.startswith("cost") else 1e-6
        assert found[key] == pytest.approx(value, abs=off), key
    uses = wanted.uses()
    for use in (*measures.fleet, *measures.clusters):
        shown = (use.capacity, use.mean, use.peak, use.peak_amount)
        assert shown == pytest.approx(uses[use.cluster, use.resource]), use.cluster
    assert {lack.reason: lack.copy_s for lack in measures.lacks} == wanted.lacks()
    for by, groups in (("project", measures.by_project), ("tier", measures.by_tier)):
        lives = recount.groups(wanted.lives, by)
        assert {group.group for group in groups} == lives.keys()
        for group in groups:
            told = (group.never, group.waited, group.p50_s, group.p90_s, group.p99_s)
            count = recount.waiting(lives[group.group])
            assert (*told, group.max_s, group.sum_s) == tuple(count.values()), group.group
    if wanted.priced:
        bill = wanted.bill()
        for by in ("cluster", "project", "tier"):
            for name, cents in measures.bill.groups[by].items():
                if name != "(idle)":
                    assert cents / 100 == pytest.approx(bill[by, name], abs=rounded), (by, name)
