"""The profiles in config/profiles: valid, of roles that there are, and with requests that follow the
measurement."""

import json
from pathlib import Path
from typing import Any

import pytest

from federator.kinds import read
from federator.kinds.pods.inject import inject
from federator.runtime import roles
from federator.runtime.roles import Pod
from tests.unit.kinds.podshapes import pod_shape

ROOT = Path(__file__).parents[3] / "config" / "profiles"
NAMES = ("batch", "daemon", "service", "training")
TEMPLATE: dict[str, Any] = {
    "spec": {
        "serviceAccountName": "web",
        "containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 8080}]}],
    }
}


def profile(name: str) -> dict[str, Any]:
    (obj,) = read.load_yaml((ROOT / f"{name}.yaml").read_text(encoding="utf-8"))
    read.check(obj)
    return dict(obj)


def runtime(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in pod["spec"]["initContainers"] if each["name"] == name)


def wanted(container: dict[str, Any]) -> list[str]:
    argument: str = next(each for each in container["args"] if each.startswith("--roles="))
    return argument.removeprefix("--roles=").split(",")


def test_there_is_a_profile_for_each_need_and_a_line_about_it() -> None:
    files = {path.stem for path in ROOT.glob("*.yaml")}
    assert sorted(files - {"kustomization", "settings"}) == list(NAMES)
    text = (ROOT / "README.md").read_text()
    for name in NAMES:
        assert f"[{name}]({name}.yaml)" in text
        assert profile(name)["metadata"]["name"] == name


@pytest.mark.parametrize("name", NAMES)
def test_its_containers_run_roles_that_there_are_with_the_variables_that_they_need(
    name: str,
) -> None:
    pod = inject(TEMPLATE, profile(name))
    for container in (runtime(pod, "runtime-init"), runtime(pod, "runtime")):
        env = {each["name"]: each.get("value", "10.0.0.1") for each in container["env"]}
        env |= {"POD_NAMESPACE": "ads", "POD_SERVICE_ACCOUNT": "web", "POD_UID": "1" * 32}
        env |= {"POD_NAME": "web-0", "PINTEREST_WORKLOAD_NAME": "web"}
        parts = roles.made(wanted(container), Pod(env=env))

        assert [each.name for each in parts] == wanted(container)
        assert not [each.state() for each in parts if each.state().reason == "Unusable"]


@pytest.mark.parametrize("name", NAMES)
def test_the_sidecar_ends_after_the_application_and_asks_for_what_was_measured(name: str) -> None:
    made = profile(name)
    pod = inject(TEMPLATE, made)
    assert runtime(pod, "runtime")["restartPolicy"] == "Always"
    assert [each["name"] for each in pod["spec"]["containers"]] == ["app"]
    requests = pod_shape(TEMPLATE, made).requests
    assert requests["memory"] == 2 * 48 << 20 or requests["memory"] == 48 << 20
    assert requests["cpu"] <= 20


def test_only_services_are_registered_and_drained() -> None:
    service = inject(TEMPLATE, profile("service"))
    app = service["spec"]["containers"][0]
    assert app["lifecycle"]["preStop"] == {"httpGet": {"path": "/drain", "port": 15190}}
    for name in set(NAMES) - {"service"}:
        assert "lifecycle" not in inject(TEMPLATE, profile(name))["spec"]["containers"][0]
        assert "traffic" not in json.dumps(profile(name)["spec"])


def test_the_default_profile_is_that_of_services_with_registration_on_request() -> None:
    text = (ROOT.parent / "runtimeprofile.yaml").read_text(encoding="utf-8")
    (default,) = read.load_yaml(text)
    read.check(default)
    asked = inject(TEMPLATE, default, {"runtime": {"register": True}})
    assert asked["spec"]["containers"][0]["lifecycle"]["preStop"]
    assert "lifecycle" not in inject(TEMPLATE, default)["spec"]["containers"][0]

    (same,) = read.load_yaml(
        text.replace('REGISTER, default: "false"', 'REGISTER, default: "true"')
    )
    spec, service = dict(same["spec"]), dict(profile("service")["spec"])
    assert same["metadata"] == {"name": "default"}
    assert (spec.pop("version"), service.pop("version")) == ("2", "1")
    assert spec == service
