"""An issuer in memory: keys, tokens that it signs, and the transport to its two documents. Used by
the tests of tokens and of the gateway.
"""

import base64
import functools
import json
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwa, jwk

from federator.kube import errors
from federator.kube.client import Client
from federator.kube.clock import Clock
from federator.kube.wire.transport import Request
from federator.process.oidc.issuer import Issuer
from federator.process.oidc.tokens import Trust
from tests.unit.kube.scripted import Answer

URL = "https://issuer.example/realms/ci"
AUDIENCE = "federator"
NOW_S = 1_800_000_000
MODELS = {model.name: model for model in jwa.JWS_ALGORITHMS}


@functools.cache
def key(kind: str, form: Any, number: int) -> Any:
    """A private key, made once in a process, because RSA keys take long. Each number has its own."""
    made: Any = jwk.generate_key
    return made(kind, form, private=True, parameters={"use": "sig"})


def rsa(number: int = 0) -> Any:
    return key("RSA", 2048, number)


def p256() -> Any:
    return key("EC", "P-256", 0)


def ed25519() -> Any:
    return key("OKP", "Ed25519", 0)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def claims(**more: Any) -> dict[str, Any]:
    """Those of a good token; None leaves one out."""
    given = {
        "iss": URL,
        "aud": AUDIENCE,
        "sub": "builder",
        "groups": ["ads-deploy"],
        "iat": NOW_S - 10,
        "exp": NOW_S + 600,
        **more,
    }
    return {name: value for name, value in given.items() if value is not None}


def signed(header: Any, payload: Any, private: Any, algorithm: str = "") -> str:
    """A token with this very header and payload; texts are taken as they are."""
    parts = [
        b64(part.encode() if isinstance(part, str) else json.dumps(part).encode())
        for part in (header, payload)
    ]
    message = ".".join(parts)
    model = MODELS[algorithm or header["alg"]]
    return f"{message}.{b64(model.sign(message.encode(), private))}"


def token(algorithm: str = "RS256", *, kid: str = "first", **more: Any) -> str:
    """A good token, with other claims where they are given."""
    keys = {"RS": rsa, "PS": rsa, "ES": p256, "Ed": ed25519}
    return signed({"alg": algorithm, "kid": kid}, claims(**more), keys[algorithm[:2]]())


def public(private: Any, kid: str, **more: Any) -> dict[str, Any]:
    return {**private.as_dict(private=False), "kid": kid, **more}


@dataclass
class Served:
    """What the issuer serves, and what it was asked. A Transport."""

    keys: list[dict[str, Any]] = field(
        default_factory=lambda: [
            public(rsa(), "first"),
            public(p256(), "curve"),
            public(ed25519(), "edwards"),
        ]
    )
    document: dict[str, Any] = field(
        default_factory=lambda: {
            "issuer": URL,
            "jwks_uri": "https://keys.example/jwks?realm=ci",
            "token_endpoint": f"{URL}/token",
        }
    )
    asked: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    away: bool = False

    async def request(self, request: Request) -> Answer:
        self.asked.append(request.path)
        if self.away:
            raise errors.Unreachable("the issuer is away")
        if request.path == "/realms/ci/.well-known/openid-configuration":
            return Answer(200, (json.dumps(self.document).encode(),))
        if request.path == "/jwks?realm=ci":
            return Answer(200, (json.dumps({"keys": self.keys}).encode(),))
        return Answer(404, (b"no such page",))

    async def close(self) -> None:
        """Nothing is open."""

    def connect(self, server: str) -> Client:
        self.servers.append(server)
        return Client(self, "issuer")

    def issuer(self, **trust: Any) -> Issuer:
        trusted = Trust(URL, frozenset({AUDIENCE}), **trust)
        return Issuer(trusted, self.connect, clock=Clock(NOW_S))
