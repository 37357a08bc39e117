"""The metrics: every row can be reported and read, nothing is split by workloads, a cluster that
left is gone.
"""

import asyncio
import random

import pytest
from prometheus_client import Gauge, Histogram

from federator.kube import errors, metrics
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.control.lanes import Lane
from federator.kube.control.supervisor import Supervisor
from federator.kube.control.work_queue import WorkQueue
from federator.kube.leader.elector import Elector
from federator.kube.leader.lease import LeaseOptions
from federator.kube.store import Store
from federator.kube.watch.reflector import Reflector
from tests.unit.kube.scripted import (
    FOREVER,
    Script,
    line,
    listing,
    on_virtual_time,
    status,
    stream,
    thing,
)

OF_THE_HUB = {
    "federator_hardening_warnings",
    "federator_member_clock_skew_seconds",
    "federator_member_token_ends_timestamp_seconds",
    "federator_token_renewals_total",
    "federator_history_lost_total",
    "federator_query_requests_total",
    "federator_reconcile_seconds",
    "federator_decisions_total",
    "federator_moves_total",
    "federator_clusters",
    "federator_failover_brake",
    "federator_evacuated_copies_total",
    "federator_duplicate_risk_total",
    "federator_fence_renewed_timestamp_seconds",
}
"""Reported by a floor above: see the hub's tests."""


@on_virtual_time
async def test_the_parts_of_this_floor_report_every_row_of_the_table() -> None:
    one = metrics.Metrics()
    rng = random.Random(1)
    client = Client(
        Script(
            listing(5),
            status(410, "Gone"),
            listing(6),
            stream(line("ADDED", thing("a", 7)), FOREVER),
        ),
        "m1",
        metrics=one,
        rng=rng,
    )
    store: Store[int] = Store()
    reflector: Reflector[int] = Reflector(
        client, "v1", "things", store, project=lambda obj: 1, clock=Clock(0), rng=rng, metrics=one
    )
    queue: WorkQueue[str] = WorkQueue("placing", rng=rng, metrics=one)

    async def fails_once(_key: str) -> None:
        if not queue._failed:
            raise errors.Conflict("changed")

    async def breaks() -> None:
        raise ValueError

    async def leads(_term: int) -> None:
        raise AssertionError("there is no host to lead")

    elector = Elector(
        Client(Script(after=status(500, "InternalError")), rng=rng),
        namespace="ns",
        name="hub",
        identity="hub-1",
        options=LeaseOptions(),
        clock=Clock(0),
        rng=rng,
        metrics=one,
    )
    lane = Lane("m1", clock=Clock(0), rng=rng, metrics=one)
    async with Supervisor("test", rng=rng, metrics=one) as supervisor:
        supervisor.start("reflector", reflector.run)
        supervisor.start("queue", queue.run, fails_once)
        supervisor.start("election", elector.lead, leads)
        supervisor.start("broken", breaks)
        supervisor.start(
            "lag", metrics.measure_loop_lag, one.child("federator_loop_lag_seconds").observe
        )
        queue.add("a")
        async with lane.slot():
            pass
        await asyncio.sleep(30)
    text = one.render().decode()
    for row in metrics.TABLE:
        if row.name in OF_THE_HUB:
            continue
        sample = f"{row.name}_count" if row.kind is Histogram else row.name
        assert any(
            found.startswith((f"{sample}{{", f"{sample} ")) for found in text.splitlines()
        ), row.name
    assert (
        'federator_requests_total{cluster="m1",code="200",resource="things",verb="list"} 2.0'
        in text
    )
    assert (
        'federator_watch_troubles_total{cluster="m1",resource="things",trouble="expired"} 1.0'
        in text
    )


def test_nothing_is_split_by_what_users_can_make_many_of() -> None:
    allowed = {
        "cluster",
        "verb",
        "resource",
        "code",
        "trouble",
        "task",
        "name",
        "error",
        "result",
        "question",
        "kind",
        "step",
        "state",
        "reason",
        "account",
        "tier",
        "figure",
        "health",
        "brake",
    }
    every = (*metrics.TABLE, *metrics.FIGURES)
    assert {label for row in every for label in row.labels} <= allowed
    assert all(row.help.endswith(".") for row in every)


def test_a_cluster_that_left_leaves_no_numbers_behind() -> None:
    one = metrics.Metrics()
    one.request("m1", "get", "pods", "200", 0.1)
    one.request("m2", "get", "pods", "200", 0.1)
    one.lane("m1", 1, 2, 3)
    one.forget_cluster("m1")
    text = one.render().decode()
    assert 'cluster="m1"' not in text
    assert 'cluster="m2"' in text
    one.lane("m1", 1, 2, 3)
    assert 'federator_lane_running{cluster="m1"} 2.0' in one.render().decode()


def test_floors_above_add_their_own_and_cannot_take_a_name_twice() -> None:
    one = metrics.Metrics()
    row = metrics.Row("federator_settled", Gauge, "Workloads that have settled.")
    one.add((row,))
    one.child("federator_settled").set(3)
    assert b"federator_settled 3.0" in one.render()
    with pytest.raises(ValueError, match="Duplicated"):
        one.add((row,))
