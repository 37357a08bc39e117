"""Claims of host names: overlapping names across namespaces, the oldest claim first."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.names import WorkloadKey
from federator.placement.policy.hostclaims import HostClaims, wildcards_above


def key(namespace: str, name: str = "web") -> WorkloadKey:
    return WorkloadKey("PinterestService", namespace, name)


def claims(*hosts: tuple[str, WorkloadKey]) -> HostClaims:
    """Claims in the order of their age."""
    made = HostClaims()
    for number, (host, who) in enumerate(hosts):
        made.put(host, who, (0.0, number))
    return made


def first(_: WorkloadKey) -> int:
    return 0


PAIRS = {
    ("a.example", "a.example"): True,
    ("*.example", "a.example"): True,
    ("*.example", "b.a.example"): True,
    ("*.example", "*.a.example"): True,
    ("*.a.example", "a.example"): False,
    ("*.example", "example"): False,
    ("*.example", "an-example"): False,
    ("*.a.example", "b.example"): False,
    ("a.example", "b.a.example"): False,
    ("*", "*"): True,
    ("*", "a.example"): False,
    ("*", "*.example"): False,
}


@pytest.mark.parametrize(("pair", "overlap"), PAIRS.items(), ids=map(str, PAIRS))
def test_the_first_of_two_overlapping_names_counts_in_either_order(
    pair: tuple[str, str], overlap: bool
) -> None:
    for older, younger in (pair, pair[::-1]):
        found = claims((older, key("a")), (younger, key("b")))
        assert found.rival(older, key("a"), first) == ""
        assert found.rival(younger, key("b"), first) == (older if overlap else "")
        same = claims((older, key("a")), (younger, key("a", "beside")))
        assert same.rival(younger, key("a", "beside"), first) == ""


def test_a_claim_that_does_not_count_keeps_nobody_from_a_name() -> None:
    found = claims(("a.example", key("a")), ("*.example", key("b")), ("c.example", key("c")))
    assert found.rival("*.example", key("b"), first) == "a.example"
    assert found.rival("c.example", key("c"), first) == ""
    found.drop("a.example", key("a"))
    assert found.rival("*.example", key("b"), first) == ""
    assert found.rival("c.example", key("c"), first) == "*.example"


def test_refused_claims_come_last_and_barred_ones_not_at_all() -> None:
    found = claims(("*.example", key("a")), ("a.example", key("b")))
    assert found.rival("a.example", key("b"), lambda who: int(who == key("a"))) == ""
    assert found.rival("*.example", key("a"), lambda who: int(who == key("a"))) == "a.example"
    assert found.rival("a.example", key("b"), lambda _: 1) == "*.example"
    assert found.rival("a.example", key("b"), lambda who: None if who == key("a") else 1) == ""


LABELS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3)
HOSTS = st.builds(
    lambda wild, labels: ("*." if wild else "") + ".".join(labels), st.booleans(), LABELS
)


@given(st.lists(st.tuples(HOSTS, st.sampled_from("xyz")), max_size=12))
def test_no_two_namespaces_have_overlapping_names_and_the_oldest_has_its(
    rows: list[tuple[str, str]],
) -> None:
    """Whatever the names: those that count overlap nothing of others, and each of the others is
    kept by one that counts and is older."""
    asked = [(host, key(space, f"w{at}")) for at, (host, space) in enumerate(rows)]
    found = claims(*asked)
    counts = [found.rival(host, who, first) == "" for host, who in asked]

    def conflict(one: int, other: int) -> bool:
        (left, mine), (right, theirs) = asked[one], asked[other]
        covers = left == right or left in wildcards_above(right) or right in wildcards_above(left)
        return covers and mine.namespace != theirs.namespace

    for one, other in itertools.combinations(range(len(asked)), 2):
        assert not (counts[one] and counts[other] and conflict(one, other))
    for at, counted in enumerate(counts):
        assert counted or any(counts[before] and conflict(before, at) for before in range(at))

    for host, who in asked:
        found.drop(host, who)
    assert found == HostClaims()
