"""The OpenAPI 3.1 document of the gateway, made from its models and its table of routes."""

import functools
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pydantic.json_schema import models_json_schema

from federator import __version__
from federator.gateway.api import models
from federator.gateway.api.problems import CONTENT_TYPE
from federator.gateway.api.routes import ROUTES, Route

_LABEL: Final = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}
_PARTS: Final = {
    "namespace": (_LABEL, "Namespace of the host."),
    "name": (_LABEL, "Name of the workflow."),
    "id": ({"type": "string", "pattern": models.ID_PATTERN}, "Identifier of the submission."),
}
_MEANINGS: Final = {
    200: "Done, or there already.",
    201: "Created: everything of the submission is stored.",
    400: "The request cannot be read.",
    401: "The token is missing or does not count.",
    403: "The caller may not do this, or the version is not landed.",
    404: "There is no such submission, version or namespace.",
    405: "The address does not take this method.",
    409: "The key was used for another request, or an object is in the way.",
    413: "The body is too large.",
    422: "The workflow or its parameters are not valid, or the verdict is refused.",
    429: "Too many requests of this user.",
    500: "The gateway, or a SubmissionPolicy, is at fault.",
    502: "The artifact store's answer cannot be used.",
    503: "The host, the leading hub or the artifact store does not answer. Send it again.",
}
_RETRY: Final = frozenset({429, 503})
Platforms = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""(name, (apiVersion, kind) of each kind that it runs) of each platform."""


@functools.cache
def document(platforms: Platforms) -> dict[str, Any]:
    """The document of a gateway with these platforms."""
    shown = {model for route in ROUTES for model in (route.request, *route.answers.values())}
    listed = sorted(
        (model for model in shown | {models.Problem} if model is not None),
        key=lambda model: model.__name__,
    )
    _, schemas = models_json_schema(
        [(model, "validation") for model in listed], ref_template="#/components/schemas/{model}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "federator submission gateway",
            "version": __version__,
            "description": "Versions of reviewed workflows in, one verdict out.",
        },
        "security": [{"bearer": []}],
        "x-platforms": [
            {
                "name": name,
                "kinds": [{"apiVersion": version, "kind": kind} for version, kind in kinds],
            }
            for name, kinds in platforms
        ],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


@functools.cache
def encoded(platforms: Platforms) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document(platforms))


def _operation(route: Route) -> dict[str, Any]:
    answers = {str(status): _answer(status, route) for status in sorted(route.answers)}
    answers |= {str(status): _refusal(status) for status in (*route.refusals, 405)}
    operation: dict[str, Any] = {
        "operationId": route.id,
        "summary": route.summary,
        "parameters": list(_parameters(route)),
        "responses": answers,
    }
    if route.request is not None:
        schema = {"$ref": f"#/components/schemas/{route.request.__name__}"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _answer(status: int, route: Route) -> dict[str, Any]:
    model = route.answers[status]
    if model is None:
        content: dict[str, Any] = {"text/event-stream": {"schema": {"type": "string"}}}
    else:
        schema = {"$ref": f"#/components/schemas/{model.__name__}"}
        content = {"application/json": {"schema": schema}}
    return {"description": _MEANINGS[status], "content": content}


def _refusal(status: int) -> dict[str, Any]:
    refusal: dict[str, Any] = {
        "description": _MEANINGS[status],
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if status in _RETRY:
        schema = {"type": "string", "pattern": "^[0-9]+$"}
        refusal["headers"] = {"Retry-After": {"description": "Seconds.", "schema": schema}}
    return refusal


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    for part in route.path.split("/"):
        if part.startswith("{"):
            schema, description = _PARTS[part[1:-1]]
            yield {
                "name": part[1:-1],
                "in": "path",
                "required": True,
                "description": description,
                "schema": schema,
            }
    for each in route.parameters:
        yield {
            "name": each.name,
            "in": "query",
            "description": each.description,
            "schema": dict(each.schema),
        }
