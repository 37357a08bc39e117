"""A real OpenID provider (oidc-provider from npm) on a free port, while a test runs."""

import asyncio
import contextlib
import json
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from federator.kube import selfsigned
from tests.npm import modules

START_S = 60.0
HOST = "localhost"
"""Another site than 127.0.0.1 for a browser, as a real issuer is."""
CLIENT = "federator"


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider that listens. Any password signs in an account."""

    issuer: str
    ca_pem: bytes


def client(redirect: str, *, ident: str = CLIENT, secret: str = "") -> dict[str, Any]:
    """A client for the authorization code flow; public without a secret."""
    return {
        "client_id": ident,
        "redirect_uris": [redirect],
        "response_types": ["code"],
        "grant_types": ["authorization_code"],
        "scope": "openid profile email groups",
        "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
        **({"client_secret": secret} if secret else {}),
    }


def machine(ident: str, secret: str) -> dict[str, Any]:
    """A client such as a CI system: JWT access tokens by client_credentials, whose `sub` is the
    client."""
    return {
        "client_id": ident,
        "client_secret": secret,
        "redirect_uris": [],
        "response_types": [],
        "grant_types": ["client_credentials"],
        "scope": "submit",
    }


@contextlib.asynccontextmanager
async def running(
    *clients: Mapping[str, Any],
    accounts: Mapping[str, Mapping[str, Any]] | None = None,
    machines: Mapping[str, Mapping[str, Any]] | None = None,
    audience: str = "urn:federator",
    seconds: int = 3600,
) -> AsyncIterator[Provider]:
    """The provider with these clients. `accounts`: name -> claims, such as `groups`. `machines`:
    client -> claims of its access tokens for `audience`. Tokens are valid for `seconds`. Skips the
    test where there is no provider."""
    folder = modules.needed()
    signed = selfsigned.made("oidc", dns=(HOST,), addresses=("127.0.0.1",), now_s=time.time())
    given = {
        "modules": str(folder),
        "host": HOST,
        "key": signed.key_pem.decode(),
        "cert": signed.cert_pem.decode(),
        "clients": list(clients),
        "accounts": accounts or {},
        "machines": machines or {},
        "audience": audience,
        "seconds": seconds,
    }
    process = await asyncio.create_subprocess_exec(
        str(shutil.which("node")),
        str(Path(__file__).with_name("provider.mjs")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(given).encode() + b"\n")
        async with asyncio.timeout(START_S):
            await process.stdin.drain()
            issuer = (await process.stdout.readline()).decode().strip()
        assert issuer.startswith("https://"), "the provider has ended"
        yield Provider(issuer, signed.ca_pem)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
