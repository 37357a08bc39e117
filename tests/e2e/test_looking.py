"""What tests read by themselves is what kubectl shows, and refusals are told alike."""

import json
import socket
from pathlib import Path

import pytest

from tests.controlplane import build
from tests.controlplane.plane import ControlPlane
from tests.e2e import federations, looking
from tests.e2e.federations import Shell
from tests.e2e.trying import Tries

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.real,
    pytest.mark.xdist_group("contract of real servers"),
]

LOOKS = [
    ("get", "ns"),
    ("get", "configmaps,sa", "-A"),
    ("get", "cm", "extension-apiserver-authentication", "-n", "kube-system"),
    ("get", "svc/kubernetes"),
    ("get", "clusterroles", "-l", "kubernetes.io/bootstrapping=rbac-defaults"),
    ("get", "role.rbac.authorization.k8s.io", "-n", "kube-system"),
]


@pytest.fixture
def shell(control_plane: ControlPlane, tmp_path: Path) -> Shell:
    return federations.kubectl(tmp_path, control_plane.cluster("contract").kubeconfig())


@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_a_look_is_what_kubectl_prints(shell: Shell, arguments: tuple[str, ...]) -> None:
    assert looking.understood(arguments) is not None
    shown, seen = json.loads(shell(*arguments, "-o", "json")), shell.json(*arguments)
    assert seen.get("items", seen) == shown.get("items", shown) != []


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "cm", "-w"),
        ("get", "cm", "a", "b"),
        ("get", "cm", "a", "-A"),
        ("get", "cm,sa", "a"),
        ("get", "cm", "--field-selector=metadata.name=a"),
        ("rollout", "history", "deploy/a"),
    ],
    ids=" ".join,
)
def test_other_commands_are_left_to_kubectl(arguments: tuple[str, ...]) -> None:
    assert looking.understood(arguments) is None


def test_what_is_not_there_fails_like_a_command(shell: Shell) -> None:
    for arguments in (("get", "nonsense"), ("get", "cm", "nonsense")):
        with pytest.raises(AssertionError, match=r"nonsense"):
            shell.json(*arguments)


def test_nothing_that_is_tried_is_kept(shell: Shell) -> None:
    if build.kubectl() is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    tries = Tries(looking.server(shell.kubeconfig), "default")
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tried"}}
    assert tries.create(made).code == 0
    assert shell.run("get", "cm", "tried").code == 1
    shell("create", "configmap", "kept", "--from-literal=a=1")
    assert tries.patch("cm/kept", {"data": {"a": "2"}}).code == 0
    assert tries.delete("cm/kept").code == 0
    assert tries.delete("configmaps").code == 0
    refused = tries.patch("cm/kept", {"data": {"a": "2"}}, "--as=somebody", "--as-group=nobodies")
    assert 'User "somebody" cannot patch resource "configmaps"' in refused.err
    assert shell.json("get", "cm", "kept")["data"] == {"a": "1"}
    shell("delete", "cm", "kept")


def test_a_write_does_not_use_a_connection_that_has_ended(shell: Shell) -> None:
    server = looking.server(shell.kubeconfig)
    tries = Tries(server, "default")
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tried"}}
    assert tries.create(made).code == 0
    kept = server._connection
    assert kept is not None
    socket.socket.shutdown(kept.sock, socket.SHUT_RDWR)
    assert tries.create(made).code == 0
