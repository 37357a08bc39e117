"""A profile's sidecar with `drain`: what the workload's containers and the sidecar are given, and
what is refused because the sidecar can neither ask nor call it."""

import copy
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds import read
from federator.kinds.pods import registration
from federator.kinds.pods.inject import inject
from federator.kinds.shared import parts
from federator.model.errors import FieldError
from federator.runtime.traffic import part, settings
from tests.unit.kinds.podshapes import pod_shape

PROFILE: dict[str, Any] = {
    "metadata": {"name": "service"},
    "spec": {
        "sidecars": [
            {
                "name": "runtime",
                "drain": {"port": 15190},
                "parameters": [
                    {"name": "register", "env": "FEDERATOR_TRAFFIC_REGISTER", "default": "true"},
                    {
                        "name": "drainSeconds",
                        "env": "FEDERATOR_TRAFFIC_DRAIN_SECONDS",
                        "default": "15",
                    },
                    {"name": "service", "env": "FEDERATOR_TRAFFIC_SERVICE"},
                ],
                "container": {
                    "image": "federator:1",
                    "env": [{"name": "FEDERATOR_ZOOKEEPER", "value": "zk:2181"}],
                },
            },
            {"name": "agent", "container": {"image": "agent:1"}},
        ]
    },
}
WEB: dict[str, Any] = {
    "name": "web",
    "image": "web:1",
    "ports": [{"name": "http", "containerPort": 8080}],
    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 2},
}


def template(*containers: dict[str, Any], **pod: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": list(containers) or [WEB], **pod}}


def refusal(pod: dict[str, Any], **sidecar: Any) -> str:
    """The sentence of the refusal, which `inject` and the shape of a pod give alike."""
    sidecars = {"runtime": sidecar} if sidecar else {}
    with pytest.raises(FieldError) as bad:
        inject(pod, PROFILE, sidecars)
    with pytest.raises(FieldError) as same:
        pod_shape(pod, PROFILE, sidecars)
    assert str(bad.value) == str(same.value)
    return str(bad.value)


def sidecar_of(pod: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = pod["spec"]["initContainers"][0]
    assert made["name"] == "runtime"
    return made


def test_containers_are_drained_before_they_end_and_the_sidecar_is_given_their_probes() -> None:
    worker = {"name": "worker", "image": "worker:1", "lifecycle": {"postStart": {"exec": {}}}}
    pod = inject(template(WEB, worker), PROFILE)
    hook = {"httpGet": {"path": "/drain", "port": 15190}}
    web, other, agent = pod["spec"]["containers"]
    assert web["lifecycle"] == {"preStop": hook}
    assert other["lifecycle"] == {"postStart": {"exec": {}}, "preStop": hook}
    assert "lifecycle" not in agent
    made = sidecar_of(pod)
    assert made["restartPolicy"] == "Always"
    variables = {each["name"]: each for each in made["env"]}
    assert json.loads(variables["FEDERATOR_APPLICATION"]["value"]) == {
        "port": 8080,
        "probes": {"web": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 2}},
    }
    fields = {
        name: variables[name]["valueFrom"]["fieldRef"]["fieldPath"]
        for name in ("POD_NAME", "POD_UID", "POD_IP")
    }
    assert fields == {
        "POD_NAME": "metadata.name",
        "POD_UID": "metadata.uid",
        "POD_IP": "status.podIP",
    }
    assert pod["metadata"]["annotations"] == {registration.ANNOTATION: "runtime"}


def drained(pod: dict[str, Any]) -> tuple[str, Any]:
    """The token that the sidecar asks for, and the headers that the hooks send."""
    values = {each["name"]: each.get("value", "") for each in sidecar_of(pod)["env"]}
    hook = pod["spec"]["containers"][0]["lifecycle"]["preStop"]["httpGet"]
    return values.get("FEDERATOR_DRAIN_TOKEN", ""), hook.get("httpHeaders")


def test_the_token_of_a_drain_is_the_same_in_each_rendering_of_a_slice() -> None:
    token, sent = drained(inject(template(), PROFILE, uid="uid-of-a-slice"))
    assert sent == [{"name": "X-Federator-Drain", "value": token}]
    assert len(token) == 32
    assert "uid" not in token
    assert drained(inject(template(), PROFILE, uid="uid-of-a-slice")) == (token, sent)
    assert drained(inject(template(), PROFILE, uid="uid-of-another"))[0] not in ("", token)
    assert drained(inject(template(), PROFILE)) == ("", None)


def test_what_a_member_renders_is_drained_with_a_token() -> None:
    meta = {"name": "web", "namespace": "web", "uid": "4c2f0f9e"}
    obj = {"metadata": meta, "spec": {"project": "web", "template": template()}}
    made = parts.pod_template(obj, PROFILE, {"app": "web"}, batch=False, config_hash=False)
    assert drained(made) == drained(inject(template(), PROFILE, uid="4c2f0f9e"))


def test_a_token_of_the_profile_stands() -> None:
    profile = copy.deepcopy(PROFILE)
    profile["spec"]["sidecars"][0]["container"]["env"].append(
        {"name": "FEDERATOR_DRAIN_TOKEN", "value": "own"}
    )
    token, sent = drained(inject(template(), profile, uid="uid-of-a-slice"))
    assert (token, sent) == ("own", [{"name": "X-Federator-Drain", "value": "own"}])


def test_the_sidecar_can_read_what_it_is_given() -> None:
    pod = inject(template(), PROFILE, {"runtime": {"service": "search", "drainSeconds": "20"}})
    environ = {each["name"]: each.get("value", "") for each in sidecar_of(pod)["env"]}
    read = settings.read({**environ, "POD_UID": "u", "POD_IP": "10.0.0.1"})
    assert (read.member.folder, read.member.port, read.drain_s) == (
        "/discovery/search/prod",
        8080,
        20.0,
    )


def test_a_workload_that_does_not_register_is_left_as_it_is() -> None:
    own = {**WEB, "readinessProbe": {"exec": {"command": ["true"]}}}
    pod = inject(template(own), PROFILE, {"runtime": {"register": "false"}})
    assert pod["spec"]["containers"][0] == own
    assert "annotations" not in pod["metadata"]
    assert sidecar_of(pod)["restartPolicy"] == "Always"


def test_own_hooks_are_called_by_the_sidecar_after_the_drain() -> None:
    sleeps = {**WEB, "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
    calls = {
        "name": "worker",
        "ports": [{"name": "admin", "containerPort": 9000}],
        "lifecycle": {"preStop": {"httpGet": {"path": "/quit", "port": "admin"}}},
    }
    pod = inject(template(sleeps, calls), PROFILE)
    variables = {each["name"]: each.get("value") for each in sidecar_of(pod)["env"]}
    assert json.loads(variables["FEDERATOR_APPLICATION"])["preStop"] == {
        "web": {"sleep": {"seconds": 5}},
        "worker": {"httpGet": {"path": "/quit", "port": 9000}},
    }
    assert {
        json.dumps(container["lifecycle"]["preStop"]) for container in pod["spec"]["containers"][:2]
    } == {'{"httpGet": {"path": "/drain", "port": 15190}}'}


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"readinessProbe": {"exec": {"command": ["check"]}}},
            "spec.template.spec.containers[0].readinessProbe.exec: runs in the container, so the"
            " sidecar that registers the pod cannot ask it; use httpGet, tcpSocket or grpc",
        ),
        (
            {"readinessProbe": {"periodSeconds": 3}},
            "spec.template.spec.containers[0].readinessProbe: has none of httpGet, tcpSocket and",
        ),
        (
            {"readinessProbe": {"tcpSocket": {"port": "htpp"}}},
            "spec.template.spec.containers[0].readinessProbe.tcpSocket.port: is no port, and no",
        ),
        (
            {"readinessProbe": {"httpGet": {"port": 80, "host": "other.example"}}},
            "spec.template.spec.containers[0].readinessProbe.httpGet.host: the sidecar asks its",
        ),
        (
            {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "15"]}}}},
            "spec.template.spec.containers[0].lifecycle.preStop.exec: a container has one preStop",
        ),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 50}}}},
            "the preStop hooks sleep 50 s after a drain of 15 s; the sidecar gives up after 60 s",
        ),
        (
            {"lifecycle": {"preStop": {"sleep": {"seconds": 20}}}},
            "spec.template.spec.terminationGracePeriodSeconds: is 30 s, of which the drain takes"
            " 15 s and its own preStop hooks 20 s: the containers would be killed without time to"
            " end; ask for more than 35 s",
        ),
        ({"ports": [], "readinessProbe": {}}, "spec.sidecars.runtime: there is no port to regist"),
    ],
)
def test_what_the_sidecar_cannot_do_is_refused(changed: dict[str, Any], sentence: str) -> None:
    assert sentence in refusal(template({**WEB, **changed}))


def test_a_drain_has_to_fit_into_the_grace_period() -> None:
    short = template(WEB, terminationGracePeriodSeconds=10)
    assert "is 10 s, of which the drain takes 15 s" in refusal(short)
    assert "is 30 s, of which the drain takes 40 s" in refusal(template(), drainSeconds="40")
    inject(
        template(WEB, terminationGracePeriodSeconds=60),
        PROFILE,
        {"runtime": {"drainSeconds": "40"}},
    )


def test_a_parameter_that_cannot_be_used_is_named() -> None:
    assert "spec.sidecars.runtime: 'a/b' cannot be the name of a service" in (
        refusal(template(), service="a/b")
    )


def test_templates_that_differ_in_their_probes_alone_are_each_looked_at() -> None:
    """Shapes are remembered by what they depend on, which a probe is not part of."""
    pod_shape(template(), PROFILE)
    refusal(template({**WEB, "readinessProbe": {"exec": {"command": ["x"]}}}))


def test_the_profile_and_the_workload_of_the_documents_work_together() -> None:
    page = (Path(__file__).parents[3] / "docs/using/traffic.md").read_text(encoding="utf-8")
    profile, service = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    for obj in (profile, service):
        read.check(obj)
    spec = service["spec"]
    pod = inject(spec["template"], profile, spec["sidecars"])
    environ = {each["name"]: each.get("value", "") for each in sidecar_of(pod)["env"]}
    seen = settings.read(
        {**environ, "POD_UID": "u", "POD_IP": "10.4.0.17", "PINTEREST_WORKLOAD_NAME": "search"}
    )
    assert (seen.member.folder, seen.member.port) == ("/discovery/search/staging", 8080)
    assert (seen.drain_s, seen.hooks_s) == (20.0, 5.0)
    variables = set(re.findall(r"^\| `(FEDERATOR_\w+)`", page, re.MULTILINE))
    source = inspect.getsource(settings) + inspect.getsource(part)
    assert variables == set(re.findall(r'"(FEDERATOR_\w+)"', source)) - {settings.APPLICATION}
