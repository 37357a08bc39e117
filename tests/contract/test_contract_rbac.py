"""What RBAC objects allow: roles, bindings, names, paths, reviews, impersonation, and tokens of
service accounts.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.speaking import MERGE, Object, Speaker

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"


@pytest.fixture
def nobody(api: Speaker, server: Any) -> Speaker:
    """The same namespace, seen by a user who may do nothing but what a test grants."""
    return Speaker(server.nobody, api.namespace)


def rule(
    *verbs: str, group: str = "", resources: tuple[str, ...] = ("configmaps",), **more: Any
) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs), **more}


def user(name: str = "nobody") -> Object:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


async def grant(
    api: Speaker, name: str, *rules: Object, subjects: list[Object] | None = None
) -> None:
    """A Role and its RoleBinding of this name in the test's namespace."""
    path = f"{RBAC}/namespaces/{api.namespace}"
    (await api.post(f"{path}/roles", {"metadata": {"name": name}, "rules": list(rules)})).object(
        201
    )
    await bind(api, name, "Role", subjects)


async def bind(api: Speaker, name: str, kind: str, subjects: list[Object] | None = None) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    body = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects or [user()]}
    (await api.post(f"{RBAC}/namespaces/{api.namespace}/rolebindings", body)).object(201)


@contextlib.asynccontextmanager
async def everywhere(
    api: Speaker, *rules: Object, subjects: list[Object] | None = None
) -> AsyncIterator[str]:
    """A ClusterRole and its ClusterRoleBinding, named after the test's namespace; both go with the
    block.
    """
    name = f"grant-{api.namespace}"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects or [user()]}
    (
        await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
    ).object(201)
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).object(201)
    try:
        yield name
    finally:
        await api.delete(f"{RBAC}/clusterrolebindings/{name}")
        await api.delete(f"{RBAC}/clusterroles/{name}")


async def settled(speaker: Speaker, path: str, status: int = 200) -> None:
    """Waits until a grant has reached the authorizer, which on a real server follows the objects by
    watching.
    """
    for _ in range(50):
        if (await speaker.get(path)).status == status:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} was not answered with {status}")


def refusal(speaker: Speaker, verb: str, resource: str, name: str = "", namespace: str = "") -> str:
    named = f' "{name}"' if name else ""
    where = f'in API group "" in the namespace "{namespace or speaker.namespace}"'
    return (
        f'{resource}{named} is forbidden: User "nobody" cannot {verb} resource "{resource}" {where}'
    )


async def test_a_role_allows_its_verbs_in_its_namespace_only(api: Speaker, nobody: Speaker) -> None:
    await grant(api, "reader", rule("get", "list"))
    await settled(nobody, nobody.url("configmaps"))
    assert (await nobody.get(nobody.url("configmaps", "none"))).status == 404
    answer = await nobody.post(nobody.url("configmaps"), {"metadata": {"name": "a"}})
    answer.refused(403, "Forbidden", refusal(nobody, "create", "configmaps"))
    answer = await nobody.get("/api/v1/namespaces/default/configmaps")
    answer.refused(403, "Forbidden", refusal(nobody, "list", "configmaps", namespace="default"))
    answer = await nobody.get("/api/v1/configmaps")
    assert answer.json["message"].endswith(
        'cannot list resource "configmaps" in API group "" at the cluster scope'
    )


async def test_a_cluster_role_bound_in_a_namespace_holds_there(
    api: Speaker, nobody: Speaker
) -> None:
    name = f"bound-{api.namespace}"
    (
        await api.post(
            f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule("list")]}
        )
    ).object(201)
    await bind(api, name, "ClusterRole")
    await settled(nobody, nobody.url("configmaps"))
    assert (await nobody.get("/api/v1/configmaps")).status == 403
    await api.delete(f"{RBAC}/clusterroles/{name}")


async def test_resource_names_limit_a_rule(api: Speaker, nobody: Speaker) -> None:
    await grant(api, "one", rule("get", "list", "delete", resourceNames=["a"]))
    await api.configmap("a")
    await api.configmap("b")
    await settled(nobody, nobody.url("configmaps", "a"))
    answer = await nobody.get(nobody.url("configmaps", "b"))
    answer.refused(403, "Forbidden", refusal(nobody, "get", "configmaps", "b"))
    answer = await nobody.get(nobody.url("configmaps"))
    answer.refused(403, "Forbidden", refusal(nobody, "list", "configmaps"))
    # A list of one name is a request for that name.
    found = (await nobody.get(nobody.url("configmaps"), fieldSelector="metadata.name=a")).object()
    assert len(found["items"]) == 1
    answer = await nobody.get(nobody.url("configmaps"), fieldSelector="metadata.name=b")
    answer.refused(403, "Forbidden", refusal(nobody, "list", "configmaps", "b"))


async def test_sub_resources_are_granted_by_their_own_names(api: Speaker, nobody: Speaker) -> None:
    await grant(api, "scaler", rule("get", group="apps", resources=("*/scale",)), rule("list"))
    await settled(nobody, nobody.url("configmaps"))
    assert (await nobody.get(nobody.url("deployments", "web", "scale"))).status == 404
    assert (await nobody.get(nobody.url("deployments", "web"))).status == 403
    assert (await nobody.get(nobody.url("deployments", "web", "status"))).status == 403


async def test_groups_and_wildcards_match(api: Speaker, nobody: Speaker) -> None:
    everyone = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Group",
        "name": "system:authenticated",
    }
    await grant(api, "all", rule("*", group="*", resources=("*",)), subjects=[everyone])
    await settled(nobody, nobody.url("configmaps"))
    (await nobody.post(nobody.url("configmaps"), {"metadata": {"name": "a"}})).object(201)
    assert (await nobody.get(nobody.url("deployments"))).status == 200
    assert (await nobody.delete(nobody.url("configmaps"))).status == 200


async def test_a_namespace_belongs_to_itself(api: Speaker, nobody: Speaker) -> None:
    path = f"/api/v1/namespaces/{api.namespace}"
    answer = await nobody.get(path)
    answer.refused(403, "Forbidden", refusal(nobody, "get", "namespaces", api.namespace))
    await grant(api, "namespace", rule("get", resources=("namespaces",)))
    await settled(nobody, path)
    answer = await nobody.get("/api/v1/namespaces")
    assert answer.json["message"].endswith(
        'cannot list resource "namespaces" in API group "" at the cluster scope'
    )


async def test_cluster_roles_allow_everywhere_and_paths_too(api: Speaker, nobody: Speaker) -> None:
    paths = {"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}
    async with everywhere(api, rule("list", resources=("nodes",)), paths):
        await settled(nobody, "/api/v1/nodes")
        assert (await nobody.get("/metrics")).status != 403
        assert (await nobody.get("/logs/a")).status != 403
        assert (await nobody.get("/debug")).status == 403
    await settled(nobody, "/api/v1/nodes", 403)


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
async def test_a_binding_keeps_its_role(api: Speaker, newest: bool, kind: str) -> None:
    group = "rbac.authorization.k8s.io"
    where = (
        f"namespaces/{api.namespace}/rolebindings"
        if kind == "RoleBinding"
        else "clusterrolebindings"
    )
    url, name = f"/apis/{group}/v1/{where}", f"{api.namespace}-keeps"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
    (await api.post(url, {"metadata": {"name": name}, "roleRef": role})).object(201)
    answer = await api.patch(f"{url}/{name}", {"roleRef": {"name": "edit"}}, MERGE)
    (await api.delete(f"{url}/{name}")).object()
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    said = "field is immutable" if newest else "cannot change roleRef"
    assert [(field, text.rpartition(": ")[2]) for _, field, text in answer.causes()] == [
        ("roleRef", said)
    ]


async def test_a_binding_to_a_missing_role_is_named_in_the_refusal(
    api: Speaker, nobody: Speaker, newest: bool
) -> None:
    await bind(api, "ghost", "Role")
    await bind(api, "spectre", "ClusterRole")
    await grant(api, "reader", rule("get"))
    await settled(nobody, nobody.url("configmaps", "none"), 404)
    answer = await nobody.get(nobody.url("configmaps"))
    role, other = (
        f'{kind}.rbac.authorization.k8s.io "{name}" not found'
        for kind, name in (("role", "ghost"), ("clusterrole", "spectre"))
    )
    # A real server names them in the order of its caches, which is no order.
    first, second = (other, role) if answer.json["message"].endswith(f"{role}]") else (role, other)
    who = "rbac: RBAC" if newest else "RBAC"
    answer.refused(
        403, "Forbidden", f"{refusal(nobody, 'list', 'configmaps')}: {who}: [{first}, {second}]"
    )


async def test_reviews_answer_from_the_objects(api: Speaker, nobody: Speaker) -> None:
    await grant(api, "reader", rule("get", "list"))
    await settled(nobody, nobody.url("configmaps"))
    asked = {
        "resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": api.namespace}
    }
    why = f'RBAC: allowed by RoleBinding "reader/{api.namespace}" of Role "reader" to User "nobody"'
    own = (await nobody.post(f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": asked})).object(
        201
    )
    assert own["status"] == {"allowed": True, "reason": why}
    other = (
        await api.post(
            f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": "nobody", **asked}}
        )
    ).object(201)
    assert other["status"] == {"allowed": True, "reason": why}
    asked["resourceAttributes"]["verb"] = "delete"
    other = (
        await api.post(
            f"{AUTHORIZATION}/subjectaccessreviews", {"spec": {"user": "nobody", **asked}}
        )
    ).object(201)
    assert other["status"] == {"allowed": False}


async def test_the_rules_of_a_user_are_listed(api: Speaker, nobody: Speaker) -> None:
    await grant(api, "reader", rule("get", "list", resourceNames=["a"]))
    await settled(nobody, nobody.url("configmaps", "a"), 404)
    body = {"spec": {"namespace": api.namespace}}
    found = (await nobody.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", body)).object(201)[
        "status"
    ]
    assert rule("get", "list", resourceNames=["a"]) in found["resourceRules"]
    reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    assert (
        rule("create", group="authorization.k8s.io", resources=tuple(reviews))
        in found["resourceRules"]
    )
    assert any("/openapi" in one["nonResourceURLs"] for one in found["nonResourceRules"])
    assert found["incomplete"] is False
    (await nobody.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}})).refused(
        400, "BadRequest", "no namespace on request"
    )


async def test_an_administrator_may_act_as_somebody_else(api: Speaker, nobody: Speaker) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    someone = (
        await acting(api, path, {"Impersonate-User": "ann", "Impersonate-Group": "devs"})
    ).object(201)
    assert someone["status"]["userInfo"] == {
        "username": "ann",
        "groups": ["devs", "system:authenticated"],
    }
    name = f"system:serviceaccount:{api.namespace}:robot"
    robot = (await acting(api, path, {"Impersonate-User": name})).object(201)
    groups = [
        "system:serviceaccounts",
        f"system:serviceaccounts:{api.namespace}",
        "system:authenticated",
    ]
    assert robot["status"]["userInfo"] == {"username": name, "groups": groups}
    refused = await acting(nobody, path, {"Impersonate-User": "ann"})
    refused.refused(
        403,
        "Forbidden",
        'selfsubjectreviews.authentication.k8s.io is forbidden: User "nobody" cannot '
        "impersonate-on:user-info:create "
        'resource "selfsubjectreviews" in API group "authentication.k8s.io" at the cluster scope',
    )


async def acting(speaker: Speaker, path: str, headers: dict[str, str]) -> Any:
    """A POST of nothing with more headers."""
    return await speaker.post(path, {}, headers=headers)


async def account(api: Speaker, name: str = "robot") -> Object:
    return (await api.post(api.url("serviceaccounts"), {"metadata": {"name": name}})).object(201)


async def test_a_token_of_a_service_account_lets_it_in_as_itself(api: Speaker, server: Any) -> None:
    made = await account(api)
    asked = {"spec": {"expirationSeconds": 3600}}
    answer = (await api.post(api.url("serviceaccounts", "robot", "token"), asked)).object(201)
    assert (answer["kind"], answer["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert answer["metadata"]["name"] == "robot"
    assert answer["spec"]["expirationSeconds"] == 3600
    assert answer["status"]["expirationTimestamp"] > answer["metadata"]["creationTimestamp"]
    token = answer["status"]["token"]
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    name = f"system:serviceaccount:{api.namespace}:robot"
    assert claims["sub"] == name
    assert claims["kubernetes.io"] == {
        "namespace": api.namespace,
        "serviceaccount": {"name": "robot", "uid": made["metadata"]["uid"]},
    }
    async with server.bearer(token) as transport:
        robot = Speaker(transport, api.namespace)
        who = (await robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).object(
            201
        )
        seen = who["status"]["userInfo"]
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{api.namespace}",
            "system:authenticated",
        ]
        assert (seen["username"], seen["uid"], seen["groups"]) == (
            name,
            made["metadata"]["uid"],
            groups,
        )
        denied = await robot.get(robot.url("configmaps"))
        denied.refused(
            403, "Forbidden", refusal(robot, "list", "configmaps").replace('"nobody"', f'"{name}"')
        )
        await grant(
            api, "reader", rule("list"), subjects=[{"kind": "ServiceAccount", "name": "robot"}]
        )
        await settled(robot, robot.url("configmaps"))


async def test_a_token_is_reviewed(api: Speaker) -> None:
    made = await account(api)
    token = (await api.post(api.url("serviceaccounts", "robot", "token"), {})).object(201)[
        "status"
    ]["token"]
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = (await api.post(path, {"spec": {"token": token}})).object(201)["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{api.namespace}:robot"
    assert status["user"]["uid"] == made["metadata"]["uid"]
    changed = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
    status = (await api.post(path, {"spec": {"token": changed}})).object(201)["status"]
    assert "authenticated" not in status
    assert status["user"] == {}
    await api.delete(api.url("serviceaccounts", "robot"))
    await until_unknown(api, token)


async def until_unknown(api: Speaker, token: str) -> None:
    """Waits until a token counts no more: a real server remembers its answer for some seconds."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    for _ in range(150):
        status = (await api.post(path, {"spec": {"token": token}})).object(201)["status"]
        if "authenticated" not in status:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the token outlived what it was bound to")


async def test_a_token_for_somebody_else_does_not_open_the_server(api: Speaker) -> None:
    await account(api)
    asked = {"spec": {"audiences": ["https://elsewhere.example"]}}
    answer = (await api.post(api.url("serviceaccounts", "robot", "token"), asked)).object(201)
    assert answer["spec"]["audiences"] == ["https://elsewhere.example"]
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    token = answer["status"]["token"]
    status = (await api.post(path, {"spec": {"token": token}})).object(201)["status"]
    assert "authenticated" not in status


async def test_a_review_names_the_pod_and_the_audience_of_a_bound_token(api: Speaker) -> None:
    await account(api)
    containers = [{"name": "main", "image": "none"}]
    body = {
        "metadata": {"name": "web-0"},
        "spec": {
            "serviceAccountName": "robot",
            "automountServiceAccountToken": False,
            "containers": containers,
        },
    }
    pod = (await api.post(api.url("pods"), body)).object(201)["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web-0"}
    asked = {"spec": {"audiences": ["signer", "other"], "boundObjectRef": bound}}
    answer = (await api.post(api.url("serviceaccounts", "robot", "token"), asked)).object(201)
    review = {"token": answer["status"]["token"], "audiences": ["signer", "third"]}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    status = (await api.post(path, {"spec": review})).object(201)["status"]

    assert status["audiences"] == ["signer"]
    extra = status["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["web-0"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [pod["uid"]]
    review["audiences"] = ["third"]
    status = (await api.post(path, {"spec": review})).object(201)["status"]
    assert "authenticated" not in status
    assert status["user"] == {}


async def test_requests_for_tokens_are_checked(api: Speaker) -> None:
    path = api.url("serviceaccounts", "robot", "token")
    (await api.post(path, {})).refused(404, "NotFound", 'serviceaccounts "robot" not found')
    await account(api)
    answer = await api.post(path, {"spec": {"expirationSeconds": 60}})
    answer.refused(
        422,
        "Invalid",
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid '
        "value: 60: may not specify "
        "a duration less than 10 minutes",
    )
    answer = await api.post(
        path, {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "none"}}}
    )
    answer.refused(404, "NotFound", 'secrets "none" not found')
    answer = await api.post(
        path, {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}}
    )
    answer.refused(400, "BadRequest", "cannot bind token to object of type /v1, Kind=ConfigMap")
    answer = await api.post(path, {"metadata": {"name": "other"}})
    answer.refused(
        422,
        "Invalid",
        'TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid '
        'value: "other": must match the '
        "service account name if specified",
    )
    answer = await api.get(path)
    assert answer.status == 405


async def test_a_token_bound_to_an_object_ends_with_it(api: Speaker) -> None:
    await account(api)
    (await api.post(api.url("secrets"), {"metadata": {"name": "s"}})).object(201)
    asked = {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s"}}}
    token = (await api.post(api.url("serviceaccounts", "robot", "token"), asked)).object(201)[
        "status"
    ]["token"]
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert (await api.post(path, {"spec": {"token": token}})).object(201)["status"].get(
        "authenticated"
    ) is True
    await api.delete(api.url("secrets", "s"))
    await until_unknown(api, token)
