"""`federator workflow` on Debian's docker-registry: from a file to a version that a policy accepts."""

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest
import yaml

from tests.artifacts import made, registry
from tests.e2e.federations import FEDERATOR
from tests.house.sources import ROOT

pytestmark = pytest.mark.e2e

EXAMPLES = ROOT / "config" / "examples" / "submission"
HTPASSWD = "ci:$2b$05$abcdefghijklmnopqrstuuOp8OehA/FGqgLSy483f93NihCP1//Se"
CANARY = "canary-7f3a"


async def _run(folder: Path, *arguments: str, code: int = 0) -> str:
    """What the command prints to stdout, or to stderr when it is to fail."""
    process = await asyncio.create_subprocess_exec(
        *FEDERATOR,
        "workflow",
        *arguments,
        cwd=folder,
        env={**os.environ, "DOCKER_CONFIG": str(folder)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    text = (err if code else out).decode()
    assert process.returncode == code, out.decode() + err.decode()
    assert CANARY not in out.decode() + err.decode()
    return text


def _files(folder: Path, host: str) -> None:
    """The examples, for a registry on this machine, with keys and the caller's credentials."""
    (folder / "htpasswd").write_text(HTPASSWD, encoding="utf-8")
    auth = base64.b64encode(f"ci:{CANARY}".encode()).decode()
    config = {"auths": {host: {"auth": auth}}, "credsStore": "must-not-run"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in ("workflow.yaml", "provenance.json", "review.json"):
        text = (EXAMPLES / name).read_text(encoding="utf-8").replace("registry.example", host)
        (folder / name).write_text(text, encoding="utf-8")
    policy = yaml.safe_load((EXAMPLES / "policy.yaml").read_text(encoding="utf-8"))
    policy["spec"]["sources"] = [f"oci://{host}/ads/*"]
    policy["spec"]["registries"] = []
    for number, entry in enumerate(policy["spec"]["provenance"]["keys"]):
        private, public = made.key("ed25519", number)
        entry["publicKey"] = public
        (folder / f"{entry['name']}.pem").write_bytes(private)
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")


async def test_a_file_becomes_a_version_that_the_policy_accepts(tmp_path: Path) -> None:
    auth = f"auth: {{htpasswd: {{realm: test, path: {tmp_path / 'htpasswd'}}}}}"
    async with registry.serving(tmp_path, auth) as host:
        _files(tmp_path, host)
        source = f"oci://{host}/ads/serving@v1"
        tried = ("check", source, "--policy", "policy.yaml", "-n", "ads", "--param", "image=1.42")

        assert "is valid: 1 objects" in await _run(
            tmp_path, "validate", "workflow.yaml", "--param", "image=1.42"
        )
        digest = (await _run(tmp_path, "push", "workflow.yaml", source)).strip()
        image = await _run(tmp_path, "push", "workflow.yaml", f"oci://{host}/ads/app@1.42")
        assert "no signed provenance" in await _run(tmp_path, *tried, code=1)
        for kind, key in (("provenance", "build"), ("review", "review")):
            signing = ("--type", kind, "--predicate", f"{kind}.json", "--key", f"{key}.pem")
            printed = await _run(tmp_path, "attest", source, *signing)
            assert printed == f"{kind} of {digest} is signed and stored\n"
        checked = await _run(tmp_path, *tried)

    assert checked.splitlines() == [
        f"oci://{host}/ads/serving@{digest}",
        "provenance: verified (mode Enforce)",
        "  commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904 of https://git.example/ads/serving,"
        " branch main",
        "  built by https://ci.example/builders/v1; signed by build, review",
        "  written by ana@example.com, approved by ben@example.com",
        "PinterestService ads/serving",
        f"  image {host}/ads/app:1.42 -> {image.strip()}",
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("validate", "workflow.yaml"), "parameters.image: is required (a value of type string)"),
        (
            ("validate", "workflow.yaml", "--param", "image=1", "--param", "replicas=501"),
            "parameters.replicas: is 501, more than the maximum 500",
        ),
        (
            ("validate", "workflow.yaml", "--param", "image"),
            "--param image: NAME=VALUE is expected",
        ),
        (("validate", "policy.yaml"), "workflow.spec: unknown field"),
        (("push", "workflow.yaml", "oci://h/x"), "oci://h/x: SOURCE@VERSION is expected"),
        (("push", "workflow.yaml", "ftp://h/x@v1"), "is not a source"),
        (("push", "workflow.yaml", "oci://h/x@../v1"), "../v1: a version has letters"),
        (("push", "workflow.yaml", "oci://127.0.0.1:9/x@v1"), "cannot be connected to"),
        (
            ("check", "oci://h/x@v1", "--policy", "workflow.yaml"),
            "workflow.yaml: one SubmissionPolicy is expected",
        ),
        (
            ("check", "oci://h/x@v1", "--policy", "policy.yaml"),
            "no SubmissionPolicy that you may use allows the source oci://h/x",
        ),
        (
            (
                *("attest", "oci://h/x@v1", "--type", "provenance"),
                *("--predicate", "review.json", "--key", "build.pem"),
            ),
            "review.json is not SLSA provenance: buildDefinition: is required",
        ),
    ],
)
async def test_mistakes_end_with_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    _files(tmp_path, "127.0.0.1:9")

    printed = await _run(tmp_path, *arguments, code=1)

    assert problem in printed
    assert all(line.startswith("error: ") for line in printed.splitlines())
