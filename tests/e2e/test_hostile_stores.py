"""Artifact stores that lie about digests and lengths, redirect inward, or want credentials elsewhere:
each is refused with its reason, and nothing is kept."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts import artifacts, hosts
from federator.gateway.artifacts.artifacts import Artifacts
from federator.gateway.artifacts.cache import Cache
from federator.gateway.artifacts.oci import ENVELOPE, WORKFLOW
from federator.gateway.artifacts.ports import FILE_MAX, Artifact, ArtifactRefused, Reason
from federator.gateway.artifacts.registry import MANIFEST, digest_of
from federator.gateway.artifacts.secrets import Login
from tests.artifacts import made, repository
from tests.artifacts.embedded import StaticSecrets

pytestmark = pytest.mark.e2e

CANARY = "canary-7f3a"
LOGINS = StaticSecrets({"ci": Login("ci", CANARY)})
BLOB = digest_of(made.WORKFLOW)
Answer = Callable[[web.Request], web.StreamResponse]


def _manifest(**changes: Any) -> bytes:
    layer = {"mediaType": WORKFLOW, "digest": BLOB, "size": len(made.WORKFLOW)}
    fields = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer], **changes}
    return json.dumps(fields).encode()


GOOD = _manifest()


class Liar:
    """A registry with one version whose answers a test replaces, by the end of their path."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {
            "manifests/v1": lambda _: web.Response(body=GOOD),
            f"manifests/{digest_of(GOOD)}": lambda _: web.Response(body=GOOD),
            f"blobs/{BLOB}": lambda _: web.Response(body=made.WORKFLOW),
        }
        self.seen: list[tuple[str, str]] = []
        """(path, Authorization header)."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.path_qs, request.headers.get("authorization", "")))
        for end, answer in self.answers.items():
            if request.path.endswith(end):
                return answer(request)
        return web.Response(status=404)


@pytest.fixture
def liar() -> Liar:
    return Liar()


@pytest.fixture
async def host(liar: Liar) -> AsyncIterator[str]:
    async with repository.listening(liar.handle) as found:
        yield found


@contextlib.asynccontextmanager
async def _artifacts(folder: Path, *, allow_loopback: bool = True) -> AsyncIterator[Artifacts]:
    made_ = artifacts.over_network(LOGINS, folder, time.monotonic, allow_loopback=allow_loopback)
    try:
        yield made_
    finally:
        await made_.close()


def _policy(host: str, *named: str, secret: str = "") -> Policy:
    entry = {"host": host, **({"secretRef": {"name": secret}} if secret else {})}
    others = [{"host": each} for each in named]
    return made.policy(
        sources=[f"oci://{host}/ads/*"], registries=[entry, *others], provenance=made.OFF
    )


async def _resolve(folder: Path, host: str, policy: Policy | None = None) -> Artifact:
    async with _artifacts(folder) as all_:
        source = f"oci://{host}/ads/serving"
        return await all_.resolve(source, "v1", "ads", [policy or _policy(host)])


async def _refusal(folder: Path, host: str, policy: Policy | None = None) -> ArtifactRefused:
    with pytest.raises(ArtifactRefused) as refusal:
        await _resolve(folder, host, policy)
    assert Cache(folder).size == 0
    return refusal.value


async def test_the_registry_of_these_tests_is_accepted_when_it_tells_the_truth(
    tmp_path: Path, host: str
) -> None:
    assert (await _resolve(tmp_path, host)).digest == digest_of(GOOD)


def _says(body: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda _: web.Response(body=body, headers=named)


def _layers(**changes: Any) -> bytes:
    layer = {"mediaType": WORKFLOW, "digest": BLOB, "size": len(made.WORKFLOW), **changes}
    return _manifest(layers=[layer])


LIES: tuple[tuple[str, dict[str, Answer], Reason, str], ...] = (
    (
        "another digest in the header",
        {"manifests/v1": _says(GOOD, docker_content_digest=f"sha256:{'0' * 64}")},
        Reason.STORE_INVALID,
        "says digest sha256:000",
    ),
    (
        "another manifest for the digest",
        {f"manifests/{digest_of(GOOD)}": _says(GOOD + b" ")},
        Reason.STORE_INVALID,
        "has digest",
    ),
    ("no JSON", {"manifests/v1": _says(b"<html>")}, Reason.STORE_INVALID, "cannot be read"),
    ("a list", {"manifests/v1": _says(b"[]")}, Reason.STORE_INVALID, "sends no JSON object"),
    (
        "JSON with a key twice",
        {"manifests/v1": _says(b'{"layers": [], "layers": []}')},
        Reason.STORE_INVALID,
        "is given twice",
    ),
    (
        "a manifest without end",
        {"manifests/v1": _says(b" " * 300_000)},
        Reason.STORE_INVALID,
        "beyond the limit",
    ),
    (
        "an image",
        {"manifests/v1": _says(_layers(mediaType="application/vnd.oci.image.layer.v1.tar"))},
        Reason.FILE_INVALID,
        "is not a workflow",
    ),
    (
        "a workflow of a gigabyte",
        {"manifests/v1": _says(_layers(size=1 << 30))},
        Reason.FILE_INVALID,
        f"at most {FILE_MAX}",
    ),
    (
        "a blob that is too short",
        {f"blobs/{BLOB}": _says(made.WORKFLOW[:-1])},
        Reason.STORE_INVALID,
        "bytes for a blob of",
    ),
    (
        "a blob that is too long",
        {f"blobs/{BLOB}": _says(made.WORKFLOW + b"\n")},
        Reason.STORE_INVALID,
        "beyond the limit",
    ),
    (
        "other bytes of the same length",
        {f"blobs/{BLOB}": _says(b" " * len(made.WORKFLOW))},
        Reason.STORE_INVALID,
        "sends other bytes than those of",
    ),
    (
        "a compressed answer",
        {f"blobs/{BLOB}": _says(made.WORKFLOW, content_encoding="gzip")},
        Reason.STORE_INVALID,
        "encoded, which was not asked for",
    ),
    (
        "an error of the server",
        {f"blobs/{BLOB}": lambda _: web.Response(status=500)},
        Reason.STORE_UNREACHABLE,
        "answers with status 500",
    ),
    (
        "too many requests",
        {"manifests/v1": lambda _: web.Response(status=429)},
        Reason.STORE_UNREACHABLE,
        "answers with status 429",
    ),
    (
        "a teapot",
        {"manifests/v1": lambda _: web.Response(status=418)},
        Reason.STORE_INVALID,
        "answers with status 418",
    ),
)


@pytest.mark.parametrize("lie", [row[1:] for row in LIES], ids=[row[0] for row in LIES])
async def test_lies_about_content_are_refused(
    tmp_path: Path,
    liar: Liar,
    host: str,
    lie: tuple[dict[str, Answer], Reason, str],
) -> None:
    answers, reason, text = lie
    liar.answers |= answers
    for end, answer in answers.items():  # a manifest that differs is asked for by its own digest
        response = answer(None)  # type: ignore[arg-type]
        if end == "manifests/v1" and isinstance(response, web.Response):
            body = response.body
            assert body is None or isinstance(body, bytes)
            liar.answers[f"manifests/{digest_of(body or b'')}"] = answer

    refusal = await _refusal(tmp_path, host)

    assert refusal.reason is reason
    assert text in str(refusal)


async def test_an_answer_that_breaks_off_is_a_store_that_cannot_be_reached(
    tmp_path: Path, liar: Liar, host: str
) -> None:
    def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    liar.answers[f"blobs/{BLOB}"] = broken

    assert (await _refusal(tmp_path, host)).reason is Reason.STORE_UNREACHABLE


async def test_a_store_that_falls_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is shortened here: 5 s of silence, 15 s for one answer."""
    monkeypatch.setattr(hosts, "SILENCE_S", 0.2)
    ended = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        await ended.wait()
        return web.Response()

    async with repository.listening(silent) as host:
        refusal = await _refusal(tmp_path, host)
        ended.set()

    assert refusal.reason is Reason.STORE_UNREACHABLE
    assert "no answer in time" in str(refusal)


async def test_referrers_are_read_from_their_api_if_they_are_about_the_manifest(
    tmp_path: Path, liar: Liar, host: str
) -> None:
    """The API is that of OCI distribution 1.1, which Debian's registry does not serve."""
    digest = digest_of(GOOD)
    entries = []
    for envelope, about in zip(made.good(digest), (digest, BLOB), strict=True):
        layer = {"mediaType": ENVELOPE, "digest": digest_of(envelope), "size": len(envelope)}
        body = _manifest(layers=[layer], subject={"digest": about})
        entries.append({"mediaType": MANIFEST, "digest": digest_of(body), "size": len(body)})
        liar.answers[f"manifests/{digest_of(body)}"] = _says(body)
        liar.answers[f"blobs/{digest_of(envelope)}"] = _says(envelope)
    liar.answers[f"referrers/{digest}"] = _says(json.dumps({"manifests": entries}).encode())
    policy = made.policy(sources=[f"oci://{host}/ads/*"])

    with pytest.raises(ArtifactRefused) as refusal:
        await _resolve(tmp_path, host, policy)

    assert f"about commit {made.COMMIT}" in str(refusal.value)  # the build counts, the review not


INWARD = [
    "http://169.254.169.254/latest/meta-data/",
    "https://169.254.169.254/latest/meta-data/",
    "https://[fe80::1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[fd00:ec2::254]/",
    "https://127.0.0.1:6443/",
    "https://localhost:6443/",
    "https://[::1]:6443/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://192.168.0.1/",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://127.1/",
    "https://0177.0.0.1/",
    "http://registry.example/",
    "http://localhost:6443/",
    "https://user@10.0.0.1/",
    "https://registry.example@10.0.0.1/",
    "https://10.0.0.1\\@registry.example/",
    "file:///etc/passwd",
    "gopher://10.0.0.1/",
    "//10.0.0.1/x",
    "https://[",
    "",
]


@pytest.mark.parametrize("location", INWARD)
async def test_redirects_inward_are_refused(
    tmp_path: Path, liar: Liar, host: str, location: str
) -> None:
    liar.answers[f"blobs/{BLOB}"] = lambda _: web.Response(
        status=307, headers={"location": location}
    )

    refusal = await _refusal(tmp_path, host)

    expected = {Reason.ADDRESS_REFUSED, Reason.STORE_INVALID}
    assert refusal.reason in expected, str(refusal)
    assert "169.254" not in str(refusal) or "169.254.169.254" in location


class Rebinding:
    """A resolver by which every name is at one address of this machine, or a metadata service."""

    address = "127.0.0.1"

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        return [
            {
                "hostname": host,
                "host": self.address,
                "port": port,
                "family": family or 2,
                "proto": 0,
                "flags": 0,
            }
        ]

    async def close(self) -> None: ...


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254"])
async def test_a_named_host_that_resolves_inward_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """The address of the socket is checked, so that no second look-up can change it."""
    monkeypatch.setattr(Rebinding, "address", address)
    monkeypatch.setattr(aiohttp, "AsyncResolver", Rebinding)
    async with _artifacts(tmp_path, allow_loopback=False) as all_:
        with pytest.raises(ArtifactRefused) as refusal:
            await all_.resolve(
                "oci://registry.example/ads/serving", "v1", "ads", [_policy("registry.example")]
            )

    assert refusal.value.reason is Reason.ADDRESS_REFUSED
    assert address not in str(refusal.value)


async def test_a_redirect_to_a_named_host_carries_no_credentials(
    tmp_path: Path, liar: Liar, host: str
) -> None:
    storage = Liar()
    liar.answers["manifests/v1"] = _asking(liar.answers["manifests/v1"])
    async with repository.listening(storage.handle) as other:
        liar.answers[f"blobs/{BLOB}"] = lambda _: web.Response(
            status=307, headers={"location": f"http://{other}/blobs/{BLOB}?signed=1"}
        )
        policy = _policy(host, other, secret="ci")

        assert (await _resolve(tmp_path, host, policy)).digest == digest_of(GOOD)

    assert storage.seen == [(f"/blobs/{BLOB}?signed=1", "")]
    assert LOGINS.logins["ci"].header in {header for _, header in liar.seen}


def _asking(answer: Answer) -> Answer:
    """Answers 401 to whoever shows nothing."""

    def asked(request: web.Request) -> web.StreamResponse:
        if "authorization" in request.headers:
            return answer(request)
        return web.Response(status=401, headers={"www-authenticate": 'Basic realm="r"'})

    return asked


async def test_redirects_without_end_are_refused(tmp_path: Path, liar: Liar, host: str) -> None:
    liar.answers["manifests/v1"] = lambda request: web.Response(
        status=302, headers={"location": request.path}
    )

    refusal = await _refusal(tmp_path, host)

    assert "redirects more than 3 times" in str(refusal)


@pytest.mark.parametrize("realm", [url for url in INWARD if '"' not in url and "\\" not in url])
async def test_a_token_service_elsewhere_gets_no_credentials(
    tmp_path: Path, liar: Liar, host: str, realm: str
) -> None:
    liar.answers["manifests/v1"] = lambda _: web.Response(
        status=401, headers={"www-authenticate": f'Bearer realm="{realm}",service="x"'}
    )

    refusal = await _refusal(tmp_path, host, _policy(host, secret="ci"))

    assert refusal.reason in (Reason.ADDRESS_REFUSED, Reason.STORE_INVALID), str(refusal)
    assert CANARY not in str(refusal)


async def test_no_credentials_in_logs_and_errors(
    tmp_path: Path, liar: Liar, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    liar.answers["manifests/v1"] = _asking(lambda _: web.Response(status=403))
    with caplog.at_level(logging.DEBUG):
        refusal = await _refusal(tmp_path, host, _policy(host, secret="ci"))

    assert refusal.reason is Reason.STORE_DENIED
    header = LOGINS.logins["ci"].header
    assert header in {shown for _, shown in liar.seen}
    for text in (str(refusal), repr(refusal), caplog.text):
        assert CANARY not in text
        assert header not in text
