"""The rules about requests can fail: who leads, who takes running work away, and to whom hubs
write.
"""

import asyncio
from dataclasses import replace

from federator.kube.wire.transport import Request
from tests import virtual_time
from tests.faults.lives import Life
from tests.faults.rows import Sending
from tests.simulation import conduct
from tests.simulation.story import Sent
from tests.unit.hub.world import World, play, service

WRITE = Request("PATCH", "/apis/pinterest.com/v1beta1/namespaces/feed/pinterestservices/web/status")
RENEWAL = Request(
    "PUT", "/apis/coordination.k8s.io/v1/namespaces/federator-system/leases/federator-hub"
)
DELETION = Request("DELETE", "/apis/apps/v1/namespaces/feed/deployments/web")


def sends(rule: conduct.OneLeader, *steps: tuple[Life, Request]) -> list[str]:
    for life, request in steps:
        rule.sending(life, Sending(life.process, "host", request))
    return rule.found


def test_leaders_may_follow_each_other_but_none_comes_back_to_life() -> None:
    async def main() -> None:
        one, two, three = Life("hub-0#1"), Life("hub-1#1"), Life("hub-0#2")
        assert not sends(
            conduct.OneLeader(), (one, WRITE), (one, WRITE), (two, WRITE), (three, WRITE)
        )
        assert not sends(conduct.OneLeader(), (one, WRITE), (two, WRITE), (one, RENEWAL))
        (found,) = sends(conduct.OneLeader(), (one, WRITE), (two, WRITE), (one, WRITE))
        assert found.startswith("12 one leader: hub-0#1 sends PATCH")
        await asyncio.sleep(0)

    virtual_time.run(main())


def test_a_member_process_that_deletes_running_work_of_its_own_accord_is_told() -> None:
    async def main() -> None:
        sent = Sent(100.0, "member-a", Life("member-a#1"), "a", DELETION, 200)
        rule = conduct.StaticStability()
        rule.moved("a", 90.0)
        rule(sent)
        rule(replace(sent, at_s=500.0, process="hub-0"))
        rule(replace(sent, at_s=500.0, status=404))
        assert not rule.found
        rule(replace(sent, at_s=500.0))
        assert rule.found[0].startswith("16 static stability: ")
        await asyncio.sleep(0)

    virtual_time.run(main())


def _status(cluster: str, body: bytes) -> Request:
    path = f"/apis/federation.pinterest.com/v1alpha1/memberclusters/{cluster}/status"
    return Request("PATCH", path, body=body)


def test_at_rest_only_the_success_rate_of_a_cluster_is_written_once_a_look() -> None:
    rate = b'{"metadata":{"uid":"1"},"status":{"success":{"percent":95,"avoided":false}}}'
    more = b'{"status":{"success":{"percent":95,"avoided":false},"slices":3}}'
    sent = Sent(100.0, "hub-0", Life("hub-0#1"), "host", _status("a", rate), 200)
    rule = conduct.Quiet()
    rule.listening = True
    rule(sent)
    rule(replace(sent, request=_status("b", rate), at_s=101.0))
    rule(replace(sent, at_s=159.5))
    assert not rule.found
    rule(replace(sent, at_s=180.0))
    assert len(rule.found) == 1
    rule(replace(sent, request=_status("c", more)))
    rule(replace(sent, request=WRITE))
    assert len(rule.found) == 3


def test_a_hub_that_writes_to_a_member_without_asking_or_in_spite_of_the_answer_is_told() -> None:
    async def main() -> None:
        standing = ["joined"]
        asks = Sent(
            10.0,
            "hub-0",
            Life("hub-0#1"),
            "a",
            Request("GET", "/api/v1/namespaces/kube-system"),
            200,
        )
        writes = replace(asks, request=replace(WRITE, body=b"{}"), at_s=15.0)
        recorded = ["joined"]
        rule = conduct.OnlyWhomWeKnow(lambda _: standing[0], lambda _: recorded)
        rule(asks)
        rule(writes)
        standing[0] = "another"
        rule(writes)
        assert not rule.found
        rule(replace(asks, at_s=16.0))
        recorded.append("")
        rule(replace(writes, at_s=18.0))
        assert not rule.found, "somebody is just joining the same address"
        recorded.remove("")
        rule(replace(writes, at_s=18.0))
        rule(replace(writes, life=Life("hub-0#2")))
        told, unasked = rule.found
        assert told.endswith("goes to another, joined was joined")
        assert unasked.endswith("before it has asked who that is")
        await asyncio.sleep(0)

    virtual_time.run(main())


def test_a_deletion_by_a_life_that_has_not_listed_what_it_depends_on_is_told() -> None:
    async def main() -> None:
        rule, life = conduct.NoDeleteOnDoubt(), Life("member-a#2")
        body = b'{"preconditions": {"uid": "u"}}'
        for plural in ("pinterestjobsets", "deployments", "jobs"):
            rule(Sent(1.0, "member-a", life, "a", Request("GET", f"/apis/any/v1/{plural}"), 200))
        job = Request("DELETE", "/apis/batch/v1/namespaces/feed/jobs/index-0-3", body=body)
        rule(Sent(2.0, "member-a", life, "a", job, 200))
        assert not rule.found, "services may not be served there: no Job is made for one"
        rule(Sent(3.0, "member-a", life, "a", replace(DELETION, body=body), 200))
        rule(Sent(3.0, "member-a", Life("member-a#3"), "a", job, 200))
        unlisted, anew = rule.found
        assert unlisted.endswith("before pinterestservices had been listed")
        assert anew.endswith("before deployments, jobs, pinterestjobsets had been listed")
        await asyncio.sleep(0)

    virtual_time.run(main())


def test_a_hub_that_decides_on_one_workload_all_the_time_is_found() -> None:
    async def scenario(world: World) -> None:
        rule = conduct.NoHotLoop(lambda: 0.0)
        rule.meet(world.federation.hub, Life("hub#1"))
        await world.create("PinterestService", "feed", "web", service(2))
        await world.settle()
        (workload,) = world.federation.hub.state.workloads.values()
        before = rule.most[conduct.DECIDED]
        assert 0 < before < 10
        for _ in range(conduct.DECISIONS_PER_MINUTE - before):
            world.federation.hub.controllers.placing.as_now(workload)
        assert not rule.found
        world.federation.hub.controllers.placing.as_now(workload)
        (found,) = rule.found
        assert "a decision of hub#1 on PinterestService/feed/web is one of 121" in found

    play(scenario)
