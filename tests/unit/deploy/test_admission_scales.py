"""The ValidatingAdmissionPolicies for the scale of natives in members, evaluated without an API
server: the marked objects of the namespace are parameters, one after the other.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from federator.embedded.admission.policies import evaluated
from federator.kinds.labels import AUTOSCALED_ANNOTATION
from federator.kinds.natives import NATIVES
from tests.unit.deploy import manifests
from tests.unit.deploy.test_admission_pods import HUB, MEMBER

AUTOSCALER = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
KINDS = ("Deployment", "StatefulSet")


def policy(kind: str) -> dict[str, Any]:
    name = f"federator-{kind.lower()}-scales"
    (found,) = [
        one["spec"]
        for one in manifests.of_kind(manifests.written(), "ValidatingAdmissionPolicy")
        if one["metadata"]["name"] == name
    ]
    return dict(found)


def marked(name: str, bounds: str = "") -> dict[str, Any]:
    """One of ours, as the parameter of a policy."""
    return {"metadata": {"name": name} | ({"annotations": _said(bounds)} if bounds else {})}


def _said(bounds: str) -> dict[str, str]:
    return {AUTOSCALED_ANNOTATION: bounds}


def allowed(
    kind: str,
    replicas: int,
    *ours: Mapping[str, Any],
    user: str = AUTOSCALER,
    before: int = 3,
    name: str = "web",
) -> bool:
    """Whether a user may scale the object of this name. A Scale of none has no replicas."""
    given: dict[str, Any] = {
        "request": {"userInfo": {"username": user}, "operation": "UPDATE", "name": name},
        "object": {"spec": {"replicas": replicas} if replicas else {}},
        "oldObject": {"spec": {"replicas": before} if before else {}},
    }
    spec = policy(kind)
    if not all(evaluated(one["expression"], given) for one in spec["matchConditions"]):
        return True
    for params in ours:
        with_params = {**given, "params": params}
        variables = {
            one["name"]: evaluated(one["expression"], with_params) for one in spec["variables"]
        }
        for one in spec["validations"]:
            if not evaluated(one["expression"], {**with_params, "variables": variables}):
                said = {**with_params, "variables": variables}
                assert str(evaluated(one["messageExpression"], said)).endswith(".")
                return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_but_our_accounts_scales_what_they_run(kind: str) -> None:
    for user in ("alice", AUTOSCALER):
        assert not allowed(kind, 22, marked("other"), marked("web"), user=user)
        assert not allowed(kind, 0, marked("web"), user=user)
        assert not allowed(kind, 1, marked("web"), user=user, before=0)
        assert allowed(kind, 3, marked("web"), user=user), "nothing is scaled"
        assert allowed(kind, 22, marked("other"), user=user), "what is not ours"
    for user in (HUB, MEMBER):
        assert allowed(kind, 22, marked("web"), user=user)


@pytest.mark.parametrize("bounds", ["3-30", "0-30"])
def test_a_service_with_autoscaling_is_scaled_up_to_its_bound_in_the_cluster(bounds: str) -> None:
    for user in ("alice", AUTOSCALER):
        for replicas, may in ((30, True), (0, True), (31, False)):
            assert allowed("Deployment", replicas, marked("web", bounds), user=user) is may
    assert not allowed("Deployment", 4, marked("web", "3-"))
    assert not allowed("Deployment", 4, marked("web", "many"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_and_the_object_itself_are_held_and_marked_ones_are_parameters(kind: str) -> None:
    spec = policy(kind)
    (rule,) = spec["matchConstraints"]["resourceRules"]
    plural = NATIVES[kind].plural
    assert rule["resources"] == [plural, f"{plural}/scale"]
    assert spec["paramKind"] == {"apiVersion": "apps/v1", "kind": kind}
    (bound,) = [
        one["spec"]
        for one in manifests.of_kind(manifests.written(), "ValidatingAdmissionPolicyBinding")
        if one["spec"]["policyName"] == f"federator-{kind.lower()}-scales"
    ]
    label = {"key": "federation.pinterest.com/fleet", "operator": "Exists"}
    assert bound["paramRef"] == {
        "selector": {"matchExpressions": [label]},
        "parameterNotFoundAction": "Allow",
    }
