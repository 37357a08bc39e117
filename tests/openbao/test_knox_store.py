"""Secrets of Knox: the same port, with the certificates of a real authority."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from federator.runtime.files.backends import Away, Refusal
from federator.runtime.secrets.knox import KnoxStore
from tests.openbao import knox, pods, server
from tests.openbao.knox import Knox

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("openbao")]

CANARY = b"canary-77d0"


@dataclass
class Kept:
    """A server with keys, and the store of a pod."""

    knox: Knox
    store: KnoxStore
    principal: str


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Kept]:
    async with contextlib.AsyncExitStack() as stack:
        openbao = await asyncio.to_thread(stack.enter_context, server.serving())
        root = pods.authority(openbao)
        pod = pods.pod(openbao, tmp_path / "identity", "ads", "web")
        served = Knox()
        serving = knox.serving(served, tmp_path, root)
        url, trust = await stack.enter_async_context(serving)
        yield Kept(served, KnoxStore(url, pod.folder, trust, pod.spiffe), pod.spiffe)


async def test_the_primary_version_and_active_ones_are_values(kept: Kept) -> None:
    kept.knox.readers["ads:db"] = ["spiffe://example.org/ns/ads/"]
    kept.knox.put("ads:db", b"one")
    kept.knox.put("ads:db", CANARY)

    secret = await kept.store.read("ads:db")

    assert secret.values == {"value": CANARY, "active-1": b"one"}
    assert CANARY.decode() not in repr(secret)


async def test_one_request_says_which_keys_have_new_versions(kept: Kept) -> None:
    for name in ("ads:db", "ads:api"):
        kept.knox.readers[name] = [kept.principal]
        kept.knox.put(name, b"one")
    known = {name: (await kept.store.read(name)).version for name in ("ads:db", "ads:api")}
    assert await kept.store.changed(known) == frozenset()

    kept.knox.put("ads:api", b"two")

    assert await kept.store.changed(known) == {"ads:api"}


async def test_refusals_name_the_principal_or_what_is_missing(kept: Kept) -> None:
    kept.knox.put("search:db", CANARY)
    kept.knox.readers["ads:large"] = [kept.principal]
    kept.knox.put("ads:large", b"x" * (2 << 20))

    for name, reason, words in (
        ("search:db", "SecretDenied", f"{kept.principal} may not read search:db"),
        ("ads:nothing", "SecretMissing", "there is no secret ads:nothing"),
        ("ads:large", "SecretTooLarge", "2097152 bytes"),
    ):
        with pytest.raises(Refusal, match=words) as refused:
            await kept.store.read(name)
        assert refused.value.reason == reason


async def test_a_server_that_is_away_is_no_refusal(kept: Kept) -> None:
    kept.knox.away = True

    with pytest.raises(Away, match="answers 502"):
        await kept.store.read("ads:db")
    with pytest.raises(Away):
        await kept.store.changed({"ads:db": "x"})
