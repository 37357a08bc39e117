"""Whatever a member says is cut to what it was given, and what cannot be is held against it: shards
of others, copies without number, decisions that it would have the hub make again and again.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from federator.hub.options import HubOptions
from federator.kinds import registry
from federator.kube.wire.transport import Transport
from federator.model import shards
from federator.model.names import TRUST_ANNOTATION
from federator.model.shards import Ranges
from federator.model.steps import ObjectRef
from tests.hostile.hosting import Scene, act
from tests.hostile.liars import Liar
from tests.unit.hub.world import World, jobset, service

PJS = "PinterestJobSet"
PSVC = "PinterestService"
Lies = Callable[[dict[str, Any]], None]


class Tongue:
    """What member a says to the hub: the truth, until `lies` is set."""

    def __init__(self, plural: str) -> None:
        self.plural = plural
        self.lies: Lies | None = None

    def change(self, obj: dict[str, Any]) -> bytes | None:
        if self.lies is not None:
            self.lies(obj)
        return None

    def wrap(self, process: str, cluster: str, inner: Transport) -> Transport:
        return (
            Liar(inner, self.plural, self.change) if (process, cluster) == ("hub", "a") else inner
        )


def says(**fields: Any) -> Lies:
    return lambda obj: obj.setdefault("status", {}).update(fields)


def shows(marked: dict[str, Any], **fields: Any) -> Lies:
    def lie(obj: dict[str, Any]) -> None:
        if isinstance(obj.get("spec", {}).get("slice"), dict):
            obj["spec"]["slice"] |= marked
            obj.setdefault("status", {}).update(fields)

    return lie


async def stir(world: World, kind: str, name: str, value: str = "yes") -> None:
    """Something about the object changes, so that the member's watch tells of it."""
    await world.patch(
        kind, "feed", name, {"metadata": {"annotations": {"example.com/stirred": value}}}, at="a"
    )


async def ranges_of(world: World, name: str, cluster: str) -> Ranges:
    """Shards that the decision gives to a cluster."""
    for obj in await world.decisions():
        if obj["spec"]["workload"]["name"] == name:
            texts = [
                share["ranges"] for share in obj["spec"]["shares"] if share["cluster"] == cluster
            ]
            return shards.normal(piece for text in texts for piece in shards.parse(text))
    return ()


async def doubt(world: World, name: str = "a") -> dict[str, Any]:
    found = await world.get("MemberCluster", "", name)
    assert found is not None
    conditions = found["status"]["conditions"]
    return next((one for one in conditions if one["type"] == "Untrustworthy"), {})


def long_job(count: int = 60) -> dict[str, Any]:
    """A job set of which every shard runs at once, and for ever."""
    return jobset(count, count, "100m", {"embedded.federator/run-seconds": "100000"})


SHARES = {"division": {"strategy": "Weighted"}}


@pytest.mark.parametrize(
    "lies",
    [
        says(completedIndexes="0-59", failedIndexes=""),
        says(completedIndexes="", failedIndexes="0-59"),
        shows({"ranges": "0-59"}, completedIndexes="0-59"),
    ],
    ids=["completed", "failed", "completed under a mark that lies too"],
)
def test_shards_of_others_are_not_done_by_a_members_word(lies: Lies) -> None:
    tongue = Tongue("pinterestjobsets")

    async def story(scene: Scene) -> None:
        world = scene.world
        await world.create(PJS, "feed", "train", long_job() | {"placement": SHARES})
        await asyncio.sleep(30)
        own = await ranges_of(world, "train", "a")
        assert 0 < shards.size(own) < 60
        tongue.lies = lies
        await stir(world, PJS, "train")
        await asyncio.sleep(60)

        found = await world.get(PJS, "feed", "train")
        assert found is not None
        told = shards.union(
            shards.parse(found["status"].get("completedIndexes", "")),
            shards.parse(found["status"].get("failedIndexes", "")),
        )
        assert told, "its own are done by its word"
        assert not shards.minus(told, own)
        against = await doubt(world)
        assert (against["status"], against["reason"]) == ("True", "ShardsNotGiven")
        assert f"{60 - shards.size(own)} shards that it was never given" in against["message"]
        assert "feed/train" in against["message"]

        await world.create(PSVC, "feed", "later", service(2, "100m"))
        await asyncio.sleep(30)
        assert await world.shares("feed", "later") == {"b": 2}
        assert (await ranges_of(world, "train", "a")) != (), "what runs there stays"
        assert not await doubt(world, "b")

    act(story, wrap=tongue.wrap)


@pytest.mark.parametrize(
    "text", ["0-" + "9" * 700_000, "3,1", "x", ["0"]], ids=["long", "unsorted", "word", "list"]
)
def test_shards_that_cannot_be_read_count_for_nothing_and_are_told(text: Any) -> None:
    tongue = Tongue("pinterestjobsets")

    async def story(scene: Scene) -> None:
        world = scene.world
        await world.create(PJS, "feed", "train", long_job(6) | {"placement": SHARES})
        await asyncio.sleep(30)
        tongue.lies = says(completedIndexes=text)
        await stir(world, PJS, "train")
        await asyncio.sleep(30)
        found = await world.get(PJS, "feed", "train")
        assert found is not None
        assert found["status"]["done"] == 0
        against = await doubt(world)
        assert (against["reason"], "status.completedIndexes" in against["message"]) == (
            "Unreadable",
            True,
        )

    act(story, wrap=tongue.wrap)


def test_it_is_trusted_again_after_a_while_or_by_an_operators_word() -> None:
    tongue = Tongue("pinterestjobsets")

    async def story(scene: Scene) -> None:
        world = scene.world
        await world.create(PJS, "feed", "train", long_job() | {"placement": SHARES})
        await asyncio.sleep(30)
        tongue.lies = says(failedIndexes="0-59")
        await stir(world, PJS, "train", "1")
        await asyncio.sleep(30)
        since = (await doubt(world))["lastTransitionTime"]

        word = {"metadata": {"annotations": {TRUST_ANNOTATION: since}}}
        await world.patch("MemberCluster", "", "a", word)
        await asyncio.sleep(30)
        again = await doubt(world)
        assert again["status"] == "True", "it lies still: found out again"
        assert again["lastTransitionTime"] != since

        tongue.lies = None
        await stir(world, PJS, "train", "2")
        await asyncio.sleep(300)
        assert await doubt(world), "not so soon"
        await asyncio.sleep(400)
        assert not await doubt(world)

        tongue.lies = says(failedIndexes="0-59")
        await stir(world, PJS, "train", "3")
        await asyncio.sleep(30)
        tongue.lies = None
        await stir(world, PJS, "train", "4")
        await asyncio.sleep(30)
        since = (await doubt(world))["lastTransitionTime"]
        await scene.world.federation.kill("hub")
        scene.world.federation.start_hub()
        await asyncio.sleep(60)
        assert (await doubt(world))["lastTransitionTime"] == since, (
            "another hub trusts it no sooner"
        )
        await world.patch(
            "MemberCluster", "", "a", {"metadata": {"annotations": {TRUST_ANNOTATION: since}}}
        )
        await asyncio.sleep(30)
        assert not await doubt(world)

    act(story, wrap=tongue.wrap)


@pytest.mark.parametrize(
    "asks", [None, 1_000_000], ids=["ready", "ready of a slice that asks for as many"]
)
def test_ready_copies_elsewhere_are_not_deleted_for_those_that_a_member_invents(
    asks: int | None,
) -> None:
    """Two copies move from b to c, where they do not get ready: b's stay, however many a says it
    has.
    """
    tongue = Tongue("pinterestservices")

    def lie(obj: dict[str, Any]) -> None:
        if obj["metadata"]["name"] == "web":
            says(ready=1_000_000, replicas=1_000_000, updatedReplicas=1_000_000)(obj)
            obj["spec"]["replicas"] = asks or obj["spec"]["replicas"]

    async def story(scene: Scene) -> None:
        world = scene.world
        for node in (await world.member("c").list("v1", "nodes")).items:
            ref = ObjectRef("v1", "nodes", "", node["metadata"]["name"], "Node")
            await world.member("c").patch(
                ref, {"metadata": {"annotations": {"embedded.federator/never-ready": "true"}}}
            )
        weights = {
            "strategy": "Weighted",
            "weights": [{"weight": 1, "names": [name]} for name in ("a", "b")],
        }
        placement = {"clusters": {"names": ["a", "b"]}, "division": weights}
        await world.create(PSVC, "feed", "web", service(4, "100m", placement=placement))
        await world.settle()
        assert await world.shares("feed", "web") == {"a": 2, "b": 2}
        tongue.lies = lie
        await stir(world, PSVC, "web")
        weights = {
            "strategy": "Weighted",
            "weights": [{"weight": 1, "names": [name]} for name in ("a", "c")],
        }
        placement = {"clusters": {"names": ["a", "c"]}, "division": weights}
        await world.patch(PSVC, "feed", "web", {"spec": {"placement": placement}})
        await asyncio.sleep(30)
        assert await world.shares("feed", "web") == {"a": 2, "c": 2}
        await asyncio.sleep(200)

        left = await world.get(PSVC, "feed", "web", at="b")
        assert left is not None
        assert left["spec"]["replicas"] == 2, "a copy leaves when its replacement is ready"
        assert left["status"]["ready"] == 2
        host = await world.get(PSVC, "feed", "web")
        assert host is not None
        assert host["status"]["ready"] <= 4
        own = await world.get(PSVC, "feed", "web", at="a")
        assert own is not None
        assert own["spec"]["replicas"] == 2
        if asks is None:
            assert (await doubt(world))["reason"] == "TooManyCopies"

    act(story, wrap=tongue.wrap, members=3)


def test_copies_and_shards_of_an_honest_scale_down_and_move_are_no_contradiction() -> None:
    async def story(scene: Scene) -> None:
        world = scene.world
        await world.create(PSVC, "feed", "web", service(20, "100m"))
        await world.create(PJS, "feed", "train", jobset(20, 10, "100m"))
        await asyncio.sleep(20)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 2}})
        await world.patch(
            PSVC, "feed", "web", {"spec": {"placement": {"clusters": {"names": ["b"]}}}}
        )
        await world.patch(
            PJS, "feed", "train", {"spec": {"placement": {"clusters": {"names": ["b"]}}}}
        )
        await world.settle(600)
        await asyncio.sleep(200)
        assert not await doubt(world)
        assert not await doubt(world, "b")
        found = await world.get(PJS, "feed", "train")
        assert found is not None
        assert found["status"]["completedIndexes"] == "0-19"

    act(story)


def test_a_flood_of_objects_is_kept_up_to_a_bound_and_moves_nothing() -> None:
    async def story(scene: Scene) -> None:
        world = scene.world
        await world.create(PSVC, "feed", "web", service(4, "100m"))
        await world.settle()
        before = await world.shares("feed", "web")
        assert before.get("a")
        member = world.member("a")
        row = registry.KINDS[PSVC]
        for number in range(40):
            meta = {"name": f"aaa-{number}", "namespace": "feed"}
            body = {
                "apiVersion": row.api_version,
                "kind": PSVC,
                "metadata": meta,
                "spec": service(0),
            }
            await member.create(row.ref("feed", f"aaa-{number}"), body)
        await asyncio.sleep(30)
        against = await doubt(world)
        assert against["reason"] == "BeyondBounds"
        assert "PinterestService: 20 objects of at most 20" in against["message"]
        store = scene.hub.state.members["a"].contents.stores[PSVC]
        assert len(store) == 20
        assert store.left_out
        await world.create(PSVC, "feed", "later", service(2, "100m"))
        await asyncio.sleep(30)
        assert await world.shares("feed", "later") == {"b": 2}

        # A hub that begins now lists more than it keeps: what it does not see may be there, and
        # nothing moves.
        await world.federation.kill("hub")
        world.federation.start_hub()
        await asyncio.sleep(60)
        assert len(scene.hub.state.members["a"].contents.stores[PSVC]) == 20
        assert await world.shares("feed", "web") == before
        assert await world.get(PSVC, "feed", "web", at="a") is not None

        for number in range(40):
            ref = row.ref("feed", f"aaa-{number}")
            await member.delete(ref, uid=(await member.get(ref))["metadata"]["uid"])
        await asyncio.sleep(1500)
        assert scene.hub.state.members["a"].contents.stores[PSVC].complete
        assert not await doubt(world)
        await world.settle()

    act(story, options=HubOptions(member_objects_max=20))


@pytest.mark.parametrize(
    "nodes",
    [
        [
            {
                "count": 1,
                "allocatable": {"cpu": "2M", "memory": "1Pi"},
                "free": {"cpu": "2M", "memory": "1Pi"},
            }
        ],
        [{"count": 1, "allocatable": {"cpu": 10**18}, "free": {"cpu": 10**18}}],
        [
            {"count": 1, "allocatable": {"cpu": "64"}, "free": {"cpu": "64"}, "family": f"f{n}"}
            for n in range(10_000)
        ],
    ],
    ids=["a node without measure", "a node beyond all numbers", "ten thousand rows"],
)
def test_room_that_no_cluster_has_draws_no_copy_and_is_held_against_it(
    nodes: list[dict[str, Any]],
) -> None:
    tongue = Tongue("clustercapacities")

    async def story(scene: Scene) -> None:
        world = scene.world
        await world.create(PSVC, "feed", "web", service(4, "100m"))
        await world.settle()
        before = await world.shares("feed", "web")
        tongue.lies = says(nodes=nodes)
        touched = {"metadata": {"annotations": {"example.com/stirred": "yes"}}}
        await world.patch("ClusterCapacity", "", "cluster", touched, at="a")
        await world.create(PSVC, "feed", "later", service(2, "100m"))
        await asyncio.sleep(30)
        against = await doubt(world)
        assert against["reason"] == "BeyondBounds"
        assert "ClusterCapacity says what cannot be" in against["message"]
        assert await world.shares("feed", "later") == {"b": 2}
        assert await world.shares("feed", "web") == before
        tongue.lies = None
        await world.patch(
            "ClusterCapacity", "", "cluster", {"metadata": {"annotations": {"more": "1"}}}, at="a"
        )
        await asyncio.sleep(900)
        assert not await doubt(world)

    act(story, wrap=tongue.wrap)


def test_a_decision_records_what_clusters_had_until_nothing_of_it_can_be_told() -> None:
    async def story(scene: Scene) -> None:
        world = scene.world

        async def recorded(name: str) -> list[dict[str, Any]]:
            [spec] = [
                one["spec"]
                for one in await world.decisions()
                if one["spec"]["workload"]["name"] == name
            ]
            return list(spec.get("given", ()))

        await world.create(
            PSVC, "feed", "web", service(4, "100m", placement={"clusters": {"names": ["a"]}})
        )
        await world.create(
            PJS, "feed", "train", long_job(6) | {"placement": {"clusters": {"names": ["a"]}}}
        )
        await asyncio.sleep(30)
        assert await recorded("web") == await recorded("train") == []
        for kind, name in ((PSVC, "web"), (PJS, "train")):
            await world.patch(
                kind, "feed", name, {"spec": {"placement": {"clusters": {"names": ["b"]}}}}
            )
        await asyncio.sleep(1)
        [given] = await recorded("web")
        assert (given["cluster"], given["replicas"]) == ("a", 4)
        assert {"cluster": "a", "ranges": "0-5"} in await recorded("train")
        await asyncio.sleep(60)
        await world.patch(PSVC, "feed", "web", {"spec": {"replicas": 5}})
        await asyncio.sleep(30)
        assert await recorded("web") == [], "nothing is left of it in a"

    act(story)
