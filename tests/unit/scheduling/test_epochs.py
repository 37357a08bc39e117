"""FENCE_EPOCH: where a shard begins later, the seq of its share is larger than all that it had
before, also where a member's numbers are higher than the host's.
"""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model import seq as seqs
from federator.model import shards
from federator.model.ask import Ask
from federator.model.decision import Decision, Share
from federator.model.fleet import FleetSnapshot, Holding
from federator.placement.room.commitments import Commitments
from federator.scheduling import cycle
from federator.scheduling.entry import Entry, Recorded, Standing
from federator.scheduling.numbering import FAR_TERMS
from federator.scheduling.queue import Queue
from tests.examples import examples
from tests.unit.placement.fleets import cluster, fleet, holdings, jobs

NAMES = ("a", "b", "c")
COUNT = 6
ASK = replace(jobs(COUNT, COUNT), exclusive=True, overlaps=False)
FAR = seqs.make(FAR_TERMS + 10, 1)
"""Nobody but a hand wrote that."""


def snapshot(draining: frozenset[str]) -> FleetSnapshot:
    return fleet(*(cluster(name, COUNT, draining=name in draining) for name in NAMES))


def decided(standing: Standing, fleet_: FleetSnapshot, seq: int, ask: Ask = ASK) -> Decision:
    numbers = itertools.count(seq)
    entry = Entry(ask=ask, standing=standing)
    made = cycle.run([entry], Queue(), fleet_, Commitments(), seq=numbers.__next__)
    return made.decided[0].decision


def test_the_next_cluster_gets_a_number_above_that_of_the_last_though_its_own_are_lower() -> None:
    held = (Holding("a", COUNT, COUNT, 900, ((0, COUNT - 1),)),)
    gone = Standing(marks={"a": 900}, mark=lambda name: {"a": 900}.get(name, 0))
    moved = decided(gone, snapshot(frozenset({"a"})), 500)
    assert {share.cluster for share in moved.shares} <= {"b", "c"}
    assert all(share.seq > 900 for share in moved.shares)
    stays = decided(Standing(held=held, marks={"a": 900}), snapshot(frozenset()), 500)
    assert {share.cluster: share.seq for share in stays.shares} == {"a": 900}
    overlaps = replace(ASK, exclusive=False)
    assert any(
        share.seq < 900 for share in decided(gone, snapshot(frozenset("a")), 500, overlaps).shares
    )


@pytest.mark.parametrize(("number", "heeded"), [(seqs.make(FAR_TERMS, 7), True), (FAR, False)])
def test_a_number_that_a_hand_wrote_uses_up_no_other_cluster(number: int, heeded: bool) -> None:
    gone = Standing(marks={"a": number}, mark=lambda name: 0)
    moved = decided(gone, snapshot(frozenset({"a"})), 500)
    assert all((share.seq > number) is heeded for share in moved.shares)


@given(
    acts=st.lists(
        st.tuples(st.sampled_from(["drain", "raise", "restore", "decide"]), st.sampled_from(NAMES)),
        max_size=40,
    )
)
@examples(150)
def test_a_later_run_of_a_shard_has_a_larger_epoch_wherever_it_is(
    acts: list[tuple[str, str]],
) -> None:
    """What members hold goes when the decision gives it up; their numbers may be raised by hand, and
    the host may forget what it had decided last."""
    issued, draining = 100, set[str]()
    shares: tuple[Share, ...] = ()
    marks: dict[str, int] = {}
    raised: dict[str, int] = {}
    runs: dict[int, tuple[int, str]] = {}
    for what, name in acts:
        match what:
            case "drain":
                draining.symmetric_difference_update({name})
            case "raise":
                raised[name] = max(raised.get(name, 0), issued) + 50
                continue
            case "restore":
                issued = max(issued - 20, 1)  # numbers of slices are higher than the host's now
                continue
        issued += 1
        standing = Standing(
            held=holdings(shares),
            recorded=Recorded(seq=issued - 1, inputs_hash="", shares=shares) if shares else None,
            marks=dict(marks),
            mark=Counter(
                {one: max(marks.get(one, 0), raised.get(one, 0)) for one in NAMES}
            ).__getitem__,
            may_run={share.cluster: shards.normal(share.ranges) for share in shares},
        )
        made = decided(standing, snapshot(frozenset(draining)), issued)
        shares = made.shares
        marks |= {share.cluster: share.seq for share in shares}
        for share in shares:
            for shard in itertools.chain(*(range(low, high + 1) for low, high in share.ranges)):
                last, home = runs.get(shard, (0, ""))
                assert share.seq >= last
                assert home in ("", share.cluster) or share.seq > last
                if home != share.cluster:
                    runs[shard] = share.seq, share.cluster
