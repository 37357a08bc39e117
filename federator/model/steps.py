"""Effects as data: what a controller wants done; one applier per cluster carries them out in the
cluster's lane."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Names one object of an API server. `namespace` is "" for cluster-scoped kinds."""

    api_version: str
    plural: str
    namespace: str
    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """POST. AlreadyExists is returned to the caller; an existing object is never adopted."""

    ref: ObjectRef
    body: Mapping[str, Any]
    strict: bool = False
    """The server refuses unknown fields. Otherwise it drops them."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge patch with only the difference. `uid` and `resource_version` are sent as
    preconditions when set."""

    ref: ObjectRef
    body: Mapping[str, Any]
    subresource: str = ""
    uid: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of the fields we own."""

    ref: ObjectRef
    body: Mapping[str, Any]
    subresource: str = ""
    force: bool = True
    resource_version: str = ""
    """Only while the object has this version; at any with ""."""
    uid: str = ""
    """Only the object with this uid, and only while it is there; any with ""."""


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE with a uid precondition, always."""

    ref: ObjectRef
    uid: str
    propagation: str = "Background"
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """An Event on the user's object, on a transition."""

    regarding: ObjectRef
    uid: str
    reason: str
    note: str
    warning: bool = False
    action: str = "Reconcile"


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Nothing to do now; take the key again after `after_s` seconds."""

    key: Any
    after_s: float
    why: str


Step = Create | Patch | Apply | Delete | EmitEvent
