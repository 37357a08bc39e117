"""The part of the OCI distribution protocol that the gateway and `federator workflow` use:
manifests, blobs, referrers, tokens. Whatever comes is verified: digest, length, form.

Source: the OCI distribution specification 1.1 and the token specification of the Distribution
project.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from federator.api import decoding, raw
from federator.api.decoding import Limits
from federator.api.raw import Obj
from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts import hosts
from federator.gateway.artifacts.hosts import Answer, Hosts, Url
from federator.gateway.artifacts.ports import ArtifactRefused, Reason, refused
from federator.gateway.artifacts.secrets import Login, Secrets
from federator.model import sources
from federator.model.errors import FieldError

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX: Final = "application/vnd.oci.image.index.v1+json"
_DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
ANY: Final = ", ".join((MANIFEST, INDEX, _DOCKER_MANIFEST, _DOCKER_LIST))
"""What an image reference may stand for."""
MANIFEST_MAX: Final = 256 * 1024
"""Bytes of a manifest or index that is read."""
_JSON: Final = Limits(size=MANIFEST_MAX, depth=16, nodes=20_000)
_WORD_MAX: Final = 64 * 1024
_TOKENS_MAX: Final = 256
_TOKEN_S: Final = 60.0
"""Life of a token that says nothing about it, by the token specification."""
_TOKEN_MAX_S: Final = 300.0
_CHALLENGE: Final = re.compile(r'([a-z]+)="([^"\\]{0,1024})"', re.ASCII)


@dataclass(frozen=True, slots=True)
class Repository:
    """Where something is in a registry."""

    host: str
    name: str

    def __str__(self) -> str:
        return f"{self.host}/{self.name}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest or index with a verified digest."""

    digest: str
    body: bytes = field(repr=False)
    content: Obj = field(repr=False)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One entry of a manifest or index."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def descriptors(content: Obj, field_: str) -> tuple[Descriptor, ...]:
    """The entries of `layers` or `manifests` that can be used."""
    entries = []
    for entry in raw.objects(content, field_):
        digest, size = raw.text(entry, "digest"), raw.integer(entry, "size", default=-1)
        if sources.DIGEST.fullmatch(digest) and size >= 0:
            kind, artifact = raw.text(entry, "mediaType"), raw.text(entry, "artifactType")
            entries.append(Descriptor(kind, digest, size, artifact))
    return tuple(entries)


class Registry:
    """One client for all registries; what it may reach and show is said by the policy of a call."""

    def __init__(self, reach: Hosts, secrets: Secrets, monotonic: Callable[[], float]) -> None:
        self._hosts, self._secrets, self._monotonic = reach, secrets, monotonic
        self._headers: OrderedDict[tuple[str, ...], tuple[float, str]] = OrderedDict()
        """(host, scope, Secret) -> (end of life, Authorization header)."""

    async def manifest(
        self, where: Repository, reference: str, policy: Policy, accept: str = MANIFEST
    ) -> Manifest:
        """The manifest behind a tag or digest. Raises ArtifactRefused."""
        answer = await self._ask(
            "GET", where, f"manifests/{reference}", policy, accept=accept, limit=MANIFEST_MAX
        )
        hosts.checked(answer, f"{where}:{reference}")
        digest = digest_of(answer.body)
        said = answer.headers.get("docker-content-digest", digest)
        wanted = reference if sources.DIGEST.fullmatch(reference) else digest
        if not said == wanted == digest:
            message = (
                f"{where}:{reference} has digest {digest}, but {max(said, wanted)} is expected"
            )
            if said != digest and wanted == digest:
                message = f"{where.host} says digest {said[:80]} and sends {digest}"
            raise refused(Reason.STORE_INVALID, "version", message)
        return Manifest(digest, answer.body, _object(answer.body, str(where)))

    async def digest(self, where: Repository, reference: str, policy: Policy) -> str:
        """The digest of an image that a tag names now. Raises ArtifactRefused."""
        what = f"{where}:{reference}"
        answer = await self._ask("HEAD", where, f"manifests/{reference}", policy, accept=ANY)
        said = hosts.checked(answer, what).headers.get("docker-content-digest", "")
        if sources.DIGEST.fullmatch(said):
            return said
        return (await self.manifest(where, reference, policy, ANY)).digest

    async def blob(self, where: Repository, entry: Descriptor, policy: Policy) -> bytes:
        """The blob of an entry, of exactly its size. Raises ArtifactRefused."""
        answer = await self._ask("GET", where, f"blobs/{entry.digest}", policy, limit=entry.size)
        body = hosts.checked(answer, f"blob {entry.digest} of {where}").body
        if len(body) != entry.size:
            message = f"{where} sends {len(body)} bytes for a blob of {entry.size}"
            raise refused(Reason.STORE_INVALID, "version", message)
        if digest_of(body) != entry.digest:
            message = f"{where} sends other bytes than those of {entry.digest}"
            raise refused(Reason.STORE_INVALID, "version", message)
        return body

    async def referrers(
        self, where: Repository, digest: str, policy: Policy
    ) -> tuple[Descriptor, ...]:
        """What refers to a manifest: by the referrers API, else by the tag that stands for it where
        a registry has none. Raises ArtifactRefused."""
        answer = await self._ask(
            "GET", where, f"referrers/{digest}", policy, accept=INDEX, limit=MANIFEST_MAX
        )
        if answer.status == 200:
            return descriptors(_object(answer.body, str(where)), "manifests")
        if answer.status != 404:
            hosts.checked(answer, f"the referrers of {digest}")
        index = await self.tagged(where, digest.replace(":", "-"), policy, INDEX)
        return () if index is None else descriptors(index.content, "manifests")

    async def tagged(
        self, where: Repository, tag: str, policy: Policy, accept: str
    ) -> Manifest | None:
        """The manifest behind a tag; None where there is none. Raises ArtifactRefused."""
        try:
            return await self.manifest(where, tag, policy, accept)
        except ArtifactRefused as problem:
            if hosts.is_absent(problem):
                return None
            raise

    async def push_blob(self, where: Repository, content: bytes, policy: Policy) -> Descriptor:
        """Uploads a blob in one piece. Raises ArtifactRefused."""
        digest = digest_of(content)
        begun = await self._ask("POST", where, "blobs/uploads/", policy)
        hosts.checked(begun, f"an upload to {where}")
        url = hosts.parsed(begun.headers.get("location", ""), policy, begun.url)
        if url.host != where.host:
            message = f"{where.host} wants the upload to go to {url.host}"
            raise refused(Reason.ADDRESS_REFUSED, "artifact", message)
        joined = f"{url.target}{'&' if '?' in url.target else '?'}digest={quote(digest)}"
        headers = {"content-type": "application/octet-stream", **self._kept(where, policy, "push")}
        done = await self._hosts.ask(
            "PUT",
            Url(url.scheme, url.host, joined),
            policy,
            limit=_WORD_MAX,
            headers=headers,
            body=content,
        )
        hosts.checked(done, f"an upload to {where}")
        return Descriptor("", digest, len(content))

    async def push_manifest(
        self, where: Repository, reference: str, body: bytes, media_type: str, policy: Policy
    ) -> bool:
        """Uploads a manifest under a tag or its digest; returns whether the registry lists it among
        the referrers of its subject. Raises ArtifactRefused."""
        answer = await self._ask(
            "PUT",
            where,
            f"manifests/{reference}",
            policy,
            body=body,
            media_type=media_type,
        )
        hosts.checked(answer, f"the manifest {where}:{reference}")
        return "oci-subject" in answer.headers

    async def _ask(
        self,
        method: str,
        where: Repository,
        what: str,
        policy: Policy,
        *,
        accept: str = "*/*",
        limit: int = _WORD_MAX,
        body: bytes = b"",
        media_type: str = "",
    ) -> Answer:
        """One request below the repository; on 401 once more with what the registry asks for."""
        host = "registry-1.docker.io" if where.host == "docker.io" else where.host
        url = Url(hosts.scheme_of(host, policy), host, f"/v2/{where.name}/{what}")
        action = "push" if method in ("POST", "PUT") else "pull"
        headers = {"accept": accept, **self._kept(where, policy, action)}
        if media_type:
            headers["content-type"] = media_type
        for challenged in (False, True):
            answer = await self._hosts.ask(
                method, url, policy, limit=limit, headers=headers, body=body
            )
            if answer.status != 401 or answer.url.origin != url.origin or challenged:
                break
            header = await self._authorized(where, policy, action, answer)
            if not header:
                break
            headers["authorization"] = header
        return answer

    def _key(self, where: Repository, policy: Policy, action: str) -> tuple[str, ...]:
        known = hosts.access(where.host, policy)
        return where.host, where.name, action, known.secret if known is not None else ""

    def _kept(self, where: Repository, policy: Policy, action: str) -> dict[str, str]:
        ends_s, header = self._headers.get(self._key(where, policy, action), (0.0, ""))
        return {"authorization": header} if header and self._monotonic() < ends_s else {}

    async def _authorized(
        self, where: Repository, policy: Policy, action: str, answer: Answer
    ) -> str:
        """The header that the challenge of a 401 asks for, kept for what follows; "" when there is
        nothing to show."""
        known = hosts.access(where.host, policy)
        login = Login()
        if known is not None and known.secret:
            login = await self._secrets.login(known.secret, where.host)
        challenge = answer.headers.get("www-authenticate", "")
        life_s = _TOKEN_MAX_S
        if challenge[:7].lower() == "bearer " and not login.token:
            fields = dict(_CHALLENGE.findall(challenge))
            header, life_s = await self._token(where, policy, action, login, fields)
        else:
            header = login.header
        if header:
            key = self._key(where, policy, action)
            self._headers.pop(key, None)
            self._headers[key] = self._monotonic() + life_s, header
            while len(self._headers) > _TOKENS_MAX:
                self._headers.popitem(last=False)
        return header

    async def _token(
        self,
        where: Repository,
        policy: Policy,
        action: str,
        login: Login,
        fields: dict[str, str],
    ) -> tuple[str, float]:
        """A token of the registry's token service, and how long to show it. The service is on the
        registry's host, or on one that the policy names: credentials go nowhere else."""
        realm = hosts.parsed(fields.get("realm", ""), policy)
        if realm.host != where.host and hosts.access(realm.host, policy) is None:
            message = (
                f"{where.host} has its token service at {realm.host}: name that host in"
                " spec.registries of the policy"
            )
            raise refused(Reason.ADDRESS_REFUSED, "artifact", message)
        actions = "pull,push" if action == "push" else "pull"
        query = [f"scope={quote(f'repository:{where.name}:{actions}', safe='')}"]
        if service := fields.get("service"):
            query.append(f"service={quote(service, safe='')}")
        joined = f"{realm.target}{'&' if '?' in realm.target else '?'}{'&'.join(query)}"
        headers = {"authorization": login.basic} if login.basic else {}
        answer = await self._hosts.ask(
            "GET",
            Url(realm.scheme, realm.host, joined),
            policy,
            limit=_WORD_MAX,
            headers=headers,
        )
        issued = _object(hosts.checked(answer, f"a token for {where}").body, realm.host)
        token = raw.text(issued, "token") or raw.text(issued, "access_token")
        if not token or not token.isascii() or not token.isprintable():
            message = f"the token service {realm.host} sends no token"
            raise refused(Reason.STORE_INVALID, "artifact", message)
        life_s = min(float(raw.integer(issued, "expires_in", default=int(_TOKEN_S))), _TOKEN_MAX_S)
        return f"Bearer {token}", max(life_s - 5.0, 0.0)


def _object(body: bytes, sender: str) -> Obj:
    try:
        content: Any = decoding.from_json(body, _JSON)
    except FieldError as error:
        message = f"{sender} sends JSON that cannot be read: {error}"
        raise refused(Reason.STORE_INVALID, "artifact", message) from None
    if not isinstance(content, dict):
        raise refused(Reason.STORE_INVALID, "artifact", f"{sender} sends no JSON object")
    return content
