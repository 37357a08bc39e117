"""A member process on an embedded cluster: what slices lost while nobody looked is taken off their
natives, and a restart writes nothing else.
"""

import asyncio

from tests.unit.member.memberworld import MemberWorld, in_member, service, template


@in_member()
async def test_what_a_slice_lost_while_no_member_process_ran_is_taken_off_its_natives(
    world: MemberWorld,
) -> None:
    tuned = template(annotations={"team": "feed", "debug": "on"}, nodeSelector={"disk": "fast"})
    tuned["spec"]["containers"][0]["ports"] = [
        {"containerPort": 8080},
        {"containerPort": 9090, "name": "admin"},
    ]
    await world.create(service(template=tuned))
    await asyncio.sleep(10)
    await world.stop_member()
    await world.patch("Deployment", "web", {"metadata": {"annotations": {"somebody": "else"}}})
    plain = template(annotations={"team": "feed"})
    plain["spec"]["containers"][0]["ports"] = [{"containerPort": 8080}]
    patch = {
        "metadata": {"annotations": {"debug": None}},
        "spec": {**plain["spec"], "nodeSelector": None},
    }
    await world.patch("PinterestService", "web", {"spec": {"template": patch}})
    world.start_member()
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    found = await world.get("Deployment", "web")
    pods = found["spec"]["template"]
    assert pods["metadata"]["annotations"] == {"team": "feed"}
    assert "nodeSelector" not in pods["spec"]
    assert pods["spec"]["containers"][0]["ports"] == [{"containerPort": 8080, "protocol": "TCP"}]
    assert found["metadata"]["annotations"]["somebody"] == "else"
    await asyncio.sleep(30)
    before = len(world.log)
    await world.restart_member()
    await asyncio.sleep(60)
    assert world.log[before:] == []


@in_member()
async def test_what_an_item_of_a_list_lost_while_no_member_process_ran_is_taken_off_too(
    world: MemberWorld,
) -> None:
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    door = {"port": 80, "protocol": "http", "path": "/"}
    await world.create(
        service(
            loadBalancers=[{**door, "host": "old.example"}], template=template(tolerations=[gpu])
        )
    )
    await asyncio.sleep(20)
    await world.stop_member()
    del gpu["effect"]
    spec = {"loadBalancers": [door], "template": template(tolerations=[gpu]), "slice": {"seq": 6}}
    await world.patch("PinterestService", "web", {"spec": spec})
    world.start_member()
    await asyncio.sleep(30)
    assert "host" not in (await world.get("Ingress", "web"))["spec"]["rules"][0]
    pods = (await world.get("Deployment", "web"))["spec"]["template"]["spec"]
    assert pods["tolerations"] == [gpu]


@in_member()
async def test_a_restart_writes_nothing_for_defaults_within_lists(world: MemberWorld) -> None:
    field = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    sources = [{"serviceAccountToken": {"path": "token"}}, {"downwardAPI": {"items": [field]}}]
    pods = template(volumes=[{"name": "identity", "projected": {"sources": sources}}])
    await world.create(
        service(template=pods, loadBalancers=[{"port": 80, "protocol": "http", "path": "/"}])
    )
    await world.until_status("PinterestService", "web", ready=3)
    volume = (await world.get("Deployment", "web"))["spec"]["template"]["spec"]["volumes"][0]
    assert volume["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600
    await asyncio.sleep(60)
    before = len(world.log)
    await world.restart_member()
    await asyncio.sleep(60)
    assert world.log[before:] == []


@in_member()
async def test_what_somebody_else_adds_within_a_list_of_ours_costs_at_most_one_write_per_life(
    world: MemberWorld,
) -> None:
    gpu = {"key": "gpu", "operator": "Exists"}
    await world.create(service(template=template(tolerations=[gpu])))
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await asyncio.sleep(10)
    await world.stop_member()
    theirs = {"template": {"spec": {"tolerations": [{**gpu, "effect": "NoSchedule"}]}}}
    await world.patch("Deployment", "web", {"spec": theirs})
    path = "PATCH /apis/apps/v1/namespaces/feed/deployments/web"
    before = world.writes[path]
    world.start_member()
    await asyncio.sleep(300)
    for number in range(3):
        await world.patch(
            "Deployment", "web", {"metadata": {"annotations": {"theirs": str(number)}}}
        )
        await asyncio.sleep(10)
    assert world.writes[path] - before <= 1
