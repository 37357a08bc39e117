"""Trees of three levels: what a middle account is guaranteed, lends, borrows and may have at most,
against a count of its own that knows the rules from `docs/operating/quotas.md` alone.
"""

from collections.abc import Mapping
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.model.accounts import QuotaAccount
from federator.model.ask import Tier
from federator.model.resources import Resources
from federator.placement.quota.tree import Tree
from federator.placement.quota.uses import Uses
from tests.examples import examples
from tests.unit.placement.test_quota_tree import account, left

PARENTS = {
    "company": "",
    "ads": "company",
    "feed": "company",
    "ads-a": "ads",
    "ads-b": "ads",
    "feed-a": "feed",
    "feed-b": "feed",
}
"""Account -> its parent."""
LEAVES = ("ads-a", "ads-b", "feed-a", "feed-b")
ENOUGH = 99
"""No amount that is drawn comes near."""


class Plain:
    """The rules again, in whole cpus, by recursion from the root. `said`: account -> what its
    FederatedQuota says."""

    def __init__(self, said: Mapping[str, Mapping[str, int]], reserved: bool = False) -> None:
        self.said, self.reserved = said, reserved
        self.guarantee = cache(self._guarantee)
        self.most = cache(self._most)
        self.kept = cache(self._kept)

    def below(self, name: str) -> list[str]:
        return [child for child, parent in PARENTS.items() if parent == name]

    def _guarantee(self, name: str) -> int | None:
        """What is written, else the sum of those below; never above what it may have at most."""
        said, beneath = self.said[name], [self.guarantee(child) for child in self.below(name)]
        written = said.get("guaranteed")
        known = [amount for amount in beneath if amount is not None]
        promised = written if written is not None else (sum(known) if known else None)
        if "max" in said and written is not None:
            promised = min(written, said["max"])
        if name == "company":
            return promised  # what is promised below it, even beyond its maximum
        limit = self._limit(name, promised)
        return promised if promised is None or limit is None else min(promised, limit)

    def _limit(self, name: str, promised: int | None) -> int | None:
        said = self.said[name]
        if name == "company":
            return said.get("max", promised)
        limits = [said["max"]] if "max" in said else []
        if "borrowingLimit" in said:
            limits.append((promised or 0) + said["borrowingLimit"])
        elif self.reserved and not limits and "guaranteed" in said:
            limits.append(promised or 0)
        return min(limits, default=None)

    def _most(self, name: str) -> int | None:
        written = self.said[name].get("guaranteed")
        if "max" in self.said[name] and written is not None:
            written = min(written, self.said[name]["max"])
        known = [one for child in self.below(name) if (one := self.guarantee(child)) is not None]
        promised = written if written is not None else (sum(known) if known else None)
        return self._limit(name, promised)

    def _kept(self, name: str) -> int:
        """What nobody outside of it ever gets: what those below it keep, and of the rest of its
        guarantee what it does not lend."""
        beneath = sum(self.kept(child) for child in self.below(name))
        if name == "company":
            return beneath
        rest = max((self.guarantee(name) or 0) - beneath, 0)
        lent = self.said[name].get("lendingLimit", 0 if self.reserved else rest)
        return beneath + max(rest - lent, 0)

    def taken(self, name: str, used: Mapping[str, int]) -> int:
        """What is gone because of it: its use, and what it keeps of what it does not use."""
        inside = used.get(name, 0) + sum(self.taken(child, used) for child in self.below(name))
        return max(inside, self.kept(name))

    def fits(self, used: Mapping[str, int], asking: str) -> bool:
        """Whether all limits above `asking` hold, or it uses only what is kept for it there."""
        name = asking
        while name:
            most = self.most(name)
            if most is not None and self.taken(name, used) > max(most, self.kept(name)):
                return False
            name = PARENTS[name]
        return True

    def left(self, name: str, used: Mapping[str, int]) -> int | None:
        """The most that can be added, by trying: None for no limit."""

        def fits(more: int) -> bool:
            return self.fits({**used, name: used.get(name, 0) + more}, name)

        if fits(ENOUGH):
            return None
        more = 0
        while fits(more + 1):
            more += 1
        return more


def quotas(said: Mapping[str, Mapping[str, int]], tier: Tier) -> list[QuotaAccount]:
    return [account(name, PARENTS[name], str(tier), **said[name]) for name in PARENTS]


amounts = st.integers(0, 6)


@st.composite
def said(draw: st.DrawFn, low: bool = False) -> dict[str, dict[str, int]]:
    """Fields of every account; nobody promises less than those below it have. `low`: a maximum may
    be lower than what is promised."""
    fields: dict[str, dict[str, int]] = {}
    promised = dict.fromkeys(PARENTS, 0)
    for name in reversed(PARENTS):
        own: dict[str, int] = {}
        if draw(st.booleans()):
            own["guaranteed"] = promised[name] = promised[name] + draw(amounts)
        if name != "company" and draw(st.booleans()):
            own["lendingLimit"] = draw(amounts)
        if name != "company" and draw(st.booleans()):
            own["borrowingLimit"] = draw(amounts)
        if draw(st.integers(0, 3)) == 0:
            own["max"] = max(promised[name] + draw(amounts) - (4 if low else 0), 0)
        fields[name] = own
        if PARENTS[name]:
            promised[PARENTS[name]] += promised[name]
    return fields


@st.composite
def admitted(draw: st.DrawFn) -> tuple[dict[str, dict[str, int]], Tier, dict[str, int]]:
    """(fields, tier, use by account): each use was admitted after the others."""
    fields, tier = draw(said(low=True)), draw(st.sampled_from((Tier.ON_DEMAND, Tier.RESERVED)))
    plain = Plain(fields, tier is Tier.RESERVED)
    used: dict[str, int] = {}
    for name in draw(st.permutations(list(PARENTS))):
        room = plain.left(name, used)
        used[name] = draw(st.integers(0, 12 if room is None else min(room, 12)))
    return fields, tier, used


@given(admitted())
@examples(60)
def test_what_is_left_on_three_levels_agrees_with_a_plain_count(
    case: tuple[dict[str, dict[str, int]], Tier, dict[str, int]],
) -> None:
    fields, tier, used = case
    plain = Plain(fields, tier is Tier.RESERVED)
    if not any(fields.values()):
        return

    expected = {name: plain.left(name, used) for name in PARENTS}

    assert left(quotas(fields, tier), used, tier) == expected


@given(admitted())
@examples(60)
def test_balances_on_three_levels_agree_with_a_plain_count(
    case: tuple[dict[str, dict[str, int]], Tier, dict[str, int]],
) -> None:
    """Use is the sum of what is below, and guarantee and limit those of the rules."""
    fields, tier, used = case
    plain = Plain(fields, tier is Tier.RESERVED)

    def usage(project: str, of: Tier) -> Resources:
        return Resources({"cpu": used.get(project, 0) * 1000} if of is tier else {})

    def under(name: str) -> int:
        return used.get(name, 0) + sum(under(child) for child in plain.below(name))

    if not any(fields.values()):
        return
    found = Uses(Tree(quotas(fields, tier)), usage).balances("company", tier)["cpu"]

    for name, one in found.items():
        assert one.used == under(name) * 1000, name
        assert one.guaranteed == _milli(plain.guarantee(name)), name
        assert one.most == _milli(plain.most(name)), name


def _milli(amount: int | None) -> int | None:
    return None if amount is None else amount * 1000


@given(admitted(), st.sampled_from(["ads", "feed"]))
@examples(40)
def test_other_branches_never_take_what_a_middle_account_keeps(
    case: tuple[dict[str, dict[str, int]], Tier, dict[str, int]], mine: str
) -> None:
    """However much the others use, even beyond their limits, the accounts below it get it back
    together: one after the other, as long as their own limits let them."""
    fields, tier, _ = case
    others = {name: 50 for name in PARENTS if name != mine and PARENTS[name] != mine}
    plain = Plain(fields, tier is Tier.RESERVED)
    accounts, now = quotas(fields, tier), dict(others)
    if not any(fields.values()):
        return
    for name in (mine, *plain.below(mine)):
        room = left(accounts, now, tier)[name]
        now[name] = ENOUGH if room is None else room
    free = plain.most(mine)
    kept = plain.kept(mine) if free is None else min(plain.kept(mine), free)

    got = sum(now[name] for name in (mine, *plain.below(mine)))

    assert got >= kept


THREE = {
    "company": {"guaranteed": 40},
    "ads": {"guaranteed": 20},
    "feed": {"guaranteed": 10},
    "ads-a": {"guaranteed": 6},
    "ads-b": {},
    "feed-a": {},
    "feed-b": {},
}
"""company has 10 that it promises to nobody, ads 14, feed 10."""


@pytest.mark.parametrize(
    ("changes", "used", "asking", "expected"),
    [
        # All of it can be borrowed by a leaf of either branch, while nobody uses it.
        ({}, {}, "feed-a", 40),
        ({}, {"ads-a": 6}, "feed-a", 34),
        # The middle account keeps what it does not lend, for all that are below it.
        ({"ads": {"guaranteed": 20, "lendingLimit": 5}}, {}, "feed-a", 25),
        ({"ads": {"guaranteed": 20, "lendingLimit": 5}}, {"feed-a": 25}, "ads-b", 15),
        ({"ads": {"guaranteed": 20, "lendingLimit": 5}}, {"feed-a": 25, "ads-a": 9}, "ads-b", 6),
        ({"ads": {"guaranteed": 20, "lendingLimit": 0}}, {"ads-a": 12}, "feed-b", 20),
        # What a leaf keeps is not part of what its parent lends.
        ({"ads-a": {"guaranteed": 6, "lendingLimit": 2}}, {}, "feed-a", 36),
        ({"ads-a": {"guaranteed": 6, "lendingLimit": 2}}, {}, "ads-b", 36),
        (
            {
                "ads": {"guaranteed": 20, "lendingLimit": 5},
                "ads-a": {"guaranteed": 6, "lendingLimit": 2},
            },
            {},
            "feed-a",
            25,
        ),
        # The maximum of the middle account holds for both leaves together, and leaves room for
        # what one of them keeps.
        ({"ads": {"guaranteed": 20, "max": 22}}, {"ads-a": 15}, "ads-b", 7),
        (
            {
                "ads": {"guaranteed": 20, "max": 22},
                "ads-a": {"guaranteed": 6, "lendingLimit": 0},
            },
            {},
            "ads-b",
            16,
        ),
        # Its borrowing limit counts from its own guarantee, whatever those below have.
        ({"ads": {"guaranteed": 20, "borrowingLimit": 3}}, {"ads-a": 15}, "ads-b", 8),
        ({"ads": {"borrowingLimit": 3}}, {}, "ads-b", 9),
        # That of a leaf counts from its own, and the middle account's holds too.
        ({"ads-a": {"guaranteed": 6, "borrowingLimit": 1}}, {}, "ads-a", 7),
        (
            {"ads": {"borrowingLimit": 3}, "ads-a": {"guaranteed": 6, "borrowingLimit": 9}},
            {},
            "ads-a",
            9,
        ),
        # Without a guarantee of its own it has what those below have together.
        ({"ads": {}, "company": {}}, {}, "feed-a", 16),
        ({"ads": {}, "company": {}}, {"feed-a": 10}, "ads-b", 6),
    ],
)
def test_what_a_middle_account_means_for_those_below_and_beside_it(
    changes: dict[str, dict[str, int]], used: dict[str, int], asking: str, expected: int
) -> None:
    fields = {**THREE, **changes}

    assert left(quotas(fields, Tier.ON_DEMAND), used)[asking] == expected
    assert Plain(fields).left(asking, used) == expected
