"""What the hub keeps of a workload: its own figures, and what it has in common with others once."""

import sys
from typing import Any

from federator.hub.records import workloads
from federator.kinds import asks, registry
from federator.model.policy import DEFAULT_POLICY

SERVICE = "PinterestService"


def service(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "app", "image": "a", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": SERVICE,
        "metadata": {
            "name": name,
            "namespace": "feed",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 3,
            "labels": {"app": name},
            "creationTimestamp": f"2026-01-01T00:00:0{len(name)}Z",
        },
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}, **spec},
    }


def test_an_ask_is_made_again_as_it_was_read() -> None:
    obj = service("web")
    ask = workloads.summarise(SERVICE, obj, None).ask
    assert ask == asks.ask(obj, registry.verbs_of(SERVICE), DEFAULT_POLICY)
    assert ask is not None
    assert (ask.uid, ask.generation, ask.labels["app"]) == ("uid-web", 3, "web")


def test_what_workloads_have_in_common_is_kept_once() -> None:
    one, other = (workloads.summarise(SERVICE, service(name), None) for name in ("web", "apis"))
    assert one.wants is other.wants
    assert one.traits is other.traits
    assert one.ask != other.ask
    own = sum(sys.getsizeof(getattr(one, name)) for name in ("uid", "resource_version"))
    assert sys.getsizeof(one) + own < 300
    more = workloads.summarise(SERVICE, service("web", replicas=3), None)
    assert more.wants is not one.wants
    placed = service("web", placement={"policyRef": {"name": "zonal"}})
    assert workloads.summarise(SERVICE, placed, None).traits is not one.traits


def test_a_workload_that_cannot_be_read_asks_for_nothing_and_says_why() -> None:
    broken = workloads.summarise(SERVICE, service("web", runtimeProfile="no such"), None)
    assert broken.ask is None
    assert broken.problem


def test_with_an_earlier_spec_in_force_it_asks_for_its_own_generation() -> None:
    workload = workloads.summarise(SERVICE, service("web"), None)
    serving = workload.serving(
        {"replicas": 1}, generation=2, content=b"x", profile="plain", max_unavailable=4
    )
    assert (serving.generation, serving.content, serving.served) == (2, b"x", {"replicas": 1})
    assert (serving.profile, serving.max_unavailable) == ("plain", 4)
    assert serving.ask == workload.ask
