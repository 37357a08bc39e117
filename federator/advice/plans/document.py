"""A plan as a plain object: what `-o json` prints, and what the leader's query port answers.

Workloads that the reader may not see are counted in sums. Nothing else in the document names them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from federator.advice.plans import outcome
from federator.advice.plans.invariants import Broken
from federator.advice.plans.outcome import AccountChange, Change, Uncovered
from federator.advice.plans.pacing import Pace
from federator.advice.plans.plan import Plan
from federator.api.placement import placementinvariant
from federator.model.accounts import Balance
from federator.model.kubernetes import quantity
from federator.model.names import WorkloadKey
from federator.model.plaintext import counted
from federator.model.resources import Resources

See = Callable[[WorkloadKey], bool]
OTHERS = "(others)"
"""In place of a name that the reader may not see."""


def everything(_: WorkloadKey) -> bool:
    """The reader may see every workload."""
    return True


def of(made: Plan, *, see: See = everything, operator: bool = True) -> dict[str, Any]:
    """The document. `operator`: whether accounts and losses are shown, which are about all."""
    shown = [change for change in made.changes if see(change.key)]
    others = [change for change in made.changes if not see(change.key)]
    document: dict[str, Any] = {
        "kind": "Plan",
        "looked": {
            "workloads": made.workloads,
            "clusters": made.clusters,
            "undecided": made.undecided,
        },
        "summary": _summary(made.changes),
        "seconds": made.seconds,
        "workloads": [_change(change, see) for change in shown],
        "byPolicy": _groups(shown, lambda change: [(change.policy, _touched(change))]),
        "byClusters": _pairs(made.changes if operator else shown),
        "invariants": [_broken(each, see) for each in made.broken],
        "refused": list(made.refused),
        "warnings": [*_undecided(made), *made.warnings],
        "settled": not made.unsettled,
    }
    if others:
        document["others"] = _summary(others)
    if operator:
        document["budgets"] = [_pace(pace) for pace in made.paces]
        document["accounts"] = [_account(change) for change in made.accounts]
        if made.uncovered is not None:
            document["uncovered"] = [_uncovered(loss) for loss in made.uncovered]
    return document


def _undecided(made: Plan) -> Iterator[str]:
    if made.undecided:
        have = counted(made.undecided, "workload has", "workloads have")
        yield (
            f"{have} no decision yet: the plan places them first, as the hub would, and shows only"
            " what the edits change"
        )


def _summary(changed: Sequence[Change]) -> dict[str, int]:
    return {
        "workloads": len(changed),
        "created": sum(change.created for change in changed),
        "deleted": sum(change.deleted for change in changed),
        "moves": sum(change.moves for change in changed),
        "restarted": sum(change.restarted for change in changed),
        "started": sum(max(_sum(change.after) - _sum(change.before), 0) for change in changed),
        "ended": sum(max(_sum(change.before) - _sum(change.after), 0) for change in changed),
        "preempted": sum(change.preempted for change in changed),
        "waiting": sum(change.waits for change in changed),
        "shorter": sum(change.worse for change in changed),
        "short": sum(change.short for change in changed),
    }


def _sum(copies: Any) -> int:
    return sum(copies.values())


def _touched(change: Change) -> int:
    return max(_sum(change.leaves), _sum(change.enters), change.restarted)


def _change(change: Change, see: See) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "workload": str(change.key),
        "policy": change.policy,
        "project": change.project,
        "tier": str(change.tier),
        "before": dict(change.before),
        "after": dict(change.after),
        "leaves": dict(change.leaves),
        "enters": dict(change.enters),
        "moves": change.moves,
        "restarted": change.restarted,
        "short": change.short,
        "shortBefore": change.short_before,
        "waiting": change.waits,
    }
    fields |= {"created": True} if change.created else {}
    fields |= {"deleted": True} if change.deleted else {}
    fields |= {"heldBack": True} if change.held_back else {}
    if change.preempted_by is not None:
        by = str(change.preempted_by) if see(change.preempted_by) else OTHERS
        fields["preempted"] = {"by": by, "copies": change.preempted}
    if change.reason or change.message:
        fields |= {"reason": change.reason, "message": change.message}
    return fields


def _groups(
    changed: Sequence[Change], group: Callable[[Change], Iterable[tuple[str, int]]]
) -> list[dict[str, Any]]:
    return [
        {"policy": name, "workloads": workloads, "copies": copies}
        for name, workloads, copies in outcome.totals(changed, group)
    ]


def _pairs(changed: Sequence[Change]) -> list[dict[str, Any]]:
    return [
        {"from": source, "to": target, "workloads": workloads, "copies": copies}
        for (source, target), workloads, copies in outcome.totals(changed, outcome.by_pair)
    ]


def _pace(pace: Pace) -> dict[str, Any]:
    return {
        "budget": pace.budget,
        "copies": pace.copies,
        "aMinute": pace.a_minute,
        "seconds": pace.seconds,
    }


def _account(change: AccountChange) -> dict[str, Any]:
    resource = change.resource
    return {
        "account": change.account,
        "tier": str(change.tier),
        "resource": resource,
        "before": _balance(change.before, resource),
        "after": _balance(change.after, resource),
    }


def _balance(balance: Balance, resource: str) -> dict[str, Any]:
    amounts = {
        "used": balance.used,
        "guaranteed": balance.guaranteed,
        "max": balance.most,
        "borrowed": balance.borrowed,
        "lent": balance.lent,
    }
    shown = {name: _amount(resource, amount) for name, amount in amounts.items() if amount}
    shown.setdefault("used", "0")
    if balance.lenders:
        shown["lenders"] = {name: _amount(resource, amount) for name, amount in balance.lenders}
    return shown


def _amount(resource: str, amount: int) -> Any:
    name = resource.partition(" in ")[0]
    return quantity.render(Resources({name: amount}))[name]


def _broken(broken: Broken, see: See) -> dict[str, Any]:
    """An invariant that does not hold then. Without the names of workloads that the reader may not
    see."""
    rows = [
        row if see(WorkloadKey(*row["workload"].split("/"))) else {**row, "workload": OTHERS}
        for row in broken.worst
    ]
    return {
        "invariant": broken.invariant.name,
        "enforcement": "Refuse" if broken.invariant.refuses else "Warn",
        "worse": broken.worse,
        "workloads": broken.workloads,
        "copiesBeyondNow": broken.before,
        "copiesBeyondThen": broken.after,
        "breaches": [
            {**row, "message": placementinvariant.in_words(broken.invariant, row)} for row in rows
        ],
    }


def _uncovered(loss: Uncovered) -> dict[str, Any]:
    return {
        "cluster": loss.name,
        "copiesWithoutPlaceNow": loss.before,
        "copiesWithoutPlaceThen": loss.after,
        "workloads": [
            {"workload": str(key), "copies": copies, "why": why} for key, copies, why in loss.worst
        ],
    }
