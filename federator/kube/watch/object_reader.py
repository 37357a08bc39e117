"""From an object of a list or an event to a row of a store: which object, which version, what its
projection keeps.

Used by the reflector for every listed object and every event; total on whatever a server may send
(F21). Each object is decoded once, straight into what its projection wants.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from federator.kube import errors
from federator.kube.store import Key, Version, version_number
from federator.kube.wire import decode
from federator.model import interning

T = TypeVar("T")


class Identity(NamedTuple):
    key: Key
    version: Version
    resource_version: str


class ObjectReader(Generic[T]):
    """Reads the objects of one collection for one projection, in one of three ways.

    `project` gets the object as a dict; with `shape`, a msgspec.Struct that picks the fields it
    needs (its `metadata` must be a `decode.Meta`), which is three times as fast; `project_raw` gets
    the object's bytes. A projection returns None for an object that its store does not need.
    """

    __slots__ = ("_api_version", "_decoder", "_is_raw", "_is_shaped", "_project", "event_decoder")

    def __init__(
        self,
        api_version: str,
        project: Callable[[Any], T | None] | None,
        project_raw: Callable[[bytes], T | None] | None,
        shape: type[msgspec.Struct] | None = None,
    ) -> None:
        if (project is None) == (project_raw is None) or (shape is not None and project is None):
            raise ValueError(
                "a reader takes exactly one of project and project_raw; shape goes with project"
            )
        self._api_version = api_version
        self._is_raw = project_raw is not None
        self._is_shaped = shape is not None
        self._project: Callable[[Any], T | None] = (
            (lambda raw: project_raw(bytes(raw))) if project_raw is not None else _given(project)
        )
        object_type: Any = msgspec.Raw if self._is_raw else (shape or dict[str, Any])
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(object_type)
        self.event_decoder = decode.event_decoder_of(object_type)
        """Decodes a line of a watch into an event with an object that this reader understands."""

    def identify(self, obj: Any) -> Identity:
        """Which object an event's object is. Raises `errors.Malformed` for no object at all."""
        if type(obj) is dict:
            return _identity_of(obj)
        if isinstance(obj, msgspec.Raw):
            return _identity(self._named(obj))
        return _identity(obj.metadata)

    def item(self, raw: msgspec.Raw, kind: str) -> Any:
        """An item of a list as `identify` and `project` take it. `kind` is filled in where the
        server left it out."""
        if self._is_raw:
            return raw
        try:
            obj = self._decoder.decode(raw)
        except decode.BROKEN as exc:
            raise errors.Malformed(f"This is no object of Kubernetes ({exc}).") from exc
        if not self._is_shaped:
            obj.setdefault("apiVersion", self._api_version)
            obj.setdefault("kind", kind)
        return obj

    def project(self, obj: Any) -> T | None:
        """What the store keeps of it. Raises whatever the projection raises."""
        if isinstance(obj, msgspec.Raw) and not self._is_raw:
            raise errors.Malformed("The object has not the shape that was expected.")
        return self._project(obj)

    def _named(self, raw: msgspec.Raw) -> decode.Meta:
        try:
            return decode.named_decoder.decode(raw).metadata
        except decode.BROKEN as exc:
            raise errors.Malformed(f"This is no object of Kubernetes ({exc}).") from exc


def _given(project: Callable[[Any], T | None] | None) -> Callable[[Any], T | None]:
    assert project is not None
    return project


def _identity(meta: decode.Meta) -> Identity:
    return _identified(meta.namespace, meta.name, meta.uid, meta.resourceVersion)


def _identity_of(obj: dict[str, Any]) -> Identity:
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        raise errors.Malformed("This is no object of Kubernetes: it has no metadata.")
    name, namespace = meta.get("name"), meta.get("namespace", "")
    uid, version = meta.get("uid", ""), meta.get("resourceVersion", "")
    if not (
        isinstance(name, str)
        and isinstance(namespace, str)
        and isinstance(uid, str)
        and isinstance(version, str)
    ):
        raise errors.Malformed(
            "This is no object of Kubernetes: its metadata holds something else than texts."
        )
    return _identified(namespace, name, uid, version)


def _identified(namespace: str, name: str, uid: str, version: str) -> Identity:
    if max(len(namespace), len(name), len(uid), len(version)) > decode.NAME_MAX:
        raise errors.Malformed(
            f"This is no object of Kubernetes: a name has more than {decode.NAME_MAX} characters."
        )
    key = interning.key((interning.text(namespace), name))
    return Identity(key, Version(version_number(version), uid), version)


def bookmark_version(obj: Any) -> str:
    """The resourceVersion of a BOOKMARK's object. Raises `errors.Malformed`."""
    try:
        name = (
            msgspec.convert(obj, _Bookmark).metadata.resourceVersion
            if isinstance(obj, dict)
            else _bookmarked(obj)
        )
    except decode.BROKEN as exc:
        raise errors.Malformed(f"A bookmark carries no version ({exc}).") from exc
    if len(name) > decode.NAME_MAX:
        raise errors.Malformed(
            f"A bookmark carries a version of more than {decode.NAME_MAX} characters."
        )
    return name


def _bookmarked(obj: Any) -> str:
    if isinstance(obj, msgspec.Raw):
        return _bookmark_decoder.decode(obj).metadata.resourceVersion
    meta: decode.Meta = obj.metadata
    return meta.resourceVersion


class _BookmarkMeta(msgspec.Struct):
    resourceVersion: str


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
