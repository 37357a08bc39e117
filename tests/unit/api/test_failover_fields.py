"""`failover` of a policy and tolerations that end: what is read, and what is refused with its reason."""

from typing import Any

import pytest

from federator.api import membercluster
from federator.api.placement import placementpolicy
from federator.kinds import read
from federator.kinds.read import InvalidObject
from federator.model.kubernetes.taints import UNREACHABLE_TAINT
from federator.model.policy import Failback, Failover, FailoverWhen

KEY = UNREACHABLE_TAINT.key


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "p", "namespace": "feed"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("fields", "means"),
    [
        ({}, Failover()),
        ({"when": "Never"}, Failover(when=FailoverWhen.NEVER)),
        (
            {"when": "Dead", "failback": "Manual"},
            Failover(FailoverWhen.DEAD, failback=Failback.MANUAL),
        ),
        (
            {"afterSeconds": 0, "cooldownSeconds": 5, "failbackAfterSeconds": 7},
            Failover(after_s=0, cooldown_s=5, failback_after_s=7),
        ),
    ],
)
def test_what_is_left_out_is_as_by_default(fields: dict[str, Any], means: Failover) -> None:
    obj = policy(failover=fields)
    read.check(obj)
    assert placementpolicy.to_policy(obj, "policyRef").failover == means


def test_what_an_api_server_may_hold_without_us_is_as_by_default() -> None:
    strange = policy(failover={"when": "Sometimes", "afterSeconds": -4, "failback": 7})
    assert placementpolicy.to_policy(strange, "policyRef").failover == Failover(after_s=0)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"failover": {"when": "Dead", "afterSeconds": 9}}, "when must be Unreachable"),
        ({"failover": {"failback": "Never", "failbackAfterSeconds": 9}}, "is for failback Auto"),
        ({"failover": {"when": "Sometimes"}}, "spec.failover.when"),
        ({"failover": {"afterSeconds": -1}}, "spec.failover.afterSeconds"),
        ({"failover": {"afterSeconds": 1e9}}, "spec.failover.afterSeconds"),
        (
            {"tolerations": [{"key": KEY, "effect": "NoSchedule", "tolerationSeconds": 5}]},
            "tolerationSeconds is for",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        read.check(policy(**spec))


def test_a_toleration_of_the_hubs_own_taint_may_end() -> None:
    obj = policy(tolerations=[{"key": KEY, "operator": "Exists", "tolerationSeconds": 45}])
    read.check(obj)
    assert placementpolicy.to_policy(obj, "policyRef").stays_unreachable_s == 45.0


@pytest.mark.parametrize(
    ("ready", "more", "unreachable"),
    [
        ({"status": "Unknown", "reason": "Unreachable"}, {}, True),
        ({"status": "True", "reason": "Ready"}, {}, False),
        ({"status": "Unknown", "reason": "NotAsked"}, {}, False),
        ({"status": "Unknown", "reason": "Unreachable"}, {"lastHeard": ""}, False),
        ({"status": "Unknown", "reason": "Unreachable"}, {"taints": []}, False),
    ],
)
def test_a_cluster_is_unreachable_while_it_is_silent_and_that_is_recorded(
    ready: dict[str, Any], more: dict[str, Any], unreachable: bool
) -> None:
    since = "2026-01-01T00:00:00Z"
    status = {
        "conditions": [{"type": "Ready", **ready}],
        "taints": membercluster.hub_taint(since),
        "lastHeard": since,
        **more,
    }
    view = membercluster.to_view({"metadata": {"name": "a"}, "spec": {}, "status": status}, 0.0)
    assert view.unreachable is unreachable
