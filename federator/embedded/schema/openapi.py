"""OpenAPI v3 documents, one per group and version: what `kubectl explain`, `apply`, `diff` and
`edit` read.

Builtins come from the published schemas as they are, custom resources from their CRDs with the
references a real server adds. Paths hold what clients look for: methods, query parameters, kinds.
Documents of builtin groups are made once per process.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from federator.embedded.schema import builtins, facts
from federator.embedded.storage.resources import ResourceInfo
from federator.embedded.storage.schema import JSON

Json = dict[str, Any]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALE: Final = "io.k8s.api.autoscaling.v1.Scale"
_REF: Final = "#/components/schemas/"
_TEXTS: Final[Mapping[str, str]] = facts.of("descriptions")
_PARAMETERS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = facts.of("parameters")
"""Of lists, writes, forced applies and deletions: name -> (type, description)."""
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"
"""Builtins only: kubectl sends it wherever a document lists it."""


def path_of(group: str, version: str) -> str:
    """Key of a document in the index: `api/v1`, `apis/apps/v1`."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(infos: Iterable[ResourceInfo]) -> Json:
    """The body of `/openapi/v3`: every group and version with an address that changes with its
    content."""
    grouped: dict[str, list[ResourceInfo]] = {}
    for info in infos:
        grouped.setdefault(path_of(info.group, info.version), []).append(info)
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_fingerprint(members)}"}
            for path, members in sorted(grouped.items())
        }
    }


def _fingerprint(infos: list[ResourceInfo]) -> str:
    digest = hashlib.sha256(builtins.kubernetes_version().encode())
    for info in sorted(infos, key=lambda each: each.plural):
        digest.update(f"{info.group}/{info.version}/{info.plural}/{info.kind};".encode())
        if not info.is_builtin:
            digest.update(msgspec.json.encode(info.node.raw, order="deterministic"))
    return digest.hexdigest().upper()


def document(infos: Iterable[ResourceInfo]) -> bytes:
    """The document of one group and version, as JSON."""
    members = sorted(infos, key=lambda info: info.plural)
    if all(info.is_builtin for info in members):
        return _builtin_document(tuple(info.key for info in members))
    return msgspec.json.encode(_document(members))


@functools.cache
def _builtin_document(keys: tuple[tuple[str, str], ...]) -> bytes:
    return msgspec.json.encode(_document([builtins.info(*key) for key in keys]))


def _document(infos: list[ResourceInfo]) -> Json:
    schemas: dict[str, JSON] = {}
    paths: Json = {}
    for info in infos:
        name = schema_name(info)
        if info.is_builtin:
            schemas[name] = builtins.definition_as_published(name)
        else:
            schemas[name] = _custom_schema(info)
        if "list" in info.verbs:
            schemas[name + "List"] = _list_schema(info, name)
        paths.update(_paths(info, name))
    todo = [*schemas, *(_META + name for name in ("DeleteOptions", "Patch", "Status"))]
    if any("scale" in info.subresources for info in infos):
        todo.append(_SCALE)
    _add_referenced(schemas, todo)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": builtins.kubernetes_version()},
        "paths": paths,
        "components": {"schemas": {name: schemas[name] for name in sorted(schemas)}},
    }


def _add_referenced(schemas: dict[str, JSON], todo: list[str]) -> None:
    """Adds every builtin schema that is reached from the given ones."""
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in schemas:
            schemas[name] = builtins.definition_as_published(name)
        todo.extend(_references(schemas[name]))


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def schema_name(info: ResourceInfo) -> str:
    """The name of a kind's schema: `io.k8s.api.apps.v1.Deployment`, or
    `com.pinterest.v1beta1.PinterestService`."""
    if info.is_builtin:
        return builtins.schema_names()[(info.group, info.version, info.kind)]
    return ".".join([*reversed(info.group.split(".")), info.version, info.kind])


def _gvk(info: ResourceInfo, kind: str) -> Json:
    return {"group": info.group, "kind": kind, "version": info.version}


def _type_meta(text: str, metadata: str) -> Json:
    """The properties that every kind has."""
    return {
        "apiVersion": {"description": _TEXTS["apiVersion"], "type": "string"},
        "kind": {"description": _TEXTS["kind"], "type": "string"},
        "metadata": {"description": _TEXTS[text], "allOf": [{"$ref": f"{_REF}{_META}{metadata}"}]},
    }


def _custom_schema(info: ResourceInfo) -> JSON:
    """A CRD's schema as a real server publishes it: type and object metadata added, int-or-string
    spelt out."""
    published = _published(info.node.raw)
    properties = _type_meta("objectMeta", "ObjectMeta")
    own = {k: v for k, v in (published.get("properties") or {}).items() if k not in properties}
    result = {**published, "type": "object", "properties": {**properties, **own}}
    result["x-kubernetes-group-version-kind"] = [_gvk(info, info.kind)]
    if info.selectable_fields:
        fields = [{"fieldPath": path.removeprefix(".")} for path in info.selectable_fields]
        result["x-kubernetes-selectable-fields"] = fields
    return result


def _published(schema: JSON) -> Json:
    """One level of a CRD's schema and all below, without what clients cannot use."""
    result: Json = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _published(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
            result[key] = _published(value)
        else:
            result[key] = value
    if schema.get("x-kubernetes-embedded-resource"):
        described = _type_meta("objectMeta", "ObjectMeta")
        result["properties"] = {**described, **(result.get("properties") or {})}
    return result


def _list_schema(info: ResourceInfo, name: str) -> JSON:
    return {
        "description": f"{info.list_kind} is a list of {info.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            **_type_meta("listMeta", "ListMeta"),
            "items": {
                "description": f"List of {info.plural}.",
                "type": "array",
                "items": {"$ref": _REF + name},
            },
        },
        "x-kubernetes-group-version-kind": [_gvk(info, info.list_kind)],
    }


def _paths(info: ResourceInfo, name: str) -> Json:
    base = f"/{path_of(info.group, info.version)}"
    paths: Json = {}
    collection = (
        f"{base}/namespaces/{{namespace}}/{info.plural}"
        if info.namespaced
        else f"{base}/{info.plural}"
    )
    at_collection = _operations(info, name, ("list", "create", "deletecollection"))
    if at_collection:
        paths[collection] = {**at_collection, "parameters": _path_parameters(info, of_object=False)}
    at_object = _operations(info, name, ("get", "update", "patch", "delete"))
    if at_object:
        paths[f"{collection}/{{name}}"] = {
            **at_object,
            "parameters": _path_parameters(info, of_object=True),
        }
    for sub_name, sub in info.subresources.items():
        kind_schema = name if (sub.group, sub.kind) == (info.group, info.kind) else ""
        if sub.kind == "Scale":
            kind_schema = _SCALE
        if kind_schema:
            verbs = tuple(verb for verb in ("get", "update", "patch") if verb in sub.verbs)
            operations = {
                _METHODS[verb]: _operation(
                    verb,
                    kind_schema,
                    {"group": sub.group, "kind": sub.kind, "version": sub.version},
                )
                for verb in verbs
            }
            path = f"{collection}/{{name}}/{sub_name}"
            paths[path] = {**operations, "parameters": _path_parameters(info, of_object=True)}
    if info.namespaced and "list" in info.verbs:
        everywhere = _operation("list", name + "List", _gvk(info, info.kind))
        paths[f"{base}/{info.plural}"] = {"get": everywhere}
    return paths


_METHODS: Final = {
    "list": "get",
    "get": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
_ACTIONS: Final = {"create": "post", "update": "put"}


def _operations(info: ResourceInfo, name: str, verbs: tuple[str, ...]) -> Json:
    gvk = _gvk(info, info.kind)
    return {
        _METHODS[verb]: _operation(verb, name + "List" if verb == "list" else name, gvk)
        for verb in verbs
        if verb in info.verbs
    }


def _operation(verb: str, schema: str, gvk: Json) -> Json:
    operation: Json = {
        "description": f"{verb} {gvk['kind']}",
        "parameters": _query_parameters(verb),
        "responses": {
            "200": {
                "description": "OK",
                "content": {"application/json": {"schema": {"$ref": _REF + schema}}},
            },
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": _ACTIONS.get(verb, verb),
        "x-kubernetes-group-version-kind": gvk,
    }
    if verb in ("create", "update"):
        body = {"application/json": {"schema": {"$ref": _REF + schema}}}
        operation["requestBody"] = {"required": True, "content": body}
    elif verb == "patch":
        patch = {"schema": {"$ref": f"{_REF}{_META}Patch"}}
        kinds = (*_PATCH_TYPES, _STRATEGIC) if schema.startswith("io.k8s.") else _PATCH_TYPES
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(kinds, patch)}
    elif verb == "delete":
        options = {"*/*": {"schema": {"$ref": f"{_REF}{_META}DeleteOptions"}}}
        operation["requestBody"] = {"content": options}
    return operation


_QUERY: Final[Mapping[str, tuple[str, ...]]] = {
    "get": (),
    "list": ("list",),
    "patch": ("write", "force"),
    "delete": ("delete",),
    "deletecollection": ("delete", "list"),
}
"""Verb -> parts of `_PARAMETERS`; all others take those of writes."""


def _query_parameters(verb: str) -> list[Json]:
    own = _QUERY.get(verb, ("write",))
    parameters = {name: each for part in own for name, each in _PARAMETERS[part].items()}
    if verb == "deletecollection":
        del parameters["watch"]
    return [
        _parameter(name, "query", text, kind) for name, (kind, text) in sorted(parameters.items())
    ]


def _parameter(name: str, place: str, text: str, kind: str = "string") -> Json:
    schema = {"type": kind, "uniqueItems": True}
    return {"name": name, "in": place, "description": text, "schema": schema}


def _path_parameters(info: ResourceInfo, *, of_object: bool) -> list[Json]:
    names = (["name"] if of_object else []) + (["namespace"] if info.namespaced else [])
    texts = {
        "name": f"name of the {info.kind}",
        "namespace": "object name and auth scope, such as for teams and projects",
    }
    return [_parameter(name, "path", texts[name]) | {"required": True} for name in names]
