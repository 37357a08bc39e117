"""Secrets of OpenBao or Vault: KV version 2, read with a token that the pod's certificate gets at
`auth/cert`."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from federator.runtime import web
from federator.runtime.files.backends import Away, Refusal
from federator.runtime.secrets.mutual import Mutual
from federator.runtime.secrets.store import SECRET_MAX, Secret, checked
from federator.runtime.web import Answer, Unreached

ASK_S: Final = 10.0
ANSWER_MAX: Final = 3 * SECRET_MAX
"""Bytes of an answer: JSON may write a value longer than it is."""
TOKEN_SHARE: Final = 2 / 3
"""Share of the life of a token after which the pod logs in again."""
LIFE_MAX_S: Final = 30 * 86_400
AGAIN_S: Final = 600.0
"""A token as old as this is replaced when a path is denied that it was never allowed: its policies
may be others by now."""
BASE64: Final = "base64:"
"""A value that begins with this is bytes in base64: KV keeps texts only."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is, and the identity of the pod that asks it."""

    url: str
    mount: str
    """Of KV version 2."""
    role: str
    """Of `auth/cert`; "" for the first one that the certificate satisfies."""
    principal: str
    """The SPIFFE id of the pod, for messages."""


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    policies: tuple[str, ...]
    since_s: float
    until_s: float

    def __repr__(self) -> str:
        return f"_Token(policies={self.policies})"


class OpenBaoStore:
    """Reads with the certificate in the identity folder as it is at that time."""

    def __init__(
        self,
        place: Place,
        identity: Path,
        trust: str,
        monotonic: Callable[[], float],
        ask: web.Ask = web.ask,
    ) -> None:
        """`trust` as in `Mutual`."""
        self._place, self._mutual = place, Mutual(identity, trust)
        self._monotonic = monotonic
        self._over = ask
        self._token: _Token | None = None
        self._allowed: set[str] = set()
        """Paths that the token was allowed."""

    async def read(self, name: str) -> Secret:
        answer = await self._asked("data", name)
        if answer.status == 404:
            raise Refusal(
                "SecretMissing",
                f"there is no secret {name} in {self._place.mount}/ of {self._place.url}, or its"
                " newest version is deleted",
            )
        content = _mapping(answer.json().get("data"))
        version = _mapping(content.get("metadata")).get("version")
        values = content.get("data")
        if answer.status != 200 or not isinstance(values, dict) or not isinstance(version, int):
            raise Refusal(
                "SecretUnreadable",
                f"{self._place.url} answers {answer.status} for secret {name}, and not with a"
                " secret of KV version 2",
            )
        texts = {str(key): _bytes(value) for key, value in values.items()}
        return checked(name, Secret(str(version), texts))

    async def changed(self, known: Mapping[str, str]) -> frozenset[str]:
        return frozenset([name for name, was in known.items() if await self._version(name) != was])

    async def _version(self, name: str) -> str:
        """Empty if it cannot be read."""
        try:
            answer = await self._asked("metadata", name)
        except Refusal:  # a policy for data alone is enough
            return ""
        data = _mapping(answer.json().get("data"))
        current = str(data.get("current_version", ""))
        entry = _mapping(_mapping(data.get("versions")).get(current))
        gone = entry.get("deletion_time") or entry.get("destroyed")
        return "" if gone else current

    async def _asked(self, what: str, name: str) -> Answer:
        """The answer about a secret, with a token that counts. Raises Refusal, Away."""
        for last in (False, True):
            token = await self._logged_in()
            path = f"{self._place.mount}/{what}/{quote(name)}"
            answer = await self._ask("GET", path, {"X-Vault-Token": token.text})
            if answer.status != 403:
                self._allowed.add(path)
                break
            if last or not self._may_be_revoked(token, path):
                raise Refusal("SecretDenied", self._denied(token, path))
            self._token = None
        if answer.status >= 500 or answer.status == 429:
            raise Away(f"{self._place.url} answers {answer.status}: {_errors(answer)}")
        return answer

    def _may_be_revoked(self, token: _Token, path: str) -> bool:
        """Whether a new token may be allowed what this one is denied. Without this each secret that
        is withdrawn would cost a login at each poll."""
        return path in self._allowed or self._monotonic() - token.since_s >= AGAIN_S

    def _denied(self, token: _Token, path: str) -> str:
        policies = ", ".join(token.policies) or "none"
        return (
            f"{self._place.principal} may not read {path}: none of its policies ({policies}) allows"
            " read there"
        )

    async def _logged_in(self) -> _Token:
        if self._token is not None and self._monotonic() < self._token.until_s:
            return self._token
        role = {"name": self._place.role} if self._place.role else {}
        answer = await self._ask("POST", "auth/cert/login", {}, json.dumps(role).encode())
        granted = _mapping(answer.json().get("auth"))
        text, life_s = granted.get("client_token"), granted.get("lease_duration")
        if answer.status == 200 and isinstance(text, str) and isinstance(life_s, int):
            policies = granted.get("policies")
            names = tuple(map(str, policies)) if isinstance(policies, list) else ()
            now_s = self._monotonic()
            until_s = now_s + TOKEN_SHARE * min(max(life_s, 0), LIFE_MAX_S)
            self._token = _Token(text, names, now_s, until_s)
            self._allowed.clear()
            return self._token
        if answer.status in (400, 403):
            wanted = f"role {self._place.role} of " if self._place.role else ""
            raise Refusal(
                "LoginRefused",
                f"{self._place.url} refuses the certificate of {self._place.principal} at"
                f" {wanted}auth/cert: {_errors(answer)}",
            )
        raise Away(f"{self._place.url} answers {answer.status} to a login: {_errors(answer)}")

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Answer:
        """Raises Away."""
        try:
            return await self._over(
                method,
                f"{self._place.url}/v1/{path}",
                headers=headers,
                body=body,
                context=self._mutual.context(),
                within_s=ASK_S,
                most=ANSWER_MAX,
            )
        except Unreached as bad:
            raise Away(str(bad)) from None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _bytes(value: object) -> bytes:
    """A value as a file holds it: texts as they are, everything else as JSON."""
    if not isinstance(value, str):
        return json.dumps(value, separators=(",", ":")).encode()
    if value.startswith(BASE64):
        try:
            return base64.b64decode(value.removeprefix(BASE64), validate=True)
        except ValueError:
            pass  # a password may begin so
    return value.encode("utf-8", "surrogatepass")


def _errors(answer: Answer) -> str:
    """What the server says is wrong. Its words are about requests, never about values."""
    errors = answer.json().get("errors")
    texts = [str(each) for each in errors] if isinstance(errors, list) else []
    return " ".join("; ".join(texts).split())[:300] or "no reason given"
