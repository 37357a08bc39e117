"""Members that come back from the past: met anew, and freed of slices whose workloads are proven to
be deleted.
"""

import asyncio
import json
from typing import Any

from federator.hub.records.tombstones import ANNOTATION, KEPT, Tombstones
from federator.kinds import registry
from tests.unit.hub.world import World, jobset, play, service

PSVC = "PinterestService"
EVERYWHERE = {"division": {"strategy": "Spread"}}


async def spread(world: World, name: str) -> None:
    """A service with two copies in each of the members a, b and c."""
    await world.create(PSVC, "feed", name, service(6, placement=EVERYWHERE))


async def comes_back(world: World, before: dict[str, Any], member: str, **mark: str) -> None:
    """The slice is there again as it was, as far as the API lets a hand do that."""
    meta = {name: before["metadata"][name] for name in ("name", "namespace", "labels")}
    block = {**before["spec"]["slice"], **mark}
    body = {**before, "metadata": meta, "spec": {**before["spec"], "slice": block}}
    body.pop("status", None)
    await world.member(member).create(registry.KINDS[PSVC].ref("feed", meta["name"]), body)


async def slice_in(world: World, member: str, name: str) -> dict[str, Any] | None:
    return await world.get(PSVC, "feed", name, at=member)


async def buried(world: World) -> dict[str, Any]:
    """A service is made, spread and deleted; its slice in b as it was."""
    await spread(world, "web")
    await world.settle()
    before = await slice_in(world, "b", "web")
    assert before is not None
    await world.delete(PSVC, "feed", "web")
    await asyncio.sleep(10)  # its slices stand until their pods have ended
    await world.settle()
    return before


def test_a_slice_that_comes_back_is_removed_when_its_workload_is_known_to_be_deleted() -> None:
    async def scenario(world: World) -> None:
        before = await buried(world)
        assert await slice_in(world, "b", "web") is None
        await comes_back(world, before, "b")
        await asyncio.sleep(10)
        assert await slice_in(world, "b", "web") is None

    play(scenario)


def test_a_slice_of_which_the_host_knows_nothing_is_left_alone() -> None:
    """The host may have been restored to a time before the workload: that it knows nothing proves
    nothing.
    """

    async def scenario(world: World) -> None:
        before = await buried(world)
        await comes_back(world, before, "b", workloadUID="somebody-unknown")
        await asyncio.sleep(120)
        assert await slice_in(world, "b", "web") is not None

    play(scenario)


def test_the_slice_of_a_deleted_workload_makes_room_for_the_one_of_its_successor() -> None:
    async def scenario(world: World) -> None:
        before = await buried(world)
        await world.cut("b")
        await comes_back(world, before, "b")
        await spread(world, "web")
        world.heal()
        await world.settle()
        found, workload = await slice_in(world, "b", "web"), await world.get(PSVC, "feed", "web")
        assert found is not None
        assert workload is not None
        assert found["spec"]["slice"]["workloadUID"] == workload["metadata"]["uid"]

    play(scenario)


def test_a_member_that_went_back_in_time_is_met_anew_and_served_on() -> None:
    async def scenario(world: World) -> None:
        await spread(world, "web")
        await world.settle()
        hub = world.federation.hub
        before = hub.state.members["b"]
        before.on_rewind(before)
        assert hub.state.members["b"] is not before
        assert not hub.state.members["b"].heard
        await asyncio.sleep(30)
        assert hub.state.members["b"].heard
        written = world.count()
        await asyncio.sleep(60)
        assert world.count() == written
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 12}})
        await world.settle()
        found = await slice_in(world, "b", "web")
        assert found is not None
        assert found["spec"]["replicas"] == 4
        events = (await world.host.list("events.k8s.io/v1", "events")).items
        assert [
            one["regarding"]["name"] for one in events if one["reason"] == "MemberWentBack"
        ] == ["b"]

    play(scenario)


def test_tombs_keep_the_newest_and_what_one_leader_knew_reaches_the_next() -> None:
    first, second = Tombstones(), Tombstones()
    assert first.notes() == {}
    for number in range(KEPT + 2):
        first.add(f"uid-{number}")
    second.add("own")
    second.inherit(first.notes())
    assert "uid-0" not in first
    assert f"uid-{KEPT + 1}" in second
    assert "own" in second
    assert len(second.notes()[ANNOTATION].split(",")) == KEPT


def test_tombs_take_no_more_from_a_lease_than_a_uid() -> None:
    tombstones = Tombstones()
    for text in ("", ",,", "x" * 65):
        tombstones.inherit({ANNOTATION: text})
    tombstones.add("a,b")
    assert tombstones.notes() == {}


def test_a_status_is_written_when_the_kind_is_served_again_though_the_slice_is_the_same() -> None:
    async def scenario(world: World) -> None:
        not_served = (404, b"404 page not found\n")
        world.answer("a", "/pinterestservices/web/status", *not_served, process="member-a")
        world.answer("host", "/pinterestservices/page/status", *not_served)
        await world.create("PinterestService", "feed", "web", service(3))
        await world.create("PinterestService", "feed", "page", service(3))
        await asyncio.sleep(60)
        world.clear()
        await world.settle()
        for name in ("web", "page"):
            found = await world.get("PinterestService", "feed", name)
            assert found is not None
            assert found["status"]["ready"] == 3

    play(scenario)


def test_a_job_set_made_again_under_its_name_runs_every_shard_whatever_was_done_before() -> None:
    async def scenario(world: World) -> None:
        await world.create("PinterestJobSet", "feed", "index", jobset(6, 3))
        await asyncio.sleep(60)
        first = await world.get("PinterestJobSet", "feed", "index")
        assert first is not None
        assert first["status"]["done"] == 6
        await world.cut("b")
        await world.delete("PinterestJobSet", "feed", "index")
        await world.create("PinterestJobSet", "feed", "index", jobset(6, 3))
        await asyncio.sleep(1)
        again = await world.get("PinterestJobSet", "feed", "index")
        assert again is not None
        assert (again.get("status") or {}).get("completedIndexes", "") == ""

        world.heal()
        await asyncio.sleep(120)
        last = await world.get("PinterestJobSet", "feed", "index")
        assert last is not None
        assert last["status"]["done"] == 6
        (decision,) = await world.decisions()
        assert decision["spec"]["placed"] == 6

    play(scenario)


def test_a_late_answer_does_not_bring_an_older_member_cluster_back() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(5)
        state = world.federation.hub.state
        member = state.members["b"]
        answer = member.obj
        await world.host.patch(
            registry.KINDS["MemberCluster"].ref("", "b"), {"metadata": {"labels": {"zone": "z-9"}}}
        )
        await asyncio.sleep(1)
        state.observe_member(member, answer)
        assert member.obj["metadata"]["labels"]["zone"] == "z-9"

    play(scenario)


def test_a_hub_that_is_told_of_no_decisions_does_not_write_that_nothing_is_placed() -> None:
    """Lists may be older than what they are lists of, of decisions and of slices at the same time
    (F11).
    """

    def empty(group: str, version: str, kind: str) -> tuple[int, bytes]:
        found = {
            "apiVersion": f"{group}/{version}",
            "kind": f"{kind}List",
            "metadata": {"resourceVersion": "1"},
        }
        return 200, json.dumps({**found, "items": []}).encode()

    async def scenario(world: World) -> None:
        await spread(world, "web")
        await world.settle()
        await world.federation.kill("hub")
        old = empty("federation.pinterest.com", "v1alpha1", "PlacementDecision")
        world.answer("host", "v1alpha1/placementdecisions", *old)
        for member in "abc":
            world.answer(
                member, "v1beta1/pinterestservices", *empty("pinterest.com", "v1beta1", PSVC)
            )
        world.federation.start_hub()
        await asyncio.sleep(30)
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["placed"] == 6
        assert {row["cluster"] for row in found["status"]["clusterStatuses"]} == {"a", "b", "c"}
        world.clear()
        await world.settle()
        assert set(await world.shares("feed", "web")) == {"a", "b", "c"}

    play(scenario)
