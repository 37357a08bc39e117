"""Workflows in HTTP repositories that serve checksums and properties as Artifactory does.

    SOURCE/VERSION/workflow.yaml                 with the header X-Checksum-Sha256
    SOURCE/VERSION/workflow.yaml.intoto.jsonl    signed statements, one a line
    /artifactory/api/storage/REST?properties     properties of /artifactory/REST

Source: the REST API of JFrog Artifactory ("Retrieve Artifact", "Item Properties").
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from federator.api import decoding, raw
from federator.api.decoding import Limits
from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts import hosts
from federator.gateway.artifacts.hosts import Answer, Hosts, Url
from federator.gateway.artifacts.ports import (
    ENVELOPE_MAX,
    ENVELOPES_MAX,
    FILE_MAX,
    Build,
    Fetched,
    Reason,
    refused,
)
from federator.gateway.artifacts.registry import digest_of
from federator.gateway.artifacts.secrets import Secrets
from federator.model import sources
from federator.model.errors import FieldError
from federator.model.sources import Reference

FILE: Final = "workflow.yaml"
STATEMENTS: Final = f"{FILE}.intoto.jsonl"
CHECKSUM: Final = "x-checksum-sha256"
PROPERTIES: Final[Mapping[str, str]] = {
    "build.number": "version",
    "vcs.revision": "commit",
    "vcs.branch": "branch",
    "build.name": "builder",
    "build.timestamp": "time",
}
"""Property of Artifactory -> build property."""
_ROOT: Final = "artifactory"
_HEX: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PROPERTIES_MAX: Final = 64 * 1024


class HttpStore:
    """The ArtifactStore for `https://` sources."""

    def __init__(self, reach: Hosts, secrets: Secrets) -> None:
        self._hosts, self._secrets = reach, secrets

    async def digest_of(self, ref: Reference, version: str, policy: Policy) -> str:
        _check_name(ref, version)
        answer = await self._ask("HEAD", ref, f"{version}/{FILE}", policy)
        return _checksum(hosts.checked(answer, f"{ref}/{version}"))

    async def fetch(self, ref: Reference, version: str, digest: str, policy: Policy) -> Fetched:
        _check_name(ref, version)
        answer = await self._ask("GET", ref, f"{version}/{FILE}", policy, limit=FILE_MAX)
        said = _checksum(hosts.checked(answer, f"{ref}/{version}"))
        has = digest_of(answer.body)
        if not has == said == digest:
            message = f"{ref}/{version} has digest {has}; its checksum is {said}"
            if has == said:
                message = f"{ref}/{version} was {digest} a moment ago, and is {has}: try again"
                raise refused(Reason.STORE_UNREACHABLE, "version", message)
            raise refused(Reason.STORE_INVALID, "version", message)
        return Fetched(digest, answer.body, await self._properties(ref, version, policy))

    async def envelopes(
        self, ref: Reference, version: str, digest: str, policy: Policy
    ) -> tuple[bytes, ...]:
        limit = ENVELOPES_MAX * ENVELOPE_MAX
        answer = await self._ask("GET", ref, f"{version}/{STATEMENTS}", policy, limit=limit)
        if answer.status == 404:
            return ()
        body = hosts.checked(answer, f"{ref}/{version}/{STATEMENTS}").body
        lines = [line for line in body.splitlines() if line.strip()]
        return tuple(line for line in lines[:ENVELOPES_MAX] if len(line) <= ENVELOPE_MAX)

    async def push(
        self, ref: Reference, version: str, file: bytes, build: Build, policy: Policy
    ) -> str:
        """Stores a workflow file under a version; returns its digest."""
        said = {key: getattr(build, name) for key, name in PROPERTIES.items()}
        matrix = "".join(f";{key}={quote(text, safe='')}" for key, text in said.items() if text)
        _check_name(ref, version)
        await self._put(ref, f"{version}/{FILE}{matrix}", file, policy)
        return digest_of(file)

    async def attach(
        self, ref: Reference, version: str, digest: str, envelope: bytes, policy: Policy
    ) -> None:
        """Adds a signed statement to those beside the version: nobody else may do so meanwhile."""
        there = await self.envelopes(ref, version, digest, policy)
        lines = dict.fromkeys((*there, envelope))
        await self._put(ref, f"{version}/{STATEMENTS}", b"\n".join(lines) + b"\n", policy)

    async def _put(self, ref: Reference, name: str, body: bytes, policy: Policy) -> None:
        """Uploads a file with its checksum, which the repository compares."""
        header = {CHECKSUM: digest_of(body).removeprefix("sha256:")}
        answer = await self._ask("PUT", ref, name, policy, headers=header, body=body)
        hosts.checked(answer, f"{ref}/{name.partition(';')[0]}")

    async def _properties(self, ref: Reference, version: str, policy: Policy) -> dict[str, str]:
        """The build properties that Artifactory has of the file; empty elsewhere."""
        root, _, rest = ref.path.partition("/")
        if root != _ROOT:
            return {}
        storage = Reference(ref.scheme, ref.host, f"{_ROOT}/api/storage/{rest}")
        name = f"{version}/{FILE}?properties"
        answer = await self._ask("GET", storage, name, policy)
        if answer.status == 404:
            return {}
        body = hosts.checked(answer, f"the properties of {ref}/{version}").body
        try:
            limits = Limits(size=_PROPERTIES_MAX, depth=8, nodes=4096)
            properties = raw.mapping(decoding.from_json(body, limits), "properties")
        except FieldError as error:
            message = f"the properties of {ref}/{version} cannot be read: {error}"
            raise refused(Reason.STORE_INVALID, "artifact", message) from None
        return {
            name: values[0][:256]
            for key, name in PROPERTIES.items()
            if (values := raw.texts(properties, key))
        }

    async def _ask(
        self,
        method: str,
        ref: Reference,
        name: str,
        policy: Policy,
        *,
        limit: int = _PROPERTIES_MAX,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        sent = dict(headers or {})
        known = hosts.access(ref.host, policy)
        if known is not None and known.secret:
            header = (await self._secrets.login(known.secret, ref.host)).header
            sent |= {"authorization": header} if header else {}
        url = Url(ref.scheme, ref.host, f"/{ref.path}/{name}")
        return await self._hosts.ask(method, url, policy, limit=limit, headers=sent, body=body)


def _check_name(ref: Reference, version: str) -> None:
    if sources.DIGEST.fullmatch(version):
        message = f"{ref.host} finds versions by name, not by digest: name the version"
        raise refused(Reason.BAD_REFERENCE, "version", message)


def _checksum(answer: Answer) -> str:
    said = answer.headers.get(CHECKSUM, "").lower()
    if not _HEX.fullmatch(said):
        message = f"{answer.url.host} serves {answer.url} without the header X-Checksum-Sha256"
        raise refused(Reason.STORE_INVALID, "artifact", message)
    return f"sha256:{said}"
