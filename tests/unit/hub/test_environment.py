"""What pods are told comes with them: edits around them restart none."""

from typing import Any

from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"


async def deployment(world: World, cluster: str) -> dict[str, Any]:
    found = await world.get("Deployment", "feed", "web", at=cluster)
    assert found is not None
    return found


def told(obj: dict[str, Any]) -> dict[str, str]:
    (container,) = obj["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value", "") for entry in container.get("env", ())}


def test_pods_are_told_where_they_are_and_edits_around_them_restart_none() -> None:
    async def scenario(world: World) -> None:
        account = {"owner": {"team": "company"}, "tiers": {"OnDemand": {"max": {"cpu": "400"}}}}
        await world.create("FederatedQuota", "", "company", account)
        below = {"parent": "company", "projects": ["feed"], "namespaces": ["feed"]}
        await world.create("FederatedQuota", "", "feed", below)
        await world.create(PSVC, "feed", "web", service(6, project="feed"))
        await world.settle()
        first = {cluster: await deployment(world, cluster) for cluster in "abc"}
        for cluster, found in first.items():
            env = told(found)
            assert env["PINTEREST_CLUSTER"] == cluster
            assert env["PINTEREST_ZONE"] == f"z-{cluster}"
            assert (env["PINTEREST_PROJECT"], env["PINTEREST_OWNER"]) == ("feed", "company")
            assert found["metadata"]["labels"]["pinterest.com/owner"] == "company"

        await world.patch("FederatedQuota", "", "feed", {"spec": {"owner": {"team": "feeders"}}})
        await world.patch("MemberCluster", "", "a", {"metadata": {"labels": {"zone": "z-new"}}})
        await world.settle()
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await world.settle()
        for cluster, found in first.items():
            now = await deployment(world, cluster)
            assert now["spec"]["replicas"] == 3
            assert now["spec"]["template"] == found["spec"]["template"]
            assert now["metadata"]["labels"] == found["metadata"]["labels"]

        edit = {"spec": {"config": {"a.properties": "x=1"}}}
        await world.patch(PSVC, "feed", "web", edit)
        await world.settle()
        now = await deployment(world, "a")
        env = told(now)
        assert (env["PINTEREST_ZONE"], env["PINTEREST_OWNER"]) == ("z-new", "feeders")
        assert now["metadata"]["labels"]["pinterest.com/owner"] == "feeders"

    play(scenario)
