"""The figures of a report counted again, second by second, from the lives of works and from what the
fleet was: no code of the report, of the recorder or of the placement core. It states the present
definitions.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from federator.model.ask import Tier
from federator.model.resources import CPU, GPU, MEMORY
from federator.simulate.inputs import EventKind, Inputs
from federator.simulate.outcome import End, Life, SimulationResult
from tests.unit.simulate import growth

RESOURCES = {"cpu": (CPU, 1, 1000), "memory": (MEMORY, 1 << 20, 1024), "gpu": (GPU, 1, 1)}
"""Name in reports -> (name in nodes, what one unit is in nodes, units in what people read)."""


@dataclass(frozen=True)
class Wanted:
    """One outcome of one scenario."""

    inputs: Inputs
    outcome: SimulationResult

    @property
    def begin_s(self) -> int:
        return self.outcome.start_s + self.inputs.warm_up_s

    @property
    def end_s(self) -> int:
        return self.outcome.end_s

    @property
    def lives(self) -> list[Life]:
        """Of the works that are measured."""
        return [life for life in self.outcome.lives if life.work.submit_s >= self.begin_s]

    # -- what was there, and what was held ---------------------------------------------------------

    def nodes(self, at_s: int) -> dict[str, tuple[int, dict[str, int]]]:
        """Cluster that is there -> (nodes, amounts of what its nodes have), after all that happens
        at that second."""
        views = dict(self.inputs.clusters)
        gone: set[str] = set()
        for event in self.inputs.events:
            if event.at_s > at_s:
                break
            if event.kind is EventKind.LOST:
                gone.add(event.cluster)
            elif event.kind is EventKind.RETURNED:
                gone.discard(event.cluster)
            elif event.kind in (EventKind.ADDED, EventKind.GROWN) and event.view is not None:
                views[event.cluster] = event.view
        found = {}
        more = growth.amounts(self.inputs, self.outcome, at_s)
        for name, view in views.items():
            rows = view.capacity.rows if view.capacity is not None else ()
            if name not in gone:
                found[name] = (
                    sum(row.count for row in rows),
                    {
                        shown: sum(row.count * row.allocatable[real] for row in rows) // unit
                        + more[name][shown]
                        for shown, (real, unit, _) in RESOURCES.items()
                    },
                )
        return found

    def held(self, at_s: int) -> dict[str, dict[str, int]]:
        """Cluster -> resource -> what copies hold from that second on."""
        found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(RESOURCES, 0))
        for life in self.outcome.lives:
            for stay in life.stays:
                if stay.start_s <= at_s and (stay.end_s is None or at_s < stay.end_s):
                    for resource, amount in takes(life).items():
                        found[stay.cluster][resource] += amount * stay.copies
        return found

    def added(self) -> set[str]:
        """Clusters that came while it ran."""
        events = self.inputs.events
        return {
            event.cluster
            for event in events
            if event.kind is EventKind.ADDED and event.at_s <= self.end_s
        }

    @cached_property
    def horizon_s(self) -> int:
        """Until when means and cost are taken."""
        if self.inputs.end_s is not None:
            return self.inputs.end_s
        ends = [
            max([work.submit_s, *(step.at_s for step in work.curve)]) + (work.runtime_s or 0)
            for work in self.inputs.works
        ]
        return max([0, *ends, *(event.at_s for event in self.inputs.events)])

    def seconds(self) -> range:
        return range(self.begin_s, max(self.end_s, self.horizon_s))

    # -- figures -----------------------------------------------------------------------------------

    def uses(self) -> dict[tuple[str, str], tuple[float, float, float, float]]:
        """(cluster, "" for the fleet, and resource) -> (mean capacity, share in use, largest share,
        most). A cluster that was there in the warm-up only has nothing."""
        had: dict[tuple[str, str], int] = defaultdict(int)
        took: dict[tuple[str, str], int] = defaultdict(int)
        lasted: dict[str, int] = defaultdict(int)
        peaks: dict[tuple[str, str], float] = defaultdict(float)
        most: dict[tuple[str, str], int] = defaultdict(int)
        for at_s in self.seconds():
            there, held = self.nodes(at_s), self.held(at_s)
            measured = at_s < self.horizon_s
            there[""] = (0, _sum(amounts for _, amounts in there.values()))
            held[""] = _sum(held.values())
            for name, (_, amounts) in there.items():
                lasted[name] += measured
                for resource, amount in amounts.items():
                    used = held[name][resource]
                    had[name, resource] += amount * measured
                    took[name, resource] += used * measured
                    most[name, resource] = max(most[name, resource], used)
                    if amount:
                        peaks[name, resource] = max(peaks[name, resource], used / amount)
        return {
            (name, resource): (
                had[name, resource] / max(lasted[name], 1) / RESOURCES[resource][2],
                took[name, resource] / had[name, resource] if had[name, resource] else 0.0,
                peaks[name, resource],
                most[name, resource] / RESOURCES[resource][2],
            )
            for name in {"", *self.inputs.clusters, *self.added()}
            for resource in self.outcome.resources
        }

    def figures(self) -> dict[str, float]:
        lives = self.lives
        found: dict[str, float] = {
            "works": len(lives),
            **{end.value.lower(): sum(life.end is end for life in lives) for end in End},
            **waiting(lives),
            "missing_copy_s": sum(self.lacks().values()),
            "fragmented_peak": max(
                (one.fragmented for one in self.outcome.samples if one.at_s >= self.begin_s),
                default=0,
            ),
            "moves": sum(self.moves().values()),
            "displaced": self.displaced(),
        }
        for field in (
            *("restarts", "lost_s", "preempted", "preempted_s"),
            *("failures", "failed_s", "scalings", "scaled_late"),
        ):
            found[field] = sum(getattr(life, field) for life in lives)
        for (cluster, resource), (capacity, mean, peak, most) in self.uses().items():
            if not cluster:
                found[f"capacity_{resource}"] = capacity
                found[f"use_mean_{resource}"] = mean
                found[f"use_peak_{resource}"] = peak
                found[f"used_peak_{resource}"] = most
        if self.inputs.grows:
            found |= growth.figures(self.inputs, self.outcome, self.measured)
        if self.priced:
            if self.inputs.grows:
                found["cost_grown"] = sum(self.grown_costs().values())
            cost, idle = self.cost(), self.bill()["", ""]
            found |= {"cost": cost, "cost_idle": idle}
            for resource, key in (("cpu", "cost_per_core_hour"), ("gpu", "cost_per_gpu_hour")):
                mean, length_s = found.get(f"use_mean_{resource}", 0), self.horizon_s - self.begin_s
                hours = mean * found.get(f"capacity_{resource}", 0) * length_s / 3600
                if hours:
                    found[key] = cost / hours
        return found

    def lacks(self) -> dict[str, int]:
        """Reason -> missing copies times seconds, of measured works."""
        found: dict[str, int] = defaultdict(int)
        for life in self.lives:
            for wait in life.waits:
                until_s = self.horizon_s if wait.end_s is None else wait.end_s
                for _ in range(wait.start_s, until_s):
                    found[wait.reason] += wait.copies
                found[wait.reason] += 0
        return found

    def instants(self, life: Life) -> Iterable[int]:
        """Every second in which its copies may be others than before."""
        return range(life.work.submit_s, self.end_s + 1)

    def moves(self) -> dict[int, int]:
        """Second -> copies that were started in one cluster then and had been ended by a decision in
        another one, second by second. What is gone in the second in which its cluster is lost, or
        gets nodes that do not hold all copies, was not ended by a decision."""
        lost = {
            (event.at_s, event.subject)
            for event in self.outcome.happened
            if event.kind == EventKind.LOST.value
            or (event.kind == EventKind.GROWN.value and event.copies)
        }
        moved: dict[int, int] = defaultdict(int)
        for life in self.outcome.lives:
            ended: list[str] = []
            for at_s in self.instants(life):
                before, now = standing(life, at_s - 1), standing(life, at_s)
                for name in sorted(before | now):
                    if (at_s, name) not in lost:
                        ended += [name] * (before[name] - now[name])
                for name in sorted(before | now):
                    for _ in range(now[name] - before[name]):
                        others = [one for one in ended if one != name]
                        if others and now[name] - before[name] > ended.count(name):
                            ended.remove(others[0])
                            moved[at_s] += 1
                        elif name in ended:
                            ended.remove(name)
                ended = ended[: max(asked(life, at_s) - now.total(), 0)]
        return {at_s: copies for at_s, copies in moved.items() if at_s >= self.begin_s}

    def displaced(self) -> int:
        """Copies that stood in a cluster until it was lost, and those for which it had no nodes any
        more, as its event says."""
        shrunk = sum(
            event.copies
            for event in self.outcome.happened
            if event.kind == EventKind.GROWN.value and event.at_s >= self.begin_s
        )
        return shrunk + sum(
            max(standing(life, event.at_s - 1)[event.cluster], 0)
            for event in self.inputs.events
            if event.kind is EventKind.LOST and self.begin_s <= event.at_s <= self.end_s
            for life in self.outcome.lives
            if life.end_s is None or life.end_s > event.at_s
        )

    @property
    def measured(self) -> range:
        """The seconds that sums are of."""
        return range(self.begin_s, self.horizon_s)

    @property
    def priced(self) -> bool:
        """Whether anything costs anything."""
        classes = growth.classes(self.inputs).values()
        changes = (event.kind is EventKind.PRICE_CHANGED for event in self.inputs.events)
        return bool(self.inputs.price_per_hour) or any(
            [*changes, *(each.price for each in classes)]
        )

    def grown_costs(self) -> Mapping[str, float]:
        """Cluster -> cost of the nodes of its autoscaler."""
        return growth.costs(self.inputs, self.outcome, self.measured)

    def cost(self) -> float:
        """Of all nodes from the warm-up to the horizon."""
        return sum(self.grown_costs().values()) + sum(
            self.inputs.price_per_hour.get(name, 0.0) * count / 3600
            for at_s in range(self.begin_s, self.horizon_s)
            for name, (count, _) in self.nodes(at_s).items()
        )

    def bill(self) -> dict[tuple[str, str], float]:
        """("work", id), ("project", name), ("tier", name) or ("cluster", name) -> cost; ("", "") ->
        cost of what nobody held. A cluster's GPUs share its cost, or its cores where it has none."""
        costs: dict[str, float] = defaultdict(float)
        wholes: dict[tuple[str, str], int] = defaultdict(int)
        parts: dict[tuple[str, str, str], int] = defaultdict(int)
        for at_s in range(self.begin_s, self.horizon_s):
            for name, (count, amounts) in self.nodes(at_s).items():
                costs[name] += self.inputs.price_per_hour.get(name, 0.0) * count / 3600
                for resource, amount in amounts.items():
                    wholes[name, resource] += amount
            for life in self.outcome.lives:
                for name, copies in standing(life, at_s).items():
                    for resource, amount in takes(life).items():
                        parts[life.work.id, name, resource] += amount * copies
        for name, cost in self.grown_costs().items():
            costs[name] += cost
        found: dict[tuple[str, str], float] = defaultdict(float)
        found["", ""] = sum(costs.values())
        for name, cost in costs.items():
            found["cluster", name] = cost
            shown = "gpu" in self.outcome.resources  # none had one at first, and none asks
            by = "gpu" if wholes[name, "gpu"] and shown else "cpu"
            for life in self.outcome.lives:
                if not wholes[name, by]:
                    continue
                due = cost * parts[life.work.id, name, by] / wholes[name, by]
                found["work", life.work.id] += due
                found["project", life.work.project or "(no project)"] += due
                found["tier", life.work.tier.value] += due
                found["", ""] -= due
        return found


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    listed = list(parts)
    return {resource: sum(part[resource] for part in listed) for resource in RESOURCES}


def takes(life: Life) -> dict[str, int]:
    """What one copy holds."""
    work = life.work
    return {"cpu": work.cpu_milli or 0, "memory": work.memory_mib or 0, "gpu": work.gpu or 0}


def standing(life: Life, at_s: int) -> Counter[str]:
    """Cluster -> copies that stand there in that second."""
    found: Counter[str] = Counter()
    for stay in life.stays:
        if stay.start_s <= at_s and (stay.end_s is None or at_s < stay.end_s):
            found[stay.cluster] += stay.copies
    return found


def asked(life: Life, at_s: int) -> int:
    """Copies that the work asks for in that second."""
    if life.end_s is not None and at_s >= life.end_s:
        return 0
    steps = [step.copies for step in life.work.curve if step.at_s <= at_s]
    return steps[-1] if steps else life.work.shards


def waiting(lives: Sequence[Life]) -> dict[str, float]:
    """How long works waited for their first start."""
    waits = sorted(life.start_s - life.work.submit_s for life in lives if life.start_s is not None)

    def nth(percent: int) -> int:
        """The smallest wait that more than so many of a hundred works do not exceed."""
        for at, wait in enumerate(waits, 1):
            if at * 100 > len(waits) * percent:
                return wait
        return waits[-1] if waits else 0

    return {
        "never_started": len(lives) - len(waits),
        "waited": sum(wait > 0 for wait in waits),
        "wait_p50_s": nth(50),
        "wait_p90_s": nth(90),
        "wait_p99_s": nth(99),
        "wait_max_s": max(waits, default=0),
        "wait_sum_s": sum(waits),
    }


def groups(lives: Iterable[Life], by: str) -> dict[str, list[Life]]:
    """Project or tier -> lives."""
    found: dict[str, list[Life]] = defaultdict(list)
    for life in lives:
        tier: Tier = life.work.tier
        found[tier.value if by == "tier" else life.work.project or "(no project)"].append(life)
    return found


def rows(text: bytes) -> list[dict[str, str]]:
    """The rows of a CSV file whose cells hold no comma."""
    head, *lines = text.decode().splitlines()
    return [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]


def numbers(row: Mapping[str, Any], *names: str) -> tuple[float, ...]:
    return tuple(float(row[name]) for name in names)
