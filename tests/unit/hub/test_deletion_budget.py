"""One budget for everybody who deletes what no person took away: finalizing and orphans together
keep the rate.
"""

import asyncio
import itertools
from collections import Counter

import pytest

from federator.hub.options import HubOptions
from tests.unit.hub.test_returning import comes_back, slice_in, spread
from tests.unit.hub.world import World, play

PSVC = "PinterestService"
MEMBERS = ("a", "b", "c")
A_MINUTE = 12
"""Slices that may be deleted in a minute, as `hub.deletions_floor` says."""
OF_ONE = len(MEMBERS)
"""Slices of one workload: its finalizing pays for all of them at once, and deletes them one after
the other.
"""


async def there(world: World) -> Counter[str]:
    """Slices that members hold, by the first word of their names."""
    found: Counter[str] = Counter()
    for member in MEMBERS:
        listed = await world.member(member).list("pinterest.com/v1beta1", "pinterestservices")
        found.update(item["metadata"]["name"].partition("-")[0] for item in listed.items)
    return found


@pytest.mark.long
def test_finalizing_and_orphans_together_delete_no_faster_than_is_documented() -> None:
    """A bucket of one minute's worth: in any time no more than it holds and what flows in
    meanwhile. With a budget for each of the two, twice as much would go at once.
    """

    async def scenario(world: World) -> None:
        old, new = (
            [f"old-{number}" for number in range(6)],
            [f"new-{number}" for number in range(12)],
        )
        for name in (*old, *new):
            await spread(world, name)
        await world.settle()
        before = {
            (name, member): await slice_in(world, member, name)
            for name in old
            for member in MEMBERS
        }
        for name in old:
            await world.delete(PSVC, "feed", name)
        await asyncio.sleep(300)
        assert (await there(world))["old"] == 0, (
            "what is deleted first is finalized, and its bucket is full again"
        )

        for (_, member), obj in before.items():
            assert obj is not None
            await comes_back(world, obj, member)
        for name in new:
            await world.delete(PSVC, "feed", name)
        samples = [(0, Counter(old=OF_ONE * len(old), new=OF_ONE * len(new)))]
        for second in range(0, 300, 2):
            samples.append((second, await there(world)))
            await asyncio.sleep(2)

        for (earlier, had), (later, has) in itertools.combinations(samples, 2):
            gone, allowed = (
                had.total() - has.total(),
                A_MINUTE + A_MINUTE * (later - earlier) / 60 + OF_ONE,
            )
            assert gone <= allowed, f"{gone} slices between second {earlier} and {later}"
        assert samples[-1][1].total() == 0, "both come to their end"
        shared = [second for second, left in samples if left["old"] and left["new"]]
        assert shared[-1] >= 10, "both had something to delete while they shared the budget"

    play(scenario, options=HubOptions(deletions_floor=A_MINUTE, deletions_permille=1))
