"""Mutations that believe what a member says, each with the rule that must catch it."""

from collections.abc import Mapping
from typing import Any

from federator.status import given as givens
from federator.status.given import Given
from tests.simulation.mutations import Method, in_worlds_of, instead
from tests.simulation.running import Plant


def _believed(original: Method) -> Method:
    def cut(seen: Any, given: Given) -> Any:
        return seen, original(seen, given)[1]

    return cut


CREDULOUS: Mapping[str, tuple[str, Plant]] = {
    "a member's completions are not cut": (
        "27 words are cut",
        in_worlds_of(instead(givens, "_cut_shards", _believed), "others-shards-done"),
    ),
}
"""What is wrong -> (the rule that finds it, the bug)."""
