"""The certificate of a server follows its files."""

import asyncio
import ssl
from pathlib import Path

import pytest

from federator.kube import selfsigned
from federator.kube.tlsserver import CertificateFiles, Listen, Outgoing, TlsServer
from federator.model.errors import FieldError

NOW_S = 1_760_000_000.0


def written(folder: Path, name: str) -> Listen:
    """A certificate for this name, in the files of the folder."""
    made = selfsigned.made(name, dns=(name,), now_s=NOW_S)
    (folder / "tls.crt").write_bytes(made.cert_pem)
    (folder / "tls.key").write_bytes(made.key_pem)
    return Listen(cert_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"))


async def shown(files: CertificateFiles) -> bytes:
    """The certificate that a new connection gets."""

    async def nothing(_: object) -> Outgoing:
        return Outgoing(204, b"")

    server = TlsServer(nothing)
    port = await server.start("127.0.0.1", 0, files.context)
    try:
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        async with asyncio.timeout(60):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        given: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return given
    finally:
        await server.close()


async def test_another_certificate_is_shown_and_a_broken_one_is_not(tmp_path: Path) -> None:
    files = CertificateFiles(written(tmp_path, "first.example"), "the server")
    await files.load()
    first = await shown(files)

    (tmp_path / "tls.crt").write_bytes(b"half")
    await files.look()
    assert await shown(files) == first

    written(tmp_path, "second.example")
    await files.look()
    assert b"second.example" in await shown(files)


async def test_files_without_a_certificate_are_refused(tmp_path: Path) -> None:
    listen = written(tmp_path, "first.example")
    (tmp_path / "tls.key").write_bytes(b"none")

    with pytest.raises(FieldError, match="cert_file"):
        await CertificateFiles(listen, "the server").load()


async def test_plain_http_has_no_certificate_to_follow() -> None:
    files = CertificateFiles(Listen(), "the server")

    await files.load()
    await files.run()

    assert files.context is None
    assert Listen(host="::1").url(80) == "http://[::1]:80"
