"""`kubectl delete mc` cannot be cancelled, so the admission policy federator-clusters refuses it for
a cluster that holds copies. The fixes that the refusal names are tried.
"""

import asyncio
from typing import Any

import pytest

from federator.api.membercluster import Removal
from federator.cli.clusters import removal
from federator.hub.options import HubOptions
from federator.kube import errors
from federator.model.names import REMOVAL_ANNOTATION
from federator.model.steps import ObjectRef
from tests.unit.deploy import manifests
from tests.unit.hub.world import World, play, service, small_fleet

PSVC, CLUSTER = "PinterestService", "MemberCluster"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
COPIED_S = 45.0
"""After so many seconds `status.slices` shows what a cluster holds."""


async def guarded(world: World, copies: int = 12, **asked: Any) -> None:
    """A federation with a service and with the policy of deploy/host/access."""
    for obj in manifests.of_kind(manifests.written(), *PLURALS):
        if obj["metadata"]["name"] == "federator-clusters":
            plural = PLURALS[obj["kind"]]
            ref = ObjectRef(obj["apiVersion"], plural, "", "federator-clusters", obj["kind"])
            await world.host.create(ref, dict(obj))
    await world.create(PSVC, "feed", "web", service(copies, **asked))
    await world.settle()
    await asyncio.sleep(COPIED_S)


async def refusal(world: World, name: str = "a") -> str:
    with pytest.raises(errors.Denied) as refused:
        await world.delete(CLUSTER, "", name)
    obj = await world.get(CLUSTER, "", name) or {}
    assert "deletionTimestamp" not in obj["metadata"]
    return str(refused.value)


async def is_gone(world: World, name: str = "a") -> bool:
    await asyncio.sleep(120)
    return await world.get(CLUSTER, "", name) is None


def test_a_deletion_is_refused_while_copies_are_there_and_the_named_removal_works() -> None:
    async def scenario(world: World) -> None:
        await guarded(world)
        said = await refusal(world)
        assert '"a" is forbidden: ' in said
        assert "MemberCluster a holds slices of workloads (status.slices: 1)" in said
        assert "Run `federator cluster remove a`" in said
        await removal.drain(world.host, await removal.find(world.host, "a"), force=False)
        assert await is_gone(world)
        assert sum((await world.shares("feed", "web")).values()) == 12

    play(scenario)


def test_a_deletion_is_accepted_while_a_drain_found_a_place_for_every_copy() -> None:
    async def scenario(world: World) -> None:
        await guarded(world, 40, cpu="100m")
        await world.patch(CLUSTER, "", "a", {"spec": {"drain": {}}})
        await asyncio.sleep(10)
        assert (await world.shares("feed", "web"))["a"] > 0
        await world.patch(CLUSTER, "", "a", {"spec": {"cordoned": True}})
        assert "federator cluster remove a" in await refusal(
            world
        )  # the condition speaks of before
        await asyncio.sleep(10)
        await world.delete(CLUSTER, "", "a")
        await world.delete(CLUSTER, "", "a")  # a second one changes nothing

    play(scenario, options=HubOptions(evacuated_copies_a_minute=12))


@pytest.mark.parametrize("drain", [{}, {"force": True}])
def test_a_deletion_is_refused_when_a_drain_leaves_copies_and_the_annotation_forces_it(
    drain: dict[str, Any],
) -> None:
    async def scenario(world: World) -> None:
        await guarded(world, 24, cpu="2")  # 16 fit in each cluster
        await world.patch(CLUSTER, "", "a", {"spec": {"drain": drain}})
        await asyncio.sleep(30)
        said = await refusal(world)
        assert f"kubectl annotate mc a {REMOVAL_ANNOTATION}=Empty" in said
        mark = {"metadata": {"annotations": {REMOVAL_ANNOTATION: "Empty"}}}
        await world.patch(CLUSTER, "", "a", mark)
        await world.delete(CLUSTER, "", "a")
        await asyncio.sleep(60)
        told = await world.condition(CLUSTER, "", "a", "Removing")
        assert told["reason"] == "NowhereToGo"
        assert "PinterestService/feed/web" in told["message"]

    play(scenario, fleet=small_fleet(2))


@pytest.mark.parametrize("how", [Removal.ORPHAN, Removal.LOST])
def test_a_cluster_that_is_let_go_is_not_refused(how: Removal) -> None:
    async def scenario(world: World) -> None:
        await guarded(world)
        if how is Removal.LOST:
            await world.cut("a")
            await asyncio.sleep(90)
        await refusal(world)
        await removal.ask(world.host, await removal.find(world.host, "a"), how)
        assert await is_gone(world)

    play(scenario)


def test_a_cluster_that_holds_nothing_is_deleted() -> None:
    async def scenario(world: World) -> None:
        await guarded(world, 0)
        await world.delete(CLUSTER, "", "a")
        assert await is_gone(world)

    play(scenario)
