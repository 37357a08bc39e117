"""What an API server serves: aggregated discovery where it is offered, the older per-group
documents otherwise.

Used through `Client.discover` by cluster checks and by the filter "is this API there".
"""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from federator.kube import errors
from federator.kube.wire import decode
from federator.kube.wire.exchange import OBJECT_LIMIT

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
)
KEPT_MAX: Final = 1 << 19
"""Bytes of a document that is remembered; a real one takes a quarter of it."""


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One served resource (subresources are left out)."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()


class Read(Protocol):
    """Reads the body of a document by its path, at most `body_limit` bytes. Raises ApiErrors."""

    async def __call__(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body_limit: int
    ) -> bytes: ...


async def discover(read: Read) -> tuple[Resource, ...]:
    """All resources of `/api` and `/apis`, sorted by API version and plural."""
    resources = list[Resource]()
    accepted = {"accept": _AGGREGATED}
    for root in ("/api", "/apis"):
        body = await read("GET", root, headers=accepted, body_limit=OBJECT_LIMIT)
        listed = _listed if len(body) <= KEPT_MAX else _listed.__wrapped__
        whole = listed(root, body)
        if whole is not None:
            resources += whole
            continue
        document = decode.obj(body, f"discovery of {root}")
        if document.get("kind") not in ("APIVersions", "APIGroupList"):
            raise errors.Malformed(f"discovery of {root}: the answer names no resources.")
        for api_version, path in _older(document):
            try:
                body = await read("GET", path, body_limit=OBJECT_LIMIT)
            except (errors.NotFound, errors.ServerTrouble, errors.Throttled):
                continue  # an aggregated API without its server must not hide all the others
            resources += _resources(api_version, decode.obj(body, f"discovery of {path}"))
    return tuple(dict.fromkeys(sorted(resources)))


@functools.lru_cache(maxsize=8)
def _listed(root: str, body: bytes) -> tuple[Resource, ...] | None:
    """What an aggregated document lists, sorted; None for another kind of document. Clusters of one
    version answer alike, every time, and documents are long."""
    document = decode.obj(body, f"discovery of {root}")
    aggregated = document.get("kind") == "APIGroupDiscoveryList"
    return tuple(sorted(_aggregated(document))) if aggregated else None


def _aggregated(document: Mapping[str, Any]) -> Iterator[Resource]:
    for group in _dicts(document.get("items")):
        name = _dict(group.get("metadata")).get("name") or ""
        for version in _dicts(group.get("versions")):
            api_version = (
                f"{name}/{version.get('version')}" if name else str(version.get("version"))
            )
            for resource in _dicts(version.get("resources")):
                kind = str(_dict(resource.get("responseKind")).get("kind") or "")
                yield Resource(
                    api_version,
                    str(resource.get("resource")),
                    kind,
                    resource.get("scope") == "Namespaced",
                    _verbs(resource),
                )


def _older(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for version in document.get("versions") or () if document.get("kind") == "APIVersions" else ():
        yield str(version), f"/api/{version}"
    for group in _dicts(document.get("groups")):
        for version in _dicts(group.get("versions")):
            api_version = str(version.get("groupVersion"))
            yield api_version, f"/apis/{api_version}"


def _resources(api_version: str, document: Mapping[str, Any]) -> Iterator[Resource]:
    for resource in _dicts(document.get("resources")):
        plural = str(resource.get("name"))
        if "/" not in plural:
            yield Resource(
                api_version,
                plural,
                str(resource.get("kind")),
                bool(resource.get("namespaced")),
                _verbs(resource),
            )


def _verbs(resource: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(sorted(str(verb) for verb in resource.get("verbs") or ()))


def _dicts(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
