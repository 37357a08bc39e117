"""What the rows about whole clusters promise: a cluster is what it was joined as, and what is not
heard is not lost.
"""

import asyncio

import pytest

from federator.kinds import registry
from federator.kube.wire.transport import Request, Response, Transport
from federator.model import names
from tests.faults.episodes import clusters
from tests.faults.requests import CannedResponse
from tests.simulation import running, solo
from tests.simulation.invariants import Obj, Step, all_of
from tests.simulation.removals import Removals
from tests.simulation.script import SERVICE
from tests.simulation.world import World

pytestmark = pytest.mark.long


def _slices(world: World, cluster: str) -> int:
    """How many slices stand at the address of a cluster."""
    found = all_of(world.facing(cluster), SERVICE)
    return len([obj for obj in found if registry.verbs_of(SERVICE).read_mark(obj) is not None])


def _slice_uids(world: World, cluster: str) -> set[str]:
    found = (
        obj
        for obj in all_of(world.clusters[cluster], SERVICE)
        if registry.verbs_of(SERVICE).read_mark(obj)
    )
    return {obj["metadata"]["uid"] for obj in found}


def _named(world: World, cluster: str, name: str) -> list[Obj]:
    """The slices of that name there."""
    return [
        obj for obj in all_of(world.clusters[cluster], SERVICE) if obj["metadata"]["name"] == name
    ]


async def _told(world: World, cluster: str, reason: str, within_s: float) -> None:
    deadline = world.federation.clock.monotonic() + within_s
    while solo.conditions(solo.one_of(world, "MemberCluster", cluster))["Ready"][1] != reason:
        assert world.federation.clock.monotonic() < deadline, f"{cluster} is not {reason}"
        await asyncio.sleep(0.5)


def test_a_cluster_made_anew_is_not_the_one_that_was_joined_and_gets_nothing() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "cluster-made-anew", draw=3):
            anew = next(
                name
                for name in world.members
                if world.facing(name) is not world.federation.members[name]
            )
            await _told(world, anew, "IdentityChanged", within_s=60)
            for hub in world.hubs:
                world.kill(hub)
            await asyncio.sleep(60)
            assert (
                solo.conditions(solo.one_of(world, "MemberCluster", anew))["Ready"][1]
                == "IdentityChanged"
            )
            assert _slices(world, anew) == 0
            assert solo.shares(world) == before

    solo.tell(story)


def test_a_cluster_made_anew_and_joined_again_in_one_go_gets_its_share_anew() -> None:
    async def story(world: World) -> None:
        new = world.fresh("a")
        await world.put("a", new)
        await world.replace("a", new)
        world.kill("member-a")
        clusters.rejoin(world, "a")
        await solo.settled(world)
        assert (
            _slices(world, "a")
            == len([name for name, counts in solo.shares(world).items() if "a" in counts])
            > 0
        )

    solo.tell(story)


def test_the_second_cluster_object_of_one_cluster_gets_nothing_and_the_first_keeps_all() -> None:
    async def story(world: World) -> None:
        before = solo.shares(world)
        async with solo.happening(world, "joined-twice"):
            await asyncio.sleep(30)
            double = next(
                name for name in ("0-double", "z-double") if name in world.federation.aliases
            )
            ready = solo.conditions(solo.one_of(world, "MemberCluster", double))["Ready"]
            assert ready[0] == "False"
            message = solo.one_of(world, "MemberCluster", double)["status"]["conditions"][0][
                "message"
            ]
            assert "the same cluster as" in message
            assert solo.shares(world) == before

    solo.tell(story)


def test_nothing_is_deleted_in_members_while_the_host_is_another_one() -> None:
    for row in ("host-restored", "host-wrong"):

        async def story(world: World, row: str = row) -> None:
            deleted: list[str] = []
            world.listeners.append(
                lambda sent: (
                    deleted.append(sent.text())
                    if sent.request.method == "DELETE"
                    and sent.process in world.hubs
                    and sent.cluster != "host"
                    else None
                )
            )
            before = solo.shares(world)
            async with solo.happening(world, row):
                await asyncio.sleep(60)
                assert not deleted
                held = {
                    name: counts for name, counts in solo.shares(world).items() if name in before
                }
                assert held == before

        solo.tell(story)


def test_a_cluster_that_left_with_copies_has_none_of_a_workload_deleted_after_its_return() -> None:
    async def story(world: World) -> None:
        async with solo.happening(world, "left-and-back"):
            await asyncio.sleep(5)
        await asyncio.sleep(20)
        left = [
            name
            for name in world.members
            for obj in all_of(world.clusters[name], SERVICE)
            if _guest(obj)
        ]
        assert not left

    solo.tell(story)


def test_a_lost_cluster_that_is_back_is_freed_of_what_it_held_before_it_is_given_anything() -> None:
    async def story(world: World) -> None:
        before = _slice_uids(world, "a")
        async with solo.happening(world, "lost-and-back"):
            await asyncio.sleep(5)
        await solo.settled(world)
        assert not before & _slice_uids(world, "a")
        assert solo.shares(world)["web"] == {"a": 4}

    solo.tell(story, solo.world(members=1))


def test_a_lost_cluster_that_no_hub_gave_up_is_cleared_by_its_operator_when_it_is_back() -> None:
    """What a hub proved deleted meanwhile has gone with that hub's life."""

    async def story(world: World) -> None:
        host = world.federation.host
        assert _named(world, "a", "web")
        world.hold_down("hub")
        async with solo.happening(world, "lost-and-back"):
            for kind in (SERVICE, "PlacementDecision"):
                info = next(one for one in host.registry.stored() if one.kind == kind)
                for stored in host.store.items(info):
                    if stored.key[0] == "feed":
                        host.store.delete(info, *stored.key, finalizers=())
        world.let_up("hub")
        assert not _named(world, "a", "web")

    solo.tell(story, solo.world(members=1, hubs=1))


def test_the_rule_about_lost_clusters_finds_a_share_beside_an_old_slice() -> None:
    async def story(world: World) -> None:
        rule, host = Removals(), world.clusters["host"]
        decision = next(
            obj
            for obj in all_of(host, "PlacementDecision")
            if obj["spec"]["workload"]["name"] == "web"
        )
        (held,) = (one["cluster"] for one in decision["spec"]["shares"][:1])
        old = [
            obj for obj in all_of(world.clusters[held], SERVICE) if obj["metadata"]["name"] == "web"
        ]

        def told(
            kind: str, cluster: str, before: Obj | None, after: Obj | None, now_s: float
        ) -> list[str]:
            step = Step(world.clusters, cluster, "hub#1", kind, before, after)
            return [text for text in rule.breaches(step, now_s) if text.startswith(rule.STALE)]

        for obj in old:
            assert not told(SERVICE, held, None, obj, 1.0)
        assert not told("PlacementDecision", "host", None, decision, 2.0)
        joined = solo.one_of(world, "MemberCluster", held)
        going = {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {names.REMOVAL_ANNOTATION: "Lost"},
        }
        told(
            "MemberCluster",
            "host",
            {**joined, "metadata": {**joined["metadata"], **going}},
            None,
            3.0,
        )
        assert len(told("PlacementDecision", "host", None, decision, 4.0)) == 1
        assert not told("PlacementDecision", "host", decision, decision, 5.0)

    solo.tell(story)


class _Liar:
    """Hides from a hub that another cluster answers: its first answer about the identity is given
    for ever.
    """

    def __init__(self, inner: Transport, first: dict[str, CannedResponse], cluster: str) -> None:
        self.inner = inner
        self.first = first
        self.cluster = cluster

    async def request(self, request: Request) -> Response:
        response = await self.inner.request(request)
        if request.path != "/api/v1/namespaces/kube-system":
            return response
        told = CannedResponse(response.status, await response.read(1 << 20), response.headers)
        return self.first.setdefault(self.cluster, told)

    async def close(self) -> None:
        await self.inner.close()


def test_a_hub_that_does_not_mind_who_answers_is_caught() -> None:
    async def story(world: World) -> None:
        await solo.settled(world)
        async with solo.happening(world, "cluster-made-anew", draw=3):
            await asyncio.sleep(60)

    first: dict[str, CannedResponse] = {}
    plant = running.Plant(between=lambda process, cluster, inner: _Liar(inner, first, cluster))
    with pytest.raises(running.Broken) as caught:
        running.simulate(solo.world(), plant, running.Course(solo.BEGINNING, story=story))
    assert any(text.startswith("17 identity") for text in caught.value.breaches), (
        caught.value.breaches[:5]
    )


def _guest(obj: Obj) -> bool:
    return str(obj["metadata"]["name"]) == "guest"
