"""From pydantic's JSON schema, and from Kubernetes' OpenAPI, to the structural schemas that API
servers accept.

Used by `crds`. Each rule answers something a real API server refuses or silently drops: references,
null in anyOf, const, false additionalProperties, defaults that say nothing. Pure: the OpenAPI
definitions are an argument.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from federator.api.common import Model

Schema = dict[str, Any]
Definitions = Mapping[str, Any]

EMBED: Final = "x-federator-embed"
OMIT: Final = "x-federator-omit"
PATTERN: Final = "x-federator-pattern"
QUANTITY_PATTERN: Final = (
    r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"
)
FORMATS: Final = frozenset({"int32", "int64", "date-time", "byte", "double", "float"})

_KEPT: Final[tuple[str, ...]] = (
    "type",
    "format",
    "description",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "nullable",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
)

TEMPLATE_METADATA: Final[Schema] = {
    "type": "object",
    "properties": {
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}
"""Metadata inside a spec. Without named fields an API server would prune it to nothing; tools write
an empty creationTimestamp there, which must not be an unknown field."""


def survives(bound: int) -> bool:
    """Whether API servers, which keep bounds as doubles, give it back as it is: they write few
    digits."""
    return int(Decimal(repr(float(bound)))) == bound


def of_model(model: type[Model], definitions: Definitions) -> Schema:
    """The whole `openAPIV3Schema` of a kind."""
    generated = model.model_json_schema(by_alias=True, mode="validation")
    walker = _Models(generated.get("$defs", {}), definitions)
    properties = {
        "apiVersion": {
            "type": "string",
            "description": "Group and version of this representation of the object.",
        },
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"type": "object"},
    }
    for name, field in generated["properties"].items():
        if name not in properties:
            properties[name] = walker.convert(field, defaults=name != "status")
    schema: Schema = {
        "type": "object",
        "description": generated["description"],
        "properties": properties,
    }
    required = [
        name
        for name in generated.get("required", [])
        if name not in ("apiVersion", "kind", "metadata")
    ]
    if required:
        schema["required"] = required
    if "x-kubernetes-validations" in generated:
        schema["x-kubernetes-validations"] = generated["x-kubernetes-validations"]
    return schema


class _Models:
    """Converts what pydantic generates."""

    def __init__(self, local: Definitions, definitions: Definitions) -> None:
        self.local = local
        self.definitions = definitions

    def convert(self, schema: Mapping[str, Any], *, defaults: bool) -> Schema:
        """`defaults` False drops every default: a status says only what its writer wrote. Defaults
        that equal absence ("", 0, false, null) are dropped everywhere, so that objects stay as they
        were written."""
        schema = self._flat(schema)
        if EMBED in schema:
            return self._embedded(schema)
        out = {key: schema[key] for key in _KEPT if key in schema}
        if "description" in out:
            out["description"] = " ".join(out["description"].split())
        if "const" in schema:
            out["enum"] = [schema["const"]]
        if out.get("format") not in FORMATS:
            out.pop("format", None)
        if not survives(out.get("maximum", 0)):
            del out["maximum"]
        if "exclusiveMinimum" in schema:
            out["minimum"] = schema["exclusiveMinimum"] + 1
        if self._int_or_string(schema, out):
            return out
        if "properties" in schema:
            out["properties"] = {
                name: self.convert(field, defaults=defaults)
                for name, field in sorted(schema["properties"].items())
            }
        elif isinstance(schema.get("additionalProperties"), Mapping):
            out["additionalProperties"] = self.convert(
                schema["additionalProperties"], defaults=defaults
            )
        elif out.get("type") == "object" or "type" not in out:
            out["x-kubernetes-preserve-unknown-fields"] = True
        if "items" in schema:
            out["items"] = self.convert(schema["items"], defaults=defaults)
        if defaults and schema.get("default"):
            out["default"] = schema["default"]
        return _with_key_defaults(out)

    def _flat(self, schema: Mapping[str, Any]) -> Schema:
        """References followed, and "T or null" taken as T; what stands beside wins."""
        flat = dict(schema)
        while True:
            if "$ref" in flat:
                target = self.local[flat.pop("$ref").rpartition("/")[2]]
                flat = {**target, **flat}
            elif {"type": "null"} in flat.get("anyOf", ()):
                choices = [choice for choice in flat.pop("anyOf") if choice != {"type": "null"}]
                inner = choices[0] if len(choices) == 1 else {"anyOf": choices}
                flat = {**inner, **flat}
            else:
                return flat

    def _embedded(self, schema: Schema) -> Schema:
        out = of_openapi(schema[EMBED], self.definitions)
        for name in schema.get(OMIT, ()):
            out["properties"].pop(name)
            out["required"] = [field for field in out["required"] if field != name]
            if not out["required"]:
                del out["required"]
        if "description" in schema:
            out["description"] = " ".join(schema["description"].split())
        return out

    @staticmethod
    def _int_or_string(schema: Schema, out: Schema) -> bool:
        if {choice.get("type") for choice in schema.get("anyOf", ())} != {"integer", "string"}:
            return False
        out["x-kubernetes-int-or-string"] = True
        out["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        if PATTERN in schema:
            out["pattern"] = schema[PATTERN]
        if "minimum" in schema:
            out["minimum"] = schema["minimum"]  # of the integer
        return True


def of_openapi(name: str, definitions: Definitions) -> Schema:
    """A Kubernetes type as a structural schema, everything inline."""
    if name == "ObjectMeta":
        return {**TEMPLATE_METADATA}
    if name == "Quantity":
        return _int_or_string(QUANTITY_PATTERN)
    if name == "IntOrString":
        return _int_or_string("")
    return _openapi(definitions[name], definitions)


def _openapi(schema: Mapping[str, Any], definitions: Definitions) -> Schema:
    reference = schema.get("$ref") or next(
        (part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), ""
    )
    if reference:
        return of_openapi(reference, definitions)
    out = {key: schema[key] for key in _KEPT if key in schema}
    if "properties" in schema:
        keys = schema["properties"]
        out["properties"] = {field: _openapi(keys[field], definitions) for field in sorted(keys)}
    elif "additionalProperties" in schema:
        out["additionalProperties"] = _openapi(schema["additionalProperties"], definitions)
    elif schema.get("type") == "object":
        out["x-kubernetes-preserve-unknown-fields"] = True
    if "items" in schema:
        out["items"] = _openapi(schema["items"], definitions)
        if out.get("x-kubernetes-list-type") == "map":
            _default_keys(
                out["items"], schema["items"], out["x-kubernetes-list-map-keys"], definitions
            )
    return out


def _default_keys(
    items: Schema, source: Mapping[str, Any], keys: list[str], definitions: Definitions
) -> None:
    """A key of a list-map must be required or have a default; these alone keep the defaults of the
    OpenAPI data."""
    reference = source.get("$ref") or source["allOf"][0]["$ref"]
    for key in keys:
        if key not in items.get("required", ()):
            items["properties"][key]["default"] = definitions[reference]["properties"][key].get(
                "default", ""
            )


def _int_or_string(pattern: str) -> Schema:
    schema: Schema = {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    }
    return schema | ({"pattern": pattern} if pattern else {})


def _with_key_defaults(schema: Schema) -> Schema:
    """A key of a list-map of ours that may be left out is "" then."""
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        items = schema["items"]
        if key not in items.get("required", ()):
            items["properties"][key].setdefault("default", "")
    return schema
