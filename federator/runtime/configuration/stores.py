"""The port to where artifacts are kept, and its two implementations: an OCI registry, and files of
an HTTP repository. Everything here blocks: it runs in a thread."""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from federator.model import sources
from federator.model.sources import Reference
from federator.runtime.configuration.getting import Answer, Web, host_of
from federator.runtime.files.backends import Away, Refusal

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
DOCKER: Final = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST_MAX: Final = 256 * 1024
TOKEN_MAX: Final = 64 * 1024
ARCHIVES: Final = (".tar", ".tar.gz", ".tgz")
_CHALLENGE: Final = re.compile(r'([a-z]+)="([^"\\]{0,1024})"', re.ASCII)


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of an artifact, and how they are used."""

    url: str
    digest: str
    """What they hash to."""
    archive: bool
    """They are a tar file, which is unpacked."""
    size: int | None = None
    """None until the server says it."""


class ArtifactStore(Protocol):
    """Where artifacts are kept."""

    def locate(self, artifact: Reference, digest: str) -> Blob:
        """The bytes behind a digest. Raises Refusal, Away."""

    def opened(self, blob: Blob, offset: int) -> contextlib.AbstractContextManager[Answer]:
        """The bytes from an offset on, if the server can do that, with status 206; otherwise all,
        with status 200. Raises Refusal, Away."""


class HttpStore:
    """Files of an HTTP repository; the digest is that of the file."""

    def __init__(self, web: Web) -> None:
        self._web = web

    def locate(self, artifact: Reference, digest: str) -> Blob:
        return Blob(str(artifact), digest, artifact.path.endswith(ARCHIVES))

    @contextlib.contextmanager
    def opened(self, blob: Blob, offset: int) -> Iterator[Answer]:
        host = blob.url.split("/")[2]
        login = self._web.basic(host)
        fields = {**_range(offset), **({"Authorization": login} if login else {})}
        with self._web.opened(blob.url, fields) as answer:
            yield _good(answer, blob.url)


class OciStore:
    """Artifacts of OCI registries with one layer; the digest is that of the manifest."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._tokens: dict[tuple[str, str], str] = {}

    def locate(self, artifact: Reference, digest: str) -> Blob:
        where = f"{_base(artifact)}/manifests/{digest}"
        with self._asked(artifact, where, {"Accept": f"{MANIFEST}, {DOCKER}"}) as answer:
            body = answer.body(MANIFEST_MAX, f"the manifest of {artifact}")
        actual = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if actual != digest:
            raise Refusal(
                "ConfigDigestWrong", f"{artifact.host} sends a manifest with {actual} for {digest}"
            )
        entry = layer(body, f"{artifact}@{digest}")
        url = f"{_base(artifact)}/blobs/{entry['digest']}"
        kind = str(entry.get("mediaType", ""))
        title = str(_mapping(entry.get("annotations")).get("org.opencontainers.image.title", ""))
        if kind.endswith("zstd"):
            raise Refusal(
                "ConfigUnreadable", f"{artifact} is {kind}: tar and tar+gzip are accepted"
            )
        archive = ".tar" in kind or title.endswith(ARCHIVES)
        return Blob(url, entry["digest"], archive, entry["size"])

    @contextlib.contextmanager
    def opened(self, blob: Blob, offset: int) -> Iterator[Answer]:
        scheme, _, host, *rest = blob.url.split("/")
        name = "/".join(rest[1:-2])
        artifact = Reference(scheme.rstrip(":"), host, name)
        with self._asked(artifact, blob.url, _range(offset)) as answer:
            yield answer

    @contextlib.contextmanager
    def _asked(self, artifact: Reference, url: str, headers: Mapping[str, str]) -> Iterator[Answer]:
        """Asks again with a token if the registry wants one."""
        key = artifact.host, artifact.path
        for last in (False, True):
            login = self._tokens.get(key, "")
            fields = {**headers, **({"Authorization": login} if login else {})}
            with self._web.opened(url, fields) as answer:
                if answer.status != 401 or last:
                    yield _good(answer, url)
                    return
                challenge = answer.headers.get("www-authenticate", "")
            self._tokens[key] = self._login(artifact, challenge)

    def _login(self, artifact: Reference, challenge: str) -> str:
        """The Authorization header that a challenge asks for. Raises Refusal, Away."""
        kind, _, rest = challenge.partition(" ")
        basic = self._web.basic(artifact.host)
        if kind.lower() == "basic" and basic:
            return basic
        asked = dict(_CHALLENGE.findall(rest))
        realm = asked.get("realm", "")
        safe = realm.startswith("https://") or (
            realm.startswith("http://") and sources.is_loopback(host_of(realm))
        )
        if kind.lower() != "bearer" or not safe:
            raise Refusal(
                "ConfigDenied", f"{artifact.host} wants a login, and the pod has none for it"
            )
        query = {"service": asked.get("service", ""), "scope": f"repository:{artifact.path}:pull"}
        # A registry gets no login of its own sent to another host.
        at_realm = self._web.basic(host_of(realm))
        fields = {"Authorization": at_realm} if at_realm else {}
        with self._web.opened(f"{realm}?{urlencode(query)}", fields) as answer:
            body = _good(answer, realm).body(TOKEN_MAX, "a token")
        token = _object(body).get("token") or _object(body).get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Away(f"{realm} gives no token")
        return f"Bearer {token}"


def _base(artifact: Reference) -> str:
    scheme = (
        "http" if sources.is_loopback(artifact.host) and artifact.scheme != "https" else "https"
    )
    return f"{scheme}://{artifact.host}/v2/{quote(artifact.path)}"


def _range(offset: int) -> dict[str, str]:
    return {"Range": f"bytes={offset}-"} if offset else {}


def _good(answer: Answer, url: str) -> Answer:
    """Raises Refusal for what is refused or missing, Away for the rest."""
    if answer.status in (200, 206, 416):
        return answer
    if answer.status in (401, 403):
        raise Refusal("ConfigDenied", f"{url} may not be read by this pod ({answer.status})")
    if answer.status in (404, 410):
        raise Refusal("ConfigMissing", f"there is no {url} ({answer.status})")
    raise Away(f"{url} answers {answer.status}")


def layer(body: bytes, what: str) -> dict[str, Any]:
    """The one layer of a manifest. Raises Refusal."""
    layers = _object(body).get("layers")
    if not isinstance(layers, list) or len(layers) != 1 or not isinstance(layers[0], dict):
        raise Refusal(
            "ConfigUnreadable", f"{what} is no artifact with one layer: push one file or one tar"
        )
    entry: dict[str, Any] = layers[0]
    digest, size = entry.get("digest"), entry.get("size")
    if not isinstance(digest, str) or not sources.DIGEST.fullmatch(digest):
        raise Refusal("ConfigUnreadable", f"{what} has a layer without a sha256 digest")
    if type(size) is not int or size < 0:
        raise Refusal("ConfigUnreadable", f"{what} has a layer without a size")
    return entry


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        return _mapping(json.loads(body))
    except (ValueError, RecursionError):
        return {}
