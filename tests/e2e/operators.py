"""The controllers of JobSet and Kubeflow Trainer beside a real API server, with their definitions
and their webhooks.

They run with an administrator's rights. Webhooks are called at the loopback address instead of
through a Service, which no test cluster has.
"""

import base64
import contextlib
import http.client
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from federator.kube.client import Client
from federator.model.steps import ObjectRef
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.running.ports import free_port

READY_S = 60.0
SETTINGS = {
    "jobset": ("config.jobset.x-k8s.io/v1alpha1", "internalCertManagement"),
    "trainer-controller-manager": ("config.trainer.kubeflow.org/v1alpha1", "certManagement"),
}
"""Program -> the kind of its configuration, and what there makes certificates of its own."""
MANIFESTS = {"jobset": "jobset", "trainer-controller-manager": "kubeflow"}


def definitions(programs: Path) -> list[dict[str, Any]]:
    """Of the kinds of both."""
    return [crd for path in sorted((programs / "crds").glob("*.yaml")) for crd in _objects(path)]


def _ref(group: str, obj: dict[str, Any], name: str) -> ObjectRef:
    return ObjectRef(f"{group}/v1", f"{obj['kind'].lower()}s", "", name, obj["kind"])


@contextlib.contextmanager
def running(plane: ControlPlane, cluster: Cluster, program: str, programs: Path) -> Iterator[int]:
    """Starts one of them and waits until it is ready; gives the port of its webhooks."""
    hooks, health = free_port(), free_port()
    version, certificates = SETTINGS[program]
    webhook: dict[str, Any] = {"port": hooks, "host": "127.0.0.1"}
    settings = {
        "apiVersion": version,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        certificates: {"enable": False},
        "webhook": webhook,
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }
    if program == "jobset":
        webhook["certDir"] = str(plane.family.directory)
    else:
        # It looks for its keys below the directory for temporary files.
        keys = plane.family.directory / "k8s-webhook-server" / "serving-certs"
        keys.mkdir(parents=True, exist_ok=True)
        for name in ("tls.crt", "tls.key"):
            (keys / name).write_bytes((plane.family.directory / name).read_bytes())
    path = plane.family.directory / f"{cluster.name}-{program}.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    arguments = [
        "env",
        f"TMPDIR={plane.family.directory}",
        str(programs / program),
        f"--config={path}",
        f"--kubeconfig={cluster.kubeconfig()}",
    ]
    child = plane.family.start(f"{cluster.name}-{program}", arguments)
    try:
        plane.family.wait_until(lambda: _answers(health), program, READY_S)
        yield hooks
    finally:
        plane.family.drop(child)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException, ssl.SSLError):
        return False


async def call_webhooks(
    client: Client, cluster: Cluster, program: str, port: int, programs: Path
) -> None:
    """Registers its webhooks at the API server."""
    authority = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    path = programs / "webhooks" / f"{MANIFESTS[program]}-manifests.yaml"
    for obj in _objects(path):
        name = f"{program}-{obj['metadata']['name']}"
        obj["metadata"]["name"] = name
        for webhook in obj["webhooks"]:
            where = webhook["clientConfig"]["service"]["path"]
            url = f"https://127.0.0.1:{port}{where}"
            webhook["clientConfig"] = {"url": url, "caBundle": authority}
        await client.patch(_ref("admissionregistration.k8s.io", obj, name), obj, kind="apply")


def _objects(path: Path) -> list[dict[str, Any]]:
    return [obj for obj in yaml.safe_load_all(path.read_text(encoding="utf-8")) if obj]
