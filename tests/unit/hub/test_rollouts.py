"""Roll-outs over several clusters as their owner sees them: what the conditions say while one goes
on, fails and is taken back.
"""

import asyncio
from typing import Any

import pytest

from tests.unit.hub.world import World, play, service

PSVC = "PinterestService"
BROKEN = {"embedded.federator/image-pull-error": "true"}
ONE_BY_ONE = {"rollout": {"maxClustersAtOnce": 1}}


def template(image: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = service(1)["template"]
    found["spec"]["containers"][0]["image"] = image
    return {**found, "metadata": {"annotations": annotations}} if annotations else found


def plain(replicas: int, image: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    labels = {"app": "page"}
    pods = template(image, annotations)
    return {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "progressDeadlineSeconds": 60,
        "template": {
            "metadata": {"annotations": annotations or {}, "labels": labels},
            "spec": pods["spec"],
        },
    }


def sidecar(image: str) -> dict[str, Any]:
    return {"sidecars": [{"name": "logs", "container": {"image": image}}]}


async def states(world: World, kind: str = PSVC, name: str = "web") -> dict[str, tuple[str, str]]:
    """Status and reason of every condition that speaks of the present generation."""
    found = await world.get(kind, "feed", name)
    assert found is not None
    generation = found["metadata"]["generation"]
    shown = found["status"]["conditions"]
    return {
        one["type"]: (one["status"], one["reason"])
        for one in shown
        if one.get("observedGeneration", 0) == generation
    }


async def broken_service(world: World, **more: Any) -> None:
    """A service of six in three clusters, rolled to an image that no cluster can pull."""
    await world.create(
        PSVC, "feed", "web", service(6, updateStrategy={"progressDeadlineSeconds": 60}, **more)
    )
    await world.settle()
    assert (await states(world))["Ready"] == ("True", "Ready")
    await world.patch(PSVC, "feed", "web", {"spec": {"template": template("app:bad", BROKEN)}})


def test_an_image_that_cannot_be_pulled_is_never_ready_and_stalls_after_its_deadline() -> None:
    async def scenario(world: World) -> None:
        await broken_service(world)
        for _ in range(300):
            await asyncio.sleep(0.1)
            assert (await states(world)).get("Ready", ("False", ""))[0] == "False"
        now = await states(world)
        assert now["Ready"] == ("False", "ImagePullFailed")
        assert now["Available"] == ("True", "MinimumReplicasAvailable"), "the old copies serve on"
        assert now["Stalled"][0] == "False", "an image may come before the deadline"
        await asyncio.sleep(60)

        now = await states(world)
        assert (now["Stalled"], now["Reconciling"][0]) == (("True", "ImagePullFailed"), "False")
        assert "app:bad" in (await world.condition(PSVC, "feed", "web", "Stalled"))["message"]

        await world.patch(
            PSVC, "feed", "web", {"spec": {"template": {**template("app:1"), "metadata": None}}}
        )
        await asyncio.sleep(3)
        await world.settle()
        now = await states(world)
        assert (now["Ready"], now["Stalled"][0]) == (("True", "Ready"), "False")

    play(scenario)


def test_a_roll_out_that_stops_at_its_first_cluster_says_so_for_the_new_generation() -> None:
    async def scenario(world: World) -> None:
        await broken_service(world, placement=ONE_BY_ONE)
        await asyncio.sleep(90)

        found = await world.get(PSVC, "feed", "web")
        assert found is not None
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        now = await states(world)
        assert (now["Ready"], now["Stalled"]) == (
            ("False", "ImagePullFailed"),
            ("True", "ImagePullFailed"),
        )
        images = {
            one: (await world.get(PSVC, "feed", "web", at=one) or {})["spec"]["template"]["spec"][
                "containers"
            ][0]["image"]
            for one in ("a", "b", "c")
        }
        assert images == {"a": "app:bad", "b": "app:1", "c": "app:1"}

    play(scenario)


def test_updated_replicas_are_those_of_the_present_template_only() -> None:
    async def scenario(world: World) -> None:
        slow = {"embedded.federator/ready-delay-seconds": "10"}
        await world.create(PSVC, "feed", "web", service(6, placement=ONE_BY_ONE))
        await world.settle()
        await world.patch(PSVC, "feed", "web", {"spec": {"template": template("app:2", slow)}})
        seen: list[int] = []
        for _ in range(900):
            await asyncio.sleep(0.1)
            found = await world.get(PSVC, "feed", "web")
            assert found is not None
            told = found["status"]["updatedReplicas"]
            if not seen or seen[-1] != told:
                seen.append(told)
            real = 0
            for cluster in "abc":
                at = await world.get("Deployment", "feed", "web", at=cluster)
                assert at is not None
                if at["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2":
                    real += at["status"].get("updatedReplicas", 0)
            if found["metadata"]["generation"] == 2 and found["status"]["observedGeneration"] == 2:
                assert told <= real
        assert seen[-1] == 6
        assert set(seen) >= {1, 3, 5}, "one after the other"

    play(scenario)


def test_a_share_that_moves_makes_nobody_outdated() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(9))
        await world.settle()
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 6}})
        for _ in range(100):
            await asyncio.sleep(0.1)
            found = await world.get(PSVC, "feed", "web")
            assert found is not None
            assert (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "True"
            assert found["status"]["updatedReplicas"] >= 6

    play(scenario)


def test_another_version_of_the_runtime_profile_is_a_roll_out_too() -> None:
    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", sidecar("logs:1"))
        await world.create(PSVC, "feed", "web", service(6, placement=ONE_BY_ONE))
        await world.settle()
        before = await world.get(PSVC, "feed", "web", at="a")
        assert before is not None
        await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("logs:2")})
        # A share that changes meanwhile takes the new version to nobody before its turn.
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        most, unready = 0, False
        for _ in range(300):
            await asyncio.sleep(0.1)
            unready |= (await world.condition(PSVC, "feed", "web", "Ready"))["status"] == "False"
            busy = 0
            for cluster in "abc":
                found = await world.get(PSVC, "feed", "web", at=cluster)
                assert found is not None
                status, meta, spec = found["status"], found["metadata"], found["spec"]
                seen = status.get("observedGeneration") == meta["generation"]
                done = (
                    seen
                    and status.get("updatedReplicas") == status.get("ready") == spec["replicas"]
                )
                busy += (
                    spec["slice"].get("profile") != before["spec"]["slice"]["profile"] and not done
                )
            most = max(most, busy)
        await world.settle()
        assert unready
        assert most == 1
        assert (await states(world))["Ready"] == ("True", "Ready")

    play(scenario)


@pytest.mark.parametrize("placement", ["at once", "one by one"])
def test_a_plain_deployment_tells_its_roll_out_as_its_own_controller_would(placement: str) -> None:
    async def scenario(world: World) -> None:
        if placement == "one by one":
            policy = {"workloads": {"kinds": ["Deployment"]}, **ONE_BY_ONE}
            await world.create("PlacementPolicy", "feed", "careful", policy)
        await world.create("Deployment", "feed", "page", plain(6, "app:1"))
        await world.settle()
        await world.patch("Deployment", "feed", "page", {"spec": plain(6, "app:bad", BROKEN)})
        await asyncio.sleep(100)
        found = await world.get("Deployment", "feed", "page")
        assert found is not None
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        # One surges in every cluster that has been reached; the others call their old copies
        # updated.
        assert found["status"]["updatedReplicas"] == (3 if placement == "at once" else 1)
        progressing = await world.condition("Deployment", "feed", "page", "Progressing")
        assert (progressing["status"], progressing["reason"]) == (
            "False",
            "ProgressDeadlineExceeded",
        )
        assert "app:bad" in progressing["message"]
        assert (await world.condition("Deployment", "feed", "page", "Available"))[
            "status"
        ] == "True"

    play(scenario)


async def history(world: World, namespace: str = "feed") -> list[dict[str, Any]]:
    """The ControllerRevisions of a namespace, oldest first."""
    listing = await world.host.list("apps/v1", "controllerrevisions", namespace)
    return sorted(listing.items, key=lambda one: int(one["revision"]))


def images(found: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [
        (one["revision"], one["data"]["spec"]["template"]["spec"]["containers"][0]["image"])
        for one in found
    ]


def test_a_workload_that_never_rolled_has_no_revision_and_a_scale_makes_none() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(6))
        await world.settle()
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 9}})
        await world.settle()
        assert await history(world) == []

        await world.patch(PSVC, "feed", "web", {"spec": {"template": template("app:2")}})
        await asyncio.sleep(2)
        await world.settle()
        found = await history(world)
        assert images(found) == [(1, "app:1"), (2, "app:2")]
        posts = world.writes["hub", "host", "POST", "controllerrevisions"]
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 4}})
        await asyncio.sleep(2)
        await world.settle()
        assert (posts, world.writes["hub", "host", "POST", "controllerrevisions"]) == (2, 2)
        workload = await world.get(PSVC, "feed", "web")
        assert workload is not None
        for one in found:
            (owner,) = one["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"]) == (PSVC, workload["metadata"]["uid"])

    play(scenario)


@pytest.mark.long
def test_content_that_is_used_again_gets_the_new_number_and_ten_are_kept() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        for image in ("app:2", "app:1"):
            change = {"metadata": {"annotations": {"kubernetes.io/change-cause": f"to {image}"}}}
            await world.patch(
                PSVC, "feed", "web", {**change, "spec": {"template": template(image)}}
            )
            await asyncio.sleep(2)
            await world.settle()
        found = await history(world)
        assert images(found) == [(2, "app:2"), (3, "app:1")]
        assert [one["metadata"]["annotations"]["kubernetes.io/change-cause"] for one in found] == [
            "to app:2",
            "to app:1",
        ]

        for number in range(3, 14):
            await world.patch(
                PSVC, "feed", "web", {"spec": {"template": template(f"app:{number}")}}
            )
            await asyncio.sleep(2)
            await world.settle()
        assert images(await history(world)) == [
            (number + 1, f"app:{number}") for number in range(4, 14)
        ]

    play(scenario)


def test_revisions_go_with_their_workload() -> None:
    async def scenario(world: World) -> None:
        await world.create("Deployment", "feed", "page", plain(3, "app:1"))
        await world.settle()
        await world.patch("Deployment", "feed", "page", {"spec": plain(3, "app:2")})
        await asyncio.sleep(2)
        await world.settle()
        assert images(await history(world)) == [(1, "app:1"), (2, "app:2")]
        await world.delete("Deployment", "feed", "page")
        await asyncio.sleep(20)
        assert await history(world) == []

    play(scenario)


def test_a_new_leader_goes_on_with_the_history_and_a_drift_adds_nothing_to_it() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        await world.federation.kill("hub")
        # Changed while no hub runs: what the pods were made from is known by the slices alone.
        await world.patch(PSVC, "feed", "web", {"spec": {"template": template("app:2")}})
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()
        assert images(await history(world)) == [(1, "app:1"), (2, "app:2")]
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.patch(PSVC, "feed", "web", {"spec": {"template": template("drift:1")}}, at="a")
        await asyncio.sleep(20)
        await world.settle()
        assert images(await history(world)) == [(1, "app:1"), (2, "app:2")]

    play(scenario)


def test_what_a_member_made_of_its_slice_is_no_revision_that_an_undo_could_spread() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        await world.federation.kill("hub")
        await world.patch(PSVC, "feed", "web", {"spec": {"template": template("app:2")}})
        for name in world.federation.members:
            if await world.get(PSVC, "feed", "web", at=name) is not None:
                await world.patch(
                    PSVC, "feed", "web", {"spec": {"template": template("evil:1")}}, at=name
                )
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()
        assert images(await history(world)) == [(1, "app:2")]

    play(scenario)


def test_a_history_that_cannot_be_written_holds_no_roll_out_up() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        refused = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}'
        world.answer("host", "/controllerrevisions", 403, refused)
        await world.patch(PSVC, "feed", "web", {"spec": {"template": template("app:2")}})
        await asyncio.sleep(5)
        await world.settle()
        assert (await states(world))["Ready"] == ("True", "Ready")
        assert await history(world) == []

    play(scenario)


def test_a_turn_that_read_an_earlier_state_renumbers_nothing() -> None:
    async def scenario(world: World) -> None:
        await world.create(PSVC, "feed", "web", service(3))
        await world.settle()
        history_of = world.federation.hub.controllers.dispatching.writer.history
        ((_, former),) = world.federation.hub.state.workloads.items()
        early = await world.get(PSVC, "feed", "web")
        for image in ("app:2", "app:3"):
            await world.patch(PSVC, "feed", "web", {"spec": {"template": template(image)}})
            await asyncio.sleep(2)
            await world.settle()
        slice_ = await world.get(PSVC, "feed", "web", at="a")
        assert early is not None
        assert slice_ is not None
        await history_of.before_roll_out(former, early, ("", ""), slice_)
        assert images(await history(world)) == [(1, "app:1"), (2, "app:2"), (3, "app:3")]

    play(scenario)


def test_a_larger_count_takes_nothing_down_before_it_is_decided() -> None:
    """A share of unavailable copies that is a part of the count grows with it; the decision in
    force is of the old.
    """

    async def scenario(world: World) -> None:
        await world.create("ClusterPlacementPolicy", "", "where", {"clusters": {"names": ["a"]}})
        spec = {**service(8, "10m"), "updateStrategy": {"maxUnavailable": "25%"}}
        spec["template"]["metadata"] = {
            "annotations": {"embedded.federator/start-delay-seconds": "300"}
        }
        await world.create("PinterestService", "feed", "web", spec)
        await asyncio.sleep(400)
        await world.settle()
        await world.patch(
            "ClusterPlacementPolicy", "", "where", {"spec": {"clusters": {"names": ["b"]}}}
        )
        await asyncio.sleep(20)
        ready = await _ready(world, "a")
        assert ready >= 6

        async def late() -> None:
            await asyncio.sleep(40)

        world.meanwhile("host", "PATCH", "placementdecisions", late)
        await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 80}})
        for _ in range(60):
            assert await _ready(world, "a") >= 6
            await asyncio.sleep(0.5)

    play(scenario)


def test_an_edit_that_is_held_back_has_no_say_in_how_much_may_be_missing() -> None:
    async def scenario(world: World) -> None:
        limit = {"tiers": {"OnDemand": {"max": {"cpu": "4"}}}}
        await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], **limit})
        await world.create("ClusterPlacementPolicy", "", "where", {"clusters": {"names": ["a"]}})
        spec = {**service(8, "10m", project="feed"), "updateStrategy": {"maxUnavailable": "25%"}}
        spec["template"]["metadata"] = {
            "annotations": {"embedded.federator/start-delay-seconds": "300"}
        }
        await world.create("PinterestService", "feed", "web", spec)
        await asyncio.sleep(400)
        await world.settle()
        larger = service(8, "2")["template"]
        change = {
            "updateStrategy": {"maxUnavailable": "100%"},
            "template": {"spec": larger["spec"]},
        }
        await world.patch("PinterestService", "feed", "web", {"spec": change})
        await asyncio.sleep(20)
        assert (await world.condition("PinterestService", "feed", "web", "Placed"))[
            "reason"
        ] == "QuotaExceeded"
        await world.patch(
            "ClusterPlacementPolicy", "", "where", {"spec": {"clusters": {"names": ["b"]}}}
        )
        for _ in range(60):
            assert await _ready(world, "a") >= 6
            await asyncio.sleep(0.5)
        await asyncio.sleep(600)
        assert await _ready(world, "b") == 8

    play(scenario)


async def _ready(world: World, cluster: str) -> int:
    found = await world.get("PinterestService", "feed", "web", at=cluster)
    return int(found["status"].get("ready", 0)) if found is not None else 0


def test_a_field_taken_out_of_a_native_template_goes_also_where_the_count_came_first() -> None:
    """The second cluster is resized while the roll-out has not reached it: that answer says nothing
    of its template.
    """

    async def scenario(world: World) -> None:
        spec = plain(4, "app:1")
        spec["template"]["spec"]["volumes"] = [{"name": "absent", "configMap": {"name": "absent"}}]
        policy = {
            "workloads": {"kinds": ["Deployment"]},
            "clusters": {"names": ["a", "b"]},
            **ONE_BY_ONE,
        }
        await world.create("PlacementPolicy", "feed", "slowly", policy)
        await world.create("Deployment", "feed", "page", spec)
        await asyncio.sleep(60)
        await world.patch(
            "Deployment",
            "feed",
            "page",
            {"spec": {"replicas": 8, "template": {"spec": {"volumes": []}}}},
        )
        await asyncio.sleep(120)
        for cluster in ("a", "b"):
            found = await world.get("Deployment", "feed", "page", at=cluster)
            assert found is not None
            assert found["spec"]["replicas"] == 4
            assert not found["spec"]["template"]["spec"].get("volumes")

    play(scenario)
