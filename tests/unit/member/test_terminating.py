"""Pods of a slice that exist in addition to those that its status counts."""

import asyncio
from typing import Any

import pytest

from federator.kinds import registry, verbs
from federator.kinds.pods import registration
from federator.member.cache.podbooks import PodBooks
from federator.member.cache.rows import PodRow, news, slice_row
from federator.member.terminating import beyond, interval_s
from federator.model.names import WorkloadKey
from federator.model.steps import Patch
from tests.unit.member.memberworld import MemberWorld, in_member, service, template
from tests.unit.member.test_podbooks import SHAPE

STOP = "embedded.federator/stop-seconds"
SLICE = WorkloadKey("PinterestService", "feed", "web")


def pod(*, deleting: bool = False, ended: bool = False) -> PodRow:
    return PodRow("u", "rs", "n1", "", ended, deleting, SHAPE, None)


@pytest.mark.parametrize(
    ("alive", "terminating", "counted", "allowed", "expected"),
    [
        (12, 0, 12, 12, 0),
        (12, 11, 1, 1, 11),
        (12, 0, 1, 1, 11),  # the controller is ahead of the watch of pods
        (12, 11, 12, 1, 0),  # it is behind: these are counted once
        (10, 0, 8, 10, 0),  # pods that it has just made
        (24, 12, 12, 12, 12),
        (3, 1, 3, 3, 0),  # a StatefulSet counts terminating pods
        (0, 0, 4, 4, 0),
    ],
)
def test_pods_beyond_those_that_a_controller_counts(
    alive: int, terminating: int, counted: int, allowed: int, expected: int
) -> None:
    assert beyond(alive, terminating, counted, allowed) == expected


@pytest.mark.parametrize(
    ("value", "copies", "expected"),
    [
        (None, 10, 3),
        ("25%", 8, 2),
        ("0%", 8, 0),
        (3, 8, 3),
        (100, 8, 8),
        ("900%", 2, 2),
        ({}, 4, 1),
    ],
)
def test_surge_is_at_most_one_pod_for_each_copy(value: object, copies: int, expected: int) -> None:
    assert verbs.surge(value, copies) == expected


def test_books_count_terminating_pods_until_they_end() -> None:
    books = PodBooks()
    runs, leaves, ended = pod(), pod(deleting=True), pod(deleting=True, ended=True)
    books.change(("ns", "p"), None, runs)
    assert books.alive("rs") == (1, 0)
    books.change(("ns", "p"), runs, leaves)
    assert books.alive("rs") == (1, 1)
    books.belongs("rs", SLICE)
    assert books.slice_of("rs") == SLICE
    books.change(("ns", "p"), leaves, ended)
    assert books.alive("rs") == (0, 0)
    books.change(("ns", "p"), ended, None)
    assert books.slice_of("rs") is None
    assert news(runs) != news(leaves) != news(ended) == news(None)


@in_member()
async def test_slice_status_counts_terminating_pods(world: MemberWorld) -> None:
    slow = template(annotations={STOP: "60"})
    slow["spec"]["terminationGracePeriodSeconds"] = 60
    await world.create(service(replicas=4, template=slow))
    await world.until_status("PinterestService", "web", ready=4)
    assert "terminatingReplicas" not in (await world.get("PinterestService", "web"))["status"]
    await world.patch("PinterestService", "web", {"spec": {"replicas": 1, "slice": {"seq": 6}}})
    status = await world.until_status("PinterestService", "web", ready=1, terminatingReplicas=3)
    assert status["replicas"] == 1
    seen = registry.verbs_of("PinterestService").observe(
        await world.get("PinterestService", "web"), "a", True
    )
    assert (seen.terminating, seen.actual) == (3, 1)
    await asyncio.sleep(70)
    assert "terminatingReplicas" not in (await world.get("PinterestService", "web"))["status"]


@pytest.mark.parametrize(
    ("before", "status", "waits"),
    [
        (3, {"terminatingReplicas": 2}, True),
        (3, {"terminatingReplicas": 2, "deregisteredReplicas": 1}, True),
        (3, {"deregisteredReplicas": 3}, True),
        (3, {"terminatingReplicas": 4, "deregisteredReplicas": 1}, False),
        (3, {"terminatingReplicas": None, "deregisteredReplicas": None}, False),
        (3, {"deregisteredReplicas": 1, "ready": 2}, False),
        (3, {}, False),
    ],
)
def test_a_write_about_ending_pods_alone_may_wait(
    before: int, status: dict[str, Any], waits: bool
) -> None:
    obj = service()
    obj["metadata"] = {**obj["metadata"], "uid": "u", "namespace": "feed"}
    row = slice_row("PinterestService", {**obj, "status": {"terminatingReplicas": before}})
    ref = MemberWorld.ref("PinterestService", "web")
    patch = Patch(ref, {"status": status} if status else {}, uid="u")
    assert interval_s(patch, row) == (5.0 if waits else 0.0)


@in_member()
async def test_slice_status_counts_terminating_pods_that_left_their_registry(
    world: MemberWorld,
) -> None:
    slow = template(annotations={STOP: "60", registration.ANNOTATION: "runtime"})
    sidecar = {"name": "runtime", "image": "federator:1", "restartPolicy": "Always"}
    slow["spec"] |= {"terminationGracePeriodSeconds": 60, "initContainers": [sidecar]}
    await world.create(service(replicas=4, template=slow))
    await world.until_status("PinterestService", "web", ready=4)
    await world.patch("PinterestService", "web", {"spec": {"replicas": 1, "slice": {"seq": 6}}})
    status = await world.until_status("PinterestService", "web", ready=1, terminatingReplicas=3)
    assert "deregisteredReplicas" not in status
    pods = [await world.get("Pod", name) for name in await world.names("Pod")]
    ending = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
    for pod in ending[:2]:
        told = [{**each, "ready": False} for each in pod["status"]["initContainerStatuses"]]
        body = {"status": {"initContainerStatuses": told}}
        await world.patch("Pod", pod["metadata"]["name"], body, subresource="status")
    await world.until_status(
        "PinterestService", "web", terminatingReplicas=3, deregisteredReplicas=2
    )
    seen = registry.verbs_of("PinterestService").observe(
        await world.get("PinterestService", "web"), "a", True
    )
    assert (seen.terminating, seen.deregistered) == (3, 2)
    await asyncio.sleep(70)
    status = (await world.get("PinterestService", "web"))["status"]
    assert not {"terminatingReplicas", "deregisteredReplicas"} & status.keys()
