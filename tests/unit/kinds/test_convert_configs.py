"""ConfigMaps and ServiceAccounts as parts of the workloads that use them: one test per rule."""

from typing import Any

import pytest

from tests.unit.kinds.conversions import (
    container,
    converted,
    deployment,
    left,
    native,
    notes,
    only,
    service,
    using,
)


def test_a_config_map_of_one_workload_becomes_its_configuration_and_references_follow() -> None:
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]
    users: dict[str, Any] = {
        "pod": using("settings"),
        "container": {"env": env, "envFrom": [{"configMapRef": {"name": "settings"}}]},
    }
    done = converted(deployment(**users), native("ConfigMap", "settings", data={"a": "1"}))

    obj = only(done)
    assert obj["spec"]["config"] == {"a": "1"}
    assert obj["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == "web-config"
    assert container(obj)["envFrom"] == [{"configMapRef": {"name": "web-config"}}]
    assert container(obj)["env"][0]["valueFrom"]["configMapKeyRef"]["name"] == "web-config"
    assert "in members the ConfigMap web-config" in notes(done)


def test_its_name_follows_the_service() -> None:
    done = converted(
        deployment("web-v1", labels={"app": "web"}, pod=using("c")),
        service(),
        native("ConfigMap", "c", data={"a": "1"}),
    )

    assert only(done)["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == "web-config"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"binaryData": {"a": "AA=="}, "data": {"b": "1"}}, "holds texts only"),
        ({"immutable": True, "data": {"b": "1"}}, "immutable"),
        ({"data": {}}, "it is empty"),
    ],
)
def test_a_config_map_that_cannot_be_expressed_is_left(fields: dict[str, Any], reason: str) -> None:
    done = converted(deployment(pod=using("c")), native("ConfigMap", "c", **fields))

    assert reason in left(done)["ConfigMap/c"]
    assert only(done)["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] == "c"
    assert "its pods need ConfigMap/c in every member" in notes(done)


def test_a_config_map_of_two_workloads_is_left() -> None:
    done = converted(
        deployment("a", pod=using("c")),
        deployment("b", pod=using("c")),
        native("ConfigMap", "c", data={"a": "1"}),
    )

    assert "2 workloads (PinterestService/a, PinterestService/b)" in left(done)["ConfigMap/c"]


def test_a_config_map_that_something_else_uses_is_left() -> None:
    other = {**deployment("db", pod=using("c")), "kind": "ReplicaSet"}
    done = converted(other, native("ConfigMap", "c", data={"a": "1"}))

    assert "ReplicaSet/db, which is not converted" in left(done)["ConfigMap/c"]


def test_a_config_map_that_nobody_uses_is_left() -> None:
    done = converted(deployment(), native("ConfigMap", "c", data={"a": "1"}))

    assert left(done)["ConfigMap/c"] == "no workload given here uses it"


def test_of_two_config_maps_the_second_is_left() -> None:
    pod = {"volumes": [{"name": n, "configMap": {"name": n}} for n in ("a", "b")]}
    done = converted(
        deployment(pod=pod), *(native("ConfigMap", n, data={n: "1"}) for n in ("a", "b"))
    )

    assert only(done)["spec"]["config"] == {"a": "1"}
    assert "has one ConfigMap" in left(done)["ConfigMap/b"]


def test_a_service_account_is_made_by_members_even_for_several_workloads() -> None:
    pod = {"serviceAccountName": "robot"}
    done = converted(
        deployment("a", pod=pod), deployment("b", pod=pod), native("ServiceAccount", "robot")
    )

    assert done.accounts[-1].into == ("PinterestService/a", "PinterestService/b")


@pytest.mark.parametrize(
    "fields",
    [
        {"imagePullSecrets": [{"name": "s"}]},
        {"automountServiceAccountToken": False},
        {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}}},
    ],
)
def test_a_service_account_with_settings_is_left(fields: dict[str, Any]) -> None:
    done = converted(
        deployment(pod={"serviceAccountName": "robot"}), native("ServiceAccount", "robot", **fields)
    )

    assert "an account that is there is left as it is" in left(done)["ServiceAccount/robot"]


def test_a_service_account_that_nobody_names_is_left() -> None:
    assert (
        "no converted workload names it"
        in left(converted(native("ServiceAccount", "robot")))["ServiceAccount/robot"]
    )


def test_our_role_annotation_becomes_the_role() -> None:
    account = native(
        "ServiceAccount", "robot", metadata={"annotations": {"pinterest.com/iam-role": "role-web"}}
    )

    assert (
        only(converted(deployment(pod={"serviceAccountName": "robot"}), account))["spec"]["iamRole"]
        == "role-web"
    )
