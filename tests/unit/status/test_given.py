"""What a cluster says, cut to what it was given: a table, and what holds whatever it says."""

from dataclasses import replace

import pytest
from hypothesis import given as property_of
from hypothesis import strategies as st

from federator.model import shards
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.model.observation import SliceObservation
from federator.model.shards import Ranges
from federator.status import fold
from federator.status.facts import DecisionInput, Desired
from federator.status.given import Given, cut, former

HUGE = 1_000_000
SERVICE = SliceObservation("a", known=True, exists=True, desired=5, ready=5, updated=5, actual=5)
JOB = SliceObservation("a", known=True, exists=True, desired=20, ready=4, actual=4, active=4)
FIVE = Given(Unit.REPLICAS, count=5, ever=5)
TWENTY = Given(Unit.SHARDS, ranges=((0, 19),))
NONE: tuple[str, ...] = ()

ROWS = [
    ("as given", SERVICE, FIVE, {}, NONE),
    ("a surge", replace(SERVICE, actual=9, updated=4), FIVE, {}, NONE),
    ("ready of a surge", replace(SERVICE, ready=7, actual=7), FIVE, {"ready": 5}, NONE),
    (
        "a million ready",
        replace(SERVICE, ready=HUGE, actual=HUGE, updated=HUGE),
        FIVE,
        {"ready": 5, "actual": 10, "updated": 10},
        ("TooManyCopies",),
    ),
    ("updated above all", replace(SERVICE, updated=9), FIVE, {"updated": 5}, NONE),
    (
        "a million that wait",
        replace(SERVICE, unschedulable=HUGE),
        FIVE,
        {"unschedulable": 5},
        ("TooManyCopies",),
    ),
    (
        "a scale-down under way",
        replace(SERVICE, ready=50, actual=50, updated=50),
        Given(Unit.REPLICAS, count=5, ever=50),
        {"ready": 5, "actual": 10, "updated": 10},
        NONE,
    ),
    (
        "drift: somebody scaled the slice",
        replace(SERVICE, desired=50, ready=50, actual=50, updated=50),
        FIVE,
        {"ready": 5, "actual": 10, "updated": 10},
        NONE,
    ),
    (
        "a slice whose decision is to be heard of",
        replace(SERVICE, ready=HUGE, actual=HUGE, updated=HUGE),
        Given(Unit.REPLICAS, explained=True),
        {"ready": 0, "actual": 0, "updated": 0},
        NONE,
    ),
    ("its own shards", replace(JOB, completed=((0, 9),), failed=((10, 10),)), TWENTY, {}, NONE),
    (
        "shards of others",
        replace(JOB, completed=((0, 59),)),
        TWENTY,
        {"completed": ((0, 19),)},
        ("ShardsNotGiven",),
    ),
    (
        "failed of others",
        replace(JOB, failed=((15, 25),)),
        TWENTY,
        {"failed": ((15, 19),)},
        ("ShardsNotGiven",),
    ),
    (
        "what the host has recorded of it",
        replace(JOB, completed=((0, 25),)),
        replace(TWENTY, recorded=((20, 30),)),
        {"completed": ((0, 19),)},
        NONE,
    ),
    (
        "shards of a decision that is to be heard of",
        replace(JOB, completed=((0, 59),)),
        Given(Unit.SHARDS, explained=True),
        {"completed": (), "ready": 0, "actual": 0, "active": 0},
        NONE,
    ),
    ("what cannot be read", replace(JOB, unreadable="failedIndexes"), TWENTY, {}, ("Unreadable",)),
    (
        "more running than shards",
        replace(JOB, ready=HUGE, actual=HUGE, active=HUGE),
        TWENTY,
        {"ready": 20, "actual": 20, "active": 20},
        ("TooManyCopies",),
    ),
]


@pytest.mark.parametrize(
    ("seen", "given", "cut_to", "against"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_clusters_word_is_cut_to_what_it_was_given(
    seen: SliceObservation, given: Given, cut_to: dict[str, object], against: tuple[str, ...]
) -> None:
    kept, found = cut(seen, given)

    assert kept == replace(seen, **cut_to)  # type: ignore[arg-type]
    assert tuple(one.reason for one in found) == against
    assert cut(kept, replace(given, explained=True))[0] == kept, "what is left needs no cut"


def test_evidence_names_how_many_and_a_few() -> None:
    strange = tuple((index, index) for index in range(30, 60, 2))
    _, (found,) = cut(replace(JOB, completed=strange), TWENTY)

    assert (
        found.message
        == "it tells of 15 shards that it was never given (30,32,34,36 and 11 more ranges)"
    )
    assert not found.lasting


COPIES = st.integers(0, 2_000_000)
WORDS = st.builds(
    SliceObservation,
    st.sampled_from("ab"),
    st.just(True),
    exists=st.just(True),
    desired=COPIES,
    ready=COPIES,
    updated=COPIES,
    actual=COPIES,
    active=COPIES,
    unschedulable=COPIES,
    completed=st.sets(st.integers(0, 80)).map(
        lambda found: shards.normal((one, one) for one in found)
    ),
    failed=st.sets(st.integers(0, 80)).map(
        lambda found: shards.normal((one, one) for one in found)
    ),
)


@property_of(word=WORDS, share=st.integers(0, 50), had=st.integers(0, 50))
def test_whatever_a_member_says_no_more_than_its_copies_are_ready(
    word: SliceObservation, share: int, had: int
) -> None:
    given = Given(Unit.REPLICAS, count=max(share, min(word.desired, had)), ever=max(share, had))
    kept, _ = cut(word, given)
    found = fold.fold(
        Desired(1, Unit.REPLICAS, share),
        DecisionInput(shares=(Share(word.cluster, share, share, 1),)),
        [kept],
    )

    assert found.ready <= max(share, had)
    assert kept.updated <= kept.actual <= 2 * max(share, had)


@property_of(
    words=st.lists(WORDS, max_size=2, unique_by=lambda one: one.cluster), cut_at=st.integers(1, 59)
)
def test_whatever_members_say_only_what_they_were_ever_given_is_done(
    words: list[SliceObservation], cut_at: int
) -> None:
    own: dict[str, Ranges] = {"a": ((0, cut_at - 1),), "b": ((cut_at, 49),) if cut_at < 50 else ()}
    kept = [cut(word, Given(Unit.SHARDS, ranges=own[word.cluster]))[0] for word in words]
    shares = tuple(Share(name, shards.size(ranges), 5, 1, ranges) for name, ranges in own.items())
    found = fold.fold(Desired(1, Unit.SHARDS, 60), DecisionInput(shares=shares), kept)
    spoke = shards.normal(one for word in words for one in own[word.cluster])

    assert not shards.minus(shards.union(found.completed, found.failed), spoke)
    assert found.active <= shards.size(spoke)


@pytest.mark.parametrize(
    ("before", "shares", "now", "gone", "recorded"),
    [
        ({}, [("a", 5)], [("a", 3)], set(), [("a", 5)]),
        ({}, [("a", 5)], [("a", 5)], set(), []),
        ({}, [("a", 5)], [("a", 9)], set(), []),
        ({}, [("a", 5)], [("b", 5)], set(), [("a", 5)]),
        ({}, [("a", 0)], [("b", 5)], set(), [("a", 0)]),
        ({}, [("a", 5)], [("a", 3)], {"a"}, []),
        ({"a": 9}, [("a", 5)], [("a", 5)], set(), [("a", 9)]),
        ({"a": 9}, [("a", 5)], [("a", 12)], set(), []),
        ({"c": 4}, [("a", 5)], [("a", 5)], set(), [("c", 4)]),
    ],
)
def test_a_decision_records_copies_that_clusters_had(
    before: dict[str, int],
    shares: list[tuple[str, int]],
    now: list[tuple[str, int]],
    gone: set[str],
    recorded: object,
) -> None:
    found = former(
        {name: Share(name, count, 0) for name, count in before.items()},
        [Share(name, count, count) for name, count in shares],
        [Share(name, count, count) for name, count in now],
        gone,
    )

    assert [(one.cluster, one.count) for one in found] == recorded


def test_a_decision_records_shards_that_clusters_had_and_have_no_more() -> None:
    had = {"a": Share("a", 5, 0, 0, ((40, 44),))}
    shares = [Share("a", 20, 4, 1, ((0, 9), (10, 19))), Share("b", 20, 4, 1, ((20, 39),))]
    now = [Share("a", 10, 4, 2, ((0, 9),)), Share("b", 30, 4, 2, ((10, 39),))]

    assert former(had, shares, now, set()) == (Share("a", 15, 0, 0, ((10, 19), (40, 44))),)
    back = [Share("a", 25, 4, 3, ((0, 19), (40, 44))), Share("b", 20, 4, 3, ((20, 39),))]
    assert former({"a": Share("a", 15, 0, 0, ((10, 19), (40, 44)))}, now, back, set()) == (
        Share("b", 10, 0, 0, ((10, 19),)),
    )
