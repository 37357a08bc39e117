"""What fires in Prometheus, from its HTTP API (`/api/v1/alerts`). Every byte and wait is bounded,
and an answer is read as untrusted input."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import msgspec

from federator.api import raw
from federator.api.raw import Obj
from federator.model import plaintext
from federator.model.errors import FieldError

SETTING: Final = "dashboard.alerts_url"
WITHIN_S: Final = 4.0
BYTES_MAX: Final = 4 * 1024 * 1024
ALERTS_MAX: Final = 2000
KEPT_S: Final = 10.0
"""An answer is used for all readers for so long."""
Fetch = Callable[[str], Awaitable[bytes]]
"""The body of a GET, of at most `BYTES_MAX`, within `WITHIN_S`. Raises `Silent`."""


class Silent(Exception):
    """Prometheus gave no answer that can be used. The message is for the reader."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that fires or waits to."""

    name: str
    severity: str
    pending: bool
    since: str
    """RFC 3339; "" where that is not said."""
    value: float | None
    """None for a gap, NaN and infinities."""
    labels: tuple[tuple[str, str], ...]
    summary: str
    description: str


def checked(url: str) -> str:
    """The address without a slash at its end. Raises FieldError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise FieldError(SETTING, "must be an address such as http://prometheus.monitoring:9090")
    if parts.username or parts.password:
        raise FieldError(SETTING, "must have no password in it")
    return url.rstrip("/")


def parsed(body: bytes) -> list[Alert]:
    """The alerts of an answer, at most `ALERTS_MAX`. Raises `Silent`."""
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise Silent("Prometheus gave an answer that cannot be read.") from None
    if raw.text(answer, "status") != "success":
        said = plaintext.clipped(raw.text(answer, "error"), 200)
        raise Silent(f"Prometheus could not say which alerts fire. {said}".rstrip())
    return [_alert(each) for each in raw.objects(answer, "data", "alerts")[:ALERTS_MAX]]


def _alert(each: Obj) -> Alert:
    labels = raw.text_map(each, "labels")
    return Alert(
        labels.get("alertname", "an alert without a name"),
        labels.get("severity", ""),
        raw.text(each, "state") == "pending",
        raw.text(each, "activeAt"),
        _number(raw.at(each, "value")),
        tuple(
            sorted(
                (name, text)
                for name, text in labels.items()
                if name not in ("alertname", "severity")
            )
        ),
        raw.text(each, "annotations", "summary"),
        raw.text(each, "annotations", "description"),
    )


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class Prometheus:
    """Asks at most once in `KEPT_S`, however many read. `now_s` reads a monotonic clock."""

    def __init__(self, url: str, now_s: Callable[[], float], fetch: Fetch) -> None:
        self._url = checked(url)
        self._now_s = now_s
        self._fetch = fetch
        self._turn = asyncio.Lock()
        self._kept: tuple[float, list[Alert] | Silent] | None = None

    async def alerts(self) -> list[Alert]:
        """What fires. Raises `Silent`."""
        async with self._turn:
            if self._kept is None or self._now_s() >= self._kept[0]:
                answer = await self._asked()
                self._kept = self._now_s() + KEPT_S, answer
            answered = self._kept[1]
        if isinstance(answered, Silent):
            raise Silent(str(answered))
        return answered

    async def _asked(self) -> list[Alert] | Silent:
        try:
            async with asyncio.timeout(WITHIN_S):
                return parsed(await self._fetch(f"{self._url}/api/v1/alerts"))
        except Silent as silent:
            return silent
        except TimeoutError:
            return Silent(f"Prometheus has not answered within {WITHIN_S:g} s.")


async def fetched(url: str) -> bytes:
    """The body, over the network. No redirect is followed, and no proxy of the environment is
    used."""
    timeout = aiohttp.ClientTimeout(total=WITHIN_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            body = bytearray()
            async for part in answer.content.iter_chunked(64 * 1024):
                body += part
                if len(body) > BYTES_MAX:
                    raise Silent(f"The answer of Prometheus is larger than {BYTES_MAX >> 20} MiB.")
            if answer.status >= 300 and not body.startswith(b"{"):
                raise Silent(f"Prometheus answered with the HTTP status {answer.status}.")
            return bytes(body)
    except (aiohttp.ClientError, OSError) as trouble:
        why = plaintext.clipped(str(trouble) or type(trouble).__name__, 200)
        raise Silent(f"Prometheus does not answer ({why}).") from None
