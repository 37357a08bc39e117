"""Who leaves so that one workload gets its quota: properties over random trees, and by exhaustive
search in tiny ones."""

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import Preemption, QuotaAccount, Take, TierQuota
from federator.model.ask import Tier
from federator.model.names import WorkloadKey
from federator.model.resources import Resources
from federator.placement.quota.tree import Tree
from federator.scheduling.admission import reclaim
from federator.scheduling.admission.admitting import Round
from federator.scheduling.admission.holders import Holder, Preemptor, Victim, Why, scaled
from tests.examples import examples

TIER = Tier.ON_DEMAND
ANY = Preemption(within=Take.LOWER_PRIORITY, reclaim=Take.ANY)
LEAVES = ("a", "b", "c")


def tree(guarantees: Sequence[int], nested: bool, rules: Preemption = ANY) -> Tree:
    """company above a and mid (or all three); mid above b and c."""

    def account(name: str, parent: str, amount: int | None) -> QuotaAccount:
        limits = {} if amount is None else {TIER: TierQuota(Resources({"cpu": amount}))}
        if amount == 0:
            limits = {TIER: TierQuota(withheld=frozenset({"cpu"}))}
        projects = frozenset({name}) if name in LEAVES else frozenset()
        return QuotaAccount(name, parent=parent, projects=projects, tiers=limits, preemption=rules)

    below = "mid" if nested else "company"
    parents = {"a": "company", "b": below, "c": below}
    accounts = [account(name, parents[name], guarantees[at]) for at, name in enumerate(LEAVES)]
    accounts += [account("company", "", None)] + ([account("mid", "company", None)] * nested)
    return Tree(accounts)


def holder(at: int, node: str, amount: int, copies: int = 1, priority: int = 0) -> Holder:
    key = WorkloadKey("PinterestService", "shop", f"w{at}")
    return Holder(f"u{at:02}", key, node, priority, 0.0, at, {"cpu": amount}, copies)


holders = st.lists(
    st.tuples(st.sampled_from(LEAVES), st.integers(1, 4), st.integers(1, 3), st.integers(-1, 1)),
    max_size=6,
)
worlds = st.tuples(
    st.lists(st.integers(0, 8), min_size=3, max_size=3),
    st.booleans(),
    holders,
    st.integers(1, 8),
    st.integers(-1, 1),
)


def opened(
    guarantees: Sequence[int], nested: bool, rows: Sequence[tuple[str, int, int, int]]
) -> Round:
    """A tree in which as much of the rows is held as it has."""
    made = tree(guarantees, nested)
    round_ = Round.of(made, "company", TIER, ())
    for at, (node, amount, copies, priority) in enumerate(rows):
        one = holder(at, node, amount, copies, priority)
        if round_.usage.fits(node, scaled(one.each, one.copies)):
            round_.usage.add(node, scaled(one.each, one.copies))
            round_.held.setdefault(node, []).append(one)
    return round_


def told(round_: Round, need: int, priority: int) -> tuple[Preemptor, tuple[Victim, ...] | None]:
    winner = Preemptor("a", priority, 0.0, {"cpu": need}, frozenset({"cpu"}))
    return winner, reclaim.victims(winner, round_.usage, round_.held, ANY)


def fits_without(round_: Round, winner: Preemptor, gone: Sequence[tuple[Holder, int]]) -> bool:
    """And borrows nothing then, where others have to leave for it: that is for what is guaranteed
    to it only."""
    for one, copies in gone:
        round_.usage.add(one.node, scaled(one.each, -copies))
    fits = round_.usage.fits(winner.node, winner.needs)
    if any(one.node != winner.node for one, _ in gone):
        fits = fits and round_.usage.excess(winner.node, "cpu", winner.needs["cpu"]) <= 0
    for one, copies in gone:
        round_.usage.add(one.node, scaled(one.each, copies))
    return fits


@examples(300)
@given(worlds)
def test_the_winner_fits_and_nothing_can_be_left_out(
    world: tuple[list[int], bool, list[tuple[str, int, int, int]], int, int],
) -> None:
    guarantees, nested, rows, need, priority = world
    round_ = opened(guarantees, nested, rows)
    winner, found = told(round_, need, priority)
    if found is None or round_.usage.fits(winner.node, winner.needs):
        return
    gone = [(victim.holder, victim.copies) for victim in found]
    assert fits_without(round_, winner, gone)
    for at, (one, copies) in enumerate(gone):
        fewer = [*gone[:at], *([(one, copies - 1)] if copies > 1 else []), *gone[at + 1 :]]
        assert not fits_without(round_, winner, fewer)


def test_of_its_own_account_fewer_leave_where_the_winner_can_borrow_what_is_idle() -> None:
    """One of another account borrows 1 of 6: the winner needs 3 of the 2 that are idle, and is
    within its guarantee of 4 only when two of its own leave."""
    round_ = opened([4, 2, 0], False, [("a", 1, 3, -1), ("c", 1, 1, 0)])
    _, found = told(round_, 3, 0)
    assert found is not None
    assert [(victim.holder.node, victim.copies) for victim in found] == [("a", 1)]


@examples(300)
@given(worlds)
def test_no_guarantee_is_taken(
    world: tuple[list[int], bool, list[tuple[str, int, int, int]], int, int],
) -> None:
    """Of another account at most what it holds beyond its guarantee leaves, and one copy that holds
    a part of both."""
    guarantees, nested, rows, need, priority = world
    round_ = opened(guarantees, nested, rows)
    usage = round_.usage
    before = {node: usage.excess(node, "cpu") for node in LEAVES}
    _, found = told(round_, need, priority)
    assert {node: usage.excess(node, "cpu") for node in LEAVES} == before, "the usage is as before"
    for node in ("b", "c"):
        taken = [victim for victim in found or () if victim.holder.node == node]
        amount = sum(victim.copies * victim.holder.each["cpu"] for victim in taken)
        if taken:
            largest = max(victim.holder.each["cpu"] for victim in taken)
            assert amount - largest < before[node], "the last was taken from its guarantee"
    for victim in found or ():
        if victim.holder.node == "a":
            assert victim.holder.priority < priority
            assert victim.why is Why.WITHIN


@examples(200)
@given(worlds, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    world: tuple[list[int], bool, list[tuple[str, int, int, int]], int, int],
    random: "object",
) -> None:
    guarantees, nested, rows, need, priority = world
    round_ = opened(guarantees, nested, rows)
    every = [one for held in round_.held.values() for one in held]
    random.shuffle(every)  # type: ignore[attr-defined]
    other = Round.of(round_.usage.tree, "company", TIER, every)
    assert told(other, need, priority)[1] == told(round_, need, priority)[1]


@examples(200)
@given(worlds)
def test_tiny_worlds_agree_with_exhaustive_search(
    world: tuple[list[int], bool, list[tuple[str, int, int, int]], int, int],
) -> None:
    """Within its guarantee the winner always gets it where only its own account and those that hold
    more than theirs are in the way: whenever any set of such helps, one is found."""
    guarantees, nested, rows, need, priority = world
    single = [(node, amount, 1, rank) for node, amount, _, rank in rows]
    round_ = opened(guarantees, nested, single)
    winner, found = told(round_, need, priority)
    if round_.usage.excess("a", "cpu", need) > 0 or round_.usage.fits("a", winner.needs):
        return
    borrowed = [
        one
        for node in ("b", "c")
        for one in round_.held.get(node, ())
        if round_.usage.excess(node, "cpu") > 0
    ]
    helps = any(
        fits_without(round_, winner, [(one, 1) for one in some])
        for count in range(1, len(borrowed) + 1)
        for some in itertools.combinations(borrowed, count)
        if _only_borrowed(round_, some)
    )
    assert not helps or found is not None


def _only_borrowed(round_: Round, some: Sequence[Holder]) -> bool:
    """Whether each of these is taken while its account holds more than its guarantee."""
    for node in ("b", "c"):
        amounts = sorted(one.each["cpu"] for one in some if one.node == node)
        if amounts and sum(amounts[:-1]) >= round_.usage.excess(node, "cpu"):
            return False
    return True


def test_a_guarantee_comes_back_copy_by_copy() -> None:
    """a is guaranteed 6 and asks for 4; b holds 10 of the 12, 6 of them its own."""
    round_ = opened([6, 6, 0], False, [("b", 1, 10, 9)])
    _, found = told(round_, 4, -5)
    assert found is not None
    assert [(victim.copies, victim.why) for victim in found] == [(2, Why.RECLAIM)]
