"""The numbers we publish to Prometheus. `TABLE` is the whole list; labels are clusters and kinds,
never workload names.

One `Metrics` per process fits every `metrics=` argument of this floor. Names follow the families
that operators know (`workqueue_*` of controller-runtime); everything else begins with `federator_`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MINUTES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

_PARTS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Row:
    """One metric: what it is called, what it counts, what it is split by."""

    name: str
    kind: type[Counter | Gauge | Histogram]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = _SECONDS
    """Upper bounds of a histogram's buckets, in the unit of its name: seconds, or a ratio."""


TABLE: tuple[Row, ...] = (
    Row(
        "federator_requests_total",
        Counter,
        "Requests to API servers by answer; code 'unreachable' where none came, 'own_shortage'"
        " where none was sent.",
        ("cluster", "verb", "resource", "code"),
    ),
    Row(
        "federator_request_seconds",
        Histogram,
        "Time until the head of an answer.",
        ("cluster", "verb"),
    ),
    Row("federator_watch_events_total", Counter, "Watch events received.", ("cluster", "resource")),
    Row(
        "federator_watch_troubles_total",
        Counter,
        "What went wrong while listing and watching, by kind of trouble.",
        ("cluster", "resource", "trouble"),
    ),
    Row(
        "federator_watch_failing",
        Gauge,
        "Readers of a kind that fail to list and watch it again and again, so that what is known"
        " of it is old.",
        ("cluster", "resource"),
    ),
    Row("federator_lists_total", Counter, "Whole lists read.", ("cluster", "resource")),
    Row(
        "federator_lane_limit",
        Gauge,
        "Calls that may run at once in a cluster's lane now.",
        ("cluster",),
    ),
    Row("federator_lane_running", Gauge, "Calls that run in a cluster's lane.", ("cluster",)),
    Row("federator_lane_waiting", Gauge, "Calls that wait for a slot in a lane.", ("cluster",)),
    Row(
        "federator_task_restarts_total",
        Counter,
        "Long-lived tasks that broke and were started again.",
        ("task",),
    ),
    Row("federator_leading", Gauge, "1 while this process leads, 0 while it stands by."),
    Row(
        "federator_lease_tries_total",
        Counter,
        "Tries to take or renew the lease, by what came of them.",
        ("result",),
    ),
    Row("federator_loop_lag_seconds", Histogram, "How late the event loop wakes a sleeper."),
    Row(
        "federator_hardening_warnings",
        Gauge,
        "What the hub found at its start that docs/operating/hardening.md warns of; the host has"
        " no cluster name.",
        ("cluster",),
    ),
    Row(
        "federator_member_clock_skew_seconds",
        Gauge,
        "How far a member's clock is ahead of the hub's, by the Date header of its answers.",
        ("cluster",),
    ),
    Row(
        "federator_history_lost_total", Counter, "Entries of the history that could not be written."
    ),
    Row(
        "federator_query_requests_total",
        Counter,
        "Requests to the query port by question and answer.",
        ("question", "code"),
    ),
    Row("federator_signer_certificates_total", Counter, "Answers to pods.", ("way", "outcome")),
    Row("federator_signer_seconds", Histogram, "Time for a certificate of a pod.", ("way",)),
    Row(
        "federator_gateway_requests_total",
        Counter,
        "Requests to the submission gateway by operation and answer.",
        ("operation", "code"),
    ),
    Row(
        "federator_snapshot_starts_total",
        Counter,
        "Starts of the snapshot worker; more than one for each time that this hub begins to lead"
        " means that it ended.",
    ),
    Row(
        "federator_decisions_refused_total",
        Counter,
        "Decisions found on the host that no hub of this fleet wrote.",
    ),
    Row(
        "federator_member_token_ends_timestamp_seconds",
        Gauge,
        "When the hub's token in a member ends, in seconds since 1970; 0: it never does, or the hub"
        " uses a certificate.",
        ("cluster",),
    ),
    Row(
        "federator_member_certificate_ends_timestamp_seconds",
        Gauge,
        "When the hub's client certificate in a member ends, in seconds since 1970; 0: it uses a"
        " token.",
        ("cluster",),
    ),
    Row(
        "federator_fence_renewed_timestamp_seconds",
        Gauge,
        "When the lease by which guarded shards run in a cluster was last renewed, in seconds since"
        " 1970.",
        ("cluster",),
    ),
    Row(
        "federator_token_renewals_total",
        Counter,
        "Tries to renew the hub's token in a member, by result.",
        ("result",),
    ),
    Row(
        "federator_own_shortage",
        Gauge,
        "1 while this process lacks file descriptors for connections to members.",
    ),
    Row(
        "federator_standby_accounts",
        Gauge,
        "Standby hubs with a fresh account of the members, as the leader reads them.",
    ),
    Row(
        "federator_clusters_heard_by_standby",
        Gauge,
        "Clusters that the leader has not heard for longer than hub.unready_after_s and a standby"
        " hub hears: the leader's own network is the fault, and nothing leaves them.",
    ),
    Row(
        "federator_clusters",
        Gauge,
        "Clusters by what the governor holds of them: Live, Suspect, Unreachable, Dead, Degraded or"
        " Unknown.",
        ("health",),
    ),
    Row(
        "federator_failover_brake",
        Gauge,
        "1 for what holds failovers of the whole fleet back now, 0 for the others.",
        ("brake",),
    ),
    Row(
        "federator_evacuated_copies_total",
        Counter,
        "Copies that got another place because their cluster was drained or lost, or went back.",
        ("reason",),
    ),
    Row(
        "federator_duplicate_risk_total",
        Counter,
        "Copies that got another place although their cluster was only silent: two may run.",
    ),
    Row(
        "federator_deletions_waiting",
        Gauge,
        "Deletions that the budget of slices deleted in a minute holds back.",
    ),
    Row(
        "federator_reconcile_seconds",
        Histogram,
        "From a change that the hub heard of to each step: decided, written to every member, made"
        " native there, all copies ready.",
        ("kind", "step"),
        _MINUTES,
    ),
    Row(
        "federator_decisions_total",
        Counter,
        "Decisions written, by kind and by what binds; Chosen where nothing lacks.",
        ("kind", "reason"),
    ),
    Row(
        "federator_batch_gap_ratio",
        Histogram,
        "Of batches that left copies without a place for want of room, at most one in 15 s: which"
        " part of the bound of the linear relaxation was not placed, by resources; 0.02 is 2 %.",
        (),
        _PARTS,
    ),
    Row(
        "federator_moves_total",
        Counter,
        "Copies that a decision took from one cluster while it gave as many to others.",
        ("kind",),
    ),
    Row(
        "federator_workload_probes_total",
        Counter,
        "Probes of clusters with workloads that have ended, by the worst result of their tiers:"
        " Passed, Failed, Busy or NotRun.",
        ("cluster", "result"),
    ),
    Row("workqueue_depth", Gauge, "Keys that are ready to be taken.", ("name",)),
    Row(
        "workqueue_adds_total",
        Counter,
        "Keys that were queued (collapsed signals count once).",
        ("name",),
    ),
    Row(
        "workqueue_queue_duration_seconds",
        Histogram,
        "From a key's first signal to its turn.",
        ("name",),
    ),
    Row("workqueue_work_duration_seconds", Histogram, "How long turns take.", ("name",)),
    Row(
        "workqueue_retries_total",
        Counter,
        "Turns that failed, by class of error.",
        ("name", "error"),
    ),
)

FIGURES: tuple[Row, ...] = (
    Row(
        "federator_workloads",
        Gauge,
        "Workloads that are placed, short of copies, waiting for all of them, or suspended, and"
        " what binds.",
        ("kind", "state", "reason"),
    ),
    Row(
        "federator_copies",
        Gauge,
        "Copies that decisions give to a cluster; of jobs, shards that may run at once.",
        ("cluster", "kind"),
    ),
    Row(
        "federator_copies_short",
        Gauge,
        "Copies without a place, by what binds.",
        ("kind", "reason"),
    ),
    Row(
        "federator_copies_not_ready",
        Gauge,
        "Copies of services that are not ready, without those that their quota does not admit; the"
        " account is empty for projects without one.",
        ("account", "kind"),
    ),
    Row(
        "federator_copies_beyond_budget",
        Gauge,
        "Of these, copies beyond the maxUnavailable of their workloads.",
        ("account", "kind"),
    ),
    Row(
        "federator_account_owner_info",
        Gauge,
        "1 for the owner of each account: the team that it or the nearest account above it names,"
        " otherwise `platform`.",
        ("account", "owner"),
    ),
    Row(
        "federator_quota_uncovered",
        Gauge,
        "What is guaranteed to all accounts beyond what clusters that are not lost have, by account"
        " without a parent; cores, bytes or pieces.",
        ("account", "resource"),
    ),
    Row(
        "federator_cluster_lost",
        Gauge,
        "1 while a cluster is held to be Unreachable or Dead.",
        ("cluster",),
    ),
    Row(
        "federator_member_process_silent",
        Gauge,
        "1 while a cluster answers and its member process does not renew its lease.",
        ("cluster",),
    ),
    Row("federator_paused", Gauge, "1 while the federation is paused."),
    Row(
        "federator_quota",
        Gauge,
        "What an account is guaranteed, uses, lends and borrows; cores, bytes or pieces.",
        ("account", "tier", "resource", "figure"),
    ),
    Row(
        "federator_profile_held_back",
        Gauge,
        "Workloads that keep a former version of a RuntimeProfile, because the present one asks for"
        " more than quota or room allow.",
        ("profile",),
    ),
    Row(
        "federator_cluster_capacity",
        Gauge,
        "What a cluster's nodes have for the federation, as its member process last reported.",
        ("cluster", "resource"),
    ),
    Row(
        "federator_cluster_free",
        Gauge,
        "What of it nobody had requested in that report.",
        ("cluster", "resource"),
    ),
    Row(
        "federator_cluster_success_ratio",
        Gauge,
        "The share of workloads that start and end well in a cluster, over about an hour.",
        ("cluster",),
    ),
    Row(
        "federator_reconcile_waiting",
        Gauge,
        "Changes that still wait for their next step, such as `ready`.",
        ("kind", "step"),
    ),
    Row(
        "federator_reconcile_oldest_seconds",
        Gauge,
        "Age of the oldest of them.",
        ("step",),
    ),
    Row(
        "federator_drill_unplaceable_replicas",
        Gauge,
        "Copies that would have no place if this cluster were gone now.",
        ("cluster", "tier"),
    ),
    Row(
        "federator_invariant_breached_workloads",
        Gauge,
        "Workloads that break this PlacementInvariant now, or that its loss would leave short.",
        ("invariant",),
    ),
    Row(
        "federator_drill_recovery_seconds",
        Gauge,
        "How long all others there would take to get another place, at the budget of failovers.",
        ("cluster",),
    ),
    Row(
        "federator_workload_probe_failed",
        Gauge,
        "1 if the last probe of the cluster with workloads failed, 0 if it passed or the cluster"
        " was busy; none before the first.",
        ("cluster",),
    ),
    Row(
        "federator_snapshot_lag_seconds",
        Gauge,
        "How far the snapshot worker is behind the leading hub's memory; none while there is no"
        " worker.",
    ),
    Row(
        "federator_snapshot_memory_bytes",
        Gauge,
        "Resident memory of the snapshot worker, without the processes of single answers.",
    ),
)
"""Gauges that are read anew together, by the leading hub alone (`Metrics.publish`)."""

Samples = Mapping[str, Mapping[tuple[str, ...], float]]
"""Name of a row of `FIGURES` -> label values -> value."""


class _Figures(Collector):
    """The gauges of `FIGURES`, all of one reading."""

    def __init__(self) -> None:
        self.samples: Samples = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        samples = self.samples
        for row in FIGURES:
            family = GaugeMetricFamily(row.name, row.help, labels=row.labels)
            for labels, value in samples.get(row.name, {}).items():
                family.add_metric(labels, value)
            yield family


_LANE_GAUGES = ("federator_lane_limit", "federator_lane_running", "federator_lane_waiting")


class Metrics:
    """All metrics of a process, in a registry of their own unless one is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry(auto_describe=True)
        self._metrics: dict[str, Any] = {}
        self._children: dict[tuple[str, ...], Any] = {}
        self._lanes: dict[str, tuple[int, int, int]] = {}
        self._depths: dict[str, int] = {}
        self._figures = _Figures()
        self.registry.register(self._figures)
        self.add(TABLE)

    def publish(self, samples: Samples) -> None:
        """Replaces what these gauges said by one reading."""
        self._figures.samples = {**self._figures.samples, **samples}

    def add(self, rows: tuple[Row, ...]) -> None:
        """Adds metrics of a floor above; raises ValueError for a name that is taken."""
        for row in rows:
            options: Mapping[str, Any] = {"buckets": row.buckets} if row.kind is Histogram else {}
            self._metrics[row.name] = row.kind(
                row.name, row.help, row.labels, registry=self.registry, **options
            )

    def child(self, name: str, *labels: str) -> Any:
        """The counter, gauge or histogram with these label values; remembered, because looking it
        up is slow."""
        child = self._children.get((name, *labels))
        if child is None:
            metric = self._metrics[name]
            child = self._children[(name, *labels)] = metric.labels(*labels) if labels else metric
        return child

    def forget_cluster(self, cluster: str) -> None:
        """Drops what is split by a cluster that has left."""
        self._lanes.pop(cluster, None)
        for name, *labels in [key for key in self._children if len(key) > 1 and key[1] == cluster]:
            metric = self._metrics[name]
            if metric._labelnames[:1] == ("cluster",):
                metric.remove(*labels)
                del self._children[(name, *labels)]

    def render(self) -> bytes:
        """Everything in Prometheus' text format. Takes milliseconds: not on the event loop."""
        # What is only looked at here is only put into gauges here: it changes several times with
        # every request.
        for cluster, state in tuple(self._lanes.items()):
            for name, value in zip(_LANE_GAUGES, state, strict=True):
                self.child(name, cluster).set(value)
        for queue, depth in tuple(self._depths.items()):
            self.child("workqueue_depth", queue).set(depth)
        return generate_latest(self.registry)

    # -- what the parts of this floor report ----------------------------------

    def request(self, cluster: str, verb: str, resource: str, code: str, seconds: float) -> None:
        """The client made a request; `seconds` until the head of the answer."""
        self.child("federator_requests_total", cluster, verb, resource, code).inc()
        self.child("federator_request_seconds", cluster, verb).observe(seconds)

    def watch_events(self, cluster: str, resource: str, count: int) -> None:
        """A reflector received events."""
        self.child("federator_watch_events_total", cluster, resource).inc(count)

    def watch_trouble(self, cluster: str, resource: str, trouble: str) -> None:
        """A reflector met trouble; `trouble` is one of a few words."""
        self.child("federator_watch_troubles_total", cluster, resource, trouble).inc()

    def watch_failing(self, cluster: str, resource: str, failing: bool) -> None:
        """A reflector began to fail again and again; or it has recovered, or ended."""
        self.child("federator_watch_failing", cluster, resource).inc(1 if failing else -1)

    def watch_lists(self, cluster: str, resource: str) -> None:
        """A reflector read a whole list."""
        self.child("federator_lists_total", cluster, resource).inc()

    def lane(self, cluster: str, limit: int, running: int, waiting: int) -> None:
        """A lane's state has changed."""
        self._lanes[cluster] = (limit, running, waiting)

    def task_broke(self, task: str) -> None:
        self.child("federator_task_restarts_total", task).inc()

    def leading(self, leads: bool) -> None:
        """This process began to lead, or stopped."""
        self.child("federator_leading").set(int(leads))

    def short(self, is_short: bool) -> None:
        """This process ran out of file descriptors, or has enough again."""
        self.child("federator_own_shortage").set(int(is_short))

    def lease_try(self, result: str) -> None:
        """A try to take or renew the lease has ended; `result` is one of a few words."""
        self.child("federator_lease_tries_total", result).inc()

    async def watch_loop(self) -> None:
        """Measures until cancelled how late this process's loop is (F10)."""
        await measure_loop_lag(self.child("federator_loop_lag_seconds").observe)

    def queue_added(self, queue: str, depth: int) -> None:
        """A key was queued."""
        self.child("workqueue_adds_total", queue).inc()
        self._depths[queue] = depth

    def queue_started(self, queue: str, depth: int, waited_s: float) -> None:
        """A key's turn began."""
        self._depths[queue] = depth
        self.child("workqueue_queue_duration_seconds", queue).observe(waited_s)

    def queue_done(self, queue: str, worked_s: float) -> None:
        """A key's turn ended."""
        self.child("workqueue_work_duration_seconds", queue).observe(worked_s)

    def queue_failed(self, queue: str, error: str) -> None:
        """A key's turn failed; `error` is the class of the error."""
        self.child("workqueue_retries_total", queue, error).inc()


async def measure_loop_lag(observe: Callable[[float], None], *, period_s: float = 0.1) -> None:
    """Calls `observe`, until cancelled, with how many seconds late this loop wakes a sleeper
    (F10)."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + period_s
        await asyncio.sleep(period_s)
        observe(max(0.0, loop.time() - due))
