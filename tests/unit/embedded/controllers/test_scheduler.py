"""The scheduler: fit, wording, priority, inter-pod rules, and few looks at hopeless pods."""

import pytest

from federator.embedded.controllers import NodePool
from tests.unit.embedded.controllers.clusters import (
    RESOURCES,
    Cluster,
    Obj,
    deployment,
    play,
    pod,
    template,
)

SMALL = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def nodes_of(cluster: Cluster) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in cluster.pods():
        name = one["spec"].get("nodeName", "")
        counts[name] = counts.get(name, 0) + 1
    return counts


def message(cluster: Cluster, name: str) -> str:
    return str(cluster.condition("Pod", name, "PodScheduled").get("message", ""))


def test_pods_spread_over_the_emptiest_nodes() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=9))
        await cluster.pass_s(5)
        assert nodes_of(cluster) == {"node-0": 3, "node-1": 3, "node-2": 3}

    play(story)


def test_a_pod_that_fits_nowhere_says_why_in_the_scheduler_s_words() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", pod("big", cpu="5"))
        await cluster.pass_s(1)
        assert message(cluster, "big") == (
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu. "
            "preemption: 0/4 nodes are available: 1 Preemption is not helpful for scheduling, "
            "3 No preemption victims found for incoming pod."
        )
        assert cluster.condition("Pod", "big", "PodScheduled")["reason"] == "Unschedulable"
        assert cluster.get("Pod", "big")["status"]["phase"] == "Pending"

    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    play(story, [NodePool(3, SMALL), NodePool(1, {"cpu": "64"}, taints=[taint], name="own")])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"cpu": "100m", "nodeSelector": {"disk": "ssd"}},
            "2 node(s) didn't match Pod's node affinity/selector",
        ),
        ({"cpu": "9"}, "2 Insufficient cpu"),
    ],
)
def test_refusals_are_counted_per_reason(spec: Obj, expected: str) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", pod("one", **spec))
        await cluster.pass_s(1)
        assert message(cluster, "one").startswith(f"0/2 nodes are available: {expected}.")

    play(story, [NodePool(2, SMALL)])


def test_without_nodes_the_message_says_so() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", pod("one"))
        await cluster.pass_s(1)
        assert message(cluster, "one") == "no nodes available to schedule pods"

    play(story, [])


def test_pod_slots_limit_and_are_named() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=12, pod=template(cpu="1m")))
        await cluster.pass_s(3)
        assert nodes_of(cluster) == {"node-0": 10, "": 2}
        waiting = next(one for one in cluster.pods() if "nodeName" not in one["spec"])
        assert "1 Too many pods." in message(cluster, waiting["metadata"]["name"])

    play(story, [NodePool(1, SMALL)])


def test_waiting_pods_are_bound_when_room_is_freed_highest_priority_first() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "PriorityClass",
            {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
        )
        cluster.create("Pod", pod("holder", cpu="3"))
        await cluster.pass_s(2)
        cluster.create("Pod", pod("low", cpu="3"))
        cluster.create(
            "Pod", pod("high", cpu="3", priorityClassName="high", preemptionPolicy="Never")
        )
        await cluster.pass_s(2)
        cluster.delete("Pod", "holder")
        await cluster.pass_s(3)
        assert cluster.get("Pod", "high")["spec"].get("nodeName") == "node-0"
        assert "nodeName" not in cluster.get("Pod", "low")["spec"]

    play(story, [NodePool(1, SMALL)])


def test_a_finished_pod_frees_its_room() -> None:
    async def story(cluster: Cluster) -> None:
        first = pod("first", cpu="3", restartPolicy="Never")
        first["metadata"]["annotations"] = {"embedded.federator/run-seconds": "10"}
        cluster.create("Pod", first)
        cluster.create("Pod", pod("second", cpu="3"))
        await cluster.pass_s(5)
        assert "nodeName" not in cluster.get("Pod", "second")["spec"]
        await cluster.pass_s(10)
        assert cluster.get("Pod", "second")["spec"]["nodeName"] == "node-0"

    play(story, [NodePool(1, SMALL)])


def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.pass_s(1)
        cluster.edit("Node", "node-0", unschedulable=True)
        cluster.create("Pod", pod("one"))
        await cluster.pass_s(1)
        assert message(cluster, "one").startswith(
            "0/1 nodes are available: 1 node(s) were unschedulable."
        )
        cluster.edit("Node", "node-0", unschedulable=False)
        await cluster.pass_s(1)
        assert cluster.get("Pod", "one")["spec"]["nodeName"] == "node-0"

    play(story, [NodePool(1, SMALL)])


def test_a_node_that_joins_takes_waiting_pods() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=6, pod=template(cpu="1")))
        await cluster.pass_s(2)
        assert nodes_of(cluster)[""] == 2
        status = {"allocatable": SMALL, "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.create("Node", {"metadata": {"name": "late"}, "spec": {}, "status": status})
        await cluster.pass_s(2)
        assert nodes_of(cluster) == {"node-0": 4, "late": 2}

    play(story, [NodePool(1, SMALL)])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "zone", "operator": "In", "values": ["b"]}, "b-0"),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, "b-0"),
        ({"key": "gpu", "operator": "Exists"}, "b-0"),
        ({"key": "gpu", "operator": "DoesNotExist"}, "a-0"),
        ({"key": "rank", "operator": "Gt", "values": ["5"]}, "b-0"),
        ({"key": "rank", "operator": "Lt", "values": ["5"]}, "a-0"),
    ],
)
def test_required_node_affinity_chooses_the_node(expression: Obj, expected: str) -> None:
    async def story(cluster: Cluster) -> None:
        required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        cluster.create("Pod", pod("one", affinity=affinity))
        await cluster.pass_s(1)
        assert cluster.get("Pod", "one")["spec"].get("nodeName") == expected

    pools = [
        NodePool(1, SMALL, {"zone": "a", "rank": "1"}, name="a"),
        NodePool(1, SMALL, {"zone": "b", "rank": "9", "gpu": "1"}, name="b"),
    ]
    play(story, pools)


def anti_affinity(app: str, key: str = "kubernetes.io/hostname") -> Obj:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_one_per_node_leaves_the_rest_waiting_and_says_so() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Deployment", deployment(replicas=5, pod=template(affinity=anti_affinity("web")))
        )
        await cluster.pass_s(3)
        assert nodes_of(cluster) == {"node-0": 1, "node-1": 1, "node-2": 1, "": 2}
        waiting = next(one for one in cluster.pods() if "nodeName" not in one["spec"])
        text = message(cluster, waiting["metadata"]["name"])
        assert text.startswith(
            "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."
        ) or ("existing pods anti-affinity rules" in text)
        cluster.edit("Deployment", "web", replicas=3)
        await cluster.pass_s(3)
        assert nodes_of(cluster) == {"node-0": 1, "node-1": 1, "node-2": 1}

    play(story)


def test_pods_keep_away_from_those_that_want_to_be_apart_from_them() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", pod("loner", affinity=anti_affinity("crowd", "zone")))
        await cluster.pass_s(2)
        home = cluster.get("Pod", "loner")["spec"]["nodeName"][0]
        for number in range(4):
            crowd = pod(f"crowd-{number}")
            crowd["metadata"]["labels"] = {"app": "crowd"}
            cluster.create("Pod", crowd)
        await cluster.pass_s(2)
        zones = {
            one["spec"]["nodeName"][0]
            for one in cluster.pods()
            if one["metadata"]["name"] != "loner"
        }
        assert zones == {"a", "b"} - {home}

    pools = [NodePool(2, SMALL, {"zone": zone}, name=zone) for zone in ("a", "b")]
    play(story, pools)


def test_pods_go_where_those_are_that_they_want_to_be_with() -> None:
    async def story(cluster: Cluster) -> None:
        term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        cluster.create("Pod", pod("web", affinity=affinity))
        await cluster.pass_s(1)
        assert "2 node(s) didn't match pod affinity rules" in message(cluster, "web")
        cluster.create("Pod", pod("db", nodeSelector={"zone": "b"}))
        await cluster.pass_s(8)
        assert cluster.get("Pod", "web")["spec"].get("nodeName") == "b-0"

    play(story, [NodePool(1, SMALL, {"zone": zone}, name=zone) for zone in ("a", "b")])


def test_hard_topology_spread_keeps_the_skew() -> None:
    async def story(cluster: Cluster) -> None:
        rule = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        cluster.create(
            "Deployment", deployment(replicas=9, pod=template(topologySpreadConstraints=[rule]))
        )
        await cluster.pass_s(3)
        zones = {name[:1]: 0 for name in nodes_of(cluster)}
        for name, count in nodes_of(cluster).items():
            zones[name[:1]] += count
        assert zones == {"a": 5, "b": 4}

    pools = [
        NodePool(4, SMALL, {"zone": "a"}, name="a"),
        NodePool(1, SMALL, {"zone": "b"}, name="b"),
    ]
    play(story, pools)


def test_a_gated_pod_waits_without_being_called_unschedulable() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", pod("one", schedulingGates=[{"name": "quota"}]))
        await cluster.pass_s(1)
        assert cluster.condition("Pod", "one", "PodScheduled")["reason"] == "SchedulingGated"
        cluster.edit("Pod", "one", schedulingGates=[])
        await cluster.pass_s(1)
        assert cluster.get("Pod", "one")["spec"]["nodeName"]

    play(story)


def test_a_thousand_hopeless_pods_cost_two_writes_each() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=1000, pod=template(cpu="100")))
        await cluster.pass_s(30)
        assert len(cluster.pods("Pending")) == 1000
        assert cluster.writes["Pod"] == 2000
        assert all(
            "message" in entry for one in cluster.pods() for entry in one["status"]["conditions"]
        )
        # Churn elsewhere tries one pod of the shape, not a thousand.
        for _ in range(10):
            cluster.create("Pod", pod("passing"))
            await cluster.pass_s(3)
            cluster.delete("Pod", "passing")
            await cluster.pass_s(3)
        assert cluster.writes["Pod"] < 2100

    play(story)


def test_a_pod_bound_by_hand_is_charged_and_runs() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.pass_s(1)
        cluster.create("Pod", pod("fixed", node="node-0", cpu="3"))
        cluster.create("Pod", pod("next", cpu="3"))
        await cluster.pass_s(3)
        assert cluster.get("Pod", "fixed")["status"]["phase"] == "Running"
        assert "1 Insufficient cpu" in message(cluster, "next")

    play(story, [NodePool(1, SMALL)])


def test_init_containers_and_sidecars_count_as_the_scheduler_counts_them() -> None:
    async def story(cluster: Cluster) -> None:
        def container(name: str, cpu: str, **more: str) -> Obj:
            return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **more}

        heavy = pod("heavy")
        heavy["spec"]["containers"] = [container("app", "1")]
        heavy["spec"]["initContainers"] = [
            container("proxy", "1500m", restartPolicy="Always"),
            container("warm", "2600m"),
        ]
        cluster.create("Pod", heavy)
        await cluster.pass_s(1)
        assert "1 Insufficient cpu" in message(cluster, "heavy")
        node = cluster.get("Node", "node-0")
        room = {**node["status"], "allocatable": {**SMALL, "cpu": "4100m"}}
        cluster.store.update(RESOURCES["Node"], {**node, "status": room})
        await cluster.pass_s(1)
        assert cluster.get("Pod", "heavy")["spec"]["nodeName"] == "node-0"

    play(story, [NodePool(1, SMALL)])


def test_a_more_important_pod_takes_the_room_of_the_least_important_ones() -> None:
    async def story(cluster: Cluster) -> None:
        for name, value in (("low", 1), ("middle", 5), ("high", 9)):
            cluster.create("PriorityClass", {"metadata": {"name": name}, "value": value})
            if name != "high":
                spec = template(name, cpu="1", priorityClassName=name)
                cluster.create("Deployment", deployment(name, 4 if name == "low" else 8, spec))
        await cluster.pass_s(5)
        assert len(cluster.pods("Running")) == 12
        cluster.create(
            "Deployment", deployment("high", 2, template("high", cpu="2", priorityClassName="high"))
        )
        await cluster.pass_s(0.5)
        first = next(one for one in cluster.pods() if one["metadata"]["labels"]["app"] == "high")
        assert first["status"]["nominatedNodeName"].startswith("node-")
        victims = [one for one in cluster.pods() if "deletionTimestamp" in one["metadata"]]
        # One node holds two low pods, the next best one of each; the successor of that one takes
        # the last low pod's.
        assert sorted(one["metadata"]["labels"]["app"] for one in victims) == ["low"] * 4 + [
            "middle"
        ]
        assert victims[0]["status"]["conditions"][-1]["reason"] == "PreemptionByScheduler"
        await cluster.pass_s(20)
        running = [one["metadata"]["labels"]["app"] for one in cluster.pods("Running")]
        assert (running.count("high"), running.count("middle"), running.count("low")) == (2, 8, 0)
        before = cluster.writes.copy()
        await cluster.pass_s(600)
        assert cluster.writes == before

    play(story, [NodePool(3, SMALL)])


def test_a_pod_that_may_not_preempt_waits() -> None:
    async def story(cluster: Cluster) -> None:
        never = {"metadata": {"name": "polite"}, "value": 9, "preemptionPolicy": "Never"}
        cluster.create("PriorityClass", never)
        cluster.create("Deployment", deployment(replicas=4, pod=template(cpu="1")))
        await cluster.pass_s(5)
        cluster.create(
            "Deployment", deployment("p", 1, template("p", cpu="2", priorityClassName="polite"))
        )
        await cluster.pass_s(5)
        assert len(cluster.pods("Running")) == 4
        waiting = cluster.pods("Pending")[0]["metadata"]["name"]
        assert message(cluster, waiting).endswith(
            "preemption: not eligible due to preemptionPolicy=Never."
        )

    play(story, [NodePool(1, SMALL)])


def test_the_room_that_was_made_is_not_taken_by_less_important_pods() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("PriorityClass", {"metadata": {"name": "high"}, "value": 9})
        slow = template(cpu="1", annotations={"stop-seconds": "1-20"})
        cluster.create("Deployment", deployment(replicas=4, pod=slow))
        await cluster.pass_s(5)
        cluster.create("Pod", pod("big", cpu="3", priorityClassName="high"))
        await cluster.pass_s(40)
        assert cluster.get("Pod", "big")["status"]["phase"] == "Running"
        assert len(cluster.pods("Running")) == 2

    play(story, [NodePool(1, SMALL)])


def test_pods_of_a_shape_keep_their_turn_when_one_that_waits_is_deleted() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", pod("holder", cpu="4"))
        await cluster.pass_s(2)
        cluster.create("Deployment", deployment(replicas=4, pod=template(cpu="2")))
        await cluster.pass_s(2)
        cluster.edit("Deployment", "web", replicas=2)
        cluster.delete("Pod", "holder")
        await cluster.pass_s(5)
        assert len(cluster.pods("Running")) == 2

    play(story, [NodePool(1, SMALL)])
