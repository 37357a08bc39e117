"""A bug to plant in what a member knows of its room: where pods may go."""

from collections.abc import Callable, Mapping
from typing import Any

from federator.member import nodematch
from tests.simulation.mutations import instead
from tests.simulation.running import Plant


def _anywhere(original: Callable[..., bool]) -> Callable[..., bool]:
    def matches(selector: Any, affinity: Any, labels: Mapping[str, str], name: str) -> bool:
        return True

    return matches


UNFIT: Mapping[str, tuple[str, Plant]] = {
    "a member counts machines that its pods may not go to": ("10 settles", instead(nodematch, "matches", _anywhere)),
}
"""What is wrong -> (the rule that finds it, the bug)."""
