"""The real kubectl against an embedded API over HTTPS, with its stand-in controllers: what people
type.

kubectl is the built one of `make kube`, else the one on PATH; without any the tests skip.
"""

import asyncio
import base64
import json
import os
import random
import re
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from federator.embedded import http
from federator.embedded.controllers import NodePool
from federator.embedded.server import EmbeddedCluster
from federator.kube.clock import RealClock
from tests.contract.crds import install_widgets, widget
from tests.contract.speaking import Speaker
from tests.controlplane import build
from tests.unit.deploy import manifests

pytestmark = pytest.mark.e2e

DEADLINE_S = 60.0
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {"name": "app", "image": "nginx:1", "ports": [{"containerPort": 80}]}
                ]
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class Ran:
    """How one command ended."""

    code: int
    out: str
    err: str

    def lines(self) -> list[list[str]]:
        """Standard output as words per line."""
        return [line.split() for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl in the test's namespace of one embedded cluster."""

    binary: Path
    home: Path
    cluster: EmbeddedCluster

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        known = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.home / "config"),
        }
        return await asyncio.create_subprocess_exec(
            self.binary,
            *arguments,
            env=known | environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *arguments: str, **environment: str) -> Ran:
        """Runs to the end, whatever it is."""
        process = await self.start(*arguments, **environment)
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate()
        return Ran(process.returncode or 0, out.decode(), err.decode())

    async def __call__(self, *arguments: str, **environment: str) -> str:
        """Runs a command that must succeed; returns its output."""
        ran = await self.run(*arguments, **environment)
        assert ran.code == 0, f"kubectl {' '.join(arguments)}: {ran.err}{ran.out}"
        return ran.out

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))

    def manifest(self, *objects: dict[str, Any]) -> str:
        """Writes objects to a file and returns its path."""
        path = self.home / "manifest.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return str(path)


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    binary = build.kubectl()
    if binary is None:
        pytest.skip("There is no kubectl, neither built nor on PATH: run `make kube`.")
    cluster = EmbeddedCluster(
        "emb", clock=RealClock(), rng=random.Random(1), nodes=[NodePool(count=2)]
    )
    assert cluster.controllers is not None
    running = asyncio.create_task(cluster.controllers.run())
    server = await http.serve(cluster)
    http.write_kubeconfig(tmp_path / "config", {"emb": server}, "emb")
    try:
        yield Kubectl(binary, tmp_path, cluster)
    finally:
        await server.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_the_kubeconfig_is_private_and_leads_to_the_server(kubectl: Kubectl) -> None:
    assert stat.S_IMODE((kubectl.home / "config").stat().st_mode) == 0o600
    assert "Server Version: v1.37" in await kubectl("version")
    assert (await kubectl("get", "--raw", "/readyz")) == "ok"


async def test_a_wrong_token_is_turned_away(kubectl: Kubectl) -> None:
    ran = await kubectl.run("get", "ns", "--token=wrong")
    assert ran.code == 1
    assert "Unauthorized" in ran.err or "provide credentials" in ran.err


async def test_discovery_lists_what_is_served(kubectl: Kubectl) -> None:
    rows = {row[0]: row for row in (await kubectl.run("api-resources")).lines()}
    assert rows["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert {"pods", "namespaces", "customresourcedefinitions", "leases", "jobs"} <= rows.keys()
    versions = (await kubectl("api-versions")).split()
    assert {"v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1"} <= set(versions)


async def test_typed_commands_that_post_protobuf_work(kubectl: Kubectl) -> None:
    assert await kubectl("create", "ns", "feed") == "namespace/feed created\n"
    await kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2", "-n", "feed")
    await kubectl("create", "configmap", "conf", "--from-literal=k=v", "-n", "feed")
    assert (await kubectl.json("get", "configmap", "conf", "-n", "feed"))["data"] == {"k": "v"}
    assert (await kubectl("auth", "can-i", "create", "pods")) == "yes\n"
    assert "kubernetes-admin" in await kubectl("auth", "whoami")


async def test_a_deployment_from_apply_to_deletion(kubectl: Kubectl) -> None:
    file = kubectl.manifest(WEB)
    assert await kubectl("apply", "-f", file) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", file) == "deployment.apps/web unchanged\n"
    await kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    assert "successfully rolled out" in await kubectl(
        "rollout", "status", "deploy/web", "--timeout=60s"
    )
    row = (await kubectl("get", "deploy", "web", "--no-headers", "-o", "wide")).split()
    assert row[:4] + row[5:] == ["web", "2/2", "2", "2", "app", "nginx:1", "app=web"]
    assert await kubectl("scale", "deploy/web", "--replicas=3") == "deployment.apps/web scaled\n"
    await kubectl("wait", "deploy/web", "--for=jsonpath={.status.readyReplicas}=3", "--timeout=60s")
    described = await kubectl("describe", "deploy", "web")
    assert "3 desired | 3 updated | 3 total | 3 available" in described
    assert "ScalingReplicaSet" in described
    assert 'deployment.apps "web" deleted' in await kubectl("delete", "deploy", "web")
    await kubectl("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s")
    assert (await kubectl.json("get", "deploy,rs,pods"))["items"] == []


async def test_pods_are_listed_logged_and_described(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.manifest(WEB))
    await kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    names = (await kubectl("get", "pods", "-o", "name")).split()
    assert len(names) == 2
    assert all(name.startswith("pod/web-") for name in names)
    rows = (await kubectl.run("get", "pods", "-A", "-o", "wide")).lines()
    assert rows[0][:4] == ["NAMESPACE", "NAME", "READY", "STATUS"]
    assert [row[2:4] for row in rows[1:]] == [["1/1", "Running"]] * 2
    node = rows[1][7]
    found = await kubectl.json(
        "get", "pods", "--field-selector", f"spec.nodeName={node},status.phase=Running"
    )
    assert found["items"]
    assert (await kubectl.json("get", "pods", "-l", "app!=web"))["items"] == []
    chunked = await kubectl("get", "pods", "--chunk-size=1", "-o", "name")
    assert chunked.split() == names
    assert "embedded container app" in await kubectl("logs", "deploy/web")
    assert "Successfully assigned" in await kubectl("describe", names[0])
    assert "Allocated resources" in await kubectl("describe", "node", node)
    assert "SuccessfulCreate" in await kubectl("events")
    assert "Scheduled" in await kubectl("get", "events", "--field-selector", "reason=Scheduled")


async def test_server_side_apply_shares_fields_and_names_conflicts(kubectl: Kubectl) -> None:
    file = kubectl.manifest(WEB)
    assert (
        await kubectl("apply", "--server-side", "-f", file)
        == "deployment.apps/web serverside-applied\n"
    )
    await kubectl("scale", "deploy/web", "--replicas=5")
    clash = await kubectl.run("apply", "--server-side", "-f", file, "--field-manager=other")
    assert clash.code == 1
    assert ".spec.replicas" in clash.err
    await kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", file, "--field-manager=other"
    )
    assert (await kubectl.json("get", "deploy", "web"))["spec"]["replicas"] == 2


async def test_diff_shows_what_would_change_and_changes_nothing(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.manifest(WEB))
    same = await kubectl.run("diff", "-f", kubectl.manifest(WEB))
    assert (same.code, same.out) == (0, "")
    changed = {**WEB, "spec": {**WEB["spec"], "replicas": 7}}  # type: ignore[dict-item]
    for flags in ([], ["--server-side"]):
        shown = await kubectl.run("diff", "-f", kubectl.manifest(changed), *flags)
        assert shown.code == 1, shown.err
        assert "+  replicas: 7" in shown.out
    assert (await kubectl.json("get", "deploy", "web"))["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (
            "strategic",
            '{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"nginx:2"}]}}}}',
        ),
        (
            "merge",
            '{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"nginx:2"}]}}}}',
        ),
        (
            "json",
            '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:2"}]',
        ),
    ],
)
async def test_three_kinds_of_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("apply", "-f", kubectl.manifest(WEB))
    await kubectl("patch", "deploy", "web", "--type", kind, "-p", patch)
    (container,) = (await kubectl.json("get", "deploy", "web"))["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["image"] == "nginx:2"
    assert ("ports" in container) is (kind != "merge")


async def test_labels_annotations_and_an_editor(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.manifest(WEB))
    await kubectl("label", "deploy", "web", "tier=front")
    await kubectl("annotate", "deploy", "web", "note=hello")
    await kubectl("label", "deploy", "web", "app-")
    editor = kubectl.home / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/replicas: 2/replicas: 4/" "$1"\n')
    editor.chmod(0o700)
    assert "edited" in await kubectl("edit", "deploy", "web", KUBE_EDITOR=str(editor))
    made = await kubectl.json("get", "deploy", "web")
    assert made["metadata"]["labels"] == {"tier": "front"}
    assert made["metadata"]["annotations"]["note"] == "hello"
    assert made["spec"]["replicas"] == 4


async def test_validation_speaks_before_and_on_the_server(kubectl: Kubectl) -> None:
    typo = {**WEB, "spec": {**WEB["spec"], "replicaz": 7}}  # type: ignore[dict-item]
    refused = await kubectl.run("apply", "-f", kubectl.manifest(typo))
    assert refused.code == 1
    assert 'unknown field "spec.replicaz"' in refused.err
    wrong = {**WEB, "spec": {**WEB["spec"], "replicas": -1}}  # type: ignore[dict-item]
    refused = await kubectl.run("create", "-f", kubectl.manifest(wrong))
    assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in refused.err
    dry = await kubectl("create", "-f", kubectl.manifest(WEB), "--dry-run=server", "-o", "yaml")
    assert yaml.safe_load(dry)["spec"]["revisionHistoryLimit"] == 10
    assert (await kubectl.run("get", "deploy", "web")).code == 1


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
async def test_deleting_cascades_as_asked(kubectl: Kubectl, cascade: str) -> None:
    await kubectl("apply", "-f", kubectl.manifest(WEB))
    await kubectl("wait", "deploy/web", "--for=condition=Available", "--timeout=60s")
    await kubectl("delete", "deploy", "web", f"--cascade={cascade}", "--timeout=60s")
    assert (await kubectl.run("get", "deploy", "web")).code == 1
    if cascade == "orphan":
        (replica_set,) = (await kubectl.json("get", "rs"))["items"]
        assert "ownerReferences" not in replica_set["metadata"]
        assert len((await kubectl.json("get", "pods"))["items"]) == 2
    else:
        await kubectl("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s")


async def test_a_namespace_takes_its_content_along(kubectl: Kubectl) -> None:
    await kubectl("create", "ns", "feed")
    await kubectl("apply", "-n", "feed", "-f", kubectl.manifest(WEB))
    await kubectl("delete", "ns", "feed", "--timeout=60s")
    assert (await kubectl.run("get", "ns", "feed")).code == 1
    assert (await kubectl.json("get", "deploy,pods", "-A"))["items"] == []


async def test_watching_prints_changes_as_they_happen(kubectl: Kubectl) -> None:
    process = await kubectl.start(
        "get", "configmaps", "-l", "w=1", "-w", "--no-headers", "--output-watch-events"
    )
    assert process.stdout is not None
    try:
        # The watch must be open before anything happens; nothing matches the selector, so it prints
        # nothing yet.
        while not kubectl.cluster.api.requests[("watch", "configmaps")]:  # noqa: ASYNC110  # kubectl tells nobody
            await asyncio.sleep(0.02)
        await kubectl("create", "configmap", "seen", "--from-literal=k=v")
        await kubectl("label", "configmap", "seen", "w=1")
        await kubectl("annotate", "configmap", "seen", "n=1")
        await kubectl("delete", "configmap", "seen")
        async with asyncio.timeout(DEADLINE_S):
            seen = [(await process.stdout.readline()).split()[:2] for _ in range(3)]
        assert seen == [[b"ADDED", b"seen"], [b"MODIFIED", b"seen"], [b"DELETED", b"seen"]]
    finally:
        process.terminate()
        await process.communicate()


async def test_explain_knows_natives_and_custom_resources(kubectl: Kubectl) -> None:
    assert re.search(r"replicas\s+<integer>", await kubectl("explain", "deployment.spec"))
    assert "FIELD: replicas <integer>" in await kubectl("explain", "deployment.spec.replicas")
    await install_widgets(Speaker(kubectl.cluster.transport(), "default"))
    assert "Its color." in await kubectl("explain", "widget.spec.color")
    assert "apis/apps/v1" in json.loads(await kubectl("get", "--raw", "/openapi/v3"))["paths"]


async def test_custom_resources_are_like_natives(kubectl: Kubectl) -> None:
    await install_widgets(Speaker(kubectl.cluster.transport(), "default"))
    await kubectl(
        "wait", "crd/widgets.contract.example", "--for=condition=Established", "--timeout=10s"
    )
    body = {"apiVersion": "contract.example/v1", **widget("one")}
    assert "created" in await kubectl("apply", "-f", kubectl.manifest(body))
    assert "unchanged" in await kubectl("apply", "-f", kubectl.manifest(body))
    assert await kubectl("get", "widgets", "-o", "name") == "widget.contract.example/one\n"
    assert (await kubectl("get", "widgets")).splitlines()[0].startswith("NAME")
    await kubectl("scale", "widget/one", "--replicas=3")
    await kubectl(
        "patch", "widget", "one", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}'
    )
    assert (await kubectl.json("get", "widgets", "-l", "a=b"))["items"][0]["metadata"][
        "name"
    ] == "one"
    assert "Name:         one" in await kubectl("describe", "widget", "one")
    assert 'widget.contract.example "one" deleted' in await kubectl("delete", "widget", "one")


async def test_describe_shows_what_controllers_say_of_a_custom_resource(kubectl: Kubectl) -> None:
    api = Speaker(kubectl.cluster.transport(), "default")
    await install_widgets(api)
    (await api.post(api.url("widgets"), widget("one"))).object(201)
    about = await kubectl.json("get", "widget", "one")
    told = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "one.1", "namespace": "default"},
        "eventTime": "2026-03-01T10:00:00.000000Z",
        "regarding": {
            "apiVersion": about["apiVersion"],
            "kind": "Widget",
            "namespace": "default",
            "name": "one",
            "uid": about["metadata"]["uid"],
        },
        "reason": "Placed",
        "note": "3 of 3 placed",
        "action": "Place",
        "type": "Normal",
        "reportingController": "example.org/placer",
        "reportingInstance": "placer-0",
    }
    await kubectl("create", "-f", kubectl.manifest(told))
    described = await kubectl("describe", "widget", "one")
    assert described.splitlines()[-1].split(maxsplit=2)[0:2] == ["Normal", "Placed"]
    assert "example.org/placer" in described
    assert described.endswith("3 of 3 placed\n")
    assert "3 of 3 placed" in await kubectl("events", "--for", "widgets.contract.example/one")


async def test_a_service_account_gets_in_with_its_secret_and_may_what_it_is_bound_to(
    kubectl: Kubectl,
) -> None:
    await kubectl("create", "sa", "robot")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "robot",
            "annotations": {"kubernetes.io/service-account.name": "robot"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    await kubectl("apply", "-f", kubectl.manifest(secret))
    await kubectl("wait", "--for=jsonpath={.data.token}", "secret/robot", "--timeout=60s")
    data = (await kubectl.json("get", "secret", "robot"))["data"]
    root = (await kubectl.json("get", "cm", "kube-root-ca.crt"))["data"]["ca.crt"]
    assert base64.b64decode(data["ca.crt"]).decode() == root
    long_lived, short_lived = (
        base64.b64decode(data["token"]).decode(),
        (await kubectl("create", "token", "robot")).strip(),
    )
    server = yaml.safe_load((kubectl.home / "config").read_text())["clusters"][0]["cluster"][
        "server"
    ]
    (kubectl.home / "ca.crt").write_text(root)
    empty = kubectl.home / "empty"
    empty.write_text("")
    for token in (long_lived, short_lived):
        robot = [
            f"--server={server}",
            f"--certificate-authority={kubectl.home / 'ca.crt'}",
            f"--token={token}",
        ]
        who = await kubectl("auth", "whoami", *robot, KUBECONFIG=str(empty))
        assert "system:serviceaccount:default:robot" in who
        ran = await kubectl.run("get", "pods", *robot, KUBECONFIG=str(empty))
        why = 'cannot list resource "pods" in API group "" in the namespace "default"'
        assert ran.err == (
            (
                "Error from server (Forbidden): pods is forbidden: User "
                '"system:serviceaccount:default:robot" '
            )
            + why
            + "\n"
        )
    await kubectl(
        "create",
        "clusterrolebinding",
        "robot",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:robot",
    )
    assert (
        "No resources found"
        in (await kubectl.run("get", "pods", *robot, KUBECONFIG=str(empty))).err
    )
    await kubectl("delete", "secret", "robot")
    ran = await kubectl.run(
        "get", "pods", *robot[:2], f"--token={long_lived}", KUBECONFIG=str(empty)
    )
    assert "logged in" in ran.err or "Unauthorized" in ran.err


async def test_a_binding_to_edit_in_one_namespace_is_all_that_a_service_owner_needs(
    kubectl: Kubectl,
) -> None:
    """The roles of deploy/host/access join view, edit and admin, as a controller manager has them
    join.
    """
    deploy = manifests.DEPLOY
    await kubectl("apply", "--server-side", "-k", str(deploy / "crd"))
    await kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    await kubectl("apply", "-f", str(deploy / "host" / "access" / "people.yaml"))
    for space in ("feed", "ads"):
        await kubectl("create", "ns", space)
    for role in ("view", "edit", "admin"):
        await kubectl("create", "sa", f"{role}er", "-n", "feed")
        bound = (f"--clusterrole={role}", f"--serviceaccount=feed:{role}er")
        await kubectl("create", "rolebinding", role, *bound, "-n", "feed")

    container = {
        "name": "app",
        "image": "app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    service = {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
    }
    file = kubectl.manifest(service)
    token = (await kubectl("create", "token", "editer", "-n", "feed")).strip()
    await kubectl("config", "set-credentials", "editer", f"--token={token}")
    await kubectl("config", "set-context", "editing", "--cluster=emb", "--user=editer")
    editing = "--context=editing"
    assert (
        await kubectl("create", "-f", file, "-n", "feed", editing)
        == "pinterestservice.pinterest.com/web created\n"
    )
    assert await kubectl("get", "psvc", "web", "-n", "feed", "-o", "name", editing)
    refused = await kubectl.run("create", "-f", file, "-n", "ads", editing)
    assert refused.code == 1
    assert (
        'cannot create resource "pinterestservices" in API group "pinterest.com" in the '
        'namespace "ads"'
    ) in refused.err
    assert (await kubectl.run("get", "psvc", "-A", editing)).code == 1

    for what, verb, who in (
        ("pinterestservices.pinterest.com", "list", ["view", "edit", "admin"]),
        ("pinterestservices.pinterest.com", "create", ["edit", "admin"]),
        ("placementpolicies.federation.pinterest.com", "create", ["admin"]),
        ("placementdecisions.federation.pinterest.com", "update", []),
        ("memberclusters.federation.pinterest.com", "list", []),
    ):
        may = [
            role
            for role in ("view", "edit", "admin")
            if (
                await kubectl.run(
                    "auth",
                    "can-i",
                    verb,
                    what,
                    "-n",
                    "feed",
                    f"--as=system:serviceaccount:feed:{role}er",
                )
            ).code
            == 0
        ]
        assert may == who, f"{verb} {what}"
