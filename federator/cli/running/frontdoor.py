"""The submission gateway of the demo, with a repository of workflows that are signed and reviewed,
the account of a CI job, and a file with the environment variables that `federator submit` reads."""

import asyncio
import contextlib
import secrets
import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from federator.cli.running.sandbox import Served
    from federator.embedded.server import EmbeddedCluster

ENVIRONMENT: Final = "federator-demo.env"
TOKEN: Final = "federator-demo.token"
NAMESPACE: Final = "ads"
WORKFLOWS: Final = "workflows/ads"
"""Path of the workflows of the project in the repository."""
COMMITS: Final[Mapping[str, str]] = {"v1": "1" * 40, "v2": "2" * 40}
"""Version of the demo's workflow -> commit. That of v2 has no review."""
REVIEWED: Final = "v1"
GIT: Final = "https://git.example/ads/serving"
BUILDER: Final = "https://ci.example/builders/v1"
TOKEN_S: Final = 30 * 24 * 3600


@contextlib.asynccontextmanager
async def opened(served: "Served", manifests: str, workflow: bytes) -> AsyncIterator[Path]:
    """A gateway in front of the demo's federation, and its environment file. `manifests`: accounts
    and rights; `workflow`: the file of the demo's workflow."""
    from federator import app
    from federator.kube.metrics import Metrics
    from federator.kube.tlsserver import Listen, TlsServer
    from federator.processes import Access
    from federator.sandbox.repository import Repository
    from federator.settings import Settings

    keys = {name: _key() for name in ("build", "review")}
    repository = Repository()
    store = TlsServer(repository.answer)
    files = (Path(ENVIRONMENT), Path(TOKEN))
    async with contextlib.AsyncExitStack() as stack:
        port = await store.start("127.0.0.1", 0, None)
        stack.push_async_callback(store.close)
        source = f"http://127.0.0.1:{port}/{WORKFLOWS}"
        repository.files.update(stored(source, workflow, keys))
        host = served.federation.client("host", "gateway")
        await _create(host, manifests, policy(source, keys))
        folder = served.directory / "gateway"
        access = Access(kubeconfig=str(await _account(served, folder)))
        await asyncio.to_thread(_write_keys, folder / "keys", keys)
        options = replace(
            Settings().gateway,
            cache_directory=str(folder / "cache"),
            audit_directory=str(folder / "audit"),
        )
        gateway, base, _ = await stack.enter_async_context(
            app.serving_gateway(
                replace(Settings(), gateway=options),
                access,
                Listen(),
                Metrics(),
                allow_loopback=True,
            )
        )
        await gateway.policies.read()
        for file in files:
            stack.callback(file.unlink, missing_ok=True)
        token = _token(served.federation.host)
        variables = {
            "FEDERATOR_GATEWAY": base,
            "FEDERATOR_TOKEN_FILE": str(files[1].absolute()),
            "FEDERATOR_NAMESPACE": NAMESPACE,
            "WORKFLOWS": source,
            "SIGNING_KEYS": str(folder / "keys"),
            "AUDIT": str(folder / "audit"),
        }
        await asyncio.to_thread(_write, files, variables, token)
        yield files[0]


def stored(source: str, workflow: bytes, keys: Mapping[str, bytes]) -> dict[str, bytes]:
    """Path in the repository -> file: both versions of the workflow, and the signed statements."""
    from federator.gateway.artifacts import envelopes, registry, repository, statements

    files: dict[str, bytes] = {}
    for version, commit in COMMITS.items():
        file = workflow.replace(b'version: "1"', f'version: "{version[1:]}"'.encode())
        digest = registry.digest_of(file)
        said = [("build", statements.PROVENANCE, _provenance(commit))]
        if version == REVIEWED:
            said.append(("review", statements.REVIEW, _review(commit)))
        lines = [
            envelopes.sealed(
                statements.made(kind, predicate, f"{source}/ranker", digest),
                statements.PAYLOAD_TYPE,
                keys[name],
            )
            for name, kind, predicate in said
        ]
        folder = f"/{WORKFLOWS}/ranker/{version}"
        files[f"{folder}/{repository.FILE}"] = file
        files[f"{folder}/{repository.STATEMENTS}"] = b"\n".join(lines) + b"\n"
    return files


def _provenance(commit: str) -> dict[str, Any]:
    source = {"uri": f"git+{GIT}@refs/heads/main", "digest": {"gitCommit": commit}}
    return {
        "buildDefinition": {
            "buildType": "https://ci.example/workflow/v1",
            "externalParameters": {"repository": GIT},
            "resolvedDependencies": [source],
        },
        "runDetails": {"builder": {"id": BUILDER}},
    }


def _review(commit: str) -> dict[str, Any]:
    return {
        "repository": GIT,
        "commit": commit,
        "branch": "main",
        "authors": ["ana@example.com"],
        "approvals": [{"id": "ben@example.com"}],
    }


def policy(source: str, keys: Mapping[str, bytes]) -> dict[str, Any]:
    """The SubmissionPolicy: signed by the build, and reviewed by another person than the author."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    def public(name: str) -> str:
        key = load_pem_private_key(keys[name], None).public_key()
        return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    may_sign = {"build": "Provenance", "review": "Review"}
    listed = [
        {"name": name, "statements": [statement], "publicKey": public(name)}
        for name, statement in may_sign.items()
    ]
    return {
        "apiVersion": "federation.pinterest.com/v1alpha1",
        "kind": "SubmissionPolicy",
        "metadata": {"name": "ads"},
        "spec": {
            "projects": [NAMESPACE],
            "sources": [f"{source}/*"],
            "provenance": {
                "mode": "Enforce",
                "builders": [BUILDER],
                "repositories": [GIT],
                "keys": listed,
            },
        },
    }


def _key() -> bytes:
    """A fresh private key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


async def _create(host: Any, manifests: str, policy: Mapping[str, Any]) -> None:
    from federator.kinds import read, registry
    from federator.sandbox.federation import ensure

    for obj in read.load_yaml(manifests):
        await ensure(host, obj, f"{obj['kind'].lower()}s")
    await ensure(host, policy, registry.KINDS["SubmissionPolicy"].plural)


async def _account(served: "Served", folder: Path) -> Path:
    """The kubeconfig of the gateway's account."""
    from federator.embedded import http
    from federator.embedded.storage.messages import Caller

    token = secrets.token_urlsafe(24)
    groups = ("system:serviceaccounts", "system:authenticated")
    name = "system:serviceaccount:federator-system:federator-gateway"
    served.federation.host.add_token(token, Caller(name, groups))
    folder.mkdir(mode=0o700)
    path = folder / "kubeconfig"
    http.write_private(path, served.kubeconfig_of(token))
    return path


def _token(host: "EmbeddedCluster") -> str:
    """A token of the CI job's account, as `kubectl create token ci -n ads` prints it."""
    from federator.embedded.auth.tokens import AUDIENCE

    accounts = host.store.items(host.registry.get("", "serviceaccounts"))
    account = next(
        each.obj
        for each in accounts
        if (each.obj["metadata"]["namespace"], each.obj["metadata"]["name"]) == (NAMESPACE, "ci")
    )
    return host.tokens.issue(account, audiences=[AUDIENCE], lifetime_s=TOKEN_S, bound=None)


def _write_keys(folder: Path, keys: Mapping[str, bytes]) -> None:
    from federator.embedded import http

    folder.mkdir(mode=0o700)
    for name, pem in keys.items():
        http.write_private(folder / f"{name}.pem", pem.decode())


def _write(files: tuple[Path, Path], variables: Mapping[str, str], token: str) -> None:
    from federator.embedded import http

    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    http.write_private(files[1], f"{token}\n")
    http.write_private(files[0], "".join(lines))
