"""Who owns the number of replicas: client-side and server-side apply beside somebody who scales."""

import json

import pytest

from tests.contract.bodies import deployment, owned_by, owners
from tests.contract.speaking import Object, Speaker

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SCALED = 'conflict with "scaler" with subresource "scale" using apps/v1'
REPLICAS: Object = {"f:spec": {"f:replicas": {}}}


def scale(replicas: int) -> Object:
    kind = {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    return {**kind, "metadata": {"name": "web"}, "spec": {"replicas": replicas}}


@pytest.fixture
async def scaled(api: Speaker) -> Speaker:
    """A Deployment that was applied client-side with three replicas, and that somebody else has
    scaled to five.
    """
    body = deployment()
    made = {
        **body,
        "metadata": {**body["metadata"], "annotations": {LAST_APPLIED: json.dumps(body)}},
    }
    (await api.post(api.url("deployments"), made, fieldManager="kubectl-client-side-apply")).object(
        201
    )
    path = api.url("deployments", "web", "scale")
    (await api.patch(path, {"spec": {"replicas": 5}}, fieldManager="scaler")).object()
    return api


async def test_who_scales_owns_the_number(scaled: Speaker) -> None:
    live = (await scaled.get(scaled.url("deployments", "web"))).object()
    assert sorted(owners(live)) == [
        ("kubectl-client-side-apply", "Update", ""),
        ("scaler", "Update", "scale"),
    ]
    assert owned_by(live, "scaler", "Update", "scale") == REPLICAS
    assert "f:replicas" not in owned_by(live, "kubectl-client-side-apply", "Update")["f:spec"]


async def test_kubectl_gets_back_what_it_applied_but_not_what_was_scaled_since(
    scaled: Speaker,
) -> None:
    """It may go from client-side to server-side apply: fields that are as it left them are
    its own.
    """
    path = scaled.url("deployments", "web")
    answer = await scaled.apply(path, deployment(image="app:2"), "kubectl")
    answer.refused(409, "Conflict", f"Apply failed with 1 conflict: {SCALED}: .spec.replicas")
    assert answer.causes() == [("FieldManagerConflict", ".spec.replicas", SCALED)]

    taken = (await scaled.apply(path, deployment(replicas=5, image="app:2"), "kubectl")).object()
    assert taken["spec"]["replicas"] == 5
    assert ("scaler", "Update", "scale") in owners(taken)


async def test_another_manager_is_told_of_both(scaled: Speaker) -> None:
    answer = await scaled.apply(
        scaled.url("deployments", "web"), deployment(image="app:2"), "other"
    )
    assert (answer.status, answer.json["message"].splitlines()[0]) == (
        409,
        'Apply failed with 2 conflicts: conflicts with "kubectl-client-side-apply" using apps/v1:',
    )
    assert {cause[1] for cause in answer.causes()} == {
        ".spec.replicas",
        '.spec.template.spec.containers[name="app"].image',
    }


async def test_a_scale_can_be_applied_and_conflicts_like_any_field(api: Speaker) -> None:
    path = api.url("deployments", "web")
    (await api.apply(path, deployment(), "one")).object(201)
    refused = await api.apply(f"{path}/scale", scale(9), "two")
    refused.refused(
        409, "Conflict", 'Apply failed with 1 conflict: conflict with "one": .spec.replicas'
    )

    (await api.apply(f"{path}/scale", scale(9), "two", force="true")).object()
    live = (await api.get(path)).object()
    assert live["spec"]["replicas"] == 9
    assert owned_by(live, "two", "Apply", "scale") == REPLICAS
    assert sorted(owners(live)) == [("one", "Apply", ""), ("two", "Apply", "scale")]
    assert "f:replicas" not in owned_by(live, "one")["f:spec"]
    again = await api.apply(path, deployment(replicas=4), "one")
    whose = 'conflict with "two" with subresource "scale"'
    again.refused(409, "Conflict", f"Apply failed with 1 conflict: {whose}: .spec.replicas")


async def test_an_applier_that_leaves_the_number_out_keeps_it_once_another_has_scaled(
    api: Speaker,
) -> None:
    """What the member process relies on: an autoscaler takes the number over; before it did, an
    apply without the number would take it away.
    """
    path, silent = api.url("deployments", "web"), deployment(replicas=None)
    (await api.apply(path, deployment(), "one", force="true")).object(201)
    (await api.patch(f"{path}/scale", {"spec": {"replicas": 5}}, fieldManager="scaler")).object()
    live = (await api.get(path)).object()
    assert "f:replicas" not in owned_by(live, "one")["f:spec"]
    kept = (await api.apply(path, silent, "one", force="true")).object()
    assert kept["spec"]["replicas"] == 5

    alone = api.url("deployments", "alone")
    (await api.apply(alone, deployment("alone"), "one", force="true")).object(201)
    lost = await api.apply(alone, deployment("alone", replicas=None), "one", force="true")
    assert lost.object()["spec"]["replicas"] == 1
