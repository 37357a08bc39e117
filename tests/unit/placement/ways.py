"""The ways in which the engine may come to one decision, which have to agree."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from federator.api.placement import placementdecision
from federator.model import decision as decisions
from federator.model.ask import Ask
from federator.model.decision import Decision
from federator.model.fleet import FleetSnapshot, Holding
from federator.placement import contradictions, engine
from federator.placement.columnwise import deciding
from federator.placement.request import Request
from federator.placement.room.ledger import Ledger

Way = Callable[..., Decision]


def the_best_as_candidates(*args: Any, capped: Mapping[str, int], **more: Any) -> Decision:
    """A cap on a cluster that is not in the fleet changes nothing, but rules out the columns."""
    return engine.decide(*args, capped={**capped, "nowhere": 0}, **more)


def all_as_candidates(*args: Any, **more: Any) -> Decision:
    """A former count per cluster that is not the present one changes nothing of the shares."""
    return engine.decide(*args, per_cluster=1 << 40, **more)


WAYS: Final[Mapping[str, Way]] = {
    "all as candidates": all_as_candidates,
    "the best as candidates": the_best_as_candidates,
    "usual": engine.decide,
}


def decided_alike(
    ask: Ask,
    held: Sequence[Holding],
    snapshot: FleetSnapshot,
    ledger: Ledger,
    *,
    capped: Mapping[str, int] | None = None,
    **more: Any,
) -> Decision:
    """The decision, charged, after all ways have agreed on it."""
    ways = dict(WAYS)
    if contradictions.contradiction(ask):
        del ways["all as candidates"]  # there a former count says how much stays
    made: list[Decision] = []
    for name, way in ways.items():
        before = ledger.mark()
        made.append(way(ask, held, snapshot, ledger, capped=capped or {}, **more))
        tuple(made[-1].verdicts)
        if name != "usual":
            ledger.rollback(before)
    for other in made[:-1]:
        _same(made[-1], other, ask)
    return made[-1]


def in_columns(ask: Ask, snapshot: FleetSnapshot, ledger: Ledger, **more: Any) -> bool:
    """Whether the usual way decides it in columns. Charges nothing."""
    if contradictions.contradiction(ask):
        return False
    before = ledger.mark()
    made = deciding.decide(ask, Request(snapshot, ledger, mark=engine.no_mark, **more))
    ledger.rollback(before)
    return made is not None


def _same(made: Decision, other: Decision, ask: Ask) -> None:
    other = replace(other, per_cluster=made.per_cluster)
    texts = [
        msgspec.json.encode(placementdecision.to_spec(each, ("created",), ask, ()))
        for each in (made, other)
    ]
    assert texts[0] == texts[1]
    assert made == other
    assert dict(decisions.reasons(made.verdicts)) == dict(decisions.reasons(other.verdicts))
    shown = decisions.grouped(made.verdicts)
    if shown.plain:
        assert all(len(msgspec.json.encode(row)) < shown.plain for row in shown.chosen)
