"""What the admission policy of the host lets the hub write of its probes, evaluated without an API
server."""

from typing import Any

import pytest

from federator.embedded.admission.policies import evaluated
from federator.kinds import probes
from federator.model import names
from federator.model.ask import Tier
from tests.unit.deploy import manifests
from tests.unit.deploy.test_admission_pods import HUB

ENDED = "oldObject.spec.?ttlSecondsAfterFinished.hasValue()"
"""False of the job sets here; the evaluator does not know `hasValue`."""
SERVICE = probes.service("a", Tier.RESERVED, "federator:1")
ROLLED = {**SERVICE, "spec": {**SERVICE["spec"], "replicas": 2}}
JOBS = probes.jobs("a", Tier.RESERVED, "federator:1")
PLAIN: dict[str, Any] = {
    **SERVICE,
    "metadata": {"name": "web", "namespace": names.PROBES},
}


def refusals(operation: str, plural: str, obj: dict[str, Any], namespace: str) -> list[str]:
    """The messages with which a write of the hub is refused."""
    policy = next(
        each["spec"]
        for each in manifests.of_kind(manifests.written(), "ValidatingAdmissionPolicy")
        if each["metadata"]["name"] == "federator-hub-writes"
    )
    old = {"CREATE": None, "UPDATE": PLAIN if obj is PLAIN else SERVICE, "DELETE": obj}[operation]
    given: dict[str, Any] = {
        "request": {
            "userInfo": {"username": HUB},
            "operation": operation,
            "namespace": namespace,
            "resource": {"resource": plural},
        },
        "object": ROLLED if operation == "UPDATE" and obj is SERVICE else obj,
        "oldObject": old,
    }
    if operation == "UPDATE" and obj is PLAIN:
        given["object"] = {**PLAIN, "spec": ROLLED["spec"]}
    assert all(evaluated(each["expression"], given) for each in policy["matchConditions"])
    variables: dict[str, Any] = {}
    for each in policy["variables"]:
        variables[each["name"]] = evaluated(each["expression"], {**given, "variables": variables})
    return [
        each["message"]
        for each in policy["validations"]
        if not evaluated(
            each["expression"].replace(ENDED, "false"), {**given, "variables": variables}
        )
    ]


def test_the_hub_rolls_its_probes_and_no_service_of_others() -> None:
    assert refusals("UPDATE", "pinterestservices", SERVICE, names.PROBES) == []
    assert len(refusals("UPDATE", "pinterestservices", SERVICE, "feed")) == 1
    assert len(refusals("UPDATE", "pinterestservices", PLAIN, names.PROBES)) == 1


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_the_hub_makes_and_deletes_job_sets_of_probes_and_none_of_others(operation: str) -> None:
    assert refusals(operation, "pinterestjobsets", JOBS, names.PROBES) == []
    assert len(refusals(operation, "pinterestjobsets", JOBS, "feed")) == 1
    assert len(refusals(operation, "pinterestjobsets", PLAIN, names.PROBES)) == 1
