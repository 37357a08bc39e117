"""Reads objects from outside (files, the gateway) strictly: decoded safely, then checked against
schema and model.

Every problem comes with the path of its field. Hot paths do not come through here.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from federator.api import decoding, raw, structural
from federator.api.common import Model
from federator.api.decoding import Limits
from federator.kinds import crds, registry
from federator.kinds.kind import Kind
from federator.model import errors, names
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors

MAX_PROBLEMS = 50
ANNOTATIONS_MAX = 256 * 1024
"""Bytes of all annotations of an object together."""
_GENERATED_BASE: Final = 58
"""Characters of `generateName` that API servers keep."""
_GENERATED_END: Final = "xxxxx"
"""Stands for the five characters that they add."""


class InvalidObject(ValueError):
    """One or more problems, in the order of their paths."""

    def __init__(self, problems: Sequence[FieldError]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.errors = tuple(problems)


def load(obj: Any, path: str = "") -> Model:
    """The model of an object of one of our kinds. Raises InvalidObject with paths below `path`."""
    kind = _kind(obj, path)
    if kind.model is None:
        raise InvalidObject(
            [FieldError(errors.join(path, "kind"), f"{kind.kind} has no model of ours")]
        )
    model, problems = _model(kind, obj)
    _raise_if(problems, path)
    assert model is not None
    return model


def check(obj: Any, path: str = "") -> Kind:
    """Like `load` for any kind that the federation knows, plain Deployments included; returns the
    kind's row.
    """
    kind = _kind(obj, path)
    _raise_if(_model(kind, obj)[1], path)
    return kind


def load_yaml(text: str, limits: Limits = decoding.FILE_LIMITS) -> list[dict[str, Any]]:
    """The objects of a YAML (or JSON) text; a `List` gives its items. Raises InvalidObject."""
    try:
        documents = decoding.from_yaml(text, limits)
    except FieldError as error:
        raise InvalidObject([error]) from None
    many = len(documents) > 1
    return [
        obj
        for index, document in enumerate(documents)
        for obj in _objects(document, f"[{index}]" if many else "")
    ]


def load_json(text: str | bytes, limits: Limits = decoding.FILE_LIMITS) -> list[dict[str, Any]]:
    """The objects of a JSON text; a `List` gives its items. Raises InvalidObject."""
    try:
        return _objects(decoding.from_json(text, limits), "")
    except FieldError as error:
        raise InvalidObject([error]) from None


def host_problems(obj: Mapping[str, Any]) -> list[FieldError]:
    """What people must not write on the host: the block that marks slices."""
    problems: list[FieldError] = []
    if raw.at(obj, "spec", "slice") is not None and registry.kind_of(obj) is not None:
        problems.append(
            FieldError("spec.slice", "is written by the federation in members, never on the host")
        )
    if names.SLICE_ANNOTATION in raw.mapping(obj, "metadata", "annotations"):
        path = f"metadata.annotations.{names.SLICE_ANNOTATION}"
        problems.append(
            FieldError(path, "is written by the federation in members, never on the host")
        )
    return problems


def _objects(document: Any, path: str) -> list[dict[str, Any]]:
    if not isinstance(document, dict):
        raise InvalidObject([FieldError(path, "an object is expected, with apiVersion and kind")])
    if raw.text(document, "kind").endswith("List") and isinstance(document.get("items"), list):
        return [
            obj
            for index, item in enumerate(document["items"])
            for obj in _objects(item, errors.join(path, f"items[{index}]"))
        ]
    return [document]


def _kind(obj: Any, path: str) -> Kind:
    if not isinstance(obj, dict):
        raise InvalidObject([FieldError(path, "an object is expected, with apiVersion and kind")])
    kind = registry.kind_of(obj)
    if kind is not None:
        return kind
    row = registry.KINDS.get(raw.text(obj, "kind"))
    if row is not None:
        wanted = (
            f"must be {row.api_version} for a {row.kind}, not {str(obj.get('apiVersion'))[:80]!r}"
        )
        raise InvalidObject([FieldError(errors.join(path, "apiVersion"), wanted)])
    readable = ", ".join(sorted(registry.KINDS))
    message = f"{str(obj.get('kind'))[:80]!r} is not a kind that is read here: {readable}"
    raise InvalidObject([FieldError(errors.join(path, "kind"), message)])


def _raise_if(problems: Sequence[FieldError], path: str) -> None:
    if problems:
        placed = [
            FieldError(errors.join(path, error.path), error.message)
            for error in problems[:MAX_PROBLEMS]
        ]
        raise InvalidObject(placed)


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    row = registry.KINDS[kind]
    if row.model is None:
        return _as_servers_check(crds.embedded_schema(row.kind))
    schema: Mapping[str, Any] = crds.crd(row)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


_UNIQUE: Final = frozenset(
    {
        "containers",
        "initContainers",
        "ephemeralContainers",
        "resourceClaims",
        "schedulingGates",
        "topologySpreadConstraints",
        "volumeDevices",
        "volumeMounts",
        "volumes",
    }
)
"""Lists of pods in which API servers refuse a key that is there twice. In all others (env, ports,
imagePullSecrets) they warn or say nothing: the keys of the schema are for server-side apply."""


def _as_servers_check(schema: Mapping[str, Any], field: str = "") -> Mapping[str, Any]:
    """The schema of a native kind without keys that API servers do not check."""
    out = {name: value for name, value in schema.items() if name != "x-kubernetes-list-map-keys"}
    if field in _UNIQUE and "x-kubernetes-list-map-keys" in schema:
        out["x-kubernetes-list-map-keys"] = schema["x-kubernetes-list-map-keys"]
    if "properties" in schema:
        out["properties"] = {
            name: _as_servers_check(inner, name) for name, inner in schema["properties"].items()
        }
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), Mapping):
            out[name] = _as_servers_check(schema[name])
    return out


def _model(kind: Kind, obj: dict[str, Any]) -> tuple[Model | None, list[FieldError]]:
    """The model, and all problems: of the schema first, then those that only the model sees."""
    of_schema = structural.problems(_without_metadata(kind, obj), _schema(kind.kind))
    problems = {error.path: error for error in itertools.islice(of_schema, MAX_PROBLEMS)}
    if len(problems) >= MAX_PROBLEMS:  # each further one would cost time, and none would be shown
        return None, sorted(problems.values(), key=lambda error: error.path)
    for error in (*_name_problems(kind, obj), *_metadata_problems(obj)):
        problems.setdefault(error.path, error)
    model: Model | None = None
    if kind.model is not None:
        try:
            model = kind.model.model_validate(_without_nulls(obj))
        except ValidationError as error:
            for path, message in from_pydantic(error, obj):
                problems.setdefault(path, FieldError(path, message))
    return model, sorted(problems.values(), key=lambda error: error.path)


def _without_metadata(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    """Metadata of a native kind is not described in our data; that of our kinds is the model's to
    check.
    """
    return (
        {name: value for name, value in obj.items() if name != "metadata"}
        if kind.model is None
        else obj
    )


def _without_nulls(value: Any) -> Any:
    """As API servers read it: a field that is null is left out."""
    if isinstance(value, dict):
        return {name: _without_nulls(entry) for name, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value


def generated_name(obj: Mapping[str, Any]) -> str:
    """A name as API servers make it of `generateName`: its first 58 characters and five more. ""
    without one."""
    base = raw.text(obj, "metadata", "generateName")
    return f"{base[:_GENERATED_BASE]}{_GENERATED_END}" if base else ""


def name_problem(obj: Mapping[str, Any]) -> str:
    """What is wrong with the name of an object of one of our kinds, as a sentence; "" when nothing
    is.
    """
    problems = _name_problems(_kind(obj, ""), obj)
    return problems[0].message if problems else ""


def _name_problems(kind: Kind, obj: Mapping[str, Any]) -> list[FieldError]:
    name = raw.text(obj, "metadata", "name")
    path = "metadata.name" if name else "metadata.generateName"
    name = name or generated_name(obj)
    if not name:
        return [FieldError("metadata.name", "is required")]
    if kind.longest_name:
        problem = selectors.dns1035_label(name)
        if len(name) > kind.longest_name:
            what = "a workload" if kind.recurring is None else f"a {kind.kind}"
            problem = f"has {len(name)} characters; {what}'s name has at most {kind.longest_name}"
    elif kind.kind == "MemberCluster":
        problem = selectors.dns1123_label(name)
    else:
        problem = selectors.dns1123_subdomain(name)
    if problem and path == "metadata.generateName":
        problem = f"makes names such as {name!r}: {problem}"
    return [FieldError(path, problem)] if problem else []


def _metadata_problems(obj: Mapping[str, Any]) -> list[FieldError]:
    """What API servers refuse in the metadata of every kind."""
    problems = [
        FieldError(f"metadata.labels.{key[:80]}", problem)
        for key in raw.mapping(obj, "metadata", "labels")
        if (problem := selectors.check_label_key(key))
    ]
    annotations = raw.text_map(obj, "metadata", "annotations")
    size = sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())
    if size > ANNOTATIONS_MAX:
        problems.append(
            FieldError(
                "metadata.annotations", f"hold {size} bytes, at most {ANNOTATIONS_MAX} are allowed"
            )
        )
    return problems


def from_pydantic(error: ValidationError, obj: Any) -> list[tuple[str, str]]:
    """(path, message) of each problem; what pydantic adds to a place for unions and keys is not
    part of the path.
    """
    messages: dict[str, str] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        path, here = "", obj
        for part in detail["loc"]:
            if isinstance(here, dict) and isinstance(part, str):
                path, here = errors.join(path, part), here.get(part)
            elif isinstance(here, list) and isinstance(part, int):
                path, here = f"{path}[{part}]", here[part] if part < len(here) else None
            else:
                break
        message = _WORDS.get(detail["type"], detail["msg"])
        messages[path] = (
            f"{messages[path]}, or {message}"
            if path in messages and message not in messages[path]
            else message
        )
    return list(messages.items())


_WORDS = {
    "extra_forbidden": "unknown field",
    "missing": "is required",
    "int_type": "must be an integer",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "model_type": "must be an object",
}
