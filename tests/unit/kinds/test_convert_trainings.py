"""JobSets of several templates and TrainJobs become training jobs with the same pods, or are left."""

from collections import Counter
from typing import Any

import pytest
import yaml

from federator.api import raw
from federator.convert import convert
from federator.kinds import asks, registry
from federator.model.policy import DEFAULT_POLICY
from tests import casetables

TRAINER = "kubeflow-trainer"
CONVERTED = {
    "jobset-examples/pytorch_cnn-mnist_mnist.yaml": {"pytorch-workers-0": 4},
    "jobset-examples/pytorch_resnet-cifar10_resnet.yaml": {"pytorch-workers-0": 4},
    "jobset-examples/simple_coordinator.yaml": {
        "coordinator-example-workers-0": 4,
        "coordinator-example-driver-0": 1,
    },
    "jobset-examples/simple_group.yaml": {"group-example-rj-1-0": 2, "group-example-rj-2-0": 2},
    "jobset-examples/simple_jobset-with-network.yaml": {
        "network-jobset-leader-0": 1,
        "network-jobset-workers-0": 2,
    },
    "jobset-examples/simple_paralleljobs.yaml": {
        "paralleljobs-workers-0": 4,
        "paralleljobs-driver-0": 1,
    },
    "jobset-examples/simple_success-policy.yaml": {
        "success-policy-leader-0": 1,
        "success-policy-workers-0": 2,
    },
    f"{TRAINER}/01-multi-node.yaml": {"multi-node-example-node-0": 3},
    f"{TRAINER}/02-runtime-patches.yaml": {"runtime-patches-example-node-0": 2},
    f"{TRAINER}/03-kueue-integration.yaml": {"kueue-example-node-0": 3},
    f"{TRAINER}/04-volcano-integration.yaml": {"volcano-example-node-0": 4},
}
"""File -> Jobs and their pods, as the other controller would make them."""
REQUESTS = {
    f"{TRAINER}/02-runtime-patches.yaml": {"cpu": 4000, "memory": 8 << 30, "pods": 2},
    f"{TRAINER}/03-kueue-integration.yaml": {"cpu": 6000, "memory": 12 << 30, "pods": 3},
    f"{TRAINER}/04-volcano-integration.yaml": {"cpu": 4000, "memory": 8 << 30, "pods": 4},
}
"""What all pods of an object request together."""


def objects(name: str) -> list[dict[str, Any]]:
    path = casetables.data("manifests") / name
    if not path.is_file():
        pytest.skip(f"the real input {name} is not there")
    return [obj for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")) if obj]


def converted(*files: str) -> tuple[list[dict[str, Any]], list[str]]:
    given = [(name, obj) for name in files for obj in objects(name)]
    done = convert.convert(given)
    made = [obj for obj in done.objects if obj["kind"] == "PinterestTrainingJob"]
    return made, [account.reason for account in done.accounts if account.reason]


def natives(obj: dict[str, Any]) -> list[dict[str, Any]]:
    expand = registry.verbs_of(obj["kind"]).expand
    assert expand is not None
    meta = {"namespace": "default", "uid": "u", **obj["metadata"]}
    return [one for one in expand({**obj, "metadata": meta}, None) if one["kind"] == "Job"]


@pytest.mark.parametrize("name", CONVERTED)
def test_the_jobs_and_pods_are_those_of_the_manifest(name: str) -> None:
    runtime = [f"{TRAINER}/torch_distributed.yaml"] if name.startswith(TRAINER) else []
    (made,), _ = converted(name, *runtime)
    assert {
        one["metadata"]["name"]: one["spec"]["completions"] for one in natives(made)
    } == CONVERTED[name]
    if name in REQUESTS:
        ask = asks.ask(made, registry.verbs_of(made["kind"]), DEFAULT_POLICY)
        assert dict(ask.shape.requests) == REQUESTS[name]


def test_patches_of_a_runtime_and_what_a_train_job_says_reach_the_pods() -> None:
    (made,), _ = converted(
        f"{TRAINER}/02-runtime-patches.yaml", f"{TRAINER}/torch_distributed.yaml"
    )
    (job,) = natives(made)
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "training-sa"
    assert pod["nodeSelector"] == {"node-type": "training"}
    assert [one["key"] for one in pod["tolerations"]] == ["training-workload"]
    env = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
    assert (env["CUSTOM_VAR"], env["WORLD_SIZE"], env["PET_NNODES"]) == ("custom-value", "2", "2")
    assert env["PET_MASTER_ADDR"].startswith(
        "runtime-patches-example-node-0-0.runtime-patches-example."
    )


def test_a_train_job_without_its_runtime_is_left_with_the_name_of_what_is_missing() -> None:
    made, reasons = converted(f"{TRAINER}/01-multi-node.yaml")
    assert not made
    assert "spec.runtimeRef: ClusterTrainingRuntime torch-distributed is not among" in reasons[0]


def test_jax_is_told_where_its_coordinator_is() -> None:
    train = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "flax", "namespace": "ml"},
        "spec": {"runtimeRef": {"name": "jax-distributed"}, "trainer": {"numNodes": 3}},
    }
    given = [("", train), *(("", obj) for obj in objects(f"{TRAINER}/jax_distributed.yaml"))]
    (made,) = convert.convert(given).objects
    (job,) = natives(made)
    env = {one["name"]: one for one in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["JAX_NUM_PROCESSES"]["value"] == "3"
    assert env["JAX_COORDINATOR_ADDRESS"]["value"] == "flax-node-0-0.flax:6666"
    assert raw.text(env["JAX_PROCESS_ID"], "valueFrom", "fieldRef", "fieldPath")


SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "js"},
}


def job_set(**spec: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}]}
    jobs = [
        {
            "name": name,
            "template": {"spec": {"parallelism": 2, "completions": 2, "template": {"spec": pod}}},
        }
        for name in ("leader", "worker")
    ]
    return {**SET, "spec": {"replicatedJobs": jobs, **spec}}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"failurePolicy": {"maxRestarts": 3}}, "spec.failurePolicy: it restarts Jobs together"),
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, "spec.startupPolicy"),
        ({"volumeClaimPolicies": [{}]}, "spec.volumeClaimPolicies"),
        ({"successPolicy": {"operator": "Any"}}, "spec.successPolicy"),
        ({"unheardOf": True}, "spec.unheardOf: it is not known here"),
        ({"replicatedJobs": [{"name": "a" * 60}, {"name": "b"}]}, "spec.replicatedJobs[0].name"),
    ],
)
def test_what_needs_the_other_controller_is_left_with_its_field(
    spec: dict[str, Any], reason: str
) -> None:
    done = convert.convert([("", job_set(**spec))])
    assert not done.objects
    assert reason in done.accounts[0].reason


def test_several_jobs_of_one_template_keep_their_numbers_and_hosts() -> None:
    obj = job_set()
    obj["spec"]["replicatedJobs"][1]["replicas"] = 3
    (made,) = convert.convert([("", obj)]).objects
    found = Counter({one["metadata"]["name"]: one["spec"]["completions"] for one in natives(made)})
    assert found == {"js-leader-0": 2, "js-worker-0": 2, "js-worker-1": 2, "js-worker-2": 2}
    assert {one["spec"]["template"]["spec"]["subdomain"] for one in natives(made)} == {"js"}
