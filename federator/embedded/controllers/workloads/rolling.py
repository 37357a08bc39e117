"""The arithmetic of rolling updates: by how many pods each ReplicaSet may grow or shrink. Pure;
`deployments` carries it out.

Rules of the Kubernetes deployment controller 1.37: surge rounds up, unavailable rounds down, both
zero makes unavailable one; unhealthy old pods go first; scaling while several sets are active is
shared in proportion, the largest takes the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class SetView:
    """One ReplicaSet as the arithmetic sees it.

    `max_replicas`: the deployment's replicas + surge when it was last scaled.
    """

    name: str
    created: str
    replicas: int
    available: int
    desired: int | None
    max_replicas: int | None


def scaled(value: Any, total: int, *, up: bool) -> int:
    """An integer, or a percentage of `total` rounded up or down. Raises ValueError for anything
    else."""
    if isinstance(value, int):
        return value
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    product = int(text[:-1]) * total
    return -(-product // 100) if up else product // 100


def limits(spec: dict[str, Any], replicas: int) -> tuple[int, int]:
    """(max surge, max unavailable) in pods."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate" or replicas == 0:
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def grow_new(new: SetView, total: int, replicas: int, surge: int) -> int:
    """How large the new set should be, given that all sets together ask for `total` pods."""
    if new.replicas >= replicas:
        return replicas
    room = replicas + surge - total
    return new.replicas + max(0, min(room, replicas - new.replicas))


def shrink_old(
    old: Sequence[SetView], new: SetView, replicas: int, unavailable: int
) -> dict[str, int]:
    """New sizes of the old sets that may shrink now, by name."""
    total = new.replicas + sum(view.replicas for view in old)
    floor = replicas - unavailable
    budget = total - floor - (new.replicas - new.available)
    if budget <= 0:
        return {}
    sizes = {view.name: view.replicas for view in old}
    ordered = sorted(old, key=lambda view: (view.created, view.name))
    left = budget
    for view in ordered:
        step = min(left, max(0, view.replicas - view.available))
        sizes[view.name] -= step
        left -= step
    # Available pods above the floor may go too; what was just taken away was not available.
    left = new.available + sum(view.available for view in old) - floor
    for view in ordered:
        if left <= 0:
            break
        step = min(left, sizes[view.name])
        sizes[view.name] -= step
        left -= step
    return {view.name: sizes[view.name] for view in old if sizes[view.name] != view.replicas}


def proportional(active: Sequence[SetView], replicas: int, surge: int) -> dict[str, int]:
    """Sizes of all active sets after the deployment was scaled in the middle of a rollout."""
    allowed = replicas + surge if replicas > 0 else 0
    to_add = allowed - sum(view.replicas for view in active)
    ordered = sorted(active, key=lambda view: (view.created, view.name), reverse=to_add > 0)
    ordered.sort(key=lambda view: view.replicas, reverse=True)
    sizes, added = {}, 0
    for view in ordered:
        share = _share(view, replicas, surge, to_add, added) if to_add else 0
        sizes[view.name] = view.replicas + share
        added += share
    if ordered and to_add:
        sizes[ordered[0].name] = max(0, sizes[ordered[0].name] + to_add - added)
    return sizes


def _share(view: SetView, replicas: int, surge: int, to_add: int, added: int) -> int:
    if view.replicas == 0 or to_add == added:
        return 0
    if replicas == 0:
        fraction = -view.replicas
    else:
        # The size the deployment had when this set was last scaled; half rounds away from zero.
        before = view.max_replicas or replicas
        fraction = (2 * view.replicas * (replicas + surge) + before) // (2 * before) - view.replicas
    allowed = to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)
