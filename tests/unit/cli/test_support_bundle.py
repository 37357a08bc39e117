"""`federator support-bundle`: what helps is in it, and no word that was planted where secrets are."""

import asyncio
import base64
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from federator.cli.diagnosis import bundle, redaction
from federator.model.steps import ObjectRef
from tests.unit.cli.files import run
from tests.unit.cli.hosts import Host
from tests.unit.hub.world import service

CANARY = "marzipan-4711"
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtYXJ6aXBhbiJ9.c2lnbmF0dXJl"
PEM = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----"


def workload() -> dict[str, Any]:
    """A service with the word wherever its owner may write one that is a secret."""
    spec = service(2)
    container = spec["template"]["spec"]["containers"][0]
    container |= {
        "env": [{"name": "PASSWORD", "value": CANARY}],
        "command": ["run", CANARY],
        "args": [f"--key={CANARY}"],
        "livenessProbe": {"httpGet": {"path": f"/{CANARY}", "port": 80}},
    }
    spec["template"]["metadata"] = {"annotations": {"example/key": CANARY}}
    spec |= {"config": {"app.properties": f"key={CANARY}"}, "iamRole": f"role-{CANARY}"}
    return {
        "apiVersion": "pinterest.com/v1beta1",
        "kind": "PinterestService",
        "metadata": {
            "name": "web",
            "namespace": "feed",
            "annotations": {"example/secret": CANARY, f"{CANARY}/token": "x"[:0] or "y"},
            "labels": {"app": "web"},
        },
        "spec": spec,
        "status": {
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "ImagePullBackOff",
                    "message": f"https://me:{CANARY}@registry/x?token={CANARY}: Bearer {TOKEN}",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    }


def policy() -> dict[str, Any]:
    env = [{"name": "KEY", "value": CANARY}]
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "all", "namespace": "feed"},
        "spec": {
            "workloads": {"matchLabels": {"app": "web"}},
            "overrides": [{"clusters": {"names": ["a"]}, "env": env}],
        },
    }


def cluster() -> dict[str, Any]:
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "MemberCluster",
        "metadata": {"name": "a", "labels": {"zone": "z"}, "annotations": {"note": PEM}},
        "spec": {"credentials": {"secretRef": {"name": "a"}}},
    }


def core(plural: str, kind: str, namespace: str, **fields: Any) -> tuple[ObjectRef, dict[str, Any]]:
    ref = ObjectRef("v1", plural, namespace, "a", kind)
    meta = {"name": "a", "namespace": namespace}
    return ref, {"apiVersion": "v1", "kind": kind, "metadata": meta, **fields}


def planted(host: Host) -> None:
    host.make(workload(), policy(), cluster())
    kubeconfig = f"users: [{{name: a, user: {{token: {CANARY}}}}}]"
    encoded = base64.b64encode(kubeconfig.encode()).decode()
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "feed"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "x",
        "reportingInstance": "x",
        "action": "Pull",
        "reason": "Failed",
        "type": "Warning",
        "note": f"the pull with password={CANARY} failed",
        "regarding": {"kind": "PinterestService", "namespace": "feed", "name": "web"},
    }

    async def work() -> None:
        client = host.client()
        for ref, body in (
            core("secrets", "Secret", "federator-clusters", data={"kubeconfig": encoded}),
            core("secrets", "Secret", "feed", stringData={"key": CANARY}),
            core("configmaps", "ConfigMap", "feed", data={"key": CANARY}),
            (ObjectRef("events.k8s.io/v1", "events", "feed", "e", "Event"), event),
        ):
            await client.create(ref, body)

    asyncio.run(work())


def files(path: Path) -> dict[str, bytes]:
    """Name -> content of each file of an archive."""
    with tarfile.open(path) as archive:
        found = {entry.name: archive.extractfile(entry) for entry in archive.getmembers()}
        return {name: opened.read() for name, opened in found.items() if opened is not None}


def scan(content: bytes) -> list[str]:
    """The planted words in it, also in base64 at each of the three offsets."""
    words = [CANARY.encode(), TOKEN.encode(), PEM.encode()]
    for pad in range(3):
        encoded = base64.b64encode(b"." * pad + CANARY.encode())
        words.append(encoded[4 if pad else 0 : -4])
    return [word.decode() for word in words if word in content]


def test_nothing_that_was_planted_is_in_the_archive(host: Host, tmp_path: Path) -> None:
    planted(host)
    settings = tmp_path / "federator.yaml"
    settings.write_text("hub:\n  # password: " + CANARY + "\n  fleet: federation\n", "utf-8")
    path = tmp_path / "bundle.tar.gz"
    done = run("support-bundle", "-f", str(path), "--config", str(settings))

    assert done.exit_code == 0, done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    found = files(path)
    assert {name: scan(content) for name, content in found.items() if scan(content)} == {}
    assert scan((done.stdout + done.stderr).encode()) == []

    def read(name: str) -> Any:
        return json.loads(found[f"{bundle.FOLDER}/{name}"])

    [web] = read("host/pinterestservices.json")
    assert (web["metadata"]["name"], web["spec"]["replicas"]) == ("web", 2)
    [container] = web["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "app:1"
    assert container["env"] == [{"name": "PASSWORD", "value": redaction.CUT}]
    assert web["status"]["conditions"][0]["reason"] == "ImagePullBackOff"
    [event] = read("host/events.json")
    assert event["reason"] == "Failed"
    assert "No hub has ever led" in json.dumps(read("doctor.json"))
    assert read("contents.json")["version"]
    assert "fleet: federation" in found[f"{bundle.FOLDER}/settings.yaml"].decode()


def test_the_scan_finds_what_an_archive_without_redaction_holds(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(host)
    monkeypatch.setattr(redaction, "redacted", lambda obj, *, strict: obj)
    path = tmp_path / "bundle.tar.gz"
    assert run("support-bundle", "-f", str(path)).exit_code == 0
    assert any(scan(content) for content in files(path).values())


def test_an_archive_that_exists_is_not_overwritten(host: Host, tmp_path: Path) -> None:
    host.make()
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(b"mine")
    done = run("support-bundle", "-f", str(path))
    assert (done.exit_code, path.read_bytes()) == (1, b"mine")
    assert "exists; name another file with -f" in done.stderr


@pytest.mark.parametrize("url", ["file:///etc/passwd", "localhost:8080"])
def test_metrics_are_read_over_http_only(url: str, tmp_path: Path) -> None:
    done = run("support-bundle", "-f", str(tmp_path / "x"), "--metrics", url)
    assert done.exit_code == 1
    assert "http://" in done.stderr


def test_an_archive_is_bounded_and_says_what_it_left_out() -> None:
    archive = bundle.Archive()
    archive.add("00.txt", "\n".join(["x" * 1000] * 2200))
    for number in range(1, 25):  # no texts: each line of those is looked at for secrets
        archive.add(f"{number:02}.json", ["x" * 1000] * 2200)
    assert all(len(data) == bundle.ENTRY_MAX for data in archive.files.values())
    assert sum(map(len, archive.files.values())) <= bundle.WHOLE_MAX
    assert any("the archive is full" in said for said in archive.left_out)
    with tarfile.open(fileobj=io.BytesIO(archive.written(0.0))) as made:
        names = made.getnames()
    assert f"{bundle.FOLDER}/contents.json" in names


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pulled image app:1", "pulled image app:1"),
        (f"token: {CANARY}", "[redacted]"),
        (f"X-Api-Key={CANARY}", f"X-{redaction.CUT}"),
        (f"https://u:{CANARY}@h/x", f"https://{redaction.CUT}@h/x"),
        (PEM, redaction.CUT),
        (base64.b64encode(PEM.encode()).decode(), redaction.CUT),
        (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer [redacted]"),
    ],
    ids=["plain", "named", "key", "address", "pem", "base64", "bearer"],
)
def test_texts_lose_what_looks_like_a_secret(text: str, left: str) -> None:
    cleaned = redaction.text(text)
    assert scan(cleaned.encode()) == []
    assert cleaned == left or redaction.CUT in cleaned
