"""The first useful reason from pods."""

from typing import Any

from federator.status import reasons


def waiting(reason: str, **more: Any) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "r/app:9",
        "state": {"waiting": {"reason": reason, "message": "said so"}},
        **more,
    }
    return {"metadata": {}, "status": {"phase": "Pending", "containerStatuses": [container]}}


def unschedulable(since: str) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/5 nodes are available: 5 Insufficient cpu.",
        "lastTransitionTime": since,
    }
    return {"metadata": {}, "status": {"phase": "Pending", "conditions": [condition]}}


def test_a_pod_that_only_starts_has_no_trouble() -> None:
    assert reasons.of_pod(waiting("ContainerCreating")) is None
    assert reasons.of_pod({"status": {"phase": "Running"}}) is None


def test_an_image_that_cannot_be_pulled_names_the_image() -> None:
    trouble = reasons.of_pod(waiting("ImagePullBackOff"))
    assert trouble is not None
    assert (trouble.reason, trouble.detail) == (
        "ImagePullFailed",
        "container app: r/app:9: said so",
    )


def test_a_crash_loop_says_how_the_container_ended() -> None:
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    trouble = reasons.of_pod(waiting("CrashLoopBackOff", lastState=ended, restartCount=7))
    assert trouble is not None
    assert trouble.detail == "container app: ended OOMKilled with exit code 137 after 7 restarts"


def test_a_crash_loop_repeats_the_termination_message() -> None:
    said = "identity: the signer refuses spiffe://a.example/ns/b/sa/c\nin two lines"
    ended = {"terminated": {"reason": "Error", "exitCode": 1, "message": said}}
    trouble = reasons.of_pod(waiting("CrashLoopBackOff", lastState=ended, restartCount=1))
    assert trouble is not None
    assert trouble.detail == (
        "container app: ended Error with exit code 1 after 1 restart: identity: the signer refuses"
        " spiffe://a.example/ns/b/sa/c in two lines"
    )


def test_an_init_container_counts_as_well() -> None:
    pod = waiting("CrashLoopBackOff")
    pod["status"]["initContainerStatuses"] = pod["status"].pop("containerStatuses")
    assert reasons.of_pod(pod) is not None


def test_a_pod_that_is_leaving_has_no_trouble() -> None:
    pod = waiting("CrashLoopBackOff")
    pod["metadata"]["deletionTimestamp"] = "2024-05-01T10:00:00Z"
    assert reasons.of_pod(pod) is None


def test_the_most_useful_reason_comes_first_with_its_count() -> None:
    pods = [
        unschedulable("2024-05-01T10:00:05Z"),
        waiting("CrashLoopBackOff"),
        waiting("ErrImagePull"),
    ]
    pods += [waiting("ImagePullBackOff"), unschedulable("2024-05-01T10:00:01Z")]
    finding = reasons.first(map(reasons.of_pod, pods))
    assert (finding.reason, finding.count) == ("ImagePullFailed", 2)
    assert finding.message.startswith("2 pods: container app: r/app:9")
    assert (finding.unschedulable, finding.unschedulable_since) == (2, "2024-05-01T10:00:01Z")


def test_without_trouble_there_is_nothing_to_say() -> None:
    assert reasons.first([None, None]) == reasons.NOTHING


def test_a_pod_that_has_ended_explains_only_what_is_missing() -> None:
    evicted = {"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}}
    crashed = waiting("CrashLoopBackOff")
    crashed["status"]["phase"] = "Failed"
    ended = [reasons.of_pod(evicted), reasons.of_pod(crashed)]
    assert reasons.first(ended).reason == "CrashLooping"
    assert reasons.first(ended, complete=True) == reasons.NOTHING
    alive = reasons.of_pod(waiting("ErrImagePull"))
    assert reasons.first([*ended, alive], complete=True).reason == "ImagePullFailed"


def test_strange_pods_are_survived() -> None:
    for strange in (
        {},
        {"status": 3},
        {"status": {"containerStatuses": [3, {}], "conditions": "x", "phase": "Pending"}},
    ):
        reasons.of_pod(strange)
