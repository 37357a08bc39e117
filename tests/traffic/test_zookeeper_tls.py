"""ZooKeeper over TLS: the pod's certificate is its identity. Servers before 3.9, such as Debian's,
take the subject of the certificate and not the SPIFFE id."""

import asyncio
import datetime
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from federator.runtime.traffic.registry import Refused
from federator.runtime.traffic.zookeeper import Server, ZooKeeperRegistry
from tests.controlplane.plane import free_port
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

    def issue(self, name: str, alternative: x509.GeneralName) -> Path:
        """A folder with tls.crt, tls.key and ca.crt."""
        folder = self.folder / name
        folder.mkdir()
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
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


def test_entries_belong_to_the_identity_of_the_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("zookeeper", x509.DNSName("localhost"))
    files = {
        name: authority.issue(name, x509.UniformResourceIdentifier(f"{SPIFFE}/{name}"))
        for name in ("web", "other")
    }
    port = free_port()

    async def connected(name: str) -> ZooKeeperRegistry:
        folder = files[name]
        certificates = (folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
        registry = ZooKeeperRegistry(Server(f"127.0.0.1:{port}", certificates=certificates))
        registry.watch(lambda _lost: None)
        await until(lambda: registry.up)
        return registry

    async def main() -> None:
        async with zookeeper.serving(tmp_path, secure_port=port, properties=properties(server)):
            registry, other = await connected("web"), await connected("other")
            try:
                await registry.join(member(1))
                rights, _ = await registry._answer(registry._client.get_acls_async, FOLDER)
                assert [(acl.id.scheme, acl.id.id, acl.perms) for acl in rights] == [
                    ("world", "anyone", 1),
                    ("x509", "CN=web", 31),
                ]
                with pytest.raises(Refused, match="may not write by its certificate"):
                    await other.join(member(2))
                assert await other.members(FOLDER) == [member(1)]
                await registry.leave(member(1))
            finally:
                await registry.close()
                await other.close()

    asyncio.run(main())
