"""Client certificates: what the handshake lets through, and which user a certificate names. A real
TLS server; its handler authenticates as the gateway does.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from federator.gateway.api.problems import Problem, answer
from federator.gateway.callers import Callers
from federator.gateway.certificates import GROUPS_MAX, NAME_MAX, Certificates
from federator.gateway.options import GatewayOptions
from federator.hub.query.access import Access
from federator.kube import selfsigned, tlsserver
from federator.kube.client import Client
from federator.kube.clock import Clock, RealClock
from federator.kube.tlsserver import Certificate, CertificateFiles, Incoming, Listen, Outgoing
from federator.kube.wire.transport import Request, Response
from federator.model.errors import FieldError
from federator.process.oidc.issuer import Issuers
from tests.unit.gateway.authorities import SERVER, Authority, write

NOW_S = 1_790_000_000.0


class _NoHost:
    """A Transport to a host that nobody may ask."""

    async def request(self, request: Request) -> Response:
        raise AssertionError(f"{request.method} {request.path}")

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Served:
    """A server, and the files that it follows."""

    port: int
    ca_pem: bytes
    files: CertificateFiles
    clients: Path

    def context(self, pair: tuple[bytes, bytes] | None, folder: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        if pair is not None:
            context.load_cert_chain(*write(folder, pair))
        return context

    @contextlib.asynccontextmanager
    async def connected(self, context: ssl.SSLContext) -> AsyncIterator["Connection"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()

    async def asked(self, context: ssl.SSLContext, **headers: str) -> str:
        """The status and the body of one request on its own connection; "closed" where the
        handshake or the connection ends without an answer."""
        try:
            async with asyncio.timeout(60), self.connected(context) as connection:
                return await connection.asked(**headers)
        except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
            return "closed"


@dataclass
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def asked(self, **headers: str) -> str:
        more = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
        self.writer.write(f"GET / HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r")[0])
        body = (await self.reader.readexactly(length)).decode()
        return f"{head.split()[1]} {body}"


@contextlib.asynccontextmanager
async def serving(folder: Path, authority: Authority, **options: Any) -> AsyncIterator[Served]:
    """A server on which the authority counts, and whose answers name the caller."""
    made = selfsigned.made("gateway", dns=(), addresses=("127.0.0.1",), now_s=time.time())
    clients = folder / "clients.pem"
    for name, pem in (("tls.crt", made.cert_pem), ("tls.key", made.key_pem)):
        (folder / name).write_bytes(pem)
    clients.write_bytes(authority.pem)
    listen = Listen(
        cert_file=str(folder / "tls.crt"),
        key_file=str(folder / "tls.key"),
        clients_ca_file=str(clients),
    )
    files = CertificateFiles(listen, "the gateway")
    await files.load()
    host, clock = Client(_NoHost(), "host"), RealClock()
    known = Certificates(GatewayOptions(**options), clock)
    callers = Callers(Access(host, clock=clock), Issuers([]), host, _NoHost(), known)

    async def named(request: Incoming) -> Outgoing:
        try:
            caller = await callers.authenticate(request)
        except Problem as problem:
            return answer(problem, request.path)
        assert caller.impersonated
        return Outgoing(200, f"{caller.name} {','.join(caller.user.groups)}".encode())

    server = tlsserver.TlsServer(named, trusts=files.trusts)
    port = await server.start("127.0.0.1", 0, files.context)
    try:
        yield Served(port, made.ca_pem, files, clients)
    finally:
        await server.close()


async def test_a_certificate_of_the_authority_names_user_and_groups(tmp_path: Path) -> None:
    people = Authority()
    async with serving(tmp_path, people) as served:
        pair = people.signed("ana", groups=["ads-deploy", "feed"])
        assert await served.asked(served.context(pair, tmp_path)) == (
            "200 x509:ana x509:ads-deploy,x509:feed,system:authenticated"
        )


WRONG: Mapping[str, Callable[[Authority], tuple[bytes, bytes]]] = {
    "of another authority": lambda people: Authority("others").signed("ana"),
    "of another authority with the same name": lambda people: Authority().signed("ana"),
    "expired": lambda people: people.signed("ana", ends_s=-30.0),
    "not valid yet": lambda people: people.signed("ana", since_s=-1800.0),
    "for servers": lambda people: people.signed("ana", usage=SERVER),
    "with the key of another": lambda people: (people.signed("ana")[0], people.signed("ben")[1]),
}


@pytest.mark.parametrize("how", WRONG)
async def test_the_handshake_refuses_a_certificate(tmp_path: Path, how: str) -> None:
    people = Authority()
    async with serving(tmp_path, people) as served:
        try:
            context = served.context(WRONG[how](people), tmp_path)
        except ssl.SSLError:
            assert how == "with the key of another"
            return
        assert await served.asked(context) == "closed"


FORWARDED = {
    "X_Forwarded_Client_Cert": 'Hash=1;Subject="CN=ana,O=ads-deploy";URI=spiffe://x/ana',
    "X_SSL_Client_Cert": "-----BEGIN CERTIFICATE-----",
    "X_SSL_Client_S_DN": "CN=ana",
    "SSL_Client_Subject_Dn": "CN=ana",
    "X_Client_Cert": "ana",
    "Client_Cert": ":MIIB:",
    "X_Remote_User": "ana",
    "X_Forwarded_User": "ana",
}


async def test_headers_in_which_proxies_forward_certificates_name_nobody(tmp_path: Path) -> None:
    people = Authority()
    async with serving(tmp_path, people) as served:
        bare = served.context(None, tmp_path)
        for name, text in FORWARDED.items():
            assert (await served.asked(bare, **{name: text})).startswith("401 "), name
        # A proxy with a certificate of its own stays that user, whatever it forwards.
        proxy = served.context(people.signed("proxy"), tmp_path)
        assert await served.asked(proxy, **FORWARDED) == "200 x509:proxy system:authenticated"
        assert (await served.asked(proxy, Impersonate_User="ana")).startswith("403 ")


async def test_a_token_that_does_not_count_is_not_replaced_by_the_certificate(
    tmp_path: Path,
) -> None:
    people = Authority()
    async with serving(tmp_path, people) as served:
        context = served.context(people.signed("ana"), tmp_path)
        assert (await served.asked(context, Authorization="Basic eDp5")).startswith("401 ")


async def test_no_older_protocol_resumes_a_session_with_a_certificate(tmp_path: Path) -> None:
    people = Authority()
    async with serving(tmp_path, people) as served:
        context = served.context(people.signed("ana"), tmp_path)
        async with served.connected(context) as connection:
            assert (await connection.asked()).startswith("200 ")
            shown = connection.writer.get_extra_info("ssl_object")
            assert (shown.version(), shown.session.has_ticket) == ("TLSv1.3", False)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await served.asked(context) == "closed"


async def test_another_authority_counts_from_the_next_look_and_the_old_one_does_not(
    tmp_path: Path,
) -> None:
    old, new = Authority("old"), Authority("new")
    async with serving(tmp_path, old) as served:
        ana = served.context(old.signed("ana"), tmp_path)
        ben = served.context(new.signed("ben"), tmp_path)
        async with served.connected(ana) as kept:
            assert (await kept.asked()).startswith("200 x509:ana ")
            for half in (b"", b"half", b"\xff"):
                served.clients.write_bytes(half)
                await served.files.look()
                assert (await served.asked(ana)).startswith("200 ")
            served.clients.write_bytes(old.pem + new.pem)
            await served.files.look()
            assert (await served.asked(ana)).startswith("200 ")
            assert (await served.asked(ben)).startswith("200 ")
            served.clients.write_bytes(new.pem)
            await served.files.look()
            # The connection is older than the change.
            assert (await kept.asked()).startswith("401 ")
        assert await served.asked(ana) == "closed"
        assert (await served.asked(ben)).startswith("200 x509:ben ")


async def test_files_and_addresses_without_tls_are_refused(tmp_path: Path) -> None:
    made = selfsigned.made("gateway", dns=("gateway",), now_s=NOW_S)
    for name, pem in (("tls.crt", made.cert_pem), ("tls.key", made.key_pem), ("none", b"")):
        (tmp_path / name).write_bytes(pem)
    none = str(tmp_path / "none")
    with pytest.raises(FieldError, match="plain HTTP has none"):
        Listen(clients_ca_file=none).check()
    listen = Listen(
        cert_file=str(tmp_path / "tls.crt"),
        key_file=str(tmp_path / "tls.key"),
        clients_ca_file=none,
    )
    with pytest.raises(FieldError, match="authorities is empty"):
        await CertificateFiles(listen, "the gateway").load()
    away = replace(listen, clients_ca_file=str(tmp_path / "away"))
    with pytest.raises(OSError, match="away"):
        await CertificateFiles(away, "the gateway").load()


def _user(certificate: Certificate, **options: Any) -> tuple[str, tuple[str, ...]]:
    clock = Clock(NOW_S)
    with asyncio.Runner() as runner:

        async def asked() -> tuple[str, tuple[str, ...]]:
            clock.wall_epoch_s = NOW_S - clock.monotonic()
            return Certificates(GatewayOptions(**options), clock).user(certificate)

        return runner.run(asked())


SPIFFE = "spiffe://example.org/ns/ads/sa/ci"


def test_the_setting_says_which_name_counts() -> None:
    given = Certificate("ana", ("ads", "ads"), (SPIFFE,), ("ana@example.org",))

    assert _user(given) == ("x509:ana", ("x509:ads",))
    assert _user(given, clients_username="URI")[0] == f"x509:{SPIFFE}"
    assert _user(given, clients_username="Email")[0] == "x509:ana@example.org"
    prefixes = {"clients_username_prefix": "corp:", "clients_groups_prefix": "team:"}
    assert _user(given, **prefixes) == ("corp:ana", ("team:ads",))


UNCLEAR: Mapping[str, tuple[Certificate, str]] = {
    "no common name": (Certificate("", uris=(SPIFFE,)), "CommonName"),
    "no URI": (Certificate("ana"), "URI"),
    "two URIs": (Certificate("ana", uris=(SPIFFE, f"{SPIFFE}2")), "URI"),
    "no mail address": (Certificate("ana"), "Email"),
    "two mail addresses": (Certificate("ana", emails=("a@x", "b@x")), "Email"),
    "expired on an open connection": (Certificate("ana", ends_s=NOW_S - 1), "CommonName"),
    "a line break": (Certificate("ana\nImpersonate-Group: x"), "CommonName"),
    "a zero": (Certificate("ana\0.evil"), "CommonName"),
    "a blank at the end": (Certificate("ana "), "CommonName"),
    "blank": (Certificate(" "), "CommonName"),
    "other letters": (Certificate("аna"), "CommonName"),
    "too long": (Certificate("a" * (NAME_MAX + 1)), "CommonName"),
    "a group with a line break": (Certificate("ana", ("x\n",)), "CommonName"),
    "an empty group": (Certificate("ana", ("",)), "CommonName"),
    "many groups": (
        Certificate("ana", tuple(f"g{at}" for at in range(GROUPS_MAX + 1))),
        "CommonName",
    ),
}


@pytest.mark.parametrize("how", UNCLEAR)
def test_a_certificate_without_one_clear_name_counts_for_nobody(how: str) -> None:
    certificate, field = UNCLEAR[how]
    with pytest.raises(Problem) as refused:
        _user(certificate, clients_username=field)
    assert refused.value.status == 401


@pytest.mark.parametrize("prefix", ["system:", "system:x", "sys", "s"])
def test_prefixes_that_lead_to_names_of_kubernetes_are_refused(prefix: str) -> None:
    with pytest.raises(FieldError, match="clients_username_prefix"):
        GatewayOptions(clients_username_prefix=prefix).check()
    with pytest.raises(FieldError, match="clients_groups_prefix"):
        GatewayOptions(clients_groups_prefix=prefix).check()


async def test_alternative_names_are_read_from_the_certificate(tmp_path: Path) -> None:
    people = Authority()
    names = [x509.UniformResourceIdentifier(SPIFFE), x509.RFC822Name("ana@example.org")]
    async with serving(tmp_path, people, clients_username="URI") as served:
        pair = people.signed("", others=names)
        assert await served.asked(served.context(pair, tmp_path)) == (
            f"200 x509:{SPIFFE} system:authenticated"
        )
