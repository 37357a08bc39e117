"""The time line of one work: when it was submitted, what it waited for and which works held that
then, where it started, what it lost, how it ended."""

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from federator.model.decision import Reason
from federator.simulate.demand import Work
from federator.simulate.outcome import FOR_CAPACITY, End, Life, SimulationResult, Wait
from federator.simulate.report import amounts, reasons
from federator.simulate.report.costing import per_copy

HOLDERS: Final = 3
"""Works that are named for one wait."""
FOR_QUOTA: Final = frozenset({Reason.QUOTA_EXCEEDED, Reason.EXCEEDS_MAX_QUOTA, Reason.PREEMPTED})


class NoSuchWork(LookupError):
    """The simulation has no work of this name; the message names near ones."""


@dataclass(frozen=True, slots=True)
class Step:
    at_s: int
    what: str
    detail: str


def of(outcome: SimulationResult, work: str) -> tuple[Step, ...]:
    """What happened to a work, by time. Raises NoSuchWork."""
    lives = {life.work.id: life for life in outcome.lives}
    if work not in lives:
        near = difflib.get_close_matches(work, lives, 3, 0.5) or list(lives)[:3]
        raise NoSuchWork(f"no work is called {work!r}; there are {', '.join(near)}, ...")
    life = lives[work]
    steps = [Step(life.work.submit_s, "submitted", _asked(life.work)), *_moves(life)]
    steps += (Step(wait.start_s, "waits", _waited(outcome, life, wait)) for wait in life.waits)
    steps.append(_ended(outcome, life))
    return tuple(sorted(steps, key=lambda step: step.at_s))


def _asked(work: Work) -> str:
    parts = [
        f"{amounts.whole(amounts.people(resource, amount))} {amounts.unit(resource)}"
        for resource in amounts.UNITS
        if (amount := per_copy(work, resource))
    ]
    model = f" ({' or '.join(work.gpu_models)})" if work.gpu_models else ""
    runs = "" if work.runtime_s is None else f", runs {amounts.length(work.runtime_s)}"
    each = f" of {', '.join(parts)}{model}" if parts else ""
    return (
        f"{amounts.counted(work.shards, 'copy', 'copies')}{each}{runs}; project "
        f"{work.project or '(none)'}, tier {work.tier}, priority {work.priority}"
    )


def _moves(life: Life) -> Iterator[Step]:
    """Starts and ends of its copies, those of one instant together."""
    begun: dict[int, Counter[str]] = defaultdict(Counter)
    ended: dict[int, Counter[str]] = defaultdict(Counter)
    lost: dict[int, Counter[str]] = defaultdict(Counter)
    for stay in life.stays:
        begun[stay.start_s][stay.cluster] += stay.copies
        if stay.end_s is not None and stay.end_s != life.end_s:
            (lost if stay.lost else ended)[stay.end_s][stay.cluster] += stay.copies
    for at_s in {*begun, *ended}:
        both = begun[at_s] & ended[at_s]  # a share that grew: its copies did not move
        begun[at_s] -= both
        ended[at_s] -= both
    for what, changes in (("lost", lost), ("leaves", ended), ("starts", begun)):
        for at_s, clusters in changes.items():
            if clusters:
                named = ", ".join(f"{name} {count}" for name, count in sorted(clusters.items()))
                yield Step(at_s, what, named)


def _waited(outcome: SimulationResult, life: Life, wait: Wait) -> str:
    end_s = outcome.end_s if wait.end_s is None else wait.end_s
    missing = f"{amounts.counted(wait.copies, 'copy', 'copies')} missing"
    lasted = amounts.length(end_s - wait.start_s)
    text = f"{lasted} for {wait.reason} ({reasons.meaning(wait.reason)}), {missing}"
    held = _holders(outcome, life, wait)
    return f"{text}; {held}" if held else text


def _holders(outcome: SimulationResult, life: Life, wait: Wait) -> str:
    """Which works held most of what it waited for when the wait began: of its project for a quota,
    of all for room."""
    if wait.reason not in FOR_CAPACITY | FOR_QUOTA:
        return ""
    own = wait.reason in FOR_QUOTA
    asked = [name for name in outcome.resources if per_copy(life.work, name)]
    if not asked:
        return ""
    held: dict[str, Counter[str]] = {name: Counter() for name in asked}
    where: dict[str, set[str]] = defaultdict(set)
    for other in outcome.lives:
        if other is life or (own and other.work.project != life.work.project):
            continue
        for stay in other.stays:
            if stay.start_s <= wait.start_s and (stay.end_s is None or wait.start_s < stay.end_s):
                where[other.work.id].add(stay.cluster)
                for name in asked:
                    held[name][other.work.id] += stay.copies * per_copy(other.work, name)
    scarce = max(asked, key=lambda name: _in_use(outcome, wait.start_s, name))
    most = [(work, amount) for work, amount in held[scarce].most_common(HOLDERS) if amount]
    if not most:
        return ""
    rest = len([amount for amount in held[scarce].values() if amount]) - len(most)
    named = ", ".join(
        f"{work} ({amounts.whole(amounts.people(scarce, amount))} in "
        f"{' and '.join(sorted(where[work]))})"
        for work, amount in most
    )
    of_project = f" of project {life.work.project}" if own else ""
    others = f" and {rest} more" if rest else ""
    return f"{amounts.unit(scarce)} were held by {named}{others}{of_project}"


def _in_use(outcome: SimulationResult, at_s: int, resource: str) -> float:
    """The share of a resource that was in use at an instant, by the last sample before."""
    at = outcome.resources.index(resource)
    before = [sample for sample in outcome.samples if sample.at_s <= at_s]
    if not before:
        return 0.0
    there = sum(row[at] for row in before[-1].capacity.values())
    return sum(row[at] for row in before[-1].used.values()) / there if there else 0.0


def _ended(outcome: SimulationResult, life: Life) -> Step:
    cost = [
        f"{amounts.counted(count, noun)} cost {amounts.length(seconds)}"
        for count, noun, seconds in (
            (life.restarts, "restart after a lost cluster", life.lost_s),
            (life.preempted, "preemption", life.preempted_s),
            (life.failures, "failed attempt", life.failed_s),
        )
        if count
    ]
    waited = "" if life.wait_s is None else f"waited {amounts.length(life.wait_s)} to start"
    at_s = life.end_s if life.end in (End.COMPLETED, End.FAILED) else None
    detail = "; ".join(part for part in (waited, *cost) if part)
    if at_s is None:
        return Step(outcome.end_s, f"{life.end.value.lower()} at the end", detail)
    return Step(at_s, life.end.value.lower(), detail)
