"""What happens to the servers of a real control plane: stopped, started again, and put back to what
they were earlier.

The failure tests use it on a `ControlPlane` that is a member's own: going back in time is a matter
of the whole etcd. A server comes back on its own port with its own arguments. Nothing here waits
for the federation.
"""

import shutil
from pathlib import Path

from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import READY_S, ControlPlane, is_ready
from tests.controlplane.processes import Child

CONTROLLERS = ("controller-manager", "scheduler")


class Outage:
    """The processes of one control plane with one cluster."""

    def __init__(self, plane: ControlPlane, cluster: Cluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._stopped: dict[str, list[str]] = {}

    def stop(self, name: str) -> None:
        """Ends `etcd` or one of the cluster's `apiserver`, `controller-manager` and `scheduler`."""
        child = self._child(name)
        self._stopped[name] = arguments(child)
        self._plane.family.drop(child)

    def start(self, name: str) -> None:
        """Starts what was stopped; an API server is waited for."""
        self._plane.family.start(self._full(name), self._stopped.pop(name))
        if name == "apiserver":
            what = f"The API server {self._cluster.name}"
            self._plane.family.wait_until(lambda: is_ready(self._cluster), what, READY_S)

    def end(self) -> None:
        """Starts everything that is stopped."""
        for name in ("etcd", "apiserver", *CONTROLLERS):
            if name in self._stopped:
                self.start(name)

    def snapshot(self, into: Path) -> None:
        """Copies etcd's data while it is stopped; the API server waits for it meanwhile, as in any
        backup by copy.
        """
        self.stop("etcd")
        shutil.copytree(self._data, into)
        self.start("etcd")

    def restore(self, snapshot: Path) -> None:
        """Puts the cluster back to a snapshot, in the order of the Kubernetes manual: API server
        and controllers are stopped, etcd's data is exchanged, and all are started anew, so that
        none keeps what it knew.
        """
        for name in (*CONTROLLERS, "apiserver", "etcd"):
            self.stop(name)
        shutil.rmtree(self._data)
        shutil.copytree(snapshot, self._data)
        self.end()

    @property
    def _data(self) -> Path:
        return self._plane.family.directory / "etcd"

    def _full(self, name: str) -> str:
        return name if name == "etcd" else f"{self._cluster.name}-{name}"

    def _child(self, name: str) -> Child:
        return next(
            child for child in self._plane.family.children if child.name == self._full(name)
        )


def arguments(child: Child) -> list[str]:
    """The command line that a child was started with."""
    given = child.process.args
    assert isinstance(given, list)
    return [str(each) for each in given]
