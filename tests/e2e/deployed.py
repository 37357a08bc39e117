"""A federation on real servers as deploy/ ships it: CRDs, accounts, roles and admission policies
from the manifests, hub and member processes with the tokens of their service accounts, and API
servers that log what these ask for.

Used by test_deployed.py. `Deployment.asked` is the log of one cluster; nothing outlives the `with`
block.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from federator.sandbox import gateways, operators
from tests.controlplane import audit, build, nodes
from tests.controlplane.audit import Asked
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Family
from tests.e2e import federations
from tests.e2e.federations import FEDERATOR, SETTINGS, START_S, Fleet, until
from tests.unit.deploy import manifests

SYSTEM = "federator-system"
HUB, MEMBER = "federator-hub", "federator-member"
POOL = {"example.com/pool": "web"}
"""A label of every node."""
CAPACITY = {"cpu": "32", "memory": "128Gi", "pods": "110"}
SETTLE_S = 0.5
"""The audit log is written before the answer is sent; this is for the file to be whole."""


def user(account: str) -> str:
    """The account as the API server names it."""
    return f"system:serviceaccount:{SYSTEM}:{account}"


@dataclass(slots=True)
class Deployed:
    """The running federation. Members are called `a` and `b`; the process of `b` starts when it is
    told to.
    """

    fleet: Fleet
    clusters: Mapping[str, Cluster]
    programs: Family
    home: Path
    settings: Path

    def asked(self, cluster: str, account: str) -> set[Asked]:
        """What this account has asked this cluster's API server for."""
        time.sleep(SETTLE_S)
        found = self.clusters[cluster]
        return {
            row
            for row in audit.read(audit.log_of(found.directory, found.name))
            if row.user == user(account)
        }

    def start_member(self, name: str) -> None:
        where = ["--kubeconfig", str(self.kubeconfig(name, MEMBER)), "--config", str(self.settings)]
        self.programs.start(f"member-{name}", [*FEDERATOR, "member", "--cluster", name, *where])

    def stop_hub(self) -> None:
        """As an operator would: it gives its lease up."""
        child = next(child for child in self.programs.children if child.name == "hub")
        self.programs.drop(child)
        assert child.process.returncode == 0, child.last_lines()

    def start_hub(self) -> None:
        where = ["--kubeconfig", str(self.kubeconfig("host", HUB)), "--config", str(self.settings)]
        self.programs.start("hub", [*FEDERATOR, "hub", "--allow-loopback", *where])

    def kubeconfig(self, cluster: str, account: str) -> Path:
        """A kubeconfig with a token as the kubelet would project it: bound to the account, valid
        for an hour.
        """
        found = self.clusters[cluster]
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        status, answer = found.ask(path, "POST", body)
        assert status == 201, answer
        content = found.kubeconfig_dict()
        content["users"][0]["user"] = {"token": answer["status"]["token"]}
        file = self.home / f"{cluster}-{account}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(content))
        return file

    def ready(self, *names: str) -> None:
        """Waits until the host says that these members are ready."""

        def joined() -> bool:
            found = {obj["metadata"]["name"]: obj for obj in self.fleet.host.items("mc")}
            return all(
                str((found[name].get("status") or {}).get("summary")) == "Ready" for name in names
            )

        self.programs.wait_until(joined, "The federation", START_S)


@contextlib.contextmanager
def deployed(home: Path, plane: ControlPlane) -> Iterator[Deployed]:
    """A dedicated host and the members a and b, joined, with the hub and the member process of a
    running.
    """
    clusters = {"host": plane.cluster("deployed-host", audited=True)} | {
        name: plane.cluster(
            f"deployed-{name}", controllers=True, scheduler=True, audited=True, gangs=True
        )
        for name in ("a", "b")
    }
    try:
        # Every token is too old at once: renewals are part of the story.
        quick = {**SETTINGS, "hub": {**SETTINGS["hub"], "token_renew_s": 1.0}}
        with joined(home, clusters, quick) as found:
            for shell in found.fleet.members.values():
                kinds = *operators.definitions("TrainJob"), *gateways.definitions()
                shell("apply", "--server-side", "-f", found.fleet.manifest(*kinds))
            found.start_member("a")
            found.start_hub()
            found.ready("a")
            yield found
            found.programs.check()
    finally:
        for cluster in clusters.values():
            plane.end(cluster.name)


@contextlib.contextmanager
def joined(
    home: Path,
    clusters: Mapping[str, Cluster],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    machines: int = 2,
) -> Iterator[Deployed]:
    """So many nodes in each member, the manifests of deploy/ everywhere, the members joined; no
    process runs yet.
    """
    members = sorted(clusters.keys() - {"host"})
    with contextlib.ExitStack() as stack:
        for name in members:
            of_member = [
                nodes.Node(f"{name}-n-{index}", CAPACITY, POOL) for index in range(machines)
            ]
            stack.enter_context(nodes.running(clusters[name], of_member))
        kubeconfigs = {name: home / f"{name}.kubeconfig" for name in clusters}
        for name, path in kubeconfigs.items():
            path.write_bytes(clusters[name].kubeconfig().read_bytes())
        programs = stack.enter_context(federations.family(home))
        shells = {name: federations.kubectl(home, path) for name, path in kubeconfigs.items()}
        fleet = Fleet("deployed", home, shells.pop("host"), shells, many=24, programs=programs)
        for shell in (fleet.host, *fleet.members.values()):
            shell("apply", "--server-side", "-k", str(manifests.DEPLOY / "crd"))
            shell("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        fleet.host("apply", "--server-side", "-k", str(manifests.DEPLOY / "host" / "access"))
        for shell in fleet.members.values():
            shell("apply", "--server-side", "-k", str(manifests.DEPLOY / "member"))
        for name in members:
            _join(fleet, name, kubeconfigs[name])
        yield Deployed(
            fleet, clusters, programs, home, settings_file(home / "settings.yaml", settings)
        )


def settings_file(path: Path, settings: Mapping[str, Mapping[str, Any]]) -> Path:
    """The shipped settings of a dedicated host with some others."""
    shipped = yaml.safe_load(
        (manifests.DEPLOY / "overlays" / "dedicated-host" / "federator.yaml").read_text()
    )
    quick = {group: {**shipped.get(group, {}), **values} for group, values in settings.items()}
    here = {group: {"host": "127.0.0.1", "port": 0} for group in ("serve", "query")}
    kept = {
        "history": {**shipped["history"], "directory": str(path.parent / f"{path.stem}-history")}
    }
    path.write_text(yaml.safe_dump({**shipped, **quick, **here, **kept}))
    return path


def _join(fleet: Fleet, name: str, kubeconfig: Path) -> None:
    context = yaml.safe_load(kubeconfig.read_text())["current-context"]
    where = ("-C", context, "--member-kubeconfig", str(kubeconfig))
    done = fleet.federator("cluster", "add", name, *where, "--label", f"zone={name}")
    assert done.endswith(f"membercluster.federation.pinterest.com/{name} joined\n")


def enforced(cluster: Cluster) -> None:
    """Waits until the admission policies act: an API server takes them up some time after they were
    made.
    """
    probe = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "probe", "annotations": {"federation.pinterest.com/slice": "{}"}},
        "spec": {
            "selector": {"matchLabels": {"app": "probe"}},
            "template": {
                "metadata": {"labels": {"app": "probe"}},
                "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
            },
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments?dryRun=All"

    def refused() -> bool:
        status, answer = cluster.ask(path, "POST", probe)
        return status == 403 and "Only the hub creates slices" in json.dumps(answer)

    until(refused, lambda: "the admission policies do not act", 30)


def used(rows: set[Asked], grant: manifests.Grant) -> bool:
    """Whether some request needed this grant."""
    namespace, group, resource, verb, name = grant
    return any(
        (row.group, row.resource) == (group, resource)
        and (row.verb == verb or (verb == "create" and row.verb == "patch" and row.created))
        and namespace in ("", row.namespace)
        and (not name or row.name in (name, ""))
        for row in rows
    )


def rendered(directory: Path) -> list[dict[str, Any]]:
    """What `kubectl kustomize` makes of a directory."""
    program = build.kubectl()
    assert program is not None
    done = subprocess.run(
        [str(program), "kustomize", str(directory)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return manifests.load(done.stdout)
