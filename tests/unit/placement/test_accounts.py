"""What is told of a FederatedQuota that cannot be meant as it stands."""

import pytest

from federator.model.accounts import QuotaAccount, TierQuota
from federator.model.ask import Tier
from federator.model.resources import Resources
from federator.placement.quota import accounts
from federator.placement.quota.tree import Tree

OFFERED = ("cpu", "memory", "pods", "nvidia.com/gpu")


def account(
    name: str, *, parent: str = "", projects: tuple[str, ...] = (), **tier: Resources
) -> QuotaAccount:
    limits = TierQuota(tier.get("guaranteed", Resources()), tier.get("maximum"))
    return QuotaAccount(
        name, parent=parent, projects=frozenset(projects), tiers={Tier.ON_DEMAND: limits}
    )


def told(
    one: QuotaAccount, *others: QuotaAccount, offered: tuple[str, ...] = OFFERED
) -> list[tuple[str, str]]:
    found = accounts.troubles(one, Tree((one, *others)), Resources(dict.fromkeys(offered, 1 << 50)))
    return [(trouble.reason, trouble.message) for trouble in found]


def test_an_account_that_says_what_can_be_meant_has_no_trouble() -> None:
    limits = {
        "guaranteed": Resources({"cpu": 1000}),
        "maximum": Resources({"cpu": 2000, "nvidia.com/gpu": 4}),
    }
    one = account("ads", parent="company", projects=("ads",), **limits)
    assert told(one, account("company"), account("feed", projects=("feed",))) == []


@pytest.mark.parametrize(
    ("one", "others", "reason", "message"),
    [
        (
            account("ads", parent="ads"),
            (),
            "ParentCycle",
            "spec.parent is ads, the account itself; it stands alone",
        ),
        (
            account("ads", parent="compny"),
            (account("company"),),
            "UnknownParent",
            "spec.parent is compny, and there is no such FederatedQuota; did you mean company?",
        ),
        (
            account("ads", parent="b"),
            (account("b", parent="c"), account("c", parent="b")),
            "ParentCycle",
            "spec.parent leads in a circle: ads -> b -> c -> b; it stands alone",
        ),
        (
            account("ads", projects=("ads", "shop")),
            (account("shop", projects=("shop",)), account("other", projects=("shop",))),
            "ProjectBoundTwice",
            "spec.projects names shop, as FederatedQuota other, shop does: each of them limits it",
        ),
        (
            account("ads", guaranteed=Resources({"cpu": 9000}), maximum=Resources({"cpu": 4000})),
            (),
            "GuaranteedAboveMax",
            "spec.tiers.OnDemand.guaranteed.cpu is above spec.tiers.OnDemand.max.cpu, which limits",
        ),
        (
            account("ads", maximum=Resources({"gpu": 4})),
            (),
            "UnknownResource",
            (
                "spec.tiers.OnDemand.max.gpu: no pod can ask for gpu: it has no domain; did you "
                "mean nvidia.com/gpu?"
            ),
        ),
        (
            account("ads", guaranteed=Resources({"nvidia.com/gpus": 4})),
            (),
            "UnknownResource",
            "spec.tiers.OnDemand.guaranteed.nvidia.com/gpus: no cluster has nvidia.com/gpus;"
            " did you mean nvidia.com/gpu?",
        ),
    ],
)
def test_each_trouble_names_its_field(
    one: QuotaAccount, others: tuple[QuotaAccount, ...], reason: str, message: str
) -> None:
    assert told(one, *others) == [(reason, message)]


def test_a_device_is_not_called_unknown_before_any_cluster_has_reported() -> None:
    assert told(account("ads", maximum=Resources({"nvidia.com/gpu": 4})), offered=()) == []


def test_what_is_hardly_alike_is_not_suggested() -> None:
    (found,) = told(account("ads", maximum=Resources({"gpu": 4})), offered=("cpu", "memory"))
    assert found[1] == "spec.tiers.OnDemand.max.gpu: no pod can ask for gpu: it has no domain"


def test_a_resource_with_a_limit_of_nothing_is_looked_at_too() -> None:
    tier = TierQuota(maximum=Resources(), barred=frozenset({"gpus"}), withheld=frozenset({"cpuu"}))
    one = QuotaAccount("ads", tiers={Tier.RESERVED: tier})
    assert [reason for reason, _ in told(one)] == ["UnknownResource", "UnknownResource"]
