"""How long a plan takes at the move budgets that are in force: they run side by side, so it is done
when the slowest is. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from federator.advice.plans.outcome import Change
from federator.hub.options import HubOptions
from federator.hub.placing.offline import Situation
from federator.model.ask import Ask, Tier
from federator.model.policy import MoveBudget
from federator.placement.selection.leaving import EVACUATION

MINUTE_S: Final = 60.0
EVACUATED: Final = "hub.evacuated_copies_a_minute"
PREEMPTED: Final = "hub.preempted_copies_a_minute"


@dataclass(frozen=True, slots=True)
class Pace:
    """Copies that draw on one budget."""

    budget: str
    """The field or setting, with its policy."""
    copies: int
    a_minute: int
    seconds: float
    """Until the last of them may move. What they start with takes its own time."""


def paces(final: Situation, changed: Iterable[Change], options: HubOptions) -> list[Pace]:
    """One row for each budget that anything draws on, the slowest first."""
    copies: dict[str, int] = {}
    budgets: dict[str, tuple[MoveBudget, str]] = {}
    preempted = 0
    for change in changed:
        if change.tier is not Tier.PREEMPTIBLE:
            preempted += change.preempted
        workload = final.workloads.get(change.key)
        ask = final.ask_of(workload) if workload is not None else None
        for source, moved in (change.by_budget or {}).items():
            if ask is None:
                continue
            title, budget, policy = _budget(ask, source)
            copies[title] = copies.get(title, 0) + moved
            if budget is not None:
                budgets[title] = budget, policy
    running = _running(final) if budgets else {}
    rates = {
        title: budget.a_minute(running.get(policy, 0))
        for title, (budget, policy) in budgets.items()
    }
    made = [
        _pace(title, moved, rates.get(title, options.evacuated_copies_a_minute), title)
        for title, moved in copies.items()
    ]
    if preempted:
        made.append(_pace(PREEMPTED, preempted, options.preempted_copies_a_minute, ""))
    return sorted(made, key=lambda pace: (-pace.seconds, pace.budget))


def _pace(title: str, copies: int, a_minute: int, even: str) -> Pace:
    """A bucket holds what one minute allows, except that evacuations go evenly."""
    waits = copies if even == EVACUATED else max(copies - a_minute, 0)
    return Pace(title, copies, a_minute, math.ceil(waits * MINUTE_S / a_minute))


def _budget(ask: Ask, source: str) -> tuple[str, MoveBudget | None, str]:
    """(title, budget, key of the policy in `_running`)."""
    policy = ask.policy
    if source == EVACUATION:
        return EVACUATED, None, ""
    if source:
        demand = next((each for each in policy.required if each.name == source), None)
        budget = demand.moves if demand is not None else policy.moves
        return f"moveBudget of ClusterPlacementPolicy {source} (Required)", budget, f"/{source}"
    if policy.origin == "inline":
        return f"spec.placement.moveBudget of {ask.key}", policy.moves, str(ask.key)
    if policy.origin == "default":
        return "moveBudget of the default policy", policy.moves, "/default"
    kind = "PlacementPolicy" if policy.namespace else "ClusterPlacementPolicy"
    where = f"{policy.namespace}/{policy.name}" if policy.namespace else policy.name
    return f"moveBudget of {kind} {where}", policy.moves, f"{policy.namespace}/{policy.name}"


def _running(final: Situation) -> dict[str, int]:
    """Copies under each policy, and of each workload with a placement of its own."""
    running: dict[str, int] = {}
    for key, record in final.records.items():
        terms, copies = record.terms, sum(share.slots for share in record.shares)
        under = {f"{terms.policy_namespace}/{terms.policy_name}", str(key)}
        for name in (*under, *(f"/{required}" for required in terms.required)):
            running[name] = running.get(name, 0) + copies
    return running
