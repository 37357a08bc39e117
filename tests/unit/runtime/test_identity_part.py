"""The identity part of a pod: it renews in time, keeps what it has while the signer is away, and
connections go on while files change. The child with the key is the real one."""

import asyncio
import contextlib
import json
import ssl
import sys
import time
from pathlib import Path

import pytest
from cryptography import x509

from federator.runtime.identity import part as parts
from federator.runtime.identity.authority import Authority, Away, Denied, Issued
from federator.runtime.identity.part import Projected, Renewed
from federator.runtime.identity.spiffe import SpiffeId
from federator.runtime.parts import Waiting
from federator.runtime.roles import Pod
from federator.signer import authorities
from federator.signer.authorities import CertificateContent
from tests.unit.signer import cas

WEB = SpiffeId("test.example", "ads", "web")


class Near(Authority):
    """An authority in this process. `fails` is what it raises in place of an answer."""

    def __init__(self) -> None:
        now_s = time.time()
        self.roots = [cas.authority("root", now_s)]
        self.signs_as = WEB
        self.lifetime_s = 3600
        self.asked = 0
        self.fails: Away | Denied | None = None

    async def sign(self, csr: str) -> Issued:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        root = self.roots[-1]
        pair = authorities.Pair((root.certificate,), root.key, root.pem)
        read = x509.load_pem_x509_csr(csr.encode())
        chain = authorities.issued(
            pair, read, CertificateContent(self.signs_as, self.lifetime_s), time.time()
        )
        return Issued(chain.decode(), await self.bundle())

    async def bundle(self) -> str:
        if isinstance(self.fails, Away):
            raise self.fails
        return "".join(root.pem.decode() for root in self.roots)


class Clock:
    """Wall time that a test sets forward."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


def made(folder: Path, near: Authority, wall: Clock | None = None) -> Renewed:
    pod = Pod(env={}, wall=wall or Clock(), chance=lambda: 0.0)
    return Renewed(pod, WEB, near, folder, "0600")


async def test_the_application_finds_its_files_after_the_init_run(tmp_path: Path) -> None:
    near = Near()
    part = made(tmp_path, near)
    await part.prepare()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")

    assert part.state().ready
    assert part.state().message.startswith(f"{WEB} is valid until 20")
    await part.prepare()
    await made(tmp_path, near).prepare()  # the sidecar goes on with the files of the init run
    assert near.asked == 1


async def test_a_refusal_is_told_in_the_words_of_the_authority(tmp_path: Path) -> None:
    near = Near()
    near.fails = Denied("ForeignName", "the CA refuses SAN x")
    with pytest.raises(Waiting) as waits:
        await made(tmp_path, near).prepare()

    assert waits.value.state.reason == "ForeignName"
    assert waits.value.state.message == "the CA refuses SAN x"
    assert not (tmp_path / "tls.key").exists()


async def test_a_certificate_of_somebody_else_is_not_taken(tmp_path: Path) -> None:
    near = Near()
    near.signs_as = SpiffeId("test.example", "ads", "admin")
    with pytest.raises(Waiting, match=r"the certificate is that of .*/sa/admin, not of .*/sa/web"):
        await made(tmp_path, near).prepare()

    assert not (tmp_path / "tls.key").exists()


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Waiting) as waits:
        await made(tmp_path / "file", Near()).prepare()

    assert waits.value.state.reason == "NotWritten"


async def test_a_pod_stays_ready_while_the_signer_is_away_until_its_certificate_nears_its_end(
    tmp_path: Path,
) -> None:
    near, wall = Near(), Clock()
    part = made(tmp_path, near, wall)
    await part.prepare()
    near.fails = Away("the signer does not answer")
    wall.ahead_s = 2500.0
    await part.renew()
    assert part.state().ready
    assert "the last renewal failed: the signer does not answer" in part.state().message
    wall.ahead_s = 3400.0
    assert (part.state().ready, part.state().reason) == (False, "SignerAway")
    wall.ahead_s = 3700.0
    assert part.state().reason == "Expired"
    near.fails = None
    wall.ahead_s = 0.0
    await part.renew()
    assert part.state().reason == "Issued"


async def test_a_new_root_is_trusted_before_anything_is_signed_by_it(tmp_path: Path) -> None:
    near = Near()
    part = made(tmp_path, near)
    await part.prepare()
    key = (tmp_path / "tls.key").read_bytes()
    near.roots.insert(0, cas.authority("the next root", time.time()))
    await part.follow()

    assert (tmp_path / "ca.crt").read_text().count("BEGIN CERTIFICATE") == 2
    assert (tmp_path / "tls.key").read_bytes() == key


async def test_a_bundle_that_is_none_changes_nothing(tmp_path: Path) -> None:
    near = Near()
    part = made(tmp_path, near)
    await part.prepare()
    before = (tmp_path / "ca.crt").read_bytes()
    near.roots = []
    await part.follow()

    assert (tmp_path / "ca.crt").read_bytes() == before


async def test_a_rotation_under_load_loses_no_connection(tmp_path: Path) -> None:
    """A server that follows the files as documented, clients of its own identity, and renewals
    with a change of the root in between."""
    near = Near()
    part = made(tmp_path, near)
    await part.prepare()
    context = loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tmp_path)

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    port, shown_by = server.sockets[0].getsockname()[1], dict[str, int]()
    over = asyncio.Event()

    async def load() -> None:
        while not over.is_set():
            shown = loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tmp_path)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=shown)
            assert await reader.read() == b"hello"
            serial = writer.get_extra_info("peercert")["serialNumber"]
            shown_by[serial] = shown_by.get(serial, 0) + 1
            writer.close()
            await asyncio.sleep(0.02)  # leaves the processor to the child with the key

    async def served(count: int) -> None:
        """Until several connections were shown each of so many certificates."""
        while len(shown_by) < count or min(shown_by.values()) < 3:  # noqa: ASYNC110 - real time
            await asyncio.sleep(0.02)

    async with server, asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(load())
        for turn in range(3):
            await served(turn + 1)
            if turn == 1:  # both are trusted first, and then the new one signs
                near.roots.append(cas.authority("the next root", time.time()))
                near.roots.reverse()
                await part.follow()
                loaded(context, tmp_path)
                near.roots.reverse()
            await part.renew()
            loaded(context, tmp_path)
        await served(4)
        over.set()

    assert part.state().reason == "Issued"


def loaded(context: ssl.SSLContext, folder: Path) -> ssl.SSLContext:
    """Takes certificate, key and roots of one set, as docs/using/runtime.md says."""
    with contextlib.suppress(AttributeError):
        context.check_hostname = False
    while True:
        present = (folder / "..data").resolve()
        try:
            context.load_cert_chain(present / "tls.crt", present / "tls.key")
            context.load_verify_locations(present / "ca.crt")
        except FileNotFoundError:  # a renewal has come in between, or the set is not whole
            assert (folder / "..data").resolve() != present
            continue
        context.verify_mode = ssl.CERT_REQUIRED
        return context


async def test_files_of_a_kubelet_are_watched(tmp_path: Path) -> None:
    near = Near()
    await made(tmp_path, near).prepare()
    folder = tmp_path / "projected"
    part = Projected(Pod(env={}), WEB, folder)
    with pytest.raises(Waiting, match=r"the kubelet has not written .*tls\.crt"):
        await part.prepare()
    folder.mkdir()
    for name in ("tls.crt", "ca.crt"):
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    await part.prepare()
    assert part.state().reason == "Issued"
    near.signs_as = SpiffeId("test.example", "ads", "admin")
    other = Renewed(Pod(env={}), near.signs_as, near, tmp_path / "other", "0600")
    await other.prepare()
    (folder / "tls.crt").write_bytes((tmp_path / "other" / "tls.crt").read_bytes())
    await part.look()

    assert part.state().reason == "ForeignName"


async def test_the_sidecar_does_not_load_what_makes_keys(tmp_path: Path) -> None:
    """It is measured in `make bench ONLY=RT1`; this keeps the import away."""
    code = (
        "import sys, json, federator.cli.running.runtime, federator.runtime.identity.part\n"
        "print(json.dumps(sorted(m for m in sys.modules if '.' not in m)))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    loaded_modules = set(json.loads(out))

    assert not loaded_modules & {"cryptography", "aiohttp", "pydantic", "msgspec", "structlog"}


def test_a_mode_that_lets_everybody_write_is_refused() -> None:
    env = {
        "FEDERATOR_TRUST_DOMAIN": "test.example",
        "POD_NAMESPACE": "ads",
        "POD_SERVICE_ACCOUNT": "web",
        "FEDERATOR_IDENTITY_KEY_MODE": "0666",
    }
    with pytest.raises(ValueError, match="FEDERATOR_IDENTITY_KEY_MODE is '0666'; accepted: 0600"):
        parts.make(Pod(env=env))
