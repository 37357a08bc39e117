"""Submissions while things fail: the gateway ends at every write, replies are lost, two gateways
are asked, quota is left for one, the leader changes.
"""

import asyncio
import functools

import pytest

from federator.gateway import records
from federator.kinds import registry
from tests.artifacts.made import policy_object
from tests.faults.links import Cut
from tests.unit.gateway import gating
from tests.unit.gateway.gating import SUBMISSIONS, Deadly, Kept
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World
from tests.worlds import spoken


async def objects(world: World) -> list[str]:
    """KIND/NAME of everything that submissions have made."""
    found = []
    for kind in ("PinterestService", "PinterestJobSet"):
        row = registry.KINDS[kind]
        listing = await world.host.list(row.api_version, row.plural, "ads")
        found += [f"{kind}/{obj['metadata']['name']}" for obj in listing.items]
    return sorted(found)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 5))
def test_a_crash_at_any_write_is_repaired_by_the_same_request(at: int, after: bool) -> None:
    """Two objects: two writes with dryRun, then two that count."""

    async def scenario(world: World) -> None:
        await gating.prepared(world)
        versions = kept()
        deadly = functools.partial(Deadly, at=at, after=after)
        dying = await gating.another(world, versions, process="gateway", wrap=deadly)
        code, _ = await dying.submit("both", RUN, idempotencyKey="k")
        assert code == 500  # as `Killed` shows here: a real process would be gone
        # Meanwhile the tag has moved: what was begun is completed as it was begun.
        begun = bool(await objects(world))
        versions.files["moved"] = versions.files["both"]
        versions.files["both"] = gating.workflow(gating.job("train", 9), name="train")
        if not begun:
            versions.files["both"] = versions.files["moved"]
        door = await gating.another(world, versions, process="gateway-2")

        code, made = await door.submit("both", RUN, idempotencyKey="k")

        assert code in (200, 201), made
        name = records.name_of("PinterestJobSet", "train", made["id"])
        assert await objects(world) == [f"PinterestJobSet/{name}", "PinterestService/board"]
        assert {each["name"] for each in made["objects"]} == {name, "board"}
        again = await door.submit("both", RUN, idempotencyKey="k")
        assert (again[0], again[1]["id"]) == (200, made["id"])
        await asyncio.sleep(60)
        shown = await door.get(f"{RUN}/{made['id']}")
        assert {each["state"] for each in shown["objects"]} == {"Succeeded", "Running"}

    gating.play(scenario)


def test_a_lost_reply_is_found_out_by_the_same_request() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        world.orders.order(
            "lost-reply",
            lambda sending: spoken(sending) == ("gateway", "host", "POST", "pinterestservices"),
        )
        code, problem = await door.submit("v2", idempotencyKey="k")
        assert (code, problem["title"]) == (503, "HostUnavailable")
        assert await objects(world) == ["PinterestService/serving"]

        code, made = await door.submit("v2", idempotencyKey="k")
        assert (code, made["state"]) in ((200, "Pending"), (200, "Placed"), (200, "Running"))
        assert len(await objects(world)) == 1

    gating.play(scenario)


def test_two_gateways_with_one_key_make_one_submission() -> None:
    async def scenario(world: World) -> None:
        await gating.prepared(world)
        versions = kept()
        doors = [await gating.another(world, versions, process=f"gateway-{n}") for n in (1, 2)]
        answers = await asyncio.gather(
            *(door.submit("both", RUN, idempotencyKey="k") for door in doors for _ in range(3))
        )

        assert {code for code, _ in answers} <= {200, 201}
        assert len({made["id"] for _, made in answers}) == 1
        assert len(await objects(world)) == 2

    gating.play(scenario)


def test_two_gateways_with_one_key_and_other_bodies_make_one_of_them() -> None:
    async def scenario(world: World) -> None:
        await gating.prepared(world)
        versions = kept()
        doors = [await gating.another(world, versions, process=f"gateway-{n}") for n in (1, 2)]
        answers = await asyncio.gather(
            doors[0].submit("v1", idempotencyKey="k", parameters={"replicas": 2}),
            doors[1].submit("v1", idempotencyKey="k", parameters={"replicas": 4}),
        )

        assert sorted(code for code, _ in answers) == [201, 409]
        live = await world.get("PinterestService", "ads", "serving")
        assert live is not None
        won = next(made for code, made in answers if code == 201)
        assert live["spec"]["replicas"] == won["parameters"]["replicas"]

    gating.play(scenario)


def test_concurrent_submissions_of_a_service_are_kept_in_some_order() -> None:
    async def scenario(world: World) -> None:
        await gating.prepared(world)
        versions = kept()
        doors = [await gating.another(world, versions, process=f"gateway-{n}") for n in (1, 2)]
        answers = await asyncio.gather(
            *(
                doors[at % 2].submit("v1", idempotencyKey=f"k{at}", parameters={"replicas": at})
                for at in range(1, 5)
            )
        )

        made = {shown["id"] for code, shown in answers if code == 201}
        assert made
        assert {code for code, _ in answers} <= {201, 409}
        listed = await doors[0].get(SUBMISSIONS)
        assert {each["id"] for each in listed["items"]} == made
        assert [each["state"] for each in listed["items"]].count("Superseded") == len(made) - 1

    gating.play(scenario)


def test_of_two_submissions_with_quota_for_one_exactly_one_runs() -> None:
    """F43: two gateways, two policies, one remaining unit."""

    async def scenario(world: World) -> None:
        await gating.prepared(world)
        quota = {"projects": ["ads"], "tiers": {"OnDemand": {"max": {"cpu": "4"}}}}
        await world.create("FederatedQuota", "", "ads", {**quota, "namespaces": ["ads"]})
        spec = policy_object(provenance={"mode": "Off"})["spec"]
        await world.create("SubmissionPolicy", "", "ads-too", spec)
        versions = Kept()
        for name in ("one", "two"):
            job = gating.job(name, 1, cpu="4", suspend=False)
            versions.files[name] = gating.workflow(job, name=name)
        doors = [await gating.another(world, versions, process=f"gateway-{n}") for n in (1, 2)]
        await asyncio.sleep(30)

        answers = await asyncio.gather(
            *(
                door.submit(name, f"/v1/workflows/ads/{name}/submissions")
                for door, name in zip(doors, ("one", "two"), strict=True)
            )
        )

        # A verdict reserves nothing, so both are promised the place; the hub admits one.
        assert [code for code, _ in answers] == [201, 201]
        assert {made["verdict"]["verdict"] for _, made in answers} == {"placed"}
        await asyncio.sleep(1.5)
        placed = [record for record in await world.decisions() if record["spec"]["shares"]]
        assert len(placed) == 1
        code, third = await doors[0].submit("one", "/v1/workflows/ads/one/submissions")
        assert (code, third["verdict"]["verdict"]) == (201, "queued")
        assert third["verdict"]["workloads"][0]["reason"]

    gating.play(scenario)


def test_a_verdict_is_given_by_the_next_leader_when_the_leader_is_gone() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        code, _ = await door.submit("v2", dryRun=True)
        assert code == 200
        leading = next(
            name
            for name, process in world.federation.processes.items()
            if process.state.leading and process.state.ready
        )
        await world.federation.kill(leading)
        asked = asyncio.create_task(door.submit("v2", idempotencyKey="k"))
        code, made = await asked
        while code == 503:  # refused with a time to come back, and nothing stored
            assert made["title"] == "VerdictUnavailable"
            assert await objects(world) == []
            code, made = await door.submit("v2", idempotencyKey="k")
        assert code == 201
        assert made["verdict"]["verdict"] == "placed"

    gating.play(scenario, hubs=2)


def test_a_host_that_is_away_is_a_503_and_nothing_is_stored() -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept())
        await world.cut("host", process="gateway", how=Cut.REFUSED)
        code, problem = await door.submit("v2", idempotencyKey="k")
        assert code == 503
        assert problem["title"] in ("HostUnavailable", "ServiceUnavailable", "VerdictUnavailable")
        world.heal()
        code, _ = await door.submit("v2", idempotencyKey="k")
        assert code == 201

    gating.play(scenario)
