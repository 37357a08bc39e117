"""What `federator wait` takes for a failure, and how its errors go on."""

import asyncio
from typing import Any

import pytest

from federator.cli.rollouts import wait, waiting
from federator.kinds import registry
from tests.unit.hub.world import World, play, service

KIND = registry.KINDS["PinterestService"]
WEB = waiting.Target(KIND, "web")


def limits(cpu: str) -> dict[str, Any]:
    return {"projects": ["feed"], "tiers": {"OnDemand": {"max": {"cpu": cpu}}}}


async def refused(world: World) -> None:
    """A service of 3 CPUs, whose account has 1 of them."""
    await world.create("FederatedQuota", "", "feed", limits("1"))
    await world.create(KIND.kind, "feed", "web", service(6, "500m", project="feed"))
    await world.settle()
    stalled = await world.condition(KIND.kind, "feed", "web", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "ExceedsMaxQuota")


async def waited(world: World, timeout_s: float = 300.0) -> bool:
    client = world.federation.client("host", "cli")
    return await wait.reached(client, [WEB], "feed", "ready", timeout_s)


@pytest.mark.parametrize(
    "edit",
    [
        ("FederatedQuota", "", "feed", {"spec": limits("8")}),
        (KIND.kind, "feed", "web", {"spec": {"replicas": 2}}),
    ],
    ids=["the quota", "the spec"],
)
def test_a_refusal_older_than_the_edit_that_lifts_it_is_no_failure(
    edit: tuple[str, str, str, dict[str, Any]], capsys: Any
) -> None:
    async def scenario(world: World) -> None:
        await refused(world)
        await world.patch(*edit)
        assert await waited(world)

    play(scenario)
    out, err = capsys.readouterr()
    assert (out, err) == ("pinterestservice.pinterest.com/web ready condition met\n", "")


def test_a_refusal_that_lasts_is_a_failure_with_the_command_that_prints_fixes(capsys: Any) -> None:
    async def scenario(world: World) -> None:
        await refused(world)
        began_s = asyncio.get_running_loop().time()
        assert not await waited(world)
        took_s = asyncio.get_running_loop().time() - began_s
        assert waiting.REFUSED_S <= took_s <= waiting.REFUSED_S + 2 * waiting.LOOK_S

    play(scenario)
    err = capsys.readouterr().err
    assert err.startswith('error: psvc "web" is stalled: ExceedsMaxQuota: ')
    assert err.endswith("2 fit; `federator explain psvc/web -n feed` prints fixes\n")


def test_one_look_takes_a_refusal_as_it_is(capsys: Any) -> None:
    async def scenario(world: World) -> None:
        await refused(world)
        assert not await waited(world, 0.0)

    play(scenario)
    assert "is stalled: ExceedsMaxQuota" in capsys.readouterr().err
