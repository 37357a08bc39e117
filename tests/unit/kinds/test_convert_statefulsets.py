"""StatefulSets to PinterestStatefulSets: one test per rule."""

from typing import Any

import pytest

from federator.convert.drafts import BadInput
from tests.unit.kinds.conversions import (
    converted,
    deployment,
    ingress,
    left,
    native,
    notes,
    only,
    service,
)

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
HEADLESS: dict[str, Any] = {"clusterIP": "None", "publishNotReadyAddresses": True}


def stateful(name: str = "web", **fields: Any) -> dict[str, Any]:
    obj = deployment(name, **fields)
    return {**obj, "kind": "StatefulSet", "spec": {"serviceName": name, **obj["spec"]}}


def test_a_stateful_set_keeps_its_claims_and_stays_in_one_cluster() -> None:
    done = converted(
        stateful(
            replicas=3,
            podManagementPolicy="Parallel",
            minReadySeconds=5,
            volumeClaimTemplates=[{"kind": "PersistentVolumeClaim", **CLAIM, "status": {}}],
            updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        )
    )

    obj = only(done)
    assert obj["kind"] == "PinterestStatefulSet"
    assert (obj["spec"]["replicas"], obj["spec"]["podManagementPolicy"]) == (3, "Parallel")
    assert obj["spec"]["updateStrategy"] == {"minReadySeconds": 5}
    assert obj["spec"]["volumeClaimTemplates"] == [CLAIM]
    assert obj["spec"]["claimRetention"] == "Retain"
    assert obj["spec"]["placement"] == {"division": {"strategy": "Capacity", "maxClusters": 1}}
    assert "the first one web-0-0" in notes(done)
    assert "its claims are new and empty" in notes(done)


def test_a_placement_of_its_own_is_kept() -> None:
    annotations = {"federation.pinterest.com/policy": "zonal"}
    obj = only(converted(stateful(metadata={"annotations": annotations})))

    assert obj["spec"]["placement"] == {"policyRef": "zonal"}


@pytest.mark.parametrize(
    ("policy", "retention", "said"),
    [
        ({"whenDeleted": "Delete", "whenScaled": "Delete"}, "Delete", ""),
        ({"whenDeleted": "Retain", "whenScaled": "Delete"}, "Retain", "they are kept in both"),
        ({}, "Retain", ""),
    ],
)
def test_claims_are_deleted_where_they_were_in_every_case(
    policy: dict[str, str], retention: str, said: str
) -> None:
    done = converted(
        stateful(volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
    )

    assert only(done)["spec"]["claimRetention"] == retention
    assert said in notes(done)


def test_its_headless_service_is_made_for_it() -> None:
    done = converted(stateful(), service(**HEADLESS))

    made = only(done)["spec"]["service"]
    assert [port["port"] for port in made["ports"]] == [80]
    assert made["publishNotReadyAddresses"] is True
    assert "Service/web" not in left(done)


def test_other_services_and_an_ingress_stay_in_the_members() -> None:
    done = converted(stateful(), service(**HEADLESS), service("clients"), ingress())

    assert "has only the headless Service web" in left(done)["Service/clients"]
    assert "keep this Ingress in the members" in left(done)["Ingress/web"]
    assert "loadBalancers" not in only(done)["spec"]


def test_an_autoscaler_of_it_is_left() -> None:
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}
    scaler = {
        **native("HorizontalPodAutoscaler", "web"),
        "apiVersion": "autoscaling/v2",
        "spec": {"scaleTargetRef": target, "maxReplicas": 3},
    }

    done = converted(stateful(), scaler)

    assert "has no autoscaling" in left(done)["HorizontalPodAutoscaler/web"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"ordinals": {"start": 5}}, "it counts from 5"),
        ({"updateStrategy": {"type": "OnDelete"}}, "OnDelete waits for somebody"),
        ({"updateStrategy": {"rollingUpdate": {"partition": 2}}}, "2 halts its roll-out"),
    ],
)
def test_what_cannot_be_said_leaves_it_with_the_reason(fields: dict[str, Any], why: str) -> None:
    assert why in left(converted(stateful(**fields)))["StatefulSet/web"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"volumeClaimTemplates": [{"spec": {}}]}, "spec.volumeClaimTemplates[0].metadata.name"),
        ({"selector": {"matchLabels": {"app": "other"}}}, "spec.template.metadata.labels"),
        ({"replicas": -1}, "spec.replicas"),
    ],
)
def test_bad_input_is_told_with_its_field(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(BadInput) as caught:
        converted(stateful(**fields))

    assert path in [error.path for error in caught.value.errors]
