"""A kubeconfig with the auth-provider oidc: its ID token counts while it is valid."""

import base64
import json
from typing import Any

import pytest

from federator.kube.login import oidc
from federator.kube.login.kubeconfig import NotConfigured


def user(expires_s: float | None, **config: str) -> dict[str, Any]:
    claims = {"sub": "ada"} if expires_s is None else {"sub": "ada", "exp": int(expires_s)}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    config = {"id-token": f"e30.{payload}.c2ln", **config}
    return {"auth-provider": {"name": "oidc", "config": config}}


@pytest.mark.parametrize("expires_s", [4_000_000_000.0, None])
async def test_a_valid_token_is_shown_until_it_expires(expires_s: float | None) -> None:
    given = user(expires_s)
    credential = await oidc.login(given, "ada")
    assert credential.token == given["auth-provider"]["config"]["id-token"]
    assert credential.expires_s == (None if expires_s is None else int(expires_s))


@pytest.mark.parametrize(
    "given",
    [
        user(1_000_000_000, **{"refresh-token": "secret", "idp-issuer-url": "https://id.example"}),
        {"auth-provider": {"name": "oidc"}},
        {"auth-provider": {"name": "oidc", "config": {"id-token": "no.token"}}},
    ],
    ids=["expired", "none", "nonsense"],
)
async def test_without_a_valid_token_kubectl_has_to_renew_it(given: dict[str, Any]) -> None:
    with pytest.raises(NotConfigured, match=r'"ada" .* no valid ID token .* command of kubectl'):
        await oidc.login(given, "ada")
