"""A member whose process is dead: its figures are unknown after the grace, nothing is taken for
gone, and it is believed again when its next life has looked at everything.
"""

import asyncio
from dataclasses import replace
from typing import Any

from federator.hub.members.process_watch import ProcessWatch
from federator.model import names
from federator.model.ask import Unit
from federator.model.decision import Share
from federator.scheduling import rollout
from federator.scheduling.rollout import ActionKind, Observed
from tests.unit.hub.world import World, jobset, play, service

PSVC, PJS = "PinterestService", "PinterestJobSet"
GRACE_S = 40.0


def lease(renewed: str, *, catching_up: bool = False) -> dict[str, Any]:
    notes = {names.CATCHING_UP: "true"} if catching_up else {}
    return {"metadata": {"annotations": notes}, "spec": {"renewTime": renewed}}


async def row_of(world: World, kind: str, name: str, cluster: str) -> dict[str, Any]:
    found = await world.get(kind, "feed", name)
    assert found is not None
    return next(row for row in found["status"]["clusterStatuses"] if row["cluster"] == cluster)


async def kill_member(world: World, name: str) -> None:
    await world.federation.kill(f"member {name}")


def test_a_lease_that_stands_still_for_the_grace_is_silent_and_catching_up_ends_nothing() -> None:
    watch = ProcessWatch()
    assert not watch.speaks
    watch.look(lease("1"), 0.0, 1000.0, GRACE_S)
    for now_s in (10.0, 20.0, 30.0, 40.0):
        watch.look(lease("1"), now_s, 1000.0 + now_s, GRACE_S)
        assert watch.speaks

    watch.look(lease("1"), 50.0, 1050.0, GRACE_S)
    assert watch.silent_since == "1970-01-01T00:16:40Z"
    watch.look(lease("2", catching_up=True), 60.0, 1060.0, GRACE_S)
    assert not watch.speaks
    watch.look(lease("3"), 62.0, 1062.0, GRACE_S)
    assert watch.speaks
    assert not watch.why()


def test_a_restart_within_the_grace_is_no_silence_and_time_without_a_look_is_nobodys() -> None:
    watch = ProcessWatch()
    watch.look(lease("1"), 0.0, 1000.0, GRACE_S)
    watch.look(lease("1"), 30.0, 1030.0, GRACE_S)
    watch.look(lease("2", catching_up=True), 38.0, 1038.0, GRACE_S)
    assert watch.speaks

    watch.look(lease("2"), 100.0, 1100.0, GRACE_S)
    assert watch.speaks
    watch.look(None, 110.0, 1110.0, GRACE_S)
    assert watch.speaks


def test_a_hub_that_starts_believes_no_process_recorded_as_silent_before_it_moves() -> None:
    watch = ProcessWatch()
    watch.recorded("2026-11-24T09:00:00Z")
    watch.look(lease("1"), 0.0, 1000.0, GRACE_S)
    assert not watch.speaks
    assert "since 2026-11-24T09:00:00Z" in watch.why()
    watch.recorded("")
    watch.look(lease("2"), 10.0, 1010.0, GRACE_S)
    assert watch.speaks


def test_figures_of_a_dead_member_process_are_unknown_after_the_grace_until_it_is_back() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        shares = await world.shares("feed", "web")
        await kill_member(world, "b")
        await asyncio.sleep(25)
        assert (await row_of(world, PSVC, "web", "b")).get("known") is not False
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"

        await asyncio.sleep(40)
        row = await row_of(world, PSVC, "web", "b")
        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert row["known"] is False
        assert "member process has not been heard since" in row["message"]
        assert found["status"]["unknownReplicas"] == shares["b"]
        ready = await world.condition(PSVC, "feed", "web", "Ready")
        assert (ready["status"], ready["reason"]) == ("Unknown", "ClusterUnknown")
        assert "the member process of b is not heard" in ready["message"]
        member = await world.get("MemberCluster", "", "b")
        assert member is not None
        assert member["status"]["lastHeard"]
        assert (await world.condition("MemberCluster", "", "b", "Ready"))[
            "reason"
        ] == "NotReporting"
        assert await world.shares("feed", "web") == shares

        writes = world.count()
        await asyncio.sleep(300)
        assert world.count() == writes

        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(20)
        assert (await row_of(world, PSVC, "web", "b"))["known"] is False

        world.federation.start_member("b")
        await world.settle()
        assert (await row_of(world, PSVC, "web", "b")).get("known") is not False
        assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"
        member = await world.get("MemberCluster", "", "b")
        assert member is not None
        assert "lastHeard" not in member["status"]

    play(scenario)


def test_a_restart_of_a_member_process_within_the_grace_flips_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        before = await world.condition(PSVC, "feed", "web", "Ready")
        await kill_member(world, "b")
        await asyncio.sleep(25)
        world.federation.start_member("b")
        await asyncio.sleep(60)
        assert await world.condition(PSVC, "feed", "web", "Ready") == before
        assert (await world.condition("MemberCluster", "", "b", "Ready"))["reason"] == "Ready"

    play(scenario)


def test_a_carried_deployment_is_known_by_its_cluster_without_the_process() -> None:
    async def scenario(world: World) -> None:
        template = {"metadata": {"labels": {"app": "x"}}, "spec": service(1)["template"]["spec"]}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template}
        await world.create("Deployment", "feed", "plain", spec)
        await world.settle()
        await kill_member(world, "b")
        await asyncio.sleep(90)
        found = await world.get("Deployment", "feed", "plain")
        assert found is not None
        assert found["status"]["readyReplicas"] == 3

    play(scenario)


def test_unknown_is_not_gone_deletions_go_on_and_shards_stay_where_they_are() -> None:
    async def scenario(world: World) -> None:
        long = {"embedded.federator/run-seconds": "400"}
        await world.create(PJS, "feed", "index", jobset(6, 6, annotations=long))
        await world.create(PSVC, "feed", "web", service(6))
        await asyncio.sleep(15)
        slots = await world.slots("feed", "index")
        await kill_member(world, "b")
        await asyncio.sleep(90)
        assert await world.slots("feed", "index") == slots
        assert (await row_of(world, PJS, "index", "b"))["known"] is False

        await world.delete(PSVC, "feed", "web")
        await asyncio.sleep(30)
        assert await world.get(PSVC, "feed", "web", at="b") is None

    play(scenario)


def test_copies_elsewhere_are_held_while_nobody_says_a_silent_cluster_has_ready_ones() -> None:
    shares = (Share("b", 4, 4),)
    leaving = Observed(
        "a", readable=True, exists=True, current=False, template_current=True, count=4, ready=4
    )
    silent = Observed(
        "b",
        readable=True,
        reported=False,
        exists=True,
        current=True,
        template_current=True,
        count=4,
        ready=4,
    )

    def next_in_a(there: Observed) -> ActionKind:
        actions = rollout.plan(
            Unit.REPLICAS,
            shares,
            {"a": leaving, "b": there},
            max_unavailable=0,
            max_clusters_at_once=None,
        )
        return actions[0].kind

    assert next_in_a(silent) is ActionKind.HOLD
    assert next_in_a(replace(silent, reported=True)) is ActionKind.DELETE
