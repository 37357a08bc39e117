"""Numbers of decisions: their bounds, and what a member's move."""

import json

import pytest

from federator.model import seq as seqs


@pytest.mark.parametrize(
    ("mark", "issued", "seq"),
    [
        (0, 5, 5),
        (4, 5, 5),
        (5, 5, 6),
        (99, 5, 100),
        (seqs.MAX - 1, 5, seqs.MAX),
        (seqs.MAX, 5, seqs.MAX),
    ],
)
def test_a_share_is_numbered_above_what_its_cluster_has(mark: int, issued: int, seq: int) -> None:
    assert seqs.above(mark, issued) == seq


@pytest.mark.parametrize(
    ("term", "counter"), [(-1, 1), (1, -1), (seqs.TERM_MAX + 1, 1), (1, seqs.COUNTER_MAX + 1)]
)
def test_a_number_out_of_bounds_is_refused_in_words(term: int, counter: int) -> None:
    with pytest.raises(ValueError, match=f"not term {term}, counter {counter}"):
        seqs.make(term, counter)


def test_everything_that_is_issued_lies_below_the_bound_and_leaves_members_room() -> None:
    last = seqs.make(seqs.TERM_MAX, seqs.COUNTER_MAX)
    assert seqs.MAX - (1 << 33) < last < seqs.MAX < 2**62
    assert (seqs.term(last), seqs.counter(last)) == (seqs.TERM_MAX, seqs.COUNTER_MAX)
    assert seqs.TERM_MAX < 2**31 - 1
    assert [seqs.clamped(one) for one in (-1, 7, 2**63)] == [0, 7, seqs.MAX]
    assert [seqs.used_up(one) for one in (0, last, seqs.MAX)] == [False, False, True]


def test_the_bound_comes_back_from_a_double_as_it_was() -> None:
    assert int(float(json.loads(json.dumps(seqs.MAX)))) == seqs.MAX
