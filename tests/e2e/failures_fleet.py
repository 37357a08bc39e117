"""A federation on real servers for the failure tests: two hubs stand for election, the members a
and b each have their process, and b has servers of its own that can be stopped and put back to an
earlier state.

Processes are killed, stopped and started by name. Everything is deployed as deploy/ ships it, and
every write of the federation is in the audit logs (failures_writes.py). Nothing outlives the `with`
block, however it ends.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from federator.kinds import crds
from tests.controlplane.cluster import Cluster
from tests.controlplane.outage import Outage
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Child
from tests.e2e import deployed
from tests.e2e.deployed import HUB, MEMBER, SYSTEM, Deployed
from tests.e2e.federations import FEDERATOR, Fleet, until

HUBS = ("hub-1", "hub-2")
MEMBERS = ("member-a", "member-b")
UNREADY_S = 10.0
STUCK_S = 6.0
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "hub": {
        "probe_interval_s": 1.0,
        "probe_timeout_s": 2.0,
        "unready_after_s": UNREADY_S,
        "capacity_copy_interval_s": 1.0,
        "unschedulable_after_s": STUCK_S,
    },
    "member": {"heartbeat_s": 2.0, "capacity_write_s": 1.0, "capacity_small_write_s": 1.0},
}
"""As shipped but for thresholds that a test would wait for. The times of the election are the
shipped ones.
"""
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/federator-hub"


class NotAnswering(Exception):
    """An API server is there and cannot answer yet, as after a restart of its etcd."""


@dataclass(slots=True)
class FailureFleet:
    """The running federation, and what may be done to it."""

    deployed: Deployed
    outage: Outage
    """Of the servers of b."""
    running: dict[str, Child] = field(default_factory=dict)
    """Our processes by name."""
    _lives: Counter[str] = field(default_factory=Counter)
    _commands: dict[str, list[str]] = field(default_factory=dict)

    @property
    def fleet(self) -> Fleet:
        return self.deployed.fleet

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        return self.deployed.clusters

    def start(self, *names: str) -> None:
        """Starts hubs and member processes; each life has its own log."""
        for name in names:
            if name not in self._commands:
                self._commands[name] = self._command(name)
            self._lives[name] += 1
            self.running[name] = self.deployed.programs.start(
                f"{name}-{self._lives[name]}", self._commands[name]
            )

    def _command(self, name: str) -> list[str]:
        home = self.deployed.home
        if name in HUBS:
            settings = {**SETTINGS, "hub": {**SETTINGS["hub"], "identity": name}}
            file = deployed.settings_file(home / f"{name}.yaml", settings)
            where = ["--kubeconfig", str(self._access("host", HUB, name)), "--config", str(file)]
            return [*FEDERATOR, "hub", "--allow-loopback", *where]
        cluster = name.removeprefix("member-")
        where = [
            "--kubeconfig",
            str(self._access(cluster, MEMBER, name)),
            "--config",
            str(self.deployed.settings),
        ]
        return [*FEDERATOR, "member", "--cluster", cluster, *where]

    def _access(self, cluster: str, account: str, name: str) -> Path:
        """A kubeconfig with a token of its own, by which the audit log tells one process from
        another.
        """
        return self.deployed.kubeconfig(cluster, account).rename(
            self.deployed.home / f"{name}.kubeconfig"
        )

    def kill(self, name: str) -> float:
        """SIGKILL; returns when (seconds since the epoch). The process has no say in it."""
        child = self.running.pop(name)
        os.killpg(child.process.pid, signal.SIGKILL)
        at = time.time()
        child.process.wait(10)
        self.deployed.programs.drop(child)
        return at

    def stop(self, name: str) -> None:
        """SIGSTOP: it neither runs nor knows that it does not."""
        os.killpg(self.running[name].process.pid, signal.SIGSTOP)

    def go_on(self, name: str) -> float:
        """SIGCONT; returns when."""
        os.killpg(self.running[name].process.pid, signal.SIGCONT)
        return time.time()

    def has_ended(self, name: str, within_s: float) -> int:
        """Waits for the process to end by itself; returns its exit status."""
        child = self.running[name]
        until(
            lambda: child.process.poll() is not None,
            lambda: f"{name} still runs: {child.last_lines()}",
            within_s,
        )
        self.running.pop(name)
        self.deployed.programs.drop(child)
        assert child.process.returncode is not None
        return child.process.returncode

    def all_run(self) -> None:
        """Starts what does not run, and waits until one hub leads, the other could, and both
        members are ready. Whatever a story that failed has left, stopped processes and servers, is
        put right.
        """
        self.outage.end()
        for name, child in list(self.running.items()):
            if child.process.poll() is not None:
                self.running.pop(name)
                self.deployed.programs.drop(child)
            else:
                self.go_on(name)
        self.start(*(name for name in (*HUBS, *MEMBERS) if name not in self.running))
        until(lambda: self.leader() in self.running, lambda: f"the lease names {self.leader()!r}")
        until(
            lambda: all(map(self._warm, HUBS)),
            lambda: f"a hub could not lead: {list(filter(self._warm, HUBS))}",
        )
        self.deployed.ready("a", "b")

    def _warm(self, hub: str) -> bool:
        """Whether the present life of a hub knows all that it must know to lead."""
        log = self.deployed.programs.directory / f"{hub}-{self._lives[hub]}.log"
        return "hub is warm" in log.read_text(errors="replace")

    def lease(self) -> Mapping[str, Any]:
        """The spec of the hubs' Lease; empty before there is one."""
        status, answer = self.clusters["host"].ask(LEASE)
        return (answer.get("spec") or {}) if status == 200 else {}

    def leader(self) -> str:
        """Name of the hub that the Lease names; "" for none."""
        return str(self.lease().get("holderIdentity") or "").partition("_")[0]

    def ask(self, cluster: str, path: str, method: str = "GET", body: Any = None) -> Any:
        """One request of an administrator that must succeed. Raises `NotAnswering` for a server
        that cannot now.
        """
        status, answer = self.clusters[cluster].ask(path, method, body)
        if status in (429, 503):
            raise NotAnswering(f"{cluster} does not answer: {answer}")
        assert status < 300, f"{method} {path} at {cluster}: {status} {answer}"
        return answer

    def summary(self, member: str) -> str:
        """What the host says of a member in a word or a sentence."""
        path = f"/apis/federation.pinterest.com/v1alpha1/memberclusters/{member}"
        return str((self.ask("host", path).get("status") or {}).get("summary", ""))

    def told(self, *names: str) -> str:
        """The logs of all lives of these processes."""
        directory = self.deployed.programs.directory
        return "".join(
            path.read_text(errors="replace")
            for name in names
            for path in sorted(directory.glob(f"{name}-*.log"))
        )


@contextlib.contextmanager
def started(home: Path, binaries: Path, *, machines: int = 2) -> Iterator[FailureFleet]:
    """Two control planes (host and a; b alone) and the whole federation on them, ready. The logs of
    our processes are copied to `home` in the end.
    """
    with contextlib.ExitStack() as stack:
        shared, own = (stack.enter_context(ControlPlane(binaries)) for _ in range(2))
        host = shared.cluster("failures-host", audited=True, kinds=crds.all_crds())
        clusters = {"host": host} | {
            name: plane.cluster(
                f"failures-{name}",
                controllers=True,
                scheduler=True,
                audited=True,
                kinds=crds.member_crds(),
            )
            for name, plane in (("a", shared), ("b", own))
        }
        joined = deployed.joined(home, clusters, SETTINGS, machines=machines)
        found = FailureFleet(stack.enter_context(joined), Outage(own, clusters["b"]))
        try:
            found.all_run()
            yield found
            found.deployed.programs.check()
        finally:
            shutil.copytree(found.deployed.programs.directory, home / "logs")


def moments(rng: random.Random, count: int, within: int) -> list[int]:
    """`count` different indexes below `within`, in order: when in a sequence something happens."""
    return sorted(rng.sample(range(within), count))
