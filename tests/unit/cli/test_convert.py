"""`federator convert`: files, directories and stdin; what goes to stdout and what to stderr; real
input.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.cli import common
from federator.kinds import read
from tests import casetables
from tests.unit.cli.files import items, psvc, run, write

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "registry/app:1"}]},
        },
    },
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}


def test_workloads_go_to_stdout_and_everything_else_to_stderr(tmp_path: Path) -> None:
    done = run("convert", write(tmp_path, "app.yaml", DEPLOYMENT, SERVICE, SECRET))

    assert done.exit_code == 0
    assert [obj["kind"] for obj in read.load_yaml(done.stdout)] == ["PinterestService"]
    assert "converted PinterestService/web: from Deployment/web, Service/web" in done.stderr
    assert "left      Secret/key: kind Secret (v1) is not converted" in done.stderr
    assert done.stderr.splitlines()[-1] == "3 objects: 1 converted, 1 absorbed, 1 left alone"


def test_objects_of_several_files_belong_together_and_are_named_with_their_file(
    tmp_path: Path,
) -> None:
    files = [
        write(tmp_path, f"{index}.yaml", obj)
        for index, obj in enumerate((DEPLOYMENT, SERVICE, SECRET))
    ]
    done = run("convert", *files)

    assert read.load_yaml(done.stdout)[0]["spec"]["service"] == {"ports": [{"port": 80}]}
    assert f"left      Secret/key ({files[2]}): " in done.stderr


def test_a_directory_stands_for_its_manifests(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", DEPLOYMENT)
    (tmp_path / "b.json").write_text(json.dumps(SERVICE), encoding="utf-8")
    (tmp_path / "README.md").write_text("not a manifest", encoding="utf-8")
    (tmp_path / "below").mkdir()
    write(tmp_path / "below", "c.yml", SECRET)

    assert run("convert", str(tmp_path)).stderr.splitlines()[-1].startswith("2 objects")
    assert run("convert", "-R", str(tmp_path)).stderr.splitlines()[-1].startswith("3 objects")


def test_stdin_is_a_file_named_dash() -> None:
    done = run("convert", "-", "-o", "json", stdin=yaml.safe_dump(DEPLOYMENT))

    assert [obj["metadata"]["name"] for obj in items(done.stdout)] == ["web"]


def test_lists_are_taken_apart(tmp_path: Path) -> None:
    listing = {"apiVersion": "v1", "kind": "List", "items": [DEPLOYMENT, SERVICE]}

    assert (
        run("convert", write(tmp_path, "list.yaml", listing))
        .stderr.splitlines()[-1]
        .startswith("2 objects")
    )


def test_nothing_to_convert_is_no_error(tmp_path: Path) -> None:
    done = run("convert", write(tmp_path, "app.yaml", SECRET))

    assert (done.exit_code, done.stdout) == (0, "")


def test_texts_that_look_like_numbers_and_scripts_survive(tmp_path: Path) -> None:
    values = ["1e3", "0o17", "yes", "017", "1_000", "null", "a\nb\n", "1.5", "0x1F", "12:30"]
    obj = json.loads(json.dumps(DEPLOYMENT))
    env = [{"name": f"V{index}", "value": value} for index, value in enumerate(values)]
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = env
    path = tmp_path / "app.json"
    path.write_text(json.dumps(obj), encoding="utf-8")
    done = run("convert", str(path))

    (found,) = read.load_yaml(done.stdout)
    assert found["spec"]["template"]["spec"]["containers"][0]["env"] == env
    assert yaml.safe_load(done.stdout) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not YAML"),
        ("- 1", "an object is expected"),
        ("kind: Deployment\nmetadata: {name: web}", "Deployment/web: apiVersion: is required"),
        (yaml.safe_dump({**DEPLOYMENT, "spec": {}}), "Deployment/web: spec.selector: is required"),
    ],
)
def test_bad_input_has_exit_code_1_names_file_and_field_and_prints_nothing(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    done = run("convert", write(tmp_path, "good.yaml", SERVICE), str(path))

    assert (done.exit_code, done.stdout) == (1, "")
    assert f"{path}: " in done.stderr
    assert message in done.stderr


def test_every_problem_of_an_object_has_a_line_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, "app.yaml", {"kind": "Widget"})
    done = run("convert", path)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        f"error: {path}: Widget/: apiVersion: is required",
        f"error: {path}: Widget/: metadata.name: is required",
    ]


def test_a_missing_file_is_told() -> None:
    done = run("convert", "nowhere.yaml")

    assert done.exit_code == 1
    assert "nowhere.yaml: there is no such file or directory" in done.stderr


def test_what_is_converted_can_be_placed(tmp_path: Path) -> None:
    done = run("convert", write(tmp_path, "app.yaml", DEPLOYMENT, SERVICE))
    member = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "a"},
        "spec": {},
        "status": {
            "capacity": {
                "nodes": [{"count": 1, "allocatable": {"pods": "9"}, "free": {"pods": "9"}}]
            }
        },
    }

    assert (
        run(
            "place", "-f", write(tmp_path, "fleet.yaml", member), "-f", "-", stdin=done.stdout
        ).exit_code
        == 0
    )


def test_namespaces_and_what_is_converted_already_come_along_as_they_are(tmp_path: Path) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    done = run("convert", write(tmp_path, "app.yaml", psvc(), space))

    assert read.load_yaml(done.stdout) == [space, psvc()]
    assert "kept      PinterestService/web" in done.stderr
    assert (
        done.stderr.splitlines()[-1]
        == "2 objects: 0 converted, 0 absorbed, 2 kept as they are, 0 left alone"
    )


GOLDEN = {
    "online-boutique/kubernetes-manifests.yaml": (35, 12, 23, 0),
    "bookinfo/bookinfo.yaml": (14, 6, 7, 1),
    "jobset-examples/depends-on_depends-on.yaml": (1, 0, 0, 1),
    "jobset-examples/failure-policy_failjobset-action.yaml": (1, 0, 0, 1),
    "jobset-examples/failure-policy_host-maintenance-event-model.yaml": (1, 0, 0, 1),
    "jobset-examples/failure-policy_onjobfailurereasons-present.yaml": (1, 0, 0, 1),
    "jobset-examples/failure-policy_restartjob-action.yaml": (1, 0, 0, 1),
    "jobset-examples/pytorch_cnn-mnist_mnist.yaml": (1, 1, 0, 0),
    "jobset-examples/pytorch_resnet-cifar10_resnet.yaml": (1, 1, 0, 0),
    "jobset-examples/simple_coordinator.yaml": (1, 1, 0, 0),
    "jobset-examples/simple_exclusive-placement.yaml": (1, 0, 0, 1),
    "jobset-examples/simple_failure-policy.yaml": (1, 0, 0, 1),
    "jobset-examples/simple_group.yaml": (1, 1, 0, 0),
    "jobset-examples/simple_jobset-with-network.yaml": (1, 1, 0, 0),
    "jobset-examples/simple_paralleljobs.yaml": (1, 1, 0, 0),
    "jobset-examples/simple_success-policy.yaml": (1, 1, 0, 0),
    "jobset-examples/simple_ttl-after-finished.yaml": (1, 1, 0, 0),
    "jobset-examples/tensorflow_mnist.yaml": (1, 1, 0, 0),
    "jobset-examples/volume-claim-policy_single-pvc.yaml": (1, 0, 0, 1),
    "kubeflow-trainer/01-multi-node.yaml": (1, 0, 0, 1),
    "kubeflow-trainer/02-runtime-patches.yaml": (1, 0, 0, 1),
    "kubeflow-trainer/03-kueue-integration.yaml": (1, 0, 0, 1),
    "kubeflow-trainer/04-volcano-integration.yaml": (2, 1, 1, 0),
    "kubeflow-trainer/jax_distributed.yaml": (1, 0, 0, 1),
    "kubeflow-trainer/torch_distributed.yaml": (1, 0, 0, 1),
    "kueue-examples/admin_minimal-cq.yaml": (1, 0, 0, 1),
    "kueue-examples/admin_shared-quota-setup.yaml": (5, 1, 4, 0),
    "kueue-examples/admin_single-clusterqueue-setup.yaml": (3, 1, 2, 0),
    "kueue-examples/admission-fs_admission-fair-sharing-setup.yaml": (4, 1, 3, 0),
    "kueue-examples/appwrapper_pytorch-sample.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_ray-cluster-sample.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_ray-job-sample.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-cronjob.yaml": (1, 1, 0, 0),
    "kueue-examples/jobs_sample-jaxjob.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-job-partial-admission.yaml": (1, 1, 0, 0),
    "kueue-examples/jobs_sample-job.yaml": (1, 1, 0, 0),
    "kueue-examples/jobs_sample-jobset.yaml": (1, 1, 0, 0),
    "kueue-examples/jobs_sample-mpijob.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-paddlejob.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-pytorchjob.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-scalable-job.yaml": (1, 1, 0, 0),
    "kueue-examples/jobs_sample-sparkapplication.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-tfjob.yaml": (1, 0, 0, 1),
    "kueue-examples/jobs_sample-xgboostjob.yaml": (1, 0, 0, 1),
    "kueue-examples/multikueue_multikueue-setup.yaml": (6, 1, 2, 3),
    "kueue-examples/pods-kueue_kueue-pod-group.yaml": (2, 0, 0, 2),
    "kueue-examples/serving-workloads_sample-deployment.yaml": (1, 1, 0, 0),
    "kueue-examples/serving-workloads_sample-leaderworkerset.yaml": (1, 0, 0, 1),
    "kueue-examples/serving-workloads_sample-statefulset.yaml": (1, 1, 0, 0),
}
"""File -> (objects, converted, absorbed, left alone)."""


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_every_object_of_real_input_is_accounted_for(name: str) -> None:
    folder, _, file = name.partition("/")
    path = casetables.data("manifests") / folder / file
    if not path.is_file():
        pytest.skip(f"the real input {name} is not there")
    done = run("convert", str(path))

    objects, converted, absorbed, left = GOLDEN[name]
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == (
        f"{objects} objects: {converted} converted, {absorbed} absorbed, {left} left alone"
    )
    assert sum(line.startswith("left ") for line in done.stderr.splitlines()) == left
    found = read.load_yaml(done.stdout) if done.stdout else []
    # beside them a roomy cluster for each flavor, which is no object of the input
    assert sum(obj["kind"] != "MemberCluster" for obj in found) == converted
    for obj in found:
        read.load(obj)


def test_clients_of_bookinfo_find_their_services_by_name() -> None:
    done = run("convert", str(casetables.data("manifests") / "bookinfo" / "bookinfo.yaml"))

    named = {
        obj["metadata"]["name"] for obj in read.load_yaml(done.stdout) if "service" in obj["spec"]
    }
    assert named == {"details", "ratings", "productpage"}
    assert (
        "left      Service/reviews: spec.selector: it selects the pods of 3 workloads"
        in done.stderr
    )


def test_the_shop_has_its_front_door() -> None:
    done = run(
        "convert",
        str(casetables.data("manifests") / "online-boutique" / "kubernetes-manifests.yaml"),
    )

    doors = {
        obj["metadata"]["name"]: obj["spec"].get("loadBalancers")
        for obj in read.load_yaml(done.stdout)
    }
    assert {name: door for name, door in doors.items() if door} == {"frontend": [{"port": 80}]}


def test_a_pipe_is_a_file_like_any_other(tmp_path: Path) -> None:
    pipe, writer = os.pipe()
    os.write(writer, b"{apiVersion: v1, kind: Secret, metadata: {name: keys}}")
    os.close(writer)
    try:
        done = run("convert", f"/dev/fd/{pipe}")
    finally:
        os.close(pipe)

    assert done.exit_code == 0
    assert "left      Secret/keys" in done.stderr


def test_a_name_that_no_file_can_have_is_told() -> None:
    done = run("convert", "a" * 300)

    assert done.exit_code == 1
    assert "there is no such file or directory" in done.stderr


def test_texts_that_kubectl_would_take_for_booleans_are_quoted() -> None:
    assert (
        common.dump({"answer": "y", "other": "N", "word": "yard"}, "yaml")
        == "answer: 'y'\nother: 'N'\nword: yard"
    )
