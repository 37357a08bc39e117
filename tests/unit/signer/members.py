"""A member on virtual time with a pod, and the signer with exactly the rights of deploy/signer."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509

from federator.embedded.auth.rbac import account_groups
from federator.embedded.server import EmbeddedCluster
from federator.embedded.storage.messages import Caller
from federator.kube.client import Client
from federator.kube.metrics import Metrics
from federator.kube.tlsserver import Incoming, Outgoing
from federator.kube.wire.transport import Request, Response, Transport
from federator.model.steps import ObjectRef
from federator.runtime.identity.authority import Away
from federator.runtime.identity.certificates import CertificateRefused
from federator.signer import authorities
from federator.signer.authorities import CertificateAuthority, CertificateContent
from federator.signer.options import SignerOptions
from federator.signer.server import Signer
from tests.unit.embedded.inprocess import EPOCH_S
from tests.unit.signer import cas

DEPLOY = Path(__file__).parents[3] / "deploy" / "signer" / "account.yaml"
OPTIONS = SignerOptions(trust_domain="test.example", cluster="us-east-1a")
ACCOUNT = "system:serviceaccount:federator-system:federator-signer"


class Held(CertificateAuthority):
    """An intermediate in memory, which can be away or refuse."""

    def __init__(self, now_s: float) -> None:
        self.root = cas.authority("root", now_s)
        signing = cas.authority("signing", now_s, above=self.root)
        self._pair = authorities.Pair((signing.certificate,), signing.key, self.root.pem)
        self.now_s = now_s
        self.fails: Away | CertificateRefused | None = None
        self.says: bytes | None = None
        """What it signs in place of what was asked for: it lies."""
        self.takes_s = 0.0

    async def sign(self, csr: x509.CertificateSigningRequest, wanted: CertificateContent) -> bytes:
        await asyncio.sleep(self.takes_s)
        if self.fails is not None:
            raise self.fails
        return self.says or authorities.issued(self._pair, csr, wanted, self.now_s)

    async def bundle(self) -> bytes:
        return self.root.pem

    async def close(self) -> None: ...


@dataclass
class Watched:
    """A transport that writes down what was asked: verb and path."""

    inner: Transport
    asked: list[tuple[str, str]] = field(default_factory=list)
    takes_s: float = 0.0

    async def request(self, request: Request) -> Response:
        self.asked.append((request.method, request.path))
        await asyncio.sleep(self.takes_s)
        return await self.inner.request(request)

    async def close(self) -> None:
        await self.inner.close()


class Member:
    """One cluster with namespace `ads`, account `web` and pod `web-0`."""

    def __init__(self, cluster: EmbeddedCluster, options: SignerOptions = OPTIONS) -> None:
        self.cluster = cluster
        self.admin = Client(cluster.transport())
        self.authority = Held(EPOCH_S)
        self.metrics = Metrics()
        caller = Caller(ACCOUNT, account_groups("federator-system"), "uid")
        self.watched = Watched(cluster.transport(caller))
        self.signer = Signer(
            Client(self.watched),
            self.authority,
            options,
            clock=cluster.clock,
            rng=random.Random(1),
            metrics=self.metrics,
        )

    async def furnish(self) -> None:
        for name, labels in (("ads", {"pinterest.com/project": "homefeed"}), ("search", {})):
            await self.create(
                "v1", "namespaces", "", {"metadata": {"name": name, "labels": labels}}
            )
        await self.create("v1", "serviceaccounts", "ads", {"metadata": {"name": "web"}})
        await self.create(
            "v1",
            "pods",
            "ads",
            {
                "metadata": {"name": "web-0"},
                "spec": {
                    "serviceAccountName": "web",
                    "containers": [{"name": "main", "image": "none"}],
                },
            },
        )
        await self.create("v1", "namespaces", "", {"metadata": {"name": "federator-system"}})
        for found in yaml.safe_load_all(DEPLOY.read_text()):
            plural = f"{found['kind'].lower()}s"
            space = found["metadata"].get("namespace", "")
            await self.create(found["apiVersion"], plural, space, found)

    async def create(self, version: str, plural: str, space: str, body: Any) -> dict[str, Any]:
        ref = ObjectRef(version, plural, space, body["metadata"]["name"])
        return await self.admin.create(ref, body)

    async def token(
        self, *audiences: str, pod: str = "web-0", account: str = "web", space: str = "ads"
    ) -> str:
        spec: dict[str, Any] = {"audiences": list(audiences) or ["federator-signer"]}
        if pod:
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod}
        ref = ObjectRef("v1", "serviceaccounts", space, account)
        answer = await self.admin.create_at(ref, "token", {"spec": spec})
        return str(answer["status"]["token"])

    async def ask(self, token: str, csr: str, path: str = "/v1/certificates") -> Outgoing:
        body = json.dumps({"csr": csr}).encode()

        async def read(_most: int) -> bytes:
            return body

        method = "POST" if path == "/v1/certificates" else "GET"
        shown = f"Bearer {token}" if token else ""
        return await self.signer.answer(
            Incoming(method, path, authorization=shown, has_body=True, read_body=read)
        )

    def count(self, outcome: str, way: str = "token") -> float:
        name = "federator_signer_certificates_total"
        return float(self.metrics.child(name, way, outcome)._value.get())

    def used(self) -> Sequence[tuple[str, str]]:
        return self.watched.asked


def pem(csr: x509.CertificateSigningRequest) -> str:
    return csr.public_bytes(cas.PEM).decode()
