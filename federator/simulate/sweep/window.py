"""Simulations that are compared are measured over the same time."""

import hashlib
from collections import defaultdict
from dataclasses import dataclass, replace

from federator.model.errors import FieldError
from federator.simulate.inputs import Inputs
from federator.simulate.report import amounts
from federator.simulate.sweep.plan import Plan, Task
from federator.simulate.sweep.running import Runner


@dataclass(frozen=True, slots=True)
class Both:
    made: Inputs
    other: Inputs
    note: str
    """Says which time it is where one of them has another alone; "" where both have the same."""


def of_both(made: Inputs, other: Inputs) -> Both:
    """Both, measured over the time that both have: from the later warm-up to the earlier horizon.
    If one has an end, both end there. Raises FieldError where they have no time in common."""
    begin_s = max(made.warm_up_s, other.warm_up_s)
    end_s = min(made.horizon_s, other.horizon_s)
    if end_s <= begin_s:
        message = (
            f"the two have no time in common: one is measured from {amounts.length(begin_s)} on, "
            f"one until {amounts.length(end_s)}"
        )
        raise FieldError("--compare", message)
    alone = [(each.warm_up_s, each.horizon_s) for each in (made, other)]
    when = f"from {amounts.length(begin_s)} to {amounts.length(end_s)}"
    last_s = None if made.end_s is None and other.end_s is None else end_s
    return Both(
        replace(made, warm_up_s=begin_s, window_s=end_s, end_s=last_s),
        replace(other, warm_up_s=begin_s, window_s=end_s, end_s=last_s),
        ""
        if alone == [(begin_s, end_s)] * 2
        else f"both are measured {when}, the time that both have.",
    )


def of_sweep(planned: Plan, runner: Runner) -> Plan:
    """The plan, with all tasks that have the same `until` and `warmUp` measured over the time that
    all of them have: demands of several seeds do not end together. `runner` gives the time of each
    (`running.spanned`). Raises FieldError where some have no time in common."""
    firsts: dict[str, Task] = {}
    for task in planned.tasks:
        if task.span:
            firsts.setdefault(task.span, task)
    if len(firsts) < 2:
        return planned
    span_of = {task.id: span for span, task in firsts.items()}
    alone = {
        span_of[str(result["id"])]: tuple(result["window"])
        for result in runner(list(firsts.values()))
        if "window" in result  # what is wrong with the others is told when they run
    }
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for span, own in alone.items():
        groups[firsts[span].times].append(own)
    common = {
        times: (max(begin for begin, _ in windows), min(end for _, end in windows))
        for times, windows in groups.items()
    }
    for begin_s, end_s in common.values():
        if end_s <= begin_s:
            raise FieldError(
                "vary",
                f"some simulations have no time in common: one is measured from"
                f" {amounts.length(begin_s)} on, one until {amounts.length(end_s)}; set until",
            )
    return replace(
        planned,
        tasks=tuple(_measured(task, alone.get(task.span), common) for task in planned.tasks),
    )


def _measured(
    task: Task, alone: tuple[int, ...] | None, common: dict[str, tuple[int, int]]
) -> Task:
    """The task with its time, which is part of what its result depends on."""
    if alone is None or common[task.times] == alone:
        return task
    window = common[task.times]
    digest = hashlib.sha256(f"{task.id} {window}".encode()).hexdigest()[: len(task.id)]
    return replace(task, id=digest, window=window)
