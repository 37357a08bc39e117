"""Many submissions at a time: they share searches and Events, and each is found and told of."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from federator.api import submissions
from federator.api.submissions import Record
from federator.gateway import records
from federator.gateway.api.problems import Problem
from federator.gateway.callers import Caller
from federator.gateway.platforms import searching, telling
from federator.gateway.platforms.searching import Searches
from federator.hub.query.access import User
from tests import virtual_time
from tests.unit.gateway import gating
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World

EVENTS = ("events.k8s.io/v1", "events")
KINDS = ("PinterestJobSet", "PinterestService")


def caller(name: str) -> Caller:
    return Caller(User(name), (("impersonate-user", name),), impersonated=True)


class Host:
    """Lists the objects of some submissions, and takes a second for it."""

    def __init__(self, *identities: str) -> None:
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.refuses = False
        self._objects = [
            records.marked(
                {"kind": "PinterestJobSet", "metadata": {"name": each}}, record(each), ()
            )
            for each in identities
        ]

    async def labelled(
        self, caller: Caller, namespace: str, selectors: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        self.asked.append((caller.name, selectors))
        await asyncio.sleep(1)
        if self.refuses:
            raise Problem(503, "HostUnavailable", "It is away.")
        return self._objects


def record(identity: str) -> Record:
    return Record(identity, "", "train", "", "", "", "", "")


def searches(host: Host) -> Searches:
    return Searches(host, KINDS, asyncio.get_running_loop().time)


def test_searches_that_come_while_one_runs_share_the_next_one() -> None:
    async def main() -> None:
        host = Host("a", "b")
        looked = searches(host)
        first = asyncio.create_task(looked.find(caller("ann"), "ads", "train", "a"))
        await asyncio.sleep(0.5)
        later = await asyncio.gather(
            *(looked.find(caller("ann"), "ads", "train", each) for each in ("b", "c", "d"))
        )

        assert [len(found) for found in (await first, *later)] == [1, 1, 0, 0]
        assert len(host.asked) == 2
        assert host.asked[1][1] == {
            "PinterestJobSet": f"{submissions.ID_LABEL} in (b,c,d)",
            "PinterestService": f"{submissions.WORKFLOW_LABEL}=train",
        }

    virtual_time.run(main())


def test_a_search_begins_after_the_requests_that_it_serves_have_come() -> None:
    """What was created before a request came is found, whatever search was on its way."""

    async def main() -> None:
        host = Host("a")
        looked = searches(host)
        tasks = []
        for at in range(8):
            await asyncio.sleep(0.1)
            find = looked.find(caller("ann"), "ads", "train", str(at))
            tasks.append(asyncio.create_task(find))
        await asyncio.gather(*tasks)
        # The first at once; those of its second share the next one, and so on.
        begun = [selectors["PinterestJobSet"].partition("in (")[2] for _, selectors in host.asked]
        assert [each for ids in begun for each in ids.rstrip(")").split(",")] == [
            str(at) for at in range(8)
        ]
        assert len(begun) < 8

    virtual_time.run(main())


def test_other_callers_and_other_workflows_are_searched_for_on_their_own() -> None:
    async def main() -> None:
        host = Host()
        looked = searches(host)
        await asyncio.gather(
            looked.find(caller("ann"), "ads", "train", "a"),
            looked.find(caller("ben"), "ads", "train", "b"),
            looked.find(caller("ann"), "ads", "serving", "c"),
            looked.find(caller("ann"), "feed", "train", "d"),
        )
        assert len(host.asked) == 4
        assert Counter(name for name, _ in host.asked) == {"ann": 3, "ben": 1}

    virtual_time.run(main())


def test_a_search_names_so_many_submissions_at_most() -> None:
    async def main() -> None:
        host = Host()
        looked = searches(host)
        await looked.find(caller("ann"), "ads", "train", "first")
        count = 2 * searching.IDS_MAX + 1
        await asyncio.gather(
            *(looked.find(caller("ann"), "ads", "train", f"s{at}") for at in range(count))
        )
        named = [selectors["PinterestJobSet"].count(",") + 1 for _, selectors in host.asked]
        assert sum(named) == count + 1
        assert max(named) == searching.IDS_MAX

    virtual_time.run(main())


def test_a_request_that_goes_away_takes_no_search_with_it() -> None:
    async def main() -> None:
        host = Host("b")
        looked = searches(host)
        gone = asyncio.create_task(looked.find(caller("ann"), "ads", "train", "a"))
        await asyncio.sleep(0.5)
        second = asyncio.create_task(looked.find(caller("ann"), "ads", "train", "x"))
        waiting = asyncio.create_task(looked.find(caller("ann"), "ads", "train", "b"))
        await asyncio.sleep(0)
        gone.cancel()
        second.cancel()
        assert len(await waiting) == 1

    virtual_time.run(main())


def test_all_who_share_a_search_are_told_that_the_host_is_away() -> None:
    async def main() -> None:
        host = Host()
        host.refuses = True
        looked = searches(host)
        both = await asyncio.gather(
            looked.find(caller("ann"), "ads", "train", "a"),
            looked.find(caller("ann"), "ads", "train", "b"),
            return_exceptions=True,
        )
        assert [type(each) for each in both] == [Problem, Problem]
        host.refuses = False
        assert await looked.find(caller("ann"), "ads", "train", "a") == []

    virtual_time.run(main())


@pytest.mark.parametrize("count", [3, 70])
def test_each_submission_of_a_burst_is_in_an_event(count: int) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), requests_a_second=1000.0, burst=1000)
        answers = await asyncio.gather(
            *(door.submit("job", RUN, idempotencyKey=f"k{at}") for at in range(count))
        )
        assert {code for code, _ in answers} == {201}, answers
        await door.gateway.teller.flush()

        listing = await world.host.list(*EVENTS, "ads")
        told = [each["note"] for each in listing.items if each["reason"] == "Submitted"]
        ids = [made["id"] for _, made in answers]
        assert all(sum(each in note for note in told) == 1 for each in ids)
        assert all("by oidc:builder" in note for note in told)
        shared = -(-max(count - telling.BURST, 0) // telling.IDS_MAX)
        assert min(count, telling.BURST) <= len(told) <= min(count, telling.BURST) + shared + 2

    gating.play(scenario)
