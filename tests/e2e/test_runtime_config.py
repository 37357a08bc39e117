"""One contract for all stores of configuration, an HTTP repository and Debian's docker-registry, and
the part that puts artifacts into a pod."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from federator.runtime.configuration import downloading, part
from federator.runtime.configuration.part import Configuration
from federator.runtime.files import wanted
from federator.runtime.files.switching import REFRESHED
from federator.runtime.parts import Waiting
from federator.runtime.roles import BadSetting, Pod
from tests.artifacts import registry, repository

pytestmark = pytest.mark.e2e

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
TAR_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def archive(**files: str) -> bytes:
    """A tar.gz with these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            made.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(out.getvalue(), mtime=0)


@dataclass
class Repository:
    """An HTTP repository whose answers a test spoils."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: list[str] = field(default_factory=list)
    """Range headers of the requests."""
    cut: int | None = None
    """The connection ends after so many bytes of a body."""
    ignores_ranges: bool = False
    status: int = 0
    silent: asyncio.Event | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers.get("Range", "")
        self.ranges.append(asked)
        if self.silent is not None:
            await self.silent.wait()
        if self.status:
            return web.Response(status=self.status)
        data = self.files.get(request.path)
        if data is None:
            return web.Response(status=404)
        begin = 0 if self.ignores_ranges else int(asked.removeprefix("bytes=").rstrip("-") or 0)
        if begin and begin >= len(data):
            return web.Response(status=416)
        answer = web.StreamResponse(status=206 if begin else 200)
        answer.content_length = len(data) - begin
        if begin:
            answer.headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        await answer.prepare(request)
        if self.cut is None:
            await answer.write(data[begin:])
        else:
            await answer.write(data[begin : begin + self.cut])
            assert request.transport is not None
            request.transport.close()
        return answer


@dataclass
class Stored:
    """A store, and how its owner uploads: returns artifact and digest."""

    upload: Callable[[str, bytes], Awaitable[tuple[str, str]]]


@pytest.fixture(params=["http", "oci"])
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stored]:
    if request.param == "http":
        served = Repository()
        async with repository.listening(served.handle) as host:

            async def put(name: str, data: bytes) -> tuple[str, str]:
                served.files[f"/config/{name}"] = data
                return f"http://{host}/config/{name}", _digest(data)

            yield Stored(put)
        return
    room = tmp_path / "registry"
    room.mkdir()
    async with registry.serving(room) as host:

        async def upload(name: str, data: bytes) -> tuple[str, str]:
            return f"oci://{host}/ads/config", await push(host, "ads/config", name, data)

        yield Stored(upload)


async def push(host: str, where: str, name: str, data: bytes) -> str:
    """As `oras push` does: one layer with the name of the file. Returns the manifest's digest."""
    base = f"http://{host}/v2/{where}"
    async with aiohttp.ClientSession() as session:
        for blob in (b"{}", data):
            async with session.post(f"{base}/blobs/uploads/") as begun:
                place = begun.headers["Location"]
            mark = "&" if "?" in place else "?"
            async with session.put(f"{place}{mark}digest={_digest(blob)}", data=blob) as done:
                assert done.status == 201
        layer = {
            "mediaType": TAR_LAYER if name.endswith(".tar.gz") else "application/json",
            "digest": _digest(data),
            "size": len(data),
            "annotations": {"org.opencontainers.image.title": name},
        }
        config = {
            "mediaType": "application/vnd.oci.empty.v1+json",
            "digest": _digest(b"{}"),
            "size": 2,
        }
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}
        body = json.dumps(manifest).encode()
        headers = {"Content-Type": MANIFEST}
        async with session.put(
            f"{base}/manifests/{_digest(body)}", data=body, headers=headers
        ) as put:
            assert put.status == 201
    return _digest(body)


def _part(folder: Path, *entries: tuple[str, str, str]) -> Configuration:
    listed = [{"artifact": a, "digest": d, "path": p} for a, d, p in entries]
    env = {wanted.CONFIG: json.dumps(listed), "FEDERATOR_CONFIG_DIR": str(folder)}
    env["FEDERATOR_IDENTITY_DIR"] = str(folder / "no-identity")
    made = part.make(Pod(env=env))
    assert isinstance(made, Configuration)
    return made


async def _reason(made: Configuration) -> tuple[str, str]:
    with pytest.raises(Waiting) as waits:
        await made.prepare()
    assert not waits.value.state.ready
    return waits.value.state.reason, waits.value.state.message


async def test_files_and_archives_are_there_together(stored: Stored, tmp_path: Path) -> None:
    flags = await stored.upload("flags.json", b'{"a": 1}')
    models = await stored.upload("models.tar.gz", archive(**{"m/one": "1", "two": "2"}))
    made = _part(tmp_path / "c", (*flags, "flags.json"), (*models, "ml/models"))

    await made.prepare()

    assert (tmp_path / "c" / "flags.json").read_bytes() == b'{"a": 1}'
    assert (tmp_path / "c" / "ml" / "models" / "m" / "one").read_text() == "1"
    assert (tmp_path / "c" / REFRESHED).read_text().strip().startswith("20")
    assert made.state().ready
    assert not (tmp_path / "c" / part.PARTIAL).exists()


async def test_another_digest_than_that_of_the_artifact_is_refused(
    stored: Stored, tmp_path: Path
) -> None:
    artifact, _ = await stored.upload("flags.json", b"{}")
    made = _part(tmp_path / "c", (artifact, _digest(b"other"), "flags.json"))

    reason, message = await _reason(made)

    assert reason in ("ConfigDigestWrong", "ConfigMissing")  # a registry looks digests up
    assert _digest(b"other") in message
    assert not (tmp_path / "c" / "flags.json").exists()


async def test_nothing_is_shown_before_all_artifacts_are_there(
    stored: Stored, tmp_path: Path
) -> None:
    flags = await stored.upload("flags.json", b"{}")
    evil = await stored.upload("evil.tar.gz", archive(**{"../../evil": "x"}))
    made = _part(tmp_path / "c", (*flags, "flags.json"), (*evil, "models"))

    assert await _reason(made) == (
        "ConfigUnsafe",
        "the archive has '../../evil', which is outside of its folder",
    )
    assert not (tmp_path / "c" / "flags.json").exists()
    assert not (tmp_path / "evil").exists()


async def test_a_pod_that_has_its_artifacts_needs_no_store(stored: Stored, tmp_path: Path) -> None:
    artifact, digest = await stored.upload("flags.json", b"{}")
    await _part(tmp_path / "c", (artifact, digest, "flags.json")).prepare()
    here = artifact.split("/")[2]
    gone = artifact.replace(here, "127.0.0.1:1")

    again = _part(tmp_path / "c", (artifact, digest, "flags.json"))
    await again.prepare()

    assert again.state().ready
    reason, message = await _reason(_part(tmp_path / "d", (gone, digest, "flags.json")))
    assert reason == "ConfigAway"
    assert "127.0.0.1:1 cannot be reached" in message


# -- a repository that fails --------------------------------------------------


@pytest.fixture
async def spoiled() -> AsyncIterator[tuple[Repository, str]]:
    served = Repository()
    async with repository.listening(served.handle) as host:
        yield served, f"http://{host}"


DATA = os.urandom(300_000)


async def test_a_download_goes_on_where_it_broke_off(
    spoiled: tuple[Repository, str], tmp_path: Path
) -> None:
    served, base = spoiled
    served.files["/data"], served.cut = DATA, 100_000
    made = _part(tmp_path / "c", (f"{base}/data", _digest(DATA), "data"))

    reason, message = await _reason(made)
    assert reason == "ConfigAway", message
    served.cut = None
    await made.prepare()

    assert (tmp_path / "c" / "data").read_bytes() == DATA
    assert served.ranges[0] == ""
    assert int(served.ranges[1].removeprefix("bytes=").rstrip("-")) > 0


async def test_a_server_without_ranges_sends_it_all_again(
    spoiled: tuple[Repository, str], tmp_path: Path
) -> None:
    served, base = spoiled
    served.files["/data"], served.cut, served.ignores_ranges = DATA, 100_000, True
    made = _part(tmp_path / "c", (f"{base}/data", _digest(DATA), "data"))
    await _reason(made)
    served.cut = None

    await made.prepare()

    assert (tmp_path / "c" / "data").read_bytes() == DATA


async def test_a_beginning_of_something_else_is_thrown_away(
    spoiled: tuple[Repository, str], tmp_path: Path
) -> None:
    served, base = spoiled
    served.files["/data"] = DATA
    made = _part(tmp_path / "c", (f"{base}/data", _digest(DATA), "data"))
    partial = tmp_path / "c" / part.PARTIAL
    partial.mkdir(parents=True)
    (partial / _digest(DATA).replace(":", "-")).write_bytes(b"something else")

    reason, _ = await _reason(made)
    assert reason == "ConfigDigestWrong"
    await made.prepare()

    assert (tmp_path / "c" / "data").read_bytes() == DATA


@pytest.mark.parametrize(
    ("status", "reason"),
    [(403, "ConfigDenied"), (404, "ConfigMissing"), (503, "ConfigAway"), (200, "")],
)
async def test_what_the_server_answers_is_the_reason(
    spoiled: tuple[Repository, str], tmp_path: Path, status: int, reason: str
) -> None:
    served, base = spoiled
    served.files["/data"], served.status = DATA, status if reason else 0
    made = _part(tmp_path / "c", (f"{base}/data", _digest(DATA), "data"))

    if reason:
        assert (await _reason(made))[0] == reason
    else:
        await made.prepare()


async def test_an_artifact_above_the_bound_is_refused_by_its_length(
    tmp_path: Path,
) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        answer.content_length = downloading.ARTIFACT_MAX + 1
        await answer.prepare(request)
        await answer.write(b"x" * 1000)
        return answer

    async with repository.listening(handle) as host:
        made = _part(tmp_path / "c", (f"http://{host}/data", _digest(b""), "data"))
        reason, message = await _reason(made)

    assert reason == "ConfigTooLarge"
    assert f"at most {downloading.ARTIFACT_MAX}" in message


async def test_a_silent_server_is_given_up_and_ends_with_the_pod(
    spoiled: tuple[Repository, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, base = spoiled
    served.silent = asyncio.Event()
    monkeypatch.setattr("federator.runtime.configuration.getting.WAIT_S", 0.3)
    made = _part(tmp_path / "c", (f"{base}/data", _digest(DATA), "data"))

    reason, message = await _reason(made)
    served.silent.set()

    assert reason == "ConfigAway"
    assert "was silent for" in message


async def test_a_login_is_sent_to_its_own_host_only(tmp_path: Path) -> None:
    shown: dict[str, str] = {}

    async def stores(request: web.Request) -> web.StreamResponse:
        shown["blobs"] = request.headers.get("Authorization", "")
        return web.Response(body=DATA)

    async with repository.listening(stores) as blobs:

        async def moved(request: web.Request) -> web.StreamResponse:
            shown["repository"] = request.headers.get("Authorization", "")
            return web.Response(status=307, headers={"Location": f"http://{blobs}/x"})

        async with repository.listening(moved) as host:
            logins = tmp_path / "config.json"
            logins.write_text(json.dumps({"auths": {host: {"username": "ci", "password": "p"}}}))
            listed = [{"artifact": f"http://{host}/d", "digest": _digest(DATA), "path": "d"}]
            env = {
                wanted.CONFIG: json.dumps(listed),
                "FEDERATOR_CONFIG_DIR": str(tmp_path / "c"),
                "FEDERATOR_CONFIG_LOGINS": str(logins),
            }
            await part.make(Pod(env=env)).prepare()

    assert shown == {"repository": "Basic Y2k6cA==", "blobs": ""}


async def test_a_registry_that_wants_a_token_gets_one(tmp_path: Path) -> None:
    """As registries with a token server do: a challenge, a token for the login, a retry."""
    layer = {"mediaType": "application/json", "digest": _digest(DATA), "size": len(DATA)}
    manifest = json.dumps({"schemaVersion": 2, "layers": [layer]}).encode()
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "")
        if request.path == "/token":
            asked.append(f"{shown} {request.query['service']} {request.query['scope']}")
            return web.json_response({"token": "t0ken"})
        if shown != "Bearer t0ken":
            realm = f'Bearer realm="http://{request.host}/token",service="store"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})
        return web.Response(body=manifest if "/manifests/" in request.path else DATA)

    async with repository.listening(handle) as host:
        logins = tmp_path / "config.json"
        logins.write_text(json.dumps({"auths": {f"https://{host}/v1/": {"auth": "Y2k6cA=="}}}))
        listed = [{"artifact": f"oci://{host}/ads/c", "digest": _digest(manifest), "path": "c"}]
        env = {
            wanted.CONFIG: json.dumps(listed),
            "FEDERATOR_CONFIG_DIR": str(tmp_path / "c"),
            "FEDERATOR_CONFIG_LOGINS": str(logins),
        }
        await part.make(Pod(env=env)).prepare()

    assert (tmp_path / "c" / "c").read_bytes() == DATA
    assert asked == ["Basic Y2k6cA== store repository:ads/c:pull"]


async def test_a_token_service_elsewhere_gets_no_login(tmp_path: Path) -> None:
    shown: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        shown.append(request.headers.get("Authorization", ""))
        return web.json_response({"token": "t0ken"})

    async with repository.listening(elsewhere) as tokens:

        async def handle(request: web.Request) -> web.StreamResponse:
            realm = f'Bearer realm="http://{tokens}/token",service="store"'
            return web.Response(status=401, headers={"WWW-Authenticate": realm})

        async with repository.listening(handle) as host:
            logins = tmp_path / "config.json"
            logins.write_text(json.dumps({"auths": {host: {"auth": "Y2k6cA=="}}}))
            entry = {"artifact": f"oci://{host}/ads/c", "digest": _digest(DATA), "path": "c"}
            env = {
                wanted.CONFIG: json.dumps([entry]),
                "FEDERATOR_CONFIG_DIR": str(tmp_path / "c"),
                "FEDERATOR_CONFIG_LOGINS": str(logins),
            }
            made = part.make(Pod(env=env))
            assert isinstance(made, Configuration)
            assert (await _reason(made))[0] == "ConfigDenied"

    assert shown == [""]


async def test_a_slow_server_costs_time_only(tmp_path: Path) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for begin in range(0, len(DATA), 30_000):
            await answer.write(DATA[begin : begin + 30_000])
            await asyncio.sleep(0.01)
        return answer

    async with repository.listening(handle) as host:
        made = _part(tmp_path / "c", (f"http://{host}/data", _digest(DATA), "data"))
        await made.prepare()

    assert (tmp_path / "c" / "data").read_bytes() == DATA


def test_settings_that_cannot_be_used_are_named() -> None:
    entry = {"artifact": "ftp://x/y", "digest": "sha256:0", "path": "a"}
    with pytest.raises(BadSetting, match=r"FEDERATOR_CONFIG\[0\].artifact: 'ftp://x/y' is not a"):
        part.make(Pod(env={wanted.CONFIG: json.dumps([entry])}))
    entry["artifact"] = "oci://registry.example/ads/config"
    with pytest.raises(BadSetting, match=r"FEDERATOR_CONFIG\[0\].digest"):
        part.make(Pod(env={wanted.CONFIG: json.dumps([entry])}))
