"""A member process creates natives, and applies only what changes."""

import asyncio
import functools
from collections.abc import Awaitable, Callable

import pytest

from federator.kinds.labels import AUTOSCALED_ANNOTATION
from federator.kube import errors
from federator.kube.wire.transport import Response, Transport
from federator.member.expansion import comparing
from federator.member.options import FIELD_MANAGER
from federator.model.steps import Create
from tests.faults.rows import Box, Sending
from tests.unit.member.memberworld import (
    MemberWorld,
    condition_of,
    in_member,
    service,
    template,
)

DEPLOYMENTS = "/apis/apps/v1/namespaces/feed/deployments"
ACCOUNTS = "/api/v1/namespaces/feed/serviceaccounts"


@in_member()
async def test_natives_are_created_and_a_change_is_applied_after_handing_over(
    world: MemberWorld,
) -> None:
    await world.create(service(config={"a": "1", "b": "2"}))
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    natives = [line for line in world.log if "/feed/" in line and "pinterest" not in line]
    assert [line.split()[0] for line in natives] == ["POST"] * 3
    before = len(world.log)
    await world.patch("PinterestService", "web", {"spec": {"config": {"b": None}}})
    await world.until(lambda: _handed_over(world))
    assert (await world.get("ConfigMap", "web-config"))["data"] == {"a": "1"}
    await asyncio.sleep(60)
    changed = "PATCH /api/v1/namespaces/feed/configmaps/web-config"
    assert world.log[before:].count(changed) == 2
    await world.patch("PinterestService", "web", {"spec": {"config": {"a": "3"}}})
    await asyncio.sleep(60)
    assert (await world.get("ConfigMap", "web-config"))["data"] == {"a": "3"}
    assert world.log[before:].count(changed) == 3


async def _handed_over(world: MemberWorld) -> bool:
    entries = (await world.get("ConfigMap", "web-config"))["metadata"]["managedFields"]
    return [(entry["manager"], entry["operation"]) for entry in entries] == [
        (FIELD_MANAGER, "Apply")
    ]


@in_member()
async def test_a_create_with_a_lost_answer_is_no_conflict(world: MemberWorld) -> None:
    await asyncio.sleep(2)
    lost: list[str] = []

    async def how(sending: Sending, inner: Transport) -> Response:
        await inner.request(sending.request)
        lost.append(sending.request.path)
        raise errors.Unreachable("the answer was lost")

    def befalls(sending: Sending) -> bool:
        request = sending.request
        return (request.method, request.path) == ("POST", DEPLOYMENTS) and not lost

    await world.hear_late("/deployments", 20.0)
    with world.boxes.standing(Box(befalls, how)):
        await world.create(service())
        for _ in range(240):
            await asyncio.sleep(0.25)
            found = await world.get("PinterestService", "web")
            assert condition_of(found, "Conflict") == {}
    assert lost
    assert condition_of(found, "Ready")["status"] == "True"
    assert world.log.count(f"POST {DEPLOYMENTS}") >= 2


@in_member()
async def test_a_name_that_somebody_else_took_meanwhile_is_a_conflict(world: MemberWorld) -> None:
    await asyncio.sleep(2)
    await world.hear_late("/configmaps", 10.0)
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web-config", "namespace": "feed"},
        "data": {"theirs": "1"},
    }
    await world.create(theirs)
    await world.create(service(config={"a": "1"}))
    # before the watch shows it
    told = functools.partial(_in_conflict, world)
    await world.until(told, within_s=5.0)
    assert (await world.get("ConfigMap", "web-config"))["data"] == {"theirs": "1"}


@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_natives_are_created_strictly(kind: str) -> None:
    """A server that prunes a field which it does not know would run pods without it."""
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web", "namespace": "feed"}}
    step = comparing._made(body, "digest")
    assert isinstance(step, Create)
    assert step.strict


@in_member()
async def test_no_pods_are_made_while_the_name_of_the_account_is_taken(world: MemberWorld) -> None:
    await asyncio.sleep(2)
    await world.hear_late("/serviceaccounts", 30.0)
    await world.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "web", "namespace": "feed"},
        }
    )
    pods = template(serviceAccountName="web")
    await world.create(service(config={"a": "1"}, template=pods))
    await world.until(lambda: _exists(world, "ConfigMap", "web-config"))
    await asyncio.sleep(60)
    assert f"POST {ACCOUNTS}" in world.log
    assert f"POST {DEPLOYMENTS}" not in world.log


async def _exists(world: MemberWorld, kind: str, name: str) -> bool:
    return await world.find(kind, name) is not None


@in_member()
async def test_another_object_of_the_name_is_neither_handed_over_nor_applied(
    world: MemberWorld,
) -> None:
    await world.create(service(config={"a": "1", "b": "2"}))
    await world.until_status("PinterestService", "web", ready=3, healthy=True)
    await world.hear_late("/configmaps", 30.0)
    await world.delete("ConfigMap", "web-config")
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web-config", "namespace": "feed"},
        "data": {"theirs": "1"},
    }
    made = await world.create(theirs)
    await world.patch("PinterestService", "web", {"spec": {"config": {"b": None}}})
    await world.until_condition("PinterestService", "web", "Conflict", "True")
    found = await world.get("ConfigMap", "web-config")
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert found["data"] == {"theirs": "1"}


async def _runs_and_is_heard_late(world: MemberWorld) -> None:
    """Four copies run, and the watch of Deployments lags from now on."""
    await world.create(service(replicas=4))
    await world.until_status("PinterestService", "web", ready=4, healthy=True)
    await asyncio.sleep(5)
    await world.hear_late("/deployments", 20.0)


@in_member()
async def test_what_an_autoscaler_gets_is_handed_over_and_applied_in_one_turn(
    world: MemberWorld,
) -> None:
    """Handing over gives the object another version than the apply was to have."""
    await _runs_and_is_heard_late(world)
    answers: list[int] = []
    change = {"autoscaling": {"min": 2, "max": 10}, "slice": {"seq": 6}}
    with world.boxes.standing(Box(_patches_deployment, _answered(answers))):
        await world.patch("PinterestService", "web", {"spec": change})
        await world.until(lambda: _autoscaled(world))
        await asyncio.sleep(5)
    assert answers == [200, 200]


@in_member()
async def test_what_has_changed_since_it_was_compared_is_not_handed_over(
    world: MemberWorld,
) -> None:
    await _runs_and_is_heard_late(world)
    await world.patch("Deployment", "web", {"metadata": {"annotations": {"theirs": "1"}}})
    answers: list[int] = []
    change = {"autoscaling": {"min": 2, "max": 10}, "slice": {"seq": 6}}
    with world.boxes.standing(Box(_patches_deployment, _answered(answers))):
        await world.patch("PinterestService", "web", {"spec": change})
        await asyncio.sleep(10)
        assert answers == []
        await world.until(lambda: _autoscaled(world))


def _patches_deployment(sending: Sending) -> bool:
    request = sending.request
    return (request.method, request.path) == ("PATCH", f"{DEPLOYMENTS}/web")


def _answered(answers: list[int]) -> Callable[[Sending, Transport], Awaitable[Response]]:
    """Lets requests pass and notes the status of each answer."""

    async def how(sending: Sending, inner: Transport) -> Response:
        response = await inner.request(sending.request)
        answers.append(response.status)
        return response

    return how


async def _autoscaled(world: MemberWorld) -> bool:
    meta = (await world.get("Deployment", "web"))["metadata"]
    return AUTOSCALED_ANNOTATION in meta.get("annotations", {})


async def _in_conflict(world: MemberWorld) -> bool:
    found = condition_of(await world.get("PinterestService", "web"), "Conflict")
    return found.get("status") == "True"
