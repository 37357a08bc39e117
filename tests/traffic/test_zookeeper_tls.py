"""ZooKeeper over TLS: the pod's certificate is its identity. Servers before 3.9, such as Debian's,
take the subject of the certificate and not the SPIFFE id."""

import asyncio
import datetime
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from federator.runtime.traffic import settings
from federator.runtime.traffic.registry import RegistrationRefused
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry, _Trusting
from tests.running.ports import free_port
from tests.traffic import zookeeper
from tests.traffic.registries import FOLDER, member, until

pytestmark = pytest.mark.e2e
PEM = serialization.Encoding.PEM
SPIFFE = "spiffe://pinterest.com/ns/search/sa"


@dataclass
class Authority:
    """Signs certificates with one name each."""

    folder: Path

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "trust domain")])
        root = self._signed(self._name, self._key.public_key(), None)
        (self.folder / "ca.crt").write_bytes(root.public_bytes(PEM))

    def _signed(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        alternative: x509.GeneralName | None,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder(self._name, name, key, x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(alternative is None, None), critical=True)
        )
        if alternative is not None:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([alternative]), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())

    def issue(self, name: str, alternative: x509.GeneralName, claims: Sequence[str] = ()) -> Path:
        """A folder with tls.crt, tls.key and ca.crt. `claims` are in the subject, as the signer
        writes cluster and project."""
        folder = self.folder / name
        folder.mkdir()
        key = ec.generate_private_key(ec.SECP256R1())
        said = [x509.NameAttribute(NameOID.USER_ID, claim) for claim in claims]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name), *said])
        certificate = self._signed(subject, key.public_key(), alternative)
        (folder / "tls.crt").write_bytes(certificate.public_bytes(PEM))
        (folder / "tls.key").write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        (folder / "ca.crt").write_bytes((self.folder / "ca.crt").read_bytes())
        return folder


def properties(server: Path) -> dict[str, str]:
    """The settings of the documents."""
    both = server / "server.pem"
    both.write_bytes((server / "tls.key").read_bytes() + (server / "tls.crt").read_bytes())
    return {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(both),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(server / "ca.crt"),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    }


async def connected(folder: Path, port: int, secret: Path | None = None) -> ZooKeeperRegistry:
    """A session of the pod with the certificate of this folder."""
    server = Server(f"localhost:{port}", secret=secret, certificates=settings.certificates(folder))
    registry = ZooKeeperRegistry(server)
    registry.watch(lambda _lost: None)
    await until(lambda: registry.up)
    return registry


def test_entries_belong_to_the_identity_of_the_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("zookeeper", x509.DNSName("localhost"))
    files = {
        name: authority.issue(name, x509.UniformResourceIdentifier(f"{SPIFFE}/{name}"))
        for name in ("web", "other")
    }
    port = free_port()

    async def main() -> None:
        async with zookeeper.serving(tmp_path, secure_port=port, properties=properties(server)):
            registry = await connected(files["web"], port)
            other = await connected(files["other"], port)
            try:
                await registry.join(member(1))
                rights, _ = await registry._answer(registry._client.get_acls_async, FOLDER)
                assert [(acl.id.scheme, acl.id.id, acl.perms) for acl in rights] == [
                    ("world", "anyone", 1),
                    ("x509", "CN=web", 31),
                ]
                with pytest.raises(RegistrationRefused, match="may not write by its certificate"):
                    await other.join(member(2))
                assert await other.members(FOLDER) == [member(1)]
                await registry.leave(member(1))
            finally:
                await registry.close()
                await other.close()

    asyncio.run(main())


def test_a_service_account_is_another_identity_in_each_cluster_where_the_subject_counts(
    tmp_path: Path,
) -> None:
    """As the documents say of servers that take the subject: the cluster that registers first owns
    the folder. By digest, the clusters share it."""
    authority = Authority(tmp_path)
    server = authority.issue("zookeeper", x509.DNSName("localhost"))
    account = x509.UniformResourceIdentifier(f"{SPIFFE}/web")
    first, second = (
        authority.issue(name, account, [f"cluster={name}", "project=search"])
        for name in ("use1-a", "use1-b")
    )
    secret = tmp_path / "login"
    secret.write_text("search:hunter2", encoding="utf-8")
    port = free_port()

    async def main() -> None:
        async with zookeeper.serving(tmp_path, secure_port=port, properties=properties(server)):
            sessions = [await connected(folder, port) for folder in (first, second)]
            shared = [await connected(folder, port, secret) for folder in (first, second)]
            try:
                await sessions[0].join(member(1))
                with pytest.raises(RegistrationRefused, match="may not write by its certificate"):
                    await sessions[1].join(member(2))
                folder = "/discovery/shared/prod"
                for number, registry in enumerate(shared, 1):
                    await registry.join(member(number, folder=folder))
                assert len(await shared[0].members(folder)) == 2
            finally:
                for registry in (*sessions, *shared):
                    await registry.close()

    asyncio.run(main())


@pytest.mark.parametrize("poses", [True, False])
def test_a_pod_that_poses_as_zookeeper_is_not_spoken_to(tmp_path: Path, poses: bool) -> None:
    """It has a certificate of the trust domain, and its name is not that of the server."""
    authority = Authority(tmp_path)
    pod = authority.issue("web", x509.UniformResourceIdentifier(f"{SPIFFE}/web"))
    named = authority.issue("zookeeper", x509.DNSName("localhost"))
    server = settings.certificates(pod if poses else named)

    async def main() -> None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*server[:2])
        spoken, refused = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if await reader.read(1):
                spoken.set()
            writer.close()

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: refused.set())
        listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            certificates = settings.certificates(pod)
            handler = _Trusting(certificates)

            def connect() -> str:
                try:
                    with handler.create_connection(("127.0.0.1", port), "localhost", 10.0) as made:
                        made.sendall(b"x")
                        return ""
                except ssl.SSLCertVerificationError as bad:
                    return bad.verify_message

            why = await asyncio.to_thread(connect)
            if not poses:
                assert why == ""
                await asyncio.wait_for(spoken.wait(), 60.0)
                return
            assert "Hostname mismatch" in why
            registry = ZooKeeperRegistry(Server(f"localhost:{port}", certificates=certificates))
            registry.watch(lambda _lost: None)
            try:
                await asyncio.sleep(0.5)
                assert not registry.up
                assert not spoken.is_set()
            finally:
                await registry.close()

    asyncio.run(main())
