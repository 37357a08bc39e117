"""A new cluster of real servers is brought up to its ClusterStandard while it joins, held against it,
and brought up to it again.
"""

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.kinds import crds
from tests.controlplane import nodes
from tests.controlplane.plane import ControlPlane
from tests.e2e import federations
from tests.e2e.federations import Fleet, Ran
from tests.unit.cli.test_standard import AGENT, MIRROR, PLATFORM, WIDGET, WIDGETS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.long,
    pytest.mark.xdist_group("real servers with a standard"),
]

NAME = "us-east-1a"
NODES = 3
URGENT = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "node-critical-batch"},
    "value": 900000,
}
PROFILE = {
    "apiVersion": "pinterest.com/v1beta1",
    "kind": "RuntimeProfile",
    "metadata": {"name": "default"},
    "spec": {"version": "1", "env": [{"name": "PINTEREST_REGION", "value": "us-east-1"}]},
}
READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reads-nodes"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}],
}
SLOW = {"embedded.federator/start-delay-seconds": "4"}
"""Its pods take longer than all that the command does meanwhile."""
SLOW_AGENT: dict[str, Any] = copy.deepcopy(AGENT)
SLOW_AGENT["spec"]["template"]["metadata"]["annotations"] = SLOW
MANIFESTS: list[dict[str, Any]] = [
    URGENT,
    PLATFORM,
    MIRROR,
    READER,
    PROFILE,
    WIDGETS,
    WIDGET,
    SLOW_AGENT,
]
SERVED = [{"apiVersion": "example.com/v1", "kind": "Widget"}]
DAEMONS = [{"namespace": "platform", "name": "log-agent"}]
PROBES = [{"name": "ready", "path": "/readyz"}, {"name": "widgets", "path": "/apis/example.com/v1"}]
JOINED = f"membercluster.federation.pinterest.com/{NAME} joined\n"


@pytest.fixture(scope="module")
def fleet(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host, and a cluster with nodes that has not joined it; no hub is needed to join."""
    home: Path = tmp_path_factory.mktemp("standards")
    host = control_plane.cluster(f"{home.name}-host", kinds=crds.all_crds())
    member = control_plane.cluster(f"{home.name}-{NAME}", controllers=True, scheduler=True)
    with contextlib.ExitStack() as stack:
        for cluster in (host, member):
            stack.callback(control_plane.end, cluster.name)
        kubeconfigs = {"host": home / "host.kubeconfig", NAME: member.kubeconfig()}
        kubeconfigs["host"].write_bytes(host.kubeconfig().read_bytes())
        stack.enter_context(nodes.running(member, nodes.many("n", NODES)))
        programs = stack.enter_context(federations.family(home))
        found = federations.fleet_of("real", home, kubeconfigs, programs)
        found.federator("crd", "install", "--member", "--kubeconfig", str(kubeconfigs[NAME]))
        yield found


def asked(fleet: Fleet, **spec: Any) -> None:
    """The standard of the region, as it is from now on."""
    standard = {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "ClusterStandard",
        "metadata": {"name": "us-east-1"},
        "spec": {"clusters": {"selector": {"matchLabels": {"region": "us-east-1"}}}, **spec},
    }
    fleet.host("apply", "-f", fleet.manifest(standard))


def run(fleet: Fleet, command: str, *flags: str) -> Ran:
    path = fleet.members[NAME].kubeconfig
    context = yaml.safe_load(path.read_text())["current-context"]
    where = ("-C", context, "--member-kubeconfig", str(path))
    return fleet.federator.run("cluster", command, NAME, *where, *flags)


def versions(fleet: Fleet) -> list[str]:
    """Of what the standard made."""
    kinds = "priorityclasses,clusterroles,widgets,rp"
    objs = fleet.members[NAME].items(kinds)
    objs += fleet.members[NAME].items("cm", "-n", "platform")
    wanted = {manifest["metadata"]["name"] for manifest in MANIFESTS}
    return sorted(
        f"{obj['kind']} {obj['metadata']['name']} {obj['metadata']['resourceVersion']}"
        for obj in objs
        if obj["metadata"]["name"] in wanted
    )


def test_a_new_cluster_is_brought_up_to_its_standard_and_kept_there(fleet: Fleet) -> None:
    _what_no_cluster_can_have_keeps_it_from_joining(fleet)
    _it_is_brought_up_and_joins(fleet)
    _what_is_as_it_should_is_not_written_again(fleet)
    _what_somebody_changed_is_named_and_put_back(fleet)


def _what_no_cluster_can_have_keeps_it_from_joining(fleet: Fleet) -> None:
    asked(fleet, served=[{"apiVersion": "example.com/v1", "kind": "Gadget"}])
    done = run(fleet, "add", "--label", "region=us-east-1", "--wait", "1")
    assert done.code == 1
    assert "waiting at most 1 s for us-east-1: example.com/v1 Gadget (not served)" in done.err
    assert "example.com/v1 Gadget" in done.out
    assert "not served" in done.out
    assert fleet.host.items("mc") == []


def _it_is_brought_up_and_joins(fleet: Fleet) -> None:
    asked(fleet, manifests=MANIFESTS, served=SERVED, daemons=DAEMONS, probes=PROBES)
    done = run(fleet, "add", "--label", "region=us-east-1")
    assert done.code == 0, done.err + done.out
    assert done.out.endswith(JOINED)
    assert "waiting at most 120 s for us-east-1: DaemonSet platform/log-agent (" in done.err
    applied = [line.split()[0] for line in done.out.splitlines() if line.endswith(" applied")]
    assert applied == [manifest["kind"] for manifest in MANIFESTS]
    assert f"ready on {NODES} of {NODES} nodes" in done.out
    assert "FAILED" not in done.out
    assert [obj["metadata"]["name"] for obj in fleet.host.items("mc")] == [NAME]


def _what_is_as_it_should_is_not_written_again(fleet: Fleet) -> None:
    before = versions(fleet)
    assert len(before) == 5
    done = run(fleet, "conform")
    assert done.code == 0, done.err + done.out
    assert " applied" not in done.out
    assert versions(fleet) == before
    checked = run(fleet, "conform", "--dry-run")
    assert (checked.code, checked.out) == (0, done.out)


def _what_somebody_changed_is_named_and_put_back(fleet: Fleet) -> None:
    member = fleet.members[NAME]
    change = '{"data":{"endpoint":"elsewhere"}}'
    member("patch", "cm", "registry-mirror", "-n", "platform", "--type=merge", "-p", change)
    member("delete", "widget", "first")
    told = run(fleet, "conform", "--dry-run")
    assert told.code == 1
    assert "differs in data.endpoint" in told.out
    assert "missing" in told.out
    done = run(fleet, "conform")
    assert done.code == 0, done.err + done.out
    assert "ConfigMap platform/registry-mirror applied\nWidget first applied\n" in done.out
    data = member.json("get", "cm", "registry-mirror", "-n", "platform")["data"]
    assert data == {"endpoint": "mirror.example"}
