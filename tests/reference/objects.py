"""The fields of every kind, as its CustomResourceDefinition has them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from federator.kinds import crds, registry
from federator.kinds.kind import Kind
from tests.reference.markdown import code, table

Schema = Mapping[str, Any]
INDEX: Final = """\
# Objects

The kinds that the federation defines. `federator crd install` writes them to a cluster, `config/crd/` has them as
files, and `kubectl explain` prints the texts of these pages. Plain `apps/v1` Deployments on the host are workloads too.
Examples that can be applied are in `config/examples/`.
"""


def index() -> str:
    rows = [
        (
            f"[{kind.kind}](objects/{kind.kind.lower()}.md)",
            code(kind.short_names[0]),
            code(kind.api_version),
            "namespace" if kind.namespaced else "cluster",
            _schema(kind)["description"],
        )
        for kind in _ours()
    ]
    return INDEX + "\n" + table(("kind", "short", "version", "scope", "what it is"), rows)


def page(kind: Kind) -> str:
    schema = _schema(kind)
    scope = "lies in a namespace" if kind.namespaced else "is cluster-scoped"
    columns = ", ".join(column.name for column in kind.columns)
    parts = [
        f"# {kind.kind}",
        schema["description"],
        f"{code(kind.api_version)}, short name {code(kind.short_names[0])}; {scope}."
        + (f" `kubectl get` prints {columns}." if columns else ""),
    ]
    for part in ("spec", "status"):
        if found := schema["properties"].get(part):
            rows = list(_rows(found, part, frozenset(found.get("required", ()))))
            parts += [
                f"## {part}",
                found.get("description", ""),
                table(("field", "type", "meaning"), rows),
            ]
            parts += _rules(found)
    return "\n\n".join(part for part in parts if part)


def _ours() -> list[Kind]:
    return [kind for kind in registry.KINDS.values() if kind.model is not None]


def _schema(kind: Kind) -> Schema:
    wanted = f"{kind.plural}.{kind.group}"
    crd = next(one for one in crds.all_crds() if one["metadata"]["name"] == wanted)
    found: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def _rows(schema: Schema, path: str, required: frozenset[str]) -> Iterator[tuple[str, str, str]]:
    """Every field below, depth first. `path` is the field that has this schema. What is Kubernetes'
    own, such as a pod template, has no descriptions in our schemas and is left to its
    documentation.
    """
    for name, below in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        needed = "; required" if name in required else ""
        yield code(here), _type(below) + needed, _meaning(below)
        inner, suffix = below, ""
        while inner.get("type") == "array" or isinstance(
            inner.get("additionalProperties"), Mapping
        ):
            suffix += "[]" if inner.get("type") == "array" else ".*"
            inner = (
                inner["items"] if inner.get("type") == "array" else inner["additionalProperties"]
            )
        if any("description" in one for one in inner.get("properties", {}).values()):
            yield from _rows(inner, here + suffix, frozenset(inner.get("required", ())))


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if values := schema.get("enum"):
        return " or ".join(code(value) for value in values)
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if isinstance(below := schema.get("additionalProperties"), Mapping):
        return f"map to {_type(below)}"
    bounds = [
        f"{sign} {int(schema[name])}"
        for name, sign in (("minimum", ">="), ("maximum", "<="))
        if name in schema
    ]
    return " ".join([str(schema.get("type", "any")), *bounds])


def _meaning(schema: Schema) -> str:
    said = str(schema.get("description", ""))
    return (
        f"{said} Default: {code(json.dumps(schema['default']))}.".strip()
        if "default" in schema
        else said
    )


def _rules(schema: Schema) -> Iterator[str]:
    """What the API server checks beyond types, as its messages say it."""
    found = list(dict.fromkeys(_messages(schema)))
    if found:
        yield "The API server refuses it where this does not hold:\n\n" + "\n".join(
            f"* {one}" for one in found
        )


def _messages(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _messages(one)
    elif isinstance(schema, Mapping):
        yield from (
            rule["message"]
            for rule in schema.get("x-kubernetes-validations", ())
            if "message" in rule
        )
        for name, below in schema.items():
            if name != "x-kubernetes-validations":
                yield from _messages(below)
