"""From a request to a running workload: submit, verdict, objects, status, and the same once more."""

import json

from federator.gateway import records
from tests.unit.gateway import gating
from tests.unit.gateway.gating import SUBMISSIONS, Kept
from tests.unit.hub.world import World


def test_a_submission_gets_a_verdict_and_runs() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world)

        status, made = await door.submit(parameters={"replicas": 3}, idempotencyKey="build-1")

        assert status == 201, made
        assert made["verdict"]["verdict"] == "placed"
        assert made["verdict"]["reserved"] is False
        assert sum(each["copies"] for each in made["verdict"]["workloads"][0]["clusters"]) == 3
        assert made["submittedBy"] == gating.USER
        assert made["parameters"] == {"replicas": 3, "model": "base"}
        await world.settle()
        shown = await door.get(f"{SUBMISSIONS}/{made['id']}")
        assert shown["state"] == "Running"
        assert shown["objects"][0] == {
            "kind": "PinterestService",
            "name": "serving",
            "state": "Running",
            "desired": 3,
            "placed": 3,
            "ready": 3,
            "clusters": shown["objects"][0]["clusters"],
            "message": "",
        }
        shares = await world.shares("ads", "serving")
        said = {each["name"]: each["copies"] for each in made["verdict"]["workloads"][0]["clusters"]}
        assert shares == said

    gating.play(scenario)
