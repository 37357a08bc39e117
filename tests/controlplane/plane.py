"""A real control plane for tests: one etcd and any number of API servers on loopback, each with its
own etcd prefix.

fixtures.py and the end-to-end tests use `ControlPlane`. TLS everywhere, RBAC on, static bearer
tokens, everything in a private temporary directory that goes with it. Nothing here knows our own
kinds.
"""

import csv
import http.client
import json
import secrets
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.controlplane import audit, certs, processes, seeds
from tests.controlplane.cluster import ADMIN, Cluster
from tests.running.ports import free_port

READY_S = 90.0
ATTEMPTS = 3
"""A free port can be taken by another process before our child binds it; then the child is started
anew.
"""

FIRST_WRITES = 5
GANGS = "--feature-gates=GenericWorkload=true"
"""Of all three servers of a cluster with PodGroups."""

MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    MANAGER: (),
    SCHEDULER: (),
    "nobody": (),
    "owner": ("shop-owners", "shop-readers", "company"),
    "reader": ("shop-readers",),
}
"""Users with a static token, and their groups. The last three may do only what RBAC objects give to
these names.
"""

T = TypeVar("T")


class ControlPlane:
    """etcd and API servers; a context manager. `cluster(name)` starts what does not run yet."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._clusters: dict[str, Cluster] = {}
        self.family = processes.Family()
        try:
            self._files = certs.write(self.family.directory)
            self._tokens = {user: secrets.token_hex(16) for user in USERS}
            self._token_file = self.family.directory / "tokens.csv"
            self._token_file.touch(mode=0o600)
            with self._token_file.open("w", newline="") as handle:
                csv.writer(handle).writerows(
                    [self._tokens[user], user, user, *filter(None, [",".join(groups)])]
                    for user, groups in USERS.items()
                )
            self._etcd_url = self._retrying(self._start_etcd)
        except BaseException:
            self.family.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends everything, the last started first: so API servers end before etcd, without which
        they would hang.
        """
        self.family.stop()

    def cluster(
        self,
        name: str,
        *,
        controllers: bool = False,
        scheduler: bool = False,
        audited: bool = False,
        gangs: bool = False,
        kinds: Sequence[seeds.Definition] = (),
    ) -> Cluster:
        """The cluster of that name, started when it is not there; asking again with more adds what
        is missing, but `audited` (see audit.py), `gangs` (PodGroups are served, and heeded) and
        `kinds` (definitions, see seeds.py) hold from the start or not at all.
        """
        self.family.check()
        if name not in self._clusters:
            record = seeds.file_of(kinds, self._binaries)
            seeded = not kinds or seeds.put(self._ask, name, record)
            self._clusters[name] = self._retrying(
                lambda: self._start_api_server(
                    name, controllers=controllers, audited=audited, gangs=gangs
                )
            )
            self._clusters[name].has_gangs = gangs
            if not seeded:
                self._define(self._clusters[name], kinds, record)
            self.family.wait_until(
                lambda: seeds.served(self._clusters[name], kinds), "The definitions", READY_S
            )
        cluster = self._clusters[name]
        if controllers and not cluster.has_controllers:
            self._start_controllers(cluster)
        if scheduler and not cluster.has_scheduler:
            self._start_scheduler(cluster)
        return cluster

    def _define(self, cluster: Cluster, kinds: Sequence[seeds.Definition], record: Path) -> None:
        seeds.create(cluster, kinds)
        self.family.wait_until(
            lambda: seeds.established(cluster, kinds), "The definitions", READY_S
        )
        seeds.keep(self._ask, cluster.name, record)

    def client_certificate(self, user: str, *groups: str) -> tuple[bytes, bytes]:
        """A client certificate that every API server here takes, and its key, as PEM."""
        return certs.client(self._files, user, groups)

    def names(self) -> Sequence[str]:
        """Of the clusters that run."""
        return tuple(self._clusters)

    def end(self, name: str) -> None:
        """Ends the processes of a cluster. What it holds stays in etcd: asked for again, it is as
        it was.
        """
        del self._clusters[name]
        for child in reversed(
            [child for child in self.family.children if child.name in _programs(name)]
        ):
            self.family.drop(child)

    def forget(self, cluster: Cluster) -> None:
        """Makes etcd forget all versions before now, as it does by itself every five minutes."""
        version = int(cluster.ask("/api/v1/namespaces")[1]["metadata"]["resourceVersion"])
        answer = self._ask_etcd(
            self._etcd_url, "compaction", {"revision": version, "physical": True}
        )
        # Somebody else may have compacted to a later version meanwhile, which is as good.
        if "header" not in answer and "compacted" not in answer:
            raise RuntimeError(f"etcd did not compact: {answer}")

    def _ask(self, what: str, body: Mapping[str, Any]) -> str:
        return self._ask_etcd(self._etcd_url, what, body)

    def _ask_etcd(self, url: str, what: str, body: Mapping[str, Any]) -> str:
        context = ssl.create_default_context(cafile=str(self._files.ca))
        context.load_cert_chain(self._files.certificate, self._files.key)
        connection = http.client.HTTPSConnection(
            url.removeprefix("https://"), timeout=30, context=context
        )
        try:
            connection.request("POST", f"/v3/kv/{what}", json.dumps(body))
            return connection.getresponse().read().decode()
        except OSError as error:
            return str(error)
        finally:
            connection.close()

    def _retrying(self, start: Callable[[], T]) -> T:
        for _ in range(ATTEMPTS - 1):
            try:
                return start()
            except processes.ChildDied as error:
                if "address already in use" not in str(error):
                    raise
                for child in [
                    child for child in self.family.children if child.process.poll() is not None
                ]:
                    self.family.drop(child)
        return start()

    def _start_etcd(self) -> str:
        files = self._files
        url, peer = (f"https://127.0.0.1:{free_port()}" for _ in range(2))
        self.family.start(
            "etcd",
            [
                str(self._binaries / "etcd"),
                f"--data-dir={self.family.directory / 'etcd'}",
                f"--listen-client-urls={url}",
                f"--advertise-client-urls={url}",  # etcd 3.6 exits at once without it
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                *(f"--{kind}cert-file={files.certificate}" for kind in ("", "peer-")),
                *(f"--{kind}key-file={files.key}" for kind in ("", "peer-")),
                *(f"--{kind}trusted-ca-file={files.ca}" for kind in ("", "peer-")),
                *(f"--{kind}client-cert-auth" for kind in ("", "peer-")),
                "--unsafe-no-fsync",  # nothing here is kept
                "--log-level=warn",
            ],
        )
        # Writes before any API server begins, so that the first versions are older than what its
        # caches hold.
        write = {"key": "Zmlyc3Q=", "value": ""}
        for _ in range(FIRST_WRITES):
            self.family.wait_until(
                lambda: "header" in self._ask_etcd(url, "put", write), "etcd", READY_S
            )
        return url

    def _start_api_server(
        self, name: str, *, controllers: bool, audited: bool, gangs: bool
    ) -> Cluster:
        files, port = self._files, free_port()
        url = f"https://127.0.0.1:{port}"
        # Without a controller manager nobody makes service accounts or takes the not-ready taint
        # from nodes.
        disabled = "" if controllers else "ServiceAccount,TaintNodesByCondition"
        self.family.start(
            f"{name}-apiserver",
            [
                str(self._binaries / "kube-apiserver"),
                f"--etcd-servers={self._etcd_url}",
                f"--etcd-prefix=/{name}",
                f"--etcd-cafile={files.ca}",
                f"--etcd-certfile={files.certificate}",
                f"--etcd-keyfile={files.key}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",  # a loopback address is no valid endpoint
                f"--secure-port={port}",
                f"--tls-cert-file={files.certificate}",
                f"--tls-private-key-file={files.key}",
                f"--token-auth-file={self._token_file}",
                f"--client-ca-file={files.ca}",
                "--anonymous-auth=false",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={files.token_key}",
                f"--service-account-signing-key-file={files.token_key}",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--allow-privileged=true",
                f"--disable-admission-plugins={disabled}",
                "--profiling=false",
                *(audit.arguments(self.family.directory, name) if audited else ()),
                *((GANGS, "--runtime-config=scheduling.k8s.io/v1beta1=true") if gangs else ()),
            ],
        )
        cluster = Cluster(name, url, files.ca, self._tokens, self.family.directory)
        self.family.wait_until(lambda: is_ready(cluster), f"The API server {name}", READY_S)
        return cluster

    def _start_controllers(self, cluster: Cluster) -> None:
        self.family.start(
            f"{cluster.name}-controller-manager",
            [
                str(self._binaries / "kube-controller-manager"),
                f"--kubeconfig={cluster.kubeconfig(MANAGER)}",
                # the bootstrap roles of each controller name its own account
                "--use-service-account-credentials=true",
                "--leader-elect=false",
                "--secure-port=0",
                f"--root-ca-file={self._files.ca}",
                f"--service-account-private-key-file={self._files.token_key}",
                "--controllers=*,-horizontal-pod-autoscaler-controller",  # there is no metrics API
                "--profiling=false",
                *((GANGS,) if cluster.has_gangs else ()),
            ],
        )
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.family.wait_until(
            lambda: cluster.ask(account)[0] == 200, "The controller manager", READY_S
        )
        cluster.has_controllers = True

    def _start_scheduler(self, cluster: Cluster) -> None:
        self.family.start(
            f"{cluster.name}-scheduler",
            [
                str(self._binaries / "kube-scheduler"),
                f"--kubeconfig={cluster.kubeconfig(SCHEDULER)}",
                "--leader-elect=false",
                "--secure-port=0",
                "--profiling=false",
                *((GANGS,) if cluster.has_gangs else ()),
            ],
        )
        cluster.has_scheduler = True


def _programs(cluster: str) -> Sequence[str]:
    return [f"{cluster}-{program}" for program in ("apiserver", "controller-manager", "scheduler")]


def is_ready(cluster: Cluster) -> bool:
    """Whether it answers, with what it makes itself at its start."""
    try:
        return (
            cluster.ask("/readyz")[0] == 200 and cluster.ask("/api/v1/namespaces/default")[0] == 200
        )
    except (OSError, http.client.HTTPException):
        return False
