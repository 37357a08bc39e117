"""Bearer tokens: the administrator's, and those of service accounts, which are signed and name
their service account.

A service account's token is a JWT like a real one, signed with a key of this server (HS256 where a
real server signs with RS256: only this server verifies it). It counts as long as its account lives,
its time has not come, and what it is bound to is still there with the same uid. Tokens are secrets:
never log them.
"""

import base64
import hashlib
import hmac
from typing import Any, Final

import msgspec

from federator.embedded.auth.rbac import SERVICE_ACCOUNT, account_groups
from federator.embedded.schema import builtins
from federator.embedded.storage.messages import Caller
from federator.embedded.storage.revisions import JsonObject
from federator.embedded.storage.store import Store

AUDIENCE: Final = "https://kubernetes.default.svc"
_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
_EXTRA: Final = "authentication.kubernetes.io/"
_LEGACY: Final = "kubernetes.io/serviceaccount/"
BOUND_KINDS: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_TOKEN_MAX: Final = 8192


class Tokens:
    """The callers of the bearer tokens of one server. `admins` are the tokens that stand for a
    caller by themselves."""

    def __init__(self, store: Store, key: bytes) -> None:
        self.admins: dict[str, Caller] = {}
        self._store = store
        self._key = key

    def renew_key(self, key: bytes) -> None:
        """Signs with another key from now on; what was signed before counts no more."""
        self._key = key

    def caller(self, token: str) -> Caller | None:
        """The caller that the token belongs to; None when it is unknown or no longer valid."""
        reviewed = self.reviewed(token, [AUDIENCE])
        return reviewed[0] if reviewed is not None else None

    def reviewed(self, token: str, audiences: list[str]) -> tuple[Caller, list[str]] | None:
        """The caller, and which of the audiences the token is for; None for a token that is for
        none of them, unknown or no longer valid. Tokens without an audience are for the server's
        own."""
        claims = None if token in self.admins else self._verified(token)
        legacy = claims is not None and claims.get("iss") == _LEGACY_ISSUER
        own = [AUDIENCE] if claims is None or legacy else claims["aud"]
        shared = [each for each in audiences if each in own]
        if token in self.admins:
            caller: Caller | None = self.admins[token]
        elif claims is None:
            caller = None
        else:
            caller = self._legacy(token, claims) if legacy else self._bound(claims)
        return (caller, shared) if caller is not None and shared else None

    def issue(
        self,
        account: JsonObject,
        *,
        audiences: list[str],
        lifetime_s: int,
        bound: JsonObject | None,
    ) -> str:
        """A token for a stored ServiceAccount that ends after `lifetime_s` seconds, or with the
        object `bound`."""
        metadata, now = account["metadata"], int(self._store.clock.now())
        about: JsonObject = {"namespace": metadata["namespace"]}
        if bound is not None:
            about[bound["kind"].lower()] = {
                "name": bound["metadata"]["name"],
                "uid": bound["metadata"]["uid"],
            }
        about["serviceaccount"] = {"name": metadata["name"], "uid": metadata["uid"]}
        return self._signed(
            {
                "aud": audiences,
                "exp": now + lifetime_s,
                "iat": now,
                "iss": _ISSUER,
                "jti": self._store.new_uid(),
                "kubernetes.io": about,
                "nbf": now,
                "sub": _name(metadata["namespace"], metadata["name"]),
            }
        )

    def issue_legacy(self, account: JsonObject, secret: str) -> str:
        """The token that lies in the Secret of this name, without end."""
        metadata = account["metadata"]
        return self._signed(
            {
                "iss": _LEGACY_ISSUER,
                f"{_LEGACY}namespace": metadata["namespace"],
                f"{_LEGACY}secret.name": secret,
                f"{_LEGACY}service-account.name": metadata["name"],
                f"{_LEGACY}service-account.uid": metadata["uid"],
                "sub": _name(metadata["namespace"], metadata["name"]),
            }
        )

    def _signed(self, claims: JsonObject) -> str:
        head = _encoded(msgspec.json.encode({"alg": "HS256", "typ": "JWT"}))
        text = f"{head}.{_encoded(msgspec.json.encode(claims))}"
        return f"{text}.{self._signature(text)}"

    def _signature(self, text: str) -> str:
        return _encoded(hmac.digest(self._key, text.encode(), hashlib.sha256))

    def _verified(self, token: str) -> JsonObject | None:
        text, dot, signature = token.rpartition(".")
        if not dot or len(token) > _TOKEN_MAX or not token.isascii():
            return None
        if not hmac.compare_digest(signature, self._signature(text)):
            return None
        body = text.partition(".")[2]
        claims: JsonObject = msgspec.json.decode(
            base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        )
        return claims

    def _legacy(self, token: str, claims: JsonObject) -> Caller | None:
        namespace, secret = claims[f"{_LEGACY}namespace"], claims[f"{_LEGACY}secret.name"]
        stored = self._store.get(builtins.info("", "secrets"), namespace, secret)
        kept = ((stored.obj.get("data") or {}) if stored is not None else {}).get("token")
        if kept != base64.b64encode(token.encode()).decode():
            return None
        name, uid = (
            claims[f"{_LEGACY}service-account.name"],
            claims[f"{_LEGACY}service-account.uid"],
        )
        return self._account(namespace, name, uid)

    def _bound(self, claims: JsonObject) -> Caller | None:
        if claims["exp"] <= self._store.clock.now():
            return None
        about = claims["kubernetes.io"]
        namespace = about["namespace"]
        for kind, plural in BOUND_KINDS.items():
            bound = about.get(kind.lower())
            info = builtins.info("", plural)
            if bound and not self._lives(plural, namespace if info.namespaced else "", bound):
                return None
        account = about["serviceaccount"]
        extra = [(f"{_EXTRA}credential-id", f"JTI={claims['jti']}")]
        if pod := about.get("pod"):
            extra += [(f"{_EXTRA}pod-name", pod["name"]), (f"{_EXTRA}pod-uid", pod["uid"])]
        return self._account(namespace, account["name"], account["uid"], tuple(extra))

    def _account(
        self, namespace: str, name: str, uid: str, extra: tuple[tuple[str, str], ...] = ()
    ) -> Caller | None:
        if not self._lives("serviceaccounts", namespace, {"name": name, "uid": uid}):
            return None
        return Caller(_name(namespace, name), account_groups(namespace), uid, extra)

    def _lives(self, plural: str, namespace: str, reference: dict[str, Any]) -> bool:
        revision = self._store.get(builtins.info("", plural), namespace, reference["name"])
        return revision is not None and revision.obj["metadata"]["uid"] == reference["uid"]


def key_of(secret: str) -> bytes:
    """A signing key that follows from another secret of the server."""
    return hashlib.sha256(b"service account tokens:" + secret.encode()).digest()


def _name(namespace: str, name: str) -> str:
    return f"{SERVICE_ACCOUNT}{namespace}:{name}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
