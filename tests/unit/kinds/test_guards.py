"""Which job sets can be guarded, what the guard is told, and what its pods take."""

import json
from typing import Any

import pytest

from federator.cli.running import runtime
from federator.kinds import asks, labels, read, registry
from federator.kinds.jobset import guards
from federator.kinds.pods import effective
from federator.model import errors
from federator.model.policy import DEFAULT_POLICY
from federator.runtime import fencing

VERBS = registry.verbs_of("PinterestJobSet")


def once(pod: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    shard = {"name": "shard", "image": "shard:1", **container}
    spec = {"containers": [shard], **(pod or {})}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestJobSet",
        "metadata": {"name": "once", "namespace": "feed"},
        "spec": {"shards": 2, "execution": "Exclusive", "guard": True, "template": {"spec": spec}},
    }


WELL = {"httpGet": {"path": "/", "port": 80}}
STEP = {"name": "step", "image": "step:1"}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "node's network": (once({"hostNetwork": True}), "hostNetwork: a guard needs the pod's own"),
    "a long grace": (
        once({"terminationGracePeriodSeconds": 61}),
        "terminationGracePeriodSeconds: guarded shards have ended 60 s after they are told",
    ),
    "a step": (once({"initContainers": [STEP]}), r"initContainers\[0\]: a kubelet probes no init"),
    "a command": (
        once(livenessProbe={"exec": {"command": ["true"]}}),
        r"containers\[0\].livenessProbe.exec: cannot be asked by the guard",
    ),
    "gRPC": (
        once(startupProbe={"grpc": {"port": 80}}),
        r"containers\[0\].startupProbe.grpc: cannot be asked by the guard",
    ),
    "no such port": (
        once(livenessProbe={"tcpSocket": {"port": "health"}}),
        "livenessProbe.tcpSocket.port: is no port, and no name of a port",
    ),
    "another host": (
        once(livenessProbe={"httpGet": {"port": 80, "host": "10.0.0.1"}}),
        "httpGet.host: the guard asks its own pod only",
    ),
    "its name": (once(name=guards.GUARD), "name: is the name of a container that the guard adds"),
    "its port": (once(ports=[{"containerPort": guards.PORT}]), "ports: 15180 is the guard's port"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_cannot_be_guarded_is_refused_with_its_field(case: str) -> None:
    obj, why = REFUSED[case]
    with pytest.raises(errors.FieldError, match=why):
        asks.ask(obj, VERBS, DEFAULT_POLICY)
    obj["spec"]["guard"] = False
    assert not asks.ask(obj, VERBS, DEFAULT_POLICY).guarded


def test_what_can_be_guarded_asks_for_the_guard_s_room_too() -> None:
    sidecar = {**STEP, "restartPolicy": "Always", "livenessProbe": WELL}
    obj = once({"initContainers": [sidecar]}, livenessProbe=WELL)
    ask = asks.ask(obj, VERBS, DEFAULT_POLICY)
    assert (ask.exclusive, ask.guarded, ask.overlaps) == (True, True, False)
    del obj["spec"]["guard"]
    plain = asks.ask(obj, VERBS, DEFAULT_POLICY)
    own = effective.pod_requests({"containers": [{"name": "g", "resources": guards.RESOURCES}]})
    slot = effective.pod_requests({"containers": []})
    assert ask.shape.requests == plain.shape.requests + (own - slot)
    assert ask.privileges == plain.privileges


def test_only_exclusive_job_sets_are_guarded() -> None:
    obj = once()
    obj["spec"]["execution"] = "MayOverlap"
    with pytest.raises(read.InvalidObject, match="guard is for execution Exclusive"):
        read.check(obj)


def test_the_guard_is_given_the_probes_that_it_asks_in_the_kubelet_s_place() -> None:
    ports = [{"name": "health", "containerPort": 8081}]
    alive = {"httpGet": {"port": "health"}, "periodSeconds": 20}
    obj = once(ports=ports, livenessProbe=alive, startupProbe={"tcpSocket": {"port": "9000"}})
    pod = guards.guarded(obj["spec"]["template"]["spec"], frozenset({"shard"}), None)
    guard, wait = pod["initContainers"]
    (shard,) = pod["containers"]
    assert json.loads(guard["env"][0]["value"]) == {
        "shard": {
            "livenessProbe": {"httpGet": {"port": 8081}, "periodSeconds": 20},
            "startupProbe": {"tcpSocket": {"port": 9000}},
        }
    }
    assert guard["env"][0]["name"] == guards.PROBES == runtime.PROBES
    assert "startupProbe" not in shard
    assert shard["livenessProbe"]["httpGet"] == {"path": "/healthz/shard", "port": guards.PORT}
    probe = shard["livenessProbe"]
    assert probe["terminationGracePeriodSeconds"] == guards.GRACE_S
    stop_s = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert stop_s + 2 * fencing.GRACE_MAX_S <= fencing.STOP_S
    assert wait["args"][-1] == "--wait"


def test_the_image_is_the_profile_s_or_this_release() -> None:
    pod = once()["spec"]["template"]["spec"]
    profile = {"spec": {"guard": {"image": "mirror.example/federator:9"}}}
    for given, image in ((profile, "mirror.example/federator:9"), (None, labels.IMAGE)):
        made = guards.guarded(pod, frozenset({"shard"}), given)
        assert {step["image"] for step in made["initContainers"]} == {image}
