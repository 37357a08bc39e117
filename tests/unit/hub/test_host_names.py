"""Host names of doors from outside: the first claim wins across namespaces, and accounts limit what
their projects may open.
"""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
PAY = "pay.example"


def door(host: str | None, **front: Any) -> dict[str, Any]:
    """A service with a door for a host; None for every host."""
    made = service(3)
    made["service"] = {"ports": [{"port": 80}], **front}
    made["loadBalancers"] = [{"port": 80, **({"host": host} if host else {})}]
    return made


async def placed(world: World, namespace: str, name: str) -> tuple[str, str]:
    found = await world.condition(PSVC, namespace, name, "Placed")
    return found["status"], found["message"]


async def check_refused(world: World, namespace: str, name: str, words: str) -> None:
    status, message = await placed(world, namespace, name)
    assert status == "False"
    assert words in message


async def restart(world: World) -> None:
    await world.federation.kill("hub")
    world.federation.start_hub()
    await asyncio.sleep(60)


TAKEN = "which a workload of another namespace had first; choose another name"


@pytest.mark.parametrize("host", [PAY, None], ids=["a name", "every host"])
def test_a_host_name_belongs_to_the_namespace_that_has_it_first(host: str | None) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "pay", "first", door(host))
        await asyncio.sleep(5)
        await world.create(PSVC, "evil", "second", door(host))
        await world.create(PSVC, "pay", "beside", door(host))
        await asyncio.sleep(30)
        for _ in range(2):
            assert (await placed(world, "pay", "first"))[0] == "True"
            assert (await placed(world, "pay", "beside"))[0] == "True"
            await check_refused(world, "evil", "second", TAKEN)
            assert (await placed(world, "evil", "second"))[1].startswith(
                "spec.loadBalancers[0].host: is "
            )
            assert "pay/" not in (await placed(world, "evil", "second"))[1]
            assert not await world.shares("evil", "second")
            await restart(world)

        await world.delete(PSVC, "pay", "first")
        await world.delete(PSVC, "pay", "beside")
        await asyncio.sleep(60)
        assert (await placed(world, "evil", "second"))[0] == "True"

    play(scenario)


@pytest.mark.parametrize(
    ("first", "second"), [("*.example", PAY), (PAY, "*.example")], ids=["wildcard", "name"]
)
def test_a_name_that_a_wildcard_of_another_namespace_covers_is_refused(
    first: str, second: str
) -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "pay", "first", door(first))
        await asyncio.sleep(5)
        await world.create(PSVC, "evil", "second", door(second))
        await asyncio.sleep(30)
        words = f"[0].host: is {second}, which overlaps {first}, which a workload of another"
        await check_refused(world, "evil", "second", words)
        await world.create(PSVC, "pay", "beside", door(second))
        await asyncio.sleep(30)
        for _ in range(2):
            assert (await placed(world, "pay", "first"))[0] == "True"
            assert (await placed(world, "pay", "beside"))[0] == "True"
            await check_refused(world, "evil", "second", TAKEN)
            await restart(world)
        await world.delete(PSVC, "pay", "beside")
        await world.delete(PSVC, "pay", "first")
        await asyncio.sleep(60)
        assert (await placed(world, "evil", "second"))[0] == "True"

    play(scenario)


def test_a_name_is_free_again_although_who_may_not_have_it_asked_first() -> None:
    """Both are refused while a third one has the name; then the one that may have it gets it."""

    async def scenario(world: World) -> None:
        account = {"projects": ["evil"], "namespaces": ["evil"], "hosts": ["*.evil.example"]}
        await world.create("FederatedQuota", "", "evil", account)
        for name in ("pay", "shop"):
            await world.create(
                "FederatedQuota", "", name, {"projects": [name], "namespaces": [name]}
            )
        await asyncio.sleep(2)
        for namespace in ("pay", "evil", "shop"):
            await world.create(PSVC, namespace, "web", door(PAY))
            await asyncio.sleep(10)
        await check_refused(world, "shop", "web", TAKEN)
        await world.delete(PSVC, "pay", "web")
        await asyncio.sleep(60)
        assert (await placed(world, "shop", "web"))[0] == "True"
        await check_refused(world, "evil", "web", "(spec.hosts)")

    play(scenario)


def test_an_older_workload_does_not_take_a_name_by_an_edit() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "evil", "old", door("old.example"))
        await asyncio.sleep(20)
        await world.create(PSVC, "pay", "web", door(PAY))
        await asyncio.sleep(20)
        await world.patch(
            PSVC, "evil", "old", {"spec": {"loadBalancers": door(PAY)["loadBalancers"]}}
        )
        await asyncio.sleep(30)
        for _ in range(2):
            assert (await placed(world, "pay", "web"))[0] == "True"
            await check_refused(world, "evil", "old", TAKEN)
            assert sum((await world.shares("evil", "old")).values()) == 3, "what runs stays"
            await restart(world)

    play(scenario)


def test_an_older_workload_does_not_take_a_name_by_an_edit_while_no_hub_runs() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "evil", "old", door("old.example"))
        await asyncio.sleep(20)
        await world.create(PSVC, "pay", "web", door(PAY))
        await asyncio.sleep(20)
        await world.federation.kill("hub")
        await world.patch(
            PSVC, "evil", "old", {"spec": {"loadBalancers": door(PAY)["loadBalancers"]}}
        )
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert (await placed(world, "pay", "web"))[0] == "True"
        await check_refused(world, "evil", "old", TAKEN)

    play(scenario)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        (door("pay.other.example"), "spec.loadBalancers[0].host: is pay.other.example; FederatedQuota"
         " feed allows its projects only *.feed.example (spec.hosts)"),
        (door(None), "spec.loadBalancers[0].host: is *; FederatedQuota feed"),
        (door("a.feed.example", annotations={"cloud.example/whitelist": "0.0.0.0/0"}),
         "spec.service.annotations: is cloud.example/whitelist; FederatedQuota feed allows its"
         " projects only example.com/* (spec.serviceAnnotations)"),
        (door("a.feed.example", type="LoadBalancer"), "spec.service.type: is LoadBalancer;"
         " FederatedQuota feed allows its projects none (spec.serviceTypes)"),
    ],
    ids=["host", "every host", "annotation", "type"],
)  # fmt: skip
def test_an_account_limits_what_its_projects_open(spec: dict[str, Any], rule: str) -> None:
    async def scenario(world: World) -> None:
        lists = {"hosts": ["*.feed.example"], "serviceAnnotations": ["example.com/*"]}
        account = {"projects": ["feed"], "namespaces": ["feed"], **lists, "serviceTypes": []}
        await world.create("FederatedQuota", "", "feed", account)
        await asyncio.sleep(2)
        good = door("a.feed.example", annotations={"example.com/team": "feed"})
        await world.create(PSVC, "feed", "good", good)
        await world.create(PSVC, "feed", "bad", spec)
        await asyncio.sleep(30)
        assert (await placed(world, "feed", "good"))[0] == "True"
        await check_refused(world, "feed", "bad", rule)

    play(scenario)


def test_who_asks_for_a_name_that_it_may_not_have_keeps_nobody_from_it() -> None:
    async def scenario(world: World) -> None:
        for name, hosts in (("evil", ["*.evil.example"]), ("pay", [PAY])):
            account = {"projects": [name], "namespaces": [name], "hosts": hosts}
            await world.create("FederatedQuota", "", name, account)
        await asyncio.sleep(2)
        await world.create(PSVC, "evil", "squatter", door(PAY))
        await asyncio.sleep(20)
        await world.create(PSVC, "pay", "web", door(PAY))
        await asyncio.sleep(30)
        assert (await placed(world, "pay", "web"))[0] == "True"
        await check_refused(world, "evil", "squatter", "(spec.hosts)")

    play(scenario)
