"""A member's servers go away, come back from the past, or take fewer pods than they promised.

Told by test_failures.py, and at length by `python -m tests.e2e.failures`. The member is b, whose
servers are its own.
"""

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e import failures_kills, failures_writes, workloads
from tests.e2e.failures_compare import PATHS, Asked
from tests.e2e.failures_fleet import HUBS, MEMBERS, UNREADY_S, FailureFleet
from tests.e2e.federations import until

RENEWAL_S = 3.0
"""By then a leader has written on the Lease what it buried; its heir knows it from there."""
SPREAD = {"division": {"strategy": "Spread"}}
"""Every workload has a part in every member."""
PROBES_MAX = 60
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}


def spread(asked: Asked) -> None:
    """The services of the namespace are spread over all members. Returns when that is so: a hub
    that hears of a workload before it hears of its policy leaves it where it is, and a member that
    is not ready gets nothing.
    """
    policy = workloads.policy("everywhere", asked.namespace, "", **SPREAD)
    policy["spec"]["workloads"] = {"kinds": ["PinterestService", "PinterestJobSet"]}
    path = f"/apis/federation.pinterest.com/v1alpha1/namespaces/{asked.namespace}/placementpolicies"
    asked.ground.ask("host", path, "POST", policy)
    for number in range(PROBES_MAX):
        name = f"probe-{number}"
        asked.create(workloads.service(name, asked.namespace, len(MEMBERS)))
        asked.comes_about()
        clusters = [cluster for cluster, _ in _where(asked)[name]]
        asked.delete("PinterestService", name)
        asked.comes_about()
        if len(clusters) == len(MEMBERS):
            return
    raise AssertionError(f"after {PROBES_MAX} tries services are still not spread over {MEMBERS}")


def server_away(
    ground: FailureFleet, asked: Asked, *, count: int, away_s: float, rest_s: float
) -> dict[str, float]:
    """b's API server is stopped for a while: b is not ready at its threshold, nothing moves, what
    is asked meanwhile of workloads there is done when it is back.
    """
    spread(asked)
    for index in range(count):
        asked.create(workloads.service(f"away-{index}", asked.namespace, 4))
    asked.comes_about()
    before, begun = _where(asked), time.time()
    ground.outage.stop("apiserver")
    stopped_s = time.monotonic()
    until(
        lambda: ground.summary("b") != "Ready",
        lambda: "the host says that b is ready",
        UNREADY_S + 15,
    )
    unready_s = time.monotonic() - stopped_s
    time.sleep(max(0.0, stopped_s + away_s - time.monotonic()))
    assert _where(asked) == before, "work moved because a control plane could not be reached"
    moved = [
        w.row
        for w in failures_writes.since(failures_writes.read(ground.clusters), begun)
        if _acts_on(w, asked)
    ]
    failures_writes.none(moved, "writes about work while a server is away")
    for index in range(0, count, 2):
        asked.delete("PinterestService", f"away-{index}")
    ground.outage.start("apiserver")
    back_s = time.monotonic()
    ground.deployed.ready("b")
    ready_s = time.monotonic() - back_s
    asked.comes_about()
    settled_s = time.monotonic() - back_s
    assert {key: found for key, found in before.items() if key in _where(asked)} == _where(asked), (
        "work moved"
    )
    failures_writes.none(failures_writes.fallen(failures_writes.read(ground.clusters)), "seqs fell")
    # Its watches are opened again one by one, each up to a minute after the last try that failed
    # (client-go: 30 s and as much jitter): until the last one is, its process does not know all
    # that is gone.
    until(
        lambda: not _left_over(asked, "b"),
        lambda: f"b's own garbage collector has left {_left_over(asked, 'b')}",
        90.0,
    )
    until(
        lambda: _reports_truly(ground, "b"),
        lambda: "the host's figures of b are not what b has",
        60.0,
    )
    failures_writes.at_rest(ground.clusters, rest_s)
    return {
        "not ready after s": unready_s,
        "ready again after s": ready_s,
        "settled after s": settled_s,
    }


def _reports_truly(ground: FailureFleet, name: str) -> bool:
    """Whether a member's report counts the pods that its nodes have, and the host has a copy
    of it.
    """
    report = ground.ask(name, "/apis/federation.pinterest.com/v1alpha1/clustercapacities/cluster")[
        "status"
    ]
    member = ground.ask("host", f"/apis/federation.pinterest.com/v1alpha1/memberclusters/{name}")
    pods = ground.ask(name, "/api/v1/pods")["items"]
    bound = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName") and pod["status"]["phase"] in ("Pending", "Running")
    ]
    taken = sum(
        (int(r["allocatable"]["pods"]) - int(r["free"]["pods"])) * r["count"]
        for r in report["nodes"]
    )
    return bool(taken == len(bound) and member["status"]["capacity"]["nodes"] == report["nodes"])


def _tainted(ground: FailureFleet, name: str) -> bool:
    """Whether a member's report tells of taints."""
    report = ground.ask(name, "/apis/federation.pinterest.com/v1alpha1/clustercapacities/cluster")[
        "status"
    ]
    return any("taints" in row for row in report["nodes"])


def _refuses(asked: Asked, name: str) -> bool:
    """Whether a member's scheduler has bound none of the pods. Those that it has bound are deleted,
    and replaced.
    """
    pods = [pod for pod in asked.items(name, "Pod") if "deletionTimestamp" not in pod["metadata"]]
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    if bound:
        asked.ground.ask(name, PATHS["Pod"].format(asked.namespace), "DELETE")
    told = [
        c
        for pod in pods
        for c in pod["status"].get("conditions", ())
        if c["type"] == "PodScheduled"
    ]
    return not bound and bool(pods) and len(told) == len(pods)


def _left_over(asked: Asked, name: str) -> set[str]:
    """What a member still has of services that are gone: objects whose owner is."""
    inside = f"namespaces/{asked.namespace}"

    def found(path: str) -> list[Any]:
        items: list[Any] = asked.ground.ask(name, path)["items"]
        return items

    sets = found(f"/apis/apps/v1/{inside}/replicasets")
    owners = [
        *found(f"/apis/apps/v1/{inside}/deployments"),
        *sets,
        *found(f"/api/v1/{inside}/services"),
    ]
    owned = [
        *sets,
        *found(f"/api/v1/{inside}/pods"),
        *found(f"/apis/discovery.k8s.io/v1/{inside}/endpointslices"),
    ]
    uids = {one["metadata"]["uid"] for one in owners}
    return {
        one["metadata"]["name"]
        for one in owned
        if not any(owner["uid"] in uids for owner in one["metadata"].get("ownerReferences", ()))
    }


def _where(asked: Asked) -> Mapping[str, list[Any]]:
    """The shares of every decision, by workload."""
    return {
        found["spec"]["workload"]["name"]: sorted(
            (s["cluster"], s["replicas"]) for s in found["spec"]["shares"]
        )
        for found in asked.items("host", "PlacementDecision")
    }


def _acts_on(write: failures_writes.Write, asked: Asked) -> bool:
    """Whether it changes what runs: a decision, a slice or a native object, and no status."""
    return (
        write.namespace == asked.namespace
        and "/" not in write.resource
        and write.resource != "events"
    )


def server_restored(
    ground: FailureFleet,
    asked: Asked,
    *,
    home: Path,
    count: int,
    seed: int,
    rest_s: float,
    restart_hub: bool = False,
) -> dict[str, float]:
    """b is put back to an earlier state of its etcd: slices are older than decided, deleted ones
    are back, new ones are missing, and versions count from the past on. Everything is repaired, and
    what was deleted goes again.
    """
    rng, begun = random.Random(seed), time.time()
    spread(asked)
    for index in range(count):
        asked.create(_mixed(index, asked.namespace))
    asked.comes_about()
    ground.outage.snapshot(home / "etcd-earlier")
    asked.comes_about()
    for index in range(count):
        kind, name = _key(index)
        if index % 4 == 0:
            asked.delete(kind, name)
        elif index % 4 == 1 and kind == "PinterestService":
            asked.scale(kind, name, rng.randint(6, 8))
    for index in range(count, count + count // 2):
        asked.create(_mixed(index, asked.namespace))
    asked.create(
        workloads.service("back-0", asked.namespace, 6)
    )  # the same name as one that is deleted
    asked.comes_about()
    _no_seq_fell(ground, begun)
    if restart_hub:
        time.sleep(RENEWAL_S)
        ground.kill(ground.leader())
    begun = time.time()
    ground.outage.restore(home / "etcd-earlier")
    back_s = time.monotonic()
    ended = ground.has_ended("member-b", 60.0)
    assert ended == 1, f"the member process ended with {ended}, not to begin anew"
    noticed_s = time.monotonic() - back_s
    ground.all_run()
    asked.comes_about(150.0)
    settled_s = time.monotonic() - back_s
    _no_seq_fell(ground, begun)
    failures_writes.at_rest(ground.clusters, rest_s)
    assert ground.told(*HUBS).count("came back after its workload") >= 2
    events = ground.ask("host", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    told = {event["regarding"]["name"] for event in events if event["reason"] == "MemberWentBack"}
    assert told == {"b"}, f"the host's Events tell of {told}"
    return {"noticed by its process after s": noticed_s, "settled after s": settled_s}


def _no_seq_fell(ground: FailureFleet, since_s: float) -> None:
    """Within one history of a server: a restored one begins another."""
    found = failures_writes.since(failures_writes.read(ground.clusters), since_s)
    failures_writes.none(failures_writes.fallen(found), "seqs fell")


def _key(index: int) -> tuple[str, str]:
    return ("PinterestJobSet" if index % 4 == 2 else "PinterestService"), f"back-{index}"


def _mixed(index: int, namespace: str) -> Mapping[str, Any]:
    kind, name = _key(index)
    if kind == "PinterestService":
        return workloads.service(name, namespace, 4)
    found = workloads.jobset(name, namespace, 8, 4)
    found["spec"]["template"]["metadata"]["annotations"] = dict(failures_kills.LONG)
    return found


def nodes_refuse(ground: FailureFleet, asked: Asked, *, rest_s: float) -> dict[str, float]:
    """All nodes of b are tainted and its pods are gone: the scheduler finds no room where room was
    promised. What is stuck moves to a.
    """
    spread(asked)
    asked.create(workloads.service("stuck", asked.namespace, 6))
    asked.comes_about()
    held = dict(_where(asked)["stuck"])
    assert held["b"] > 0
    nodes = [node["metadata"]["name"] for node in ground.ask("b", "/api/v1/nodes")["items"]]
    shell = ground.fleet.members["b"]

    def moved() -> bool:
        return dict(_where(asked)["stuck"]) == {"a": 6}

    for name in nodes:
        shell("taint", "node", name, f"{TAINT['key']}=true:{TAINT['effect']}")
    try:
        # A scheduler whose server was away in an earlier story may not have opened its watch of
        # nodes again (see `server_away`), and binds to nodes of whose taints it does not know.
        until(
            lambda: moved() or _refuses(asked, "b"),
            lambda: "b's scheduler binds to tainted nodes",
            90.0,
        )
        begun = time.monotonic()
        until(moved, lambda: f"the shares are {_where(asked)}", 60)
        moved_s = time.monotonic() - begun
        asked.comes_about()
        failures_writes.at_rest(ground.clusters, rest_s)
    finally:
        for name in nodes:
            shell("taint", "node", name, f"{TAINT['key']}-")
    # The next story needs the room.
    until(lambda: not _tainted(ground, "b"), lambda: "b's report still tells of the taints", 20.0)
    return {"held by b before": held["b"], "moved after s": moved_s}
