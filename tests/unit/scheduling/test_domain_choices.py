"""In which of several domains a workload gets its quota."""

from dataclasses import replace
from typing import Any

from federator.api import federatedquota
from federator.model.accounts import QuotaAccount
from federator.model.policy import Policy
from tests.unit.placement.fleets import cluster
from tests.unit.scheduling.quotaworlds import ask_of, play


def account(name: str, parent: str, spot: str, steady: str, **spec: Any) -> QuotaAccount:
    """An account with a guarantee of cpus in each of two domains."""
    domains = [
        {
            "name": pool,
            "selector": {"matchLabels": {"pool": pool}},
            "tiers": {"OnDemand": {"guaranteed": {"cpu": cpus}}},
        }
        for pool, cpus in (("spot", spot), ("steady", steady))
    ]
    above = {"parent": parent, "projects": [name]} if parent else {}
    return federatedquota.to_account(
        {"metadata": {"name": name, "uid": name}, "spec": {"domains": domains, **above, **spec}}
    )


def test_who_prefers_preemption_borrows_where_otherwise_it_would_only_wait() -> None:
    """What is guaranteed to `a` in the first domain is lent, and `a` takes nothing back."""
    choice = {"whenCanBorrow": "TryNextDomain", "preference": "PreemptionOverBorrowing"}
    accounts = (
        account("company", "", "2", "2"),
        account(
            "a",
            "company",
            "2",
            "0",
            domainChoice=choice,
            preemption={"withinProject": "LowerPriority"},
        ),
        account("b", "company", "0", "2"),
    )
    clusters = [cluster(pool, 9, labels={"pool": pool}) for pool in ("spot", "steady")]
    lent = replace(ask_of(0, "b", 2), policy=Policy(names=("spot",)))
    waits = ask_of(1, "a", 1)
    played = play(accounts, [[lent], [waits]], clusters)
    assert [played.holds(ask) for ask in (lent, waits)] == [2, 1]
