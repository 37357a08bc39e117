"""A scenario becomes the inputs of a simulation; what is wrong in it is named with the field's
path.
"""

import csv
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.model.ask import Tier
from federator.model.fleet import Capacity, ClusterView
from federator.model.resources import CPU, GPU, MEMORY, Resources
from federator.simulate.engine import run
from federator.simulate.inputs import EventKind, Inputs
from federator.simulate.outcome import End
from federator.simulate.scenario import aggregates, fleet, loading
from federator.simulate.scenario.loading import InvalidScenario
from federator.simulate.traces import loading as trace_loading
from federator.simulate.traces.problems import TraceError
from tests import casetables

SMALL = """
name: small
seed: 7
until: 2d
warmUp: 6h
fleet:
  clusters:
  - {name: a, labels: {zone: z1}, nodes: [{count: 4, cpu: 64, memory: 256Gi, gpus: {count: 8, model: A100}}], price: 12}
  - {name: b, labels: {zone: z1}, usable: 50%, nodes: [{count: 2, cpu: 500m, memory: 1Gi}]}
  - {name: c, labels: {zone: z2}, nodes: [{count: 1, cpu: 8, memory: 1Gi}]}
demand:
  generate:
  - {name: train, kind: trainingjob, works: 400, over: 2d, tenants: {ads: 3, search: 1}, homes: {ads: a},
     shard: {gpus: 8}, shards: {1: 9, 2: 1}, runtime: {median: 20m, sigma: 2},
     bursts: {share: 0.3}, gpuModels: {A100|H100: 1, any: 1}}
events:
- {at: 1d, lost: zone=z1}
- {at: 12h, grown: {cluster: c, by: 3}}
- {at: 1d, added: {name: d, nodes: [{count: 2, cpu: 8}], price: 3}}
- {at: 26h, returned: a}
- {at: 27h, priceChanged: {cluster: d, price: 4}}
quotas:
- apiVersion: federation.pinterest.com/v1alpha1
  kind: FederatedQuota
  metadata: {name: ads}
  spec: {projects: [ads], tiers: {OnDemand: {max: {nvidia.com/gpu: "16"}}}}
policies:
- apiVersion: federation.pinterest.com/v1alpha1
  kind: ClusterPlacementPolicy
  metadata: {name: at-home}
  spec: {workloads: {projects: [ads]}, clusters: {names: [a]}}
"""


def document() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(SMALL)
    return found


def read(tmp_path: Path, text: str = SMALL, *settings: str) -> Inputs:
    path = tmp_path / "small.yaml"
    path.write_text(text)
    return loading.inputs(loading.changed(loading.document(path), settings), path, {})


def refused(tmp_path: Path, text: str = SMALL, *settings: str) -> list[str]:
    with pytest.raises(InvalidScenario) as bad:
        read(tmp_path, text, *settings)
    return [str(error) for error in bad.value.errors]


def test_a_scenario_is_read_whole(tmp_path: Path) -> None:
    inputs = read(tmp_path)

    assert list(inputs.clusters) == ["a", "b", "c"]
    (row,) = inputs.clusters["a"].capacity.rows  # type: ignore[union-attr]
    assert (row.count, row.model, row.free == row.allocatable) == (4, "A100", True)
    assert dict(row.allocatable) == {CPU: 64000, MEMORY: 256 << 30, GPU: 8}
    assert (inputs.clusters["b"].usable_permille, inputs.price_per_hour) == (500, {"a": 12})
    assert (inputs.name, inputs.seed, inputs.end_s, inputs.warm_up_s) == ("small", 7, 172800, 21600)
    assert [rule.policy.names for rule in inputs.rules] == [("a",)]
    assert [account.tiers[Tier.ON_DEMAND].maximum for account in inputs.quotas] == [
        Resources({GPU: 16})
    ]
    assert len(inputs.works) == 400


def test_events_are_in_order_of_time_with_the_clusters_that_a_label_selects(tmp_path: Path) -> None:
    events = read(tmp_path).events

    assert [(event.at_s, event.kind, event.cluster) for event in events] == [
        (43200, EventKind.GROWN, "c"),
        (86400, EventKind.LOST, "a"),
        (86400, EventKind.LOST, "b"),
        (86400, EventKind.ADDED, "d"),
        (93600, EventKind.RETURNED, "a"),
        (97200, EventKind.PRICE_CHANGED, "d"),
    ]
    assert events[0].view is not None
    assert events[0].view.capacity is not None
    assert [row.count for row in events[0].view.capacity.rows] == [4]
    assert (events[3].price_per_hour, events[5].price_per_hour) == (3, 4)


def test_drawn_demand_has_the_shape_that_is_asked_for(tmp_path: Path) -> None:
    inputs = read(
        tmp_path,
        SMALL,
        "demand.generate[0].works=20000",
        "demand.generate[0].rhythm={day: 1, weekend: 1}",
    )
    works = inputs.works

    tenants = Counter(work.project for work in works)
    assert 0.6 < tenants["ads"] / len(works) < 0.9
    assert {work.home_cluster for work in works if work.project == "ads"} == {"a"}
    assert 0.05 < sum(work.shards == 2 for work in works) / len(works) < 0.15
    assert Counter(work.gpu_models for work in works).keys() == {(), ("A100", "H100")}
    runtimes = sorted(work.runtime_s or 0 for work in works)
    assert 1000 < runtimes[len(runtimes) // 2] < 1450
    assert runtimes[-1] > 100 * 1200
    by_day = Counter(work.submit_s % 86400 // 21600 for work in works)
    assert by_day[2] > 4 * by_day[0]
    assert [work.submit_s for work in works] == sorted(work.submit_s for work in works)
    assert len({work.id for work in works}) == len(works)


def test_the_same_seed_draws_the_same_and_another_draws_another(tmp_path: Path) -> None:
    assert read(tmp_path).works == read(tmp_path).works
    assert read(tmp_path).works != read(tmp_path, SMALL, "seed=8").works


def test_a_generated_fleet_has_zones_and_sizes(tmp_path: Path) -> None:
    text = (
        "fleet.generate={clusters: 8, zones: 1, regions: [eu, us], least: 4, most: 32, node: "
        "{count: 1, cpu: 8}}"
    )
    inputs = read(
        tmp_path, SMALL, "fleet.clusters=[]", text, "events=[]", "demand.generate[0].homes={}"
    )

    assert list(inputs.clusters) == [
        "eua-1",
        "eua-2",
        "eua-3",
        "eua-4",
        "usa-1",
        "usa-2",
        "usa-3",
        "usa-4",
    ]
    assert inputs.clusters["usa-2"].labels == {"region": "us", "zone": "usa"}
    counts = [
        row.count
        for view in inputs.clusters.values()
        if view.capacity
        for row in view.capacity.rows
    ]
    assert all(4 <= count <= 32 for count in counts)
    assert len(set(counts)) > 3


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("warmup=1h", "warmup: unknown field; is it 'warmUp'?"),
        ("fleet.cluster=[]", "fleet.cluster: unknown field; is it 'clusters'?"),
        ("events[0].lots=a", "events[0].lots: unknown field; is it 'lost'?"),
        ("fleet.clusters[0].nodes[0].gpu=4", ("fleet.clusters[0].nodes[0].gpu: unknown field; is "
"it "
"'gpus'?")),
        ("demand.generate[0].runtime.medain=3", ("demand.generate[0].runtime.medain: unknown "
"field; "
"is "
"it "
"'median'?")),
        ("until=soon", "until: 'soon' is no duration: 90s, 10m, 2h, 3d and 1w are"),
        ("demand.scale=-1", "demand.scale: must be at least 0 and at most 1000000"),
        ("demand.scale=0", "demand: scale: must be more than 0"),
        ("fleet.capacity=1/0", "fleet.capacity: '1/0' is no fraction: 1/2, 0.5 and 50% are"),
        ("seed=x", "seed: must be an integer"),
        ("events[0].lost=zz", "events[0].lost: there is no cluster 'zz'; there are a, b, c"),
        ("events[0].lost=zone=z9", "events[0].lost: no cluster has the label 'zone=z9'"),
        ("events[1].grown.cluster=x", ("events[1].grown.cluster: there is no cluster 'x'; there "
"are "
"a, "
"b, "
"c")),
        ("events[1].grown.by=-1", ("events[1].grown.by: cluster 'c' has 1 such nodes: -1 leaves "
"none")),
        ("events[2].added.name=a", ("events[2].added.name: cluster 'a' is there already; `grown` "
"changes "
"it")),
        ("events[0].drained=a", "events[0]: says lost and drained; one change is expected"),
        ("fleet.prices.e=1", "fleet.prices.e: there is no cluster 'e'; there are a, b, c"),
        ("fleet.clusters[1].name=a", "fleet.clusters[1].name: cluster 'a' is given twice"),
        ("fleet.clusters[1].usable=101%", "fleet.clusters[1].usable: must be at most 100%"),
        ("fleet.clusters[1].nodes[0].cpu=lots", ("fleet.clusters[1].nodes[0].cpu: 'lots' is not a "
"quantity")),
        ("demand.generate[0].homes.ads=q", ("demand.generate[0].homes.ads: there is no cluster "
"'q'; "
"there "
"are "
"a, "
"b, "
"c")),
        ("demand.generate[0].homes.core=a", "demand.generate[0]: homes: 'core' is no tenant"),
        ("demand.generate[0].tiers={Gold: 1}", ("demand.generate[0]: tiers: 'Gold' is none of "
"Reserved, "
"OnDemand, ")),
        ("demand.generate[0].shard={}", ("demand.generate[0]: shard: asks for nothing; give cpu, "
"memory "
"or "
"gpus")),
        ("demand=null", "demand: must be an object"),
        ("warmUp=3d", "warmUp: leaves nothing to measure: it lasts until the end or longer"),
        ("policies[0].spec.cluster=1", "policies[0].spec.cluster: unknown field"),
        ("policies[0].kind=FederatedQuota", "policies[0].spec.clusters: unknown field"),
        ("quotas=[{file: no.yaml}]", "quotas[0].file: "),
        ("events[9].at=1", "events[9].at: the list has 5 entries, from [0] on; 9 is none of them"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_path(tmp_path: Path, setting: str, expected: str) -> None:
    try:
        found = refused(tmp_path, SMALL, setting)
    except ValueError as bad:
        found = [str(bad)]

    assert found[0].startswith(expected)


def test_all_problems_of_the_schema_are_told_at_once(tmp_path: Path) -> None:
    assert len(refused(tmp_path, SMALL, "sed=1", "until=x", "fleet.prizes={}")) == 3


def test_the_shorthands_are_events_and_fields(tmp_path: Path) -> None:
    given = document()

    changed = loading.demanding(loading.adding(loading.losing(given, "a@2h"), "b=4@1d"), "1.3")

    assert changed["events"][-2:] == [
        {"at": 7200, "lost": "a"},
        {"at": 86400, "grown": {"cluster": "b", "by": 4}},
    ]
    assert Fraction(changed["demand"]["scale"]) == Fraction("1.3")
    assert given == document()
    for wrong, sentence in (
        (loading.losing, "CLUSTER@TIME"),
        (loading.adding, "CLUSTER=N"),
        (loading.demanding, "no fraction"),
    ):
        with pytest.raises(ValueError, match=sentence):
            wrong(given, "x")


def test_capacity_is_scaled_by_nodes_and_aggregated_to_totals(tmp_path: Path) -> None:
    half = read(tmp_path, SMALL, "fleet.capacity=1/2", "events=[]").clusters
    assert [view.capacity.rows[0].count for view in half.values() if view.capacity] == [2, 1, 1]
    assert half["c"].capacity.rows[0].allocatable[CPU] == 4000  # type: ignore[union-attr]

    totals = read(tmp_path, SMALL, "fleet.aggregates=true")
    (row,) = totals.clusters["a"].capacity.rows  # type: ignore[union-attr]
    assert (row.count, row.allocatable[GPU], totals.aggregates) == (1, 32, True)
    assert [
        event.view.capacity.rows[0].allocatable[CPU]
        for event in totals.events
        if event.view and event.view.capacity
    ] == [32000, 16000]
    assert any("fragmentation" in sentence for sentence in totals.assumptions)


def test_schedulers_that_pack_are_told_for_one_cluster_or_for_all(tmp_path: Path) -> None:
    for settings, expected in (
        (("fleet.clusters[1].packs=true",), [False, True, False]),
        (("fleet.packs=true", "fleet.capacity=1/2", "events=[]"), [True, True, True]),
    ):
        views = read(tmp_path, SMALL, *settings).clusters.values()
        assert [view.capacity.packs for view in views if view.capacity] == expected


TRACE = """
fleet: {table: {path: clusters.csv}}
demand: {trace: {path: "${DATA}/jobs.csv", columns: {id: id, submit: at, runtime: s, memory: mib, cpu: cpu}}}
"""


def traced(tmp_path: Path, jobs: str, *settings: str) -> Inputs:
    (tmp_path / "clusters.csv").write_text("cluster,nodes,cpu_cores\na,2,16\n")
    (tmp_path / "jobs.csv").write_text("id,at,s,mib,cpu\n" + jobs)
    path = tmp_path / "traced.yaml"
    path.write_text(TRACE)
    return loading.inputs(
        loading.changed(loading.document(path), settings), path, {"DATA": str(tmp_path)}
    )


def test_what_nobody_recorded_is_not_looked_at_and_told(tmp_path: Path) -> None:
    inputs = traced(tmp_path, "x,0,5,64,1000\ny,3,5,64,1000\n")

    assert [work.memory_mib for work in inputs.works] == [None, None]
    assert inputs.assumptions == (
        "No node records memory: what 2 works ask of it is not looked at.",
    )


def test_a_window_of_a_trace_begins_at_second_0(tmp_path: Path) -> None:
    jobs = "".join(f"j{at},{at * 60},5,,1000\n" for at in range(10))

    inputs = traced(tmp_path, jobs, "demand.trace.begin=2m", "demand.trace.end=5m")

    assert [(work.id, work.submit_s) for work in inputs.works] == [
        ("j2", 0),
        ("j3", 60),
        ("j4", 120),
    ]
    assert "7 of 10 works lie outside begin and end." in inputs.assumptions


def test_a_bad_trace_is_an_error_and_badrows_tolerates(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError,
        match=r"jobs.csv: 1 of 2 rows are bad .*the first is row 3: s: is negative \('-5'\)",
    ):
        traced(tmp_path, "x,0,5,64,1000\ny,3,-5,64,1000\n")
    inputs = traced(tmp_path, "x,0,5,64,1000\ny,3,-5,64,1000\n", "demand.trace.badRows=50%")
    assert inputs.assumptions[0] == "jobs.csv: s: is negative: 1 row left out: row 3 ('-5')"


def test_objects_from_files_are_checked(tmp_path: Path) -> None:
    (tmp_path / "quota.yaml").write_text(yaml.safe_dump(document()["quotas"][0]))
    inputs = read(tmp_path, SMALL, "quotas=[{file: quota.yaml}]")
    assert inputs.quotas == read(tmp_path).quotas

    (tmp_path / "quota.yaml").write_text(
        "kind: FederatedQuota\napiVersion: v1\nmetadata: {name: x}\n"
    )
    assert (
        "must be federation.pinterest.com/v1alpha1"
        in refused(tmp_path, SMALL, "quotas=[{file: quota.yaml}]")[0]
    )


def test_member_clusters_are_read_with_everything_free(tmp_path: Path) -> None:
    nodes = "nodes: [{count: 20, allocatable: {cpu: '64'}, free: {cpu: '40'}}]"
    cluster = (
        "{apiVersion: federation.pinterest.com/v1alpha1, kind: MemberCluster, metadata: "
        "{name: e, labels: {zone: z3}}, "
        "spec: {usable: 90%}, status: {capacity: {" + nodes + "}}}"
    )
    view = read(tmp_path, SMALL, f"fleet.objects=[{cluster}]").clusters["e"]

    assert view.capacity is not None
    assert (view.capacity.rows[0].free[CPU], view.usable_permille, view.labels) == (
        64000,
        900,
        {"zone": "z3"},
    )
    assert (
        replace(view.capacity.rows[0], free=view.capacity.rows[0].allocatable)
        == view.capacity.rows[0]
    )


def test_what_aggregates_cost_is_told_with_numbers(tmp_path: Path) -> None:
    wide = "demand.generate[0].shard={cpu: 40, memory: 8Gi}"
    told = read(tmp_path, SMALL, wide, "fleet.aggregates=true").assumptions[-1]

    assert told == (
        "Each cluster is one node of its totals, so that fragmentation is not seen: of 1 "
        "pairs of a shape and an empty "
        "cluster 1 promise more copies than the nodes hold, 33.3 % of all copies promised; "
        "the furthest from the truth "
        "is 40000m cpu, 8192 MiB in a: 6 copies by totals, 4 by nodes."
    )


def test_the_promises_of_openb_are_those_that_were_counted() -> None:
    folder = casetables.data("openb-8-clusters")
    rows = list(csv.DictReader((folder / "max_replicas.csv").read_text().splitlines()))
    views: dict[str, ClusterView] = {}
    for group in trace_loading.fleet(folder).groups:
        before = views.get(group.cluster)
        its = (
            *(before.capacity.rows if before and before.capacity else ()),
            fleet.row(group.count, fleet.vector_of(group)),
        )
        views[group.cluster] = ClusterView(group.cluster, capacity=Capacity(rows=its))

    checked = 0
    for row in rows:
        asked = Resources(
            {
                CPU: int(row["req_cpu_milli"]),
                MEMORY: int(row["req_memory_mib"]) << 20,
                GPU: int(row["req_gpu"]),
            }
        )
        found = aggregates.promises({row["cluster"]: views[row["cluster"]]}, [asked])
        counted = (found[0].by_nodes, found[0].by_totals) if found else (0, 0)
        assert counted == (int(row["replicas_by_nodes"]), int(row["replicas_by_summary"])), row
        checked += 1
    assert checked == 88


def test_an_account_assumes_no_request_that_no_node_records(tmp_path: Path) -> None:
    """Copies that are charged 200 MiB of memory by default would fit on no node without memory."""
    quota = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "FederatedQuota",
        "metadata": {"name": "ads"},
        "spec": {"projects": ["ads"], "tiers": {"OnDemand": {"max": {"cpu": "8"}}}},
    }
    shard, runtime = {"cpu": 1}, {"median": "1h", "sigma": 0}
    job = {"name": "j", "works": 6, "over": "1h", "tenants": {"ads": 1}, "shard": shard}
    document: dict[str, Any] = {
        "fleet": {"clusters": [{"name": "a", "nodes": [{"count": 8, "cpu": 1}]}]},
        "demand": {"generate": [{**job, "runtime": runtime}]},
        "quotas": [quota],
        "events": [{"at": "10m", "quotaChanged": [quota]}],
    }

    outcome = run.run(loading.inputs(document, tmp_path / "s.yaml", {}))

    assert [life.end for life in outcome.lives] == [End.COMPLETED] * 6
