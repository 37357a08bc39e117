"""A guarantee that was lent comes back: in the running hub, both sides told."""

import asyncio
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.hub.records import workloads
from federator.model import shards
from tests.unit.hub.test_edits import cpu_in_members
from tests.unit.hub.test_training_jobs import training
from tests.unit.hub.world import World, jobset, play, service, small_fleet

TIERS = ("OnDemand", "Preemptible")


def below(cpu: str, project: str, **more: Any) -> dict[str, Any]:
    tiers = {key: {"guaranteed": {"cpu": cpu}} for key in TIERS}
    return {"parent": "company", "projects": [project], "tiers": tiers, **more}


def test_a_lent_guarantee_comes_back_copy_by_copy_and_both_sides_are_told() -> None:
    async def scenario(world: World) -> None:
        total = {"tiers": {"OnDemand": {"guaranteed": {"cpu": "4"}}}}
        await world.create("FederatedQuota", "", "company", total)
        await world.create("FederatedQuota", "", "ads", below("2", "ads"))
        rules = {"preemption": {"reclaim": "Any"}}
        await world.create("FederatedQuota", "", "feed", below("2", "feed", **rules))
        await world.create("PinterestService", "ads", "web", service(8, "500m", project="ads"))
        await world.settle()
        assert sum((await world.shares("ads", "web")).values()) == 8, "ads has borrowed 2 cpu"

        await world.create("PinterestService", "feed", "api", service(2, "500m", project="feed"))
        await asyncio.sleep(60)
        await world.settle()

        assert sum((await world.shares("feed", "api")).values()) == 2
        assert sum((await world.shares("ads", "web")).values()) == 6, "no more than is needed"
        placed = await world.condition("PinterestService", "ads", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "Preempted")
        assert "2 copies left for PinterestService/feed/api of project feed" in placed["message"]

    play(scenario)


def test_for_an_edit_within_the_guarantee_others_leave_and_the_edit_is_rolled_out() -> None:
    async def scenario(world: World) -> None:
        await tree(world, reclaimNoticeSeconds=30)
        await world.create("PinterestService", "feed", "api", service(2, "1", project="feed"))
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        assert sum((await world.shares("ads", "web")).values()) == 6, "ads has borrowed 2 cpu"

        larger = {"spec": {"template": service(2, "2", project="feed")["template"]}}
        await world.patch("PinterestService", "feed", "api", larger)
        await asyncio.sleep(10)
        placed = await world.condition("PinterestService", "feed", "api", "Placed")
        assert placed["reason"] == "QuotaExceeded"
        assert "generation 2 asks for 4 cpu of project feed" in placed["message"]
        assert "takes what it lacks for it from others: 1 workload leaves" in placed["message"]
        assert "after their notice" in placed["message"]
        warned = await world.condition("PinterestService", "ads", "web", "Reclaiming")
        assert warned["status"] == "True"
        assert "2 copies leave for PinterestService/feed/api" in warned["message"]
        assert sum((await world.shares("ads", "web")).values()) == 6

        await asyncio.sleep(90)
        await world.settle()
        assert sum((await world.shares("ads", "web")).values()) == 4
        assert "2 copies left for PinterestService/feed/api" in await told(
            world, "PinterestService", "web"
        )
        assert await cpu_in_members(world, "api") == {
            name: (copies, "2")
            for name, (copies, _) in (await cpu_in_members(world, "api")).items()
        }
        placed = await world.condition("PinterestService", "feed", "api", "Placed")
        assert placed["status"] == "True"
        assert all("inForce" not in one["spec"] for one in await world.decisions())

    play(scenario)


async def tree(world: World, **more: Any) -> None:
    """company has 8 cpus; ads and feed are guaranteed 4 each, and feed takes what is its own
    back."""
    total = {"tiers": {key: {"guaranteed": {"cpu": "8"}} for key in TIERS}}
    await world.create("FederatedQuota", "", "company", total)
    await world.create("FederatedQuota", "", "ads", below("4", "ads"))
    rules = {"preemption": {"reclaim": "Any"}, **more}
    await world.create("FederatedQuota", "", "feed", below("4", "feed", **rules))


async def come_back(world: World, cpus: int) -> None:
    """feed asks for so much of what is guaranteed to it."""
    await world.create("PinterestService", "feed", "api", service(cpus, "1", project="feed"))
    await asyncio.sleep(90)
    assert sum((await world.shares("feed", "api")).values()) == cpus


async def told(world: World, kind: str, name: str) -> str:
    placed = await world.condition(kind, "ads", name, "Placed")
    assert (placed["status"], placed["reason"]) == ("False", "Preempted"), placed
    return str(placed["message"])


@pytest.mark.long
def test_of_a_job_set_shards_leave_one_by_one_and_what_is_done_stays_done() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        fast = {"embedded.federator/run-seconds": "120"}
        await world.create(
            "PinterestJobSet", "ads", "job", {**jobset(20, 8, "1", fast), "project": "ads"}
        )
        await asyncio.sleep(130)
        before = await world.get("PinterestJobSet", "ads", "job")
        assert before is not None
        done = before["status"]["completedIndexes"]
        assert shards.size(workloads.read_ranges(done)) == 8
        assert sum((await world.slots("ads", "job")).values()) == 8, "ads has borrowed 4 cpu"

        await come_back(world, 3)

        assert sum((await world.slots("ads", "job")).values()) == 5
        assert "3 copies left for PinterestService/feed/api" in await told(
            world, "PinterestJobSet", "job"
        )
        assert len([pod for pod in await pods(world, "ads") if running(pod)]) == 5
        await asyncio.sleep(600)
        after = await world.get("PinterestJobSet", "ads", "job")
        assert after is not None
        assert after["status"]["completedIndexes"] == "0-19"

    play(scenario)


def test_a_gang_leaves_as_a_whole_and_comes_back_as_a_whole() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        await world.create(
            "PinterestTrainingJob", "ads", "ranker", training(5, "1", 600, project="ads")
        )
        await asyncio.sleep(20)
        assert len([pod for pod in await pods(world, "ads") if running(pod)]) == 6

        await come_back(world, 3)

        assert await world.shares("ads", "ranker") == {}
        message = await told(world, "PinterestTrainingJob", "ranker")
        assert "left for PinterestService/feed/api" in message
        assert not [pod for pod in await pods(world, "ads") if running(pod)]
        await world.patch("PinterestService", "feed", "api", {"spec": {"replicas": 1}})
        await asyncio.sleep(60)
        assert len([pod for pod in await pods(world, "ads") if running(pod)]) == 6

    play(scenario)


def test_a_gang_that_is_half_released_leaves_as_a_whole_too() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        slow = training(5, "1", project="ads", gangTimeoutSeconds=600)
        slow["template"]["metadata"]["annotations"]["embedded.federator/start-delay-seconds"] = "90"
        await world.create("PinterestTrainingJob", "ads", "ranker", slow)
        await asyncio.sleep(20)
        assert len(await pods(world, "ads")) == 6
        assert not [pod for pod in await pods(world, "ads") if running(pod)]

        await come_back(world, 3)

        assert await world.shares("ads", "ranker") == {}
        assert await pods(world, "ads") == []

    play(scenario)


def test_of_a_stateful_set_the_highest_ordinals_leave_and_come_back() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestStatefulSet", "ads", "kv", service(8, "1", project="ads"))
        await asyncio.sleep(60)
        await world.settle()

        await come_back(world, 3)

        assert sum((await world.shares("ads", "kv")).values()) == 5
        assert "3 copies left" in await told(world, "PinterestStatefulSet", "kv")
        ordinals = [
            int(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"])
            for pod in await pods(world, "ads")
        ]
        assert sorted(ordinals) == [0, 1, 2, 3, 4]
        await world.delete("PinterestService", "feed", "api")
        await asyncio.sleep(120)
        assert sum((await world.shares("ads", "kv")).values()) == 8

    play(scenario)


def test_nobody_leaves_for_two_in_one_cycle() -> None:
    """Two workloads of feed come at once; each gets what is its own, and ads loses no more than
    what both need."""

    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        for name in ("api", "cron"):
            await world.create("PinterestService", "feed", name, service(2, "1", project="feed"))
        await asyncio.sleep(90)
        await world.settle()
        for name in ("api", "cron"):
            assert sum((await world.shares("feed", name)).values()) == 2
        assert sum((await world.shares("ads", "web")).values()) == 4

    play(scenario)


def test_who_left_does_not_come_back_before_the_one_for_whom_it_left() -> None:
    """What is guaranteed comes first, copy by copy: also of a workload that asks for more than
    that, and when the one that borrows is older."""

    async def scenario(world: World) -> None:
        await tree(world)
        whole = service(6, "1", project="ads", placement={"partial": "RequireAll"})
        await world.create("PinterestService", "ads", "web", whole)
        await world.settle()
        assert await placed(world, "ads", "web") == 6
        await world.create("PinterestService", "feed", "api", service(5, "1", project="feed"))
        await asyncio.sleep(120)
        for _ in range(20):
            assert await placed(world, "feed", "api") == 5
            assert await placed(world, "ads", "web") == 0
            await asyncio.sleep(20)

    play(scenario, fleet=small_fleet(1, nodes=1))


async def placed(world: World, namespace: str, name: str) -> int:
    return sum((await world.shares(namespace, name)).values())


async def notice(world: World) -> dict[str, Any]:
    """What ads' service is told of copies that will leave."""
    return await world.condition("PinterestService", "ads", "web", "Reclaiming")


def test_who_leaves_has_notice_and_both_sides_are_told_when() -> None:
    async def scenario(world: World) -> None:
        await tree(world, reclaimNoticeSeconds=120)
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(30)

        said = await notice(world)
        assert (said["status"], said["reason"]) == ("True", "NoticeGiven")
        assert said["message"].startswith("3 copies leave for PinterestService/feed/api of project")
        waits = await world.condition("PinterestService", "feed", "api", "Placed")
        assert "takes what it lacks for it from others" in waits["message"]
        assert "after their notice (spec.reclaimNoticeSeconds)" in waits["message"]
        at = said["message"].rpartition(" at ")[2].rstrip(".")
        assert f"at {at}" in waits["message"]

        await asyncio.sleep(80)
        assert (await placed(world, "ads", "web"), await placed(world, "feed", "api")) == (8, 0)
        await asyncio.sleep(60)
        assert (await placed(world, "ads", "web"), await placed(world, "feed", "api")) == (5, 3)
        assert await notice(world) == {}

    play(scenario)


def test_a_notice_ends_with_the_one_for_whom_it_was_given() -> None:
    async def scenario(world: World) -> None:
        await tree(world, reclaimNoticeSeconds=120)
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(30)
        assert await notice(world)
        await world.patch("PinterestService", "feed", "api", {"spec": {"replicas": 1}})
        await asyncio.sleep(10)
        assert (await notice(world))["message"].startswith("1 copy leaves for")
        await world.delete("PinterestService", "feed", "api")
        await asyncio.sleep(10)
        assert await notice(world) == {}
        await asyncio.sleep(300)
        assert await placed(world, "ads", "web") == 8

    play(scenario)


def test_a_new_leader_gives_notice_anew() -> None:
    async def scenario(world: World) -> None:
        await tree(world, reclaimNoticeSeconds=120)
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(90)
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert await placed(world, "ads", "web") == 8, "nobody has less notice than was said"
        await asyncio.sleep(120)
        assert (await placed(world, "ads", "web"), await placed(world, "feed", "api")) == (5, 3)

    play(scenario)


def test_who_is_preemptible_leaves_at_once() -> None:
    async def scenario(world: World) -> None:
        await tree(world, reclaimNoticeSeconds=3600)
        for project, name, count in (("ads", "web", 8), ("feed", "api", 3)):
            asked = service(count, "1", project=project, tier="Preemptible")
            await world.create("PinterestService", project, name, asked)
            await world.settle()
        await asyncio.sleep(60)
        assert (await placed(world, "ads", "web"), await placed(world, "feed", "api")) == (5, 3)

    play(scenario)


def test_no_more_leave_in_a_minute_than_is_allowed() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", service(8, "1", project="ads"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(5)
        await world.create("PinterestService", "feed", "cron", service(1, "1", project="feed"))
        await asyncio.sleep(5)
        assert await placed(world, "ads", "web") == 5
        waits = await world.condition("PinterestService", "feed", "cron", "Placed")
        assert (
            "as the pace of preemption allows (hub.preempted_copies_a_minute)" in waits["message"]
        )
        await asyncio.sleep(60)
        assert await placed(world, "ads", "web") == 4
        assert (await placed(world, "feed", "api"), await placed(world, "feed", "cron")) == (3, 1)

    play(scenario, options=HubOptions(preempted_copies_a_minute=3))


FULL = small_fleet(1, nodes=2)
"""One member with room for 16 copies of a cpu."""


async def crowded(world: World, guaranteed: str = "0", **rules: Any) -> None:
    """bulk fills the fleet in tier Preemptible, and feed asks for three copies."""
    idle = {"Preemptible": {"guaranteed": {"cpu": guaranteed}, "max": {"cpu": "16"}}}
    await world.create("FederatedQuota", "", "bulk", {"projects": ["bulk"], "tiers": idle})
    mine = {"OnDemand": {"guaranteed": {"cpu": "8"}}}
    feed = {"projects": ["feed"], "tiers": mine, "preemption": rules}
    await world.create("FederatedQuota", "", "feed", feed)
    asked = service(16, "1", project="bulk", tier="Preemptible")
    await world.create("PinterestService", "bulk", "web", asked)
    await world.settle()
    assert await placed(world, "bulk", "web") == 16
    await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))


def test_idle_work_makes_room_for_what_has_quota() -> None:
    async def scenario(world: World) -> None:
        await crowded(world, room="Preemptible")
        await asyncio.sleep(3)
        assert await placed(world, "bulk", "web") == 13
        assert await placed(world, "feed", "api") == 0, "the room is not seen free yet"
        waits = await world.condition("PinterestService", "feed", "api", "Placed")
        assert waits["reason"] == "InsufficientCapacity"
        said = "it takes what it lacks: work of others leaves for it"
        assert said in waits["message"]
        await asyncio.sleep(120)
        assert await placed(world, "feed", "api") == 3
        assert await placed(world, "bulk", "web") == 13
        gone = await world.condition("PinterestService", "bulk", "web", "Placed")
        assert (gone["status"], gone["reason"]) == ("False", "Preempted")
        assert (
            "3 copies left for PinterestService/feed/api of project feed (Room)" in gone["message"]
        )

        await world.delete("PinterestService", "feed", "api")
        await asyncio.sleep(120)
        assert await placed(world, "bulk", "web") == 16, "it comes back when there is room again"

    play(scenario, fleet=FULL)


def test_nobody_makes_room_where_the_account_does_not_say_so() -> None:
    async def scenario(world: World) -> None:
        await crowded(world, reclaim="Any")
        await asyncio.sleep(120)
        assert await placed(world, "bulk", "web") == 16
        assert await placed(world, "feed", "api") == 0

    play(scenario, fleet=FULL)


def test_what_is_guaranteed_to_idle_work_is_not_taken_for_its_room() -> None:
    async def scenario(world: World) -> None:
        await crowded(world, guaranteed="14", room="Preemptible")
        await asyncio.sleep(300)
        assert await placed(world, "bulk", "web") == 14
        assert await placed(world, "feed", "api") == 2

    play(scenario, fleet=FULL)


async def pods(world: World, namespace: str) -> list[dict[str, Any]]:
    """In all members."""
    return [
        pod
        for member in sorted(world.federation.members)
        for pod in (await world.member(member).list("v1", "pods", namespace=namespace)).items
    ]


def running(pod: dict[str, Any]) -> bool:
    return (
        bool(pod["status"].get("phase") == "Running") and "deletionTimestamp" not in pod["metadata"]
    )


def budgeted(copies: int, allowed: Any, **more: Any) -> dict[str, Any]:
    return service(copies, "1", project="ads", disruptionBudget={"maxUnavailable": allowed}, **more)


def test_no_more_of_a_service_leave_in_a_minute_than_its_disruption_budget_allows() -> None:
    """Each cluster by itself, and the winner grows as they leave."""

    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", budgeted(8, 1))
        await world.settle()
        before = await world.shares("ads", "web")
        assert sum(before.values()) == 8
        await world.create("PinterestService", "feed", "api", service(4, "1", project="feed"))
        await asyncio.sleep(30)

        clusters = len(before)
        assert clusters < 4, "else it would be over at once"
        after = await world.shares("ads", "web")
        assert after == {name: copies - 1 for name, copies in before.items()}
        assert await placed(world, "feed", "api") == clusters
        waits = await world.condition("PinterestService", "feed", "api", "Placed")
        assert "as their disruption budgets allow (spec.disruptionBudget" in waits["message"]

        await asyncio.sleep(100)
        assert await placed(world, "feed", "api") == min(2 * clusters, 4)
        await asyncio.sleep(200)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (4, 4)

    play(scenario)


def test_a_budget_of_nothing_lets_one_copy_go_in_a_minute() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", budgeted(8, 0))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(3, "1", project="feed"))
        await asyncio.sleep(30)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (1, 7)
        for replicas in (
            4,
            3,
        ):  # the winner is looked at again meanwhile: that begins no new minute
            await world.patch("PinterestService", "feed", "api", {"spec": {"replicas": replicas}})
            await asyncio.sleep(13)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (1, 7)
        await asyncio.sleep(13)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (2, 6)
        await asyncio.sleep(90)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (3, 5)

    play(scenario)


def test_notice_is_given_of_no_more_than_may_leave() -> None:
    async def scenario(world: World) -> None:
        await tree(world, reclaimNoticeSeconds=40)
        await world.create("PinterestService", "ads", "web", budgeted(8, "25%"))
        await world.settle()
        await world.create("PinterestService", "feed", "api", service(4, "1", project="feed"))
        await asyncio.sleep(20)
        said = await notice(world)
        left = sum(-(-copies // 4) for copies in (await world.shares("ads", "web")).values())
        assert said["message"].startswith(f"{left} copies leave for PinterestService/feed/api")

        await asyncio.sleep(40)
        assert await placed(world, "ads", "web") == 8 - left
        assert await placed(world, "feed", "api") == left

    play(scenario)


def test_for_what_begins_as_a_whole_all_that_it_needs_leaves() -> None:
    """A part would be of no use to it, and others would take that meanwhile."""

    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", budgeted(8, 1))
        await world.settle()
        whole = service(4, "1", project="feed", placement={"partial": "RequireAll"})
        await world.create("PinterestService", "feed", "api", whole)
        await asyncio.sleep(90)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (4, 4)

    play(scenario)


def test_work_of_tier_preemptible_leaves_at_once_whatever_its_budget() -> None:
    async def scenario(world: World) -> None:
        await tree(world)
        await world.create("PinterestService", "ads", "web", budgeted(8, 1, tier="Preemptible"))
        await world.settle()
        mine = service(4, "1", project="feed", tier="Preemptible")
        await world.create("PinterestService", "feed", "api", mine)
        await asyncio.sleep(45)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (4, 4)

    play(scenario)


async def borrowed_room(world: World, allowed: Any = None, **more: Any) -> None:
    """ads fills the fleet in tier OnDemand, half of it within its guarantee, and feed comes for
    three copies of what is guaranteed to it in tier Reserved."""
    theirs = {"OnDemand": {"guaranteed": {"cpu": "8"}, "max": {"cpu": "16"}}}
    await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], "tiers": theirs})
    mine = {"Reserved": {"guaranteed": {"cpu": "10"}}}
    rules = {"preemption": {"room": "Borrowed"}, **more}
    await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": mine, **rules})
    asked = budgeted(16, allowed) if allowed is not None else service(16, "1", project="ads")
    await world.create("PinterestService", "ads", "web", asked)
    await world.settle()
    assert await placed(world, "ads", "web") == 16
    reserved = service(3, "1", project="feed", tier="Reserved")
    await world.create("PinterestService", "feed", "api", reserved)


def test_a_guarantee_that_finds_no_room_gets_it_from_borrowers_with_notice() -> None:
    async def scenario(world: World) -> None:
        await borrowed_room(world, reclaimNoticeSeconds=60)
        await asyncio.sleep(10)
        assert await placed(world, "ads", "web") == 16
        told = await world.condition("PinterestService", "ads", "web", "Reclaiming")
        assert told["status"] == "True"
        said = "3 copies leave for PinterestService/feed/api of project feed (RoomReclamation) at "
        assert told["message"].startswith(said)
        waits = await world.condition("PinterestService", "feed", "api", "Placed")
        assert waits["reason"] == "InsufficientCapacity"
        assert "work of tier OnDemand leaves for it (spec.preemption.room) at " in waits["message"]

        await asyncio.sleep(55)
        assert await placed(world, "ads", "web") == 13
        await asyncio.sleep(60)
        assert await placed(world, "feed", "api") == 3
        gone = await world.condition("PinterestService", "ads", "web", "Placed")
        assert (gone["status"], gone["reason"]) == ("False", "Preempted")
        assert "3 copies left for PinterestService/feed/api" in gone["message"]

        await world.patch("PinterestService", "feed", "api", {"spec": {"replicas": 10}})
        await asyncio.sleep(240)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (8, 8), (
            "what is guaranteed to ads stays"
        )

    play(scenario, fleet=FULL)


def test_a_notice_about_room_ends_when_room_comes_otherwise() -> None:
    async def scenario(world: World) -> None:
        await borrowed_room(world, reclaimNoticeSeconds=120)
        await asyncio.sleep(10)
        assert (await notice(world))["status"] == "True"
        await world.patch("PinterestService", "ads", "web", {"spec": {"replicas": 12}})
        await asyncio.sleep(90)
        assert await placed(world, "feed", "api") == 3
        assert (await notice(world)).get("status") != "True"
        await asyncio.sleep(90)
        assert await placed(world, "ads", "web") == 12

    play(scenario, fleet=FULL)


def test_borrowers_leave_their_room_as_their_disruption_budgets_allow() -> None:
    async def scenario(world: World) -> None:
        await borrowed_room(world, allowed=1)
        await asyncio.sleep(50)
        assert await placed(world, "ads", "web") == 15
        await asyncio.sleep(600)
        assert (await placed(world, "feed", "api"), await placed(world, "ads", "web")) == (3, 13)

    play(scenario, fleet=FULL)
