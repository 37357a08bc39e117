"""EndpointSlices, load balancer and Ingress addresses, events, and how the runtime shares the
loop.
"""

import asyncio

from federator.embedded.controllers import NodePool
from tests.unit.embedded.controllers.clusters import (
    RESOURCES,
    Cluster,
    Obj,
    deployment,
    job,
    play,
    template,
)


def service(name: str = "web", **spec: object) -> Obj:
    full = {
        "selector": {"app": name},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
        **spec,
    }
    return {"metadata": {"name": name}, "spec": full}


def endpoints(cluster: Cluster) -> list[Obj]:
    return [endpoint for one in cluster.all("EndpointSlice") for endpoint in one["endpoints"]]


def test_slices_hold_the_ready_pods_of_a_service() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Service", service())
        cluster.create("Deployment", deployment(replicas=3))
        cluster.create("Deployment", deployment("other", replicas=2))
        await cluster.pass_s(10)
        found = endpoints(cluster)
        assert len(found) == 3
        assert all(
            one["conditions"] == {"ready": True, "serving": True, "terminating": False}
            for one in found
        )
        (slice_,) = cluster.all("EndpointSlice")
        assert slice_["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
        assert slice_["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
        cluster.edit("Deployment", "web", replicas=1)
        await cluster.pass_s(10)
        assert len(endpoints(cluster)) == 1
        cluster.delete("Service", "web")
        await cluster.pass_s(10)
        assert cluster.all("EndpointSlice") == []

    play(story)


def test_large_services_have_several_slices_written_at_most_once_a_second() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Service", service())
        pod = template(cpu="1m", annotations={"start-delay-seconds": "1-10"})
        cluster.create("Deployment", deployment(replicas=250, pod=pod))
        await cluster.pass_s(20)
        assert [len(one["endpoints"]) for one in cluster.all("EndpointSlice")] != []
        assert len(endpoints(cluster)) == 250
        assert len(cluster.all("EndpointSlice")) == 3
        assert cluster.writes["EndpointSlice"] <= 3 * 13
        before = cluster.writes.copy()
        await cluster.pass_s(600)
        assert cluster.writes == before

    play(story, [NodePool(5)])


def test_a_pod_that_reaches_a_service_fails_without_ready_endpoints() -> None:
    async def story(cluster: Cluster) -> None:
        notes = {"reaches": "web", "run-seconds": "5"}
        pod = template("client", annotations=notes, restartPolicy="Never")
        cluster.create("Service", service())
        cluster.create("Job", job("early", pod, backoffLimit=0))
        await cluster.pass_s(20)
        assert cluster.status("Job", "early").get("failed") == 1
        cluster.create("Deployment", deployment(replicas=1))
        await cluster.pass_s(10)
        cluster.create("Job", job("late", pod, backoffLimit=0))
        await cluster.pass_s(20)
        assert cluster.status("Job", "late").get("succeeded") == 1
        cluster.delete("Service", "web")
        cluster.create("Job", job("gone", pod, backoffLimit=0))
        await cluster.pass_s(20)
        assert cluster.status("Job", "gone").get("failed") == 1

    play(story)


def test_a_change_of_selector_changes_the_endpoints() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Service", service())
        cluster.create("Deployment", deployment("other", replicas=2))
        await cluster.pass_s(10)
        assert endpoints(cluster) == []
        cluster.edit("Service", "web", selector={"app": "other"})
        await cluster.pass_s(10)
        assert len(endpoints(cluster)) == 2

    play(story)


def test_load_balancers_and_ingresses_get_an_address_that_stays() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Service", service(type="LoadBalancer"))
        cluster.create("Ingress", {"metadata": {"name": "web"}, "spec": {"rules": []}})
        await cluster.pass_s(5)
        addresses = [
            cluster.status(kind, "web")["loadBalancer"]["ingress"]
            for kind in ("Service", "Ingress")
        ]
        assert addresses[0][0]["ipMode"] == "VIP"
        assert addresses[1][0]["ip"].startswith("198.")
        cluster.edit("Ingress", "web", rules=[{"host": "a.example"}])
        await cluster.pass_s(5)
        assert cluster.status("Ingress", "web")["loadBalancer"]["ingress"] == addresses[1]
        assert cluster.writes["Ingress"] == 3

    play(story)


def test_events_tell_the_main_transitions_and_stay_bounded() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=3))
        await cluster.pass_s(5)
        reasons = {one["reason"] for one in cluster.all("Event")}
        assert {"ScalingReplicaSet", "SuccessfulCreate", "Scheduled"} <= reasons
        text = next(
            one["message"] for one in cluster.all("Event") if one["reason"] == "ScalingReplicaSet"
        )
        assert text.startswith("Scaled up replica set web-")
        assert text.endswith(" from 0 to 3")
        for size in range(5):
            cluster.edit("Deployment", "web", replicas=40 * (size % 2 + 1))
            await cluster.pass_s(60)
        assert len(cluster.all("Event")) <= 50

    play(story, [NodePool(5)], events=50)


def test_others_get_the_loop_while_thousands_of_pods_are_made() -> None:
    async def story(cluster: Cluster) -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        cluster.create("Deployment", deployment(replicas=2000, pod=template(cpu="1m")))
        task = asyncio.create_task(other())
        made = asyncio.Event()
        cluster.store.subscribe(
            RESOURCES["Pod"], lambda _: made.set() if cluster.writes["Pod"] >= 2000 else None
        )
        await made.wait()
        task.cancel()
        assert turns >= 18

    play(story, [NodePool(30)])
