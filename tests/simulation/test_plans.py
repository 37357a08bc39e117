"""What `federator plan` prints is what happens: each edit of a random fleet is planned and then made,
and the hub ends where the plan said.
"""

import os
from typing import Final

import pytest

from tests.simulation import planned
from tests.simulation.planned import Played

USUAL: Final = (0, 1, 2, 3, 19)
"""Worlds of 5 edits each in `make test`. In 19 a drain is refused."""
LONG: Final = int(os.environ.get("FEDERATOR_EXAMPLES", "0")) // 5 or 20
"""Worlds in a long run."""


def surprises(played: list[Played]) -> list[str]:
    """Edits that ended otherwise than planned. Where a roll-out finds no room for one more copy it
    does not end, which a plan takes it to do."""
    return [
        f"{'delete' if one.edit.deletes else 'apply'} {one.edit.obj}: {one.different}"
        for one in played
        if one.different and not one.waiting
    ]


@pytest.mark.parametrize("seed", USUAL)
def test_an_edit_ends_as_planned(seed: int) -> None:
    played = planned.play(planned.drawn(seed), seed)

    assert surprises(played) == []
    assert any(one.planned != one.present for one in played)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20, 20 + LONG))
def test_any_edit_ends_as_planned(seed: int) -> None:
    assert surprises(planned.play(planned.drawn(seed), seed)) == []
