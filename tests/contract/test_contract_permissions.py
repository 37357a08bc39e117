"""Who may do what, and the words in which it is refused."""

from typing import Any

import pytest

from tests.contract.speaking import Object, Speaker

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def nobody(api: Speaker, server: Any) -> Speaker:
    """The same namespace, seen by a user who may do nothing."""
    return Speaker(server.nobody, api.namespace)


def review(**attributes: str) -> Object:
    head = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    return {**head, "spec": {"resourceAttributes": attributes}}


async def test_an_unknown_token_is_unauthorized(api: Speaker, server: Any) -> None:
    if server.stranger is None:
        pytest.skip("in process there are no tokens")
    stranger = Speaker(server.stranger, api.namespace)
    (await stranger.get(stranger.url("configmaps"))).refused(401, "Unauthorized", "Unauthorized")


async def test_refusals_name_the_user_the_verb_and_the_resource(nobody: Speaker) -> None:
    where = f'in API group "" in the namespace "{nobody.namespace}"'
    answer = await nobody.get(nobody.url("configmaps"))
    details = answer.refused(
        403,
        "Forbidden",
        f'configmaps is forbidden: User "nobody" cannot list resource "configmaps" {where}',
    )
    assert details == {"kind": "configmaps"}
    answer = await nobody.get(nobody.url("configmaps", "a"))
    details = answer.refused(
        403,
        "Forbidden",
        f'configmaps "a" is forbidden: User "nobody" cannot get resource "configmaps" {where}',
    )
    assert details == {"name": "a", "kind": "configmaps"}
    answer = await nobody.post(nobody.url("configmaps"), {"metadata": {"name": "a"}})
    answer.refused(
        403,
        "Forbidden",
        f'configmaps is forbidden: User "nobody" cannot create resource "configmaps" {where}',
    )


async def test_refusals_name_groups_subresources_and_the_cluster_scope(nobody: Speaker) -> None:
    answer = await nobody.delete(nobody.url("deployments", "web"))
    answer.refused(
        403,
        "Forbidden",
        'deployments.apps "web" is forbidden: User "nobody" cannot delete resource '
        '"deployments" in API group "apps" '
        f'in the namespace "{nobody.namespace}"',
    )
    answer = await nobody.patch(nobody.url("deployments", "web", "scale"), {})
    answer.refused(
        403,
        "Forbidden",
        'deployments.apps "web" is forbidden: User "nobody" cannot patch resource '
        '"deployments/scale" in API group '
        f'"apps" in the namespace "{nobody.namespace}"',
    )
    answer = await nobody.get("/api/v1/nodes")
    answer.refused(
        403,
        "Forbidden",
        (
            'nodes is forbidden: User "nobody" cannot list resource "nodes" in API group "" at '
            "the cluster scope"
        ),
    )
    answer = await nobody.get(nobody.url("configmaps"), watch="true")
    assert 'User "nobody" cannot watch resource "configmaps"' in answer.json["message"]
    answer = await nobody.get("/metrics")
    answer.refused(403, "Forbidden", 'forbidden: User "nobody" cannot get path "/metrics"')


async def test_everybody_may_ask_what_they_may(nobody: Speaker) -> None:
    answer = (
        await nobody.post(REVIEWS, review(verb="get", resource="pods", namespace="default"))
    ).object(201)
    assert answer["status"]["allowed"] is False
    (await nobody.get("/version")).object()
    assert (await nobody.get("/apis")).status == 200


async def test_a_review_names_who_asks(nobody: Speaker) -> None:
    answer = (await nobody.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).object(
        201
    )
    assert answer["status"]["userInfo"]["username"] == "nobody"
