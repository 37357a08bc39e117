"""A federation of three members on real servers, as deploy/ ships it, watched from outside: the API
server of one is killed and comes back, and another time it is drained.

What is written comes from the servers' audit logs, what is ready from watches at the members.
"""

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import build
from tests.controlplane.outage import Outage
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, failures_writes, federations, readiness, workloads
from tests.e2e.deployed import Deployed
from tests.e2e.federations import Fleet, until
from tests.e2e.readiness import Watched

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.soak,
    pytest.mark.xdist_group("failover on real servers"),
    pytest.mark.timeout(600),
]

MEMBERS = ("a", "b", "c")
GONE = "c"
COPIES, MOVING = 6, ("moves-0", "moves-1")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **federations.SETTINGS,
    "hub": {
        **federations.SETTINGS["hub"],
        "probe_timeout_s": 2.0,
        "unready_after_s": 6.0,
        "evacuated_copies_a_minute": 600,
    },
}
SOON = {"afterSeconds": 2, "cooldownSeconds": 5, "failback": "Manual"}
NEVER = {"when": "Never"}
SPREAD = {"strategy": "Spread"}
HOLDS_S = 5.0
SLICES = "/apis/pinterest.com/v1beta1/namespaces/{}/pinterestservices/{}"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments/{}"


@dataclass(slots=True)
class Ground:
    """The running federation, and what can be done to the servers of c."""

    deployed: Deployed
    outage: Outage
    plane: ControlPlane

    @property
    def fleet(self) -> Fleet:
        return self.deployed.fleet

    def kill(self) -> float:
        """SIGKILL for the API server of c; returns when (seconds since the epoch)."""
        child = next(
            one for one in self.plane.family.children if one.name == f"away-{GONE}-apiserver"
        )
        os.killpg(child.process.pid, signal.SIGKILL)
        at_s = time.time()
        child.process.wait(10)
        self.outage.stop("apiserver")
        return at_s

    def full(self, member: str, space: str) -> None:
        """No further pod is admitted in a namespace of a member, which its report does not tell."""
        shell = self.fleet.members[member]
        count = len(shell.items("pods", "-n", space))
        shell("create", "quota", "full", f"--hard=pods={count}", "-n", space)
        until(
            lambda: "hard" in (shell.json("get", "quota", "full", "-n", space).get("status") or {}),
            lambda: f"the quota of {member} is not counted",
        )

    def roomy(self, member: str, space: str, service: str) -> None:
        """It may have pods again. Its controller is woken, which tries ever less often."""
        shell = self.fleet.members[member]
        shell("delete", "quota", "full", "-n", space)
        shell("annotate", "rs", "-n", space, "-l", f"app={service}", "example.com/try=again")

    def shares(self, space: str, name: str) -> dict[str, int]:
        """Copies by cluster, of the decision."""
        for obj in self.fleet.host.items("pd", "-n", space):
            if obj["spec"]["workload"]["name"] == name:
                return {one["cluster"]: one["replicas"] for one in obj["spec"]["shares"]}
        return {}

    def at(self, member: str, path: str, *names: str) -> dict[str, Any] | None:
        """An object in a member, as its administrator sees it; None when it is not there."""
        status, found = self.deployed.clusters[member].ask(path.format(*names))
        assert status in (200, 404), found
        return found if status == 200 else None

    def ready(self, member: str, space: str, name: str) -> int:
        found = self.at(member, DEPLOYMENTS, space, name) or {}
        return int((found.get("status") or {}).get("readyReplicas") or 0)

    def held(self, member: str, space: str, name: str) -> dict[tuple[str, str], Any]:
        """What a member holds of a service: uid and generation of each object, pods too."""
        found = {}
        for kind in ("psvc", "deployments", "services", "configmaps", "pods"):
            for obj in self.fleet.members[member].items(kind, "-n", space):
                meta = obj["metadata"]
                if meta["name"] == name or meta.get("labels", {}).get("app") == name:
                    found[kind, meta["name"]] = meta["uid"], meta.get("generation")
        return found

    def watched(self, space: str, promised: Mapping[str, int]) -> Any:
        kubeconfigs = {name: shell.kubeconfig for name, shell in self.fleet.members.items()}
        return readiness.watching(kubeconfigs, space, promised)


@pytest.fixture(scope="module")
def ground(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Ground]:
    binaries = build.find()
    if binaries is None or build.kubectl() is None:
        request.getfixturevalue("control_plane")  # skips, or fails where one is required
    assert binaries is not None
    home: Path = tmp_path_factory.mktemp("away")
    with ControlPlane(binaries) as plane:
        clusters = {"host": plane.cluster("away-host", audited=True)} | {
            name: plane.cluster(f"away-{name}", controllers=True, scheduler=True, audited=True)
            for name in MEMBERS
        }
        with deployed.joined(home, clusters, SETTINGS) as found:
            for name in MEMBERS:
                found.start_member(name)
            found.start_hub()
            found.ready(*MEMBERS)
            yield Ground(found, Outage(plane, clusters[GONE]), plane)
            found.programs.check()


def _service(name: str, space: str, copies: int, **placement: Any) -> dict[str, Any]:
    return workloads.service(name, space, copies, placement=placement)


def _begun(ground: Ground, space: str) -> None:
    """Two services over all three members, one that fails over when it is told to and promises
    every copy, and one that may be in c alone.
    """
    host = ground.fleet.host
    host("create", "ns", space)
    some = [_service(name, space, COPIES, failover=SOON, division=SPREAD) for name in MOVING]
    late = _service("late", space, COPIES, failover=NEVER, division=SPREAD)
    late["spec"]["updateStrategy"] = {"maxUnavailable": 0}
    stays = _service("stays", space, 2, failover=SOON, clusters={"names": [GONE]})
    host("apply", "-f", ground.fleet.manifest(*some, late, stays))
    for name in (*MOVING, "late", "stays"):
        ground.fleet.ready(space, f"psvc/{name}")
        assert ground.shares(space, name).get(GONE, 0) == 2, name


def _moved(ground: Ground, space: str, names: tuple[str, ...]) -> None:
    def told() -> str:
        return f"{ {name: ground.shares(space, name) for name in names} }"

    until(lambda: all(GONE not in ground.shares(space, name) for name in names), told)
    until(lambda: all(sum(ground.shares(space, name).values()) == COPIES for name in names), told)


def test_what_a_killed_api_server_held_runs_elsewhere_and_comes_to_no_harm_when_it_is_back(
    ground: Ground,
) -> None:
    space = "lost"
    _begun(ground, space)
    kept = ground.held(GONE, space, "stays")
    assert sum(kind == "pods" for kind, _ in kept) == 2
    killed_s = ground.kill()

    _moved(ground, space, MOVING)
    until(
        lambda: all(
            sum(ground.ready(member, space, name) for member in "ab") == COPIES for name in MOVING
        ),
        lambda: "what has moved is not ready",
    )
    moved_s = time.time() - killed_s
    assert ground.shares(space, "stays") == {GONE: 2}, "nobody leaves for nowhere"
    out = ground.fleet.federator("explain", "psvc/stays", "-n", space)
    assert f"2 are still in {GONE} (FailingOver): " in out

    for member in "ab":
        ground.full(member, space)
    late = {"spec": {"placement": {"failover": {**SOON, "afterSeconds": 0, "when": "Unreachable"}}}}
    host = ground.fleet.host
    host("patch", "psvc", "late", "-n", space, "--type=merge", "-p", json.dumps(late))
    _moved(ground, space, ("late",))
    back_s = time.time()
    ground.outage.start("apiserver")
    ground.deployed.ready(GONE)
    until(
        lambda: all(ground.at(GONE, SLICES, space, name) is None for name in MOVING),
        lambda: "stale copies of what is ready elsewhere stay",
    )
    time.sleep(HOLDS_S)
    stale = ground.at(GONE, DEPLOYMENTS, space, "late")
    assert stale is not None, "copies were removed before their replacements were ready"
    assert stale["spec"]["replicas"] == 2
    assert sum(ground.ready(member, space, "late") for member in "ab") == COPIES - 2

    with ground.watched(space, {"late": COPIES}) as seen:
        for member in "ab":
            ground.roomy(member, space, "late")
        until(
            lambda: ground.at(GONE, SLICES, space, "late") is None,
            lambda: "stale copies stay although their replacements are ready",
        )
    assert not seen.broken
    ground.fleet.ready(space, "psvc/late")
    assert ground.held(GONE, space, "stays") == kept
    writes = failures_writes.since(
        failures_writes.read({GONE: ground.deployed.clusters[GONE]}), back_s
    )
    touched = [write.row for write in writes if _destroys(write, space, "stays")]
    failures_writes.none(touched, "deletions of what is decided there")
    causes = ground.fleet.federator("history", "psvc/late", "-n", space)
    assert f"failover from {GONE}, not heard since 20" in causes
    print({"elsewhere and ready after s": round(moved_s, 1)})


def _cleared(ground: Ground, space: str) -> None:
    """What a story leaves would have no place in the next one."""
    ground.fleet.host("delete", "psvc", "--all", "-n", space, "--ignore-not-found", "--timeout=60s")


def _destroys(write: failures_writes.Write, space: str, name: str) -> bool:
    mine = write.namespace == space and write.name.startswith(name)
    return mine and write.verb == "delete"


def test_a_drain_on_real_servers_never_has_fewer_ready_copies_than_promised(
    ground: Ground,
) -> None:
    space, services, copies = "drained", ("web-0", "web-1", "web-2"), 30
    host, federator = ground.fleet.host, ground.fleet.federator
    _cleared(ground, "lost")
    host("create", "ns", space)
    made = [_service(name, space, copies, division=SPREAD) for name in services]
    host("apply", "-f", ground.fleet.manifest(*made))
    for name in services:
        ground.fleet.ready(space, f"psvc/{name}")
        assert ground.shares(space, name)[GONE] == copies // 3
    seen: Watched
    with ground.watched(space, dict.fromkeys(services, copies - -(-copies // 4))) as seen:
        out = federator("cluster", "drain", GONE, "--timeout", "80s")
    assert f"{GONE}: Emptied: Nothing of {copies} copies is left" in out, out
    assert all(GONE not in ground.shares(space, name) for name in services)
    assert not seen.broken
    assert seen.changes > copies
    federator("cluster", "undrain", GONE)
