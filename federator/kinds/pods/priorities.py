"""PriorityClasses by tier: what makes the scheduler in a member prefer, and pre-empt, as the
federation does.

The member process makes these objects; expanded pods name the class of their tier unless their
template names one.
"""

from collections.abc import Mapping
from typing import Any, Final

from federator.kinds import labels
from federator.model.ask import Tier

_VALUES: Final[Mapping[Tier, tuple[int, str, str]]] = {
    Tier.RESERVED: (10_000, "PreemptLowerPriority", "Work within its guaranteed quota."),
    Tier.ON_DEMAND: (1_000, "PreemptLowerPriority", "Work up to its maximal quota."),
    Tier.PREEMPTIBLE: (
        -1_000,
        "Never",
        "Work on idle capacity; gives way at once, to unmarked pods too.",
    ),
}


def class_name(tier: Tier) -> str:
    return f"federator-{tier.lower()}"


PRIORITY_CLASSES: Final[tuple[dict[str, Any], ...]] = tuple(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {
            "name": class_name(tier),
            "labels": {labels.MANAGED_BY_LABEL: labels.MANAGED_BY},
        },
        "value": value,
        "preemptionPolicy": policy,
        "description": description,
    }
    for tier, (value, policy, description) in _VALUES.items()
)
"""One per tier, cluster-scoped."""
