"""Pod behaviour by annotations: start, readiness, exits, restarts, image errors, stopping."""

import random

import pytest

from federator.embedded.controllers import Defaults, NodePool
from federator.embedded.controllers.kubelet import behaviour
from federator.embedded.controllers.kubelet.behaviour import Span
from tests.unit.embedded.controllers.clusters import Cluster, Obj, deployment, play, pod, template


def behaving(name: str, restart: str = "Always", **annotations: str) -> Obj:
    full = pod(name, restartPolicy=restart)
    full["metadata"]["annotations"] = {
        f"embedded.federator/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    return full


def test_a_pod_is_up_after_two_writes() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("one"))
        await cluster.pass_s(0.5)
        waiting = cluster.get("Pod", "one")
        assert waiting["spec"]["nodeName"]
        assert (
            waiting["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
            == "ContainerCreating"
        )
        await cluster.pass_s(2)
        status = cluster.status("Pod", "one")
        assert status["phase"] == "Running"
        assert status["podIP"].startswith("10.")
        assert [entry["status"] for entry in status["conditions"]] == ["True"] * 5
        assert cluster.writes["Pod"] == 3

    play(story)


def test_start_and_readiness_take_their_time() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("one", start_delay_seconds="10", ready_delay_seconds="5"))
        await cluster.pass_s(9)
        assert cluster.status("Pod", "one")["phase"] == "Pending"
        await cluster.pass_s(2)
        assert cluster.status("Pod", "one")["phase"] == "Running"
        ready = cluster.condition("Pod", "one", "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ContainersNotReady")
        assert ready["message"] == "containers with unready status: [app]"
        await cluster.pass_s(5)
        assert cluster.condition("Pod", "one", "Ready")["status"] == "True"

    play(story)


def test_an_image_that_cannot_be_pulled_stays_in_back_off() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("one", image_pull_error="true"))
        await cluster.pass_s(3)
        state = cluster.status("Pod", "one")["containerStatuses"][0]["state"]["waiting"]
        assert state["reason"] == "ErrImagePull"
        await cluster.pass_s(60)
        state = cluster.status("Pod", "one")["containerStatuses"][0]["state"]["waiting"]
        assert state == {
            "reason": "ImagePullBackOff",
            "message": 'Back-off pulling image "registry/app:1"',
        }
        assert cluster.status("Pod", "one")["phase"] == "Pending"

    play(story)


def test_an_image_of_a_registry_that_cannot_exist_keeps_its_own_container_waiting() -> None:
    async def story(cluster: Cluster) -> None:
        pod = behaving("one")
        bad = {"name": "bad", "image": "registry.invalid:5000/app:2"}
        pod["spec"]["containers"] = [*pod["spec"]["containers"], bad]
        cluster.create("Pod", pod)
        await cluster.pass_s(60)
        status = cluster.status("Pod", "one")
        waiting = {one["name"]: one["state"]["waiting"] for one in status["containerStatuses"]}
        assert status["phase"] == "Pending"
        assert waiting["app"]["reason"] == "ContainerCreating"
        text = 'Back-off pulling image "registry.invalid:5000/app:2"'
        assert waiting["bad"] == {"reason": "ImagePullBackOff", "message": text}

    play(story)


def test_what_keeps_a_container_waiting_does_not_keep_its_init_containers() -> None:
    async def story(cluster: Cluster) -> None:
        inits = [{"name": "first", "image": "registry/init:1"}]
        secret = {"secretKeyRef": {"name": "tok", "key": "t"}}
        for name, one in (
            ("unpulled", {"image": "registry.invalid/app:2"}),
            ("unset", {"image": "registry/app:1", "env": [{"name": "T", "valueFrom": secret}]}),
        ):
            pod = behaving(name)
            pod["spec"] |= {"initContainers": inits, "containers": [{"name": "app", **one}]}
            cluster.create("Pod", pod)
        await cluster.pass_s(60)
        for name, reason in (
            ("unpulled", "ImagePullBackOff"),
            ("unset", "CreateContainerConfigError"),
        ):
            status = cluster.status("Pod", name)
            assert status["phase"] == "Pending"
            assert cluster.condition("Pod", name, "Initialized")["status"] == "True"
            assert (
                status["initContainerStatuses"][0]["state"]["terminated"]["reason"] == "Completed"
            )
            assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason

    play(story)


def test_a_crashing_container_restarts_with_growing_back_off() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("one", run_seconds="2", exit_code="139"))
        await cluster.pass_s(4)
        container = cluster.status("Pod", "one")["containerStatuses"][0]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["state"]["waiting"]["message"].startswith(
            "back-off 10s restarting failed container=app"
        )
        assert container["lastState"]["terminated"]["exitCode"] == 139
        await cluster.pass_s(60)
        container = cluster.status("Pod", "one")["containerStatuses"][0]
        assert container["restartCount"] == 2
        assert "back-off 40s" in container["state"]["waiting"]["message"]

    play(story)


@pytest.mark.parametrize(
    ("restart", "code", "phase"),
    [("Never", "0", "Succeeded"), ("Never", "7", "Failed"), ("OnFailure", "0", "Succeeded")],
)
def test_a_run_ends_as_its_exit_code_and_restart_policy_say(
    restart: str, code: str, phase: str
) -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("one", restart, run_seconds="3", exit_code=code))
        await cluster.pass_s(10)
        assert cluster.status("Pod", "one")["phase"] == phase
        ended = cluster.status("Pod", "one")["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == int(code)
        assert cluster.condition("Pod", "one", "Ready")["status"] == "False"

    play(story)


def test_a_deleted_pod_stops_gracefully_and_within_its_grace() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("one", stop_seconds="20"))
        cluster.create("Pod", behaving("two", stop_seconds="3000"))
        await cluster.pass_s(3)
        cluster.delete("Pod", "one")
        cluster.delete("Pod", "two")
        await cluster.pass_s(15)
        assert cluster.get("Pod", "one")["metadata"]["deletionTimestamp"]
        await cluster.pass_s(10)
        assert cluster.find("Pod", "one") is None
        assert cluster.find("Pod", "two") is not None
        await cluster.pass_s(10)
        assert cluster.find("Pod", "two") is None

    play(story)


def test_annotations_of_a_node_hold_for_its_pods_unless_they_say_otherwise() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create("Pod", behaving("plain"))
        cluster.create("Pod", behaving("own", never_ready="false"))
        await cluster.pass_s(5)
        assert cluster.condition("Pod", "plain", "Ready")["status"] == "False"
        assert cluster.condition("Pod", "own", "Ready")["status"] == "True"

    play(story, [NodePool(1, annotations={"embedded.federator/never-ready": "true"})])


def test_new_controllers_take_over_pods_in_every_state() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.create(
            "Deployment", deployment(pod=template(annotations={"start-delay-seconds": "20"}))
        )
        cluster.create("Pod", behaving("runner", "Never", run_seconds="60"))
        cluster.create("Pod", behaving("leaver", stop_seconds="25"))
        await cluster.pass_s(5)
        cluster.delete("Pod", "leaver")
        await cluster.pass_s(5)
        await cluster.stop()
        cluster.start()
        await cluster.pass_s(35)
        assert cluster.status("Deployment", "web")["readyReplicas"] == 3
        assert cluster.find("Pod", "leaver") is None
        assert cluster.status("Pod", "runner")["phase"] == "Running"
        await cluster.pass_s(30)
        assert cluster.status("Pod", "runner")["phase"] == "Succeeded"
        addresses = [one["status"]["podIP"] for one in cluster.pods()]
        assert len(set(addresses)) == len(addresses)

    play(story)


def test_the_same_seed_gives_the_same_cluster() -> None:
    seen: list[list[str]] = []

    async def story(cluster: Cluster) -> None:
        cluster.create("Deployment", deployment(replicas=20))
        await cluster.pass_s(10)
        seen.append(
            [
                f"{one['metadata']['name']} {one['spec']['nodeName']} {one['status']}"
                for one in cluster.pods()
            ]
        )

    ranged = Defaults(start=Span(0.5, 9))
    play(story, defaults=ranged)
    play(story, defaults=ranged)
    play(story, defaults=ranged, seed=8)
    assert seen[0] == seen[1]
    assert seen[0] != seen[2]


def test_five_thousand_pods_settle_with_three_writes_each() -> None:
    async def story(cluster: Cluster) -> None:
        for number in range(20):
            cluster.create("Deployment", deployment(f"web-{number}", 250))
        await cluster.pass_s(30)
        assert len(cluster.pods("Running")) == 5000
        assert cluster.writes["Pod"] == 15000
        # Sets and Deployments are written per tenth of a second in which pods start, not per pod.
        assert cluster.writes["ReplicaSet"] + cluster.writes["Deployment"] < 20 * 2 * 35
        assert cluster.controllers is not None
        assert cluster.controllers.steps < 30000

    play(
        story,
        [NodePool(60, {"cpu": "64", "memory": "256Gi", "pods": "110"})],
        defaults=Defaults(start=Span(1, 4)),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", Span(2, 2)),
        ("0.5", Span(0.5, 0.5)),
        ("1-5", Span(1, 5)),
        (" 3 - 1 ", Span(3, 3)),
        ("x", None),
        (None, None),
    ],
)
def test_spans_are_read_from_texts(text: str | None, expected: Span | None) -> None:
    assert behaviour.span(text) == expected


def test_a_span_is_drawn_between_its_ends() -> None:
    rng = random.Random(1)
    drawn = [Span(1, 5).draw(rng) for _ in range(100)]
    assert min(drawn) >= 1
    assert max(drawn) <= 5
    assert len(set(drawn)) > 50


@pytest.mark.parametrize(
    ("indexes", "index", "expected"),
    [("0,3-5", 4, True), ("0,3-5", 2, False), ("", 0, False), ("a,2", 2, True), ("3-", 3, False)],
)
def test_index_lists_are_read_leniently(indexes: str, index: int, expected: bool) -> None:
    assert behaviour.holds(indexes, index) is expected
