"""What the column STATUS shows where there is more to say than it has room for."""

from dataclasses import replace

from federator.api import federatedquota
from federator.model import plaintext
from federator.model.accounts import Balance, QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.decision import Reason
from federator.model.resources import Resources
from federator.status import fold as folding
from federator.status.facts import DecisionInput
from tests.unit.status.test_fold import seen, shares, wanted


def test_a_reason_that_has_no_room_at_the_end_comes_first() -> None:
    placing = DecisionInput(
        shares(20, 20, 20),
        held_back=True,
        reason=Reason.QUOTA_EXCEEDED,
        message="the edit of generation 2 asks for 48120m cpu of project shop in tier OnDemand",
    )
    rows = [seen(f"c{i}", 20, origin_generation=1) for i in range(3)]
    held = folding.fold(wanted(60), placing, rows)
    ill = [replace(row, healthy=False, reason="ImagePullFailed") for row in rows]
    failing = folding.fold(wanted(60), DecisionInput(shares(20, 20, 20)), ill)

    assert held.summary.startswith("QuotaExceeded: 60/60 ready, 60 of an earlier template in ...")
    assert failing.summary.startswith("ImagePullFailed: 60/60 ready, 60 of an earlier template")
    assert max(len(held.summary), len(failing.summary)) <= plaintext.STATUS_MAX


def test_a_reason_that_has_room_stays_at_the_end() -> None:
    placing = DecisionInput(shares(3), held_back=True, reason=Reason.QUOTA_EXCEEDED, message="it")
    assert folding.fold(wanted(3), placing, [seen("c0", 3)]).summary == "3/3 ready in 1 cluster; it"


def test_the_summary_of_an_account_begins_with_the_tier_in_use() -> None:
    limit = TierQuota(maximum=Resources({"cpu": 40_000}))
    account = QuotaAccount("shop", tiers=dict.fromkeys(Tier, limit))
    usage = {Tier.PREEMPTIBLE: {"cpu": Balance(used=36_000)}}
    status = federatedquota.to_status(account, usage, 1, 0, {}, alone=True)

    assert status["summary"].startswith("Preemptible 36 of 40 cpu, ")
    assert [row["tier"] for row in status["usage"]] == [str(tier) for tier in Tier]
