"""A planned decision is read from the decision itself, and says what its object would say."""

from typing import Any, Final

import pytest

from federator.api.placement import decidedfacts, decisionfacts
from federator.hub.placing import offline
from federator.kinds import registry

CAUSE: Final = "planned\x1b[0m"
CONTENT: Final = bytes(range(16))
Obj = dict[str, Any]


def _cluster(name: str, zone: str, cpu: int) -> Obj:
    room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    rows = [{"count": 2, "allocatable": room, "free": room}]
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"zone": zone}},
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"includesSeq": 0, "nodes": rows},
        },
    }


def _policy(**spec: Any) -> Obj:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "rules", "namespace": "ads", "uid": "p-1", "generation": 3},
        "spec": spec,
    }


def _works() -> list[Obj]:
    """A service, a stateful service, a daemon, a job set and a plain Deployment."""
    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "0"}},
    }
    pods = {"spec": {"containers": [container], "nodeSelector": {"disk": "ssd"}}}
    plain = {"spec": {"containers": [container]}}
    labels = {"app": "app"}
    specs = {
        "PinterestService": {"replicas": 9, "template": plain},
        "PinterestStatefulSet": {"replicas": 4, "template": plain},
        "PinterestDaemonSet": {"template": pods},
        "PinterestJobSet": {"shards": 6, "parallelism": 3, "template": plain},
        "Deployment": {
            "replicas": 50,
            "selector": {"matchLabels": labels},
            "template": {**plain, "metadata": {"labels": labels}},
        },
    }
    return [
        {
            "apiVersion": registry.KINDS[kind].api_version,
            "kind": kind,
            "metadata": {"name": f"w-{kind.lower()}", "namespace": "ads", "generation": 7},
            "spec": spec,
        }
        for kind, spec in specs.items()
        if kind in registry.WORKLOADS
    ]


POLICIES: Final = {
    "plain": _policy(),
    "each cluster": _policy(division={"strategy": "Duplicate"}),
    "a broken soft rule": _policy(
        spread=[{"topologyKey": "zone", "minDomains": 3, "whenUnsatisfiable": "ScheduleAnyway"}]
    ),
    "all or nothing": _policy(partial="RequireAll", maxClustersAtOnce=1),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_decision_reads_as_its_object_would(policy: Obj) -> None:
    clusters = [_cluster("a", "x", 16), _cluster("b", "x", 8), _cluster("c", "y", 4)]
    situation = offline.read([*clusters, policy, *_works()], as_of=1_700_000_000.1234567)
    pairs = situation.decide_all()

    assert len(pairs) >= 4
    for ask, decision in pairs:
        obj = offline.as_object(ask, decision, CAUSE, content=CONTENT)
        facts = decidedfacts.of(decision, ask, CAUSE, name=obj["metadata"]["name"], content=CONTENT)

        assert facts == decisionfacts.decision_facts(obj)
        uid = "4be1d1f8-3e11-4b35-8c5c-0d1f4c4f0a11"
        moved = decidedfacts.in_object(facts, uid, "yesterday")
        obj["metadata"]["uid"], obj["spec"]["rebalanced"] = uid, "yesterday"
        assert moved == decisionfacts.decision_facts(obj)
