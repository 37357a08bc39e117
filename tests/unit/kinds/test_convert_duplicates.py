"""What a workload has twice is converted without a change of what it does, or left alone."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federator.convert import templates
from federator.convert.drafts import LeftAlone
from tests import casetables
from tests.unit.kinds.conversions import (
    container,
    converted,
    deployment,
    job,
    left,
    notes,
    only,
    service,
)


def env(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in pairs]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([("O", "-a"), ("O", "$(O) -b")], [("O", "-a -b")]),
        ([("O", "-a"), ("O", "$(O) -b"), ("O", "$(O) -c")], [("O", "-a -b -c")]),
        ([("A", "1"), ("B", "$(A)"), ("A", "2")], [("B", "1"), ("A", "2")]),
        ([("A", "$"), ("B", "$(A)$(A)"), ("A", "")], [("B", "$$$$"), ("A", "")]),
        ([("A", "$"), ("B", "$(A)(C)"), ("A", "")], [("B", "$$(C)"), ("A", "")]),
        ([("A", "1"), ("A", "2"), ("B", "$(A)")], [("A", "2"), ("B", "$(A)")]),
        ([("A", "x$$(B)"), ("A", "$(A)$$(A)")], [("A", "x$$(B)$$(A)")]),
        ([("C", "c"), ("A", "$(C)"), ("A", "$(A)!")], [("C", "c"), ("A", "$(C)!")]),
    ],
)
def test_a_variable_that_builds_on_its_namesake_keeps_its_value(
    given: list[tuple[str, str]], kept: list[tuple[str, str]]
) -> None:
    done = converted(deployment(container={"env": env(*given)}))
    assert container(only(done))["env"] == env(*kept)


def test_the_reported_manifest_keeps_its_options() -> None:
    path = next(
        iter(casetables.files("reports/09-convert-env-that-builds-on-itself", "in.yaml")), None
    )
    if path is None:
        pytest.skip("the report is not there; set FEDERATOR_CASES")
    from federator.kinds import read

    done = converted(*read.load_yaml(path.read_text(encoding="utf-8")))
    assert container(only(done))["env"] == env(("OPTS", "-a -b"))


def test_what_cannot_be_folded_is_left_with_the_field() -> None:
    from_field = {"name": "O", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    done = converted(deployment(container={"env": [from_field, *env(("O", "$(O)-b"))]}))
    assert list(left(done).values()) == [
        "spec.template.spec.containers[0].env[1]: builds on"
        " spec.template.spec.containers[0].env[0], which has its value from elsewhere; give it"
        " another name"
    ]
    changed = env(("O", "$(X)"), ("X", "2"), ("O", "$(O)!"))
    (reason,) = left(converted(deployment(container={"env": changed}))).values()
    assert reason.endswith("which refers to a variable that changes in between")


NAMES = st.sampled_from("ABC")
PIECES = st.sampled_from(["a", "$(A)", "$(B)", "$(C)", "$$", "$$(A)", "$", "$(", ")"])
PAIRS = st.lists(st.tuples(NAMES, st.lists(PIECES, max_size=4).map("".join)), max_size=6)


def seen(entries: list[dict[str, Any]]) -> dict[str, str]:
    """What containers see: kubelets expand each value once, in order; an unknown name stays."""
    values: dict[str, str] = {}

    def expanded(found: "re.Match[str]") -> str:
        if found[1] is None:
            return "$"
        return values.get(found[1], found[0])

    for entry in entries:
        values[entry["name"]] = re.sub(r"\$(?:\$|\(([^)]*)\))", expanded, entry["value"])
    return values


@given(PAIRS)
def test_containers_see_the_same_before_and_after(pairs: list[tuple[str, str]]) -> None:
    before = {"name": "main", "env": env(*pairs)}
    try:
        template, _ = templates.tidy(
            {"spec": {"containers": [before]}}, "t", lambda _: None, live=False
        )
    except LeftAlone:
        return
    after = template["spec"]["containers"][0]["env"]
    assert seen(after) == seen(env(*pairs))
    assert len({entry["name"] for entry in after}) == len(after)


def test_two_ports_of_the_node_for_one_of_the_container_are_left() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 81}]
    (reason,) = left(converted(deployment(container={"ports": ports}))).values()
    assert reason.startswith("spec.template.spec.containers[0].ports[1].hostPort: port 80 has")


def test_a_port_of_the_node_in_the_second_entry_is_kept() -> None:
    ports = [
        {"containerPort": 80, "name": "http"},
        {"containerPort": 80, "hostPort": 8080, "name": "web"},
        {"containerPort": 80, "protocol": "UDP", "hostPort": 81},
    ]
    done = converted(deployment(container={"ports": ports}))
    assert container(only(done))["ports"] == [
        {"containerPort": 80, "name": "http", "hostPort": 8080},
        ports[2],
    ]
    assert "the name web is replaced by its number" in notes(done)


def test_a_service_with_the_name_of_another_stateful_set_leaves_that_one() -> None:
    """Its headless Service would stand in the place of the one that leads to the others."""
    claims = deployment("db", serviceName="peers") | {"kind": "StatefulSet"}
    balanced = service("db", app="db")
    elsewhere = service("db", app="web", clusterIP="None")
    for other in (balanced, elsewhere):
        reasons = left(converted(claims, deployment("web"), other)).values()
        assert any("give one of them another name" in reason for reason in reasons), reasons


def test_a_service_does_not_name_a_workload_as_a_job_is_named() -> None:
    reasons = left(converted(deployment("api"), service("sync", app="api"), job("sync"))).values()
    assert any("cannot take its name, which Job/sync has" in reason for reason in reasons)
