"""Leader election: the table, what runs out when, and candidates under every trouble: never two that may write."""

import asyncio
import contextlib
import itertools
import json
import math
import random
from typing import Any

import pytest

from federator.embedded import virtualtime
from federator.kube import errors, lease
from federator.kube.elector import HURRY_S, LeaseLost
from federator.kube.lease import LeaseOptions, Sign, Standing
from federator.model.steps import ObjectRef
from tests.unit.kube.leaseworld import LEASE, NAMESPACE, TROUBLES, LeaseWorld
from tests.unit.kube.scripted import on_virtual_time

FIRST_S = 10.5
"""Where no Lease is, a candidate waits a renew deadline: somebody may lead whose Lease was deleted."""
LONGEST_S = 17.0


def leased(version: int = 1, uid: str = "u", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "hub", "uid": uid, "resourceVersion": str(version)}, "spec": spec}


# -- the rules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standing", list(Standing))
@pytest.mark.parametrize("sign", list(Sign))
def test_only_a_win_makes_a_leader_and_nothing_brings_a_lost_lease_back(standing: Standing, sign: Sign) -> None:
    moved = lease.after(standing, sign)

    leads = (Standing.LEADING, Standing.DOUBTFUL)
    if standing is Standing.OBSERVING:
        assert moved is (Standing.LEADING if sign is Sign.WON else Standing.OBSERVING)
    if standing is Standing.LOST:
        assert moved not in leads
    if standing in leads and sign in (Sign.TAKEN, Sign.OVERDUE, Sign.STOPPED):
        assert moved not in leads


def test_every_standing_can_be_reached_and_left() -> None:
    assert {before for before, _ in lease.MOVES} == set(Standing)
    assert set(lease.MOVES.values()) == set(Standing)


def test_a_rivals_lease_runs_out_by_our_clock_since_we_saw_it_change() -> None:
    options = LeaseOptions()
    first = lease.notice(None, leased(1, holderIdentity="b", renewTime="1999-01-01T00:00:00.000000Z"), 100.0)
    same = lease.notice(first, leased(1, holderIdentity="b", renewTime="1999-01-01T00:00:00.000000Z"), 109.0)
    renewed = lease.notice(same, leased(2, holderIdentity="b", renewTime="1999-01-01T00:00:00.000000Z"), 112.0)

    assert lease.free_at(same, "us", None, options) == 115.0
    assert lease.free_at(renewed, "us", None, options) == 127.0


@pytest.mark.parametrize(
    ("obj", "after_s"),
    [
        (None, math.inf),
        (leased(holderIdentity="", leaseDurationSeconds=1), 0.0),
        (leased(holderIdentity="", leaseDurationSeconds=15), math.inf),
        (leased(), math.inf),
        ({"metadata": {"resourceVersion": "1"}, "spec": None}, math.inf),
        (leased(holderIdentity="b", leaseDurationSeconds=30), 30.0),
        (leased(holderIdentity="b", leaseDurationSeconds=1), 15.0),
        (leased(holderIdentity="b", leaseDurationSeconds=10**9), 60.0),
        (leased(holderIdentity="b", leaseDurationSeconds="soon"), 15.0),
        (leased(holderIdentity="b", leaseDurationSeconds=-3), 15.0),
        (leased(holderIdentity="us"), 10.0),
        (leased(holderIdentity="us", acquireTime="then"), 0.0),
    ],
)
def test_when_a_lease_may_be_taken(obj: dict[str, Any] | None, after_s: float) -> None:
    seen = lease.notice(None, obj, 100.0)

    assert lease.free_at(seen, "us", "then", LeaseOptions()) == 100.0 + after_s


@pytest.mark.parametrize(
    ("before", "term"), [(None, 1), (0, 1), (7, 8), ("many", 1), (-1, 1), (2**31 - 1, 1), (True, 1)]
)
def test_each_reign_has_a_term_of_its_own_whatever_the_count_was(before: int | str | None, term: int) -> None:
    body, found = lease.claim(
        leased(leaseTransitions=before), LEASE, identity="us", stamp="now", options=LeaseOptions()
    )

    assert found == term == body["spec"]["leaseTransitions"]


def test_what_others_wrote_into_the_lease_stays() -> None:
    live = leased(4, holderIdentity="us", strategy="OldestEmulationVersion") | {"kind": "Lease"}
    live["metadata"]["labels"] = {"team": "sre"}

    for body in (
        lease.renewal(live, term=3, stamp="now", options=LeaseOptions(), notes={}),
        lease.release(live, term=3, stamp="now"),
    ):
        assert body["metadata"] == live["metadata"]
        assert body["spec"]["strategy"] == "OldestEmulationVersion"
        assert body["spec"]["leaseTransitions"] == 3
        assert body["spec"]["leaseDurationSeconds"] >= 1


@pytest.mark.parametrize(
    "times",
    [
        {"try_timeout_s": 2.0},
        {"try_timeout_s": 0.0},
        {"renew_deadline_s": 15.0},
        {"renew_deadline_s": 3.0},
        {"retry_s": 6.0, "try_timeout_s": 1.0},
    ],
)
def test_times_that_cannot_work_are_refused(times: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must (be shorter|leave room)"):
        LeaseOptions(**times)


# -- one candidate ---------------------------------------------------------------------------------------------------


@on_virtual_time
async def test_a_leader_renews_at_most_every_retry_period_and_writes_utc_to_the_microsecond() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    await asyncio.sleep(60)

    times = [at for at, request in a.wire.writes if "leases" in request.path]
    gaps = [later - sooner for sooner, later in itertools.pairwise(times[2:])]
    assert 1.6 <= min(gaps) <= max(gaps) <= 2.05
    assert max(gaps) - min(gaps) > 0.1
    spec = await world.lease()
    assert spec["renewTime"].endswith("Z")
    assert len(spec["renewTime"].partition(".")[2]) == len("000000Z")
    assert spec["renewTime"] > spec["acquireTime"]
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("a", 1, 15)
    await world.end()


@on_virtual_time
async def test_notes_that_are_asked_for_are_on_the_lease_at_once_and_one_renewal_serves_all() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    await asyncio.sleep(10.5)
    a.elector.notes = lambda: {"example.com/note": "new"}
    before, begun = len(a.wire.writes), a.clock.monotonic()
    assert await asyncio.gather(*(a.elector.note() for _ in range(10))) == [True] * 10
    assert a.clock.monotonic() - begun < HURRY_S + 0.1
    assert sum("leases" in request.path for _, request in a.wire.writes[before:]) == 1
    assert (await a.client.get(LEASE))["metadata"]["annotations"]["example.com/note"] == "new"
    await world.end()


@on_virtual_time
async def test_however_often_notes_are_asked_for_renewals_leave_room_for_others() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    before, begun = len(a.wire.writes), a.clock.monotonic()
    for _ in range(20):
        assert await a.elector.note()
    renewals = sum("leases" in request.path for _, request in a.wire.writes[before:])
    assert renewals <= (a.clock.monotonic() - begun) / HURRY_S + 1
    await world.end()


@on_virtual_time
async def test_notes_that_were_not_taken_are_not_called_written() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    a.wire.trouble = "hang"
    assert not await a.elector.note()
    a.wire.trouble = ""
    await asyncio.sleep(LeaseOptions().renew_deadline_s / 2)  # the try that hangs is given up
    assert await a.elector.note()
    await world.end()


@pytest.mark.parametrize("trouble", ["reset", "hang", "html", "busy"])
@on_virtual_time
async def test_a_leader_that_cannot_renew_stops_before_anybody_may_take_its_place(trouble: str) -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    await asyncio.sleep(5)
    a.wire.trouble = trouble
    last = max(at for at, request in a.wire.writes if "leases" in request.path)
    (b,) = await world.begin("b")
    took_s = await world.until("b", 20)

    assert a.ended[0] <= last + 10.0
    assert isinstance(a.died_of(), LeaseLost)
    assert "10 s" in str(a.died_of())
    assert took_s <= LONGEST_S
    assert b.began[0] - a.ended[0] >= 4.0
    assert b.terms == [2]
    await world.end()


@on_virtual_time
async def test_a_blip_shorter_than_the_deadline_costs_nothing() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    for trouble in TROUBLES:
        a.wire.trouble, a.wire.delay_s = trouble, 3.0
        await asyncio.sleep(6)
        assert a.leading, trouble
        a.wire.trouble = ""
        await asyncio.sleep(6)

    assert a.terms == [1]
    assert not a.ended
    await world.end()


@on_virtual_time
async def test_a_server_that_takes_seconds_for_each_answer_is_waited_for() -> None:
    """One that is busy is no reason to lead no longer: the next leader would find it no quicker."""
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    a.wire.trouble, a.wire.delay_s = "slow", 3.0
    await asyncio.sleep(300)

    assert a.leading
    assert (a.terms, a.ended) == ([1], [])
    await world.end()


@on_virtual_time
async def test_a_candidate_becomes_leader_though_the_server_takes_seconds_for_each_answer() -> None:
    world = LeaseWorld()
    a, b = await world.begin("a", "b")
    await world.until("a", FIRST_S)
    b.wire.trouble, b.wire.delay_s = "slow", 2.2
    await a.stop()
    await world.until("b", 30.0)
    await asyncio.sleep(60)

    assert b.leading
    await world.end()


@on_virtual_time
async def test_a_candidate_may_stand_again_after_a_loss_with_a_new_term() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a", recampaign=True)
    await world.until("a", FIRST_S)
    a.wire.trouble = "hang"
    await asyncio.sleep(14)
    assert not a.leading
    a.wire.trouble = ""
    await world.until("a", LONGEST_S)

    assert a.terms == [1, 2]
    assert len(a.ended) == 1
    await world.end()


@on_virtual_time
async def test_a_loop_that_was_blocked_past_the_deadline_finds_the_gate_shut() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    before = len(a.wire.writes)
    a.clock.blocked_s += 20

    assert not a.leading
    with pytest.raises(errors.NotLeading):
        await a.writer.patch(LEASE, {})
    await asyncio.sleep(3)
    assert isinstance(a.died_of(), LeaseLost)
    assert len(a.wire.writes) == before
    await world.end()


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0, 86400.0, -86400.0])
@on_virtual_time
async def test_wall_clocks_that_jump_move_no_lease(jump_s: float) -> None:
    world = LeaseWorld()
    a, b = await world.begin("a", "b")
    await asyncio.sleep(FIRST_S)
    leader, other = (a, b) if a.leading else (b, a)
    for one in (leader, other, leader):
        one.clock.wall_epoch_s += jump_s
        await asyncio.sleep(40)

    assert leader.leading
    assert leader.terms == [1]
    assert not other.terms
    await world.end()


@on_virtual_time
async def test_a_stop_releases_the_lease_and_the_next_one_need_not_wait() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    (b,) = await world.begin("b")
    await asyncio.sleep(5)
    await a.stop()
    spec = await world.lease()
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 1)

    assert await world.until("b", 3) <= 2.1
    assert b.terms == [2]
    await world.end()


@on_virtual_time
async def test_a_leader_that_dies_is_replaced_within_lease_and_retry() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    (_b,) = await world.begin("b")
    await asyncio.sleep(7.3)
    await a.kill()

    assert 12 < await world.until("b", 20) <= LONGEST_S
    await world.end()


@on_virtual_time
async def test_work_that_breaks_ends_the_reign_and_gives_the_lease_back() -> None:
    world = LeaseWorld()
    candidate = world.candidate("a")

    async def breaks(term: int) -> None:
        await asyncio.sleep(3)
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await candidate.elector.lead(breaks)
    assert (await world.lease())["holderIdentity"] == ""
    await world.end()


@on_virtual_time
async def test_what_the_work_does_on_its_way_out_is_not_sent() -> None:
    world = LeaseWorld()
    candidate = world.candidate("a")

    async def clings(term: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await candidate.write(term)

    task = asyncio.create_task(candidate.elector.lead(clings))
    await asyncio.sleep(FIRST_S)
    assert candidate.leading
    task.cancel()
    await asyncio.wait([task])

    assert candidate.refused == 1
    await world.end()


@on_virtual_time
async def test_work_that_does_not_end_keeps_the_lease_from_being_released() -> None:
    world = LeaseWorld()
    candidate = world.candidate("a")

    async def stuck(term: int) -> None:
        while asyncio.get_running_loop().time() < 60:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)

    task = asyncio.create_task(candidate.elector.lead(stuck))
    await asyncio.sleep(FIRST_S)
    task.cancel()
    await asyncio.wait([task])

    assert not candidate.leading
    assert (await world.lease())["holderIdentity"] == "a"
    await world.end()


@on_virtual_time
async def test_who_is_not_ready_to_lead_leaves_the_lease_to_others() -> None:
    world = LeaseWorld()
    cold = world.candidate("cold")
    cold.task = asyncio.create_task(cold.elector.lead(cold.work, candidate=lambda: False))
    (_warm,) = await world.begin("warm")
    await asyncio.sleep(60)

    assert world.leaders() == ["warm"]
    assert not [request for _, request in cold.wire.writes]
    await world.end()


@on_virtual_time
async def test_a_first_start_where_nobody_can_have_led_does_not_wait() -> None:
    world = LeaseWorld()
    one = world.candidate("a")
    one.task = asyncio.create_task(one.elector.lead(one.work, untouched=lambda: True))

    assert await world.until("a", 3) < 0.5
    await world.delete()
    await asyncio.sleep(3)
    assert isinstance(one.died_of(), LeaseLost)
    await world.end()


# -- hands on the Lease (F7) -------------------------------------------------------------------------------------------


async def _meddle(world: LeaseWorld, how: str) -> None:
    match how:
        case "deleted":
            await world.delete()
        case "another's":
            await world.edit(holderIdentity="bogus")
        case "emptied":
            await world.edit(holderIdentity="")
        case "given to the standby":
            await world.edit(holderIdentity="b")
        case "stripped":
            await world.client.patch(LEASE, {"spec": None})


@pytest.mark.parametrize("how", ["deleted", "another's", "emptied", "given to the standby", "stripped"])
@on_virtual_time
async def test_a_hand_on_the_lease_ends_the_leader_before_another_acts(how: str) -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    (b,) = await world.begin("b")
    await asyncio.sleep(5)
    await _meddle(world, how)
    await world.until("b", 20)

    assert isinstance(a.died_of(), LeaseLost)
    assert a.ended[0] < b.began[0] - 4
    await world.end()


@pytest.mark.parametrize("seed", range(8))
def test_a_lease_that_is_deleted_again_between_two_looks_of_another_makes_no_two_leaders(seed: int) -> None:
    """Simulation seed 1925: b saw no Lease before a made it and none after it was deleted again."""

    async def main() -> None:
        world = LeaseWorld(seed)
        a, b = await world.begin("a", "b", recampaign=True)
        deleted = False
        for _ in range(5000):
            if world.leaders() and not deleted:
                await world.delete()
                deleted = True
            assert len(world.leaders()) < 2
            await asyncio.sleep(0.01)
        ended, began = [*a.ended, *b.ended], [*a.began, *b.began]
        assert (len(ended), len(began)) == (1, 2)
        await world.end()

    virtualtime.run(main())


@pytest.mark.parametrize("how", ["deleted", "emptied"])
@on_virtual_time
async def test_a_name_on_a_lease_that_nobody_held_runs_out_with_who_wrote_it(how: str) -> None:
    """It is not released by who stops before it led: somebody may lead who does not know of it."""
    world = LeaseWorld()
    (old,) = await world.begin("old")
    await world.until("old", FIRST_S)
    old.wire.trouble = "hang"
    await _meddle(world, how)
    (a,) = await world.begin("a")
    await asyncio.sleep(1.0)
    spec = await world.lease()
    assert (spec["holderIdentity"], "acquireTime" in spec) == ("a", False)
    (b,) = await world.begin("b")
    await asyncio.sleep(2.0)
    await a.stop()
    assert (await world.lease())["holderIdentity"] == "a"
    assert old.leading
    await world.until("b", LONGEST_S)

    assert not a.terms
    assert b.began[0] > old.ended[0]
    await world.end()


@on_virtual_time
async def test_a_label_or_a_lowered_count_is_outlived_and_put_right() -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    a.elector.raise_term(9)
    await asyncio.sleep(3)
    await world.client.patch(LEASE, {"metadata": {"labels": {"team": "sre"}}})
    await asyncio.sleep(5)
    await world.edit(leaseTransitions=0, leaseDurationSeconds=3)
    await asyncio.sleep(5)

    assert a.leading
    spec = await world.lease()
    assert (spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (9, 15)
    await world.end()


@on_virtual_time
async def test_a_claim_whose_reply_was_lost_is_taken_up_at_once() -> None:
    world = LeaseWorld()
    space = ObjectRef("v1", "namespaces", "", NAMESPACE, "Namespace")
    await world.client.create(space, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    (a,) = await world.begin("a")
    await asyncio.sleep(9.5)
    a.wire.trouble = "lost"
    await asyncio.sleep(2.5)
    assert (await world.lease())["holderIdentity"] == "a"
    a.wire.trouble = ""

    assert await world.until("a", 5) <= 2.1
    assert a.terms[0] > 1
    await world.end()


# -- many candidates, many troubles -----------------------------------------------------------------------------------


class Storm:
    """Three candidates whose processes, connections, clocks and Lease suffer at random; `broken` says what was seen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world: LeaseWorld
        self.rng = random.Random(f"storm {seed}")
        self.lives = 0
        self.broken: list[str] = []
        self.led: set[str] = set()

    async def run(self, for_s: float = 300.0) -> None:
        self.world = LeaseWorld(self.seed)
        await self.world.begin()
        slots = [self._life() for _ in range(3)]
        watch = asyncio.create_task(self._watch())
        loop = asyncio.get_running_loop()
        while loop.time() < for_s:
            await asyncio.sleep(self.rng.uniform(0.0, 6.0))
            await self._trouble(slots)
        for index, one in enumerate(slots):
            one.wire.trouble = ""
            if one.task is None or one.task.done():
                slots[index] = self._life()
        await asyncio.sleep(45)
        if len(self.world.leaders()) != 1:
            self.broken.append(f"after healing there are {len(self.world.leaders())} leaders")
        watch.cancel()
        await self.world.end()

    def _life(self) -> Any:
        self.lives += 1
        made = self.world.candidate(f"life-{self.lives}", recampaign=self.rng.random() < 0.5)
        made.clock.wall_epoch_s += self.rng.choice((0.0, 3600.0, -86400.0))
        return made.start()

    async def _trouble(self, slots: list[Any]) -> None:
        index = self.rng.randrange(3)
        one = slots[index]
        if one.task.done():
            slots[index] = self._life()
            return
        what = self.rng.choice((*TROUBLES, "", "", "", "kill", "stop", "jump", "meddle"))
        if what == "kill":
            await one.kill()
        elif what == "stop":
            await one.stop()
        elif what == "jump":
            one.clock.wall_epoch_s += self.rng.choice((3600.0, -3600.0))
        elif what == "meddle":
            try:
                await _meddle(
                    self.world, self.rng.choice(("deleted", "another's", "emptied", "given to the standby", "stripped"))
                )
            except errors.ApiError:
                return
        else:
            one.wire.trouble, one.wire.delay_s = what, self.rng.uniform(1.0, 60.0)

    async def _watch(self) -> None:
        while True:
            leaders = self.world.leaders()
            self.led |= set(leaders)
            if len(leaders) > 1:
                self.broken.append(f"{asyncio.get_running_loop().time():.2f}: {leaders} lead")
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("block", range(4))
def test_never_two_leaders_under_random_troubles_and_one_after_them(block: int) -> None:
    led = 0
    for seed in range(block * 10, block * 10 + 10):
        storm = Storm(seed)
        virtualtime.run(storm.run())
        assert not storm.broken, (seed, storm.broken[:3])
        led += len(storm.led)
    assert led >= 30, "the storms were too strong to show anything"


def test_a_deadline_beyond_the_lease_would_be_seen() -> None:
    """The control: candidates that may go on for longer than others wait do lead together."""
    options = LeaseOptions()
    object.__setattr__(options, "renew_deadline_s", 40.0)

    async def main() -> list[str]:
        world = LeaseWorld()
        _a, _b = await world.begin("a", "b", options=options)
        await asyncio.sleep(41)
        leader = next(one for one in world.candidates if one.leading)
        leader.wire.trouble = "hang"
        await asyncio.sleep(20)
        found = world.leaders()
        await world.end()
        return found

    assert len(virtualtime.run(main())) == 2


def test_the_bodies_written_are_plain_json() -> None:
    body, _ = lease.claim(None, LEASE, identity="a", stamp="t", options=LeaseOptions())

    assert json.loads(json.dumps(body)) == body
