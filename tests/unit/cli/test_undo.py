"""What an undo does when the workload is written between its reading and its writing."""

from collections.abc import Mapping
from typing import Any

import pytest

from federator.cli.rollouts import rollout
from federator.cli.rollouts.waiting import Target
from federator.kinds import registry
from federator.kinds.pods.revisions import Revision
from federator.kube.client import Client
from tests.unit.hub.world import World, play, service

KIND = registry.KINDS["PinterestService"]
EARLIER = Revision("r-1", "u", 1, {"template": service(1, cpu="250m")["template"]}, ("", ""))


async def undone(world: World, meanwhile: Mapping[str, Any], subresource: str) -> str:
    """The cpu request after an undo, during which somebody writes this."""
    await world.create("PinterestService", "feed", "web", service(1))
    await world.settle()
    ref = KIND.ref("feed", "web")
    client: Client = world.federation.client("host", "cli")
    obj = await client.get(ref)

    async def write() -> None:
        await world.host.patch(ref, meanwhile, subresource=subresource)

    world.meanwhile("host", "PATCH", "pinterestservices", write, process="cli")
    await rollout._write_back(client, Target(KIND, "web"), obj, EARLIER)
    container = (await client.get(ref))["spec"]["template"]["spec"]["containers"][0]
    return str(container["resources"]["requests"]["cpu"])


def test_a_status_that_is_written_meanwhile_is_nobodys_change() -> None:
    async def scenario(world: World) -> None:
        assert (
            await undone(world, {"status": {"summary": "as the hub writes it"}}, "status") == "250m"
        )

    play(scenario)


@pytest.mark.parametrize(
    "change",
    [{"spec": {"replicas": 2}}, {"metadata": {"annotations": {"why": "mine"}}}],
    ids=["spec", "annotation"],
)
def test_what_somebody_else_wrote_meanwhile_is_not_undone(
    change: dict[str, Any], capsys: Any
) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(SystemExit):
            await undone(world, change, "")
        found = await world.get("PinterestService", "feed", "web")
        assert found is not None
        assert (
            found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            == "500m"
        )

    play(scenario)
    assert "was changed meanwhile, so it was not written" in capsys.readouterr().err
