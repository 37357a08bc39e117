"""What a workload's own containers get, its init containers and native sidecars get too: variables,
mounts, charges, references that must be there, and rules that name them.
"""

import copy
import json
from typing import Any

import pytest

from federator.kinds import registry
from federator.kinds.jobset import failures
from federator.kinds.natives import pod_templates
from federator.member.expansion import references
from federator.model.resources import CPU
from tests.unit.kinds.podshapes import pod_shape
from tests.unit.kinds.test_natives import expand, profile, slice_of
from tests.unit.kinds.test_variants import BASES

KINDS = [
    name
    for name in BASES
    if name in registry.WORKLOADS and registry.verbs_of(name).expand is not None
]
WHERE = {
    "init": ("initContainers", {}),
    "sidecar": ("initContainers", {"restartPolicy": "Always"}),
}
MOUNTS = {
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "env": [{"name": "OWN", "value": "1"}],
}
EXTRA: dict[str, dict[str, Any]] = {
    "PinterestJobSet": {"shardConfig": {"a": "{shard}"}, "config": {"c": "1"}},
    "PinterestNativeCronJob": {"shardConfig": {"a": "{shard}"}, "config": {"c": "1"}},
    "PinterestStatefulSet": {"config": {"c": "1"}},
    "PinterestService": {"config": {"c": "1"}},
    "PinterestDaemon": {"config": {"c": "1"}},
    "PinterestTrainingJob": {"config": {"c": "1"}},
}
"""What else a kind puts into containers."""


def pods_of(kind: str, where: str) -> list[dict[str, Any]]:
    """The pods of a workload with the container `probe`, and beside it `main`."""
    spec, share = copy.deepcopy(BASES[kind])
    spec |= EXTRA[kind]
    pod = spec["template"]["spec"]
    main = pod["containers"][0]
    probe = {**copy.deepcopy(main), "name": "probe", **copy.deepcopy(MOUNTS)}
    if not any(
        claim["metadata"]["name"] == "data" for claim in spec.get("volumeClaimTemplates", ())
    ):
        pod["volumes"] = [{"name": "data", "emptyDir": {}}]
    if where:
        field, more = WHERE[where]
        pod[field] = [{**probe, **more}]
    else:
        pod["containers"] = [main, probe]
    obj = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "feed", "uid": "host-uid"},
        "spec": spec,
    }
    made = expand(slice_of(json.dumps(obj), share), profile())
    found = [template["spec"] for one in made for template in pod_templates(one)]
    assert found
    return found


def given(pod: dict[str, Any]) -> dict[str, Any]:
    """What the container `probe` came to, without what its place alone says."""
    (probe,) = (
        one
        for field in ("initContainers", "containers")
        for one in pod.get(field, ())
        if one["name"] == "probe"
    )
    return {
        "env": {one["name"]: one for one in probe.get("env", ())},
        "envFrom": probe.get("envFrom", []),
        "mounts": {one["mountPath"]: one for one in probe.get("volumeMounts", ())},
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", WHERE)
def test_init_containers_and_sidecars_get_what_containers_get(kind: str, where: str) -> None:
    usual, other = pods_of(kind, ""), pods_of(kind, where)

    assert len(usual[0]["containers"]) > len(other[0]["containers"])
    assert [given(pod) for pod in other] == [given(pod) for pod in usual]
    assert {"OWN", "PINTEREST_CLUSTER", "PINTEREST_IDENTITY_DIR"} <= given(other[0])["env"].keys()
    assert len(given(other[0])["mounts"]) >= 3


def template(where: str, **fields: Any) -> dict[str, Any]:
    """A pod whose container `probe` has these fields, beside a `main` of 100m."""
    main = {"name": "main", "image": "m:1", "resources": {"requests": {"cpu": "100m"}}}
    probe = {"name": "probe", "image": "p:1", **fields}
    if not where:
        return {"spec": {"containers": [main, probe]}}
    field, more = WHERE[where]
    return {"spec": {"containers": [main], field: [{**probe, **more}]}}


@pytest.mark.parametrize(
    ("where", "milli"), [("", 1100), ("init", 1000), ("sidecar", 1100)], ids=["", "init", "sidecar"]
)
def test_requests_of_every_kind_of_container_are_charged(where: str, milli: int) -> None:
    """An init container runs before the others, and a sidecar beside them."""
    asked = {"resources": {"requests": {"cpu": "1"}}}
    assert pod_shape(template(where, **asked)).requests[CPU] == milli
    limited = {"resources": {"limits": {"cpu": "1"}}}
    assert pod_shape(template(where, **limited)).requests[CPU] == milli


@pytest.mark.parametrize("where", ["", *WHERE])
@pytest.mark.parametrize(
    "fields",
    [
        {"envFrom": [{"configMapRef": {"name": "named"}}]},
        {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "named", "key": "k"}}}]},
    ],
    ids=["envFrom", "env"],
)
def test_what_any_kind_of_container_refers_to_must_be_there(
    where: str, fields: dict[str, Any]
) -> None:
    assert ("ConfigMap", "named") in references.of_template(template(where, **fields))


@pytest.mark.parametrize("where", ["", *WHERE])
def test_a_failure_rule_counts_for_every_kind_of_container(where: str) -> None:
    rule = {"action": "FailJobSet", "onExitCodes": {"operator": "In", "values": [42]}}
    named = {**rule, "onExitCodes": {**rule["onExitCodes"], "containerName": "probe"}}  # type: ignore[dict-item]
    for each, expected in ((rule, {"main", "probe"}), (named, {"probe"})):
        obj = {"spec": {"template": template(where), "failurePolicy": {"rules": [each]}}}
        made = failures.rules(obj)
        assert {one["onExitCodes"]["containerName"] for one in made} == expected
