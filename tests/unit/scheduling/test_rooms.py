"""Who leaves for want of room: over drawn fleets enough leaves, nothing that need not, and nothing
that a guarantee covers."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, QuotaAccount, TakesRoom, TierQuota
from federator.model.ask import Ask, PodShape, Tier
from federator.model.resources import Resources
from federator.scheduling.admission import rooms
from federator.scheduling.admission.stage import Eviction
from tests.examples import examples
from tests.unit.placement.fleets import cluster, commitment, commitments_with, fleet, held, service

PROJECTS = ("idle", "web", "batch")
holders = st.lists(
    st.tuples(
        st.sampled_from(PROJECTS),
        st.sampled_from((Tier.PREEMPTIBLE, Tier.ON_DEMAND)),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(-1, 1),
    ),
    max_size=5,
)
worlds = st.tuples(
    holders,
    st.lists(st.integers(0, 6), min_size=3, max_size=3),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 12),
    st.sampled_from((TakesRoom.PREEMPTIBLE, TakesRoom.BORROWED)),
)
World = tuple[list[tuple[str, Tier, int, int, int]], list[int], int, int, int, TakesRoom]


def _accounts(guarantees: list[int], promised: int, room: TakesRoom) -> list[QuotaAccount]:
    def cpus(amount: int) -> TierQuota:
        return TierQuota(Resources({"cpu": amount * 1000}), Resources({"cpu": 99_000}))

    accounts = [
        QuotaAccount(
            project,
            projects=frozenset({project}),
            tiers=dict.fromkeys((Tier.PREEMPTIBLE, Tier.ON_DEMAND), cpus(amount)),
            generation=1,
        )
        for project, amount in zip(PROJECTS, guarantees, strict=True)
    ]
    mine = {Tier.RESERVED: cpus(promised)}
    rules = Preemption(room=room)
    return [
        *accounts,
        QuotaAccount(
            "api", projects=frozenset({"api"}), tiers=mine, generation=1, preemption=rules
        ),
    ]


def _freed(leavers: list[Eviction], winner: Ask) -> int:
    """Copies of the winner that fit where so much leaves."""
    amounts: dict[str, int] = {}
    for leaves in leavers:
        for name, copies in leaves.clusters.items():
            amounts[name] = amounts.get(name, 0) + 1000 * copies
    return sum(amount // winner.shape.requests["cpu"] for amount in amounts.values())


@examples(300)
@given(worlds)
def test_nothing_leaves_that_need_not_nor_what_a_guarantee_covers(world: World) -> None:
    rows, guarantees, cpus, lacks, promised, room = world
    held_ = []
    for at, (project, tier, in_a, in_b, priority) in enumerate(rows):
        asked = service(in_a + in_b, name=f"w{at}", project=project, tier=tier, priority=priority)
        counts = {name: copies for name, copies in (("a", in_a), ("b", in_b)) if copies}
        held_.append(replace(commitment(asked, held(**counts)), whole=False))
    commitments = commitments_with(*held_)
    shape = PodShape(Resources({"cpu": cpus * 1000, "pods": 1}))
    winner = service(lacks, name="api", project="api", tier=Tier.RESERVED, shape=shape)
    quotas = _accounts(guarantees, promised, room)
    snapshot = fleet(cluster("a", 0), cluster("b", 0), quotas=quotas)

    leavers = rooms.victims(winner, lacks, commitments, commitments.open(snapshot), ())

    fits = _freed(leavers, winner)
    assert bool(leavers) == bool(fits)
    assert fits <= lacks
    for at, leaves in enumerate(leavers):
        for name in leaves.clusters:
            fewer = {**leaves.clusters, name: leaves.clusters[name] - 1}
            without = Eviction(leaves.uid, 0, False, leaves.by, leaves.why, fewer)
            assert _freed([*leavers[:at], without, *leavers[at + 1 :]], winner) < fits
    for tier in (Tier.PREEMPTIBLE, Tier.ON_DEMAND):
        for project, amount in zip(PROJECTS, guarantees, strict=True):
            mine = [one for one in held_ if (one.project, one.tier) == (project, tier)]
            uids = {one.uid for one in mine}
            gone = sum(leaves.copies for leaves in leavers if leaves.uid in uids)
            had = sum(one.copies for one in mine)
            assert not gone or had - gone >= amount, "what is guaranteed to it stays"
    borrowed = [leaves for leaves in leavers if leaves.why == "RoomReclamation"]
    if borrowed:
        assert room is TakesRoom.BORROWED
        assert fits <= max(promised // cpus, _freed([*set_apart(leavers)], winner))


def set_apart(leavers: list[Eviction]) -> list[Eviction]:
    """Those of tier Preemptible."""
    return [leaves for leaves in leavers if leaves.why == "Room"]
