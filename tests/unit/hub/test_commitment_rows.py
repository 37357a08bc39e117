"""Commitments are packed, and read back as they were."""

import pickle
from dataclasses import replace

import pytest

from federator.api.placement import decisionfacts
from federator.hub.records.commitment_rows import commitment_table
from federator.model.ask import PodShape, Tier
from federator.model.decision import Share
from federator.model.fleet import Commitment, Holding
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement.room.trails import Places

SHAPE = PodShape(Resources({"cpu": 1000}))
ONE_SEQ = (Share("a", 2, 2, 7), Share("b", 1, 1, 7))
TWO_SEQS = (Share("a", 2, 2, 7), Share("b", 1, 1, 5))
HUGE = 1 << 80


def commitment(uid: str, holdings: tuple[Share | Holding, ...]) -> Commitment:
    key = WorkloadKey("Deployment", "feed", uid)
    return Commitment(uid, key, "ads", "feed", Tier.RESERVED, SHAPE, holdings)


@pytest.mark.parametrize(
    "holdings",
    [
        ONE_SEQ,
        TWO_SEQS,
        (),
        (Share("a", 2, 2, 0),),
        (Share("a", 2, 2, HUGE),),
        (Share("a", 2, 2, 7, ((0, 1),)), Share("b", 1, 1, 7, ((4, 4),))),
        (Holding("a", 2, 2, 7, tolerated=("down",)), Share("b", 1, 1, 7)),
    ],
)
def test_a_commitment_is_read_back_as_it_was(holdings: tuple[Share | Holding, ...]) -> None:
    table = commitment_table()
    plain = commitment("u-1", holdings)
    timed = replace(plain, uid="u-2", created_s=12.5, began_s=13.5, run_s=60, whole=False)
    for each in (plain, timed):
        table[each.uid] = each
    for each in (plain, timed):
        read = table[each.uid]
        assert read == each
        others = ("priority", "created_s", "whole", "run_s", "began_s")
        assert [getattr(read, name) for name in others] == [getattr(each, name) for name in others]


def test_commitments_of_other_shapes_are_told_apart_after_a_pickle() -> None:
    table = commitment_table()
    table["u-1"] = commitment("u-1", ONE_SEQ)
    read = pickle.loads(pickle.dumps(table))
    for cpu in range(1, 200):
        other = replace(commitment("u-2", ONE_SEQ), shape=PodShape(Resources({"cpu": cpu})))
        read["u-2"] = other
        assert read["u-2"] == other
    assert read["u-1"] == table["u-1"]


def test_a_copy_of_commitments_is_not_changed_with_them() -> None:
    table = commitment_table()
    table["u-1"] = commitment("u-1", ONE_SEQ)
    copy = table.copy()
    table["u-1"] = commitment("u-1", TWO_SEQS)
    table["u-2"] = commitment("u-2", ())
    del table["u-2"]
    assert dict(copy) == {"u-1": commitment("u-1", ONE_SEQ)}


@pytest.mark.parametrize("seqs", [(7, 7), (7, 5), (0, 0), (HUGE, HUGE)])
def test_shares_are_read_back_with_their_seqs(seqs: tuple[int, int]) -> None:
    spec = {
        "shares": [
            {"cluster": cluster, "seq": seq, "replicas": 2}
            for cluster, seq in zip("ab", seqs, strict=True)
        ]
    }
    facts = decisionfacts.decision_facts({"metadata": {"name": "d"}, "spec": spec})
    expected = tuple(Share(cluster, 2, 2, seq) for cluster, seq in zip("ab", seqs, strict=True))
    assert facts.shares == expected
    assert facts.share_of("b") == expected[1]


def test_decisions_that_give_the_same_share_it() -> None:
    spec = {"shares": [{"cluster": "a", "seq": 7, "replicas": 2}]}
    other = {"shares": [{"cluster": "a", "seq": 8, "replicas": 2}]}
    one, two = (
        decisionfacts.decision_facts({"metadata": {"name": "d"}, "spec": said})
        for said in (spec, other)
    )
    assert one.portions is two.portions
    assert one != two


def test_places_are_a_list_of_seq_and_uid() -> None:
    plain = [(5, "u-2"), (5, "u-1"), (HUGE, "u-3"), (2, "u-1")]
    places = Places(plain)
    assert (len(places), places[-1], places[1:3]) == (4, plain[-1], plain[1:3])
    copy = places.copy()
    places.sort()
    assert places[:] == sorted(plain)
    places.remove(5, "u-2")
    assert places[:] == sorted(plain[1:])
    assert [places.above(seq) for seq in (1, 2, 5, HUGE)] == [0, 1, 2, 3]
    assert [places.ends_by(seq) for seq in (5, HUGE)] == [False, True]
    assert [places.append(HUGE, "u-4"), places.append(HUGE, "u-3")] == [True, False]
    assert copy[:] == plain
