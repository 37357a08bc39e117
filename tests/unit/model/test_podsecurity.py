"""The Pod Security Standards, on a table of pods that is written from the documentation."""

from typing import Any

import pytest

from federator.model.kubernetes import pod_security
from federator.model.kubernetes.pod_security import Enforced, Level
from tests import hostilepods
from tests.hostilepods import Row


def found(template: dict[str, Any], level: Level) -> list[str]:
    return [one.path for one in pod_security.violations(template, level)]


@pytest.mark.parametrize("row", hostilepods.EVERY, ids=lambda row: row.path)
def test_a_hostile_pod_is_refused_with_the_path_of_its_field(row: Row) -> None:
    assert row.path in found(row.template, Level(row.level))
    if row.level == "restricted":
        assert found(row.template, Level.BASELINE) == []
    assert found(row.template, Level.PRIVILEGED) == []


@pytest.mark.parametrize(
    ("where", "row"),
    hostilepods.IN_EVERY_LIST,
    ids=[f"{where} {row.path}" for where, row in hostilepods.IN_EVERY_LIST],
)
def test_a_hostile_container_of_another_kind_is_refused_alike(where: str, row: Row) -> None:
    assert found(row.template, Level(row.level)) == [row.path]
    if row.level == "restricted":
        assert found(row.template, Level.BASELINE) == []


@pytest.mark.parametrize("row", hostilepods.ALLOWED, ids=range(len(hostilepods.ALLOWED)))
def test_an_honest_pod_is_allowed_at_every_level(row: Row) -> None:
    assert found(row.template, Level.RESTRICTED) == []


def test_the_table_has_a_row_for_every_control() -> None:
    seen = {
        (one.control, one.level)
        for row in hostilepods.EVERY
        for one in pod_security.violations(row.template, Level.RESTRICTED)
    }
    assert seen == {(control.name, control.level) for control in pod_security.CONTROLS}
    assert len(hostilepods.EVERY) >= 55


def test_ephemeral_containers_are_looked_at_too() -> None:
    pod = {
        "spec": {
            "ephemeralContainers": [{"name": "debug", "securityContext": {"privileged": True}}]
        }
    }
    assert found(pod, Level.BASELINE) == ["spec.ephemeralContainers[0].securityContext.privileged"]


def test_a_windows_pod_needs_not_what_windows_does_not_have() -> None:
    pod = {
        "spec": {
            "os": {"name": "windows"},
            "securityContext": {"runAsNonRoot": True},
            "containers": [{"name": "a"}],
        }
    }
    assert found(pod, Level.RESTRICTED) == []


@pytest.mark.parametrize(
    "pod",
    [
        {},
        {"spec": None},
        {"spec": []},
        {"spec": {"containers": "x", "volumes": 5, "securityContext": [1]}},
        {
            "spec": {
                "containers": [None, 3, {"securityContext": "x", "ports": {"hostPort": 1}}],
                "volumes": [None, "x"],
            }
        },
        {
            "metadata": {"annotations": ["x"]},
            "spec": {"containers": [{"securityContext": {"capabilities": 4}}]},
        },
    ],
)
def test_whatever_json_can_hold_gives_an_answer(pod: dict[str, Any]) -> None:
    list(pod_security.violations(pod, Level.RESTRICTED))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, Enforced()),
        ({pod_security.ENFORCE: ""}, Enforced()),
        ({pod_security.ENFORCE: "privileged"}, Enforced(Level.PRIVILEGED, explicit=True)),
        ({pod_security.ENFORCE: "restricted"}, Enforced(Level.RESTRICTED, explicit=True)),
        ({pod_security.ENFORCE: "Privileged"}, Enforced(Level.RESTRICTED, explicit=True)),
        (
            {pod_security.ENFORCE: "baseline", pod_security.ENFORCE_VERSION: "v1.30"},
            Enforced(Level.BASELINE, "v1.30", explicit=True),
        ),
        ({pod_security.ENFORCE_VERSION: "1.30; x"}, Enforced()),
    ],
)
def test_what_a_namespace_asks_for(labels: dict[str, str], expected: Enforced) -> None:
    assert pod_security.enforced(labels) == expected
