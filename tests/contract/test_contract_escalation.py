"""Nobody grants what they do not hold: writes of roles and bindings by a user with some rights, in
a server's words.
"""

from typing import Any

import pytest

from tests.contract.speaking import Object, Speaker
from tests.contract.test_contract_rbac import RBAC, everywhere, grant, rule, settled

GROUP = "rbac.authorization.k8s.io"
MANAGES = rule(
    "create",
    "update",
    "patch",
    "get",
    group=GROUP,
    resources=("roles", "rolebindings", "clusterroles"),
)


@pytest.fixture
def nobody(api: Speaker, server: Any) -> Speaker:
    """The same namespace, seen by a user who may do nothing but what a test grants."""
    return Speaker(server.nobody, api.namespace)


def lacking(resource: str, name: str, *rules: str) -> str:
    return (
        f'{resource}.{GROUP} "{name}" is forbidden: user "nobody" '
        '(groups=["system:authenticated"]) is attempting to '
        "grant RBAC permissions not currently held:\n" + "\n".join(rules)
    )


def role(name: str, *rules: Object) -> Object:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, kind: str, bound: str) -> Object:
    reference = {"apiGroup": GROUP, "kind": kind, "name": bound}
    subject = {"apiGroup": GROUP, "kind": "User", "name": "somebody"}
    return {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}


async def manager(api: Speaker, nobody: Speaker, *more: Object) -> str:
    """A user who manages roles in the namespace; returns the path of its RBAC objects."""
    await grant(api, "manager", MANAGES, *more)
    path = f"{RBAC}/namespaces/{api.namespace}"
    await settled(nobody, f"{path}/roles/none", 404)
    return path


async def test_a_role_with_rights_that_its_writer_lacks_is_refused(
    api: Speaker, nobody: Speaker
) -> None:
    path = await manager(api, nobody, rule("get"))
    (await nobody.post(f"{path}/roles", role("less", rule("get")))).object(201)
    wanted = role(
        "more",
        rule("get", "list", "watch", resources=("configmaps", "pods")),
        rule("*", resources=("*",)),
    )
    answer = await nobody.post(f"{path}/roles", wanted)
    answer.refused(
        403,
        "Forbidden",
        lacking(
            "roles",
            "more",
            '{APIGroups:[""], Resources:["*"], Verbs:["*"]}',
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["list" "watch"]}',
            '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list" "watch"]}',
        ),
    )
    assert (await api.get(f"{path}/roles/more")).status == 404


async def test_an_edit_of_a_role_is_checked_too(api: Speaker, nobody: Speaker) -> None:
    path = await manager(api, nobody, rule("get", resourceNames=["a"]))
    (await nobody.post(f"{path}/roles", role("r", rule("get", resourceNames=["a"])))).object(201)
    expected = '{APIGroups:[""], Resources:["configmaps"], ResourceNames:["b"], Verbs:["get"]}'
    answer = await nobody.put(f"{path}/roles/r", role("r", rule("get", resourceNames=["a", "b"])))
    answer.refused(403, "Forbidden", lacking("roles", "r", expected))
    answer = await nobody.patch(f"{path}/roles/r", {"rules": [rule("get")]})
    everything = '{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'
    answer.refused(403, "Forbidden", lacking("roles", "r", everything))
    (await nobody.patch(f"{path}/roles/r", {"metadata": {"labels": {"a": "b"}}})).object(200)


async def test_with_escalate_any_role_may_be_written(api: Speaker, nobody: Speaker) -> None:
    path = await manager(api, nobody, rule("escalate", group=GROUP, resources=("roles",)))
    (await nobody.post(f"{path}/roles", role("more", rule("*", resources=("*",))))).object(201)


async def test_a_binding_to_a_role_with_more_rights_is_refused(
    api: Speaker, nobody: Speaker
) -> None:
    path = await manager(api, nobody, rule("get"))
    for name, verbs in (("reader", ("get",)), ("writer", ("get", "create"))):
        (await api.post(f"{path}/roles", role(name, rule(*verbs)))).object(201)
    (await nobody.post(f"{path}/rolebindings", binding("fine", "Role", "reader"))).object(201)
    answer = await nobody.post(f"{path}/rolebindings", binding("more", "Role", "writer"))
    expected = '{APIGroups:[""], Resources:["configmaps"], Verbs:["create"]}'
    answer.refused(403, "Forbidden", lacking("rolebindings", "more", expected))
    answer = await nobody.post(f"{path}/rolebindings", binding("unknown", "Role", "none"))
    answer.refused(404, "NotFound", f'rolebindings.{GROUP} "none" not found')


async def test_with_bind_a_named_role_may_be_bound(api: Speaker, nobody: Speaker) -> None:
    bind = rule("bind", group=GROUP, resources=("roles",), resourceNames=["writer"])
    path = await manager(api, nobody, bind)
    for name in ("writer", "other"):
        (await api.post(f"{path}/roles", role(name, rule("create")))).object(201)
    (await nobody.post(f"{path}/rolebindings", binding("fine", "Role", "writer"))).object(201)
    assert (
        await nobody.post(f"{path}/rolebindings", binding("more", "Role", "other"))
    ).status == 403


async def test_cluster_roles_with_an_aggregation_rule_need_every_right(
    api: Speaker, nobody: Speaker
) -> None:
    async with everywhere(api, MANAGES):
        await settled(nobody, f"{RBAC}/clusterroles/none", 404)
        name = f"collected-{api.namespace}"
        wanted = {
            "metadata": {"name": name},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        }
        answer = await nobody.post(f"{RBAC}/clusterroles", wanted)
        why = "must have cluster-admin privileges to use the aggregationRule"
        answer.refused(403, "Forbidden", f'clusterroles.{GROUP} "{name}" is forbidden: {why}')
        answer = await nobody.post(
            f"{RBAC}/clusterroles", role(name, {"nonResourceURLs": ["/x", "/y"], "verbs": ["get"]})
        )
        answer.refused(
            403,
            "Forbidden",
            lacking(
                "clusterroles",
                name,
                '{NonResourceURLs:["/x"], Verbs:["get"]}',
                '{NonResourceURLs:["/y"], Verbs:["get"]}',
            ),
        )
