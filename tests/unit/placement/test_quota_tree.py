"""Trees of accounts: what is kept, lent and borrowed, and the sentences that say so."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.api import federatedquota
from federator.model.accounts import Balance, QuotaAccount
from federator.model.ask import Tier
from federator.model.kubernetes import quantity
from federator.model.resources import Resources
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from federator.placement.room.commitments import Commitments
from tests import casetables
from tests.examples import examples
from tests.unit.placement.fleets import (
    cluster,
    commitment,
    commitments_with,
    counts,
    decide,
    fleet,
    held,
    service,
)
from tests.unit.placement.invariants import check_commitments

Said = dict[str, dict[str, str]]


def account(name: str, parent: str = "", tier: str = "OnDemand", **said: Any) -> QuotaAccount:
    """An account of cpu, with a project of its name. `said`: guaranteed, max, borrowingLimit,
    lendingLimit in cpus.
    """
    more: dict[str, Any] = {
        field: said.pop(field)
        for field in ("maxPriority", "maxConcurrentWorkloads", "projects")
        if field in said
    }
    limits = {field: {"cpu": str(value)} for field, value in said.items()}
    spec: dict[str, Any] = {"projects": [name], "tiers": {tier: limits}, **more}
    spec |= {"parent": parent} if parent else {}
    return federatedquota.to_account({"metadata": {"name": name, "uid": name}, "spec": spec})


def left(
    accounts: list[QuotaAccount], used: Mapping[str, int] | None = None, tier: Tier = Tier.ON_DEMAND
) -> dict[str, int | None]:
    """Account -> whole cpus that it may still take, when its projects use so many."""

    def usage(project: str, of: Tier) -> Resources:
        return (
            Resources({"cpu": (used or {}).get(project, 0) * 1000}) if of is tier else Resources()
        )

    uses = Uses(Tree(accounts), usage)
    amounts = {one.name: uses.left(one.name, tier, "cpu") for one in accounts}
    return {name: None if amount is None else amount // 1000 for name, amount in amounts.items()}


COMPANY = [
    account("company", guaranteed=100),
    account("ads", "company", guaranteed=10),
    account("feed", "company", guaranteed=30, lendingLimit=24),
]


@pytest.mark.parametrize(
    ("accounts", "used", "expected"),
    [
        (COMPANY, {}, {"company": 94, "ads": 94, "feed": 100}),
        (COMPANY, {"ads": 94}, {"company": 0, "ads": 0, "feed": 6}),
        (COMPANY, {"ads": 94, "feed": 4}, {"company": 0, "ads": 0, "feed": 2}),
        (COMPANY, {"feed": 30, "ads": 20}, {"company": 50, "ads": 50, "feed": 50}),
        (COMPANY, {"company": 60, "ads": 34}, {"company": 0, "ads": 0, "feed": 6}),
        # What a child keeps is there although all above is used up, or was lowered below its use.
        (COMPANY, {"company": 500}, {"company": 0, "ads": 0, "feed": 6}),
        # A maximum of its own, and borrowing that ends.
        (
            [
                account("company", max=100),
                account("ads", "company", max=40),
                account("feed", "company"),
            ],
            {"ads": 30, "feed": 20},
            {"company": 50, "ads": 10, "feed": 50},
        ),
        (
            [
                account("company", max=100),
                account("ads", "company", guaranteed=10, borrowingLimit=5),
            ],
            {"company": 20},
            {"company": 80, "ads": 15},
        ),
        (
            [
                account("company", max=100),
                account("ads", "company", guaranteed=10, borrowingLimit=0),
            ],
            {"company": 100},
            {"company": 0, "ads": 0},
        ),
        # Nothing is written above: those below have together what is guaranteed to them.
        (
            [
                account("company"),
                account("ads", "company", guaranteed=10),
                account("feed", "company", guaranteed=5),
            ],
            {"ads": 12},
            {"company": 3, "ads": 3, "feed": 3},
        ),
        # Maxima alone: nothing above them limits.
        (
            [account("company"), account("ads", "company", max=10), account("feed", "company")],
            {"ads": 4},
            {"company": None, "ads": 6, "feed": None},
        ),
        # Three floors: a maximum in the middle holds for all below it.
        (
            [
                account("company", max=100),
                account("eng", "company", guaranteed=20, borrowingLimit=10),
                account("ads", "eng", guaranteed=10),
                account("feed", "eng"),
            ],
            {"ads": 12, "feed": 3},
            {"company": 85, "eng": 15, "ads": 15, "feed": 15},
        ),
        # An account that stands alone is as it always was.
        ([account("ads", guaranteed=10, max=12)], {"ads": 3}, {"ads": 9}),
        ([account("ads", guaranteed=10)], {"ads": 3}, {"ads": 7}),
        ([account("ads", max=0)], {}, {"ads": 0}),
        ([account("ads", "nobody", guaranteed=10)], {"ads": 3}, {"ads": 7}),
        (
            [account("a", "b", guaranteed=10), account("b", "a", max=4)],
            {"a": 3, "b": 1},
            {"a": 7, "b": 3},
        ),
    ],
)
def test_what_is_left_to_each_account(
    accounts: list[QuotaAccount], used: dict[str, int], expected: dict[str, int | None]
) -> None:
    assert left(accounts, used) == expected


def test_reserved_neither_borrows_nor_lends_unless_it_says_so() -> None:
    accounts = [
        account("company", tier="Reserved", guaranteed=100),
        account("ads", "company", tier="Reserved", guaranteed=30),
        account("feed", "company", tier="Reserved", guaranteed=20, borrowingLimit=15),
        account("shop", "company", tier="Reserved", guaranteed=10, lendingLimit=10),
        account("misc", "company", tier="Reserved"),
    ]
    assert left(accounts, {}, Tier.RESERVED) == {
        "company": 50,
        "ads": 30,
        "feed": 35,
        "shop": 10,
        "misc": 50,
    }
    assert left(accounts, {"misc": 50}, Tier.RESERVED) == {
        "company": 0,
        "ads": 30,
        "feed": 20,
        "shop": 0,
        "misc": 0,
    }
    assert left(accounts) == dict.fromkeys(left(accounts))


def test_a_project_of_an_account_and_of_one_above_it_is_charged_once() -> None:
    accounts = [
        account("company", max=10, projects=["ads", "own"]),
        account("ads", "company", guaranteed=4),
    ]
    assert left(accounts, {"ads": 5, "own": 2}) == {"company": 3, "ads": 3}


def test_the_sentence_says_which_account_binds_and_nothing_of_what_others_use() -> None:
    accounts = [
        account("company", max=20),
        account("feed", "company", guaranteed=4),
        account("ads", "company"),
    ]
    others = commitments_with(
        commitment(service(15, name="x", project="ads", namespace="ads"), held(a=15))
    )
    snapshot = fleet(cluster("a", 90), quotas=accounts)
    decision = decide(service(9), snapshot, ledger=others.open(snapshot))
    assert counts(decision) == {"a": 5}
    assert decision.message.endswith(
        "FederatedQuota company, above feed, allows 20 cpu (spec.tiers.OnDemand.max.cpu), at "
        "most 20 of it to feed, "
        "and too little of it is left: 9 copies of 1 need 9, 5 fit"
    )
    assert set(decision.quota_generations) == {"company", "feed"}


def test_the_sentence_says_that_a_borrowing_limit_binds() -> None:
    accounts = [
        account("company", max=20),
        account("feed", "company", guaranteed=4, borrowingLimit=2),
    ]
    decision = decide(service(9), fleet(cluster("a", 90), quotas=accounts))
    assert counts(decision) == {"a": 6}
    assert str(decision.reason) == "ExceedsMaxQuota"
    assert (
        "FederatedQuota feed allows 6 cpu (4 guaranteed and 2 borrowed, "
        "spec.tiers.OnDemand.borrowingLimit.cpu): "
        "9 copies of 1 need 9, 6 fit"
    ) in decision.message


def test_what_holds_above_an_account_holds_for_it() -> None:
    accounts = [
        account("company", maxPriority=5, maxConcurrentWorkloads=1),
        account("feed", "company"),
    ]
    snapshot = fleet(cluster("a", 90), quotas=accounts)
    assert "allows priority up to 5" in decide(service(1, priority=6), snapshot).message
    others = commitments_with(commitment(service(1, name="x", project="company"), held(a=1)))
    decision = decide(service(1), snapshot, ledger=others.open(snapshot))
    assert "FederatedQuota company allows 1 workload at a time" in decision.message


def test_what_is_borrowed_names_its_lenders() -> None:
    used = {"ads": 30, "feed": 2, "shop": 1, "company": 3}
    accounts = [
        account("company", guaranteed=50),
        account("ads", "company", guaranteed=10),
        account("feed", "company", guaranteed=20),
        account("shop", "company", guaranteed=5, lendingLimit=2),
    ]

    def usage(project: str, tier: Tier) -> Resources:
        return Resources({"cpu": used[project]}) if tier is Tier.ON_DEMAND else Resources()

    milli = [
        federatedquota.to_account(
            {
                "metadata": {"name": one.name, "uid": one.name},
                "spec": {
                    "projects": [one.name],
                    "tiers": {
                        "OnDemand": {
                            "guaranteed": {
                                "cpu": f"{one.tiers[Tier.ON_DEMAND].guaranteed['cpu'] // 1000}m"
                            },
                            **({"lendingLimit": {"cpu": "2m"}} if one.name == "shop" else {}),
                        }
                    },
                    **({"parent": one.parent} if one.parent else {}),
                },
            }
        )
        for one in accounts
    ]
    found = Uses(Tree(milli), usage).balances("company", Tier.ON_DEMAND)["cpu"]
    assert found["ads"] == Balance(30, 10, None, 20, 0, (("company", 12), ("feed", 8)))
    assert found["feed"] == Balance(2, 20, None, 0, 8, ())
    assert found["shop"] == Balance(1, 5, None, 0, 0, ())
    assert found["company"] == Balance(36, 50, 50, 0, 0, ())


def _tables(case: dict[str, Any]) -> tuple[list[QuotaAccount], dict[str, dict[str, int]]]:
    """The accounts of a case of Kueue's, and its use. A cohort's own quota adds to that of those
    below it.
    """
    tiers = {"red": "OnDemand", "blue": "Preemptible"}
    nodes = [*case["input"]["cohorts"], *case["input"]["queues"]]
    parents = {one["name"]: one.get("parent") or one.get("cohort") or "" for one in nodes}
    own: dict[tuple[str, str], dict[str, str]] = {}
    for one in nodes:
        for flavor in itertools.chain.from_iterable(one["groups"]):
            own[one["name"], flavor["flavor"]] = flavor["quotas"]["cpu"]

    def envelope(name: str, flavor: str) -> int:
        said = own.get((name, flavor), {"nominal": "0"})
        below = (other for other, parent in parents.items() if parent == name)
        return quantity.vector({"cpu": said["nominal"]})["cpu"] + sum(
            envelope(other, flavor) for other in below
        )

    accounts = []
    for name, parent in parents.items():
        limits: dict[str, Said] = {}
        for flavor, tier in tiers.items():
            said = own.get((name, flavor), {})
            if said or any(other == name for other in parents.values()):
                limits[tier] = {"guaranteed": {"cpu": f"{envelope(name, flavor)}m"}}
                limits[tier] |= {
                    field: {"cpu": said[field]}
                    for field in ("borrowingLimit", "lendingLimit")
                    if field in said
                }
        spec = {"projects": [name], "tiers": limits} | ({"parent": parent} if parent else {})
        accounts.append(
            federatedquota.to_account({"metadata": {"name": name, "uid": name}, "spec": spec})
        )
    return accounts, case["input"]["usageMilli"]


KEPT = {
    "available-002": (
        "what an account does not lend is its own, also while others were left above their limits"
    )
}


@pytest.mark.parametrize("potential", [False, True])
def test_what_is_available_agrees_with_the_recorded_cases(potential: bool) -> None:
    flavors = {"red": Tier.ON_DEMAND, "blue": Tier.PREEMPTIBLE}
    cases = [
        one for one in casetables.cases("kueue_quota_preemption") if one["kind"] == "available"
    ]
    assert len(cases) == 8
    for case in cases:
        accounts, used = _tables(case)

        def usage(project: str, tier: Tier, used: dict[str, Any] = used) -> Resources:
            flavor = next(name for name, one in flavors.items() if one is tier)
            return Resources(
                {"cpu": 0 if potential else used.get(project, {}).get(f"{flavor}/cpu", 0)}
            )

        uses = Uses(Tree(accounts), usage)
        field = "potentiallyAvailableMilli" if potential else "availableMilli"
        for name, amounts in case["expected"][field].items():
            for key, expected in amounts.items():
                found = uses.left(name, flavors[key.split("/")[0]], "cpu")
                if case["name"] in KEPT and not potential and name == "cq2":
                    assert (found, expected) == (10_000, 0)
                else:
                    assert found == expected, (case["name"], name, key)


NAMES = ("a", "b", "c", "d", "e")


@st.composite
def trees(draw: st.DrawFn) -> list[QuotaAccount]:
    """A tree, or several, where nobody promises more than there is above; now and then a maximum
    below that.
    """
    amounts = st.sampled_from((0, 1, 2, 3, 5, 8))
    accounts, promised = [], dict.fromkeys(NAMES, 0)
    for at in reversed(range(len(NAMES))):
        name, parent = NAMES[at], draw(st.sampled_from(("", *NAMES[:at])))
        said: dict[str, Any] = {}
        if draw(st.booleans()):
            said["guaranteed"] = promised[name] = promised[name] + draw(amounts)
        if parent:
            promised[parent] += promised[name]
            said |= draw(
                st.sampled_from(
                    ({}, {"borrowingLimit": draw(amounts)}, {"max": promised[name] + draw(amounts)})
                )
            )
            said |= {"lendingLimit": draw(amounts)} if draw(st.booleans()) else {}
        elif draw(st.booleans()):
            said["max"] = promised[name] + draw(amounts)
        accounts.append(
            account(
                name, parent, draw(st.sampled_from(("OnDemand", "OnDemand", "Reserved"))), **said
            )
        )
    return accounts


wishes = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.sampled_from(Tier)), max_size=12
)


def admitted(accounts: list[QuotaAccount], asked: list[tuple[str, int, Tier]]) -> Commitments:
    """What is held when these ask one after the other; each is decided in a ledger of its own."""
    commitments = Commitments()
    snapshot = fleet(cluster("x", 1000), quotas=accounts)
    for at, (name, wanted, tier) in enumerate(asked):
        ask = service(wanted, name=f"w{at:02}", project=name, namespace=name, tier=tier)
        got = min(commitments.open(snapshot).admission(ask, wanted, 0).copies, wanted)
        before = commitments_with(*commitments)
        commitments.record(commitment(ask, held(x=got)))
        assert check_commitments(commitments, snapshot, before) == []
    return commitments


@given(trees(), wishes)
@examples(150)
def test_no_account_grows_beyond_a_limit_and_what_is_lent_is_what_is_borrowed(
    accounts: list[QuotaAccount], asked: list[tuple[str, int, Tier]]
) -> None:
    commitments = admitted(accounts, asked)
    tree = Tree(accounts)
    uses = Uses(tree, commitments.usage)
    for root in tree.roots:
        for tier in Tier:
            for found in uses.balances(root, tier).values():
                for name, one in found.items():
                    assert sum(amount for _, amount in one.lenders) == one.borrowed
                    assert one.most is None or one.used <= one.most
                    assert one.lent <= (one.guaranteed or 0)
                    assert all(name not in tree.path(lender)[:1] for lender, _ in one.lenders)


@given(trees(), wishes, st.sampled_from(NAMES))
@examples(150)
def test_what_an_account_does_not_lend_always_fits(
    accounts: list[QuotaAccount], asked: list[tuple[str, int, Tier]], mine: str
) -> None:
    """Whatever others took before: what it keeps is left to it and those below it."""
    others = [one for one in asked if one[0] != mine]
    commitments, tree = admitted(accounts, others), Tree(accounts)
    uses = Uses(tree, commitments.usage)
    for tier in Tier:
        bounds = tree.bounds(mine, tier, "cpu")
        if bounds is not None and not tree.children(mine):
            room = uses.left(mine, tier, "cpu")
            assert room is None or room >= bounds[mine].kept


@given(trees())
@examples(150)
def test_all_guarantees_fit_together_when_nobody_borrows(accounts: list[QuotaAccount]) -> None:
    """Whoever takes what is guaranteed, and no more, gets it, in any order."""
    tree = Tree(accounts)
    for tier in Tier:
        shares: dict[str, int] = {}
        for name in NAMES:
            bounds = tree.bounds(name, tier, "cpu")
            beneath = (
                sum((bounds or {})[one].guaranteed or 0 for one in tree.children(name))
                if bounds
                else 0
            )
            shares[name] = (
                max(((bounds[name].guaranteed or 0) if bounds else 0) - beneath, 0) // 1000
            )
        for order in (NAMES, NAMES[::-1], ("c", "a", "e", "b", "d")):
            commitments = admitted(accounts, [(name, shares[name], tier) for name in order])
            got = {one.project: one.copies for one in commitments}
            assert {name: got.get(name, 0) for name in NAMES} == shares


@given(trees(), wishes, st.randoms(use_true_random=False))
@examples(100)
def test_what_is_left_depends_on_no_order(
    accounts: list[QuotaAccount], asked: list[Any], chance: Any
) -> None:
    """Neither on that of accounts, nor on that in which decisions were recorded, given or taken
    back.
    """
    commitments = admitted(accounts, asked)
    snapshot = fleet(cluster("x", 1000), quotas=accounts)
    shuffled, held_ = list(accounts), list(commitments)
    chance.shuffle(shuffled)
    chance.shuffle(held_)
    ledger = Commitments().open(fleet(cluster("x", 1000), quotas=shuffled))
    for name in NAMES:
        ledger.uses.left(name, Tier.ON_DEMAND, "cpu")  # so that tables are there, and are moved
    mark = ledger.mark()
    for one in held_[: len(held_) // 2]:
        ledger.hold(one)
    ledger.rollback(mark)
    for one in held_:
        ledger.hold(one)
    for name, tier in itertools.product(NAMES, Tier):
        opened = commitments.open(snapshot)
        expected = opened.uses.left(name, tier, "cpu")
        assert ledger.uses.left(name, tier, "cpu") == expected
