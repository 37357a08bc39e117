"""From workload objects to Asks."""

from typing import Any

import pytest

from federator.kinds import asks, read, registry
from federator.model.ask import Ordinals, Tier, Unit
from federator.model.errors import FieldError
from federator.model.kubernetes.taints import Toleration
from federator.model.names import WorkloadKey
from federator.model.policy import DEFAULT_POLICY

TEMPLATE = {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}}]}}
PROFILE = {
    "metadata": {"name": "default"},
    "spec": {
        "sidecars": [{"name": "logs", "container": {"resources": {"requests": {"cpu": "50m"}}}}]
    },
}


def workload(kind: str, **spec: Any) -> dict[str, Any]:
    metadata = {
        "name": "web",
        "namespace": "shop",
        "uid": "u",
        "generation": 3,
        "labels": {"app": "web"},
        "creationTimestamp": "1970-01-01T00:01:40Z",
    }
    return {
        "apiVersion": registry.KINDS[kind].api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": {"template": TEMPLATE, **spec},
    }


def test_a_service_asks_for_replicas_with_its_runtime_support() -> None:
    obj = workload("PinterestService", replicas=30, tier="Reserved", priority=7, project="p")
    found = asks.ask(obj, registry.verbs_of("PinterestService"), DEFAULT_POLICY, PROFILE)
    assert found.key == WorkloadKey("PinterestService", "shop", "web")
    assert (found.uid, found.generation, found.created_s, found.labels) == (
        "u",
        3,
        100.0,
        {"app": "web"},
    )
    assert (found.unit, found.count, found.slots, found.whole) == (Unit.REPLICAS, 30, 30, False)
    assert (found.project, found.tier, found.priority) == ("p", Tier.RESERVED, 7)
    assert found.shape.requests["cpu"] == 550


def test_a_job_set_asks_for_shards_entirely_or_not_at_all() -> None:
    obj = workload("PinterestJobSet", shards=400, parallelism=100, suspend=True)
    found = asks.ask(
        obj, registry.verbs_of("PinterestJobSet"), DEFAULT_POLICY, PROFILE, created_s=5.0
    )
    assert (found.unit, found.count, found.slots, found.whole) == (Unit.SHARDS, 400, 100, True)
    assert (found.project, found.suspended, found.created_s) == ("shop", True, 5.0)


def test_a_deployment_asks_for_what_it_says_and_no_runtime_support() -> None:
    obj = workload("Deployment", replicas=4)
    verbs = registry.verbs_of("Deployment")
    assert verbs.profile(obj) == ""
    assert asks.ask(obj, verbs, DEFAULT_POLICY).shape.requests["cpu"] == 500


def test_a_stateful_set_asks_for_copies_with_numbers() -> None:
    verbs = registry.verbs_of("PinterestStatefulSet")
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    obj = workload(
        "PinterestStatefulSet", replicas=5, volumeClaimTemplates=[claim], release=["b", "a"]
    )
    found = asks.ask(obj, verbs, DEFAULT_POLICY, PROFILE)
    assert (found.unit, found.count, found.slots) == (Unit.REPLICAS, 5, 5)
    assert found.ordinals == Ordinals(claims=True, released=("a", "b"))
    plain = asks.ask(workload("PinterestStatefulSet"), verbs, DEFAULT_POLICY, PROFILE)
    assert plain.ordinals == Ordinals()


def test_a_daemon_asks_for_one_of_it_whose_pods_go_to_every_node() -> None:
    verbs = registry.verbs_of("PinterestDaemon")
    found = asks.ask(workload("PinterestDaemon"), verbs, DEFAULT_POLICY, PROFILE)
    assert (found.unit, found.count, found.slots, found.whole) == (Unit.REPLICAS, 1, 1, False)
    assert (found.shape.every_node, found.shape.one_per_node) == (True, True)
    assert found.shape.requests["cpu"] == 550
    once = asks.ask(
        workload("PinterestService"), registry.verbs_of("PinterestService"), DEFAULT_POLICY, PROFILE
    )
    assert once.shape.id != found.shape.id


@pytest.mark.parametrize(("execution", "exclusive"), [("Exclusive", True), ("MayOverlap", False)])
def test_what_may_not_run_twice_may_not_overlap(execution: str, exclusive: bool) -> None:
    obj = workload("PinterestJobSet", shards=4, execution=execution)
    found = asks.ask(obj, registry.verbs_of("PinterestJobSet"), DEFAULT_POLICY)
    assert (found.exclusive, found.overlaps) == (exclusive, not exclusive)


def test_a_parameter_that_the_profile_does_not_know_is_refused_before_anything_is_placed() -> None:
    obj = workload("PinterestService", sidecars={"logs": {"level": "x"}})
    with pytest.raises(FieldError, match=r"spec\.sidecars\.logs\.level"):
        asks.ask(obj, registry.verbs_of("PinterestService"), DEFAULT_POLICY, PROFILE)


def training(name: str = "web", **spec: Any) -> dict[str, Any]:
    obj = workload("PinterestTrainingJob", **spec)
    obj["metadata"]["name"] = name
    return obj


@pytest.mark.parametrize(
    ("target", "needs"),
    [
        ("Auto", ()),
        ("Jobs", ()),
        ("JobSet", ("JobSet.jobset.x-k8s.io",)),
        ("TrainJob", ("TrainJob.trainer.kubeflow.org",)),
    ],
)
def test_a_training_job_needs_the_kind_that_it_is_handed_to(
    target: str, needs: tuple[str, ...]
) -> None:
    verbs = registry.verbs_of("PinterestTrainingJob")
    found = asks.ask(training(target=target, components=[{"name": "a"}]), verbs, DEFAULT_POLICY)
    assert found.needs == needs


@pytest.mark.parametrize(
    ("name", "component", "path", "said"),
    [
        (
            "web",
            {"name": "actor", "replicas": 7, "podsPerJob": 3},
            "spec.components[0].podsPerJob",
            "7 pods are no multiple of it",
        ),
        (
            "n" * 52,
            {"name": "worker", "replicas": 2},
            "spec.components[0].name",
            "69 characters; in a JobSet there may be 63",
        ),
    ],
)
def test_what_a_job_set_cannot_hold_is_refused_in_words(
    name: str, component: dict[str, Any], path: str, said: str
) -> None:
    refusal = registry.verbs_of("PinterestTrainingJob").refusal
    by_jobs = training(name, framework="Custom", components=[component])
    handed_over = training(name, framework="Custom", components=[component], target="JobSet")
    assert refusal(by_jobs) is None
    found = refusal(handed_over)
    assert found is not None
    assert found.path == path
    assert said in found.message


@pytest.mark.parametrize("key", ["node.kubernetes.io/not-ready", "federation.pinterest.com/x"])
def test_a_daemon_takes_no_taints_of_kubernetes_or_the_federation(key: str) -> None:
    obj = workload("PinterestDaemon", startupTaint={"key": key})
    del obj["metadata"]["creationTimestamp"]
    with pytest.raises(read.InvalidObject, match="not taken away by a daemon"):
        read.check(obj)


def test_a_daemon_asks_for_nodes_that_have_its_startup_taint() -> None:
    obj = workload("PinterestDaemon", startupTaint={"key": "infra.example/starting"})
    found = asks.ask(obj, registry.verbs_of("PinterestDaemon"), DEFAULT_POLICY)
    assert found.shape.tolerations == (
        Toleration("infra.example/starting", "Exists", effect="NoSchedule"),
    )
