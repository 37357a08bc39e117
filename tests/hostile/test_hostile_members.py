"""A member that lies: the hub stays up, says something sane, writes nothing that the host refuses,
and the other member and its work are left as they were.
"""

import asyncio
import gc
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from federator.hub.members.contents import Contents
from federator.hub.members.link import Link
from federator.hub.members.member import Member
from federator.kube.wire.transport import Transport
from tests.hostile.cases_members import LIES
from tests.hostile.hosting import Picture, Scene, act
from tests.hostile.liars import Liar
from tests.hostile.table import bounded

LYING = "a"
STORY_CPU_S = 20.0
WORKING = {"client", "applier", "lane", "reflectors", "estranged"}
"""Fields of a member and of its parts that lead to running tasks."""
PARTS = (Link, Contents)
"""Parts of a member with such fields."""
KEPT_MAX = 400_000
"""Bytes of texts and rows that a hub may keep of a member with one small slice, whatever that says.
"""
KEPT_OF_ROWS = 1_400_000
"""The same with as many rows of nodes as are read."""
CASES = {lie.name: lie for lie in LIES}


def of_member(picture: Picture, name: str) -> Picture:
    """The workloads of one member and what it made of them, without what moves by itself."""
    kinds = {
        "pinterestservices",
        "pinterestjobsets",
        "deployments",
        "services",
        "configmaps",
        "pods",
    }
    return {
        key: _still(value) for key, value in picture.items() if key[0] == name and key[1] in kinds
    }


def _still(obj: dict[str, Any]) -> Any:
    return obj.get("spec"), obj["metadata"]["uid"]


def _kept(part: Member | Link | Contents) -> list[object]:
    made: list[object] = []
    for name in part.__slots__:
        value = getattr(part, name)
        if isinstance(value, PARTS):
            made += _kept(value)
        elif name not in WORKING:
            made.append(value)
    return made


def kept_of(member: Member) -> int:
    """Bytes of all texts, rows and tables that hang on what is kept of a member, ours of its object
    not counted.
    """
    ours = {id(member.obj)}
    left = _kept(member)
    total = 0
    while left:
        found = left.pop()
        if id(found) in ours or isinstance(found, type | Callable | ModuleType):
            continue
        ours.add(id(found))
        total += sys.getsizeof(found)
        left += gc.get_referents(found)
    return total


@pytest.mark.parametrize("name", CASES)
def test_a_lie_of_a_member_harms_nobody_else(name: str) -> None:
    lie = CASES[name]
    liars: list[Liar] = []
    lying = False

    def change(obj: dict[str, Any]) -> bytes | None:
        return lie.change(obj) if lying else None

    def wrap(process: str, cluster: str, inner: Transport) -> Transport:
        if (process, cluster) != ("hub", LYING):
            return inner
        liars.append(Liar(inner, lie.plural, change))
        return liars[-1]

    async def story(scene: Scene) -> None:
        nonlocal lying
        before = scene.picture()
        lying = True
        told = sum(liar.told for liar in liars)
        await _stir(scene)
        await asyncio.sleep(200)
        assert sum(liar.told for liar in liars) > told, "the lie was never told"
        scene.assert_unharmed()
        after = scene.picture()
        assert lie.moves or of_member(after, "b") == of_member(before, "b")
        _assert_sane(after)
        most = KEPT_OF_ROWS if name == "five thousand rows" else KEPT_MAX
        assert kept_of(scene.hub.state.members[LYING]) < most
        lying = False
        await scene.world.federation.kill("hub")
        scene.world.federation.start_hub()
        await asyncio.sleep(1)
        await scene.world.settle(300)
        assert sum((await scene.good()).values()) == 2
        assert lie.moves or of_member(scene.picture(), "b") == of_member(before, "b")

    with bounded(STORY_CPU_S, measured=False):
        act(story, wrap=wrap)


async def _stir(scene: Scene) -> None:
    """Changes something about every object that can be lied about, so that the lie is told on the
    running watches.
    """
    touched = {"metadata": {"annotations": {"example.com/stirred": "yes"}}}
    for kind, namespace, name in (
        ("ClusterCapacity", "", "cluster"),
        ("PinterestService", "feed", "good"),
    ):
        if await scene.world.get(kind, namespace, name, at=LYING) is not None:
            await scene.world.patch(kind, namespace, name, touched, at=LYING)


def _assert_sane(picture: Picture) -> None:
    """What the host now says can be read, and claims no more than can be."""
    for (cluster, plural, _, _), obj in picture.items():
        if cluster != "host" or plural not in ("pinterestservices", "memberclusters"):
            continue
        for condition in (obj.get("status") or {}).get("conditions", ()):
            assert len(condition["message"]) <= 1024
            assert len(condition["reason"]) <= 128
            assert condition["reason"].isascii()
            assert condition["reason"].replace("_", "").isalnum()
        if plural == "pinterestservices":
            status = obj["status"]
            assert 0 <= status["ready"] <= status["replicas"] <= 2**40
            assert len(str(status)) < 20_000
