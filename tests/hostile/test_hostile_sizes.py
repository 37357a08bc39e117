"""Objects near the largest that an API server keeps (F63): taken or refused whole, never a stuck
half-write.
"""

import asyncio

from tests.hostile.cases_objects import meta, spec
from tests.hostile.hosting import Scene, act
from tests.hostile.table import bounded

NEAR = 1_400_000
"""Bytes: below etcd's 1.5 MiB with what the federation adds."""


def test_a_workload_near_the_limit_is_told_of_or_placed_and_leaves_nothing_half() -> None:
    """Its ConfigMap is larger than any ConfigMap may be: members say so, and the workload's
    conditions repeat it.
    """

    async def story(scene: Scene) -> None:
        good = await scene.good()
        files = {f"f{index}": "x" * 100_000 for index in range(NEAR // 100_000)}
        status, answer = await scene.post(spec(config=files))
        assert status == 201, answer
        await asyncio.sleep(60)
        stalled = await scene.world.condition("PinterestService", "feed", "evil", "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "ExpansionFailed")
        assert "1048576" in stalled["message"]
        before = scene.picture(but=("memberclusters",))
        await asyncio.sleep(120)
        assert scene.picture(but=("memberclusters",)) == before
        await scene.world.delete("PinterestService", "feed", "evil")
        await asyncio.sleep(60)
        assert not [key for key in scene.picture() if key[3].startswith("evil")]
        assert await scene.good() == good

    with bounded(20.0, measured=False):
        act(story)


def test_annotations_up_to_the_limit_reach_the_members_and_no_further() -> None:
    async def story(scene: Scene) -> None:
        status, _ = await scene.post(meta(annotations={"note": "x" * 262_000}))
        assert status == 201
        await scene.world.settle()
        (cluster,) = await scene.world.shares("feed", "evil")
        member = await scene.world.get("PinterestService", "feed", "evil", at=cluster)
        assert member is not None
        assert len(member["metadata"]["annotations"]["note"]) == 262_000
        host = await scene.world.get("PinterestService", "feed", "evil")
        assert host is not None
        assert len(str(host["status"])) < 5000

    act(story)
