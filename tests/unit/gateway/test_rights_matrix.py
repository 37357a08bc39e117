"""Tenants, operations and namespaces: the answer follows from the rights on the host alone, for users
of an issuer and for service accounts."""

import json
from typing import Any, Final

import pytest

from tests.unit.gateway import gating
from tests.unit.gateway.gating import Door
from tests.unit.gateway.test_submissions import kept
from tests.unit.hub.world import World
from tests.unit.oidc import issuing
from tests.unit.query import asking

READS: Final = {**gating.RIGHTS, "verbs": ["get", "list"]}
WRITES: Final = {**gating.RIGHTS, "verbs": ["get", "list", "create", "update"]}
TENANTS: Final = ("ads", "ads-reads", "ads-writes", "feed", "nobody")
OPERATIONS: Final = ("dry run", "submit", "list", "get", "cancel")
NAMESPACES: Final = ("ads", "feed", "kube-system")

ALL = {"dry run": 200, "submit": 201, "list": 200, "get": 200, "cancel": 200}
NONE = dict.fromkeys(OPERATIONS, 403)
ALLOWED: Final = {
    ("ads", "ads"): ALL,
    ("feed", "feed"): ALL,
    ("ads-reads", "ads"): {**NONE, "list": 200, "get": 200},
    ("ads-writes", "ads"): {**ALL, "cancel": 403},
}
"""(tenant, namespace) -> status of each operation; 403 for every other pair."""


async def _tokens(world: World, *, impersonated: bool) -> dict[str, str]:
    """Tenant -> token, with the tenant's rights granted."""
    given = {
        "ads": ("ads", gating.RIGHTS),
        "ads-reads": ("ads", READS),
        "ads-writes": ("ads", WRITES),
        "feed": ("feed", gating.RIGHTS),
        "nobody": ("nowhere", gating.RIGHTS),
    }
    tokens, now = {}, int(world.federation.clock.now())
    for tenant, (namespace, rights) in given.items():
        user = f"oidc:{tenant}" if impersonated else f"system:serviceaccount:{namespace}:{tenant}"
        await asking.grant(world, user, namespace, rights)
        tokens[tenant] = (
            issuing.token(sub=tenant, iat=now, exp=now + 3600)
            if impersonated
            else asking.token(user)
        )
    return tokens


async def _status(door: Door, operation: str, namespace: str, identity: str, token: str) -> int:
    path = f"/v1/workflows/{namespace}/serving/submissions"
    if operation in ("dry run", "submit"):
        more: dict[str, Any] = {"dryRun": operation == "dry run"}
        status: int = (await door.submit("v2", path, token=token, **more))[0]
        return status
    method = "DELETE" if operation == "cancel" else "GET"
    one = "" if operation == "list" else f"/{identity}"
    return (await door.ask(method, f"{path}{one}", token=token)).status


@pytest.mark.parametrize("impersonated", [True, False])
def test_every_tenant_may_do_what_its_rights_say_and_nothing_else(impersonated: bool) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), burst=1000)
        tokens = await _tokens(world, impersonated=impersonated)
        host = world.federation.client("host")
        found, expected = {}, {}
        for namespace in NAMESPACES:
            for tenant in TENANTS:
                allowed = ALLOWED.get((tenant, namespace), NONE)
                identity = "0" * 20
                for operation in OPERATIONS:
                    if operation == "get" and allowed["get"] == 200:
                        identity = await _own(door, tokens, namespace)
                    key = tenant, operation, namespace
                    found[key] = await _status(door, operation, namespace, identity, tokens[tenant])
                    expected[key] = allowed[operation]
                listing = await host.list("pinterest.com/v1beta1", "pinterestservices", namespace)
                for obj in listing.items:
                    await world.delete("PinterestService", namespace, obj["metadata"]["name"])
        assert found == expected
        assert len(found) == len(TENANTS) * len(OPERATIONS) * len(NAMESPACES)

    gating.play(scenario)


async def _own(door: Door, tokens: dict[str, str], namespace: str) -> str:
    """The identifier of the present submission of the namespace, made by its owner."""
    path = f"/v1/workflows/{namespace}/serving/submissions"
    listed = await door.ask("GET", path, token=tokens[namespace])
    if b'"items":[]' in listed.body:
        _, made = await door.submit("v2", path, token=tokens[namespace])
        return str(made["id"])
    return str(json.loads(listed.body)["items"][0]["id"])
