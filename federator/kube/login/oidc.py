"""Logs in a person with the `auth-provider` oidc in the kubeconfig, by kubernetes_asyncio.

The ID token counts for as long as it is valid. It is not renewed here: kubernetes_asyncio would
send the refresh token without checking the provider's certificate, and not write the next one back.
Any command of kubectl renews it in the kubeconfig, which is read again then. The import takes 35
MB, so only processes with such a kubeconfig import it.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from federator.kube.login.execplugin import Credential
from federator.kube.login.kubeconfig import NotConfigured, shown

NAME = "oidc"


async def login(user: Mapping[str, Any], user_name: str) -> Credential:
    """The ID token of a user of a kubeconfig. Raises `NotConfigured`."""
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException, load_kube_config_from_dict

    given = user["auth-provider"].get("config") or {}
    token = given.get("id-token") if isinstance(given, Mapping) else None
    provider = {"name": NAME, "config": {"id-token": token} if token else {}}
    config = {
        "current-context": "person",
        "contexts": [{"name": "person", "context": {"cluster": "host", "user": "person"}}],
        "clusters": [{"name": "host", "cluster": {"server": "https://host.invalid"}}],
        "users": [{"name": "person", "user": {"auth-provider": provider}}],
    }
    loaded = Configuration()
    try:
        await load_kube_config_from_dict(config, client_configuration=loaded)
        token = str(loaded.api_key["BearerToken"]).removeprefix("Bearer ")
    except (ConfigException, ValueError, KeyError, TypeError, AssertionError) as exc:
        raise NotConfigured(
            f"The user {shown(user_name)} of the kubeconfig has no valid ID token for its"
            " auth-provider oidc. Run any command of kubectl with it, which renews the token, and"
            " try again."
        ) from exc
    return Credential(token=token, expires_s=_expiry(token))


def _expiry(token: str) -> float | None:
    """When an ID token expires, in seconds since the epoch; None where it does not say."""
    payload = token.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        return None
    expires = claims.get("exp") if isinstance(claims, dict) else None
    return float(expires) if isinstance(expires, int | float) else None
