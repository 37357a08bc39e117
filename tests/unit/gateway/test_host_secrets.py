"""Credentials from Secrets of an embedded host: rotation, absence, missing rights."""

import base64
import random
from pathlib import Path

import pytest

from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.messages import Caller
from federator.gateway.artifacts import artifacts
from federator.gateway.artifacts.ports import ArtifactRefused, Reason
from federator.gateway.artifacts.secrets import KEPT_S, HostSecrets
from federator.kube.client import Client
from federator.kube.clock import RealClock
from federator.model.steps import ObjectRef
from tests.artifacts import made

NAMESPACE = "federator-artifacts"
REF = ObjectRef("v1", "secrets", NAMESPACE, "ci", "Secret")


def _data(password: str) -> dict[str, str]:
    texts = {"username": "ci", "password": password}
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


async def _host() -> EmbeddedCluster:
    """A host with one Secret."""
    cluster = EmbeddedCluster("host", clock=RealClock(), rng=random.Random(1), controllers=False)
    client = Client(cluster.transport(), "host")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(ObjectRef("v1", "namespaces", "", NAMESPACE), namespace)
    metadata = {"name": "ci", "namespace": NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": _data("first")}
    await client.create(REF, secret)
    return cluster


async def test_a_rotated_password_is_used_after_the_time_for_which_secrets_are_kept() -> None:
    now_s = 0.0
    client = Client((await _host()).transport(), "host")
    secrets = HostSecrets(client, NAMESPACE, lambda: now_s)

    assert (await secrets.login("ci", "registry.example")).password == "first"
    await client.patch(REF, {"data": _data("second")})
    assert (await secrets.login("ci", "registry.example")).password == "first"
    now_s += KEPT_S
    assert (await secrets.login("ci", "registry.example")).password == "second"


async def test_a_missing_secret_and_missing_rights_are_named_without_the_content() -> None:
    cluster = await _host()
    missing = HostSecrets(Client(cluster.transport(), "host"), NAMESPACE, lambda: 0.0)
    nobody = Caller("nobody", ("system:authenticated",))
    denied = HostSecrets(Client(cluster.transport(nobody), "host"), NAMESPACE, lambda: 0.0)

    for secrets, name, problem in (
        (missing, "other", "does not exist; spec.registries of the policy names it"),
        (denied, "ci", "the gateway may not read it"),
    ):
        with pytest.raises(ArtifactRefused) as refusal:
            await secrets.login(name, "registry.example")
        assert refusal.value.reason is Reason.POLICY_INVALID
        assert str(refusal.value) == f"the Secret {NAMESPACE}/{name}: {problem}"


async def test_a_gateway_with_a_missing_secret_refuses_the_version_with_the_cause(
    tmp_path: Path,
) -> None:
    client = Client((await _host()).transport(), "host")
    whole = artifacts.of_host(client, NAMESPACE, tmp_path, lambda: 0.0)
    registry = {"host": "artifacts.example", "secretRef": {"name": "other"}}
    policy = made.policy(sources=["https://artifacts.example/ads/*"], registries=[registry])
    try:
        with pytest.raises(ArtifactRefused) as refusal:
            await whole.resolve("https://artifacts.example/ads/serving", "v1", "ads", [policy])
    finally:
        await whole.close()

    assert f"the Secret {NAMESPACE}/other: does not exist" in str(refusal.value)
