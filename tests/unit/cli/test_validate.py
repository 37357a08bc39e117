"""`federator validate`: every problem of every file, with its field, from the one source that API
servers read too.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.house.sources import ROOT
from tests.unit.cli.files import run, write

TEMPLATE = {"spec": {"containers": [{"name": "app", "image": "app:1"}]}}


def obj(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "feed"},
        "spec": {"template": TEMPLATE, **spec},
    }


def errors_of(*args: str) -> list[str]:
    done = run("validate", *args)
    assert done.exit_code == 1
    return [line.removeprefix("error: ") for line in done.stderr.splitlines()]


def test_every_example_is_valid() -> None:
    files = sorted((ROOT / "config" / "examples").glob("*.yaml"))
    done = run("validate", *(part for path in files for part in ("-f", str(path))))
    assert done.exit_code == 0, done.stderr
    assert "PinterestStatefulSet/kv is valid" in done.stdout
    assert "Namespace/storage is valid" in done.stdout
    assert "Namespace" not in done.stderr


def test_the_name_of_a_namespace_is_checked(tmp_path: Path) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme_shop"}}
    problem, count = errors_of("-f", write(tmp_path, "spaces.yaml", space))
    assert problem.partition("Namespace/acme_shop: ")[2].startswith("metadata.name: ")
    assert count == "1 problem in 1 objects"


def test_all_problems_of_all_files_are_told_with_their_fields(tmp_path: Path) -> None:
    bad = obj("PinterestService", replicas=-1, nosuch=1, template={"spec": {"containers": [{}]}})
    file = write(tmp_path, "bad.yaml", bad, obj("PinterestJobSet", shards="many"))
    *told, last = errors_of("-f", file)
    assert [line.partition(": ")[2] for line in told[:3]] == [
        "PinterestService/x: spec.nosuch: unknown field",
        "PinterestService/x: spec.replicas: must be at least 0, not -1",
        "PinterestService/x: spec.template.spec.containers[0].name: is required",
    ]
    assert any("PinterestJobSet/x: spec.shards" in line for line in told)
    assert last == f"{len(told)} problems in 2 objects"


SHARED_CLAIM = {
    "metadata": {"name": "data"},
    "lifetime": "Shard",
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}


def cron_job(run: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A PinterestCronJob that its clusters run by themselves."""
    work = {"template": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}, **(run or {})}
    made = obj("PinterestCronJob")
    made["spec"] = {
        "runs": "Native",
        "schedule": "0 * * * *",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": work},
        **spec,
    }
    return made


CROSS = {
    "a door to no port": (
        obj("PinterestService", loadBalancers=[{"port": 80}]),
        "each load balancer's port must be one of service.ports",
    ),
    "a daemon that is divided": (
        obj("PinterestDaemon", placement={"division": {"maxPerCluster": 2}}),
        "placement.division and placement.spread have no meaning",
    ),
    "an ordinal in every cluster": (
        obj("PinterestStatefulSet", placement={"division": {"strategy": "Duplicate"}}),
        "each ordinal runs once",
    ),
    "a native cron job without a bound": (
        cron_job(concurrencyPolicy="Allow"),
        "concurrencyPolicy is Forbid or Replace",
    ),
    "a native cron job that may never run": (
        cron_job(startingDeadlineSeconds=9),
        "startingDeadlineSeconds is at least 10",
    ),
    "a native cron job whose runs are exclusive": (
        cron_job({"execution": "Exclusive"}),
        "execution Exclusive and guard have no meaning",
    ),
    "a native cron job that is divided": (
        cron_job({"placement": {"division": {"maxPerCluster": 2}}}),
        "placement.division and placement.spread have no meaning",
    ),
    "a native cron job whose claims outlive a run": (
        cron_job({"volumeClaimTemplates": [SHARED_CLAIM]}),
        "would be shared by all runs",
    ),
    "a slice on the host": (
        obj("PinterestService", slice={"fleet": "f", "workloadUID": "u", "cluster": "a", "seq": 1}),
        "spec.slice: is written by the federation in members",
    ),
}


@pytest.mark.parametrize("case", CROSS)
def test_what_fields_say_about_each_other_is_checked_and_told_once(
    case: str, tmp_path: Path
) -> None:
    bad, why = CROSS[case]
    told = errors_of("-f", write(tmp_path, "bad.yaml", bad))
    assert sum(why in line for line in told) == 1, told


def test_with_the_objects_as_they_are_what_may_not_change_is_checked(tmp_path: Path) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    old = obj("PinterestStatefulSet", replicas=3, volumeClaimTemplates=[claim])
    new = copy.deepcopy(old)
    new["spec"] |= {"replicas": 5, "podManagementPolicy": "Parallel"}
    new["spec"]["volumeClaimTemplates"][0]["metadata"]["name"] = "other"
    before, after = write(tmp_path, "old.yaml", old), write(tmp_path, "new.yaml", new)
    assert run("validate", "-f", after).exit_code == 0
    told = errors_of("-f", after, "--old", before)
    assert any("spec: volumeClaimTemplates are fixed" in line for line in told), told
    # left out before, it had its default
    assert any("spec.podManagementPolicy" in line for line in told), told
    assert run("validate", "-f", before, "--old", before).exit_code == 0
    shards = obj("PinterestJobSet", shards=4)
    cut = {**shards, "spec": {**shards["spec"], "shards": 5}}
    files = write(tmp_path, "four.yaml", shards), write(tmp_path, "five.yaml", cut)
    told = errors_of("-f", files[1], "--old", files[0])
    assert "the number of shards is fixed" in told[0]


def test_other_kinds_are_named_and_slips_in_ours_are_errors(tmp_path: Path) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    done = run("validate", "-f", write(tmp_path, "w.yaml", widget))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "not checked: Widget/w" in done.stderr
    told = errors_of("-f", write(tmp_path, "slip.yaml", obj("PinterestServise")))
    assert "'PinterestServise' is not a kind that is read here" in told[0]
    (tmp_path / "empty").mkdir()
    assert run("validate", "-f", str(tmp_path / "empty")).exit_code == 1


def profile(name: str) -> dict[str, Any]:
    spec = {"sidecars": [{"name": "logs", "container": {"image": "logs:1"}}]}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "RuntimeProfile",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_runtime_profile_that_is_not_among_those_of_the_files_is_a_problem(
    tmp_path: Path,
) -> None:
    """Decision 0167: an API server cannot look up whether it exists."""
    named = obj("PinterestService", replicas=1, runtimeProfile="wbe")
    known = write(tmp_path, "profiles.yaml", profile("web"))
    problem, *_ = errors_of("-f", write(tmp_path, "all.yaml", named), "-f", known)
    assert "PinterestService/x: spec.runtimeProfile: there is no RuntimeProfile 'wbe'" in problem
    assert "which have web; correct the name" in problem
    problem, *_ = errors_of("-f", write(tmp_path, "all.yaml", named), "--old", known)
    assert "spec.runtimeProfile" in problem

    for right in ("web", "default"):
        good = obj("PinterestService", replicas=1, runtimeProfile=right)
        done = run("validate", "-f", write(tmp_path, "all.yaml", good), "-f", known)
        assert done.exit_code == 0, done.stderr
    done = run("validate", "-f", write(tmp_path, "all.yaml", named))
    assert done.exit_code == 0, "the host may have it"


def test_secrets_that_the_profile_of_the_files_does_not_read_are_a_problem(tmp_path: Path) -> None:
    named = obj("PinterestService", replicas=1, runtime={"secrets": [{"name": "a", "path": "a"}]})
    files = write(tmp_path, "all.yaml", named)
    bare, reads = profile("default"), profile("default")
    reads["spec"]["sidecars"][0]["container"]["args"] = ["runtime", "--roles=identity,secrets"]

    problem, *_ = errors_of("-f", files, "-f", write(tmp_path, "bare.yaml", bare))

    assert "PinterestService/x: spec.runtime.secrets: RuntimeProfile 'default' has no" in problem
    done = run("validate", "-f", files, "-f", write(tmp_path, "reads.yaml", reads))
    assert done.exit_code == 0, done.stderr
    assert run("validate", "-f", files).exit_code == 0, "the host's profile may read them"


def test_what_was_left_in_a_profile_is_told_beside_its_other_problems(tmp_path: Path) -> None:
    left = profile("web")
    left["spec"]["sidecars"][0]["native"] = "perhaps"
    given = [{"name": "FEDERATOR_TRUST_DOMAIN", "value": "federator.example"}]
    left["spec"]["sidecars"][0]["container"]["env"] = given

    problems = errors_of("-f", write(tmp_path, "left.yaml", left))

    assert any("spec.sidecars[0].native" in each for each in problems)
    assert any("FEDERATOR_TRUST_DOMAIN is the example" in each for each in problems)


REGISTERING = {
    "name": "runtime",
    "drain": {"port": 15190},
    "parameters": [{"name": "drainSeconds", "env": "FEDERATOR_TRAFFIC_DRAIN_SECONDS"}],
    "container": {
        "image": "runtime:1",
        "env": [{"name": "FEDERATOR_ZOOKEEPER", "value": "zk:2181"}],
    },
}


@pytest.mark.parametrize(
    ("container", "sidecars", "problem"),
    [
        (
            {"readinessProbe": {"exec": {"command": ["true"]}}},
            {},
            "spec.template.spec.containers[0].readinessProbe.exec: runs in the container, so the"
            " sidecar that registers the pod cannot ask it; use httpGet, tcpSocket or grpc",
        ),
        (
            {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}}},
            {},
            "spec.template.spec.containers[0].lifecycle.preStop.exec: a container has one preStop",
        ),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 20}}}},
            {},
            "spec.template.spec.terminationGracePeriodSeconds: is 30 s, of which the drain takes",
        ),
        ({}, {"runtime": {"drainSecond": 5}}, "spec.sidecars.runtime.drainSecond"),
    ],
    ids=["exec probe", "exec hook", "no time to drain", "misspelt parameter"],
)
def test_what_a_profile_of_the_files_cannot_do_for_a_workload_is_a_problem(
    tmp_path: Path, container: dict[str, Any], sidecars: dict[str, Any], problem: str
) -> None:
    """As the hub, `place` and `plan` refuse it."""
    app = {"name": "app", "image": "app:1", "ports": [{"containerPort": 8080}], **container}
    service = obj("PinterestService", replicas=1, template={"spec": {"containers": [app]}})
    file = write(
        tmp_path, "all.yaml", {**service, "spec": {**service["spec"], "sidecars": sidecars}}
    )
    registers = profile("default")
    registers["spec"] = {"sidecars": [REGISTERING]}

    told, *_ = errors_of("-f", file, "-f", write(tmp_path, "registers.yaml", registers))

    assert f"PinterestService/x: {problem}" in told


def test_a_hook_that_the_sidecar_can_call_is_no_problem(tmp_path: Path) -> None:
    hook = {"preStop": {"sleep": {"seconds": 5}}}
    app = {"name": "app", "image": "app:1", "ports": [{"containerPort": 8080}], "lifecycle": hook}
    service = obj("PinterestService", replicas=1, template={"spec": {"containers": [app]}})
    registers = profile("default")
    registers["spec"] = {"sidecars": [REGISTERING]}
    file = write(tmp_path, "all.yaml", service, registers)

    assert run("validate", "-f", file).exit_code == 0


def deployment(containers: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    labels = {"app": "v"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "v", "namespace": "rep"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, **spec},
            },
        },
    }


def test_what_a_server_takes_with_a_warning_in_a_plain_deployment_is_valid(tmp_path: Path) -> None:
    """Kubernetes 1.37, pkg/api/pod/warnings.go."""
    ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 81}]
    env = [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
        {"name": "B", "value": "-a"},
        {"name": "B", "value": "$(B) -b"},
        {"name": "B", "value": "$(B)"},
    ]
    doubled = deployment(
        [{"name": "main", "image": "a:1", "ports": ports, "env": env}],
        tolerations=[{"key": "a", "operator": "Exists"}] * 2,
        imagePullSecrets=[{"name": "s"}] * 2,
        hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a"]}] * 2,
    )
    file = write(tmp_path, "doubled.yaml", doubled)
    done = run("validate", "-f", file)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "Deployment/v is valid\n"
    hides = 'hides previous definition of "{}", which may be dropped when using apply'
    at = "spec.template.spec"
    assert [line.partition("Deployment/v: ")[2] for line in done.stderr.splitlines()] == [
        f'{at}.hostAliases[1].ip: duplicate ip "10.0.0.1"',
        f'{at}.imagePullSecrets[1].name: duplicate name "s"',
        f"{at}.containers[0].env[1]: {hides.format('A')}",
        f"{at}.containers[0].env[4]: {hides.format('B')}",
    ]
    assert all(
        line.startswith(f"warning: {file}, document 1: ") for line in done.stderr.splitlines()
    )


def test_what_a_server_refuses_to_have_twice_is_refused_in_a_plain_deployment(
    tmp_path: Path,
) -> None:
    twice = deployment([{"name": "main", "image": "a:1"}] * 2, volumes=[{"name": "v"}] * 2)
    *told, _ = errors_of("-f", write(tmp_path, "twice.yaml", twice))
    assert [line.partition("spec.template.spec.")[2] for line in told] == [
        "containers[1]: repeats spec.template.spec.containers[0]: name 'main'",
        "volumes[1]: repeats spec.template.spec.volumes[0]: name 'v'",
    ]


@pytest.mark.parametrize(
    "kind", ["PinterestService", "PinterestJobSet", "PinterestDaemon", "PinterestStatefulSet"]
)
def test_a_generated_name_is_judged_as_the_server_makes_it(kind: str, tmp_path: Path) -> None:
    made = obj(kind)
    made["metadata"] = {"generateName": "schema-upgrade-", "namespace": "feed"}
    done = run("validate", "-f", write(tmp_path, "made.yaml", made))
    assert done.exit_code == 0, done.stderr
    made["metadata"]["generateName"] = "a" * 60
    told = "\n".join(errors_of("-f", write(tmp_path, "long.yaml", made)))
    assert "no such key" not in told
    assert "metadata.generateName: makes names such as 'aaa" in told
    assert "name has at most 52" in told


def test_no_message_shows_the_inside_of_a_rule() -> None:
    """Every rule of our definitions has a sentence, and only that is shown."""
    from federator.cli.files import validate
    from federator.kinds import crds

    def rules(schema: Any) -> list[dict[str, Any]]:
        if isinstance(schema, list):
            return [rule for entry in schema for rule in rules(entry)]
        if not isinstance(schema, dict):
            return []
        own = schema.get("x-kubernetes-validations", [])
        return [*own, *(rule for value in schema.values() for rule in rules(value))]

    found = [rule for crd in crds.all_crds() for rule in rules(crd)]
    assert found
    assert not [
        rule for rule in found if not rule.get("message") and "messageExpression" not in rule
    ]
    for message in (
        'Invalid value: "object": no such key: name evaluating rule: a sentence',
        "Invalid value: 'no such overload': call arguments did not match for rule: a sentence",
        "Invalid value: a sentence",
    ):
        assert validate._sentence(message).endswith("a sentence")
        assert "no such" not in validate._sentence(message)


@pytest.mark.parametrize(
    ("version", "kind", "warned"),
    [
        ("pinterest.com/v1beta1", "PinterestService", True),
        ("apps/v1", "Deployment", True),
        ("apps/v1", "StatefulSet", False),
        ("apps/v1", "Deployment/other", False),
    ],
)
def test_an_autoscaler_of_what_the_federation_runs_gets_a_warning(
    version: str, kind: str, warned: bool, tmp_path: Path
) -> None:
    kind, _, name = kind.partition("/")
    target = {"apiVersion": version, "kind": kind, "name": name or "v"}
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "hpa", "namespace": "rep"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target},
    }
    file = write(tmp_path, "hpa.yaml", deployment([{"name": "main", "image": "a:1"}]), autoscaler)
    done = run("validate", "-f", file)
    assert done.exit_code == 0, done.stderr
    assert ("spec.autoscaling" in done.stderr) is warned
