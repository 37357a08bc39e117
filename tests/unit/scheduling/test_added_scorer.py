"""A scorer is one function and one row: with these it counts wherever the engine decides, also in
columns, and appears in records, `explain` and the reference (docs/internals/adding-a-scorer.md).
"""

import asyncio

import numpy as np
import pytest

from federator.model.ask import Ask
from federator.model.names import WorkloadKey
from federator.model.policy import Division, Policy
from federator.placement.room.binding import Ints
from federator.placement.room.commitments import Commitments
from federator.placement.selection import scorers
from federator.placement.selection.scorers import Facts, Term
from federator.sandbox.fleetfile import FleetSpec, MemberSpec, Pool
from tests.reference import tables
from tests.unit.hub import world as hosted
from tests.unit.hub.world import World, play
from tests.unit.placement.fleets import cluster, fleet, jobs, service
from tests.unit.placement.ways import decided_alike, in_columns
from tests.unit.scheduling.test_sameness import compared
from tests.unit.simulate import fleets as simulated

NAME = "tightness"
IN_ONE = {"division": {"strategy": "Capacity", "maxClusters": 1}}


def tightness(ask: Ask, clusters: Facts) -> Ints:
    """The least room is best, so that the others stay open for more."""
    return np.where(clusters.room == clusters.room.min(initial=1 << 62), 3000, 0)


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scorers.SCORERS, NAME, Term(tightness))


@pytest.mark.usefixtures("added")
def test_an_added_scorer_that_reads_room_counts_in_columns_as_well() -> None:
    together = Policy(division=Division(max_clusters=1))
    for views in ("a b c", "a b c d"):  # the last is closed
        snapshot = fleet(
            *(cluster(name, 4 + 2 * at, cordoned=name == "d") for at, name in enumerate(views[::2]))
        )
        for ask in (jobs(4, 4, policy=together), service(4, policy=together), service(9)):
            ledger = Commitments().open(snapshot)
            assert in_columns(ask, snapshot, ledger, seq=1, by_name=True)
            made = decided_alike(ask, (), snapshot, ledger, seq=1, by_name=True)
            chosen = {verdict.cluster: verdict for verdict in made.verdicts if verdict.got}
            assert sorted(chosen) == ["a"] if ask.policy is together else ["a", "b", "c"]
            terms = {name: dict(verdict.terms) for name, verdict in chosen.items()}
            assert terms["a"] == {"home": 0, "preference": 2000, "room": 500, NAME: 3000}
            assert chosen["a"].score == 5500


@pytest.mark.usefixtures("added")
def test_an_added_scorer_counts_in_the_hub_place_and_explain() -> None:
    async def scenario(world: World) -> None:
        spec = hosted.service(2, "1", project="feed", placement=IN_ONE)
        await world.create("PinterestService", "feed", "web", spec)
        await asyncio.sleep(60)
        assert await world.shares("feed", "web") == {"a": 2}
        found = await compared(world)
        verdicts = found[WorkloadKey("PinterestService", "feed", "web")].verdicts
        assert dict(verdicts[0].terms)[NAME] == 3000
        (decision,) = (await world.host.list(*_DECISIONS)).items
        (row,) = decision["spec"]["verdicts"]["chosen"]
        assert row["terms"][NAME] == 3000

    pools = {"a": 1, "b": 2, "c": 4}
    members = [
        MemberSpec(name=name, nodes=[Pool(count=count, cpu="8", memory="32Gi")])
        for name, count in pools.items()
    ]
    play(scenario, fleet=FleetSpec(members=members))


_DECISIONS = ("federation.pinterest.com/v1alpha1", "placementdecisions")


@pytest.mark.parametrize("extra", [False, True])
def test_an_added_scorer_counts_in_simulations(extra: bool, request: pytest.FixtureRequest) -> None:
    if extra:
        request.getfixturevalue("added")
    rooms = [simulated.cluster(name, simulated.nodes(at)) for at, name in enumerate("abc", 1)]
    works = [simulated.job("gang", 0, 10, 2)]
    found = simulated.lives(simulated.simulate(simulated.inputs_of(rooms, works)))
    assert [stay.cluster for stay in found["gang"].stays] == ["a" if extra else "c"]


@pytest.mark.usefixtures("added")
def test_an_added_scorer_is_a_row_of_the_reference() -> None:
    assert f"| `{NAME}` | The least room is best" in tables.scorers()
