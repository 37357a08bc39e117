"""Workflows in OCI registries: an image manifest with one layer, the workflow file; signed
statements are what refers to that manifest.

    oras push REGISTRY/REPOSITORY:VERSION workflow.yaml:application/vnd.pinterest.workflow.v1+yaml
    cosign attest --key ... REGISTRY/REPOSITORY@sha256:...
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from federator.api import raw
from federator.api.raw import Obj
from federator.api.submissionpolicy import Policy
from federator.gateway.artifacts.ports import (
    ENVELOPE_MAX,
    ENVELOPES_MAX,
    FILE_MAX,
    Build,
    Fetched,
    Reason,
    refused,
)
from federator.gateway.artifacts.registry import (
    INDEX,
    MANIFEST,
    Descriptor,
    Registry,
    Repository,
    descriptors,
    digest_of,
)
from federator.model import sources
from federator.model.sources import Reference

WORKFLOW: Final = "application/vnd.pinterest.workflow.v1+yaml"
"""Media type of the layer that is a workflow file."""
ENVELOPE: Final = "application/vnd.dsse.envelope.v1+json"
_ENVELOPES: Final = (ENVELOPE, "application/vnd.in-toto+json")
ANNOTATIONS: Final[Mapping[str, str]] = {
    "org.opencontainers.image.version": "version",
    "org.opencontainers.image.revision": "commit",
    "org.opencontainers.image.created": "time",
    "pinterest.com/branch": "branch",
    "pinterest.com/builder": "builder",
}
"""Annotation of a manifest -> build property."""


class OciStore:
    """The ArtifactStore for `oci://` sources."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def digest_of(self, ref: Reference, version: str, policy: Policy) -> str:
        if sources.DIGEST.fullmatch(version):
            return version
        return (await self._registry.manifest(_where(ref), version, policy)).digest

    async def fetch(self, ref: Reference, version: str, digest: str, policy: Policy) -> Fetched:
        where = _where(ref)
        manifest = await self._registry.manifest(where, digest, policy)
        layer = workflow_layer(manifest.content, f"{where}@{digest}")
        file = await self._registry.blob(where, layer, policy)
        said = raw.text_map(manifest.content, "annotations")
        properties = {name: said[key][:256] for key, name in ANNOTATIONS.items() if said.get(key)}
        return Fetched(digest, file, properties)

    async def envelopes(
        self, ref: Reference, version: str, digest: str, policy: Policy
    ) -> tuple[bytes, ...]:
        where = _where(ref)
        contents: list[bytes] = []
        async for entry in self._layers(where, digest, policy):
            if len(contents) >= ENVELOPES_MAX:
                break
            contents.append(await self._registry.blob(where, entry, policy))
        return tuple(contents)

    async def push(
        self, ref: Reference, version: str, file: bytes, build: Build, policy: Policy
    ) -> str:
        """Stores a workflow file under a tag; returns the digest of its manifest."""
        said = {key: getattr(build, name) for key, name in ANNOTATIONS.items()}
        manifest = {
            **await self._manifest(_where(ref), WORKFLOW, file, policy),
            "annotations": {key: text for key, text in said.items() if text},
        }
        body = json.dumps(manifest, sort_keys=True).encode()
        await self._registry.push_manifest(_where(ref), version, body, MANIFEST, policy)
        return digest_of(body)

    async def attach(
        self, ref: Reference, version: str, digest: str, envelope: bytes, policy: Policy
    ) -> None:
        """Stores a signed statement as a referrer of the manifest. A registry without the
        referrers API gets the index that stands for it: nobody else may write that meanwhile."""
        where = _where(ref)
        subject = await self._registry.manifest(where, digest, policy)
        manifest = {
            **await self._manifest(where, ENVELOPE, envelope, policy),
            "subject": _entry(MANIFEST, subject.digest, len(subject.body)),
        }
        body = json.dumps(manifest, sort_keys=True).encode()
        new = digest_of(body)
        if await self._registry.push_manifest(where, new, body, MANIFEST, policy):
            return
        tag = digest.replace(":", "-")
        index = await self._registry.tagged(where, tag, policy, INDEX)
        entries = [] if index is None else list(raw.objects(index.content, "manifests"))
        if all(raw.text(each, "digest") != new for each in entries):
            entries.append({**_entry(MANIFEST, new, len(body)), "artifactType": ENVELOPE})
        fallback = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        text = json.dumps(fallback, sort_keys=True).encode()
        await self._registry.push_manifest(where, tag, text, INDEX, policy)

    async def _manifest(
        self, where: Repository, media_type: str, content: bytes, policy: Policy
    ) -> dict[str, Any]:
        """A manifest with this content as its one layer, which is uploaded."""
        for blob in (b"{}", content):
            await self._registry.push_blob(where, blob, policy)
        return {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": media_type,
            "config": _entry("application/vnd.oci.empty.v1+json", digest_of(b"{}"), 2),
            "layers": [_entry(media_type, digest_of(content), len(content))],
        }

    async def _layers(
        self, where: Repository, digest: str, policy: Policy
    ) -> AsyncIterator[Descriptor]:
        """The signed statements about a manifest: its referrers, then those of the tag under which
        cosign stores them."""
        contents = []
        for entry in (await self._registry.referrers(where, digest, policy))[:ENVELOPES_MAX]:
            manifest = await self._registry.manifest(where, entry.digest, policy)
            if raw.text(manifest.content, "subject", "digest", default=digest) == digest:
                contents.append(manifest.content)
        tag = f"{digest.replace(':', '-')}.att"
        of_cosign = await self._registry.tagged(where, tag, policy, MANIFEST)
        if of_cosign is not None:
            contents.append(of_cosign.content)
        for content in contents:
            for layer in descriptors(content, "layers"):
                if layer.media_type in _ENVELOPES and layer.size <= ENVELOPE_MAX:
                    yield layer


def _entry(media_type: str, digest: str, size: int) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest, "size": size}


def _where(ref: Reference) -> Repository:
    return Repository(ref.host, ref.path)


def workflow_layer(manifest: Obj, what: str) -> Descriptor:
    """The layer with the workflow file. Raises ArtifactRefused for a manifest of something else."""
    layers = descriptors(manifest, "layers")
    if len(layers) != 1 or layers[0].media_type != WORKFLOW:
        message = (
            f"{what} is not a workflow: its manifest needs exactly one layer, with media type"
            f" {WORKFLOW}"
        )
        raise refused(Reason.FILE_INVALID, "artifact", message)
    if layers[0].size > FILE_MAX:
        message = f"{what} has {layers[0].size} bytes; a workflow file has at most {FILE_MAX}"
        raise refused(Reason.FILE_INVALID, "artifact", message)
    return layers[0]
