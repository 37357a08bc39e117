"""The hub's bounded copies of host objects: what is kept, and for how long it counts."""

from typing import Any, cast

from federator.hub.host.documents import Documents
from federator.hub.records import workloads
from federator.kube.client import Client
from federator.model.names import WorkloadKey
from tests.bench import fleets

NO_HOST = cast(Client, None)


def obj(name: str, version: str = "1", **meta: Any) -> dict[str, Any]:
    made = fleets.deployment(name, "feed", 3)
    made["metadata"] |= {"uid": f"u-{name}", "resourceVersion": version, "generation": 1} | meta
    return made


def offered(documents: Documents, given: dict[str, Any]) -> WorkloadKey:
    summary = workloads.summarise("Deployment", given, None)
    documents.offer(summary.key, given, summary)
    return summary.key


def test_it_is_full_with_as_many_as_it_keeps() -> None:
    documents = Documents(NO_HOST, 2)
    offered(documents, obj("a"))
    assert not documents.full
    offered(documents, obj("b"))
    assert documents.full


def test_the_summary_holds_while_at_most_the_status_changes() -> None:
    documents = Documents(NO_HOST, 2)
    key = offered(documents, obj("a", labels={"x": "1", "y": "2"}, annotations={"n": "é"}))
    later = obj("a", "2", labels={"y": "2", "x": "1"}, annotations={"n": "é"})
    renewed = documents.renewed(key, {**later, "status": {"replicas": 3}})
    assert renewed is not None
    assert renewed.resource_version == "2"
    assert renewed.live_status() == {"replicas": 3}


def test_it_does_not_hold_once_labels_annotations_or_generation_change() -> None:
    documents = Documents(NO_HOST, 2)
    key = offered(documents, obj("a", labels={"x": "1"}))
    assert documents.renewed(key, obj("a", "2", labels={"x": "2"})) is None
    assert documents.renewed(key, obj("a", "2", labels={})) is None
    assert documents.renewed(key, obj("a", "2", annotations={"x": "1"})) is None
    assert documents.renewed(key, obj("a", "2", labels={"x": "1"}, generation=2)) is None
    assert documents.renewed(key, obj("a", "2", labels={"x": "1"})) is not None
