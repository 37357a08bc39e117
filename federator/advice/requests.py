"""Smaller requests, as numbers in the workload's own template.

A copy requests more than its template: a RuntimeProfile adds containers, and init containers count.
So the number in the template is lowered, and the engine tells whether that is enough.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from federator.advice import patches
from federator.advice.trials import Change, HostState, Trials, least
from federator.api import raw
from federator.model.decision import Decision
from federator.model.errors import FieldError
from federator.model.kubernetes import quantity

RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
LEAST_PART: Final = 16
"""No request is lowered below this fraction: nobody would follow such advice."""
MEBI: Final = 1 << 20
POD: Final[tuple[str, ...]] = ("spec", "template", "spec")
Path = tuple[str | int, ...]


def smaller(world: HostState, trials: Trials, decision: Decision) -> Iterator[Change]:
    """Per resource: the largest smaller request of the container with the highest one, with which
    all copies have a place."""
    ask, obj = world.ask, world.obj(world.workload_id)
    assert ask is not None
    assert obj is not None
    now = trials.placed(world)
    wanted = now + max(decision.shortfall + decision.held, ask.slots - now)
    for name in RESOURCES:
        path, owner, amount = largest(obj, name)
        unit = MEBI if name != "cpu" and amount > MEBI else 1
        lowest = max(amount // LEAST_PART // unit, 1)
        if amount // unit <= lowest:
            continue

        def made(units: int, path: Path = path, name: str = name, unit: int = unit) -> HostState:
            return world.with_object(
                patches.edited(obj, path, quantity.render_amount(name, units * unit))
            )

        if trials.placed(made(lowest)) < wanted:
            continue
        most = (amount - 1) // unit

        def enough(less: int, made: Callable[[int], HostState] = made, most: int = most) -> bool:
            return trials.placed(made(most - less)) >= wanted

        less = least(0, most - lowest, enough)
        old, new = (quantity.render_amount(name, value) for value in (amount, (most - less) * unit))
        yield Change(f"{name} request of {owner} {old} -> {new}", made(most - less), shrinks=True)


def largest(obj: Any, name: str) -> tuple[Path, str, int]:
    """Where the template requests most of a resource: for the pod as a whole, else in one
    container."""
    whole = _amount(raw.mapping(obj, *POD, "resources"), name)
    if whole:
        return (*POD, "resources", "requests", name), "the pod", whole
    best: tuple[Path, str, int] = ((), "", 0)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(raw.items(obj, *POD, field)):
            amount = _amount(raw.mapping(container, "resources"), name)
            if amount > best[2]:
                path = (*POD, field, index, "resources", "requests", name)
                best = path, f"container {raw.text(container, 'name')}", amount
    return best


def _amount(resources: Any, name: str) -> int:
    """The request; a limit stands for a missing one."""
    asked = raw.mapping(resources, "requests")
    value = asked.get(name, raw.mapping(resources, "limits").get(name))
    try:
        return quantity.vector({name: value})[name] if value is not None else 0
    except FieldError:
        return 0
