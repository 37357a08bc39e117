"""What the status of a FederatedQuota says of what is wrong with it, and that such an account
limits all the same.
"""

import asyncio
from typing import Any

import pytest

from federator.kube import errors
from tests.unit.hub.world import World, play, service


async def valid(world: World, name: str) -> tuple[str, str, str]:
    found = await world.condition("FederatedQuota", "", name, "Valid")
    return found["status"], found["reason"], found["message"]


def limits(cpu: str = "4", **more: str) -> dict[str, Any]:
    return {"OnDemand": {"max": {"cpu": cpu, **more}}}


def test_an_account_says_what_is_wrong_with_it_and_no_longer_when_it_is_put_right() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota",
            "",
            "feed",
            {"projects": ["feed"], "parent": "company", "tiers": limits()},
        )
        await asyncio.sleep(5)
        status, reason, message = await valid(world, "feed")
        assert (status, reason) == ("False", "UnknownParent")
        assert message.startswith("spec.parent is company")

        await world.create("FederatedQuota", "", "company", {})
        await asyncio.sleep(5)
        assert await valid(world, "feed") == ("True", "Valid", "")

        found = await world.get("FederatedQuota", "", "company")
        assert found is not None
        await world.delete("FederatedQuota", "", "company")
        await asyncio.sleep(5)
        assert (await valid(world, "feed"))[1] == "UnknownParent"

    play(scenario)


def test_a_project_in_two_accounts_is_limited_by_both_and_both_say_so() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")}
        )
        await world.create(
            "FederatedQuota", "", "all", {"projects": ["feed", "ads"], "tiers": limits("2")}
        )
        await world.create("PinterestService", "feed", "web", service(10, "500m", project="feed"))
        await world.settle()
        await asyncio.sleep(5)
        assert sum((await world.shares("feed", "web")).values()) == 4
        for name in ("feed", "all"):
            assert (await valid(world, name))[:2] == ("False", "ProjectBoundTwice")

    play(scenario)


def below(cpu: str, **more: str) -> dict[str, Any]:
    fields = {"guaranteed": cpu, **more}
    return {
        "parent": "company",
        "tiers": {"OnDemand": {field: {"cpu": one} for field, one in fields.items()}},
    }


def test_an_account_borrows_what_another_lends_and_leaves_it_what_it_keeps() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "company", {"tiers": {"OnDemand": {"max": {"cpu": "4"}}}}
        )
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], **below("1")})
        await world.create(
            "FederatedQuota", "", "ads", {"projects": ["ads"], **below("2", lendingLimit="500m")}
        )
        await world.create("PinterestService", "feed", "web", service(20, "250m", project="feed"))
        await world.settle()
        await asyncio.sleep(5)
        assert sum((await world.shares("feed", "web")).values()) == 10, (
            "4 cpus without the 1.5 that ads keeps"
        )
        message = (await world.condition("PinterestService", "feed", "web", "Placed"))["message"]
        assert (
            "FederatedQuota company, above feed, allows 4 cpu (spec.tiers.OnDemand.max.cpu)"
            in message
        )

        await world.create("PinterestService", "ads", "page", service(8, "250m", project="ads"))
        await world.settle()
        await asyncio.sleep(5)
        assert sum((await world.shares("ads", "page")).values()) == 6
        rows, waiting = {}, {}
        for name in ("company", "feed", "ads"):
            status = (await world.get("FederatedQuota", "", name) or {})["status"]
            rows[name] = {
                field: one["cpu"] for field, one in status["usage"][0].items() if "cpu" in one
            }
            waiting[name] = status["waiting"]
        assert rows["company"] == {"used": "4", "guaranteed": "3"}
        assert rows["feed"] == {"used": "2500m", "guaranteed": "1", "borrowed": "1500m"}
        assert rows["ads"] == {"used": "1500m", "guaranteed": "2", "lent": "500m"}
        assert waiting == {"company": 2, "feed": 1, "ads": 1}

        await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 4}})
        await world.settle()
        await asyncio.sleep(40)
        await world.settle()
        assert sum((await world.shares("ads", "page")).values()) == 8, "what was lent came back"
        status = (await world.get("FederatedQuota", "", "company") or {})["status"]
        assert "waiting" not in status

    play(scenario)


def test_promises_that_cannot_be_kept_are_told_with_their_figures() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "company", {"tiers": {"OnDemand": {"guaranteed": {"cpu": "9k"}}}}
        )
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], **below("8k")})
        await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], **below("2k")})
        huge = {"OnDemand": {"max": {"cpu": "1e30"}}}
        await world.create("FederatedQuota", "", "huge", {"projects": ["huge"], "tiers": huge})
        await asyncio.sleep(10)
        status, reason, message = await valid(world, "company")
        assert (status, reason) == ("False", "GuaranteesAboveParent")
        assert "is 9k, and 10k is guaranteed below it (ads 2k, feed 8k)" in message
        assert "with 9k here, 9k is guaranteed to all accounts, and the clusters have " in message
        status, reason, message = await valid(world, "huge")
        assert (status, reason) == ("False", "UnreadableAmount")
        assert message.startswith("spec.tiers.OnDemand.max.cpu: 1e30 is larger than anything")

    play(scenario)


def test_a_guarantee_above_the_maximum_that_no_rule_saw_is_told() -> None:
    async def scenario(world: World) -> None:
        tiers = {"OnDemand": {"guaranteed": {"pods": "9"}, "max": {"pods": "4"}}}
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": tiers})
        await world.create("PinterestService", "feed", "web", service(9, "10m", project="feed"))
        await world.settle()
        await asyncio.sleep(5)
        assert sum((await world.shares("feed", "web")).values()) == 4
        assert (await valid(world, "feed"))[:2] == ("False", "GuaranteedAboveMax")

    play(scenario)


def test_a_resource_that_nobody_has_is_named_with_the_one_that_was_meant() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits(memmory="1Gi")}
        )
        await asyncio.sleep(10)
        status, reason, message = await valid(world, "feed")
        assert (status, reason) == ("False", "UnknownResource")
        assert "spec.tiers.OnDemand.max.memmory" in message
        assert "did you mean memory?" in message

    play(scenario)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parent": "feed"}, "an account is not its own parent"),
        (
            {"tiers": {"OnDemand": {"guaranteed": {"cpu": 3}, "max": {"cpu": "2500m"}}}},
            "guaranteed may not be above max",
        ),
        (
            {
                "parent": "all",
                "tiers": {"OnDemand": {"max": {"cpu": 3}, "borrowingLimit": {"cpu": "1"}}},
            },
            "max and borrowingLimit say the same",
        ),
        (
            {"tiers": {"Reserved": {"guaranteed": {"cpu": 3}, "lendingLimit": {"cpu": "1"}}}},
            "borrowingLimit and lendingLimit are for accounts with a parent",
        ),
        ({"tiers": {"OnDemand": {"guaranteed": {"cpu": "-1"}}}}, "guaranteed"),
    ],
)
def test_what_can_be_seen_at_once_is_refused_at_once(spec: dict[str, Any], said: str) -> None:
    async def scenario(world: World) -> None:
        with pytest.raises(errors.Invalid, match=said):
            await world.create("FederatedQuota", "", "feed", spec)
        same = {"OnDemand": {"guaranteed": {"cpu": "3", "memory": "1Gi"}, "max": {"cpu": 3}}}
        await world.create("FederatedQuota", "", "feed", {"parent": "all", "tiers": same})

    play(scenario)


def test_the_first_account_takes_nothing_from_an_unknown_project_and_gives_it_no_more() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(2, "100m", project="nobodys"))
        await world.settle()
        assert (await world.condition("PinterestService", "feed", "web", "QuotaUnlimited"))[
            "status"
        ] == "True"
        await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], "tiers": limits()})
        await asyncio.sleep(5)
        await world.settle()
        refused = await world.condition("PinterestService", "feed", "web", "ProjectRefused")
        assert (refused["status"], refused["reason"]) == ("True", "NotAllowed")
        assert "project nobodys" in refused["message"]
        assert await world.condition("PinterestService", "feed", "web", "QuotaUnlimited") == {}
        assert sum((await world.shares("feed", "web")).values()) == 2

        await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(5)
        assert sum((await world.shares("feed", "web")).values()) == 2
        assert (await world.condition("PinterestService", "feed", "web", "Placed"))[
            "reason"
        ] == "NotAllowed"

        await world.create("FederatedQuota", "", "company", {"unknownProjects": "Allow"})
        await asyncio.sleep(5)
        assert sum((await world.shares("feed", "web")).values()) == 5
        assert await world.condition("PinterestService", "feed", "web", "ProjectRefused") == {}

    play(scenario)


def test_when_the_last_account_is_gone_work_decided_beside_it_is_told_that_nothing_limits_it() -> (
    None
):
    async def scenario(world: World) -> None:
        await world.create("PinterestService", "feed", "web", service(2, "100m", project="nobodys"))
        await world.settle()
        await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], "tiers": limits()})
        await world.settle()
        await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 1}})
        await world.settle()
        assert await world.condition("PinterestService", "feed", "web", "QuotaUnlimited") == {}

        await world.delete("FederatedQuota", "", "ads")
        await world.settle()
        unlimited = await world.condition("PinterestService", "feed", "web", "QuotaUnlimited")
        assert unlimited["status"] == "True"

    play(scenario)


def test_copies_without_requests_are_charged() -> None:
    async def scenario(world: World) -> None:
        account = {"projects": ["feed"], "tiers": limits("1"), "defaultRequests": {"cpu": "250m"}}
        await world.create("FederatedQuota", "", "feed", account)
        bare = service(300, "1m", project="feed")
        del bare["template"]["spec"]["containers"][0]["resources"]
        await world.create("PinterestService", "feed", "web", bare)
        await asyncio.sleep(10)
        assert sum((await world.shares("feed", "web")).values()) == 4
        found = await world.get("FederatedQuota", "", "feed")
        assert found is not None
        assert found["status"]["usage"][0]["used"]["cpu"] == "1"

    play(scenario)


@pytest.mark.parametrize("held_back", [False, True])
def test_what_a_profile_puts_beside_a_copy_is_no_request_of_its_own(held_back: bool) -> None:
    """Else a tenant's own containers would cost nothing wherever operators put sidecars beside
    them; in force, too.
    """

    async def scenario(world: World) -> None:
        container = {"image": "logs:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}
        await world.create(
            "RuntimeProfile",
            "",
            "default",
            {"sidecars": [{"name": "logs", "container": container}]},
        )
        account = {
            "projects": ["feed"],
            "tiers": limits("1"),
            "defaultRequests": {"cpu": "230m", "memory": "48Mi"},
        }
        await world.create("FederatedQuota", "", "feed", account)
        bare = service(300, "1m", project="feed")
        del bare["template"]["spec"]["containers"][0]["resources"]
        await world.create("PinterestService", "feed", "web", bare)
        await asyncio.sleep(10)
        if held_back:
            dear = {"template": service(1, "2")["template"]}
            await world.patch("PinterestService", "feed", "web", {"spec": dear})
            await asyncio.sleep(10)
        assert sum((await world.shares("feed", "web")).values()) == 4
        (decision,) = await world.decisions()
        assert ("inForce" in decision["spec"]) == held_back
        requests = decision["spec"]["charge"]["shape"]["requests"]
        assert (requests["cpu"], requests["memory"]) == ("240m", "64Mi")
        found = await world.get("FederatedQuota", "", "feed")
        assert found is not None
        assert found["status"]["usage"][0]["used"]["cpu"] == "960m"

    play(scenario)


def test_use_in_a_part_of_the_fleet_is_shown_beside_its_limit() -> None:
    async def scenario(world: World) -> None:
        parts = [
            {
                "name": name,
                "selector": {"matchLabels": {"zone": zone}},
                "tiers": {"OnDemand": {"guaranteed": {"cpu": "4"}}},
            }
            for name, zone in (("first", "z-a"), ("second", "z-b"))
        ]
        await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], "domains": parts})
        for name, cluster, count in (("web", "a", 3), ("api", "b", 2)):
            placement = {"clusters": {"names": [cluster]}}
            asked = service(count, "500m", project="ads", placement=placement)
            await world.create("PinterestService", "ads", name, asked)
        await world.settle()
        await asyncio.sleep(30)
        account = await world.get("FederatedQuota", "", "ads")
        assert account is not None
        (row,) = account["status"]["usage"]
        assert row["used"]["cpu"] == "2500m"
        assert (row["used"]["cpu in first"], row["used"]["cpu in second"]) == ("1500m", "1")
        await world.patch("PinterestService", "ads", "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(60)
        account = await world.get("FederatedQuota", "", "ads")
        assert account is not None
        (row,) = account["status"]["usage"]
        assert row["used"]["cpu in first"] == "500m"

    play(scenario)
