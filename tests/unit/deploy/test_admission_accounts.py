"""The ValidatingAdmissionPolicy for service accounts in members, evaluated without an API server."""

from collections.abc import Mapping
from typing import Any

import pytest

from federator.embedded.admission.policies import evaluated
from tests.unit.deploy import manifests
from tests.unit.deploy.test_admission_pods import HUB

MEMBER = "system:serviceaccount:federator-system:federator-member"
ROLE = "pinterest.com/iam-role"
CLOUDS = (
    "eks.amazonaws.com/role-arn",
    "iam.gke.io/gcp-service-account",
    "azure.workload.identity/client-id",
)


def refusals(
    annotations: Mapping[str, str],
    *,
    before: Mapping[str, str] | None = None,
    user: str = MEMBER,
    may_have: str = "",
) -> list[str]:
    """The messages with which a write is refused. `may_have`: the list as an administrator has
    changed it."""
    policy = next(
        one["spec"]
        for one in manifests.of_kind(manifests.written(), "ValidatingAdmissionPolicy")
        if one["metadata"]["name"] == "federator-service-accounts"
    )
    given: dict[str, Any] = {
        "request": {
            "userInfo": {"username": user},
            "operation": "CREATE" if before is None else "UPDATE",
        },
        "object": {"metadata": {"name": "web", "annotations": dict(annotations)}},
        "oldObject": {"metadata": {"name": "web", "annotations": dict(before or {})}},
    }
    if not all(evaluated(one["expression"], given) for one in policy["matchConditions"]):
        return []
    variables: dict[str, Any] = {}
    for one in policy["variables"]:
        expression = may_have if may_have and one["name"] == "mayHave" else one["expression"]
        variables[one["name"]] = evaluated(expression, {**given, "variables": variables})
    return [
        one["message"]
        for one in policy["validations"]
        if not evaluated(one["expression"], {**given, "variables": variables})
    ]


@pytest.mark.parametrize("key", CLOUDS)
@pytest.mark.parametrize("user", [HUB, MEMBER])
def test_our_accounts_give_no_service_account_a_role_of_a_cloud(user: str, key: str) -> None:
    (message,) = refusals({key: "admin"}, user=user)
    assert message.startswith("The federation gives its service accounts no role of a cloud")
    assert len(refusals({key: "admin"}, before={key: "reader"}, user=user)) == 1
    assert refusals({key: "admin"}, user="alice") == []


@pytest.mark.parametrize("key", CLOUDS)
def test_a_role_that_the_cluster_gave_stays_when_the_account_is_written_again(key: str) -> None:
    assert refusals({key: "reader", ROLE: "ads"}, before={key: "reader"}) == []


def test_an_administrator_narrows_the_roles_of_workloads() -> None:
    assert refusals({ROLE: "ads"}) == []
    assert refusals({ROLE: "ads"}, may_have='["ads"]') == []
    assert len(refusals({ROLE: "admin"}, may_have='["ads"]')) == 1
    assert refusals({}, may_have="[]") == []
