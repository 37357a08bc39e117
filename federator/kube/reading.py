"""From an object's bytes to a row of a store: which object it is, in which version, and what its projection keeps.

Used by the reflector for every listed object and every event; total on whatever a server may send (F21).
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from federator.kube import decode, errors
from federator.kube.store import Key, Version, version_number

T = TypeVar("T")


class Identity(NamedTuple):
    """What the bytes are about."""

    key: Key
    version: Version
    resource_version: str


class ObjectReader(Generic[T]):
    """Reads objects of one collection through one projection.

    `project` gets the decoded object; `project_raw` gets its bytes, which is faster where a msgspec type picks a few
    fields. Either returns None for an object that its store does not need. They must not keep a reference to bytes.
    """

    __slots__ = ("_api_version", "_project", "_project_raw")

    def __init__(
        self,
        api_version: str,
        project: Callable[[dict[str, Any]], T | None] | None,
        project_raw: Callable[[bytes], T | None] | None,
    ) -> None:
        if (project is None) == (project_raw is None):
            raise ValueError("a reader takes exactly one of project and project_raw")
        self._api_version = api_version
        self._project = project
        self._project_raw = project_raw

    def read(self, raw: msgspec.Raw, kind: str = "") -> tuple[Identity, Callable[[], T | None]]:
        """Who the object is, and a call that makes its projection. Raises `errors.Malformed` for no object at all.

        The projection is made on demand: a row whose version is known already needs none. `kind` is filled in where
        the server left it out (list items of builtin kinds).
        """
        if self._project_raw is not None:
            data = bytes(raw)
            project_raw = self._project_raw
            return _identity(data), lambda: project_raw(data)
        obj = decode.obj(bytes(raw), "object")
        identity = _identity_of(obj)
        if kind:
            obj.setdefault("apiVersion", self._api_version)
            obj.setdefault("kind", kind)
        project = self._project
        assert project is not None
        return identity, lambda: project(obj)


def _identity(data: bytes) -> Identity:
    try:
        meta = decode.named_decoder.decode(data).metadata
    except decode.BROKEN as exc:
        raise errors.Malformed(f"This is no object of Kubernetes ({exc}).") from exc
    return Identity(
        (meta.namespace, meta.name), Version(version_number(meta.resourceVersion), meta.uid), meta.resourceVersion
    )


def _identity_of(obj: dict[str, Any]) -> Identity:
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise errors.Malformed("This is no object of Kubernetes: it has no metadata.")
    name, namespace = meta.get("name"), meta.get("namespace", "")
    uid, version = meta.get("uid", ""), meta.get("resourceVersion", "")
    if not (isinstance(name, str) and isinstance(namespace, str) and isinstance(uid, str) and isinstance(version, str)):
        raise errors.Malformed("This is no object of Kubernetes: its metadata holds something else than texts.")
    return Identity((namespace, name), Version(version_number(version), uid), version)


def bookmark_version(raw: msgspec.Raw) -> str:
    """The resourceVersion of a BOOKMARK's object. Raises `errors.Malformed`."""
    try:
        version = _bookmark_decoder.decode(raw).metadata.resourceVersion
    except decode.BROKEN as exc:
        raise errors.Malformed(f"A bookmark carries no version ({exc}).") from exc
    return version


class _BookmarkMeta(msgspec.Struct):
    resourceVersion: str


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
