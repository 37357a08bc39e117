"""Secrets of Pinterest's Knox: keys, read with the pod's certificate as a service principal (its
SPIFFE id).

The value `value` is the primary version of a key, for senders: to sign, to encrypt, to log in.
`active-ID` are the other active versions, for receivers. Source: `server/routes.go` and
`server/auth` of pinterest/knox.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from federator.runtime import web
from federator.runtime.files.backends import Away, Refusal
from federator.runtime.secrets.mutual import Mutual
from federator.runtime.secrets.store import SECRET_MAX, Secret, checked
from federator.runtime.web import Answer, Unreached

ASK_S: Final = 10.0
ANSWER_MAX: Final = 3 * SECRET_MAX
SPIFFE: Final = "0s"
"""Begins the Authorization header: version 0 of Knox's scheme, type SPIFFE."""


class KnoxStore:
    """Reads with the certificate in the identity folder as it is at that time."""

    def __init__(
        self, url: str, identity: Path, trust: str, principal: str, ask: web.Ask = web.ask
    ) -> None:
        """`trust` as in `Mutual`."""
        self._over = ask
        self._url, self._mutual = url, Mutual(identity, trust)
        self._principal = principal

    async def read(self, name: str) -> Secret:
        answer = await self._ask(f"/v0/keys/{quote(name, safe=':')}/")
        if answer.status == 404:
            raise Refusal("SecretMissing", f"there is no secret {name} in {self._url}")
        if answer.status in (401, 403):
            raise Refusal(
                "SecretDenied" if answer.status == 403 else "LoginRefused",
                f"{self._principal} may not read {name}: the access list of this key in {self._url}"
                " does not have it as a reader",
            )
        try:
            key = answer.json()["data"]
            return checked(name, Secret(str(key["hash"]), dict(map(_value, key["versions"]))))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise Refusal(
                "SecretUnreadable",
                f"{self._url} answers {answer.status} for secret {name}, and not with a key",
            ) from None

    async def changed(self, known: Mapping[str, str]) -> frozenset[str]:
        answer = await self._ask(f"/v0/keys/?{urlencode(known)}")
        names = answer.json().get("data")
        if answer.status != 200 or not isinstance(names, list | None):
            raise Away(f"{self._url} answers {answer.status} to a question for new versions")
        return frozenset(known) & frozenset(map(str, names or ()))

    async def _ask(self, path: str) -> Answer:
        """Raises Away."""
        try:
            answer = await self._over(
                "GET",
                f"{self._url}{path}",
                headers={"Authorization": f"{SPIFFE}{self._principal}"},
                context=self._mutual.context(),
                within_s=ASK_S,
                most=ANSWER_MAX,
            )
        except Unreached as bad:
            raise Away(str(bad)) from None
        if answer.status >= 500 or answer.status == 429:
            raise Away(f"{self._url} answers {answer.status}")
        return answer


def _value(version: Mapping[str, Any]) -> tuple[str, bytes]:
    """Raises KeyError, TypeError, ValueError."""
    name = "value" if version["status"] == "Primary" else f"active-{int(version['id'])}"
    return name, base64.b64decode(version["data"], validate=True)
