"""What each workload kind answers, on good objects, on slices, and on anything that an API server
can hold.
"""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.api import raw
from federator.kinds import deployment, jobset, labels, registry
from federator.kinds.deployment import ask
from federator.kinds.pods import podparts
from federator.kinds.registry import WORKLOADS
from federator.kinds.verbs import PodRules, SliceMark
from federator.model import names, shards
from federator.model.ask import Tier, Unit
from federator.model.decision import Share
from federator.model.observation import BlockFigures, NodeFigures, SliceObservation
from federator.status.conditions import Condition, merge
from federator.status.facts import DecisionInput, Desired
from federator.status.fold import fold
from tests.examples import examples

RULES = PodRules(("default", "abc"))
MARK = SliceMark("fleet-1", "uid-1", 3, "east", (7 << 32) + 1, (), RULES)
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "app:1"}]},
}
META = {
    "name": "web",
    "namespace": "shop",
    "uid": "host-uid",
    "generation": 3,
    "labels": {"app": "web", "federation.pinterest.com/fleet": "forged"},
    "annotations": {
        "team": "a",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deployment.kubernetes.io/revision": "4",
        "federation.pinterest.com/policy": "zonal",
    },
    "ownerReferences": [{"uid": "x"}],
    "finalizers": ["x"],
}

SERVICE = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestService",
    "metadata": META,
    "spec": {
        "project": "homefeed",
        "tier": "Reserved",
        "priority": 5,
        "replicas": 30,
        "suspend": True,
        "placement": {"policyRef": "zonal"},
        "service": {"ports": [{"port": 80}]},
        "loadBalancers": [{"port": 80}],
        "template": TEMPLATE,
    },
    "status": {"ready": 1},
}
JOBS = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestJobSet",
    "metadata": META,
    "spec": {"shards": 400, "parallelism": 100, "template": TEMPLATE},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": META,
    "spec": {
        "replicas": 8,
        "strategy": {"rollingUpdate": {"maxUnavailable": "50%"}},
        "template": TEMPLATE,
    },
}
DAEMON = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestDaemon",
    "metadata": META,
    "spec": {"updateStrategy": {"maxUnavailable": "25%"}, "template": TEMPLATE},
}
TRAINING = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestTrainingJob",
    "metadata": META,
    "spec": {"components": [{"name": "worker", "replicas": 4}], "template": TEMPLATE},
}
STATEFUL = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestStatefulSet",
    "metadata": META,
    "spec": {
        "replicas": 9,
        "service": {"ports": [{"port": 5432}]},
        "claimRetention": "Delete",
        "release": ["west"],
        "template": TEMPLATE,
    },
}
NATIVE_CRON = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "PinterestNativeCronJob",
    "metadata": META,
    "spec": {
        "cron": {"schedule": "30 2 * * *", "suspend": True, "after": "2026-01-01T00:00:00Z"},
        "shards": 9,
        "parallelism": 4,
        "template": TEMPLATE,
    },
}
OBJECTS = {
    "PinterestService": SERVICE,
    "PinterestJobSet": JOBS,
    "PinterestDaemon": DAEMON,
    "PinterestTrainingJob": TRAINING,
    "PinterestStatefulSet": STATEFUL,
    "PinterestNativeCronJob": NATIVE_CRON,
    "Deployment": DEPLOYMENT,
}

FACTS = {
    "PinterestService": (
        Unit.REPLICAS,
        30,
        30,
        "homefeed",
        Tier.RESERVED,
        5,
        True,
        "default",
        7,
    ),
    "PinterestJobSet": (
        Unit.SHARDS,
        400,
        100,
        "shop",
        Tier.ON_DEMAND,
        0,
        False,
        "default",
        400,
    ),
    "PinterestDaemon": (
        Unit.REPLICAS,
        1,
        1,
        "shop",
        Tier.ON_DEMAND,
        0,
        False,
        "default",
        1 << 20,
    ),
    "PinterestTrainingJob": (
        Unit.SHARDS,
        1,
        1,
        "shop",
        Tier.ON_DEMAND,
        0,
        False,
        "default",
        1,
    ),
    "PinterestStatefulSet": (
        Unit.REPLICAS,
        9,
        9,
        "shop",
        Tier.ON_DEMAND,
        0,
        False,
        "default",
        1 << 20,
    ),
    "PinterestNativeCronJob": (
        Unit.REPLICAS,
        4,
        4,
        "shop",
        Tier.ON_DEMAND,
        0,
        False,
        "default",
        1 << 20,
    ),
    "Deployment": (Unit.REPLICAS, 8, 8, "shop", Tier.ON_DEMAND, 0, False, "", 4),
}


@pytest.mark.parametrize("kind", FACTS)
def test_each_kind_tells_what_placement_asks(kind: str) -> None:
    row, obj = registry.verbs_of(kind), OBJECTS[kind]
    assert FACTS[kind] == (
        row.unit,
        row.count(obj),
        row.slots(obj),
        row.project(obj),
        row.tier(obj),
        row.priority(obj),
        row.suspended(obj),
        row.profile(obj),
        row.max_unavailable(obj),
    )


def test_every_workload_kind_is_in_the_table_of_facts() -> None:
    assert WORKLOADS.keys() == FACTS.keys() == OBJECTS.keys()


def test_a_deployment_says_in_annotations_what_other_kinds_say_in_spec() -> None:
    annotations = {
        ask.PROJECT_ANNOTATION: "ads",
        ask.TIER_ANNOTATION: "Preemptible",
        ask.PRIORITY_ANNOTATION: "-7",
        ask.SUSPEND_ANNOTATION: "true",
        ask.POLICY_ANNOTATION: "zonal",
    }
    obj = {**DEPLOYMENT, "metadata": {**META, "annotations": annotations}}
    row = deployment.VERBS
    assert (row.project(obj), row.tier(obj), row.priority(obj)) == ("ads", Tier.PREEMPTIBLE, -7)
    assert (row.suspended(obj), row.placement(obj)) == (True, {"policyRef": "zonal"})


@pytest.mark.parametrize("kind", FACTS)
def test_a_slice_carries_the_users_object_and_the_mark_and_nothing_private(kind: str) -> None:
    row = registry.verbs_of(kind)
    share = Share("east", 12, 4, MARK.seq, ((0, 3), (4, 11)) if kind == "PinterestJobSet" else ())
    before = json.dumps(OBJECTS[kind], sort_keys=True)
    rendered = row.render_slice(OBJECTS[kind], share, MARK)
    assert json.dumps(OBJECTS[kind], sort_keys=True) == before
    assert rendered.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert rendered["metadata"]["labels"] == {
        "app": "web",
        names.FLEET_LABEL: "fleet-1",
        names.WORKLOAD_UID_LABEL: "uid-1",
    }
    annotations = dict(rendered["metadata"]["annotations"])
    annotations.pop(names.SLICE_ANNOTATION, None)
    assert annotations == {"team": "a"}
    assert rendered["metadata"].keys() == {"name", "namespace", "labels", "annotations"}
    assert rendered["spec"]["template"] is TEMPLATE
    assert rendered["spec"].keys() & {"placement", "suspend"} == set()
    read = row.read_mark(rendered)
    assert read is not None
    assert read.seq == MARK.seq
    assert read.rules == RULES


def test_a_slice_of_a_service_is_fully_defaulted() -> None:
    spec = registry.verbs_of("PinterestService").render_slice(SERVICE, Share("east", 12, 12), MARK)[
        "spec"
    ]
    assert spec["replicas"] == 12
    assert spec["service"] == {"ports": [{"protocol": "TCP", "port": 80}]}
    assert spec["loadBalancers"] == [{"protocol": "http", "path": "/", "port": 80}]


def test_a_slice_of_a_job_set_keeps_the_total_and_its_pieces_apart() -> None:
    share = Share("east", 12, 4, 9, ((0, 3), (4, 11)))
    rendered = jobset.VERBS.render_slice(JOBS, share, MARK)
    spec = rendered["spec"]
    assert (spec["shards"], spec["parallelism"], spec["slice"]["ranges"]) == (400, 4, "0-3,4-11")
    assert (spec["execution"], spec["completion"], spec["backoffLimitPerShard"]) == (
        "MayOverlap",
        "All",
        3,
    )
    mark = jobset.VERBS.read_mark(rendered)
    assert mark is not None
    assert mark.ranges == ((0, 3), (4, 11))


PIECES = {
    "first": ((), ((0, 9),), ((0, 9),)),
    "growth does not join": (((0, 9),), ((0, 19),), ((0, 9), (10, 19))),
    "growth on both sides": (((10, 19),), ((0, 29),), ((0, 9), (10, 19), (20, 29))),
    "loss cuts": (((0, 9), (10, 19)), ((0, 4), (10, 19)), ((0, 4), (10, 19))),
    "loss in the middle splits": (((0, 9),), ((0, 2), (7, 9)), ((0, 2), (7, 9))),
    "pieces within a joined range stay": (((0, 3), (4, 9)), ((0, 9),), ((0, 3), (4, 9))),
    "nothing left": (((0, 9),), (), ()),
}


@pytest.mark.parametrize(("previous", "wanted", "pieces"), PIECES.values(), ids=PIECES)
def test_a_range_with_a_job_stays_a_range(previous: Any, wanted: Any, pieces: Any) -> None:
    assert shards.in_pieces(previous, wanted) == pieces


@pytest.mark.parametrize("text", ["", "3-1", "1,1", "5,3", "a", "0-", "-1", "0-3,2-5"])
def test_ranges_that_make_no_sense_are_none(text: str) -> None:
    assert raw.ranges(text) == ()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def _with_junk(draw: Any, value: Any) -> Any:
    if draw(st.integers(0, 5)) == 0:
        return draw(JUNK)
    if isinstance(value, dict):
        return {key: _with_junk(draw, entry) for key, entry in value.items()}
    return [_with_junk(draw, entry) for entry in value] if isinstance(value, list) else value


@st.composite
def damaged(draw: Any) -> dict[str, Any]:
    """An object of a workload kind with junk in some of its places, as a server with another schema
    might hold it.
    """
    kind = draw(st.sampled_from(sorted(OBJECTS)))
    slice_obj = registry.verbs_of(kind).render_slice(
        OBJECTS[kind], Share("east", 4, 2, 9, ((0, 3),)), MARK
    )
    full = {
        **slice_obj,
        "status": {"completedIndexes": "0-3", "unschedulable": {"count": 1, "since": "x"}},
    }
    full["spec"] = {
        **slice_obj["spec"],
        "sidecars": {"a": {"b": 1}},
        "updateStrategy": {"maxUnavailable": "25%"},
    }
    broken = _with_junk(draw, full)
    return {**(broken if isinstance(broken, dict) else {}), "kind": kind}


@examples(200)
@given(damaged())
def test_verbs_never_raise_whatever_an_api_server_holds(obj: dict[str, Any]) -> None:
    row = registry.verbs_of(obj["kind"])
    assert row.count(obj) >= 0
    assert 0 <= row.slots(obj) <= max(row.count(obj), row.slots(obj))
    assert isinstance(row.project(obj), str)
    assert isinstance(row.tier(obj), Tier)
    assert isinstance(row.priority(obj), int)
    assert row.suspended(obj) in (True, False)
    assert row.max_unavailable(obj) >= 0
    for mapping in (row.pod_template(obj), row.placement(obj), row.sidecars(obj)):
        assert hasattr(mapping, "items")
    seen = row.observe(obj, "east", True)
    assert seen.exists
    row.render_slice(obj, Share("east", 1, 1, 1, ((0, 0),)), row.read_mark(obj) or MARK)


def test_a_slice_that_is_not_there_is_observed_as_such() -> None:
    for row in (registry.verbs_of(kind) for kind in WORKLOADS):
        assert row.observe({}, "east", True) == SliceObservation("east", known=True)


SEEN = SliceObservation(
    "east",
    known=True,
    exists=True,
    observed_generation=4,
    ready=3,
    healthy=False,
    reason="ImagePullBackOff",
    message="2 pods cannot pull app:1.",
    unschedulable=2,
    unschedulable_since_s=1_700_000_000.5,
    terminating=5,
)


@pytest.mark.parametrize("kind", ["PinterestService", "PinterestJobSet"])
def test_what_a_member_writes_into_a_slices_status_is_what_the_hub_observes(kind: str) -> None:
    row = registry.verbs_of(kind)
    slice_obj = row.render_slice(OBJECTS[kind], Share("east", 10, 4, 9, ((0, 9),)), MARK)
    figures: dict[str, Any] = {"actual": 4, "desired": 10}
    figures |= (
        {"updated": 2, "surge": 3}
        if kind == "PinterestService"
        else {"active": 4, "completed": ((0, 2),), "failed": ((5, 5),)}
    )
    facts = {name: getattr(SEEN, name) for name in SEEN.__dataclass_fields__}
    seen = SliceObservation(**(facts | figures))
    status = row.slice_status(seen, [{"type": "Ready", "status": "False"}])
    back = row.observe({**slice_obj, "status": status}, "east", True)
    expected = SliceObservation(**(facts | figures | {"seq": MARK.seq, "origin_generation": 3}))
    assert back == expected


NODES = {
    "all have it": (NodeFigures(12, 12, 12, 12), 1, 1),
    "one is not ready": (NodeFigures(12, 12, 11, 12), 0, 1),
    "one has the template before": (NodeFigures(12, 12, 12, 11), 1, 0),
    "one is to get it": (NodeFigures(12, 11, 11, 11), 0, 0),
    "no node admits it": (NodeFigures(), 1, 1),
}


@pytest.mark.parametrize(("nodes", "ready", "updated"), NODES.values(), ids=NODES)
def test_a_cluster_of_a_daemon_is_one_copy_that_is_ready_when_all_its_nodes_are(
    nodes: NodeFigures, ready: int, updated: int
) -> None:
    row = registry.verbs_of("PinterestDaemon")
    slice_obj = row.render_slice(DAEMON, Share("east", 1, 1, 9, nodes=12), MARK)
    slice_obj["metadata"]["generation"] = 4
    facts = {name: getattr(SEEN, name) for name in SEEN.__dataclass_fields__}
    facts |= {
        "unschedulable": 0,
        "unschedulable_since_s": 0.0,
        "generation": 4,
        "desired": 1,
        "actual": 1,
    }
    seen = SliceObservation(**(facts | {"ready": ready, "updated": updated, "nodes": nodes}))
    status = row.slice_status(seen, [])
    back = row.observe({**slice_obj, "status": status}, "east", True)
    assert back == replace(seen, seq=MARK.seq, origin_generation=3)


def test_of_a_daemon_whose_nodes_nobody_has_counted_nothing_is_ready() -> None:
    row = registry.verbs_of("PinterestDaemon")
    seen = SliceObservation("east", known=True, exists=True, desired=1, nodes=NodeFigures())
    status = row.slice_status(seen, [])
    assert status is not None
    assert "desired" not in status
    assert row.observe({**DAEMON, "status": status}, "east", True).ready == 0


def test_a_native_deployment_status_is_observed_with_the_members_word_over_it() -> None:
    slice_obj = deployment.VERBS.render_slice(DEPLOYMENT, Share("east", 8, 8), MARK)
    slice_obj["status"] = {
        "observedGeneration": 2,
        "replicas": 8,
        "readyReplicas": 5,
        "updatedReplicas": 7,
        "conditions": [
            {
                "type": "Progressing",
                "status": "False",
                "reason": "ProgressDeadlineExceeded",
                "message": "m",
            }
        ],
    }
    assert deployment.VERBS.observe(slice_obj, "east", True).reason == "ProgressDeadlineExceeded"
    told = {
        "reason": "Unschedulable",
        "message": "m",
        "unschedulable": {"count": 3, "since": "2026-01-01T00:00:00Z"},
    }
    slice_obj["metadata"]["annotations"][labels.MEMBER_STATUS_ANNOTATION] = json.dumps(told)
    seen = deployment.VERBS.observe(slice_obj, "east", True)
    assert (seen.reason, seen.unschedulable, seen.ready, seen.updated, seen.actual) == (
        "Unschedulable",
        3,
        5,
        7,
        8,
    )
    assert seen.unschedulable_since_s == raw.epoch_s("2026-01-01T00:00:00Z")
    mark = deployment.VERBS.read_mark(slice_obj)
    assert mark is not None
    for seq, reason in ((mark.seq, "StaleSlice"), (mark.seq - 1, "ProgressDeadlineExceeded")):
        refused = json.dumps({"reason": "StaleSlice", "message": "m", "seq": seq})
        slice_obj["metadata"]["annotations"][labels.MEMBER_STATUS_ANNOTATION] = refused
        assert deployment.VERBS.observe(slice_obj, "east", True).reason == reason


@pytest.mark.parametrize("kind", WORKLOADS)
def test_the_host_status_of_a_fold_fits_the_schema(kind: str) -> None:
    from federator.api import structural
    from federator.kinds import crds

    row = registry.verbs_of(kind)
    ranges = ((0, 3), (4, 9)) if row.unit is Unit.SHARDS else ()
    wanted = Desired(generation=3, unit=row.unit, count=10)
    placing = DecisionInput(shares=(Share("east", 10, 4, 9, ranges),))
    observation = SliceObservation(
        "east", known=True, exists=True, ready=4, desired=10, actual=4, seq=9, reason="Slow"
    )
    folded = fold(wanted, placing, [observation])
    conditions = merge([], folded.conditions, "2026-01-01T00:00:00Z")
    status = row.host_status(OBJECTS[kind], folded, conditions, policy="zonal")
    model = WORKLOADS[kind].model
    schema = crds.embedded_schema("DeploymentStatus")
    if model is not None:
        schema = crds.crd(WORKLOADS[kind])["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
            "properties"
        ]["status"]
        assert (status["clusters"], status["placed"], status["policy"]) == (1, 10, "zonal")
        assert status["clusterStatuses"][0]["reason"] == "Slow"
    assert list(structural.problems(status, schema)) == []


def test_conditions_of_a_carried_deployment_have_the_native_shape() -> None:
    folded = fold(Desired(generation=1, unit=Unit.REPLICAS, count=2), None, [])
    conditions = merge([], [Condition("Ready", "False", "InForce", "m", 1)], "2026-01-01T00:00:00Z")
    status = deployment.VERBS.host_status(DEPLOYMENT, folded, conditions)
    assert status["unavailableReplicas"] == 2
    assert "observedGeneration" not in status["conditions"][0]


def test_a_deployments_status_leaves_zeros_out_as_its_server_does_so_that_it_agrees() -> None:
    folded = fold(Desired(generation=1, unit=Unit.REPLICAS, count=4), None, [])

    status = deployment.VERBS.host_status(DEPLOYMENT, folded, [])

    assert status == {"unavailableReplicas": 4, "conditions": []}


def test_a_slice_of_a_stateful_set_has_its_blocks_and_nothing_that_speaks_to_the_federation() -> (
    None
):
    row = registry.verbs_of("PinterestStatefulSet")
    slice_obj = row.render_slice(STATEFUL, Share("east", 5, 5, 9, ((0, 3), (8, 8))), MARK)
    mark = row.read_mark(slice_obj)
    assert mark is not None
    assert mark.ranges == ((0, 3), (8, 8))
    assert (slice_obj["spec"]["replicas"], "release" in slice_obj["spec"]) == (5, False)
    assert slice_obj["spec"]["service"] == {"ports": [{"protocol": "TCP", "port": 5432}]}
    kept = {**STATEFUL, "spec": {**raw.mapping(STATEFUL, "spec"), "release": []}}
    other = row.render_slice(kept, Share("east", 5, 5, 9, ((0, 3), (8, 8))), MARK)
    assert other == slice_obj  # giving a cluster up is no roll-out


def test_a_stateful_set_tells_each_block_and_no_more_of_it_than_it_has_ordinals() -> None:
    row = registry.verbs_of("PinterestStatefulSet")
    seen = SliceObservation(
        "east",
        known=True,
        exists=True,
        desired=5,
        ready=4,
        actual=5,
        updated=4,
        template=podparts.digest(STATEFUL),
        blocks=(BlockFigures(0, 3, 3, 3, 4), BlockFigures(8, 8, 1, 1, 1)),
    )
    status = row.slice_status(seen, [])
    assert status is not None
    assert status["blocks"] == [
        {"ordinals": "0-3", "replicas": 4, "ready": 3, "updated": 3},
        {"ordinals": "8", "replicas": 1, "ready": 1, "updated": 1},
    ]
    again = row.observe({**STATEFUL, "status": status}, "east", True)
    assert again.blocks == seen.blocks
    lies = [{"ordinals": "8", "replicas": 9, "ready": 7}, {"ordinals": "x", "ready": 1}]
    told = row.observe({**STATEFUL, "status": {**status, "blocks": lies}}, "east", True)
    assert told.blocks == (BlockFigures(8, 8, 1, 0, 1),)
