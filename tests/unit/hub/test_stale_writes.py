"""Somebody writes to each object just before a process does: the write is refused, and taken again
from what is there then. Shows for every request of a day what `tests/house/test_house_writers.py`
reads in the sources.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from federator.hub.deletion.departed import parse
from federator.hub.records import seals
from federator.kube import errors
from federator.kube.wire.transport import Response, Transport
from federator.model.steps import ObjectRef
from tests.faults.rows import Box, Sending
from tests.unit.hub.world import World, jobset, play, service
from tests.worlds import resource_of

TOUCH = "tests/touched"
APPLY = "application/apply-patch+yaml"

BLIND = {
    ("DELETE", "any"): "by uid",
    ("PATCH", "events"): "counts in its own Event",
    ("PATCH", "clustercapacities"): "asks for shapes in a cluster that is claimed",
    ("PATCH", "clustercapacities/status"): "one process writes this status",
    ("PATCH", "jobs"): "fields of a Job that only the member process writes",
    ("PATCH", "deployments"): "the annotation that only the member process writes",
    ("PATCH", "placementdecisions"): "`spec.deletion` of a decision that is being deleted",
}
"""(method, resource) -> why such a write may succeed although the object was changed before."""


def _ref(path: str) -> ObjectRef:
    """The object that a request's path names."""
    api = path.removesuffix("/status").split("/")
    start = 2 if api[1] == "api" else 3
    rest = api[start + 1 :]
    version = "/".join(api[2 : start + 1])
    space = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
    plural, name = (rest[2], rest[3]) if space else (rest[0], rest[1])
    return ObjectRef(version, plural, space, name)


class Touched(World):
    """Each object is changed by a person before the first write of each kind that reaches it."""

    def touch_everything(self) -> None:
        self.seen: set[tuple[str, str, str]] = set()
        self.refused: set[tuple[str, str]] = set()
        self.passed: list[tuple[str, str, str]] = []
        self.waiting: dict[tuple[str, str], str] = {}
        """(cluster, path) of a refused write -> its resource, until one succeeds."""
        self.put(Box(lambda sending: sending.changes, self._touch))

    async def _touch(self, sending: Sending, inner: Transport) -> Response:
        request = sending.request
        place = (sending.cluster, request.path)
        first = (request.method, *place) not in self.seen
        self.seen.add((request.method, *place))
        touched = first and await self._change(sending)
        response = await inner.request(request)
        resource = resource_of(request.path)
        if touched and request.headers.get("content-type") != APPLY:
            if response.status == 409:
                self.refused.add((request.method, resource))
                self.waiting[place] = resource
            elif response.status < 300:
                self.passed.append((request.method, resource, request.path))
        elif response.status < 300 or response.status == 404:
            self.waiting.pop(place, None)
        return response

    async def _change(self, sending: Sending) -> bool:
        """Whether the object is there, and is changed now."""
        touch = {"metadata": {"annotations": {TOUCH: str(len(self.seen))}}}
        try:
            await self.user(sending.cluster).patch(_ref(sending.request.path), touch)
        except errors.NotFound:
            return False
        return True

    async def not_taken_again(self) -> dict[tuple[str, str], str]:
        """`waiting`, but for objects that went, as those of a slice that is deleted do."""
        return {
            (cluster, path): resource
            for (cluster, path), resource in self.waiting.items()
            if await self._is_there(cluster, path)
        }

    async def _is_there(self, cluster: str, path: str) -> bool:
        try:
            await self.user(cluster).get(_ref(path))
        except errors.NotFound:
            return False
        return True

    def unexpected(self) -> list[tuple[str, str, str]]:
        return [one for one in self.passed if one[:2] not in BLIND and (one[0], "any") not in BLIND]


def play_touched(story: Callable[[Touched], Awaitable[None]], *expected: str, **more: Any) -> None:
    """Plays it in a world where every object is touched. `expected`: writes that must have been
    refused, as "METHOD resource"."""

    async def scenario(world: World) -> None:
        assert isinstance(world, Touched)
        world.touch_everything()
        await story(world)
        assert world.unexpected() == []
        assert await world.not_taken_again() == {}
        assert {f"{method} {resource}" for method, resource in world.refused} >= set(expected)

    play(scenario, world_of=Touched, **more)


def test_stale_writes_for_services_and_job_sets_are_taken_again() -> None:
    async def story(world: Touched) -> None:
        account = {"projects": ["feed"], "namespaces": ["feed"], "tiers": {}}
        await world.create("FederatedQuota", "", "feed", account)
        await world.create("PinterestService", "feed", "web", service(6))
        await world.create("PinterestJobSet", "feed", "crunch", jobset(6, 3))
        await world.settle()
        await world.patch("PinterestService", "feed", "web", {"spec": {"replicas": 9}})
        await asyncio.sleep(60)
        assert sum((await world.shares("feed", "web")).values()) == 9
        for cluster in await world.shares("feed", "web"):
            held = await world.get("PinterestService", "feed", "web", at=cluster)
            assert held is not None
            assert TOUCH in held["metadata"]["annotations"]
        await world.delete("PinterestService", "feed", "web")
        await asyncio.sleep(30)
        assert {obj["spec"]["workload"]["name"] for obj in await world.decisions()} == {"crunch"}

    play_touched(
        story,
        "PATCH pinterestservices",
        "PATCH pinterestservices/status",
        "PATCH pinterestjobsets/status",
        "PATCH placementdecisions",
        "PATCH memberclusters/status",
        "PATCH federatedquotas/status",
        "PATCH clustercapacities",
        "PATCH secrets",
    )


def test_stale_writes_for_cron_jobs_are_taken_again() -> None:
    async def story(world: Touched) -> None:
        work = jobset(2, 2)
        cron = {"schedule": "* * * * *", "jobTemplate": {"spec": work}}
        await world.create("PinterestCronJob", "feed", "often", cron)
        given = {**cron, "runs": "Native", "concurrencyPolicy": "Forbid"}
        given["jobTemplate"] = {"spec": {**work, "placement": {"clusters": {"names": ["a"]}}}}
        await world.create("PinterestCronJob", "feed", "native", given)
        ending = {**jobset(2, 2), "ttlSecondsAfterFinished": 30}
        await world.create("PinterestJobSet", "feed", "ending", ending)
        await asyncio.sleep(70)
        await world.patch("PinterestCronJob", "feed", "native", {"spec": {"suspend": True}})
        await asyncio.sleep(60)
        assert await world.get("PinterestJobSet", "feed", "ending") is None
        await world.patch("PinterestCronJob", "feed", "often", {"spec": {"suspend": True}})
        await asyncio.sleep(30)

    play_touched(
        story,
        "PATCH pinterestcronjobs/status",
        "PATCH pinterestnativecronjobs",
        "PATCH cronjobs/status",
        "DELETE pinterestjobsets",
    )


def test_stale_writes_for_a_cluster_that_leaves_are_taken_again() -> None:
    async def story(world: Touched) -> None:
        await world.create("PinterestService", "feed", "web", service(6))
        await world.settle()
        await world.delete("MemberCluster", "", "a")
        await asyncio.sleep(120)
        assert await world.get("MemberCluster", "", "a") is None

    play_touched(story, "PATCH memberclusters", "DELETE namespaces", "PATCH clustercapacities")


def test_stale_writes_to_leases_are_taken_again() -> None:
    async def story(world: Touched) -> None:
        annotations = {"embedded.federator/run-seconds": "3600"}
        guarded = {"execution": "Exclusive", "guard": True}
        await world.create(
            "PinterestJobSet", "feed", "once", {**jobset(6, 6, annotations=annotations), **guarded}
        )
        await asyncio.sleep(120)
        assert sum((await world.slots("feed", "once")).values()) == 6

    play_touched(story, "PUT leases", "PATCH leases", election=True)


def test_the_list_of_lost_clusters_keeps_what_another_leader_wrote() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        hub = world.federation.hub
        departed, members = hub.controllers.departed, hub.state.members
        await departed.remember(members["a"])
        await world.host.patch(departed.ref, {"data": {"0123456789abcdef": "7 gone uid-of-gone"}})
        with pytest.raises(errors.Conflict):
            await departed.remember(members["b"])
        await departed.remember(members["b"])

        listed = parse((await world.host.get(departed.ref))["data"])
        assert listed == departed.entries
        assert sorted(entry.name for entry in listed.values()) == ["a", "b", "gone"]

        uid = (await world.host.get(departed.ref))["metadata"]["uid"]
        await world.host.delete(departed.ref, uid=uid)
        await departed.remember(members["c"])  # deleted by a person: all that is known is written
        assert len((await world.host.get(departed.ref))["data"]) == 4

    play(scenario)


def test_decisions_are_not_called_sealed_by_a_key_that_has_been_replaced() -> None:
    async def scenario(world: World) -> None:
        await world.settle()
        kept, space = world.federation.hub.state.seals, "federator-system"
        ref = ObjectRef("v1", "secrets", space, seals.SECRET, "Secret")
        key = base64.b64encode(b"k" * 32).decode()
        meta = {"annotations": {seals.ALL_SEALED: None}}
        await world.host.patch(ref, {"metadata": meta, "data": {seals.KEY: key}})
        with pytest.raises(errors.Conflict):
            await kept.finish(world.federation.hub.host, space, "2026-01-01T00:00:00Z")

        assert seals.ALL_SEALED not in str(await world.host.get(ref))

    play(scenario)
