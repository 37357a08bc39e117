"""A federation on real servers as deploy/ ships it: accounts, roles and admission policies from the
manifests, hub and member processes with the tokens of their service accounts, and API
servers that log what these ask for.

Used by test_deployed.py. `Deployment.asked` is the log of one cluster; nothing outlives the `with`
block.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from federator.hub.security.hardening import PROBE
from federator.kinds import crds
from federator.sandbox import gateways, operators
from tests.controlplane import audit, build, nodes, seeds
from tests.controlplane.audit import Asked
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Family
from tests.e2e import federations
from tests.e2e.federations import FEDERATOR, SETTINGS, START_S, Fleet, until
from tests.unit.deploy import manifests

MEMBERS = ("a", "b")
SYSTEM = "federator-system"
HUB, MEMBER = "federator-hub", "federator-member"
POOL = {"example.com/pool": "web"}
"""A label of every node."""
CAPACITY = {"cpu": "32", "memory": "128Gi", "pods": "110"}


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
        found = self.clusters[cluster]
        return {
            row
            for row in audit.read(audit.log_of(found.directory, found.name))
            if row.user == user(account)
        }

    def refused(self) -> list[str]:
        """Requests of the federation's accounts that were not allowed."""
        asked = {
            row
            for cluster in self.clusters
            for account in (HUB, MEMBER)
            for row in self.asked(cluster, account)
        }
        probes = {row for row in asked if PROBE in row.refused}
        return [f"{row.user} was refused: {row}" for row in sorted(asked - probes) if row.refused]

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
    more = [*operators.definitions("TrainJob"), *gateways.definitions()]
    with _servers(plane, "deployed", more, gangs=True) as clusters:
        # Every token is too old at once: renewals are part of the story.
        quick = {**SETTINGS, "hub": {**SETTINGS["hub"], "token_renew_s": 1.0}}
        with joined(home, clusters, quick) as found:
            found.start_member("a")
            found.start_hub()
            found.ready("a")
            yield found
            found.programs.check()


@contextlib.contextmanager
def running(home: Path, plane: ControlPlane) -> Iterator[Deployed]:
    """A dedicated host and the members a and b, with the hub and both member processes running."""
    with (
        _servers(plane, home.name) as clusters,
        joined(home, clusters, SETTINGS, machines=3) as found,
    ):
        for name in MEMBERS:
            found.start_member(name)
        found.start_hub()
        found.ready(*MEMBERS)
        yield found
        found.programs.check()


@contextlib.contextmanager
def _servers(
    plane: ControlPlane, prefix: str, more: Sequence[seeds.Definition] = (), *, gangs: bool = False
) -> Iterator[dict[str, Cluster]]:
    """Servers that log what is asked of them; those of members serve `more` kinds."""
    clusters = {"host": plane.cluster(f"{prefix}-host", audited=True, kinds=crds.all_crds())}
    try:
        for name in MEMBERS:
            clusters[name] = plane.cluster(
                f"{prefix}-{name}",
                controllers=True,
                scheduler=True,
                audited=True,
                gangs=gangs,
                kinds=[*crds.member_crds(), *more],
            )
        yield clusters
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
    process runs yet. The clusters serve our kinds already.
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
        fleet = Fleet("real", home, shells.pop("host"), shells, many=24, programs=programs)
        fleet.host("apply", "--server-side", "-k", str(manifests.DEPLOY / "host" / "access"))
        for shell in fleet.members.values():
            shell("apply", "--server-side", "-k", str(manifests.DEPLOY / "member"))
        for name in members:
            _join(fleet, name, kubeconfigs[name])
        yield Deployed(
            fleet, clusters, programs, home, settings_file(home / "settings.yaml", settings)
        )


def host_alone(plane: ControlPlane) -> Cluster:
    """A host as deploy/ ships it, without a hub, for all tests of a group: each has namespaces of its
    own there. It ends with the group.
    """
    return _alone(plane, "deployed-host-alone", "host/access")


def member_alone(plane: ControlPlane) -> Cluster:
    """A member as deploy/ ships it, without our processes and with admission policies that act; as
    `host_alone`.
    """
    cluster = _alone(plane, "deployed-member-alone", "member")
    enforced(cluster)
    return cluster


def _alone(plane: ControlPlane, name: str, base: str) -> Cluster:
    runs = name in plane.names()
    kinds = crds.member_crds() if base == "member" else crds.all_crds()
    cluster = plane.cluster(name, controllers=True, kinds=kinds)
    if not runs:
        done = cluster.kubectl("apply", "--server-side", "-k", str(manifests.DEPLOY / base))
        assert done.returncode == 0, done.stderr
    return cluster


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
    """Waits until all admission policies act: an API server takes them up some time after they were
    made, in the order in which they were made. So the last one tells of the others.
    """
    root = "/apis/admissionregistration.k8s.io/v1/"
    last = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "probe-is-last"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy = {
        **last,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["configmaps"]}]},
            "validations": [
                {"expression": "object.metadata.name != 'probe'", "message": "policies act"}
            ],
        },
    }
    binding = {
        **last,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "probe-is-last", "validationActions": ["Deny"]},
    }
    for plural, body in (
        ("validatingadmissionpolicies", policy),
        ("validatingadmissionpolicybindings", binding),
    ):
        status, answer = cluster.ask(root + plural, "POST", body)
        assert status in (201, 409), answer
    path = "/api/v1/namespaces/default/configmaps?dryRun=All"

    def refused() -> bool:
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
        status, answer = cluster.ask(path, "POST", probe)
        return status in (403, 422) and "policies act" in json.dumps(answer)

    until(refused, lambda: "the admission policies do not act", 30)
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        cluster.ask(f"{root}{plural}/probe-is-last", "DELETE")


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
