"""Hostile kubeconfigs, by the Secret that a MemberCluster names: refused in a condition that names
the field and quotes nothing, no command run, no file read, no packet sent; everybody else goes on.
"""

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from federator.model.steps import ObjectRef
from tests.hostile.hosting import Scene, act
from tests.hostile.table import bounded
from tests.unit.kube import test_kubeconfigs as corpus
from tests.unit.kube.test_kubeconfigs import CANARY, in_cluster, in_user

GARBAGE_PEM = base64.b64encode(
    b"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"
).decode()

SPEAKING = {("host", "placementdecisions"), ("host", "pinterestservices")}
"""They speak of every cluster of the fleet, also of one that cannot be joined."""

SECRETS: dict[str, tuple[Any, str]] = {
    "runs a command": (
        in_user(exec={"command": "touch", "args": ["marker"]}),
        "users[0].user.exec",
    ),
    "asks an auth provider": (
        in_user(**{"auth-provider": {"name": "oidc"}}),
        "users[0].user.auth-provider",
    ),
    "names a token file": (in_user(tokenFile="/etc/passwd"), "users[0].user.tokenFile"),
    "names a key file": (in_user(**{"client-key": "/etc/shadow"}), "users[0].user.client-key"),
    "basic authentication": (in_user(username="root", password=CANARY), "users[0].user.username"),
    "impersonates": (in_user(**{"as": "system:admin"}), "users[0].user.as"),
    "header in the token": (in_user(token=f"{CANARY}\r\nX-Evil: 1"), "users[0].user.token"),
    "goes through a proxy": (
        in_cluster(**{"proxy-url": "http://evil:1"}),
        "clusters[0].cluster.proxy-url",
    ),
    "trusts everybody": (
        in_cluster(**{"insecure-skip-tls-verify": True}),
        "clusters[0].cluster.insecure-skip-tls-verify",
    ),
    "authority in a file": (
        in_cluster(**{"certificate-authority": "/etc/passwd"}),
        "clusters[0].cluster.certificate-authority",
    ),
    "authority of garbage": (
        in_cluster(**{"certificate-authority-data": GARBAGE_PEM}),
        "certificates",
    ),
    "without TLS": (in_cluster(server="http://10.0.0.1"), "clusters[0].cluster.server"),
    "this machine": (in_cluster(server="https://127.0.0.1:6443"), "clusters[0].cluster.server"),
    "this machine by name": (
        in_cluster(server="https://localhost:6443"),
        "clusters[0].cluster.server",
    ),
    "this machine in IPv6": (
        in_cluster(server="https://[::ffff:127.0.0.1]"),
        "clusters[0].cluster.server",
    ),
    "this machine in hexadecimal": (
        in_cluster(server="https://0x7f.1"),
        "clusters[0].cluster.server",
    ),
    "metadata service": (
        in_cluster(server="https://169.254.169.254/latest/meta-data"),
        "clusters[0].cluster.server",
    ),
    "metadata service in IPv6": (
        in_cluster(server="https://[fd00:ec2::254]"),
        "clusters[0].cluster.server",
    ),
    "path that climbs": (
        in_cluster(server="https://10.0.0.1/../../x"),
        "clusters[0].cluster.server",
    ),
    "alias bomb": (b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]", "anchors and aliases"),
    "tag that runs a command": (
        b"a: !!python/object/apply:os.system ['touch marker']",
        "tags are not accepted",
    ),
    "nested without end": (b"[" * 100_000, "nested deeper"),
    "larger than any": (b"a" * 300_000, "larger than"),
    "two documents": (corpus.REFUSED["two documents"], "more than one document"),
    "the same key twice": (corpus.REFUSED["double token"], "twice"),
    "no text": (b"\xff\xfe\x00", "no UTF-8"),
    "no kubeconfig in it": (None, "has no key"),
}


def secret(given: Any) -> dict[str, Any]:
    data = base64.b64encode(given).decode() if given is not None else None
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "evil", "namespace": "federator-clusters"},
        "data": {"other": "eA=="} if data is None else {"kubeconfig": data},
    }


def joining(name: str = "evil") -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
        "spec": {"credentials": {"secretRef": {"name": "evil"}}},
    }


@pytest.mark.parametrize("name", SECRETS)
def test_a_hostile_kubeconfig_is_refused_in_a_condition(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given, words = SECRETS[name]
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    for starting in ("create_subprocess_exec", "create_subprocess_shell"):
        monkeypatch.setattr(asyncio, starting, _never)

    async def story(scene: Scene) -> None:
        await asyncio.sleep(60)  # figures of members are copied at intervals
        before, good = scene.picture(), await scene.good()
        await scene.world.host.create(
            ObjectRef("v1", "secrets", "federator-clusters", "evil", "Secret"), secret(given)
        )
        status, answer = await scene.post(joining())
        assert status == 201, answer
        await asyncio.sleep(60)
        ready = await scene.world.condition("MemberCluster", "", "evil", "Ready")
        assert ready["status"] == "False"
        assert words in ready["message"]
        after = scene.picture()
        _assert_silent(after, caplog.text)
        added = {key[1:] for key in after.keys() - before.keys()}
        assert added == {("memberclusters", "", "evil"), ("secrets", "federator-clusters", "evil")}
        assert {key: after[key] for key in before if key[:2] not in SPEAKING} == {
            key: value for key, value in before.items() if key[:2] not in SPEAKING
        }
        assert await scene.good() == good

    with bounded(10.0, measured=False):
        act(story)
    assert list(tmp_path.iterdir()) == []


def _assert_silent(picture: dict[Any, dict[str, Any]], logged: str) -> None:
    """The canary stands in the Secret and nowhere else."""
    assert CANARY not in logged
    for key, obj in picture.items():
        if key[1] != "secrets":
            assert CANARY not in json.dumps(obj)


def _never(*_: Any, **__: Any) -> None:
    raise AssertionError("a command was about to be run")


@pytest.mark.parametrize("double", ["z-double", "0-double"])
def test_the_same_cluster_joined_twice_keeps_its_work_and_its_first_name(double: str) -> None:
    """Two MemberClusters that lead to one cluster (F36): the second gets nothing and says whose
    double it is. Once, its view of the other's slices made the hub remove and make them anew
    without end.
    """

    async def story(scene: Scene) -> None:
        good = await scene.good()
        members = scene.world.federation.members
        members[double] = members["a"]
        before = _work(scene)
        status, answer = await scene.post(joining(double) | {"spec": {}})
        assert status == 201, answer
        await asyncio.sleep(60)
        assert _work(scene) == before
        await scene.world.federation.kill("hub")
        scene.world.federation.start_hub()
        await asyncio.sleep(60)
        assert _work(scene) == before
        ready = await scene.world.condition("MemberCluster", "", double, "Ready")
        assert (ready["status"], "same cluster as a" in ready["message"]) == ("False", True)
        await scene.world.patch("PinterestService", "feed", "good", {"spec": {"replicas": 6}})
        await asyncio.sleep(60)
        shares = await scene.good()
        assert double not in shares
        assert sum(shares.values()) == 6
        assert good

    act(story)


def _work(scene: Scene) -> dict[Any, Any]:
    """What runs in the members, by uid."""
    kinds = {"pinterestservices", "deployments", "pods"}
    return {
        key: obj["metadata"]["uid"]
        for key, obj in scene.picture().items()
        if key[0] != "host" and key[1] in kinds
    }
