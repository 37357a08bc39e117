"""The ValidatingAdmissionPolicies of the host that refuse nothing, evaluated without an API server."""

from typing import Any

import pytest

from federator.embedded.admission import policies
from tests.unit.deploy import manifests

NAME = "federator-autoscalers"


def written(kind: str) -> dict[str, Any]:
    (found,) = [
        one["spec"]
        for one in manifests.of_kind(manifests.written(), kind)
        if one["metadata"]["name"] == NAME
    ]
    return dict(found)


@pytest.mark.parametrize(
    ("version", "kind", "warns"),
    [
        ("pinterest.com/v1beta1", "PinterestService", True),
        ("pinterest.com/v1beta1", "PinterestStatefulSet", True),
        ("apps/v1", "Deployment", False),
        ("", "Deployment", False),
    ],
)
def test_an_autoscaler_of_ours_on_the_host_gets_a_warning(
    version: str, kind: str, warns: bool
) -> None:
    target = {"kind": kind, "name": "web"} | ({"apiVersion": version} if version else {})
    given = {"object": {"spec": {"scaleTargetRef": target}}, "request": {"operation": "CREATE"}}
    said = policies.denial(written("ValidatingAdmissionPolicy"), given)
    assert (said is not None) is warns
    if said is not None:
        assert said[1].startswith(f"{kind}/web has no pods on the host")
        assert "spec.autoscaling" in said[1]


def test_it_warns_and_refuses_nothing() -> None:
    assert written("ValidatingAdmissionPolicyBinding")["validationActions"] == ["Warn"]
    assert written("ValidatingAdmissionPolicy")["failurePolicy"] == "Ignore"
