"""A member process on an embedded cluster: slices become natives, drift is repaired, foreign
objects stay.
"""

import asyncio
import json

import pytest

from federator.kinds.natives import OPTIONAL
from federator.kube import errors
from federator.model.names import WorkloadKey
from tests.faults.links import Cut
from tests.unit.member.memberworld import (
    FLEET,
    MEMBER,
    MemberWorld,
    block,
    condition_of,
    deployment,
    in_member,
    service,
    template,
)

LABEL = "federation.pinterest.com/fleet"


@in_member()
async def test_a_marked_service_becomes_natives_and_reports_ready(world: MemberWorld) -> None:
    await world.create(
        service(loadBalancers=[{"port": 80, "host": "web.example"}], config={"a.properties": "x"})
    )
    status = await world.until_status("PinterestService", "web", ready=3, healthy=True)
    obj = await world.get("PinterestService", "web")
    assert status["observedGeneration"] == obj["metadata"]["generation"]
    assert condition_of(obj, "Ready")["status"] == "True"
    assert condition_of(obj, "Expanded")["status"] == "True"
    for kind, name in (
        ("Deployment", "web"),
        ("Service", "web"),
        ("Ingress", "web"),
        ("ConfigMap", "web-config"),
    ):
        native = await world.get(kind, name)
        owner = native["metadata"]["ownerReferences"][0]
        assert (owner["uid"], owner["controller"]) == (obj["metadata"]["uid"], True)
        assert native["metadata"]["labels"][LABEL] == FLEET


@in_member()
async def test_after_settling_nothing_is_written_any_more(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await asyncio.sleep(60)
    before = len(world.log)
    await asyncio.sleep(600)
    assert world.log[before:] == []


@in_member()
async def test_a_restart_of_the_member_process_writes_nothing(world: MemberWorld) -> None:
    await world.create(service(replicas=4, template=template("0.25")))
    await world.until_status("PinterestService", "web", ready=4, healthy=True)
    await asyncio.sleep(60)
    before = len(world.log)
    await world.restart_member()
    await asyncio.sleep(120)
    assert world.process.ready
    assert world.log[before:] == []


@in_member()
async def test_each_native_is_written_once_on_the_way(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await asyncio.sleep(30)
    natives = {
        path: n
        for path, n in world.writes.items()
        if "/feed/" in path and "pinterest.com" not in path
    }
    assert sum(natives.values()) == 2, natives


@in_member()
async def test_unmarked_and_foreign_fleets_slices_are_left_alone(world: MemberWorld) -> None:
    unmarked = service("plain")
    del unmarked["spec"]["slice"]
    await world.create(unmarked)
    await world.create(service("theirs", slice=block(fleet="another")))
    await asyncio.sleep(30)
    assert await world.names("Deployment") == []


@in_member(standalone=True)
async def test_standalone_expands_unmarked_kinds_too(world: MemberWorld) -> None:
    unmarked = service("plain")
    del unmarked["spec"]["slice"]
    await world.create(unmarked)
    await world.until_status("PinterestService", "plain", ready=3, healthy=True)
    await asyncio.sleep(30)
    before = len(world.log)
    await asyncio.sleep(100)
    assert world.log[before:] == []


@in_member()
async def test_a_foreign_object_of_the_same_name_is_a_conflict_and_stays_as_it_is(
    world: MemberWorld,
) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "feed"},
        "spec": {"ports": [{"port": 9999}], "selector": {"app": "theirs"}},
    }
    before = await world.create(foreign)
    await world.create(service())
    found = await world.until_condition("PinterestService", "web", "Conflict", "True")
    assert "Service feed/web" in found["message"]
    assert (await world.get("PinterestService", "web"))["status"]["reason"] == "Conflict"
    assert await world.get("Service", "web") == before
    await world.delete("Service", "web")
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    assert condition_of(await world.get("PinterestService", "web"), "Conflict") == {}


@in_member()
async def test_drift_is_repaired_and_other_writers_fields_are_kept(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    drift = {"metadata": {"annotations": {"theirs": "kept"}}, "spec": {"replicas": 9}}
    await world.patch("Deployment", "web", drift)

    async def repaired() -> bool:
        return bool((await world.get("Deployment", "web"))["spec"]["replicas"] == 3)

    await world.until(repaired)
    assert (await world.get("Deployment", "web"))["metadata"]["annotations"]["theirs"] == "kept"


@in_member()
async def test_a_native_deleted_by_hand_comes_back(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    old = (await world.get("Service", "web"))["metadata"]["uid"]
    await world.delete("Service", "web")

    async def back() -> bool:
        found = await world.find("Service", "web")
        return found is not None and found["metadata"]["uid"] != old

    await world.until(back)


@in_member()
async def test_a_rival_that_rewrites_a_native_every_second_is_left_alone_after_a_while(
    world: MemberWorld,
) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    before = sum(n for path, n in world.writes.items() if path.endswith("/deployments/web"))
    for _ in range(40):
        await world.patch("Deployment", "web", {"spec": {"replicas": 7}})
        await asyncio.sleep(1)
    after = sum(n for path, n in world.writes.items() if path.endswith("/deployments/web"))
    assert after - before <= world.options.futile_writes
    assert (await world.get("PinterestService", "web"))["status"]["reason"] == "CannotConverge"


@in_member()
async def test_a_changed_slice_changes_its_natives_and_drops_those_it_no_longer_wants(
    world: MemberWorld,
) -> None:
    await world.create(service(config={"a": "1"}))
    await world.until_status("PinterestService", "web", healthy=True)
    await world.patch(
        "PinterestService", "web", {"spec": {"replicas": 5, "config": None, "slice": {"seq": 6}}}
    )
    status = await world.until_status("PinterestService", "web", ready=5, healthy=True)
    assert status["observedGeneration"] == 2
    assert await world.find("ConfigMap", "web-config") is None


@in_member()
async def test_the_observed_generation_waits_for_the_native_controllers(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await world.stop_controllers()
    await world.patch(
        "PinterestService",
        "web",
        {"spec": {"priority": 5, "template": template("300m"), "slice": {"seq": 6}}},
    )
    await asyncio.sleep(30)
    assert (await world.get("Deployment", "web"))["metadata"]["generation"] == 2
    status = (await world.get("PinterestService", "web"))["status"]
    assert (status["observedGeneration"], status["healthy"]) == (1, False)


@in_member()
async def test_what_was_written_counts_only_once_the_watch_shows_it(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await world.hear_late("/deployments", 8.0)
    await asyncio.sleep(3)
    await world.patch(
        "PinterestService", "web", {"spec": {"template": template("300m"), "slice": {"seq": 6}}}
    )
    await asyncio.sleep(5)
    assert (await world.get("Deployment", "web"))["metadata"]["generation"] == 2
    assert (await world.get("PinterestService", "web"))["status"]["observedGeneration"] == 1
    await world.until_status("PinterestService", "web", observedGeneration=2, healthy=True)


@in_member()
async def test_a_roll_out_that_has_just_begun_is_not_told_as_done_after_a_restart(
    world: MemberWorld,
) -> None:
    await world.create(service(config={"a": "1"}))
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await asyncio.sleep(30)
    await world.restart_member()
    await asyncio.sleep(30)
    await world.hear_late("/deployments", 3.0)
    before = world.writes["PATCH /apis/apps/v1/namespaces/feed/deployments/web"]
    # The event of the config map brings a second turn before the Deployment's own.
    patch = {"spec": {"config": {"a": "2"}, "template": template("300m"), "slice": {"seq": 6}}}
    generation = (await world.patch("PinterestService", "web", patch))["metadata"]["generation"]
    told = {"healthy": False}
    for _ in range(200):
        await asyncio.sleep(0.05)
        told = (await world.get("PinterestService", "web"))["status"]
        if told["observedGeneration"] == generation and told["healthy"]:
            break
        assert told["observedGeneration"] < generation or told["updatedReplicas"] < 3
    assert told["healthy"]
    updated = (await world.get("Deployment", "web"))["status"]["updatedReplicas"]
    assert updated == 3
    # Its fields are handed over to Apply, then it is applied once.
    assert world.writes["PATCH /apis/apps/v1/namespaces/feed/deployments/web"] == before + 2


@in_member()
async def test_deleting_the_slice_takes_its_natives_with_it(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    await world.delete("PinterestService", "web")

    async def gone() -> bool:
        return not await world.names("Deployment") and not await world.names("Pod")

    await world.until(gone)


@in_member()
async def test_nothing_is_made_again_for_a_slice_whose_end_is_heard_late(
    world: MemberWorld,
) -> None:
    """The garbage collector is quicker than the watch: what it takes is not put back under its
    hands.
    """
    await world.create(service(config={"a": "1"}))
    await world.until_status("PinterestService", "web", healthy=True)
    await world.hear_late("/pinterestservices", 20.0)
    await asyncio.sleep(60)
    made = [entry for entry in world.log if "/status" not in entry]
    await world.delete("PinterestService", "web")
    await asyncio.sleep(60)
    assert world.process.caches.slice(WorkloadKey("PinterestService", "feed", "web")) is None
    assert [entry for entry in world.log if "/status" not in entry] == made
    assert (
        await world.names("Deployment")
        == await world.names("Service")
        == await world.names("ConfigMap")
        == []
    )


@in_member()
async def test_a_server_that_is_back_is_heard_within_seconds_however_long_it_was_away(
    world: MemberWorld,
) -> None:
    await world.stop_member()
    await world.links.sever(MEMBER, "m1", Cut.REFUSED)
    world.start_member()
    await asyncio.sleep(600)
    world.links.heal(MEMBER, "m1", Cut.REFUSED)
    await asyncio.sleep(4)
    reflectors = world.process.caches.reflectors
    unheard = [name for name, reflector in reflectors.items() if not reflector.store.synced]
    served = {"CronJob"}  # optional only for the rights of earlier releases
    assert unheard == [kind for kind in OPTIONAL if kind not in served]


@in_member()
async def test_a_slice_made_anew_under_its_name_waits_for_the_old_natives_and_sees_no_conflict(
    world: MemberWorld,
) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    await world.stop_controllers()
    await world.delete("PinterestService", "web")
    await asyncio.sleep(1)
    await world.create(service(slice=block(seq=8)))
    found = await world.until_condition("PinterestService", "web", "Expanded", "False")
    assert found["reason"] == "Applying"
    await world.start_controllers()
    await world.until_status("PinterestService", "web", healthy=True, within_s=30)


@in_member()
async def test_a_slice_of_an_older_decision_is_not_expanded(world: MemberWorld) -> None:
    await world.create(service())
    await world.until_status("PinterestService", "web", healthy=True)
    with pytest.raises(errors.Invalid):
        await world.patch("PinterestService", "web", {"spec": {"slice": {"seq": 4}}})
    await world.delete("PinterestService", "web")
    await asyncio.sleep(10)
    await world.create(service(slice=block(seq=4)))
    found = await world.until_condition("PinterestService", "web", "Expanded", "False")
    assert found["reason"] == "StaleSlice"
    assert await world.names("Deployment") == []


@in_member()
async def test_a_pinned_profile_is_waited_for_and_then_used(world: MemberWorld) -> None:
    from federator.api import runtimeprofile

    profile = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "RuntimeProfile",
        "metadata": {"name": "default"},
        "spec": {"sidecars": [{"name": "logs", "container": {"image": "registry/logs:1"}}]},
    }
    pinned = runtimeprofile.content_hash(profile)
    await world.create(service(slice=block(profile={"name": "default", "hash": pinned})))
    found = await world.until_condition("PinterestService", "web", "MissingDependency", "True")
    assert pinned in found["message"]
    assert await world.names("Deployment") == []
    await world.create(runtimeprofile.member_copy(profile, FLEET))
    await world.until_status("PinterestService", "web", healthy=True)
    containers = (await world.get("Deployment", "web"))["spec"]["template"]["spec"]["containers"]
    assert {container["name"] for container in containers} == {"app", "logs"}


@in_member()
async def test_a_missing_config_map_is_named_until_it_is_there(world: MemberWorld) -> None:
    pods = template()
    pods["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    await world.create(service(template=pods))
    found = await world.until_condition("PinterestService", "web", "MissingDependency", "True")
    assert "ConfigMap feed/settings" in found["message"]
    await world.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "feed"},
        }
    )

    async def cleared() -> bool:
        return condition_of(await world.get("PinterestService", "web"), "MissingDependency") == {}

    await world.until(cleared)


@in_member()
async def test_a_carried_deployment_gets_its_service_account_and_a_note_when_pods_cannot_run(
    world: MemberWorld,
) -> None:
    await world.create(deployment(template("100", serviceAccountName="robot")))

    async def noted() -> bool:
        annotations = (await world.get("Deployment", "plain"))["metadata"]["annotations"]
        return "federation.pinterest.com/member-status" in annotations

    await world.until(noted)
    annotations = (await world.get("Deployment", "plain"))["metadata"]["annotations"]
    note = json.loads(annotations["federation.pinterest.com/member-status"])
    assert note["reason"] == "Unschedulable"
    assert note["unschedulable"]["count"] == 2
    account = await world.get("ServiceAccount", "robot")
    assert account["metadata"]["labels"][LABEL] == FLEET


@in_member()
async def test_the_priority_classes_of_the_tiers_exist(world: MemberWorld) -> None:
    async def there() -> bool:
        return {"federator-reserved", "federator-ondemand", "federator-preemptible"} <= set(
            await world.names("PriorityClass")
        )

    await world.until(there)


@in_member()
async def test_the_lease_moves_every_ten_seconds(world: MemberWorld) -> None:
    await asyncio.sleep(5)
    ref = world.ref("Lease", "federator-member", "federator-system")
    first = (await world.client.get(ref))["spec"]["renewTime"]
    await asyncio.sleep(10)
    assert (await world.client.get(ref))["spec"]["renewTime"] > first


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_what_is_gone_with_its_slice_is_remembered_no_longer(propagation: str) -> None:
    """A member process lives for months, and workloads come and go."""

    @in_member()
    async def comes_and_goes(world: MemberWorld) -> None:
        await world.create(service("stays"))
        for number in range(5):
            await world.create(service(f"goes-{number}", replicas=1))
        await world.until_status("PinterestService", "stays", ready=3, healthy=True)
        await asyncio.sleep(30)
        natives = [
            (kind, "feed", f"goes-{number}")
            for kind in ("Deployment", "Service")
            for number in range(5)
        ]
        verdicts = world.process.expander.verdicts
        assert all(map(verdicts.knows, natives))
        for number in range(5):
            ref = world.ref("PinterestService", f"goes-{number}")
            uid = (await world.client.get(ref))["metadata"]["uid"]
            await world.client.delete(ref, uid=uid, propagation=propagation)
        await asyncio.sleep(120)
        assert await world.names("Deployment") == ["stays"]
        assert not any(map(verdicts.knows, natives))
        assert verdicts.knows(("Deployment", "feed", "stays"))

    comes_and_goes()
