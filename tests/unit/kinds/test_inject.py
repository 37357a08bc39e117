"""Runtime injection: what a RuntimeProfile adds, whose word stands, and what is refused."""

import copy
from pathlib import Path
from typing import Any

import pytest

from federator.kinds import read
from federator.kinds.pods.inject import inject, parameter_text
from federator.model.errors import FieldError
from tests.unit.kinds.podshapes import pod_shape

PROFILE: dict[str, Any] = {
    "metadata": {"name": "base"},
    "spec": {
        "initContainers": [{"name": "cert", "container": {"image": "cert:1"}}],
        "sidecars": [
            {
                "name": "logs",
                "parameters": [
                    {"name": "level", "env": "LEVEL", "default": "info"},
                    {"name": "topic", "env": "TOPIC"},
                ],
                "container": {"image": "logs:1", "env": [{"name": "FIXED", "value": "1"}]},
            },
            {"name": "identity", "native": True, "container": {"image": "identity:1"}},
            {
                "name": "traffic",
                "inject": "OnRequest",
                "parameters": [{"name": "deps", "env": "DEPS", "required": True}],
                "container": {"image": "traffic:1", "resources": {"requests": {"cpu": "100m"}}},
            },
        ],
        "env": [{"name": "A", "value": "profile"}, {"name": "B", "value": "profile"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "podLabels": {"runtime": "base", "app": "profile"},
        "podAnnotations": {"note": "profile"},
    },
}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "initContainers": [{"name": "prepare", "image": "p:1"}],
        "containers": [{"name": "app", "image": "app:1", "env": [{"name": "A", "value": "own"}]}],
    },
}


def test_containers_are_added_in_the_order_in_which_they_must_run() -> None:
    out = inject(TEMPLATE, PROFILE)
    assert [c["name"] for c in out["spec"]["initContainers"]] == ["cert", "identity", "prepare"]
    assert [c["name"] for c in out["spec"]["containers"]] == ["app", "logs"]
    assert out["spec"]["initContainers"][1]["restartPolicy"] == "Always"
    assert "restartPolicy" not in out["spec"]["containers"][1]


def test_the_template_and_the_profile_are_not_changed() -> None:
    before = copy.deepcopy((TEMPLATE, PROFILE))
    inject(TEMPLATE, PROFILE, {"traffic": {"deps": ["a"]}}, batch=True)
    assert before == (TEMPLATE, PROFILE)


def test_the_workloads_own_variables_labels_and_mounts_stand() -> None:
    out = inject(TEMPLATE, PROFILE)
    (app, logs) = out["spec"]["containers"]
    assert app["env"] == [{"name": "A", "value": "own"}, {"name": "B", "value": "profile"}]
    assert app["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]
    assert "volumeMounts" not in logs
    assert out["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert out["metadata"] == {
        "labels": {"app": "web", "runtime": "base"},
        "annotations": {"note": "profile"},
    }


def test_parameters_become_variables_with_defaults() -> None:
    def variables(**given: Any) -> dict[str, str]:
        logs = inject(TEMPLATE, PROFILE, {"logs": given})["spec"]["containers"][1]
        return {entry["name"]: entry["value"] for entry in logs["env"]}

    assert variables() == {"FIXED": "1", "LEVEL": "info"}
    assert variables(level="debug", topic="t") == {"FIXED": "1", "LEVEL": "debug", "TOPIC": "t"}


def test_a_container_on_request_comes_only_when_it_is_named() -> None:
    out = inject(TEMPLATE, PROFILE, {"traffic": {"deps": ["users", "ads"]}})
    traffic = out["spec"]["containers"][-1]
    assert traffic["name"] == "traffic"
    assert traffic["env"] == [{"name": "DEPS", "value": "users,ads"}]
    assert pod_shape(TEMPLATE, PROFILE).requests["cpu"] == 0
    assert pod_shape(TEMPLATE, PROFILE, {"traffic": {"deps": []}}).requests["cpu"] == 100


def test_pods_of_jobs_get_native_sidecars_only_so_that_they_can_end() -> None:
    out = inject(TEMPLATE, PROFILE, batch=True)
    assert [c["name"] for c in out["spec"]["containers"]] == ["app"]
    native = [
        c["name"] for c in out["spec"]["initContainers"] if c.get("restartPolicy") == "Always"
    ]
    assert native == ["logs", "identity"]


REFUSED = {
    "unknown container": (
        {"nobody": {}},
        "spec.sidecars.nobody",
        "only cert, identity, logs, traffic",
    ),
    "unknown parameter": ({"logs": {"lvl": "x"}}, "spec.sidecars.logs.lvl", "knows level, topic"),
    "container without parameters": ({"cert": {"x": 1}}, "spec.sidecars.cert.x", "knows none"),
    "missing parameter": ({"traffic": {}}, "spec.sidecars.traffic.deps", "needs this parameter"),
}


@pytest.mark.parametrize(("sidecars", "path", "message"), REFUSED.values(), ids=REFUSED)
def test_parameters_that_the_profile_does_not_know_are_refused(
    sidecars: Any, path: str, message: str
) -> None:
    with pytest.raises(FieldError) as caught:
        inject(TEMPLATE, PROFILE, sidecars)
    assert caught.value.path == path
    assert message in caught.value.message


def test_a_container_name_that_is_taken_is_refused() -> None:
    template = {"spec": {"containers": [{"name": "app"}, {"name": "logs"}]}}
    with pytest.raises(FieldError, match=r"spec\.template\.spec\.containers\[1\]\.name: 'logs'"):
        inject(template, PROFILE)


def test_a_volume_of_the_profile_s_name_is_refused_also_where_a_shape_is_remembered() -> None:
    own = [{"name": "data", "emptyDir": {}}, {"name": "v", "secret": {"secretName": "mine"}}]
    taken = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": own}}
    fits = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": own[:1]}}

    assert pod_shape(fits, PROFILE) == pod_shape(TEMPLATE, PROFILE)
    for judge in (inject, pod_shape):
        with pytest.raises(FieldError) as refused:
            judge(taken, PROFILE)
        assert str(refused.value) == (
            "spec.template.spec.volumes[1].name: 'v' names a volume that RuntimeProfile 'base' adds;"
            " rename this one, and its volumeMounts"
        )
    assert [volume["name"] for volume in inject(fits, PROFILE)["spec"]["volumes"]] == ["data", "v"]


def test_without_a_profile_the_template_stays_and_parameters_wait() -> None:
    assert inject(TEMPLATE, None, {"logs": {"level": "x"}}) == TEMPLATE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (3, "3"),
        (True, "true"),
        (1.5, "1.5"),
        (["a", 2], "a,2"),
        ([], ""),
        ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
    ],
)
def test_a_parameter_is_written_as_a_variable_can_hold_it(value: Any, text: str) -> None:
    assert parameter_text(value) == text


def test_the_default_profile_is_valid_and_asks_for_little() -> None:
    path = Path(__file__).parents[3] / "config" / "runtimeprofile.yaml"
    (profile,) = read.load_yaml(path.read_text(encoding="utf-8"))
    read.check(profile)
    assert profile["metadata"]["name"] == "default"
    bare = {"spec": {"containers": [{"name": "app"}]}}
    requests = pod_shape(bare, profile, {"runtime": {"weight": 2}}).requests
    assert 0 < requests["cpu"] <= 100
    assert 0 < requests["memory"] <= 256 << 20
    assert pod_shape(bare, profile, batch=True).requests.within(requests)
