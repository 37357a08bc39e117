"""Mutations of who leaves for whom, and of gangs, each with the rule that must catch it."""

from collections.abc import Mapping
from typing import Any

from federator.member import gangs
from federator.model.observation import Phase
from federator.scheduling.admission import admitting, preempting, reclaim
from tests.simulation import contested
from tests.simulation.mutations import Method, instead
from tests.simulation.running import Plant


def _whoever_it_is(_: Method) -> Method:
    return lambda take, winner, holder: True


def _nobody_said(original: Method) -> Method:
    def saying(decision: Any, preempted: Any, why: str) -> Any:
        said = original(decision, preempted, why)
        return type(said)(
            **{
                name: getattr(decision if name in ("reason", "message") else said, name)
                for name in said.__dataclass_fields__
            }
        )

    return saying


def _in_part(original: Method) -> Method:
    def shrunk(entry: Any, leaves: Any) -> Any:
        return entry.ask if leaves.whole else original(entry, leaves)

    return shrunk


def _stays_released(original: Method) -> Method:
    def advance(before: Any, seen: Any, moment: Any) -> Any:
        now, wait_s = original(before, seen, moment)
        return (before, wait_s) if now.phase is Phase.ROLLED_BACK else (now, wait_s)

    return advance


def _in_order(original: Method) -> Method:
    def next_(self: Any, nominees: Any) -> Any:
        self.claiming = frozenset()
        return original(self, nominees)

    return next_


UNGUARANTEED: Mapping[str, tuple[str, Plant]] = {
    "within an account anybody leaves": (contested.LOWER, instead(reclaim, "may", _whoever_it_is)),
    "who leaves does not say so": (
        contested.TOLD,
        instead(preempting, "as_preempted", _nobody_said),
    ),
    "a gang that leaves stays": (contested.WHOLE, instead(preempting, "shrunk", _in_part)),
    "half a gang waits for the other half": (
        contested.HALF,
        instead(gangs, "advance", _stays_released),
    ),
    "who left is first again": (
        "21 no hot loop",
        instead(admitting.Round, "_next", _in_order),
    ),
}
"""What is wrong -> (the rule that finds it, the mutation)."""
