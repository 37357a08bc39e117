"""Copies and recent moves by policy are what a scan of all decisions would find."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from federator.hub.records.policy_use import KEPT_S, REQUIRED, PolicyUse
from federator.model.decision import Share


@dataclass(frozen=True)
class Terms:
    policy_namespace: str
    policy_name: str
    required: tuple[str, ...]
    moved: int


@dataclass(frozen=True)
class Facts:
    portions: tuple[Share, ...]
    as_of: float


@dataclass(frozen=True)
class Said:
    """What a record says of its policies."""

    terms: Terms
    facts: Facts


SAID = st.builds(
    Said,
    st.builds(
        Terms,
        st.sampled_from(("", "ads", "feed")),
        st.sampled_from(("p", "q")),
        st.sampled_from(((), ("r",), ("r", "s"))),
        st.integers(0, 2),
    ),
    st.builds(
        Facts,
        st.lists(st.builds(Share, st.just("a"), st.just(1), st.integers(0, 3)), max_size=2).map(
            tuple
        ),
        st.floats(1000.0, 1000.0 + KEPT_S),
    ),
)
NAMES = st.tuples(st.sampled_from(("ads", "feed")), st.sampled_from("xyz"))


@given(st.lists(st.tuples(NAMES, st.none() | SAID), max_size=20), st.floats(1000.0, 1200.0))
def test_it_is_what_a_scan_of_all_decisions_finds(
    changes: list[tuple[tuple[str, str], Said | None]], since_s: float
) -> None:
    use, records = PolicyUse(), dict[tuple[str, str], Said]()
    for name, new in changes:
        old = records.pop(name, None)
        if new is not None:
            use.note(name, cast(Any, old), cast(Any, new))
            records[name] = new
        elif old is not None:
            use.forget(name, cast(Any, old))

    copies = Counter[tuple[str, str, str]]()
    for (namespace, _), record in records.items():
        terms, running = record.terms, sum(share.slots for share in record.facts.portions)
        copies.update({("", required, REQUIRED): running for required in terms.required})
        if terms.policy_namespace in ("", namespace):
            copies[terms.policy_namespace, terms.policy_name, ""] += running
    moved = [each for each in records.values() if each.terms.moved and each.facts.as_of > since_s]
    assert use.copies() == +copies
    assert Counter(cast(Any, use.moved_since(since_s))) == Counter(moved)
