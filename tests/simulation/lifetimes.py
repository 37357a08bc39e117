"""The fixed script of the enumerated crash points: twelve workloads over their whole life, in one
small world.

Every action has time to take effect, also when a process is down for a moment, so that a run with a
crash makes and removes as many objects as one without. Nor does any number of objects depend on
which of two equal clusters got a copy: a hub that starts in between takes what is still to be
placed in another order, and ties fall otherwise. So what is scaled has copies in both clusters
before. (With one copy, scaled up while the other was cordoned and down again, it took a slice more
or less by where that copy was.)
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.simulation.drawing import Parameters
from tests.simulation.script import DEPLOYMENT, JOBSET, SERVICE, Action

WORLD = Parameters(
    seed=0, members=2, nodes=2, steps=0, pause_s=0.0, restart_s=1.0, quota_cpu=0, hub={}, member={}
)
STEP_S = 8.0
LAST_S = 20.0
"""Everything has come to rest so long after the last action."""


def write() -> list[Action]:
    """All of it."""
    return [
        *_births(),
        *_lives(),
        *_deaths(),
        Action(LAST_S, "patch", "MemberCluster", "", "a", {"spec": {}}),
    ]


def _births() -> Iterator[Action]:
    limits = {"OnDemand": {"max": {"cpu": "500m", "memory": "64Gi"}}}
    quota = {
        "projects": ["ads"],
        "namespaces": ["ads"],
        "tiers": limits,
        "unknownProjects": "Allow",
    }
    yield _do("create", "FederatedQuota", "", "ads", quota, after=1.0)
    yield _do("create", SERVICE, "ads", "bounded", {"replicas": 2, **_template(1)})
    yield _do("create", SERVICE, "feed", "scaled", {"replicas": 2, **_template(1)})
    yield _do(
        "create", SERVICE, "feed", "api", {"replicas": 1, **_template(1)}
    )  # its namesake stands in a
    yield _do(
        "create",
        SERVICE,
        "feed",
        "rolled",
        {"replicas": 2, "service": {"ports": [{"port": 80}]}, **_template(1)},
    )
    yield _do("create", SERVICE, "feed", "again", {"replicas": 1, **_template(1)})
    zones = {
        "clusters": {
            "selector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z-1"]}]}
        }
    }
    yield _do(
        "create", SERVICE, "feed", "zoned", {"replicas": 1, "placement": zones, **_template(1)}
    )
    yield _do("create", SERVICE, "feed", "paused", {"replicas": 1, **_template(1)})
    yield _do("create", JOBSET, "feed", "index", _jobset(shards=3, slots=2, run_s=2))
    yield _do("create", JOBSET, "feed", "stopped", _jobset(shards=1, slots=1, run_s=120))
    yield _do("create", JOBSET, "feed", "twice", _jobset(shards=1, slots=1, run_s=2))
    yield _do("create", DEPLOYMENT, "feed", "page", _carried("page", replicas=2))
    yield _do("create", DEPLOYMENT, "feed", "site", _carried("site", replicas=1))


def _lives() -> Iterator[Action]:
    yield Action(STEP_S, "patch", "MemberCluster", "", "b", {"spec": {"cordoned": True}})
    yield _do("patch", SERVICE, "feed", "scaled", {"replicas": 4})
    yield _do("patch", SERVICE, "feed", "rolled", _template(2))
    yield _do("patch", DEPLOYMENT, "feed", "page", {"replicas": 3})
    yield _do("patch", SERVICE, "feed", "paused", {"suspend": True})
    policy = {"clusters": {"exclude": ["b"]}, "rollout": {"maxClustersAtOnce": 1}}
    yield _do("create", "PlacementPolicy", "ads", "where", policy, after=STEP_S)
    yield _do("re-create", SERVICE, "feed", "again", {"replicas": 1, **_template(2)})
    yield _do("re-create", JOBSET, "feed", "twice", _jobset(shards=2, slots=1, run_s=2))
    yield Action(STEP_S, "patch", "MemberCluster", "", "b", {"spec": {"cordoned": False}})
    yield _do("patch", "PlacementPolicy", "ads", "where", {"clusters": {"exclude": ["a"]}})
    yield Action(0.0, "patch", "MemberCluster", "", "a", {"metadata": {"labels": {"zone": "z-2"}}})
    yield Action(0.0, "patch", "MemberCluster", "", "b", {"metadata": {"labels": {"zone": "z-1"}}})


def _deaths() -> Iterator[Action]:
    yield _do(
        "patch",
        "FederatedQuota",
        "",
        "ads",
        {"tiers": {"OnDemand": {"max": {"cpu": "1"}}}},
        after=STEP_S,
    )
    yield _do("patch", DEPLOYMENT, "feed", "site", _template(2))
    yield _do("patch", SERVICE, "feed", "scaled", {"replicas": 1})
    yield _do("patch", SERVICE, "feed", "paused", {"suspend": False})
    yield _do("delete", JOBSET, "feed", "stopped", after=STEP_S)
    yield _do("delete", SERVICE, "feed", "rolled")
    yield _do("delete", DEPLOYMENT, "feed", "page")
    yield _do("delete", "PlacementPolicy", "ads", "where")
    yield _do("delete", SERVICE, "feed", "zoned", after=STEP_S)
    yield _do("re-create", DEPLOYMENT, "feed", "site", _carried("site", replicas=1))


def _do(
    what: str,
    kind: str,
    namespace: str,
    name: str,
    spec: Mapping[str, Any] | None = None,
    *,
    after: float = 0.0,
) -> Action:
    return Action(after, what, kind, namespace, name, {"spec": spec} if spec is not None else {})


def _container(image: int) -> dict[str, Any]:
    requests = {"cpu": "500m", "memory": "64Mi"}
    return {"name": "app", "image": f"app:{image}", "resources": {"requests": requests}}


def _template(image: int) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [_container(image)]}}}


def _carried(app: str, *, replicas: int) -> dict[str, Any]:
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [_container(1)]}}
    return {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}


def _jobset(*, shards: int, slots: int, run_s: int) -> dict[str, Any]:
    return {
        "shards": shards,
        "parallelism": slots,
        "template": {
            "metadata": {"annotations": {"embedded.federator/run-seconds": str(run_s)}},
            "spec": {"restartPolicy": "Never", "containers": [_container(1)]},
        },
    }
