"""Edits of what runs that ask for more than quota has: the old generation stays in force, by leader
and restart.
"""

import asyncio
from typing import Any

import pytest

from federator.kinds import registry
from federator.model.steps import ObjectRef
from tests.unit.hub.world import World, jobset, play, service

KIND = "PinterestService"


def limits(cpu: str) -> dict[str, Any]:
    return {"OnDemand": {"max": {"cpu": cpu}}}


def template(cpu: str) -> dict[str, Any]:
    """A patch of what each copy asks for."""
    found = service(1, cpu)
    return {"spec": {"template": found["template"]}}


async def cpu_in_members(world: World, name: str = "web") -> dict[str, tuple[int, str]]:
    """cluster -> (copies, cpu of each), by the objects there."""
    found = {}
    for cluster in world.federation.members:
        slice_ = await world.get(KIND, "feed", name, at=cluster)
        if slice_ is not None:
            container = slice_["spec"]["template"]["spec"]["containers"][0]
            found[cluster] = (slice_["spec"]["replicas"], container["resources"]["requests"]["cpu"])
    return found


async def asked(world: World, cpu: str = "4", replicas: int = 4, **more: Any) -> None:
    """A quota, and a service that runs within it."""
    await world.create(
        "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits(cpu), **more}
    )
    await world.create(KIND, "feed", "web", service(replicas, "500m", project="feed"))
    await world.settle()


def test_a_template_raised_beyond_the_quota_stays_out_of_members_and_says_so() -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        before = await cpu_in_members(world)
        await world.patch(KIND, "feed", "web", template("20"))
        await asyncio.sleep(20)
        await world.settle()
        assert await cpu_in_members(world) == before
        placed = await world.condition(KIND, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"], placed["observedGeneration"]) == (
            "False",
            "QuotaExceeded",
            2,
        )
        for part in (
            "generation 2 asks for 80 cpu of project feed",
            "allows 4",
            "generation 1 stays in force",
        ):
            assert part in placed["message"]
        found = await world.get(KIND, "feed", "web")
        assert found is not None
        assert (found["status"]["updatedReplicas"], found["status"]["ready"]) == (0, 4)
        assert (await world.condition(KIND, "feed", "web", "Ready"))["reason"] == "QuotaExceeded"
        (decision,) = await world.decisions()
        assert decision["spec"]["inForce"]["heldBack"] == 2
        assert decision["spec"]["charge"]["shape"]["requests"]["cpu"] == "500m"

        await world.patch("FederatedQuota", "", "feed", {"spec": {"tiers": limits("100")}})
        await asyncio.sleep(20)
        (decision,) = await world.decisions()
        assert (
            "inForce" not in decision["spec"]
            or decision["spec"]["reason"] == "InsufficientCapacity"
        )

    play(scenario)


def test_a_raise_is_admitted_as_soon_as_there_is_quota() -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        await world.patch(KIND, "feed", "web", template("1500m"))
        await asyncio.sleep(10)
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"500m"}
        await world.patch("FederatedQuota", "", "feed", {"spec": {"tiers": limits("6")}})
        await asyncio.sleep(10)
        await world.settle()
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"1500m"}
        assert (await world.condition(KIND, "feed", "web", "Placed"))["status"] == "True"
        (decision,) = await world.decisions()
        assert "inForce" not in decision["spec"]
        listing = await world.host.list("apps/v1", "controllerrevisions", "feed")
        assert all(one["metadata"]["ownerReferences"][0]["kind"] == KIND for one in listing.items)

    play(scenario)


def test_a_shrink_in_the_same_edit_makes_room_for_itself() -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        await world.patch(KIND, "feed", "web", {"spec": {**template("2")["spec"], "replicas": 1}})
        await asyncio.sleep(10)
        await world.settle()
        assert sorted((await cpu_in_members(world)).values()) == [(1, "2")]

    play(scenario)


EDITS: dict[str, tuple[dict[str, Any], str, str]] = {
    "another project": (
        {"project": "ads"},
        "QuotaExceeded",
        "allows 1 (spec.tiers.OnDemand.max.cpu)",
    ),
    "a project of nobody": (
        {"project": "nobodys"},
        "NotAllowed",
        "no FederatedQuota has project nobodys",
    ),
    "another tier": ({"tier": "Reserved"}, "QuotaExceeded", "in tier Reserved"),
    "a priority": ({"priority": 200}, "PriorityExceedsMax", "allows priority up to 100"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_of_what_is_charged_changes_nothing_until_it_is_admitted(edit: str) -> None:
    change, reason, told = EDITS[edit]

    async def scenario(world: World) -> None:
        tiers = {**limits("4"), "Reserved": {"max": {"cpu": "1"}}}
        await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], "tiers": limits("1")})
        await asked(world, tiers=tiers, maxPriority=100)
        await world.patch(KIND, "feed", "web", {"spec": change})
        await asyncio.sleep(10)
        await world.settle()
        placed = await world.condition(KIND, "feed", "web", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", reason)
        assert told in placed["message"]
        for cluster in await cpu_in_members(world):
            slice_ = await world.get(KIND, "feed", "web", at=cluster)
            assert slice_ is not None
            (name,) = change
            assert slice_["spec"].get(name) != change[name]
        (decision,) = await world.decisions()
        charge = decision["spec"]["charge"]
        assert (charge["project"], charge["tier"], charge["priority"]) == ("feed", "OnDemand", 0)
        used = await world.get("FederatedQuota", "", "feed")
        assert used is not None
        assert used["status"]["usage"][-1]["used"]["cpu"] == "2"

        await world.patch(
            KIND, "feed", "web", {"spec": dict.fromkeys(change) | {"project": "feed"}}
        )
        await asyncio.sleep(10)
        await world.settle()
        assert (await world.condition(KIND, "feed", "web", "Placed"))["status"] == "True"

    play(scenario)


def test_a_project_that_has_room_is_charged_and_the_old_one_released() -> None:
    async def scenario(world: World) -> None:
        await world.create("FederatedQuota", "", "ads", {"projects": ["ads"], "tiers": limits("2")})
        await asked(world)
        await world.patch(KIND, "feed", "web", {"spec": {"project": "ads"}})
        await asyncio.sleep(10)
        await world.settle()
        (decision,) = await world.decisions()
        assert decision["spec"]["charge"]["project"] == "ads"
        await asyncio.sleep(10)
        for name, used in (("ads", "2"), ("feed", "0")):
            found = await world.get("FederatedQuota", "", name)
            assert found is not None
            assert found["status"]["usage"][0]["used"].get("cpu", "0") == used

    play(scenario)


@pytest.mark.parametrize("when", ["after the decision", "before anybody saw it"])
def test_what_is_in_force_outlives_the_hub_and_is_what_new_slices_are_made_from(when: str) -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        before = await cpu_in_members(world)
        if when == "before anybody saw it":
            await world.federation.kill("hub")
        await world.patch(KIND, "feed", "web", template("20"))
        if when == "after the decision":
            await asyncio.sleep(10)
            await world.federation.kill("hub")
        await asyncio.sleep(60)
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.settle()
        assert await cpu_in_members(world) == before
        assert (
            "generation 1 stays"
            in (await world.condition(KIND, "feed", "web", "Placed"))["message"]
        )

        gone = min(before)
        policy = {"clusters": {"exclude": [gone]}}
        await world.patch(KIND, "feed", "web", {"spec": {"placement": policy}})
        await asyncio.sleep(60)
        await world.settle()
        moved = await cpu_in_members(world)
        assert gone not in moved
        assert sum(copies for copies, _ in moved.values()) == 4
        assert {cpu for _, cpu in moved.values()} == {"500m"}

    play(scenario)


def test_a_decision_that_is_written_anew_keeps_what_is_in_force() -> None:
    """The garbage collector takes what the deleted one owned, the revision among it."""

    async def scenario(world: World) -> None:
        await asked(world)
        await world.patch(KIND, "feed", "web", template("20"))
        await asyncio.sleep(10)
        (before,) = await world.decisions()
        await world.delete("PlacementDecision", "feed", before["metadata"]["name"])
        await asyncio.sleep(30)
        (after,) = await world.decisions()
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        listing = await world.host.list("apps/v1", "controllerrevisions", "feed")
        (kept,) = [
            one
            for one in listing.items
            if one["metadata"]["ownerReferences"][0]["kind"] == "PlacementDecision"
        ]
        assert kept["metadata"]["name"] == after["spec"]["inForce"]["revision"]
        assert kept["metadata"]["ownerReferences"][0]["uid"] == after["metadata"]["uid"]

    play(scenario)


@pytest.mark.parametrize("restart", [True, False])
def test_what_was_refused_before_an_edit_was_held_back_is_not_in_force(restart: bool) -> None:
    """Members hold the first generation, the second asks for nothing more and was refused, the
    third is held back.
    """

    async def scenario(world: World) -> None:
        await asked(world)
        await world.patch(KIND, "feed", "web", {"spec": {"template": {"spec": {"hostPID": True}}}})
        await asyncio.sleep(10)
        if restart:
            await world.federation.kill("hub")
        change = {"template": {"spec": {"hostPID": None}}, "project": "nobodys"}
        await world.patch(KIND, "feed", "web", {"spec": change})
        await asyncio.sleep(60)
        if restart:
            world.federation.start_hub()
            await asyncio.sleep(30)
        before = await cpu_in_members(world)
        assert (
            "generation 1 stays in force"
            in (await world.condition(KIND, "feed", "web", "Placed"))["message"]
        )
        await world.patch(
            KIND, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": [min(before)]}}}}
        )
        await asyncio.sleep(60)
        await world.settle()
        moved = await cpu_in_members(world)
        assert min(before) not in moved
        assert sum(copies for copies, _ in moved.values()) == 4
        for cluster in moved:
            slice_ = await world.get(KIND, "feed", "web", at=cluster)
            assert slice_ is not None
            assert "hostPID" not in slice_["spec"]["template"]["spec"]
            assert slice_["spec"]["project"] == "feed"

    play(scenario)


@pytest.mark.parametrize("how", ["deleted", "forged"])
def test_what_is_in_force_is_not_what_a_tenant_makes_of_it(how: str) -> None:
    """The revision lies in his namespace: whoever deletes it, or writes another of its name,
    changes nothing.
    """

    async def scenario(world: World) -> None:
        await asked(world)
        before = await cpu_in_members(world)
        await world.patch(KIND, "feed", "web", template("20"))
        await asyncio.sleep(10)
        await world.federation.kill("hub")
        listing = await world.host.list("apps/v1", "controllerrevisions", "feed")
        (kept,) = [
            one
            for one in listing.items
            if one["metadata"]["ownerReferences"][0]["kind"] == "PlacementDecision"
        ]
        ref = ObjectRef(
            "apps/v1", "controllerrevisions", "feed", kept["metadata"]["name"], "ControllerRevision"
        )
        await world.host.delete(ref, uid=kept["metadata"]["uid"])
        if how == "forged":
            metadata = {
                name: kept["metadata"][name]
                for name in ("name", "namespace", "labels", "ownerReferences")
            }
            spec = {**kept["data"]["spec"], **template("20")["spec"]}
            await world.host.create(
                ref, {**kept, "metadata": metadata, "data": {**kept["data"], "spec": spec}}
            )
        await asyncio.sleep(60)
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.patch(
            KIND, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": [min(before)]}}}}
        )
        await asyncio.sleep(60)
        await world.settle()
        moved = await cpu_in_members(world)
        assert min(before) not in moved
        assert sum(copies for copies, _ in moved.values()) == 4
        assert {cpu for _, cpu in moved.values()} == {"500m"}

    play(scenario)


def test_an_edit_of_the_image_goes_on_while_nothing_more_is_asked_for() -> None:
    async def scenario(world: World) -> None:
        await asked(world, cpu="2")
        await world.patch("FederatedQuota", "", "feed", {"spec": {"tiers": limits("1")}})
        edited = template("500m")
        edited["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2"
        await world.patch(KIND, "feed", "web", edited)
        await asyncio.sleep(20)
        await world.settle()
        for cluster in await cpu_in_members(world):
            slice_ = await world.get(KIND, "feed", "web", at=cluster)
            assert slice_ is not None
            assert slice_["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"

    play(scenario)


@pytest.mark.parametrize("named", ["default", "other"])
def test_a_profile_that_asks_for_more_is_held_back_with_the_edit_of_its_workload(
    named: str,
) -> None:
    """Also where only the former spec names the profile."""

    def sidecar(cpu: str) -> dict[str, Any]:
        container = {"image": "logs:1", "resources": {"requests": {"cpu": cpu}}}
        return {"sidecars": [{"name": "logs", "container": container}]}

    async def scenario(world: World) -> None:
        await world.create("RuntimeProfile", "", "default", sidecar("100m"))
        await world.create("RuntimeProfile", "", "other", sidecar("100m"))
        await asked(world)
        before = await cpu_in_members(world)
        await world.patch(
            KIND, "feed", "web", {"spec": {**template("20")["spec"], "runtimeProfile": named}}
        )
        await asyncio.sleep(10)
        await world.patch("RuntimeProfile", "", "default", {"spec": sidecar("400m")})
        await asyncio.sleep(30)
        await world.settle()
        (decision,) = await world.decisions()
        assert decision["spec"]["inForce"]["heldBack"] == 2
        assert decision["spec"]["charge"]["shape"]["requests"]["cpu"] == "600m"
        quota = await world.get("FederatedQuota", "", "feed")
        assert quota is not None
        assert quota["status"]["usage"][0]["used"]["cpu"] == "2400m"
        pods = [await world.get("Deployment", "feed", "web", at=cluster) for cluster in before]
        cpus = {
            one["resources"]["requests"]["cpu"]
            for pod in pods
            if pod is not None
            for one in pod["spec"]["template"]["spec"]["containers"]
        }
        assert cpus == {"500m", "100m"}
        assert await cpu_in_members(world) == before

    play(scenario)


def test_a_profile_that_is_new_while_a_workload_is_suspended_is_judged_when_it_resumes() -> None:
    async def scenario(world: World) -> None:
        await asked(world, "2200m")
        await world.patch(KIND, "feed", "web", {"spec": {"suspend": True}})
        await asyncio.sleep(10)
        container = {"image": "logs:1", "resources": {"requests": {"cpu": "200m"}}}
        await world.create(
            "RuntimeProfile",
            "",
            "default",
            {"sidecars": [{"name": "logs", "container": container}]},
        )
        await asyncio.sleep(10)
        await world.patch(KIND, "feed", "web", {"spec": {"suspend": False}})
        await asyncio.sleep(30)
        await world.settle()
        (decision,) = await world.decisions()
        in_force = decision["spec"]["inForce"]
        assert (in_force["runtimeProfile"], in_force["heldBack"]) == ("default", 0)
        assert decision["spec"]["charge"]["shape"]["requests"]["cpu"] == "500m"

    play(scenario)


def test_a_slice_that_was_edited_in_its_member_does_not_hide_what_is_in_force() -> None:
    """While a workload is suspended nobody puts its slices right."""

    async def scenario(world: World) -> None:
        await asked(world)
        await world.patch(KIND, "feed", "web", {"spec": {"suspend": True}})
        await asyncio.sleep(5)
        first, *others = sorted(await cpu_in_members(world))
        assert others
        by_hand = {"spec": {"template": {"metadata": {"labels": {"by": "hand"}}}}}
        await world.patch(KIND, "feed", "web", by_hand, at=first)
        await asyncio.sleep(5)
        await world.patch(
            KIND, "feed", "web", {"spec": {**template("20")["spec"], "suspend": False}}
        )
        await asyncio.sleep(60)
        (decision,) = await world.decisions()
        assert decision["spec"]["inForce"]["revision"]
        slice_ = await world.get(KIND, "feed", "web", at=first)
        assert slice_ is not None
        assert "by" not in slice_["spec"]["template"].get("metadata", {}).get("labels", {})

    play(scenario)


async def images(world: World) -> dict[str, str]:
    """cluster -> image, by the slices there."""
    found = {}
    for cluster in world.federation.members:
        slice_ = await world.get(KIND, "feed", "web", at=cluster)
        if slice_ is not None:
            found[cluster] = slice_["spec"]["template"]["spec"]["containers"][0]["image"]
    return found


async def in_one_cluster(world: World) -> None:
    """A service under a quota that runs in cluster a alone."""
    only = {"placement": {"clusters": {"exclude": ["b", "c"]}}}
    await world.create("FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")})
    await world.create(KIND, "feed", "web", service(4, "500m", project="feed", **only))
    await world.settle()


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_notes_of_others_on_a_slice_do_not_hide_what_is_in_force(part: str) -> None:
    """Whoever labels a slice in its member changes nothing of what was admitted."""

    async def scenario(world: World) -> None:
        await in_one_cluster(world)
        await world.federation.kill("hub")
        await world.patch(KIND, "feed", "web", {"metadata": {part: {"by": "hand"}}}, at="a")
        await world.patch(KIND, "feed", "web", template("20"))
        world.federation.start_hub()
        await asyncio.sleep(30)
        (decision,) = await world.decisions()
        assert decision["spec"]["inForce"]["revision"]
        await world.patch(
            KIND, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": ["c"]}}}}
        )
        await asyncio.sleep(60)
        await world.settle()
        found = await world.get(KIND, "feed", "web", at="a")
        assert found is not None
        assert found["metadata"][part]["by"] == "hand"
        assert set((await images(world)).values()) == {"app:1"}

    play(scenario)


EVIL = {**service(1, "500m")["template"]["spec"]["containers"][0], "image": "evil:1"}


@pytest.mark.parametrize("lie", ["content", "content and generation"])
def test_no_member_can_say_that_something_else_was_admitted(lie: str) -> None:
    """The only holder of a slice, edited there while no hub runs: what it holds is not what the
    decision's seal covers, and reaches no other cluster.
    """

    async def scenario(world: World) -> None:
        await in_one_cluster(world)
        assert await images(world) == {"a": "app:1"}
        await world.federation.kill("hub")
        await world.patch(KIND, "feed", "web", template("20"))
        lied: dict[str, Any] = {"template": {"spec": {"containers": [EVIL]}}}
        if lie != "content":
            lied["slice"] = {"originGeneration": 0}
        await world.patch(KIND, "feed", "web", {"spec": lied}, at="a")
        world.federation.start_hub()
        await asyncio.sleep(30)
        (decision,) = await world.decisions()
        assert decision["spec"]["inForce"]["heldBack"] == 2
        assert "revision" not in decision["spec"]["inForce"]
        await world.patch(
            KIND, "feed", "web", {"spec": {"placement": {"clusters": {"exclude": ["c"]}}}}
        )
        await asyncio.sleep(120)
        assert (await images(world)).get("b") in (None, "app:1")
        await world.patch(KIND, "feed", "web", template("500m"))
        await asyncio.sleep(60)
        await world.settle()
        assert set((await images(world)).values()) == {"app:1"}

    play(scenario)


def test_one_honest_member_is_believed_whatever_others_hold() -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        liar, *honest = sorted(await cpu_in_members(world))
        assert honest
        await world.federation.kill("hub")
        await world.patch(KIND, "feed", "web", template("20"))
        await world.patch(
            KIND, "feed", "web", {"spec": {"template": {"spec": {"containers": [EVIL]}}}}, at=liar
        )
        world.federation.start_hub()
        await asyncio.sleep(60)
        await world.settle()
        (decision,) = await world.decisions()
        assert decision["spec"]["inForce"]["revision"]
        assert set((await images(world)).values()) == {"app:1"}
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"500m"}

    play(scenario)


def test_a_revision_that_is_kept_again_is_the_one_that_the_decision_names() -> None:
    """Also where it was deleted, and the only member claims that it is of another generation."""

    async def scenario(world: World) -> None:
        await in_one_cluster(world)
        await world.patch(KIND, "feed", "web", template("20"))
        await asyncio.sleep(10)
        await world.federation.kill("hub")
        (before,) = await world.decisions()
        name = before["spec"]["inForce"]["revision"]
        ref = ObjectRef("apps/v1", "controllerrevisions", "feed", name, "ControllerRevision")
        await world.host.delete(ref, uid=(await world.host.get(ref))["metadata"]["uid"])
        await world.patch(KIND, "feed", "web", {"spec": {"slice": {"originGeneration": 0}}}, at="a")
        world.federation.start_hub()
        await asyncio.sleep(30)
        await world.delete("PlacementDecision", "feed", before["metadata"]["name"])
        await asyncio.sleep(30)
        (after,) = await world.decisions()
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        listing = await world.host.list("apps/v1", "controllerrevisions", "feed")
        owned = [
            one
            for one in listing.items
            if one["metadata"]["ownerReferences"][0]["kind"] == "PlacementDecision"
        ]
        assert {one["metadata"]["name"] for one in owned} == {after["spec"]["inForce"]["revision"]}
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"500m"}

    play(scenario)


def test_a_decision_without_a_digest_is_read_as_before() -> None:
    """As an earlier version wrote it; and no digest is asked of it."""

    async def scenario(world: World) -> None:
        await asked(world)
        (decision,) = await world.decisions()
        assert len(decision["spec"]["charge"]["content"]) == 24
        await world.federation.kill("hub")
        bare = {**decision["spec"], "charge": {**decision["spec"]["charge"]}}
        del bare["charge"]["content"], bare["seal"]
        bare["seal"] = world.federation.hub.state.seals.of(
            "feed", decision["metadata"]["name"], bare
        )
        ref = registry.KINDS["PlacementDecision"].ref("feed", decision["metadata"]["name"])
        patch = {"spec": {"seal": bare["seal"], "charge": {"content": None}}}
        await world.host.patch(ref, patch)
        await world.patch(KIND, "feed", "web", template("20"))
        world.federation.start_hub()
        await asyncio.sleep(60)
        await world.settle()
        (after,) = await world.decisions()
        assert after["metadata"]["uid"] == decision["metadata"]["uid"]
        assert after["spec"]["inForce"]["revision"]
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"500m"}

    play(scenario)


def test_several_edits_are_held_back_one_after_the_other_and_the_first_generation_stays() -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        for cpu in ("3", "5", "20"):
            await world.patch(KIND, "feed", "web", template(cpu))
        await asyncio.sleep(10)
        await world.patch(KIND, "feed", "web", template("30"))
        await asyncio.sleep(10)
        await world.settle()
        message = (await world.condition(KIND, "feed", "web", "Placed"))["message"]
        assert "generation 5 asks for 120 cpu" in message
        assert "generation 1 stays in force" in message
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"500m"}
        await world.patch(KIND, "feed", "web", {"spec": {"replicas": 2}})
        await asyncio.sleep(10)
        assert sum(copies for copies, _ in (await cpu_in_members(world)).values()) == 2

    play(scenario)


def test_a_plain_deployment_is_held_back_too() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")}
        )
        await world.create(
            "ClusterPlacementPolicy", "", "all", {"resourceSelectors": [{"kind": "Deployment"}]}
        )
        pods = {"metadata": {"labels": {"app": "web"}}, **service(1)["template"]}
        spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": pods}
        await world.create("Deployment", "feed", "plain", spec)
        await world.settle()
        raised = template("20")["spec"]["template"]
        await world.patch("Deployment", "feed", "plain", {"spec": {"template": raised}})
        await asyncio.sleep(20)
        await world.settle()
        requests = set()
        for cluster in world.federation.members:
            found = await world.get("Deployment", "feed", "plain", at=cluster)
            if found is not None:
                requests.add(
                    found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][
                        "cpu"
                    ]
                )
        assert requests == {"500m"}
        assert (await world.condition("Deployment", "feed", "plain", "Placed"))[
            "reason"
        ] == "QuotaExceeded"

    play(scenario)


def test_running_shards_are_charged_what_they_began_with() -> None:
    async def scenario(world: World) -> None:
        await world.create(
            "FederatedQuota", "", "feed", {"projects": ["feed"], "tiers": limits("4")}
        )
        long = {"embedded.federator/run-seconds": "600"}
        await world.create(
            "PinterestJobSet", "feed", "batch", {**jobset(8, 8, "500m", long), "project": "feed"}
        )
        await asyncio.sleep(20)
        await world.patch(
            "PinterestJobSet",
            "feed",
            "batch",
            {"spec": {"template": jobset(8, 8, "1")["template"]}},
        )
        await asyncio.sleep(20)
        placed = await world.condition("PinterestJobSet", "feed", "batch", "Placed")
        assert (placed["status"], placed["reason"]) == ("False", "QuotaExceeded")
        await world.patch(
            "PinterestJobSet",
            "feed",
            "batch",
            {"spec": {"template": jobset(8, 8, "10m")["template"]}},
        )
        await asyncio.sleep(20)
        used = await world.get("FederatedQuota", "", "feed")
        assert used is not None
        assert used["status"]["usage"][0]["used"]["cpu"] == "4"

    play(scenario)


def test_an_edit_that_was_not_permitted_is_an_admission_when_it_is() -> None:
    async def scenario(world: World) -> None:
        await asked(world)
        privileged = template("20")
        privileged["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {
            "privileged": True
        }
        await world.patch(KIND, "feed", "web", privileged)
        await asyncio.sleep(10)
        assert (await world.condition(KIND, "feed", "web", "Placed"))[
            "reason"
        ] == "PodSecurityViolation"
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        await world.host.patch(
            ObjectRef("v1", "namespaces", "", "feed", "Namespace"), {"metadata": {"labels": labels}}
        )
        await asyncio.sleep(20)
        placed = await world.condition(KIND, "feed", "web", "Placed")
        assert (placed["reason"], "generation 1 stays in force" in placed["message"]) == (
            "QuotaExceeded",
            True,
        )
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {"500m"}

    play(scenario)


@pytest.mark.parametrize("change", ["20", "700m"], ids=["held back", "admitted"])
def test_no_member_hears_of_an_edit_before_placing_has_judged_it(change: str) -> None:
    """However long the verdict takes to be on the host."""

    async def scenario(world: World) -> None:
        await asked(world)
        before = await cpu_in_members(world)
        arrived: list[str] = []

        def late(what: str) -> Any:
            async def wait() -> None:
                await asyncio.sleep(20)
                arrived.append(what)

            return wait

        for verb, what in (("POST", "controllerrevisions"), ("PATCH", "placementdecisions")):
            world.meanwhile("host", verb, what, late(what))
        await world.patch(KIND, "feed", "web", template(change))
        while not arrived:
            assert await cpu_in_members(world) == before
            await asyncio.sleep(0.2)
        await asyncio.sleep(60)
        await world.settle()
        wanted = "500m" if change == "20" else "700m"
        assert {cpu for _, cpu in (await cpu_in_members(world)).values()} == {wanted}

    play(scenario)
