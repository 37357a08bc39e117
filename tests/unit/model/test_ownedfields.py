"""Fields that we applied once and want no more are found in what server-side apply remembers of us, and only there."""

from typing import Any

import pytest

from federator.model.ownedfields import applied, leftover

WANT = {
    "metadata": {"labels": {"app": "web"}, "finalizers": ["a"]},
    "spec": {"replicas": 0, "ports": [{"port": 80}, {"port": 81, "protocol": "UDP"}], "args": ["x"]},
}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:replicas": {}, "f:args": {}}}, ""),
        ({"f:metadata": {"f:labels": {"f:app": {}, "f:tier": {}}}}, "f:metadata f:labels f:tier"),
        ({"f:spec": {"f:strategy": {"f:type": {}}}}, "f:spec f:strategy"),
        ({"f:metadata": {"f:finalizers": {'v:"a"': {}}}}, ""),
        ({"f:metadata": {"f:finalizers": {'v:"b"': {}}}}, 'f:metadata f:finalizers v:"b"'),
        ({"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:protocol": {}}}}}, ""),
        ({"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}, "f:name": {}}}}}, "f:name"),
        ({"f:spec": {"f:ports": {'k:{"port":81,"protocol":"TCP"}': {"f:port": {}}}}}, 'k:{"port":81,"protocol":"TCP"}'),
        ({"f:spec": {"f:args": {"i:0": {}}, "f:ports": {"k:no JSON": {}, "k:[]": {}, "x": {}}}}, ""),
    ],
)
def test_the_first_field_that_is_wanted_no_more_is_named(fields: dict[str, Any], expected: str) -> None:
    found = leftover(fields, WANT)

    assert found.endswith(expected)
    assert bool(found) == bool(expected)


def test_only_what_this_manager_applied_to_the_object_itself_counts() -> None:
    mine = {"f:spec": {"f:replicas": {}}}
    entries = [
        {"manager": "us", "operation": "Update", "fieldsV1": {"f:a": {}}},
        {"manager": "us", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:b": {}}},
        {"manager": "them", "operation": "Apply", "fieldsV1": {"f:c": {}}},
        "nonsense",
        {"manager": "us", "operation": "Apply", "fieldsV1": mine},
    ]

    assert applied({"managedFields": entries}, "us") == mine
    assert applied({"managedFields": [{"manager": "us", "operation": "Apply", "fieldsV1": None}]}, "us") == {}
    assert applied({"managedFields": None}, "us") == {}
    assert applied({}, "us") == {}
