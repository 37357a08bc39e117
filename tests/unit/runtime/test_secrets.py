"""The secrets of a pod: written into memory, switched as a whole, followed, and never told."""

import asyncio
import json
import logging
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from federator.model.errors import FieldError
from federator.runtime import running
from federator.runtime.files import switching, wanted
from federator.runtime.files.backends import Away, Refusal
from federator.runtime.files.switching import REFRESHED
from federator.runtime.parts import PartState, Waiting
from federator.runtime.roles import BadSetting, Pod
from federator.runtime.secrets import part
from federator.runtime.secrets.part import Secrets
from federator.runtime.secrets.store import SECRET_MAX, Secret, checked
from tests import virtual_time

CANARY = "canary-93c1"
MEMORY = Path("/dev/shm")


@dataclass
class Scripted:
    """A store that answers as told, and counts what it is asked."""

    secrets: dict[str, Secret] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    away: bool = False
    reads: int = 0

    def put(self, name: str, version: int, **values: str) -> None:
        texts = {key: value.encode() for key, value in values.items()}
        self.secrets[name] = Secret(str(version), texts)

    async def read(self, name: str) -> Secret:
        self.reads += 1
        if self.away:
            raise Away("connection refused")
        if name in self.refused:
            raise self.refused[name]
        return checked(name, self.secrets[name])

    async def changed(self, known: Mapping[str, str]) -> frozenset[str]:
        if self.away:
            raise Away("connection refused")
        return frozenset(
            name
            for name, version in known.items()
            if name in self.refused or self.secrets[name].version != version
        )


@pytest.fixture
def memory() -> Iterator[Path]:
    if not MEMORY.is_dir():
        pytest.skip("there is no /dev/shm")
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory) / "secrets"


def _pod() -> Pod:
    return Pod(env={}, monotonic=lambda: 0.0, wall=lambda: 1000.0, chance=lambda: 0.5)


def _part(store: Scripted, folder: Path, *entries: Mapping[str, object]) -> Secrets:
    return Secrets(_pod(), wanted.secrets(json.dumps(entries)), store, folder)


DB = {"name": "ads/db", "path": "db"}
KEY = {"name": "ads/api#key", "path": "api/key.txt", "mode": 0o400}


def test_a_pod_gets_folders_and_single_values_with_their_modes(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 3, user="ads", password=CANARY)
    store.put("ads/api", 1, key="k", other="o")

    made = _part(store, memory, DB, KEY)
    asyncio.run(made.prepare())

    assert (memory / "db" / "password").read_text() == CANARY
    assert (memory / "db" / "user").read_text() == "ads"
    assert (memory / "api" / "key.txt").read_text() == "k"
    assert not (memory / "api" / "other").exists()
    assert _mode(memory / "api" / "key.txt") == 0o400
    assert _mode(memory / "db" / "user") == 0o444
    assert made.state().ready
    assert made.state().message == "ads/db version 3, ads/api version 1"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_version_is_switched_as_a_whole_and_signalled(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 1, user="one", password="one")
    store.put("ads/api", 1, key="k")
    made = _part(store, memory, DB, KEY)
    asyncio.run(made.prepare())
    held = (memory / "..data").resolve()
    before = (memory / REFRESHED).read_text()
    open_file = (memory / "db" / "user").open()
    store.put("ads/db", 2, user="two", password="two")

    asyncio.run(made.follow())

    assert {each.read_text() for each in (memory / "db").iterdir()} == {"two"}
    assert (memory / "api" / "key.txt").read_text() == "k"
    assert _mode(memory / "api" / "key.txt") == 0o400
    assert (memory / REFRESHED).read_text() != before
    assert not held.exists()
    assert open_file.read() == "one"
    open_file.close()


def test_versions_are_asked_for_with_jitter_and_nothing_is_read_while_they_stay(
    memory: Path,
) -> None:
    store = Scripted()
    store.put("ads/db", 1, user="one")
    made = _part(store, memory, DB)

    async def story() -> int:
        await made.prepare()
        task = asyncio.create_task(made.run())
        await asyncio.sleep(3600)
        reads = store.reads
        store.put("ads/db", 2, user="two")
        await asyncio.sleep(1.5 * part.POLL_S)
        task.cancel()
        return reads

    assert virtual_time.run(story()) == 1
    assert (memory / "db" / "user").read_text() == "two"


def test_a_pod_that_starts_waits_with_the_reason(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 1, user="one")
    store.refused["ads/api"] = Refusal("SecretDenied", "web may not read ads/api")
    made = _part(store, memory, DB, KEY)

    with pytest.raises(Waiting) as waits:
        asyncio.run(made.prepare())

    expected = PartState("secrets", False, "SecretDenied", "web may not read ads/api")
    assert waits.value.state == expected
    assert not (memory / "db").exists()


def test_a_running_pod_keeps_its_secrets_while_the_store_is_away_for_an_hour(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 1, user="one")
    made = _part(store, memory, DB)

    async def story() -> PartState:
        await made.prepare()
        task = asyncio.create_task(made.run())
        store.away = True
        await asyncio.sleep(3600)
        during = made.state()
        store.put("ads/db", 2, user="two")
        store.away = False
        await asyncio.sleep(2 * part.POLL_S)
        task.cancel()
        return during

    during = virtual_time.run(story())

    assert during.ready
    assert (during.reason, during.message) == (
        "StoreAway",
        "ads/db version 1; connection refused",
    )
    assert (memory / "db" / "user").read_text() == "two"
    assert made.state().reason == "Current"


def test_a_secret_that_is_taken_away_stays_and_others_go_on(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 1, user="one")
    store.put("ads/api", 1, key="k1")
    made = _part(store, memory, DB, KEY)
    asyncio.run(made.prepare())
    store.refused["ads/db"] = Refusal("SecretDenied", "web may not read ads/db")
    store.put("ads/api", 2, key="k2")

    asyncio.run(made.follow())

    assert (memory / "db" / "user").read_text() == "one"
    assert (memory / "api" / "key.txt").read_text() == "k2"
    assert made.state().ready
    assert made.state().reason == "SecretDenied"


def test_a_sidecar_goes_on_with_what_the_init_run_has_left(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 4, user="one")
    asyncio.run(_part(store, memory, DB).prepare())
    store.away = True
    sidecar = _part(store, memory, DB)

    asyncio.run(sidecar.prepare())

    assert sidecar.state().message == "ads/db version 4"
    with pytest.raises(Waiting):  # of other secrets nothing is there
        asyncio.run(_part(store, memory, DB, KEY).prepare())


def test_secrets_are_written_into_memory_only(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    if switching.is_in_memory(tmp_path):
        pytest.skip("the temporary files of this machine are in memory")
    store = Scripted()
    store.put("ads/db", 1, user=CANARY)

    with pytest.raises(Waiting) as waits:
        asyncio.run(_part(store, folder, DB).prepare())

    assert waits.value.state.reason == "NotInMemory"
    assert store.reads == 0
    assert not folder.exists()


def test_values_that_cannot_be_files_are_refused(memory: Path) -> None:
    store = Scripted()
    store.secrets["ads/db"] = Secret("1", {"../../etc/passwd": b"x"})
    with pytest.raises(Waiting, match="no name of a file"):
        asyncio.run(_part(store, memory, DB).prepare())

    store.secrets["ads/db"] = Secret("1", {"user": b"x"})
    missing = {"name": "ads/db#password", "path": "p"}
    with pytest.raises(Waiting, match="has no value password; it has user"):
        asyncio.run(_part(store, memory, missing).prepare())

    store.secrets["ads/db"] = Secret("1", {"user": b"x" * (2 << 20)})
    with pytest.raises(Waiting, match=f"at most {SECRET_MAX} bytes"):
        asyncio.run(_part(store, memory, DB).prepare())
    assert not (memory / "db").exists()


def test_nothing_of_a_secret_is_in_logs_state_or_file_names(
    memory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "federator.runtime.secrets")
    store = Scripted()
    store.put("ads/db", 1, user=CANARY, password=CANARY)
    made = _part(store, memory, DB)

    async def story() -> str:
        why = await running.init([made], _pod(), tmp_path, 5.0)
        store.put("ads/db", 2, user=CANARY + "2", password="x" * (SECRET_MAX + 1) + CANARY)
        await made.follow()
        store.put("ads/db", 3, user=CANARY + "3")
        await made.follow()
        running.keep(tmp_path, [made.state()], drained=False, at=0.0)
        return why

    why = virtual_time.run(story())

    told = [why, caplog.text, repr(made.__dict__), repr(store.secrets), str(made.state())]
    told += [each.read_text() for each in tmp_path.rglob("*") if each.is_file()]
    told += [str(each) for each in memory.rglob("*")]
    told += [(memory / "..data" / part.VERSIONS).read_text()]
    assert "version 3" in caplog.text
    assert not [text for text in told if CANARY in text]


def test_a_failed_write_leaves_the_former_secrets(memory: Path) -> None:
    store = Scripted()
    store.put("ads/db", 1, user="one")
    made = _part(store, memory, DB)
    asyncio.run(made.prepare())
    store.put("ads/db", 2, user="two", other="x")
    (memory / "..data_tmp").mkdir()  # in the way of the link

    asyncio.run(made.follow())

    assert (memory / "db" / "user").read_text() == "one"
    assert made.state().reason == "NotWritten"
    left = {each.name for each in memory.iterdir() if each.is_dir() and not each.is_symlink()}
    assert left == {"..data_tmp", (memory / "..data").resolve().name}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{", ""),
        ("{}", ""),
        ('[{"path": "a"}]', "[0].name"),
        ('[{"name": "../x", "path": "a"}]', "[0].name"),
        ('[{"name": "a//b", "path": "a"}]', "[0].name"),
        ('[{"name": "a#", "path": "a"}]', "[0].name"),
        ('[{"name": "a", "path": "/etc/passwd"}]', "[0].path"),
        ('[{"name": "a", "path": "a/../b"}]', "[0].path"),
        ('[{"name": "a", "path": "..data"}]', "[0].path"),
        ('[{"name": "a", "path": "a", "mode": "0400"}]', "[0].mode"),
        ('[{"name": "a", "path": "a", "mode": 4096}]', "[0].mode"),
        ('[{"name": "a", "path": "a/b"}, {"name": "b", "path": "a"}]', "[0].path"),
        ('[{"name": "a", "path": "a"}, {"name": "b", "path": "a"}]', "[1].path"),
    ],
)
def test_what_names_no_secrets_is_refused_with_its_path(text: str, path: str) -> None:
    with pytest.raises(FieldError) as refused:
        wanted.secrets(text)

    assert refused.value.path == path


def test_settings_that_cannot_be_used_are_named() -> None:
    env = {
        wanted.SECRETS: json.dumps([DB]),
        "FEDERATOR_TRUST_DOMAIN": "example.org",
        "POD_NAMESPACE": "ads",
        "POD_SERVICE_ACCOUNT": "web",
    }
    assert part.make(Pod(env={})).state().ready
    with pytest.raises(BadSetting, match="FEDERATOR_SECRETS_URL is not set"):
        part.make(Pod(env=env))
    with pytest.raises(BadSetting, match="an https:// address"):
        part.make(Pod(env={**env, "FEDERATOR_SECRETS_URL": "http://bao:8200"}))
    with pytest.raises(BadSetting, match="openbao, knox and folder are accepted"):
        part.make(Pod(env={**env, "FEDERATOR_SECRETS_FROM": "vault"}))
    with pytest.raises(BadSetting, match=r"FEDERATOR_SECRETS\[0\].name: is needed"):
        part.make(Pod(env={**env, wanted.SECRETS: "[{}]"}))
