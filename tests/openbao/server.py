"""A real OpenBao server in memory on a free port, while a test runs.

It speaks TLS with an authority of its own and asks clients for certificates. KV version 2 is
mounted at `secret/`. Nothing else is there until a test asks for it: `issues`, `knows_pods`,
`knows_tokens`, `call`.
"""

import contextlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.cluster import Cluster
from tests.controlplane.processes import Child, Family
from tests.openbao import program
from tests.running.ports import free_port

START_S = 60.0
CALL_S = 60.0
TOKEN = "root-of-the-tests"
AUTHORITY = "vault-ca.pem"


def signer_role(domain: str) -> dict[str, Any]:
    """The role with which the signer issues certificates of the pods of a trust domain."""
    return {
        "allowed_uri_sans": [f"spiffe://{domain}/*"],
        "allow_any_name": True,
        "allow_ip_sans": False,
        "allowed_user_ids": ["*"],
        "cn_validations": ["disabled"],
        "use_csr_sans": False,
        "use_csr_common_name": False,
        "key_type": "ec",
        "key_bits": 256,
        "key_usage": ["DigitalSignature"],
        "no_store": True,
        "max_ttl": "24h",
    }


class Answered(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, errors: Sequence[str]) -> None:
        super().__init__(f"{status}: {'; '.join(errors)}")
        self.status = status


@dataclass(slots=True)
class OpenBao:
    """A server that runs, and how its owner speaks to it."""

    address: str
    """Such as https://127.0.0.1:45123."""
    ca_file: Path
    """The authority of its own certificate."""
    child: Child = field(repr=False)
    token: str = TOKEN

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, token: str = ""
    ) -> dict[str, Any]:
        """One request below `/v1/`, by its owner or with another token. Raises `Answered`."""
        request = urllib.request.Request(
            f"{self.address}/v1/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"X-Vault-Token": token or self.token, "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=str(self.ca_file))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=CALL_S) as answer:
                text = answer.read()
        except urllib.error.HTTPError as bad:
            with bad:
                errors = json.loads(bad.read() or b"{}").get("errors") or []
            raise Answered(bad.code, errors) from None
        return json.loads(text) if text else {}

    # -- secrets --------------------------------------------------------------

    def put(self, name: str, values: Mapping[str, str], *, mount: str = "secret") -> int:
        """Writes a secret of KV version 2; returns the number of its new version."""
        answer = self.call("POST", f"{mount}/data/{name}", {"data": values})
        return int(answer["data"]["version"])

    def allow(self, policy: str, *paths: str, abilities: Sequence[str] = ("read",)) -> None:
        """A policy that allows the abilities on API paths such as `secret/data/ads/*`."""
        rules = {path: {"capabilities": list(abilities)} for path in paths}
        self.call("PUT", f"sys/policies/acl/{policy}", {"policy": json.dumps({"path": rules})})

    # -- certificates ---------------------------------------------------------

    def issues(self, role: str, options: Mapping[str, Any], *, mount: str = "pki") -> str:
        """Mounts PKI with a root of its own, once, and a role in it; returns the root as PEM."""
        if f"{mount}/" not in self.call("GET", "sys/mounts")["data"]:
            self.call("POST", f"sys/mounts/{mount}", {"type": "pki"})
            self.call("POST", f"sys/mounts/{mount}/tune", {"max_lease_ttl": "87600h"})
            self.call(
                "POST",
                f"{mount}/root/generate/internal",
                {"common_name": "tests", "key_type": "ec", "key_bits": 256, "ttl": "87600h"},
            )
        self.call("POST", f"{mount}/roles/{role}", options)
        return str(self.call("GET", f"{mount}/cert/ca")["data"]["certificate"])

    # -- who may log in -------------------------------------------------------

    def knows_pods(
        self, role: str, authority: str, *, spiffe: Sequence[str], policies: Sequence[str]
    ) -> None:
        """Lets holders of certificates of an authority (PEM) log in at `auth/cert` whose SPIFFE id
        matches one of the patterns, such as `spiffe://example.org/ns/ads/sa/*`."""
        self._authentication("cert")
        options = {
            "certificate": authority,
            "allowed_uri_sans": list(spiffe),
            "token_policies": list(policies),
            "token_ttl": "10m",
        }
        self.call("POST", f"auth/cert/certs/{role}", options)

    def knows_tokens(
        self, role: str, keys: Sequence[str], *, audience: str, policies: Sequence[str]
    ) -> None:
        """Lets holders of JWTs log in at `auth/jwt` that one of the public keys (PEM) verifies; the
        subject is their name."""
        self._authentication("jwt")
        self.call("POST", "auth/jwt/config", {"jwt_validation_pubkeys": list(keys)})
        options = {
            "role_type": "jwt",
            "user_claim": "sub",
            "bound_audiences": [audience],
            "token_policies": list(policies),
            "token_ttl": "10m",
        }
        self.call("POST", f"auth/jwt/role/{role}", options)

    def knows_accounts(
        self,
        role: str,
        cluster: Cluster,
        *,
        reviewer: str,
        account: str,
        audience: str,
        policies: Sequence[str],
    ) -> None:
        """Lets a service account (NAMESPACE/NAME) of a real cluster log in at `auth/kubernetes`.
        `reviewer`: token with which the API server is asked whose a token is."""
        self._authentication("kubernetes")
        config = {
            "kubernetes_host": cluster.url,
            "kubernetes_ca_cert": cluster.ca_file.read_text(),
            "token_reviewer_jwt": reviewer,
            "disable_local_ca_jwt": True,
        }
        self.call("POST", "auth/kubernetes/config", config)
        namespace, _, name = account.partition("/")
        options = {
            "bound_service_account_namespaces": [namespace],
            "bound_service_account_names": [name],
            "audience": audience,
            "token_policies": list(policies),
            "token_ttl": "10m",
        }
        self.call("POST", f"auth/kubernetes/role/{role}", options)

    def _authentication(self, kind: str) -> None:
        if f"{kind}/" not in self.call("GET", "sys/auth")["data"]:
            self.call("POST", f"sys/auth/{kind}", {"type": kind})


@contextlib.contextmanager
def serving() -> Iterator[OpenBao]:
    """A server of its own, gone with everything in it at the end. Skips the test where there is no
    OpenBao."""
    binary = program.needed()
    family = Family()
    try:
        port = free_port()
        config = family.directory / "server.hcl"
        # A second listener for a cluster would take the next port, which may be somebody else's.
        config.write_text("disable_clustering = true\n", encoding="ascii")
        command = [str(binary), "server", "-dev", "-dev-tls", "-dev-no-store-token"]
        command += [f"-dev-tls-cert-dir={family.directory}", f"-dev-root-token-id={TOKEN}"]
        command += [f"-dev-listen-address=127.0.0.1:{port}", f"-config={config}"]
        child = family.start("openbao", command)
        ca_file = family.directory / AUTHORITY
        server = OpenBao(f"https://127.0.0.1:{port}", ca_file, child)
        family.wait_until(lambda: _mounted(server), "OpenBao", START_S)
        yield server
    finally:
        family.stop()


def _mounted(server: OpenBao) -> bool:
    """Listening is not enough: `secret/` is mounted after that."""
    try:
        return "secret/" in server.call("GET", "sys/mounts")["data"]
    except (OSError, Answered, ValueError, KeyError):
        return False
