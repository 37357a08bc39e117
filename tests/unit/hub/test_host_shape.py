"""Objects of the host are read without who owns which field, and otherwise as they are."""

from typing import Any

import msgspec
import pytest

from federator.hub.host import host_shape
from federator.hub.host.host_shape import HostShape
from federator.hub.records import seals
from federator.kinds import registry

META: dict[str, Any] = {
    "name": "web",
    "namespace": "feed",
    "generateName": "we",
    "uid": "u-1",
    "resourceVersion": "7",
    "generation": 2,
    "labels": {"app": "web"},
    "annotations": {"a": "b"},
    "finalizers": ["f"],
    "ownerReferences": [{"uid": "o"}],
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "deletionTimestamp": "2026-01-02T00:00:00Z",
    "deletionGracePeriodSeconds": 0,
}
OWNED = [{"manager": "mallory", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}


def read(obj: dict[str, Any]) -> dict[str, Any]:
    shown = msgspec.json.decode(msgspec.json.encode(obj), type=HostShape)
    return shown.as_object("apps/v1", "Deployment")


def test_an_object_is_read_as_it_is_but_for_managed_fields() -> None:
    obj = {"metadata": META, "spec": {"replicas": 3}, "status": {"replicas": 1}}
    owned = {**obj, "metadata": {**META, "managedFields": OWNED}}

    found = read(owned)

    assert isinstance(found["metadata"].pop("managedFields"), msgspec.Raw)
    assert found == {**DEPLOYMENT, **obj}


@pytest.mark.parametrize("spec", [None, 7, [], {}])
def test_what_stands_in_the_place_of_a_spec_is_kept(spec: Any) -> None:
    found = read({"metadata": {"name": "web", "deletionTimestamp": None}, "spec": spec})

    assert found.get("spec") == spec
    assert "status" not in found
    assert "deletionTimestamp" not in found["metadata"]


def test_the_last_writer_of_a_decision_is_still_known() -> None:
    found = read({"metadata": {"name": "web", "managedFields": OWNED}})

    assert seals.author(found) == "mallory at 2026-01-01T00:00:00Z"
    assert seals.author({"metadata": {"managedFields": OWNED}}) == seals.author(found)
    assert seals.author(read({"metadata": {"name": "web"}})) == "somebody else"


def test_a_kind_that_reads_who_owns_which_field_gets_it() -> None:
    def project(obj: dict[str, Any]) -> dict[str, Any]:
        return obj

    assert host_shape.reading(registry.KINDS["PinterestCronJob"], project) == {"project": project}
    assert host_shape.reading(registry.KINDS["MemberCluster"], project) == {"project": project}
    for kind in ("Deployment", "PinterestService", "PlacementDecision"):
        assert host_shape.reading(registry.KINDS[kind], project)["shape"] is HostShape
