"""A federation of three members on real servers that no other test uses, as deploy/ ships it, and
what a test can do there: end the API server of a member, fill it, look into it.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from federator.kinds import crds
from tests.controlplane import build
from tests.controlplane.outage import Outage
from tests.controlplane.plane import ControlPlane
from tests.e2e import deployed, readiness
from tests.e2e.deployed import Deployed
from tests.e2e.federations import Fleet, until

MEMBERS = ("a", "b", "c")
GONE = "c"
"""The member that tests take away."""
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
            one
            for one in self.plane.family.children
            if one.name == f"{self.deployed.clusters[GONE].name}-apiserver"
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


@contextlib.contextmanager
def standing(
    request: pytest.FixtureRequest,
    home: Path,
    settings: Mapping[str, Mapping[str, Any]],
    *,
    machines: int = 2,
    audited: bool = False,
) -> Iterator[Ground]:
    """Hub and member processes run with these settings; each member has controllers, a scheduler
    and so many nodes. `audited`: what is asked of its API servers is logged.
    """
    binaries = build.find()
    if binaries is None:
        request.getfixturevalue("control_plane")  # skips, or fails where one is required
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    assert binaries is not None
    with ControlPlane(binaries) as plane:
        host = plane.cluster(f"{home.name}-host", audited=audited, kinds=crds.all_crds())
        clusters = {"host": host} | {
            name: plane.cluster(
                f"{home.name}-{name}",
                controllers=True,
                scheduler=True,
                audited=audited,
                kinds=crds.member_crds(),
            )
            for name in MEMBERS
        }
        with deployed.joined(home, clusters, settings, machines=machines) as found:
            for name in MEMBERS:
                found.start_member(name)
            found.start_hub()
            found.ready(*MEMBERS)
            yield Ground(found, Outage(plane, clusters[GONE]), plane)
            found.programs.check()
