"""Who waits for pods that are terminating, in trees of accounts that take back what is theirs."""

from dataclasses import replace

import pytest

from federator.model.accounts import Ordering
from federator.model.ask import Ask, Former, FormerCopies, Tier
from federator.model.decision import Preempted, Reason
from federator.model.fleet import Commitment
from federator.model.names import WorkloadKey
from federator.scheduling.entry import Entry, Recorded
from federator.scheduling.waiting.room_claims import WAITS_S
from tests.unit.placement.fleets import POD
from tests.unit.placement.fleets import service as made
from tests.unit.scheduling.test_claims import Federation

BORROWER = made(15, name="borrower", project="clips", namespace="x")
OWNER = made(5, name="owner", project="search", namespace="x")
GREEDY = made(30, name="owner", project="search", namespace="x")
"""More than the tree has."""


class Slow(Federation):
    """Pods run on until `end`."""

    def __init__(self, owner: Ask) -> None:
        super().__init__(BORROWER, owner)
        self.runs = 0
        self.commitments.reported_beyond = self._beyond

    def _beyond(self, after: Commitment) -> tuple[Former, ...]:
        copies = self.runs - after.copies if after.uid == BORROWER.uid else 0
        if copies <= 0:
            return ()
        return (Former("clips", Tier.ON_DEMAND, POD.requests, (FormerCopies("a", copies),)),)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [(OWNER, Reason.QUOTA_EXCEEDED), (GREEDY, Reason.EXCEEDS_MAX_QUOTA)],
    ids=["the guarantee", "more than there is"],
)
def test_reclaimed_quota_is_given_when_the_pods_of_victims_have_ended(
    owner: Ask, reason: Reason
) -> None:
    world = Slow(owner)
    filler = made(5, name="filler", project="maps", namespace="x")
    world.asks[filler.key] = filler
    world.turn(BORROWER)
    world.turn(filler)
    world.runs = world.copies(BORROWER)
    assert (world.runs, world.copies(filler)) == (15, 5)
    world.turn(owner)
    left = world.copies(BORROWER)
    assert left == 10, "so many leave as the guarantee needs"
    for _ in range(3):
        waits = world.turn(owner)
        assert world.copies(owner) == 0
        assert waits.decided[0].decision.reason is reason
        assert world.copies(BORROWER) == left, "nobody else leaves meanwhile"
        world.turn(BORROWER)
        assert world.copies(BORROWER) == left
    world.runs = 12
    world.commitments.recount(BORROWER.uid)
    world.turn(owner, BORROWER)
    assert world.copies(owner) == 3, "as its pods end"
    world.runs = 10
    world.commitments.recount(BORROWER.uid)
    world.turn(BORROWER)
    assert world.copies(BORROWER) == left, "what it gave up is for the other"
    world.turn(BORROWER, owner)
    assert (world.copies(owner), world.copies(BORROWER)) == (5, 10)


class Contest(Slow):
    """The owner has lost copies to the borrower before, and its decisions say so still."""

    def entry(self, key: WorkloadKey) -> Entry:
        entry = super().entry(key)
        if key != OWNER.key:
            return entry
        gone = Preempted(BORROWER.key, BORROWER.project, "InCohortReclamation", 1)
        recorded = Recorded(seq=1, inputs_hash="", preempted=gone)
        return replace(entry, standing=replace(entry.standing, recorded=recorded))


@pytest.mark.parametrize("later_s", [5.0, 5 * WAITS_S], ids=["soon", "after a long grace period"])
def test_preempted_winner_keeps_its_claim_until_the_pods_of_victims_have_ended(
    later_s: float,
) -> None:
    world = Contest(OWNER)
    world.turn(BORROWER)
    filler = made(5, name="filler", project="maps", namespace="x")
    world.asks[filler.key] = filler
    world.turn(filler)
    world.runs = 15
    world.turn(OWNER)
    assert world.copies(BORROWER) == 10
    for _ in range(3):
        world.snapshot = replace(world.snapshot, as_of=world.snapshot.as_of + later_s)
        (waits,) = world.turn(OWNER).decided
        assert waits.decision.reason is Reason.PREEMPTED
    world.runs = 10
    world.commitments.recount(BORROWER.uid)
    world.turn(BORROWER)
    assert world.copies(BORROWER) == 10, "what it gave up is for the owner"
    world.turn(OWNER)
    assert world.copies(OWNER) == 5


def test_winner_that_preempts_more_after_a_notice_keeps_its_claim() -> None:
    """For its first copies pods are terminating; for more, others leave later."""
    few = made(2, name="owner", project="search", namespace="x")
    world = Slow(few)
    filler = made(5, name="filler", project="maps", namespace="x")
    world.asks[filler.key] = filler
    studio, *others = world.snapshot.quotas
    accounts = (replace(studio, ordering=Ordering.PRIORITY), *others)
    world.snapshot = replace(world.snapshot, quotas=accounts)
    world.turn(BORROWER)
    world.turn(filler)
    world.runs = 15
    world.turn(few)
    assert world.copies(BORROWER) == 13
    noticed = (replace(one, notice_s=600) if one.name == "search" else one for one in accounts)
    world.snapshot = replace(world.snapshot, quotas=tuple(noticed))
    world.asks[OWNER.key] = OWNER
    assert world.turn(OWNER).notices
    assert world.copies(BORROWER) == 13
    world.runs = 13
    world.commitments.recount(BORROWER.uid)
    world.turn(BORROWER)
    assert world.copies(BORROWER) == 13, "what it gave up is for the owner"
