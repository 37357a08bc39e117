"""An HTTP repository in memory, on loopback: files with the checksum header that the gateway asks
for. For the demo, so that a newcomer can submit, and store workflows of their own.

Anybody on the machine may store a file. What is submitted needs a signed statement, so a stored
file alone has no effect.
"""

import hashlib
from typing import Final

from federator.kube.tlsserver import BodyRefused, Incoming, Outgoing

FILE_MAX: Final = 4 * 1024 * 1024
"""Bytes of one file: a workflow file, or the statements about one."""
FILES_MAX: Final = 256
CHECKSUM: Final = "X-Checksum-Sha256"


class Repository:
    """Answers GET, HEAD and PUT. A path has no meaning but as a name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    async def answer(self, request: Incoming) -> Outgoing:
        """Total. Properties in a path (`;vcs.branch=main`) are not kept."""
        path = request.path.partition(";")[0]
        if request.method == "PUT":
            return await self._put(path, request)
        if request.method not in ("GET", "HEAD"):
            return _text(405, "This repository takes GET, HEAD and PUT.")
        body = self.files.get(path)
        if body is None:
            return _text(404, "There is no such file.")
        headers = {CHECKSUM: hashlib.sha256(body).hexdigest()}
        return Outgoing(200, body, "application/octet-stream", headers)

    async def _put(self, path: str, request: Incoming) -> Outgoing:
        if request.read_body is None or not request.has_body:
            return _text(400, "A file has at least one byte.")
        if len(self.files) >= FILES_MAX and path not in self.files:
            return _text(507, f"This repository holds {FILES_MAX} files at most.")
        try:
            body = await request.read_body(FILE_MAX)
        except BodyRefused as bad:
            return _text(413, f"{bad}.")
        said = request.headers.get(CHECKSUM.lower(), "")
        if said != hashlib.sha256(body).hexdigest():
            return _text(409, f"The header {CHECKSUM} is not the checksum of the body.")
        self.files[path] = body
        return Outgoing(201, b"")


def _text(status: int, sentence: str) -> Outgoing:
    return Outgoing(status, f"{sentence}\n".encode(), "text/plain; charset=utf-8")
