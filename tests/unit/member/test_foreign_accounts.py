"""Nobody comes by a service account of somebody else by choosing a workload's name."""

import asyncio

import pytest

from federator.kube import errors
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
