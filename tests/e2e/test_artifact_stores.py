"""One contract for all artifact stores: in memory, Debian's docker-registry, and an HTTP repository
with the checksums and properties of Artifactory."""

import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.x509 import load_pem_x509_certificate
from joserfc import jwt
from joserfc.jwk import ECKey

from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts import artifacts, provenance
from federator.gateway.artifacts.hosts import Hosts
from federator.gateway.artifacts.images import Images
from federator.gateway.artifacts.oci import ENVELOPE, OciStore
from federator.gateway.artifacts.ports import ArtifactRefused, ArtifactStore, Build, Reason
from federator.gateway.artifacts.registry import MANIFEST, Registry, Repository
from federator.gateway.artifacts.repository import HttpStore
from federator.gateway.artifacts.secrets import Login
from federator.kube import selfsigned
from federator.model import sources
from federator.model.sources import Reference
from tests.artifacts import made, registry, repository
from tests.artifacts.embedded import EmbeddedStore, StaticSecrets

pytestmark = pytest.mark.e2e

CANARY = "canary-7f3a"
HTPASSWD = "ci:$2b$05$abcdefghijklmnopqrstuuOp8OehA/FGqgLSy483f93NihCP1//Se"
LOGINS = StaticSecrets({"ci": Login("ci", CANARY), "wrong": Login("ci", "guess")})


@dataclass
class Stored:
    """A store, a workflow in it, and the policy under which it is used."""

    store: ArtifactStore
    ref: Reference
    policy: Policy


def _policy(pattern: str, host: str, secret: str = "") -> Policy:
    entry = {"host": host, **({"secretRef": {"name": secret}} if secret else {})}
    return made.policy(sources=[pattern], registries=[entry])


@contextlib.asynccontextmanager
async def _store(kind: str, folder: Path) -> AsyncIterator[Stored]:
    if kind == "embedded":
        ref = sources.reference("oci://registry.example/ads/serving")
        yield Stored(EmbeddedStore(), ref, made.policy())
        return
    async with contextlib.AsyncExitStack() as stack:
        hosts = Hosts(allow_loopback=True)
        stack.push_async_callback(hosts.close)
        if kind == "oci":
            host = await stack.enter_async_context(registry.serving(folder))
            store: ArtifactStore = OciStore(Registry(hosts, LOGINS, time.monotonic))
            ref = sources.reference(f"oci://{host}/ads/serving")
            yield Stored(store, ref, _policy(f"oci://{host}/ads/*", host))
            return
        served = repository.ArtifactRepository(LOGINS.logins["ci"].header)
        host = await stack.enter_async_context(repository.listening(served.handle))
        ref = sources.reference(f"http://{host}/artifactory/workflows/ads/serving")
        policy = _policy(f"http://{host}/artifactory/workflows/ads/*", host, "ci")
        yield Stored(HttpStore(hosts, LOGINS), ref, policy)


@pytest.fixture(params=["embedded", "oci", "http"])
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stored]:
    async with _store(request.param, tmp_path) as found:
        yield found


async def test_a_version_is_pushed_resolved_and_fetched_with_its_properties(
    stored: Stored,
) -> None:
    store, ref, policy = stored.store, stored.ref, stored.policy
    build = Build("42", made.COMMIT, "main", "ci", "2026-12-01T00:00:00Z")

    digest = await store.push(ref, "v1", made.WORKFLOW, build, policy)

    assert await store.digest_of(ref, "v1", policy) == digest
    fetched = await store.fetch(ref, "v1", digest, policy)
    assert (fetched.digest, fetched.file) == (digest, made.WORKFLOW)
    assert fetched.properties == {
        "version": "42",
        "commit": made.COMMIT,
        "branch": "main",
        "builder": "ci",
        "time": "2026-12-01T00:00:00Z",
    }


async def test_a_version_that_is_pushed_again_has_another_digest(stored: Stored) -> None:
    store, ref, policy = stored.store, stored.ref, stored.policy
    first = await store.push(ref, "v1", made.WORKFLOW, Build(), policy)

    second = await store.push(ref, "v1", made.WORKFLOW + b"\n", Build(), policy)

    assert first != second == await store.digest_of(ref, "v1", policy)


async def test_statements_are_attached_one_after_the_other(stored: Stored) -> None:
    store, ref, policy = stored.store, stored.ref, stored.policy
    digest = await store.push(ref, "v1", made.WORKFLOW, Build(), policy)
    assert await store.envelopes(ref, "v1", digest, policy) == ()

    good = made.good(digest)
    for envelope in good:
        await store.attach(ref, "v1", digest, envelope, policy)

    assert await store.envelopes(ref, "v1", digest, policy) == good


async def test_a_version_that_is_not_there_is_not_found(stored: Stored) -> None:
    with pytest.raises(ArtifactRefused) as refusal:
        await stored.store.digest_of(stored.ref, "v9", stored.policy)

    assert refusal.value.reason is Reason.NOT_FOUND
    assert "v9 is not at" in str(refusal.value)


async def test_statements_under_the_tag_of_cosign_are_read(tmp_path: Path) -> None:
    """cosign writes one manifest with a layer per statement, of in-toto Statement v0.1."""
    async with _store("oci", tmp_path) as stored:
        store, ref, policy = stored.store, stored.ref, stored.policy
        assert isinstance(store, OciStore)
        digest = await store.push(ref, "v1", made.WORKFLOW, Build(), policy)
        old = "https://in-toto.io/Statement/v0.1"
        envelopes = [
            made.signed({**each, "_type": old}) for each in (made.provenance(digest), made.review())
        ]
        async with _client() as client:
            where = Repository(ref.host, ref.path)
            config = await client.push_blob(where, b"{}", policy)
            blobs = [await client.push_blob(where, each, policy) for each in envelopes]
            layers = [
                {"mediaType": ENVELOPE, "digest": each.digest, "size": each.size} for each in blobs
            ]
            other = {"mediaType": "text/plain", "digest": config.digest, "size": config.size}
            manifest = {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {**other, "mediaType": "application/vnd.oci.image.config.v1+json"},
                "layers": [other, *layers],
            }
            tag = f"{digest.replace(':', '-')}.att"
            body = json.dumps(manifest).encode()
            await client.push_manifest(where, tag, body, MANIFEST, policy)

        read = await store.envelopes(ref, "v1", digest, policy)

    assert read == tuple(envelopes)
    assert provenance.check(read, digest, made.policy()).verified


@contextlib.asynccontextmanager
async def _client() -> AsyncIterator[Registry]:
    hosts = Hosts(allow_loopback=True)
    try:
        yield Registry(hosts, LOGINS, time.monotonic)
    finally:
        await hosts.close()


async def test_what_was_fetched_is_resolved_while_the_store_is_away(tmp_path: Path) -> None:
    """The whole way on real parts: registry, cache, provenance, image."""
    async with contextlib.AsyncExitStack() as stack:
        async with registry.serving(tmp_path) as host:
            whole = artifacts.over_network(
                LOGINS, tmp_path / "cache", time.monotonic, allow_loopback=True
            )
            stack.push_async_callback(whole.close)
            policy = _policy(f"oci://{host}/ads/*", host)
            store = whole.store(sources.reference(f"oci://{host}/ads/serving"))
            assert isinstance(store, OciStore)
            ref = sources.reference(f"oci://{host}/ads/serving")
            image = await store.push(
                sources.reference(f"oci://{host}/ads/app"), "1", b"an image", Build(), policy
            )
            file = made.WORKFLOW.replace(
                b"registry.example/ads/app@sha256:" + b"1" * 64, f"{host}/ads/app:1".encode()
            )
            digest = await store.push(ref, "v1", file, Build(), policy)
            for envelope in made.good(digest):
                await store.attach(ref, "v1", digest, envelope, policy)

            artifact = await whole.resolve(str(ref), "v1", "ads", [policy])
            rendered = await whole.render(artifact, {}, "ads")

        (container,) = rendered.objects[0]["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"{host}/ads/app@{image}"
        assert rendered.images == {f"{host}/ads/app:1": container["image"]}
        assert artifact.provenance.verified
        again = artifacts.over_network(
            LOGINS, tmp_path / "cache", time.monotonic, allow_loopback=True
        )
        stack.push_async_callback(again.close)
        kept = await again.resolve(str(ref), "v1", "ads", [policy])
        assert (kept.digest, kept.cached, kept.provenance.verified) == (digest, True, True)
        with pytest.raises(ArtifactRefused) as refusal:
            await again.resolve(str(ref), "v2", "ads", [policy])
        assert refusal.value.reason is Reason.STORE_UNREACHABLE


@pytest.mark.parametrize("secret", ["ci", "wrong", ""])
async def test_a_registry_with_passwords_gets_those_of_the_secret(
    tmp_path: Path, secret: str
) -> None:
    (tmp_path / "htpasswd").write_text(HTPASSWD, encoding="utf-8")
    auth = f"auth: {{htpasswd: {{realm: test, path: {tmp_path / 'htpasswd'}}}}}"
    async with registry.serving(tmp_path, auth) as host:
        await _push_and_pull(host, secret)


async def test_a_registry_shows_a_certificate_that_the_policy_trusts(tmp_path: Path) -> None:
    identity = selfsigned.made(
        "registry", dns=["registry"], addresses=["127.0.0.1"], now_s=time.time()
    )
    other = selfsigned.made("other", dns=["other"], now_s=time.time())
    async with registry.serving(tmp_path, identity=identity) as host, _client() as client:
        ref = sources.reference(f"oci://{host}/ads/serving")
        trusting, doubting = (
            made.policy(
                sources=[f"oci://{host}/ads/*"],
                registries=[{"host": host, "caBundle": each.ca_pem.decode()}],
            )
            for each in (identity, other)
        )

        digest = await OciStore(client).push(ref, "v1", made.WORKFLOW, Build(), trusting)
        assert await OciStore(client).digest_of(ref, "v1", trusting) == digest
        with pytest.raises(ArtifactRefused) as refusal:
            await OciStore(client).digest_of(ref, "v1", doubting)

    assert refusal.value.reason is Reason.STORE_UNREACHABLE
    assert "its certificate is not one that was agreed on" in str(refusal.value)


async def test_a_registry_with_a_token_service_gets_a_token_for_the_repository(
    tmp_path: Path,
) -> None:
    """docker-registry checks the tokens by itself; the service is on another host."""
    identity = selfsigned.made("tokens", dns=["tokens"], now_s=time.time())
    cert, private = identity.cert_pem, identity.key_pem
    (tmp_path / "root.pem").write_bytes(cert)
    key = ECKey.import_key(private)
    der = load_pem_x509_certificate(cert).public_bytes(serialization.Encoding.DER)
    asked: list[str] = []

    async def token(request: web.Request) -> web.StreamResponse:
        if request.headers.get("authorization") != LOGINS.logins["ci"].header:
            return web.Response(status=401)
        asked.append(request.query["scope"])
        kind, name, actions = request.query["scope"].split(":")
        now = int(time.time())
        claims = {
            "iss": "tokens",
            "aud": request.query["service"],
            "iat": now,
            "nbf": now - 10,
            "exp": now + 300,
            "access": [{"type": kind, "name": name, "actions": actions.split(",")}],
        }
        header = {"alg": "ES256", "x5c": [base64.b64encode(der).decode()]}
        return web.json_response({"token": jwt.encode(header, claims, key), "expires_in": 300})

    async with repository.listening(token) as service:
        auth = (
            f"auth: {{token: {{realm: 'http://{service}/token', service: registry, issuer: tokens,"
            f" rootcertbundle: {tmp_path / 'root.pem'}}}}}"
        )
        async with registry.serving(tmp_path, auth) as host:
            await _push_and_pull(host, "ci", service)
            assert asked == [
                "repository:ads/serving:pull,push",
                "repository:ads/serving:pull",
            ]
            with pytest.raises(ArtifactRefused) as refusal:
                await _push_and_pull(host, "ci")
            assert f"has its token service at {service}: name that host" in str(refusal.value)


async def _push_and_pull(host: str, secret: str, service: str = "") -> None:
    entries = [{"host": host, **({"secretRef": {"name": secret}} if secret else {})}]
    entries += [{"host": service}] if service else []
    policy = made.policy(sources=[f"oci://{host}/ads/*"], registries=entries)
    ref = sources.reference(f"oci://{host}/ads/serving")
    async with _client() as client:
        if secret != "ci":
            with pytest.raises(ArtifactRefused) as refusal:
                await OciStore(client).push(ref, "v1", made.WORKFLOW, Build(), policy)
            assert refusal.value.reason is Reason.STORE_DENIED
            assert "check the Secret that spec.registries of the policy names" in str(refusal.value)
            return
        digest = await OciStore(client).push(ref, "v1", made.WORKFLOW, Build(), policy)
        where = Repository(host, "ads/serving")
        assert await client.digest(where, "v1", policy) == digest
        images = Images(client, time.monotonic)
        pods = {"spec": {"containers": [{"image": f"{host}/ads/serving:v1"}]}}
        assert await images.pin([pods], policy) == {
            f"{host}/ads/serving:v1": f"{host}/ads/serving@{digest}"
        }
