"""What the embedded API serves: one `ResourceInfo` per resource and version.

Builtins come from `builtins.py`, custom ones from `crds.resource_infos`. A `ResourceInfo` never
changes; an updated CRD makes new ones. Everything schema-driven (pruning, defaults, validation,
ownership, OpenAPI) hangs on `ResourceInfo.node`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from federator.embedded.storage.schema import LazyNode, Node


@dataclass(frozen=True, slots=True)
class Subresource:
    """One sub-resource as discovery shows it. `kind` may be of another group (Scale is
    autoscaling/v1)."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the server-side table. `priority` 0 is always shown, larger ones with `-o
    wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = ""
    """Of a custom resource: the field that it shows."""

    def definition(self) -> dict[str, Any]:
        """As Tables carry it."""
        fields = dataclasses.asdict(self)
        del fields["json_path"]
        return fields


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale sub-resource reads and writes: JSON paths such as `.spec.replicas`.
    `selector` may be empty."""

    spec: str
    status: str
    selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ResourceInfo:
    """One served resource in one version. Compared by identity: two versions of one CRD object are
    different infos."""

    group: str
    version: str
    kind: str
    list_kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    schema: LazyNode
    """The schema, parsed on first use; `node` is the parsed root."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    """By name: "status", "scale", ...; `"status" in info.subresources` is the usual question."""
    printer_columns: tuple[Column, ...] = ()
    """Of custom resources only; the Table of builtins is code."""
    selectable_fields: tuple[str, ...] = ()
    """JSON paths (`.spec.color`) that a field selector may name besides metadata.name and
    metadata.namespace."""
    scale: ScalePaths | None = None
    is_builtin: bool = False
    storage: bool = True
    """Whether objects are stored in this version (always for builtins)."""
    deprecation: str = ""
    """Warning that answers to this version carry, or empty."""

    @property
    def key(self) -> tuple[str, str]:
        """(group, plural): one storage for all versions."""
        return (self.group, self.plural)

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def node(self) -> Node:
        """Root of the schema."""
        return self.schema.get()

    @property
    def qualified_resource(self) -> str:
        """`deployments.apps`, `pods`: how error messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_stored(self) -> bool:
        """False for reviews and bindings, which answer and are forgotten."""
        return "get" in self.verbs
