"""Placement invariants that refuse are upheld in simulated federations, and a hub that forgets them
is caught.
"""

import pytest

from federator.hub.leading.process import HubProcess
from tests.simulation import running, solo, upheld
from tests.simulation.drawing import draw
from tests.simulation.running import Plant
from tests.simulation.script import Action, write


def _forgetful(hub: HubProcess) -> None:
    """Invariants are heard of, and not decided under."""
    hub.state.invariants = _Nothing()  # type: ignore[assignment]


class _Nothing(dict[str, object]):
    def __setitem__(self, name: str, value: object) -> None:
        """Keeps nothing."""


def course() -> running.Course:
    """Three members, two of them in one zone, and ten copies of which half may be there."""
    spec = {
        "rule": {"maxShare": {"topologyKey": "zone", "percent": 50}},
        "enforcement": "Refuse",
    }
    invariant = Action(0.0, "create", upheld.KIND, "", upheld.NAME, {"spec": spec})
    web = solo.service("web", 10)
    return running.Course((invariant, web), brief=True)


def test_a_hub_that_forgets_invariants_is_caught() -> None:
    with pytest.raises(running.Broken) as caught:
        running.simulate(solo.world(members=3), Plant(tamper=_forgetful), course())

    assert caught.value.rules == {upheld.RULE}
    report = running.simulate(solo.world(members=3), course=course())
    assert report.judged["upheld"] > 0


def test_some_seeds_have_an_invariant_that_is_edited() -> None:
    scripts = {seed: write(draw(seed)) for seed in range(60)}
    made = {
        seed: [action for action in actions if action.kind == upheld.KIND]
        for seed, actions in scripts.items()
    }
    with_one = [actions for actions in made.values() if actions]
    assert 6 <= len(with_one) <= 20
    assert all(len(actions) == 1 + upheld.MOVES for actions in with_one)


@pytest.mark.parametrize("number", range(2))
def test_invariants_are_upheld_under_faults(number: int) -> None:
    seeds = [seed for seed in range(200) if upheld.Drawn(seed).any]
    report = running.simulate(draw(seeds[number]))
    assert report.actions["create"] > 0
