"""The two ends of a probe of a cluster: a server that answers every request with one text, and a
client that tries until it gets that text.

Run by the pods of probes (`federator runtime answer` and `reach`). The text shows that it was this
probe's server that answered, and not another one at its address.
"""

import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Final

TRY_S: Final = 5.0
"""Seconds for one try."""
BETWEEN_S: Final = 1.0
BODY_MAX: Final = 4096
"""Bytes that are read of an answer."""


def server(host: str, port: int, text: str) -> ThreadingHTTPServer:
    """Answers GET with the text. Raises OSError when it cannot listen."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """A kubelet asks every few seconds: nothing is logged."""

    return ThreadingHTTPServer((host, port), Answers)


def serve(host: str, port: int, text: str) -> None:
    """Answers until SIGTERM, which the first process of a container does not obey by itself."""

    def end(_signal: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    with server(host, port, text) as listening:
        listening.serve_forever()


def reach(
    url: str,
    text: str,
    within_s: float,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Asks until the answer is the text; returns "" then, else what came of the last try, as a
    sentence. `within_s`: seconds after which no further try begins."""
    deadline_s = now_s() + within_s
    # No proxy of the pod's variables: a probe is about the cluster.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while True:
        try:
            with opener.open(url, timeout=TRY_S) as answer:
                body = answer.read(BODY_MAX).decode("utf-8", "replace")
            if body == text:
                return ""
            trouble = f"{url} answered, and not as this probe: {body[:80]!r}"
        except (OSError, ValueError) as bad:
            trouble = f"{url} was not reached: {bad}"
        if now_s() >= deadline_s:
            return trouble
        sleep(BETWEEN_S)
