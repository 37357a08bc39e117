"""Downloads of workflows that break off: continued where they stopped, and verified as a whole."""

import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from federator.gateway.artifacts import artifacts, hosts
from federator.gateway.artifacts.cache import Cache
from federator.gateway.artifacts.ports import Artifact, ArtifactRefused, Reason
from federator.gateway.artifacts.registry import digest_of
from tests.artifacts import made, repository
from tests.artifacts.embedded import StaticSecrets

pytestmark = pytest.mark.e2e

FILE = made.WORKFLOW + b"#" * 200_000 + b"\n"
CUT = 70_000
"""Bytes after which an answer breaks off."""


class Breaking:
    """A repository whose answers break off. `ranges`: how it answers a request for a part."""

    def __init__(self) -> None:
        self.files = [FILE]
        """One for each answer; the last one stays."""
        self.breaks = 1
        self.honours = True
        self.shift = 0
        self.tag = ""
        """The ETag; "" for one that follows from the file."""
        self.asked: list[tuple[str, str]] = []
        """(Range, If-Range) of each GET of the file."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/workflow.yaml"):
            return web.Response(status=404)
        file = self.files[0]
        checksum = hashlib.sha256(FILE).hexdigest()
        tag = self.tag or f'"{hashlib.sha256(file).hexdigest()}"'
        headers = {"X-Checksum-Sha256": checksum, "ETag": tag, "Content-Length": str(len(file))}
        if request.method == "HEAD":
            return web.Response(headers=headers)
        wanted, given = request.headers.get("range", ""), request.headers.get("if-range", "")
        self.asked.append((wanted, given))
        begin, status = 0, 200
        if wanted and self.honours and given in ("", tag):
            begin, status = int(wanted.removeprefix("bytes=").removesuffix("-")), 206
            begin += self.shift
            headers["Content-Range"] = f"bytes {begin}-{len(file) - 1}/{len(file)}"
            headers["Content-Length"] = str(len(file) - begin)
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        body = file[begin:]
        if self.breaks:
            self.breaks -= 1
            self.files = self.files[1:] or self.files
            await response.write(body[:CUT])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(body)
        await response.write_eof()
        return response


@contextlib.asynccontextmanager
async def _resolving(
    store: Breaking, folder: Path
) -> AsyncIterator[Callable[[], Awaitable[Artifact]]]:
    async with repository.listening(store.handle) as host:
        source = f"http://{host}/ads/serving"
        policy = made.policy(sources=[source], provenance=made.OFF)
        all_ = artifacts.over_network(
            StaticSecrets({}), folder, time.monotonic, allow_loopback=True
        )
        try:
            yield lambda: all_.resolve(source, "v1", "ads", [policy])
        finally:
            await all_.close()


async def _artifact(store: Breaking, folder: Path) -> Artifact:
    async with _resolving(store, folder) as resolve:
        return await resolve()


async def _refusal(store: Breaking, folder: Path) -> ArtifactRefused:
    async with _resolving(store, folder) as resolve:
        with pytest.raises(ArtifactRefused) as refusal:
            await resolve()
    assert Cache(folder).size == 0
    return refusal.value


async def test_a_broken_download_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store = Breaking()
    store.breaks = 2
    found = await _artifact(store, tmp_path)

    assert found.digest == digest_of(FILE)
    assert [asked for asked, _ in store.asked] == ["", f"bytes={CUT}-", f"bytes={2 * CUT}-"]
    assert store.asked[1][1].startswith('"')


async def test_a_store_that_sends_everything_again_is_read_from_the_beginning(
    tmp_path: Path,
) -> None:
    store = Breaking()
    store.honours = False
    found = await _artifact(store, tmp_path)

    assert found.digest == digest_of(FILE)
    assert len(store.asked) == 2


async def test_a_file_that_changes_between_two_parts_is_never_mixed(tmp_path: Path) -> None:
    store = Breaking()
    store.files = [FILE.replace(b"#", b"%"), FILE]
    found = await _artifact(store, tmp_path)

    # By its ETag the store knows that the part is of another file, and sends the new one whole.
    assert found.digest == digest_of(FILE)


@pytest.mark.parametrize("shift", [-1, 1, 1000])
async def test_another_part_than_the_next_one_is_refused(tmp_path: Path, shift: int) -> None:
    store = Breaking()
    store.shift = shift

    assert (await _refusal(store, tmp_path)).reason is Reason.STORE_INVALID


async def test_parts_that_do_not_have_the_digest_together_are_refused(tmp_path: Path) -> None:
    store = Breaking()
    store.tag = '"the same for both"'
    store.files = [FILE, FILE.replace(b"#", b"%")]

    assert (await _refusal(store, tmp_path)).reason is Reason.STORE_INVALID


async def test_a_download_that_breaks_off_again_and_again_is_given_up(tmp_path: Path) -> None:
    store = Breaking()
    store.breaks = 100
    store.files = [made.WORKFLOW + b"#" * 900_000]
    refusal = await _refusal(store, tmp_path)

    assert refusal.reason is Reason.STORE_UNREACHABLE
    assert len(store.asked) == hosts.PARTS_MAX


async def test_a_store_that_ends_the_answer_before_its_first_byte_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.e2e.test_broken_downloads.CUT", 0)
    store = Breaking()
    store.breaks = 100

    assert (await _refusal(store, tmp_path)).reason is Reason.STORE_UNREACHABLE
    assert len(store.asked) == 1
