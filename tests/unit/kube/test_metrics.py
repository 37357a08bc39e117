"""The metrics: every row can be reported and read, nothing is split by workloads, a cluster that
left is gone.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

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
from federator.model.steps import ObjectRef
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

REF = ObjectRef("v1", "things", "ns", "a", "Thing")
OF_THE_HUB = {
    "federator_hardening_warnings",
    "federator_member_clock_skew_seconds",
    "federator_member_token_ends_timestamp_seconds",
    "federator_member_certificate_ends_timestamp_seconds",
    "federator_token_renewals_total",
    "federator_history_lost_total",
    "federator_query_requests_total",
    "federator_gateway_requests_total",
    "federator_signer_certificates_total",
    "federator_signer_seconds",
    "federator_reconcile_seconds",
    "federator_decisions_total",
    "federator_moves_total",
    "federator_workload_probes_total",
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
            status(403, "Forbidden"),
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


ASKED: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.get(REF),
    "create": lambda client: client.create(REF, {}),
    "update": lambda client: client.replace(REF, {}),
    "patch": lambda client: client.patch(REF, {}),
    "apply": lambda client: client.patch(REF, {}, kind="apply"),
    "delete": lambda client: client.delete(REF, uid="u"),
    "list": lambda client: client.list("v1", "things", "ns"),
}
"""Verb -> a request of it."""


@pytest.mark.parametrize("verb", ASKED)
@on_virtual_time
async def test_a_request_is_counted_by_cluster_verb_resource_and_code(verb: str) -> None:
    one = metrics.Metrics()
    for cluster in ("m1", "m2", "m2"):
        script = Script(after=status(403, "Forbidden"))
        client = Client(script, cluster, metrics=one, rng=random.Random(1))
        with pytest.raises(errors.Denied):
            await ASKED[verb](client)

    assert samples(one, "federator_requests_total") == {
        ("m1", "403", "things", verb): 1.0,
        ("m2", "403", "things", verb): 2.0,
    }
    assert samples(one, "federator_request_seconds_count") == {
        ("m1", verb): 1.0,
        ("m2", verb): 2.0,
    }


def samples(one: metrics.Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Label values, in the order of the labels' names -> value, of what is not zero."""
    found = {}
    for row in one.render().decode().splitlines():
        head, _, value = row.rpartition(" ")
        if head.partition("{")[0] == name and float(value):
            found[tuple(re.findall(r'="([^"]*)"', head))] = float(value)
    return found


def test_each_report_sets_the_sample_with_these_labels_and_no_other() -> None:
    one = metrics.Metrics()
    one.watch_events("m1", "things", 3)
    one.watch_trouble("m1", "things", "expired")
    one.watch_failing("m1", "things", True)
    one.watch_failing("m2", "things", True)
    one.watch_failing("m2", "things", False)
    one.watch_lists("m1", "things")
    one.lane("m1", 16, 2, 5)
    one.task_broke("gathering")
    one.lease_try("conflict")
    one.queue_added("placing", 4)
    one.queue_started("asking", 7, 2.5)
    one.queue_done("tidying", 0.5)
    one.queue_failed("removing", "Conflict")
    expected = {
        "federator_watch_events_total": {("m1", "things"): 3.0},
        "federator_watch_troubles_total": {("m1", "things", "expired"): 1.0},
        "federator_watch_failing": {("m1", "things"): 1.0},
        "federator_lists_total": {("m1", "things"): 1.0},
        "federator_lane_limit": {("m1",): 16.0},
        "federator_lane_running": {("m1",): 2.0},
        "federator_lane_waiting": {("m1",): 5.0},
        "federator_task_restarts_total": {("gathering",): 1.0},
        "federator_lease_tries_total": {("conflict",): 1.0},
        "workqueue_depth": {("placing",): 4.0, ("asking",): 7.0},
        "workqueue_adds_total": {("placing",): 1.0},
        "workqueue_queue_duration_seconds_sum": {("asking",): 2.5},
        "workqueue_work_duration_seconds_sum": {("tidying",): 0.5},
        "workqueue_retries_total": {("Conflict", "removing"): 1.0},
    }

    assert {name: samples(one, name) for name in expected} == expected


ASSERTED = {
    "tests/unit/kube/test_metrics.py": {
        "federator_requests_total",
        "federator_request_seconds",
        "federator_watch_events_total",
        "federator_watch_troubles_total",
        "federator_watch_failing",
        "federator_lists_total",
        "federator_lane_limit",
        "federator_lane_running",
        "federator_lane_waiting",
        "federator_task_restarts_total",
        "federator_lease_tries_total",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "workqueue_retries_total",
    },
    "tests/unit/hub/test_metric_labels.py": {
        "federator_clusters",
        "federator_failover_brake",
        "federator_evacuated_copies_total",
        "federator_decisions_total",
        "federator_moves_total",
        "federator_workloads",
        "federator_copies",
        "federator_copies_short",
        "federator_quota",
        "federator_quota_uncovered",
        "federator_copies_not_ready",
        "federator_copies_beyond_budget",
        "federator_account_owner_info",
        "federator_cluster_lost",
        "federator_member_process_silent",
        "federator_cluster_capacity",
        "federator_cluster_free",
    },
    "tests/unit/hub/test_success_rates.py": {"federator_cluster_success_ratio"},
    "tests/unit/hub/test_workload_probes.py": {
        "federator_workload_probe_failed",
        "federator_workload_probes_total",
    },
    "tests/unit/hub/test_product_metrics.py": {
        "federator_reconcile_seconds",
        "federator_reconcile_waiting",
        "federator_reconcile_oldest_seconds",
        "federator_drill_unplaceable_replicas",
        "federator_drill_recovery_seconds",
    },
    "tests/unit/hub/test_invariants.py": {"federator_invariant_breached_workloads"},
    "tests/unit/hub/test_dearer_profiles.py": {"federator_profile_held_back"},
    "tests/unit/hub/test_hardening.py": {"federator_hardening_warnings"},
    "tests/unit/hub/test_vitals.py": {"federator_member_clock_skew_seconds"},
    "tests/unit/hub/test_leasing.py": {"federator_fence_renewed_timestamp_seconds"},
    "tests/unit/hub/test_renewing.py": {
        "federator_member_token_ends_timestamp_seconds",
        "federator_member_certificate_ends_timestamp_seconds",
        "federator_token_renewals_total",
    },
    "tests/unit/query/test_query_port.py": {"federator_query_requests_total"},
    "tests/unit/gateway/test_port.py": {"federator_gateway_requests_total"},
    "tests/unit/signer/test_port.py": {
        "federator_signer_certificates_total",
        "federator_signer_seconds",
    },
}
"""File -> the metrics whose label values it compares together with their values."""


def test_every_labelled_metric_has_a_test_of_its_labels_and_values() -> None:
    root = Path(__file__).parents[3]
    labelled = {row.name for row in (*metrics.TABLE, *metrics.FIGURES) if row.labels}
    assert sorted(name for names in ASSERTED.values() for name in names) == sorted(labelled)
    absent = [
        f"{path}: {name}"
        for path, names in ASSERTED.items()
        for name in sorted(names)
        if name not in (root / path).read_text(encoding="utf-8")
    ]
    assert not absent


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
        "operation",
        "way",
        "outcome",
        "kind",
        "step",
        "state",
        "reason",
        "account",
        "owner",
        "tier",
        "figure",
        "health",
        "brake",
        "profile",
        "invariant",
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
