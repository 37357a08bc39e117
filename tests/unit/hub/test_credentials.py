"""Credentials that change: whatever is wrong with a member, what its Secret says now is what it is
connected with.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from federator.hub.members.reachability import Reachability
from federator.kube import errors
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from federator.sandbox.federation import Federation, ensure
from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
ELSEWHERE = base64.b64encode(b"elsewhere").decode()


class Moving:
    """Members' addresses: where each member is, and what every connection was made for."""

    def __init__(self) -> None:
        self.where: dict[str, str] = {}
        """By MemberCluster: the address its Secret must name to be answered."""
        self.connections: Counter[str] = Counter()


class Line:
    """A transport to one address; nobody answers there once the member is elsewhere."""

    def __init__(self, moving: Moving, name: str, address: str, inner: Transport) -> None:
        self.moving = moving
        self.name = name
        self.address = address
        self.inner = inner

    async def request(self, request: Request) -> Response:
        if self.moving.where.get(self.name, "") != self.address:
            raise errors.Unreachable(f"{self.name} is not at {self.address!r}")
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Moving:
    """From now on what a Secret says under `kubeconfig` is the address that a member is looked for
    at.
    """
    found, connect = Moving(), Federation.connect

    async def connected(
        self: Federation, obj: Mapping[str, Any], secret: Mapping[str, Any], *, process: str = "hub"
    ) -> Transport:
        name = obj["metadata"]["name"]
        found.connections[name] += 1
        address = (secret.get("data") or {}).get("kubeconfig", "")
        return Line(found, name, address, await connect(self, obj, secret, process=process))

    monkeypatch.setattr(Federation, "connect", connected)
    return found


def secret_of(world: World, name: str) -> ObjectRef:
    return ObjectRef(
        "v1", "secrets", world.federation.hub_options.credentials_namespace, name, "Secret"
    )


def reachability_of(world: World, name: str) -> Reachability:
    return world.federation.hub.state.members[name].link.reachability.state


async def make_secret(world: World, name: str, address: str) -> None:
    meta = {"name": name, "namespace": world.federation.hub_options.credentials_namespace}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"kubeconfig": address}}
    await ensure(world.federation.client("host"), body, "secrets")


def test_a_member_that_moved_is_found_again_by_what_its_secret_says_now(moving: Moving) -> None:
    """It does not refuse us at the old address: nobody answers there."""

    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        moving.where["a"] = ELSEWHERE
        await asyncio.sleep(120)
        assert reachability_of(world, "a") is Reachability.UNREACHABLE
        assert moving.connections["a"] == 1  # nothing new to try

        await world.host.patch(secret_of(world, "a"), {"data": {"kubeconfig": ELSEWHERE}})
        await asyncio.sleep(20)
        assert reachability_of(world, "a") is Reachability.LIVE
        await world.settle()

    play(scenario)


@pytest.mark.parametrize("corrected", ["the Secret", "the secretRef"])
def test_a_member_that_joined_with_a_wrong_address_joins_once_that_is_put_right(
    moving: Moving, corrected: str
) -> None:
    async def scenario(world: World) -> None:
        await world.delete("MemberCluster", "", "c")
        world.federation.aliases["late"] = "c"
        moving.where["late"] = ELSEWHERE
        await make_secret(world, "late", base64.b64encode(b"wrong").decode())
        await make_secret(world, "right", ELSEWHERE)
        await world.create(
            "MemberCluster", "", "late", {"credentials": {"secretRef": {"name": "late"}}}
        )
        await asyncio.sleep(60)
        assert reachability_of(world, "late") is Reachability.UNREACHABLE

        if corrected == "the Secret":
            await world.host.patch(secret_of(world, "late"), {"data": {"kubeconfig": ELSEWHERE}})
        else:
            named = {"credentials": {"secretRef": {"name": "right"}}}
            await world.patch("MemberCluster", "", "late", {"spec": named})
        await asyncio.sleep(20)
        assert reachability_of(world, "late") is Reachability.LIVE

    play(scenario)


def test_the_secret_of_a_member_that_answers_is_not_read_again() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        world.reads.clear()
        await asyncio.sleep(120)
        hub = [path for process, _, path in world.reads if process == "hub"]
        assert hub
        assert [path for path in hub if "/secrets" in path] == []

    play(scenario)
