"""JSON schemas of the files that people and their tools write for the gateway."""

import json
from typing import Any, Final

from pydantic import BaseModel

from federator.gateway.api import openapi
from federator.gateway.artifacts import statements
from federator.gateway.artifacts.statements import Review
from federator.gateway.artifacts.workflows import WorkflowFile
from federator.gateway.platforms import table

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def workflow() -> str:
    """Of workflow files. Fields of the objects are those of their kinds, with references to
    parameters in place of values: docs/reference/objects.md has them."""
    schema = _schema(WorkflowFile)
    item = schema["properties"]["objects"]["items"]
    item.clear()
    item |= {
        "type": "object",
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"enum": sorted(table.PLATFORMS.kinds)},
            "metadata": {"type": "object"},
            "spec": {"type": "object"},
        },
    }
    return _text(schema)


def gateway() -> str:
    """The OpenAPI document of the gateway."""
    return _text(openapi.document(table.PLATFORMS.described))


def review() -> str:
    """Of the in-toto statement with a review as its predicate."""
    predicate = _schema(Review)
    dialect, definitions = predicate.pop("$schema"), predicate.pop("$defs")
    digest = {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}
    subject = {"type": "object", "required": ["digest"], "properties": {"digest": digest}}
    fields = {
        "_type": {"const": statements.STATEMENT},
        "subject": {"type": "array", "minItems": 1, "items": subject},
        "predicateType": {"const": statements.REVIEW},
        "predicate": predicate,
    }
    return _text(
        {
            "$schema": dialect,
            "$defs": definitions,
            "description": "in-toto statement about the review of a commit.",
            "type": "object",
            "required": list(fields),
            "properties": fields,
        }
    )


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return {"$schema": DIALECT, **model.model_json_schema(by_alias=True)}


def _text(schema: dict[str, Any]) -> str:
    return f"{json.dumps(_flat(schema), indent=1)}\n"


def _flat(value: Any) -> Any:
    """Without the titles that pydantic makes of names, and marks that are for API servers."""
    if isinstance(value, list):
        return [_flat(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    texts = {
        name: " ".join(entry.split()) if name == "description" and isinstance(entry, str) else entry
        for name, entry in value.items()
        if not name.startswith("x-kubernetes-") and not (name == "title" and isinstance(entry, str))
    }
    return {name: _flat(entry) for name, entry in texts.items()}
