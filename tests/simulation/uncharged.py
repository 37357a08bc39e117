"""Mutations of what edits are charged, each with the rule that must catch it."""

from collections.abc import Mapping
from typing import Any, Final

from federator.placement.room.commitments import Commitments
from federator.scheduling import editing
from tests.simulation import paid
from tests.simulation.mutations import Method, instead
from tests.simulation.running import Plant


def _by_what_is_asked(original: Method) -> Method:
    def with_former(ask: Any, before: Any, *, replaced: bool) -> Any:
        return ask

    return with_former


def _by_generation(original: Method) -> Method:
    def may_ask_for_more(ask: Any, admitted: Any, support: Any) -> bool:
        return bool(ask.generation != admitted.generation)

    return may_ask_for_more


def _free_when_decided(original: Method) -> Method:
    def recount(self: Any, uid: str, commitment: Any) -> bool:
        return False

    return recount


FREED: Final = "copies that are scaled down free their quota immediately"
LOWERED: Final = "lowered requests free their quota immediately"
UNCHARGED: Mapping[str, tuple[str, Plant]] = {
    LOWERED: (
        paid.NAME,
        instead(editing, "_with_former", _by_what_is_asked),
    ),
    FREED: (
        paid.NAME,
        instead(Commitments, "_recount", _free_when_decided),
    ),
    "every workload gets a dearer profile": (
        "6 quota",
        instead(editing, "may_ask_for_more", _by_generation),
    ),
}
"""What is wrong -> (the rule that finds it, the mutation)."""
