"""Reclaim on three levels of accounts: whoever asks within the guarantee of its own account or of a
middle one gets it, and nobody falls below the guarantee of its account or of a middle one.
"""

from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, Take
from federator.model.ask import Tier
from federator.model.names import WorkloadKey
from federator.placement.quota.tree import Tree
from federator.scheduling.admission import reclaim
from federator.scheduling.admission.admitting import Round
from federator.scheduling.admission.holders import Holder, Preemptor, scaled
from federator.scheduling.admission.tree_usage import own_leaf
from tests.examples import examples
from tests.unit.placement.test_quota_levels import LEAVES, PARENTS, THREE, Plain, quotas, said

TIER = Tier.ON_DEMAND
ANY = Preemption(within=Take.NEVER, reclaim=Take.ANY)
CPU = 1000


def node(name: str) -> str:
    return name if name in LEAVES else own_leaf(name)


def opened(fields: Mapping[str, Mapping[str, int]], used: Mapping[str, int]) -> Round:
    """Each account holds one workload with copies of one cpu."""
    round_ = Round.of(Tree(quotas(fields, TIER)), "company", TIER, ())
    for at, (name, copies) in enumerate(used.items()):
        if copies:
            key = WorkloadKey("PinterestService", "shop", name)
            one = Holder(f"u{at}", key, node(name), 0, 0.0, at, {"cpu": CPU}, copies)
            round_.usage.add(one.node, scaled(one.each, copies))
            round_.held[one.node] = [one]
    return round_


def gone(
    fields: Mapping[str, Mapping[str, int]], used: Mapping[str, int], asking: str, copies: int
) -> dict[str, int] | None:
    """Account -> copies that leave it so that `asking` gets so many; None where nothing helps."""
    round_ = opened(fields, used)
    winner = Preemptor(asking, 0, 1.0, {"cpu": copies * CPU}, frozenset({"cpu"}))
    found = reclaim.victims(winner, round_.usage, round_.held, ANY)
    if found is None:
        return None
    return {victim.holder.key.name: victim.copies for victim in found if victim.copies}


@st.composite
def full(draw: st.DrawFn) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """(fields, use): the accounts took what was left, one after the other, some of them all of
    it."""
    fields = draw(said())
    assume(any(fields.values()))
    plain, used = Plain(fields), dict[str, int]()
    for name in draw(st.permutations(list(PARENTS))):
        room = plain.left(name, used)
        most = 12 if room is None else min(room, 12)
        used[name] = most if draw(st.booleans()) else draw(st.integers(0, most))
    return fields, used


def inside(plain: Plain, name: str, used: Mapping[str, int]) -> int:
    """What counts towards its guarantee."""
    return used.get(name, 0) + sum(plain.taken(child, used) for child in plain.below(name))


def path(name: str) -> list[str]:
    return [name, *path(PARENTS[name])] if name else []


@given(full(), st.sampled_from(LEAVES), st.integers(1, 3))
@examples(120)
def test_reclaim_gives_what_is_guaranteed_and_leaves_others_theirs(
    case: tuple[dict[str, dict[str, int]], dict[str, int]], asking: str, copies: int
) -> None:
    fields, used = case
    plain = Plain(fields)
    wanted = {**used, asking: used.get(asking, 0) + copies}
    if plain.fits(wanted, asking):
        return
    leaving = gone(fields, used, asking, copies)
    after = {name: count - (leaving or {}).get(name, 0) for name, count in wanted.items()}
    if leaving is not None:
        assert plain.fits(after, asking)
        for victim in leaving:
            for name in path(victim):
                if name in path(asking):
                    break
                assert inside(plain, name, after) >= (plain.guarantee(name) or 0), (victim, name)
    own = plain.guarantee(asking)
    if own is not None and inside(plain, asking, wanted) <= own:
        assert leaving is not None, "within the guarantee of its own account"


def levels(**changes: Mapping[str, int]) -> dict[str, Mapping[str, int]]:
    return {**THREE, **{name.replace("_", "-"): fields for name, fields in changes.items()}}


@pytest.mark.parametrize(
    ("fields", "used", "asking", "copies", "expected"),
    [
        # ads-b has no guarantee of its own, and gets what is guaranteed to ads.
        (levels(), {"feed-a": 40}, "ads-b", 5, {"feed-a": 5}),
        (levels(), {"feed-a": 40}, "ads-b", 20, {"feed-a": 20}),
        # Beyond the guarantee of ads it would only borrow.
        (levels(), {"feed-a": 40}, "ads-b", 21, None),
        # Within ads its sibling borrows of ads, and nothing leaves the other branch for more.
        (levels(), {"ads-a": 30, "feed-a": 10}, "ads-b", 1, None),
        (levels(ads_b={"guaranteed": 4}), {"ads-a": 30, "feed-a": 10}, "ads-b", 4, {"ads-a": 4}),
        # The middle account of the victim keeps its guarantee, although its leaf has none.
        (levels(), {"feed-a": 10, "company": 30}, "ads-b", 20, {"company": 20}),
        (levels(), {"feed-a": 12, "company": 28}, "ads-b", 20, {"company": 20}),
        (levels(), {"company": 28, "feed-a": 12}, "ads-b", 20, {"company": 18, "feed-a": 2}),
        (levels(), {"feed-a": 5, "feed-b": 5, "ads-a": 30}, "ads-b", 1, None),
        # What ads-a holds of its own guarantee stays, though ads as a whole borrows.
        (levels(), {"ads-a": 6, "ads-b": 34}, "feed-a", 10, {"ads-b": 10}),
        # Two levels up: the account is within its own guarantee, so it may take from both branches.
        (
            levels(feed_a={"guaranteed": 8}),
            {"ads-a": 25, "feed-b": 15},
            "feed-a",
            8,
            {"feed-b": 8},
        ),
    ],
)
def test_who_leaves_for_whom_on_three_levels(
    fields: Mapping[str, Mapping[str, int]],
    used: Mapping[str, int],
    asking: str,
    copies: int,
    expected: dict[str, int] | None,
) -> None:
    assert gone(fields, used, asking, copies) == expected


@given(full())
@examples(60)
def test_what_an_admission_sees_as_free_agrees_with_a_plain_count(
    case: tuple[dict[str, dict[str, int]], dict[str, int]],
) -> None:
    fields, used = case
    plain, usage = Plain(fields), opened(fields, used).usage
    for name in PARENTS:
        room = plain.left(name, used)
        if room is not None:
            assert usage.available(node(name), "cpu") == room * CPU, name
        # All of the company may be used by those below it, up to its maximum.
        guarantee = plain.most(name) if name == "company" else plain.guarantee(name)
        if guarantee is not None:
            assert usage.excess(name, "cpu") == (inside(plain, name, used) - guarantee) * CPU, name
