"""A structural schema, parsed once into nodes that walkers can read without looking anything up.

Two sources: the builtin types (OpenAPI with `$ref` and `allOf`, resolved lazily: a reference is
followed when a walker first goes there) and CRDs (already inline). Nodes are shared by all clusters
of the process and never change after parsing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

JSON = Mapping[str, Any]

ATOMIC: Final = "atomic"
SET: Final = "set"
MAP: Final = "map"
GRANULAR: Final = "granular"

_DEEPEST: Final = 64
"""Levels that are looked into: schemas of schemas have no end."""
_NO_FIELDS: Final[dict[str, "Node"]] = {}


class Node:
    """One place in a schema. `raw` keeps what is rarely asked for: bounds, rules, descriptions."""

    __slots__ = (
        "_fields",
        "_items",
        "_values",
        "compiled",
        "default",
        "embedded",
        "format",
        "has_default",
        "int_or_string",
        "keys",
        "kind",
        "list_type",
        "map_type",
        "name",
        "nullable",
        "nulls",
        "omit",
        "patch_merge_key",
        "patch_strategy",
        "preserve",
        "raw",
        "required",
        "resolve",
    )

    def __init__(self, raw: JSON, resolve: Callable[[str], JSON] | None, name: str = "") -> None:
        self.resolve = resolve
        self.name: str = name
        """Last word of the builtin definition this node is, such as `DeploymentSpec`; empty in CRDs
        and inline schemas.
        """
        raw, merged = merged_reference(raw, resolve)
        self.name = merged or name
        self.raw: JSON = raw
        self.kind: str = raw.get("type", "")
        """"object", "array", "string", "integer", "number", "boolean", or "" where anything may
        stand."""
        self.format: str = raw.get("format", "")
        self.int_or_string: bool = (
            bool(raw.get("x-kubernetes-int-or-string")) or self.format == "int-or-string"
        )
        self.preserve: bool = bool(raw.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded: bool = bool(raw.get("x-kubernetes-embedded-resource"))
        self.nullable: bool = bool(raw.get("nullable"))
        self.has_default: bool = "default" in raw
        self.default: Any = raw.get("default")
        self.required: tuple[str, ...] = tuple(raw.get("required", ()))
        self.list_type: str = raw.get("x-kubernetes-list-type", ATOMIC)
        self.map_type: str = raw.get("x-kubernetes-map-type", GRANULAR)
        self.keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys", ()))
        self.patch_merge_key: str = raw.get("x-kubernetes-patch-merge-key", "")
        self.patch_strategy: tuple[str, ...] = tuple(
            filter(None, raw.get("x-kubernetes-patch-strategy", "").split(","))
        )
        self.omit: frozenset[str] = frozenset(raw.get("x-omit", ()))
        """Fields of a builtin that its JSON leaves out when they are zero or empty."""
        self.nulls: tuple[str, ...] = tuple(raw.get("x-null", ()))
        """Fields of a builtin that its JSON writes as null when they are absent (times)."""
        self._fields: dict[str, Node] | None = None
        self._items: Node | None = None
        self._values: Node | None = None
        self.compiled: dict[str, Any] = {}
        """Per-walker caches (compiled patterns, CEL programs), keyed by the walker's name."""

    @property
    def fields(self) -> dict[str, "Node"]:
        """Declared properties; empty for maps and scalars."""
        fields = self._fields
        if fields is None:
            properties = self.raw.get("properties")
            fields = (
                {k: Node(v, self.resolve) for k, v in properties.items()}
                if properties
                else _NO_FIELDS
            )
            self._fields = fields
        return fields

    @property
    def items(self) -> "Node | None":
        """Schema of a list's items, or None."""
        if self._items is None:
            raw = self.raw.get("items")
            if raw is not None:
                self._items = Node(raw, self.resolve)
        return self._items

    @property
    def values(self) -> "Node | None":
        """Schema of a map's values (`additionalProperties`), or None where there are none or no
        schema is given."""
        if self._values is None:
            raw = self.raw.get("additionalProperties")
            if isinstance(raw, Mapping):
                self._values = Node(raw, self.resolve)
        return self._values

    def any_below(self, name: str, holds: Callable[["Node"], bool], depth: int = 0) -> bool:
        """Whether something holds for this node or one below; the answer is kept under `name`, so
        that whole sub-trees are skipped at once."""
        cached: bool | None = self.compiled.get(name)
        if cached is None:
            cached = holds(self) or (
                depth < _DEEPEST
                and any(
                    child.any_below(name, holds, depth + 1)
                    for child in (*self.fields.values(), self.items, self.values)
                    if child is not None
                )
            )
            self.compiled[name] = cached
        return cached


def merged_reference(raw: JSON, resolve: Callable[[str], JSON] | None) -> tuple[JSON, str]:
    """`$ref` and the one-element `allOf` around it replaced by what they name (keys beside them
    win), and that name's last word.
    """
    name = ""
    while resolve is not None:
        reference = raw.get("$ref")
        if reference is not None:
            around = {k: v for k, v in raw.items() if k != "$ref"}
        elif "allOf" in raw and len(raw["allOf"]) == 1 and "$ref" in raw["allOf"][0]:
            reference = raw["allOf"][0]["$ref"]
            around = {k: v for k, v in raw.items() if k != "allOf"}
        else:
            break
        name = reference.rpartition(".")[2]
        raw = {**resolve(reference.rpartition("/")[2]), **around}
    return raw, name


class LazyNode:
    """A schema that is parsed when it is first used."""

    __slots__ = ("_load", "_node")

    def __init__(self, load: Callable[[], Node]) -> None:
        self._load = load
        self._node: Node | None = None

    def get(self) -> Node:
        """The parsed root, always the same object."""
        if self._node is None:
            self._node = self._load()
        return self._node
