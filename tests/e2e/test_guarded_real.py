"""Guarded shards on real servers: the API server of their cluster is killed, each pod's real guard
goes bad in time, and the shards run elsewhere only after that.

The nodes are stand-ins, so the test plays the part of a kubelet that an API server's end leaves
alone: it asks the guard of each pod as the pod's own probe says, and stops the container.
"""

import contextlib
import json
import math
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from federator.kinds.jobset import guards
from federator.runtime import fencing
from tests.e2e import federations, grounds, workloads
from tests.e2e.federations import until
from tests.e2e.grounds import GONE, MEMBERS, Ground
from tests.e2e.test_guard import Api, Pod

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.soak,
    pytest.mark.xdist_group("failover on real servers"),
    pytest.mark.timeout(1200),
]

SPACE, NAME, APP, SHARDS = "fenced", "once", "app", 6
LEASE_S, GRACE_S = 60.0, 2
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **federations.SETTINGS,
    "hub": {
        **federations.SETTINGS["hub"],
        "probe_timeout_s": 2.0,
        "unready_after_s": 6.0,
        "fence_lease_s": LEASE_S,
        "fence_renew_s": 10.0,
        "fence_write_s": 4.0,
        "fence_skew_s": 5.0,
    },
}
TIMES = fencing.Times(lease_s=LEASE_S, renew_s=10.0, write_s=4.0, skew_s=5.0)
LONG = {"embedded.federator/start-delay-seconds": "0", "embedded.federator/run-seconds": "100000"}
PODS = f"/api/v1/namespaces/{SPACE}/pods"
RENEWED_S = 10.0
"""The last renewal before the end was not longer ago, nor was it read later."""
LATE_S = 60.0
"""Probes, moves and the start of pods on a busy machine."""


def _shard(pod: Mapping[str, Any]) -> int:
    labels = pod["metadata"]["labels"]
    base = int(labels["batch.kubernetes.io/job-name"].split("-")[-2])
    return base + int(labels["batch.kubernetes.io/job-completion-index"])


def _container(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    every = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    return dict(next(container for container in every if container["name"] == name))


def _env(container: Mapping[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container["env"]}


@dataclass
class Container:
    """The container of one shard on a node of the lost cluster, with the pod's guard beside it."""

    pod: Mapping[str, Any]
    guard: Pod
    began_s: float | None = None
    bad_s: float | None = None
    """When the guard's first bad answer came after good ones."""
    ended_s: float | None = None
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def runs(self) -> bool:
        return self.began_s is not None and self.ended_s is None

    def live(self) -> None:
        """What a kubelet does with the container: it begins when the waiting step would end."""
        probe = _container(self.pod, APP)["livenessProbe"]
        failures = 0
        while not self.over.is_set():
            good = self.guard.health(probe["httpGet"]["path"]) == 200
            if good and self.began_s is None:
                self.began_s = time.monotonic()
            if self.began_s is not None:
                failures = 0 if good else failures + 1
                self.bad_s = None if good else self.bad_s or time.monotonic()
            if failures >= probe["failureThreshold"]:
                time.sleep(probe["terminationGracePeriodSeconds"])
                self.ended_s = time.monotonic()
                return
            self.over.wait(probe["periodSeconds"])


@pytest.fixture(scope="module")
def ground(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Ground]:
    with grounds.standing(request, tmp_path_factory.mktemp("fenced"), SETTINGS) as found:
        yield found


def _pods(ground: Ground, member: str) -> list[dict[str, Any]]:
    """Pods of the job set that may run."""
    status, found = ground.deployed.clusters[member].ask(PODS)
    assert status == 200, found
    return [
        pod
        for pod in found["items"]
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def _begun(ground: Ground) -> list[dict[str, Any]]:
    """A job set over all three members; returns its pods in the one that will be lost."""
    host = ground.fleet.host
    host("create", "ns", SPACE)
    once = workloads.jobset(NAME, SPACE, SHARDS, SHARDS)
    failover = {"afterSeconds": 2, "cooldownSeconds": 5, "failback": "Manual"}
    placement = {"failover": failover, "division": {"strategy": "Spread"}}
    once["spec"] |= {"execution": "Exclusive", "guard": True, "placement": placement}
    template = once["spec"]["template"]
    template["metadata"] = {"annotations": LONG}
    template["spec"]["terminationGracePeriodSeconds"] = GRACE_S
    host("apply", "-f", ground.fleet.manifest(once))
    until(
        lambda: sum(len(_pods(ground, name)) for name in MEMBERS) == SHARDS,
        lambda: f"{ {name: len(_pods(ground, name)) for name in MEMBERS} }",
        within_s=180.0,
    )
    return _pods(ground, GONE)


@contextlib.contextmanager
def _kept(ground: Ground, home: Path, pods: list[dict[str, Any]]) -> Iterator[list[Container]]:
    """The containers of these pods, each with a real guard under the pod's own account."""
    cluster = ground.deployed.clusters[GONE]
    account = pods[0]["spec"]["serviceAccountName"]
    token = ground.fleet.members[GONE]("create", "token", account, "-n", SPACE).strip()
    api = Api(cluster.url, cluster.ca_file.read_text(), token)
    with contextlib.ExitStack() as stack:
        containers, threads = [], []
        for pod in pods:
            here = home / f"shard-{_shard(pod)}"
            here.mkdir()
            asks = json.loads(_env(_container(pod, guards.GUARD))[guards.PROBES])
            container = Container(pod, Pod(here, api, asks))
            stack.enter_context(container.guard.guard())
            containers.append(container)
            threads.append(threading.Thread(target=container.live))
            threads[-1].start()
        try:
            yield containers
        finally:
            for container in containers:
                container.over.set()
            for thread in threads:
                thread.join(30)


def test_guarded_shards_stop_when_their_api_server_is_killed_and_run_elsewhere_after_that(
    ground: Ground, tmp_path: Path
) -> None:
    pods = _begun(ground)
    lost = {_shard(pod): int(_env(_container(pod, APP))["FENCE_EPOCH"]) for pod in pods}
    assert lost, "nothing of it is in the cluster that will be lost"
    with _kept(ground, tmp_path, pods) as containers:
        until(
            lambda: all(container.runs for container in containers),
            lambda: "a guard lets nothing run although its lease is renewed",
        )
        killed_s = time.monotonic() + ground.kill() - time.time()
        elsewhere: dict[int, float] = {}
        epochs: dict[int, int] = {}
        deadline_s = killed_s + TIMES.over_after_s(LEASE_S) + LATE_S
        while elsewhere.keys() != lost.keys():
            assert time.monotonic() < deadline_s, f"only {elsewhere} of {lost} run elsewhere"
            for pod in (*_pods(ground, "a"), *_pods(ground, "b")):
                shard = _shard(pod)
                if shard in lost and shard not in elsewhere:
                    elsewhere[shard] = time.monotonic() - killed_s
                    epochs[shard] = int(_env(_container(pod, APP))["FENCE_EPOCH"])
            running = {_shard(container.pod) for container in containers if container.runs}
            assert not running & elsewhere.keys(), f"run in two clusters: {elsewhere}"
            time.sleep(0.5)
    ground.outage.start("apiserver")
    ground.deployed.ready(GONE)
    until(
        lambda: not {_shard(pod) for pod in _pods(ground, GONE)} & lost.keys(),
        lambda: "what began elsewhere is still there when it is back",
    )
    for container in containers:
        assert container.bad_s is not None
        assert container.ended_s is not None
        good_s = container.bad_s - killed_s
        assert LEASE_S - 2 * RENEWED_S - fencing.POLL_S < good_s < LEASE_S + fencing.POLL_S + LATE_S
    soonest = TIMES.over_after_s(LEASE_S) - 2 * RENEWED_S
    assert min(elsewhere.values()) > soonest, "sooner than the arithmetic of the lease says"
    assert all(epochs[shard] > epoch for shard, epoch in lost.items())
    ended = [math.ceil((one.ended_s or 0.0) - killed_s) for one in containers]
    print(
        {"stopped after s": ended, "elsewhere after s": sorted(map(math.ceil, elsewhere.values()))}
    )
