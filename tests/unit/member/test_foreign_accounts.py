"""Nobody comes by a service account of somebody else by choosing a workload's name."""

import asyncio

import pytest

from federator.kube import errors
from federator.model.steps import ObjectRef
from tests.unit.member.memberworld import MemberWorld, condition_of, in_member, service, template


@in_member()
async def test_no_pods_are_made_under_an_account_of_the_name_that_was_there_before(
    world: MemberWorld,
) -> None:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "web", "namespace": "feed"},
    }
    await world.create(account)
    await asyncio.sleep(2)
    await world.create(service(template=template("0.25", serviceAccountName="web")))

    async def told() -> bool:
        return (
            condition_of(await world.get("PinterestService", "web"), "Conflict").get("status")
            == "True"
        )

    await world.until(told)
    found = condition_of(await world.get("PinterestService", "web"), "Conflict")
    assert "ServiceAccount" in found["message"]
    await asyncio.sleep(30)
    with pytest.raises(errors.NotFound):
        await world.get("Deployment", "web")


LISTS = "federation.pinterest.com/service-accounts."


async def list_accounts(world: MemberWorld, **projects: str) -> None:
    """As the hub writes it: what these projects may use in the namespace."""
    said = {f"{LISTS}{project}": text for project, text in projects.items()}
    await world.client.patch(
        ObjectRef("v1", "namespaces", "", "feed"), {"metadata": {"annotations": said}}
    )


@in_member()
async def test_no_pods_are_made_under_an_account_that_the_namespace_does_not_list(
    world: MemberWorld,
) -> None:
    """Decision 0166: a slice is not obeyed for its account, whoever wrote it."""
    await list_accounts(world, feed="front,other", ads="runner")
    await asyncio.sleep(2)
    await world.create(service(template=template("0.25", serviceAccountName="runner")))
    await asyncio.sleep(5)
    found = condition_of(await world.get("PinterestService", "web"), "Expanded")
    assert (found["status"], found["reason"]) == ("False", "ServiceAccountNotAllowed")
    for part in ("is runner", "front,other", "FederatedQuotas"):
        assert part in found["message"]
    assert await world.find("Deployment", "web") is None

    await list_accounts(world, feed="run*")
    await asyncio.sleep(5)
    assert await world.find("Deployment", "web") is not None


@in_member()
async def test_what_runs_under_an_account_that_is_listed_no_more_may_shrink_and_not_change_it(
    world: MemberWorld,
) -> None:
    await list_accounts(world, feed="front")
    await asyncio.sleep(2)
    await world.create(service(replicas=3, template=template("0.25", serviceAccountName="front")))
    await asyncio.sleep(5)
    await list_accounts(world, feed="other")
    await asyncio.sleep(5)
    await world.patch("PinterestService", "web", {"spec": {"replicas": 1}})
    await asyncio.sleep(5)
    assert (await world.get("Deployment", "web"))["spec"]["replicas"] == 1

    changed = {"spec": {"template": {"spec": {"serviceAccountName": "runner"}}}}
    await world.patch("PinterestService", "web", changed)
    await asyncio.sleep(5)
    pod = (await world.get("Deployment", "web"))["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "front"
