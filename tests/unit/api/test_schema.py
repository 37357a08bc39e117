"""Each construct that pydantic emits and a real API server refuses, and what becomes of it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from federator.api import schema
from federator.api.common import Int64, Metadata, Model, Quantity, list_map


class Inner(Model):
    """An inner object."""

    name: str = ""
    """Its name."""


class Sample(Model):
    """A sample."""

    api_version: Literal["v1"]
    """Version."""
    kind: Literal["Sample"]
    """Kind."""
    metadata: Metadata
    """Metadata."""
    one: Literal["only"] = "only"
    """A constant."""
    maybe: Inner | None = None
    """Perhaps
    an object."""
    amount: Quantity = 1
    """An amount."""
    positive: Annotated[int, Field(gt=0)] = 5
    """A number above zero."""
    large: Int64 = 0
    """A large number."""
    anything: Any = None
    """Anything."""
    listed: Annotated[list[Inner], Field(max_length=3, json_schema_extra=list_map("name"))] = Field(
        default_factory=list
    )
    """A keyed list."""
    status: Inner | None = None
    """A status."""


def _property(name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema.of_model(Sample, {})["properties"][name]
    return found


def test_a_reference_is_written_out_and_null_is_dropped() -> None:
    assert _property("maybe") == {
        "type": "object",
        "description": "Perhaps an object.",
        "properties": {"name": {"type": "string", "description": "Its name."}},
    }


def test_a_constant_becomes_an_enum_and_keeps_its_default() -> None:
    assert _property("one") == {
        "type": "string",
        "description": "A constant.",
        "enum": ["only"],
        "default": "only",
    }


def test_a_quantity_becomes_int_or_string_with_a_pattern() -> None:
    amount = _property("amount")
    assert amount["x-kubernetes-int-or-string"] is True
    assert amount["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert "pattern" in amount
    assert "type" not in amount


def test_an_exclusive_minimum_becomes_an_inclusive_one() -> None:
    assert _property("positive")["minimum"] == 1
    assert "exclusiveMinimum" not in _property("positive")


def test_a_bound_that_is_no_exact_float_is_dropped() -> None:
    assert "maximum" not in _property("large")
    assert _property("large")["format"] == "int64"


def test_what_has_no_type_keeps_its_unknown_fields() -> None:
    assert _property("anything")["x-kubernetes-preserve-unknown-fields"] is True


def test_the_key_of_a_keyed_list_is_required_or_has_a_default() -> None:
    listed = _property("listed")
    assert listed["x-kubernetes-list-map-keys"] == ["name"]
    assert listed["items"]["properties"]["name"]["default"] == ""


def test_metadata_and_type_are_the_servers_own() -> None:
    whole = schema.of_model(Sample, {})
    assert whole["properties"]["metadata"] == {"type": "object"}
    assert "required" not in whole
    assert "additionalProperties" not in whole


def test_openapi_references_quantities_and_metadata_are_converted() -> None:
    definitions = {
        "Pod": {
            "type": "object",
            "properties": {
                "metadata": {"allOf": [{"$ref": "ObjectMeta"}], "default": {}},
                "ports": {
                    "type": "array",
                    "items": {"allOf": [{"$ref": "Port"}], "default": {}},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                },
                "cpu": {"$ref": "Quantity"},
            },
        },
        "Port": {
            "type": "object",
            "required": ["port"],
            "properties": {
                "port": {"type": "integer", "default": 0},
                "protocol": {"type": "string", "default": "TCP"},
            },
        },
    }
    pod = schema.of_openapi("Pod", definitions)
    assert pod["properties"]["metadata"]["properties"].keys() >= {
        "labels",
        "annotations",
        "creationTimestamp",
    }
    assert pod["properties"]["cpu"]["pattern"] == schema.QUANTITY_PATTERN
    port = pod["properties"]["ports"]["items"]["properties"]
    assert port == {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}
