"""Submissions on pages: the list, those of one workload, and the rights of readers."""

import json

from federator.api.submissions import RECORDS
from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.unit.dashboard.asking import dashboard_of, reader
from tests.unit.hub import world as worlds
from tests.unit.hub.world import World
from tests.unit.query import asking

LIST = {
    "apiGroups": ["pinterest.com"],
    "resources": ["pinterestservices"],
    "verbs": ["get", "list"],
}


async def _submitted(world: World, namespace: str, *ids: str) -> None:
    """A service with these submissions, the newest first."""
    records = [
        {
            "id": each,
            "body": "b",
            "workflow": "serving",
            "artifact": "oci://registry.example/ads/serving",
            "version": "v1",
            "digest": "sha256:1",
            "by": "ci:ci",
            "at": "2026-12-01T03:00:00Z",
            "commit": "c0ffee",
            "branch": "main",
            "verdict": "placed",
        }
        for each in ids
    ]
    kind = registry.KINDS["PinterestService"]
    ref: ObjectRef = kind.ref(namespace, f"web-of-{namespace}")
    await world.create(kind.kind, namespace, ref.name, worlds.service(2))
    annotations = {RECORDS: json.dumps(records)}
    await world.host.patch(ref, {"metadata": {"annotations": annotations}})


def test_readers_see_submissions_of_workloads_that_they_may_list() -> None:
    async def scenario(world: World) -> None:
        await _submitted(world, "feed", "new", "old")
        await _submitted(world, "ads", "other")
        await world.create("PinterestService", "feed", "by-hand", worlds.service(1))
        await world.settle()
        await asking.grant(world, "alice", "feed", LIST)
        async with dashboard_of(world) as dashboard:
            admin, alice = await reader(world, dashboard), await reader(world, dashboard, "alice")

            assert (await admin.json("/submissions"))["paging"]["total"] == 2
            shown = await alice.json("/submissions")
            (row,) = shown["rows"]
            assert (row["id"], row["name"], row["state"]) == ("new", "web-of-feed", "Running")
            assert (row["user"], row["commit"], row["branch"]) == ("ci:ci", "c0ffee", "main")
            assert row["verdict"] == "placed"
            states = {each["name"]: each["options"] for each in shown["filters"]}["state"]
            assert states == [{"value": "Running", "count": 1}]
            assert (await alice.json("/submissions?q=other"))["paging"]["total"] == 0
            assert (await alice.json("/submissions?namespace=ads"))["rows"] == []
            assert (await admin.json("/submissions?state=Failed"))["rows"] == []

            page = await alice.json(row["href"])
            assert [(each["id"], each["state"]) for each in page["submissions"]] == [
                ("new", "Running"),
                ("old", "Superseded"),
            ]
            assert "/submissions?q=new" in (await alice.get(row["href"])).body.decode()

    worlds.play(scenario)
