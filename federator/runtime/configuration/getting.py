"""Reads of large files over HTTP in a thread, piece by piece, by the standard library. Every wait
and every byte is bounded, and no proxy variable of the pod is followed."""

import base64
import contextlib
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from federator.runtime.files.backends import Away, Refusal

WAIT_S: Final = 10.0
"""Longest silence of a server."""
PIECE: Final = 1 << 16
REDIRECTS_MAX: Final = 3
"""Registries send clients to where their blobs are stored."""
_MOVED: Final = (301, 302, 303, 307, 308)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a body that is still to be read."""

    status: int
    headers: Mapping[str, str]
    pieces: Iterator[bytes] = field(repr=False)

    def body(self, most: int, what: str) -> bytes:
        """All of it. Raises Refusal above `most` bytes, Away."""
        read = bytearray()
        for piece in self.pieces:
            read += piece
            if len(read) > most:
                raise Refusal("ConfigTooLarge", f"{what} has more than {most} bytes")
        return bytes(read)


@dataclass(frozen=True, slots=True)
class Web:
    """What every request of a pod needs."""

    context: Callable[[], ssl.SSLContext]
    """Made when it is needed: the certificate of the pod is renewed. Raises OSError, ValueError."""
    logins: Path | None = None
    """A file of `docker login`; None for none."""
    stopped: Callable[[], bool] = lambda: False
    """Whether the result is not wanted any more."""

    @contextlib.contextmanager
    def opened(self, url: str, headers: Mapping[str, str]) -> Iterator[Answer]:
        """The answer to a GET. Credentials are not sent to another host. Raises Away, Refusal."""
        fields = dict(headers)
        for _ in range(REDIRECTS_MAX + 1):
            with self._asked(url, fields) as (status, heads, response):
                place = heads.get("location", "")
                if status not in _MOVED or not place:
                    yield Answer(status, heads, self._pieces(response, host_of(url)))
                    return
            after = urllib.parse.urljoin(url, place)
            if not after.startswith("https://") and not url.startswith("http://"):
                raise Refusal("ConfigRedirected", f"{host_of(url)} redirects to an http address")
            if host_of(after) != host_of(url):
                fields.pop("Authorization", None)
            url = after
        raise Refusal("ConfigRedirected", f"{host_of(url)} redirects too often")

    @contextlib.contextmanager
    def _asked(
        self, url: str, headers: Mapping[str, str]
    ) -> Iterator[tuple[int, Mapping[str, str], http.client.HTTPResponse]]:
        parts = urllib.parse.urlsplit(url)
        connection: http.client.HTTPConnection
        try:
            host, port = parts.hostname or "", parts.port
            if parts.scheme == "https":
                connection = http.client.HTTPSConnection(
                    host, port, timeout=WAIT_S, context=self.context()
                )
            else:
                connection = http.client.HTTPConnection(host, port, timeout=WAIT_S)
        except (OSError, ValueError) as bad:
            raise Away(f"no connection to {host_of(url)}: {bad}") from None
        try:
            with unreached(host_of(url)):
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("GET", path, headers=dict(headers))
                response = connection.getresponse()
            heads = {name.lower(): value for name, value in response.getheaders()}
            yield response.status, heads, response
        finally:
            connection.close()

    def _pieces(self, response: http.client.HTTPResponse, host: str) -> Iterator[bytes]:
        while True:
            with unreached(host):
                piece = response.read1(PIECE)
            if self.stopped():
                raise Away("the pod ends")
            if not piece:
                return
            yield piece

    def basic(self, host: str) -> str:
        """The Authorization header for a host; "" without a login. Raises Away."""
        if self.logins is None:
            return ""
        try:
            auths = json.loads(self.logins.read_bytes())["auths"]
            entries = {host_of(key if "://" in key else f"//{key}"): auths[key] for key in auths}
            entry = entries.get(host)
            if entry is None:
                return ""
            pair = f"{entry.get('username', '')}:{entry.get('password', '')}"
            return f"Basic {entry.get('auth') or base64.b64encode(pair.encode()).decode()}"
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise Away(f"{self.logins} is no file of docker login that can be read") from None


@contextlib.contextmanager
def unreached(host: str) -> Iterator[None]:
    """Raises Away in place of what the network raises."""
    try:
        yield
    except ssl.SSLCertVerificationError as bad:
        raise Away(f"{host} is not trusted: {bad.verify_message}") from None
    except TimeoutError:
        raise Away(f"{host} was silent for {WAIT_S:g} s") from None
    except (OSError, http.client.HTTPException, ValueError) as bad:
        raise Away(f"{host} cannot be reached: {type(bad).__name__}: {bad}") from None


def host_of(url: str) -> str:
    """Host with its port, without credentials."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
