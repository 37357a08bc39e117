"""One candidate for the lease: how it wins, renews, doubts and stops, with and without trouble."""

import asyncio
import contextlib
import itertools

import pytest

from federator.kube import errors
from federator.kube.leader.elector import HURRY_S, LeaseLost
from federator.kube.leader.lease import LeaseOptions
from tests.unit.kube.leaseworld import FIRST_S, LEASE, LONGEST_S, TROUBLES, LeaseWorld
from tests.unit.kube.scripted import on_virtual_time


@on_virtual_time
async def test_a_leader_renews_once_in_a_retry_period_and_writes_utc_microseconds() -> None:
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
    assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == (
        "a",
        1,
        15,
    )
    await world.end()


@on_virtual_time
async def test_notes_asked_for_are_on_the_lease_at_once_and_one_renewal_serves_all() -> None:
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
    await a.wire.befall("hang")
    assert not await a.elector.note()
    await a.wire.befall("")
    await asyncio.sleep(LeaseOptions().renew_deadline_s / 2)  # the try that hangs is given up
    assert await a.elector.note()
    await world.end()


@pytest.mark.parametrize("trouble", ["reset", "hang", "html", "busy"])
@on_virtual_time
async def test_a_leader_that_cannot_renew_stops_before_anybody_may_take_its_place(
    trouble: str,
) -> None:
    world = LeaseWorld()
    (a,) = await world.begin("a")
    await world.until("a", FIRST_S)
    await asyncio.sleep(5)
    await a.wire.befall(trouble)
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
        await a.wire.befall(trouble, 3.0)
        await asyncio.sleep(6)
        assert a.leading, trouble
        await a.wire.befall("")
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
    await a.wire.befall("slow", 3.0)
    await asyncio.sleep(300)

    assert a.leading
    assert (a.terms, a.ended) == ([1], [])
    await world.end()


@on_virtual_time
async def test_a_candidate_becomes_leader_though_the_server_takes_seconds_for_each_answer() -> None:
    world = LeaseWorld()
    a, b = await world.begin("a", "b")
    await world.until("a", FIRST_S)
    await b.wire.befall("slow", 2.2)
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
    await a.wire.befall("hang")
    await asyncio.sleep(14)
    assert not a.leading
    await a.wire.befall("")
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
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (
        "",
        1,
        1,
    )

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


@on_virtual_time
async def test_a_lease_that_was_free_before_a_process_became_a_candidate_is_known_as_such() -> None:
    world = LeaseWorld()
    (former,) = await world.begin("former")
    await world.until("former", FIRST_S)
    await former.stop()
    able: list[bool] = []
    heir = world.candidate("heir")
    task = asyncio.create_task(heir.elector.lead(heir.work, candidate=lambda: bool(able)))
    await heir.elector.looked.wait()
    await asyncio.sleep(5.1)
    begun = heir.clock.elapsed()
    able.append(True)
    await world.until("heir", LONGEST_S)
    assert heir.elector.vacant_s < begun - 5.0
    task.cancel()
    await asyncio.wait([task])
    await world.end()


@on_virtual_time
async def test_a_lease_that_ran_out_is_vacant_only_from_its_end_on() -> None:
    """Its holder may have led until then."""
    world = LeaseWorld()
    (former,) = await world.begin("former")
    await world.until("former", FIRST_S)
    await former.kill()
    heir = world.candidate("heir").start()
    begun = heir.clock.elapsed()
    await world.until("heir", LONGEST_S)
    duration_s = heir.elector.options.duration_s
    assert begun + duration_s <= heir.elector.vacant_s <= heir.clock.elapsed()
    await heir.stop()
    await world.end()
