"""The real control plane as a fixture: one etcd, any number of API servers, and nothing left of
them afterwards.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from federator.kinds import crds
from tests.controlplane import build, seeds
from tests.controlplane.plane import ControlPlane

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("contract of real servers"),
]

ROOT = Path(__file__).parents[3]
OWNER = """
import sys, time
from federator.kinds import crds
from tests.controlplane import build, seeds
from tests.controlplane.plane import ControlPlane
plane = ControlPlane(build.find())
for name in ("first", "second"):
    plane.cluster(name)
print(plane.family.directory, *(child.process.pid for child in plane.family.children), flush=True)
time.sleep(600)
"""


def test_clusters_of_one_etcd_know_nothing_of_each_other(control_plane: ControlPlane) -> None:
    first, second = (control_plane.cluster(name) for name in ("contract", "beside"))
    assert first.url != second.url
    body = {"metadata": {"name": "only-here"}}
    assert first.ask("/api/v1/namespaces", "POST", body)[0] in {201, 409}
    assert first.ask("/api/v1/namespaces/only-here")[0] == 200
    assert second.ask("/api/v1/namespaces/only-here")[0] == 404
    uids = {
        cluster.ask("/api/v1/namespaces/kube-system")[1]["metadata"]["uid"]
        for cluster in (first, second)
    }
    assert len(uids) == 2


def test_every_cluster_asks_for_a_token_and_then_for_a_role(control_plane: ControlPlane) -> None:
    for name in ("contract", "beside"):
        cluster = control_plane.cluster(name)
        refused = cluster.kubectl("get", "secrets", user="nobody")
        assert 'User "nobody" cannot list resource "secrets"' in refused.stderr


def test_asking_again_for_a_cluster_starts_nothing(control_plane: ControlPlane) -> None:
    first = control_plane.cluster("contract")
    children = len(control_plane.family.children)
    assert control_plane.cluster("contract") is first
    assert len(control_plane.family.children) == children


def test_definitions_of_an_earlier_server_are_served_from_the_start(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if they had been created there: same object, same refusals."""
    monkeypatch.setenv("FEDERATOR_CACHE", str(tmp_path))
    (kind,) = (one for one in crds.all_crds() if one["spec"]["names"]["kind"] == "FederatedQuota")
    path = "/apis/federation.pinterest.com/v1alpha1/federatedquotas"
    definitions = []
    for name in ("creates", "inherits"):
        cluster = control_plane.cluster(name, kinds=[kind])
        recorded = [one.name for one in tmp_path.glob("definitions-*.json")]
        assert len(recorded) == 1
        quota = {"apiVersion": kind_version(path), "kind": "FederatedQuota", "spec": {}}
        wrong = {**quota, "metadata": {"name": "a"}, "spec": {"parent": 5}}
        assert cluster.ask(path, "POST", wrong)[0] == 422
        assert cluster.ask(path, "POST", {**quota, "metadata": {"name": "a"}})[0] == 201
        found = cluster.ask(f"{seeds.PATH}/{kind['metadata']['name']}")[1]
        found["metadata"].pop("resourceVersion")
        definitions.append(found)
        control_plane.end(name)
    assert definitions[0] == definitions[1]


def kind_version(path: str) -> str:
    return path.removeprefix("/apis/").rpartition("/")[0]


def test_no_server_outlives_a_killed_test_process() -> None:
    if build.find() is None:
        pytest.skip("There is no real control plane: run `make kube` first.")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        assert owner.stdout is not None
        directory, *pids = owner.stdout.readline().split()
        assert len(pids) == 3
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while Path(directory).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(directory).exists()
    assert [pid for pid in pids if is_running(int(pid))] == []


def is_running(pid: int) -> bool:
    """A zombie is not running: whoever adopted it reaps it in its own time."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
