"""An HTTP repository that serves checksums and properties as Artifactory does, and a registry that
answers whatever a test says."""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import unquote

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STORAGE = "/artifactory/api/storage"
BODY_MAX = 8 * 1024 * 1024


@contextlib.asynccontextmanager
async def listening(handler: Handler) -> AsyncIterator[str]:
    """A server on this machine that gives every request to the handler; gives its host."""
    app = web.Application(client_max_size=BODY_MAX)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield f"127.0.0.1:{port}"
    finally:
        await runner.cleanup()


class ArtifactRepository:
    """Files below /artifactory, with the properties of their uploads (matrix parameters)."""

    def __init__(self, authorization: str = "") -> None:
        self.files: dict[str, bytes] = {}
        self.properties: dict[str, dict[str, list[str]]] = {}
        self.authorization = authorization
        """The header that every request has to show."""
        self.shown: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        shown = request.headers.get("authorization", "")
        self.shown.append(shown)
        if shown != self.authorization:
            return web.Response(status=401)
        path, *matrix = request.raw_path.partition("?")[0].split(";")
        if request.method == "PUT":
            return self._put(path, await request.read(), matrix, request)
        if path.startswith(STORAGE):
            found = self.properties.get(path.replace(STORAGE, "/artifactory", 1))
            if not found:
                return web.Response(status=404)
            return web.json_response({"properties": found, "uri": str(request.url)})
        body = self.files.get(path)
        if body is None:
            return web.Response(status=404)
        headers = {
            "X-Checksum-Sha256": hashlib.sha256(body).hexdigest(),
            "X-Checksum-Sha1": hashlib.sha1(body).hexdigest(),
        }
        return web.Response(body=body, headers=headers)

    def _put(
        self, path: str, body: bytes, matrix: list[str], request: web.Request
    ) -> web.StreamResponse:
        if request.headers.get("x-checksum-sha256") != hashlib.sha256(body).hexdigest():
            return web.Response(status=409, text="checksum mismatch")
        self.files[path] = body
        pairs = (entry.partition("=") for entry in matrix)
        self.properties[path] = {name: [unquote(text)] for name, _, text in pairs}
        return web.Response(status=201)
