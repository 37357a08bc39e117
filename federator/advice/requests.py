"""Smaller requests, as numbers in the workload's own template.

A copy requests more than its template: a RuntimeProfile adds containers, and init containers count.
So the number in the template is lowered, and the engine tells whether that is enough.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from federator.advice import patches
from federator.advice.trials import Change, HostState, Trials, most
from federator.api import raw
from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.errors import FieldError
from federator.model.fleet import NodeRow
from federator.model.kubernetes import quantity
from federator.model.resources import Resources
from federator.placement.room.nodes import Nodes

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
        tried: dict[int, HostState] = {}

        def enough(
            units: int,
            path: Path = path,
            name: str = name,
            unit: int = unit,
            tried: dict[int, HostState] = tried,
        ) -> bool:
            lowered = patches.edited(obj, path, quantity.render_amount(name, units * unit))
            tried[units] = world.with_object(lowered)
            return trials.placed(tried[units]) >= wanted

        if not enough(lowest):
            continue
        guess = _guess(world, ask, name, amount, wanted - now) // unit
        units = most(lowest, (amount - 1) // unit, enough, guess)
        old, new = (quantity.render_amount(name, value) for value in (amount, units * unit))
        yield Change(f"{name} request of {owner} {old} -> {new}", tried[units], shrinks=True)


def _guess(world: HostState, ask: Ask, name: str, amount: int, copies: int) -> int:
    """About the largest request with which so many more copies fit: on the nodes of all clusters
    together, by their reports alone."""
    counts: dict[NodeRow, int] = {}
    for view in world.snapshot.clusters.values():
        for row in view.capacity.rows if view.capacity is not None else ():
            single = replace(row, count=1)
            counts[single] = counts.get(single, 0) + row.count
    nodes = Nodes.of(replace(row, count=count) for row, count in counts.items())
    beside = ask.shape.requests[name] - amount

    def fits(request: int) -> bool:
        requests = Resources({**ask.shape.requests, name: beside + request})
        return nodes.copies(replace(ask.shape, requests=requests)) >= copies

    return most(0, amount, fits, 0)


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
