"""Domains of a spread rule are counted step by step; counted anew they are the same."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.policy import SpreadRule
from federator.placement.division import filling
from federator.placement.division.division import Party
from federator.placement.division.domains import UNLABELLED, Domains

NAMES = ("a", "b", "c", "d")
HARD = SpreadRule("zone", min_domains=3, max_skew=2, hard=True)


def breaches(domains: Domains, *, but: str) -> dict[str, int]:
    """Of one more copy in each other domain."""
    return {name: domains.breach(name, 1) for name in domains.totals if name != but}


@given(
    counts=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6), min_size=1),
    wants=st.integers(1, 4),
    skew=st.integers(0, 3),
    steps=st.lists(
        st.tuples(st.sampled_from((*NAMES, UNLABELLED)), st.integers(-3, 3)), max_size=12
    ),
)
def test_counts_kept_step_by_step_are_those_counted_anew(
    counts: dict[str, int], wants: int, skew: int, steps: list[tuple[str, int]]
) -> None:
    rule = SpreadRule("zone", min_domains=wants, max_skew=skew)
    kept = Domains(rule, dict(counts), sum(counts.values()) + 3)
    for domain, block in steps:
        if kept.totals.get(domain, kept.total - sum(kept.totals.values())) + block < 0 or not block:
            continue
        before = breaches(kept, but=domain)
        changed = kept.grow(domain, block) if block > 0 else kept.lower(domain, -block)
        anew = Domains(rule, dict(kept.totals), kept.total)

        assert (kept.least, kept.high, kept.used) == (anew.least, anew.high, anew.used)
        assert (kept.excess(), kept.lacking()) == (anew.excess(), anew.lacking())
        assert changed or breaches(kept, but=domain) == before


@pytest.mark.parametrize(
    ("before", "after", "broken"),
    [
        ((1, 0, 0), (2, 0, 0), True),  # the second copy had to open a domain
        ((2, 0, 0), (2, 1, 0), False),
        ((3, 1, 0), (4, 1, 0), True),  # 4 over the least of 0 is more than maxSkew
        ((5, 0, 0), (5, 1, 0), False),  # broken before, and no more now
        ((0, 0, 0), (1, 1, 1), False),
        ((0, 0, 0), (2, 1, 0), True),
        ((1, 1, 0), (1, 1, 0), False),
    ],
)
def test_what_was_given_breaks_a_hard_rule_where_the_rule_was_kept_before(
    before: tuple[int, ...], after: tuple[int, ...], broken: bool
) -> None:
    parties = [
        Party(name, weight=1, cap=9, seats=seats, domains=(name,))
        for name, seats in zip(NAMES, after, strict=False)
    ]

    assert filling.overgrown(parties, before, [HARD], ()) is broken
    assert not filling.overgrown(parties, after, [HARD], ())
    assert not filling.overgrown(parties, before, [replace(HARD, hard=False)], ())


def test_without_a_bound_on_the_skew_only_the_number_of_domains_counts() -> None:
    parties = [
        Party(name, 1, 9, seats=seats, domains=(name,))
        for name, seats in zip("ab", (9, 1), strict=True)
    ]

    assert not filling.overgrown(parties, (1, 1), [replace(HARD, max_skew=0, min_domains=2)], ())
