"""Many submissions at a time: they share searches and Events, and each is found and told of."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from federator.api import submissions
from federator.api.submissions import Record
from federator.gateway import records
from federator.gateway.api.problems import Problem
from federator.gateway.callers import Caller, Callers
from federator.gateway.platforms import events, searching, table
from federator.gateway.platforms.events import EventBatcher, SubmissionEvent
from federator.gateway.platforms.federation import Federation
from federator.gateway.platforms.leader import Leader, Ways
from federator.gateway.platforms.platform import Parts
from federator.gateway.platforms.searching import Searches
from federator.hub.query.access import REVIEW_S, REVIEWS_WAITING_MAX, Access, User
from federator.hub.query.announcing import Announcement
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.event_recorder import NOTE_MAX, EventRecorder
from federator.kube.wire.transport import Request, Response
from federator.model.steps import ObjectRef
from federator.process.oidc.issuer import Issuers
from tests import virtual_time
from tests.unit.gateway import gating
from tests.unit.gateway.test_submissions import RUN, kept
from tests.unit.hub.world import World
from tests.unit.kube.scripted import Answer

EVENTS = ("events.k8s.io/v1", "events")
KINDS = [table.PLATFORMS.kinds[each] for each in ("PinterestJobSet", "PinterestService")]


def caller(name: str) -> Caller:
    return Caller(User(name), (("impersonate-user", name),), impersonated=True)


class Host:
    """Lists the objects of some submissions, and takes a second for it, or as given."""

    def __init__(self, *identities: str, takes_s: float = 1.0) -> None:
        self.takes_s = takes_s
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        self.refuses = False
        self.at_once = self.most_at_once = 0
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
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.takes_s)
        self.at_once -= 1
        if self.refuses:
            raise Problem(503, "HostUnavailable", "It is away.")
        return self._objects


class Silent:
    """A Transport to a host that does not answer until `answers` is set, and then takes all."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.notes: list[str] = []

    async def request(self, request: Request) -> Response:
        await self.answers.wait()
        if request.method == "PATCH":  # of an Event that never came
            return Answer(404, (b'{"kind": "Status", "code": 404, "reason": "NotFound"}',))
        self.notes.append(json.loads(request.body)["note"])
        return Answer(201, (request.body,))

    async def close(self) -> None:
        """Nothing is open."""


async def unconnected(known: Announcement) -> Ways:
    raise AssertionError(f"nobody asks {known}")


def about(user: str = "ann") -> SubmissionEvent:
    return SubmissionEvent("Submitted", "ads", "train", "v1", user, "placed")


def batcher(host: Silent) -> EventBatcher:
    clock = Clock(0.0)
    recorder = EventRecorder(Client(host, "host"), clock=clock)
    return EventBatcher(recorder, clock.monotonic)


def add(batches: EventBatcher, at: int, user: str = "ann") -> None:
    """A submission with an object of its own."""
    ref = ObjectRef("pinterest.com/v1", "pinterestjobsets", "ads", f"train-{at}", "PinterestJobSet")
    batches.add(about(user), f"submission{at:010}", ref, f"uid-{at}")


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


def test_no_token_is_kept_after_the_requests_that_show_it() -> None:
    async def main() -> None:
        looked = searches(Host())
        for at in range(3):
            shown = Caller(User("ann"), (("authorization", f"Bearer T0KEN-{at}"),), False)
            await looked.find(shown, "ads", "train", "a")
            assert "T0KEN" not in repr(vars(looked))
            await asyncio.sleep(1)
        assert len(looked._begun_s) == 1

    virtual_time.run(main())


@pytest.mark.parametrize("takes_s", [1.0, 0.1])
def test_a_search_names_so_many_submissions_at_most(takes_s: float) -> None:
    async def main() -> None:
        host = Host(takes_s=takes_s)
        looked = searches(host)
        await looked.find(caller("ann"), "ads", "train", "first")
        count = 2 * searching.IDS_MAX + 1
        await asyncio.gather(
            *(looked.find(caller("ann"), "ads", "train", f"s{at}") for at in range(count))
        )
        named = [selectors["PinterestJobSet"].count(",") + 1 for _, selectors in host.asked]
        assert sum(named) == count + 1
        assert max(named) == searching.IDS_MAX
        assert host.most_at_once == 1

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


def test_no_request_waits_for_the_reviews_of_others_while_the_host_does_not_answer() -> None:
    async def main() -> None:
        loop, clock = asyncio.get_running_loop(), Clock(0.0)
        host = Client(Silent(), "host")
        access = Access(host, clock=clock)
        parts = Parts(
            Callers(access, Issuers([]), host, Silent()),
            Leader(host, unconnected, rng=random.Random(1)),
            access,
            EventBatcher(EventRecorder(host, clock=clock), clock.monotonic),
        )
        platform = Federation(parts)
        count = 2 * REVIEWS_WAITING_MAX
        refused = await asyncio.gather(
            *(platform.admit(caller("ann"), "ads") for _ in range(count)), return_exceptions=True
        )
        assert {each.status for each in refused if isinstance(each, Problem)} == {503}
        assert len(refused) == count
        assert loop.time() <= REVIEW_S + 1

        # Other users have reviews of their own, and no more of them wait than the bound.
        others = await asyncio.gather(
            *(platform.admit(caller(f"u{at}"), "ads") for at in range(count)),
            return_exceptions=True,
        )
        assert {each.status for each in others if isinstance(each, Problem)} == {429, 503}

    virtual_time.run(main())


@pytest.mark.parametrize("count", [3, 70])
def test_each_submission_of_a_burst_is_in_an_event(count: int) -> None:
    async def scenario(world: World) -> None:
        door = await gating.opened(world, kept(), requests_a_second=1000.0, burst=1000)
        answers = await asyncio.gather(
            *(door.submit("job", RUN, idempotencyKey=f"k{at}") for at in range(count))
        )
        assert {code for code, _ in answers} == {201}, answers
        await door.gateway.events.flush()

        listing = await world.host.list(*EVENTS, "ads")
        told = [each["note"] for each in listing.items if each["reason"] == "Submitted"]
        ids = [made["id"] for _, made in answers]
        assert all(sum(each in note for note in told) == 1 for each in ids)
        assert all("by oidc:builder" in note for note in told)
        own = min(count, int(events.BURST))
        assert own <= len(told) <= own + 4
        assert all(len(note.encode()) <= NOTE_MAX for note in told)

    gating.play(scenario)


def test_requests_do_not_wait_for_events_and_those_that_wait_are_bounded() -> None:
    async def main() -> None:
        host = Silent()
        batches = batcher(host)
        running = asyncio.create_task(batches.run())
        for at in range(events.BATCHES_MAX + 100):
            add(batches, at, f"user{at}")
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])
        host.answers.set()  # one was being written when its task ended: it is still there
        await batches.flush()
        assert len(host.notes) == len(set(host.notes)) == events.BATCHES_MAX

    virtual_time.run(main())


def test_the_end_waits_no_longer_than_its_time_for_events(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        batches = batcher(Silent())
        for at in range(40):
            add(batches, at, f"user{at}")
        begun_s = asyncio.get_running_loop().time()
        await batches.flush()
        assert asyncio.get_running_loop().time() - begun_s <= events.LAST_S
        assert "38 submissions have no Event" in caplog.text

    virtual_time.run(main())


@pytest.mark.parametrize("user", ["ann", "\U0001f600" * 200, "\u202e" * 200])
def test_an_event_lists_its_submissions_whole_whatever_the_user_is_called(user: str) -> None:
    async def main() -> None:
        host = Silent()
        host.answers.set()
        batches = batcher(host)
        running = asyncio.create_task(batches.run())
        for at in range(150):
            add(batches, at, user)
        await asyncio.sleep(2 * events.SHARED_S)
        running.cancel()
        assert all(len(note.encode()) <= NOTE_MAX for note in host.notes)
        for at in range(150):
            assert sum(f"submission{at:010}" in note for note in host.notes) == 1
        assert len(host.notes) < 40

    virtual_time.run(main())
