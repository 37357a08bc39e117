"""One contract for all stores of secrets: a folder, and a real OpenBao."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from federator.runtime.files.backends import Away, Refusal
from federator.runtime.secrets.folder import READERS, FolderStore
from federator.runtime.secrets.openbao import AGAIN_S, OpenBaoStore, Place
from federator.runtime.secrets.store import SECRET_MAX, SecretStore
from tests.openbao import pods, program, server
from tests.openbao.server import OpenBao

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("openbao")]

ROOT = Path(__file__).resolve().parents[2]
POD = "spiffe://example.org/ns/ads/sa/web"
OTHER = "spiffe://example.org/ns/search/sa/web"
CANARY = "canary-5d1e"


ADS = ["spiffe://example.org/ns/ads/sa/*"]


@dataclass
class Stored:
    """A store as the pod `POD` asks it, and how its owner writes."""

    store: SecretStore
    put: Callable[[str, Mapping[str, str]], None]
    """Writes a secret below `ads/`, which the pod may read, or elsewhere, which it may not."""
    end: Callable[[], None]
    """Nothing answers any more."""


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[Stored]:
    root = folder / "secrets"
    root.mkdir()

    def put(name: str, values: Mapping[str, str]) -> None:
        where = root / name
        where.mkdir(parents=True, exist_ok=True)
        reader = "spiffe://example.org/ns/ads/*" if name.startswith("ads/") else OTHER
        (where / READERS).write_text(f"{reader}\n", "ascii")
        for key, value in values.items():
            (where / key).write_text(value, "utf-8")

    yield Stored(FolderStore(root, POD), put, lambda: shutil.rmtree(root))


@contextlib.contextmanager
def _in_openbao(folder: Path) -> Iterator[Stored]:
    with server.serving() as running:
        running.allow("ads-secrets", "secret/data/ads/*", "secret/metadata/ads/*")
        root = pods.authority(running)
        running.knows_pods("ads", root, spiffe=ADS, policies=["ads-secrets"])
        pod = pods.pod(running, folder / "identity", "ads", "web")
        place = Place(running.address, "secret", "ads", pod.spiffe)
        trust = running.ca_file.read_text("ascii")
        store = OpenBaoStore(place, pod.folder, trust, time.monotonic)

        def put(name: str, values: Mapping[str, str]) -> None:
            running.put(name, values)

        yield Stored(store, put, running.child.stop)


@pytest.fixture(params=["folder", "openbao"])
async def stored(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stored]:
    with (_in_folder if request.param == "folder" else _in_openbao)(tmp_path) as made:
        yield made


async def test_a_secret_is_read_with_all_its_values(stored: Stored) -> None:
    stored.put("ads/db", {"user": "ads", "password": CANARY})

    secret = await stored.store.read("ads/db")

    assert secret.values == {"user": b"ads", "password": CANARY.encode()}
    assert CANARY not in repr(secret)


async def test_only_a_new_version_is_reported_as_changed(stored: Stored) -> None:
    stored.put("ads/db", {"password": "one"})
    stored.put("ads/api", {"key": "k"})
    known = {name: (await stored.store.read(name)).version for name in ("ads/db", "ads/api")}

    assert await stored.store.changed(known) == frozenset()

    stored.put("ads/db", {"password": "two"})

    assert await stored.store.changed(known) == {"ads/db"}
    assert (await stored.store.read("ads/db")).version != known["ads/db"]


async def test_a_forbidden_secret_is_refused_with_the_principal(stored: Stored) -> None:
    stored.put("search/db", {"password": CANARY})

    with pytest.raises(Refusal) as refusal:
        await stored.store.read("search/db")

    assert refusal.value.reason == "SecretDenied"
    assert POD in refusal.value.message
    assert CANARY not in refusal.value.message


async def test_a_missing_secret_is_refused_by_name(stored: Stored) -> None:
    with pytest.raises(Refusal, match="no secret ads/nothing") as refusal:
        await stored.store.read("ads/nothing")

    assert refusal.value.reason == "SecretMissing"


async def test_a_secret_of_two_megabytes_is_refused(stored: Stored) -> None:
    stored.put("ads/large", {f"part{index}": "x" * 500_000 for index in range(4)})

    with pytest.raises(Refusal, match=f"at most {SECRET_MAX}") as refusal:
        await stored.store.read("ads/large")

    assert refusal.value.reason == "SecretTooLarge"


async def test_a_store_that_is_away_is_no_refusal(stored: Stored) -> None:
    stored.put("ads/db", {"password": "one"})
    version = (await stored.store.read("ads/db")).version
    stored.end()

    with pytest.raises(Away):
        await stored.store.read("ads/db")
    with pytest.raises(Away):
        await stored.store.changed({"ads/db": version})


# -- of OpenBao alone ---------------------------------------------------------


@pytest.fixture
def openbao(tmp_path: Path) -> Iterator[OpenBao]:
    with server.serving() as running:
        yield running


def _store(
    openbao: OpenBao,
    folder: Path,
    namespace: str = "ads",
    monotonic: Callable[[], float] = time.monotonic,
) -> OpenBaoStore:
    pod = pods.pod(openbao, folder, namespace, "web")
    place = Place(openbao.address, "secret", "", pod.spiffe)
    return OpenBaoStore(place, folder, openbao.ca_file.read_text("ascii"), monotonic)


async def test_openbao_refusals_name_policies_and_path(openbao: OpenBao, tmp_path: Path) -> None:
    openbao.allow("ads-secrets", "secret/data/ads/*")
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=ADS, policies=["ads-secrets"])
    openbao.put("search/db", {"password": CANARY})

    with pytest.raises(Refusal) as refusal:
        await _store(openbao, tmp_path).read("search/db")

    assert refusal.value.message == (
        f"{POD} may not read secret/data/search/db: none of its policies (ads-secrets, default)"
        " allows read there"
    )


async def test_openbao_refuses_a_pod_that_no_role_knows(openbao: OpenBao, tmp_path: Path) -> None:
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=ADS, policies=["default"])

    with pytest.raises(Refusal, match=f"refuses the certificate of {OTHER}") as refusal:
        await _store(openbao, tmp_path, "search").read("search/db")

    assert refusal.value.reason == "LoginRefused"


async def test_a_policy_for_data_alone_still_follows_versions(
    openbao: OpenBao, tmp_path: Path
) -> None:
    openbao.allow("ads-secrets", "secret/data/ads/*")
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=ADS, policies=["ads-secrets"])
    openbao.put("ads/db", {"password": "one"})
    store = _store(openbao, tmp_path)

    assert await store.changed({"ads/db": "1"}) == {"ads/db"}
    assert (await store.read("ads/db")).version == "1"


async def test_a_revoked_token_is_replaced_by_a_new_login(openbao: OpenBao, tmp_path: Path) -> None:
    openbao.allow("ads-secrets", "secret/data/ads/*", "secret/metadata/ads/*")
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=ADS, policies=["ads-secrets"])
    openbao.put("ads/db", {"password": "one"})
    store = _store(openbao, tmp_path)
    await store.read("ads/db")
    openbao.call("POST", "sys/leases/revoke-prefix/auth/cert")

    assert (await store.read("ads/db")).values == {"password": b"one"}


async def test_denied_paths_cost_no_login_at_each_poll(openbao: OpenBao, tmp_path: Path) -> None:
    openbao.allow("ads-secrets", "secret/data/ads/*")  # and not their metadata
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=ADS, policies=["ads-secrets"])
    names = [f"ads/db{index}" for index in range(3)]
    for name in names:
        openbao.put(name, {"password": "one"})
    before = _tokens(openbao)
    now = [0.0]
    store = _store(openbao, tmp_path, monotonic=lambda: now[0])
    known = {name: (await store.read(name)).version for name in names}

    for _ in range(3):
        assert await store.changed(known) == set(names)
        for name in names:
            await store.read(name)
    assert _tokens(openbao) - before == 1

    openbao.allow("ads-secrets", "secret/data/ads/db0")  # the others are withdrawn
    for _ in range(3):
        await store.changed(known)
        for name in names[1:]:
            with pytest.raises(Refusal):
                await store.read(name)
    assert _tokens(openbao) - before == 2  # once, because the token might have been revoked

    now[0] += AGAIN_S
    await store.changed(known)
    assert _tokens(openbao) - before == 3


def _tokens(openbao: OpenBao) -> int:
    return len(openbao.call("LIST", "auth/token/accessors")["data"]["keys"])


async def test_a_deleted_version_counts_as_changed_and_is_missing(
    openbao: OpenBao, tmp_path: Path
) -> None:
    openbao.allow("ads-secrets", "secret/data/ads/*", "secret/metadata/ads/*")
    root = pods.authority(openbao)
    openbao.knows_pods("ads", root, spiffe=ADS, policies=["ads-secrets"])
    openbao.put("ads/db", {"password": "one"})
    store = _store(openbao, tmp_path)
    openbao.call("DELETE", "secret/data/ads/db")

    assert await store.changed({"ads/db": "1"}) == {"ads/db"}
    with pytest.raises(Refusal, match="newest version is deleted"):
        await store.read("ads/db")


async def test_the_commands_of_the_documents_set_up_a_server(
    openbao: OpenBao, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "operating" / "runtime-backends.md").read_text("utf-8")
    commands = page.split("```text\n")[1].split("```")[0]
    (tmp_path / "pods-ca.pem").write_text(pods.authority(openbao), "ascii")
    env = {
        "PATH": f"{program.needed().parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "BAO_ADDR": openbao.address,
        "BAO_CACERT": str(openbao.ca_file),
        "BAO_TOKEN": openbao.token,
    }
    done = await asyncio.create_subprocess_exec("sh", "-e", "-c", commands, cwd=tmp_path, env=env)
    assert await done.wait() == 0
    openbao.put("ads/db", {"password": "one", "key": "base64:AAEC"})
    store = _store(openbao, tmp_path / "identity")

    secret = await store.read("ads/db")

    assert secret.values == {"password": b"one", "key": b"\x00\x01\x02"}
    assert await store.changed({"ads/db": secret.version}) == frozenset()
