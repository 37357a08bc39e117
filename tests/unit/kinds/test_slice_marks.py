"""The mark that a hub puts on a slice: read back as it was written, and spelled in one way."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from federator.kinds import verbs
from federator.kinds.verbs import PodRules, SliceMark
from federator.model import names
from federator.model import seq as seqs

MARKS = st.builds(
    SliceMark,
    fleet=st.text(min_size=1, max_size=5),
    workload_uid=st.text(min_size=1, max_size=5),
    origin_generation=st.integers(0, 2**40),
    cluster=st.text(max_size=5),
    seq=st.integers(0, seqs.MAX),
    ranges=st.sampled_from([(), ((0, 3),), ((0, 3), (4, 4)), ((1, 1), (7, 9))]),
    rules=st.builds(
        PodRules,
        profile=st.tuples(st.sampled_from(["", "default", "d" * 513]), st.just("")),
        expander=st.sampled_from(["", *verbs.EXPANDERS]),
        environment=st.builds(
            verbs.Environment, *(st.sampled_from(["", "a", "\x00é"]) for _ in range(4))
        ),
    ),
)


@given(MARKS)
def test_a_mark_comes_back_as_it_was_written(mark: SliceMark) -> None:
    assert verbs.decode_mark(verbs.encode_mark(mark)) == mark
    text = verbs.annotation_of_mark(mark)
    assert (
        verbs.mark_of_annotation({"metadata": {"annotations": {names.SLICE_ANNOTATION: text}}})
        == mark
    )


@given(MARKS)
@example(SliceMark('\x00\x1f\x7f"\\/', "u", 3, "east", 1))
@example(SliceMark("\ud800", "u", 3, "east", 10**30))
def test_a_mark_is_spelled_in_ascii_and_in_one_way_whatever_it_says(mark: SliceMark) -> None:
    text = verbs.annotation_of_mark(mark)

    assert text == json.dumps(verbs.encode_mark(mark), sort_keys=True, separators=(",", ":"))


_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=3),
)
_BLOCKS = st.fixed_dictionaries(
    {},
    optional={
        "fleet": st.one_of(st.just("f"), _ODD),
        "workloadUID": st.one_of(st.just("u"), _ODD),
        "originGeneration": st.one_of(st.integers(0, 9), _ODD),
        "cluster": st.one_of(st.just("east"), _ODD),
        "seq": st.one_of(st.integers(0, seqs.MAX + 9), _ODD),
        "expander": st.one_of(st.sampled_from(["1", "2", "e" * 600]), _ODD),
        "ranges": st.one_of(st.just("0-3"), _ODD),
        "pods": st.one_of(st.just([1, 2]), _ODD),
        "profile": st.one_of(st.just({"name": "p", "hash": "h"}), _ODD),
        "environment": st.one_of(st.just({"region": "r"}), _ODD),
        "ranUntil": st.one_of(st.just("2026-12-01T00:00:00Z"), _ODD),
        "overrides": st.one_of(st.just("o"), _ODD),
        "unheardOf": _ODD,
    },
)


@given(_BLOCKS)
@example({"fleet": "f", "workloadUID": "u", "originGeneration": 1.0, "cluster": "c", "seq": True})
def test_the_quick_way_reads_a_mark_as_the_long_way_does(block: dict[str, object]) -> None:
    text = json.dumps(block)
    quick = verbs.mark_of_annotation({"metadata": {"annotations": {names.SLICE_ANNOTATION: text}}})

    assert quick == verbs.decode_mark(json.loads(text))
