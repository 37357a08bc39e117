"""The standard environment: what each container is told, and whose word stands."""

from typing import Any

import pytest

from federator.kinds.natives import pod_templates
from federator.kinds.shared import environment
from federator.kinds.verbs import BARE, EXPANDER, Environment, PodRules, SliceMark, newest_common
from tests.unit.kinds.test_natives import CASES, expand, profile, slice_of

RULES = PodRules(environment=Environment("feed", "a", "r", "z"))
MARK = SliceMark("fleet-1", "host-uid", 1, "east", 9, rules=RULES)


def pods(made: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [template["spec"] for obj in made for template in pod_templates(obj)]


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


@pytest.mark.parametrize("case", CASES)
def test_every_container_of_every_kind_is_told_and_every_object_is_labelled(case: str) -> None:
    text, share, with_profile = CASES[case]
    made = expand(slice_of(text, share), profile() if with_profile else None)
    assert pods(made)
    for pod in pods(made):
        for container in containers(pod):
            if container["name"].startswith("federator-"):
                continue  # the guard, which is ours
            told = {entry["name"]: entry for entry in container["env"]}
            assert len(told) == len(container["env"])
            assert told["PINTEREST_CLUSTER"]["value"] == "east"
            assert told["PINTEREST_ZONE"]["value"] == "us-east-1a"
            assert told["PINTEREST_WORKLOAD_UID"]["value"] == "host-uid"
            source = told["PINTEREST_CPU_REQUEST_MILLI"]["valueFrom"]["resourceFieldRef"]
            assert source == {"resource": "requests.cpu", "divisor": "1m"}
    for obj in made:
        if obj["metadata"]["name"] != "shared":  # a service account of several workloads
            assert obj["metadata"]["labels"][environment.OWNER_LABEL] == "team-a"
            assert environment.PROJECT_LABEL in obj["metadata"]["labels"]


@pytest.mark.parametrize("case", CASES)
def test_slices_of_an_earlier_release_have_neither(case: str) -> None:
    text, share, _ = CASES[case]
    made = expand(slice_of(text, share, BARE), None)
    assert "PINTEREST_" not in str(made)
    assert environment.PROJECT_LABEL not in str(made)


def test_a_variable_of_the_workload_stands_and_may_refer_to_ours() -> None:
    own = [
        {"name": "PINTEREST_ZONE", "value": "mine"},
        {"name": "AT", "value": "$(PINTEREST_CLUSTER)"},
    ]
    pod = {"containers": [{"name": "app", "env": own}]}
    (container,) = environment.with_variables({}, MARK, pod)["containers"]
    names = [entry["name"] for entry in container["env"]]
    assert names.count("PINTEREST_ZONE") == 1
    assert container["env"][-2:] == own
    assert names.index("PINTEREST_CLUSTER") < names.index("AT")
    assert pod["containers"][0]["env"] == own


def test_what_is_not_known_is_left_out_and_the_table_names_all_that_is_told() -> None:
    pod = {"containers": [{"name": "app"}]}
    obj = {
        "kind": "PinterestJobSet",
        "metadata": {"name": "x"},
        "spec": {"activeDeadlineSeconds": 60},
    }
    (full,) = environment.with_variables(obj, MARK, pod)["containers"]
    assert [entry["name"] for entry in full["env"]] == [
        environment.PREFIX + name for name in environment.VARIABLES
    ]
    (bare,) = environment.with_variables({}, SliceMark("f", "u", 1, "east", 1), pod)["containers"]
    assert [entry["name"] for entry in bare["env"]] == [
        "PINTEREST_TIER",
        "PINTEREST_WORKLOAD_UID",
        "PINTEREST_CLUSTER",
        "PINTEREST_CPU_REQUEST_MILLI",
        "PINTEREST_MEMORY_REQUEST_BYTES",
    ]


def test_a_team_that_can_be_no_label_is_in_the_variable_only() -> None:
    mark = SliceMark(
        "f",
        "u",
        1,
        "east",
        1,
        rules=PodRules(environment=Environment("feed", "Team of feeds!")),
    )
    assert environment.labels(mark) == {environment.PROJECT_LABEL: "feed"}


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"region": "r", "zone": "z"}, ("r", "z")),
        ({"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}, ("r", "z")),
        ({"zone": "z", "topology.kubernetes.io/zone": "other"}, ("", "z")),
        ({}, ("", "")),
    ],
)
def test_region_and_zone_are_labels_of_the_cluster(
    labels: dict[str, str], told: tuple[str, str]
) -> None:
    found = environment.of_cluster("feed", "a", labels)
    assert (found.region, found.zone) == told


@pytest.mark.parametrize(
    ("theirs", "rules"), [("", BARE), ("1", BARE), ("2", "2"), ("9", EXPANDER)]
)
def test_hub_and_member_take_the_newest_rules_that_both_know(theirs: str, rules: str) -> None:
    assert newest_common(theirs) == rules
