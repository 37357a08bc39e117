"""What one copy needs, by the sums of the Kubernetes scheduler."""

import json
from typing import Any

import pytest

from federator.model.errors import FieldError
from federator.model.kubernetes.taints import Toleration
from federator.model.resources import Resources
from tests.unit.kinds.podshapes import pod_shape


def container(
    name: str = "c", *, always: bool = False, limits: dict[str, Any] | None = None, **requests: Any
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": name,
        "resources": {"requests": requests} | ({"limits": limits} if limits else {}),
    }
    return body | ({"restartPolicy": "Always"} if always else {})


def pod(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": fields}


SUMS = {
    "nothing asked": (pod(containers=[container()]), {}),
    "containers add up": (
        pod(containers=[container(cpu="500m"), container(cpu="1", memory="1Gi")]),
        {"cpu": 1500, "memory": 1 << 30},
    ),
    "a limit stands for a request": (
        pod(containers=[container(limits={"cpu": "2", "memory": "1Gi"}, cpu="1")]),
        {"cpu": 1000, "memory": 1 << 30},
    ),
    "an init container counts when it is larger": (
        pod(
            containers=[container(cpu="1")],
            initContainers=[container(cpu="3"), container(cpu="2", memory="1Mi")],
        ),
        {"cpu": 3000, "memory": 1 << 20},
    ),
    "an init container that is smaller does not count": (
        pod(containers=[container(cpu="1")], initContainers=[container(cpu="500m")]),
        {"cpu": 1000},
    ),
    "native sidecars run beside containers": (
        pod(containers=[container(cpu="1")], initContainers=[container(always=True, cpu="200m")]),
        {"cpu": 1200},
    ),
    "an init container runs with the native sidecars before it": (
        pod(
            containers=[container(cpu="1")],
            initContainers=[
                container(always=True, cpu="200m"),
                container(cpu="2"),
                container(always=True, cpu="5m"),
            ],
        ),
        {"cpu": 2200},
    ),
    "overhead comes on top": (
        pod(containers=[container(cpu="1")], overhead={"cpu": "250m"}),
        {"cpu": 1250},
    ),
    "the pod as a whole stands in place of the sum": (
        pod(containers=[container(cpu="1", memory="1Gi")], resources={"requests": {"cpu": "4"}}),
        {"cpu": 4000, "memory": 1 << 30},
    ),
    "a limit of the whole pod counts where nobody asks": (
        pod(containers=[container(cpu="1")], resources={"limits": {"cpu": "4", "memory": "2Gi"}}),
        {"cpu": 1000, "memory": 2 << 30},
    ),
    "extended resources": (
        pod(containers=[container(limits={"nvidia.com/gpu": 2})]),
        {"nvidia.com/gpu": 2},
    ),
    "milli are rounded up": (
        pod(containers=[container(cpu="100u", memory="100m")]),
        {"cpu": 1, "memory": 1},
    ),
}


@pytest.mark.parametrize(("template", "amounts"), SUMS.values(), ids=SUMS)
def test_requests_are_summed_as_the_scheduler_does(
    template: dict[str, Any], amounts: dict[str, int]
) -> None:
    assert pod_shape(template).requests == Resources({**amounts, "pods": 1})


WRONG = {
    "quantity": (
        pod(containers=[container(), container(cpu="1x")]),
        "spec.template.spec.containers[1].resources.requests.cpu",
    ),
    "negative": (
        pod(containers=[container(cpu="-1")]),
        "spec.template.spec.containers[0].resources.requests.cpu",
    ),
    "toleration": (
        pod(containers=[], tolerations=[{"operator": "Equal"}]),
        "spec.template.spec.tolerations[0].operator",
    ),
    "claims of devices": (
        pod(containers=[container()], resourceClaims=[{"name": "gpu"}]),
        "spec.template.spec.resourceClaims",
    ),
    "overhead": (pod(containers=[], overhead={"cpu": True}), "spec.template.spec.overhead.cpu"),
}


@pytest.mark.parametrize(("template", "path"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_read_is_refused_with_its_path(template: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as caught:
        pod_shape(template)
    assert caught.value.path == path


def test_equal_pods_have_equal_shapes_whatever_the_order() -> None:
    one = pod(
        containers=[container(cpu="1")],
        nodeSelector={"a": "1", "b": "2"},
        tolerations=[
            {"key": "x", "operator": "Exists"},
            {"key": "a", "value": "b"},
            {"key": "a", "value": "b"},
        ],
    )
    two = pod(
        containers=[container(cpu="1000m")],
        nodeSelector={"b": "2", "a": "1"},
        tolerations=[
            {"key": "a", "operator": "Equal", "value": "b"},
            {"key": "x", "operator": "Exists"},
        ],
    )
    assert pod_shape(one) == pod_shape(two)
    assert pod_shape(one).id == pod_shape(two).id
    assert pod_shape(one).tolerations == (
        Toleration("a", value="b"),
        Toleration("x", "Exists"),
    )


def test_required_node_affinity_is_part_of_the_shape_and_preferred_is_not() -> None:
    terms = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["A100"]}]}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}],
        }
    }
    shape = pod_shape(pod(containers=[], affinity=affinity, nodeSelector={"a": "b"}))
    assert json.loads(shape.node_selector) == {"nodeSelector": {"a": "b"}, "nodeAffinity": terms}
    assert pod_shape(pod(containers=[])).node_selector == ""
    assert pod_shape(pod(containers=[])).plain


def anti(topology: str = "kubernetes.io/hostname", **term: Any) -> dict[str, Any]:
    rule = {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": "web"}}, **term}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}


ONE_PER_NODE = {
    "keeps off its own kind": (pod(containers=[], affinity=anti()), True),
    "keeps off others": (
        pod(containers=[], affinity=anti(labelSelector={"matchLabels": {"app": "db"}})),
        False,
    ),
    "keeps off everything": (pod(containers=[], affinity=anti(labelSelector={})), True),
    "selects nothing": (pod(containers=[], affinity=anti(labelSelector=None)), False),
    "by zone": (pod(containers=[], affinity=anti("topology.kubernetes.io/zone")), False),
    "of other namespaces": (pod(containers=[], affinity=anti(namespaces=["other"])), False),
    "host port": (
        pod(containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]),
        True,
    ),
    "port on the host's network": (
        pod(hostNetwork=True, containers=[{"name": "c", "ports": [{"containerPort": 80}]}]),
        True,
    ),
    "container port": (pod(containers=[{"name": "c", "ports": [{"containerPort": 80}]}]), False),
}


@pytest.mark.parametrize(("template", "alone"), ONE_PER_NODE.values(), ids=ONE_PER_NODE)
def test_copies_that_can_never_share_a_node_are_found(
    template: dict[str, Any], alone: bool
) -> None:
    assert pod_shape(template).one_per_node is alone


def test_remembered_answers_follow_everything_that_a_shape_depends_on() -> None:
    profile = {
        "spec": {
            "sidecars": [{"name": "s", "container": {"resources": {"requests": {"cpu": "1"}}}}]
        }
    }
    larger = {
        "spec": {
            "sidecars": [{"name": "s", "container": {"resources": {"requests": {"cpu": "2"}}}}]
        }
    }
    plain = pod(containers=[container(cpu="1")])
    shapes = [
        pod_shape(plain),
        pod_shape(plain, profile),
        pod_shape(plain, larger),
        pod_shape(pod(containers=[container(cpu="1")], initContainers=[container(cpu="9")])),
        pod_shape(pod(containers=[container(cpu="1"), container(cpu="9")])),
        pod_shape(pod(containers=[container(cpu="1")], affinity=anti())),
        pod_shape({**pod(containers=[container(cpu="1")], affinity=anti()), "metadata": {}}),
    ]
    assert [shape.requests["cpu"] for shape in shapes] == [
        1000,
        2000,
        3000,
        9000,
        10000,
        1000,
        1000,
    ]
    assert [shape.one_per_node for shape in shapes] == [False] * 5 + [True, False]
    assert pod_shape(plain, profile) == shapes[1]
