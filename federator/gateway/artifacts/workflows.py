"""Workflow files: how they are read, and how a submission's parameters are filled in.

    apiVersion: federation.pinterest.com/v1alpha1
    kind: Workflow
    metadata: {name: serving}
    parameters: [{name: replicas, type: integer, minimum: 1, maximum: 500, default: 10}]
    objects:
    - {apiVersion: pinterest.com/v1beta1, kind: PinterestService, ...
       spec: {replicas: "${parameters.replicas}", ...}}

A reference is filled in after the YAML has been read, in values only, once: a text that is one
reference becomes the value with its type, within other text it becomes text. So no value can become
a field, a list or another reference. Pure.
"""

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from federator.api import decoding, raw
from federator.api.common import AnyObject, Model, ObjectName, Sentence, ShortText
from federator.api.decoding import INT64, Limits
from federator.api.raw import Obj
from federator.gateway.artifacts.ports import (
    FILE_MAX,
    ArtifactRefused,
    Build,
    Parameter,
    Problem,
    Reason,
    Value,
    Workflow,
    refused,
)
from federator.gateway.platforms import table
from federator.kinds import read
from federator.model import errors, names
from federator.model.errors import FieldError

LIMITS: Final = Limits(size=FILE_MAX, depth=64, nodes=100_000)
"""Of a workflow file: lower than those of files that a person reads in a shell."""
TEXT_MAX: Final = 4096
"""Characters of a string parameter, at most."""
TEXT_USUAL: Final = 256
RENDERED_MAX: Final = 4 * FILE_MAX
"""Characters of all texts of the objects of one submission: short files can repeat long values."""
_METADATA: Final = ("name", "labels", "annotations")
_OURS: Final = (names.FEDERATION, "submission.pinterest.com", "pod-security.kubernetes.io")
"""Domains, with those below them, of the marks with which the federation, the gateway and admission
know their objects again."""
_RESERVED: Final = "kubernetes.io"
"""Reserved for Kubernetes. Domains below it, such as app.kubernetes.io, are for everybody."""
_HARMLESS: Final = (
    names.CONVERTED_FROM,
    "kubernetes.io/change-cause",
    "kubernetes.io/ingress-bandwidth",
    "kubernetes.io/egress-bandwidth",
)
"""What people write, or what `federator convert` writes for people."""
_REFERENCE: Final = re.compile(r"(\$?)\$\{parameters\.([^}]*)\}")
_NAME: Final = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NUMBER: Final = re.compile(r"-?[0-9]{1,32}(\.[0-9]{1,32})?([eE][-+]?[0-9]{1,3})?", re.ASCII)

AnyValue = str | int | float | bool


class ParameterFields(Model):
    """A value that a submission may set, and its bounds."""

    name: Annotated[str, Field(pattern=_NAME, max_length=63)]
    """Referred to as ${parameters.NAME}."""
    type: Literal["string", "integer", "number", "boolean"]
    """string, integer, number or boolean."""
    description: Sentence = ""
    """A sentence for submitters."""
    default: AnyValue | None = None
    """The value of a submission that sets none. Without it every submission has to."""
    enum: Annotated[list[AnyValue], Field(max_length=64)] = Field(default_factory=list)
    """The values that are allowed; all within the bounds when empty."""
    minimum: float | None = None
    """Least value, of an integer or number."""
    maximum: float | None = None
    """Greatest value, of an integer or number."""
    max_length: Annotated[int, Field(ge=1, le=TEXT_MAX)] = TEXT_USUAL
    """Most characters of a string."""

    @model_validator(mode="after")
    def _bounds_fit(self) -> "ParameterFields":
        numeric = self.type in ("integer", "number")
        if not numeric and (self.minimum is not None or self.maximum is not None):
            raise PydanticCustomError("bounds", "minimum and maximum are for integer and number")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise PydanticCustomError("bounds", "minimum is greater than maximum")
        for given in (*self.enum, *(() if self.default is None else (self.default,))):
            if problem := value_problem(self.parameter(), given):
                raise PydanticCustomError("value", "{problem}", {"problem": problem})
        return self

    def parameter(self) -> Parameter:
        """As the gateway uses it."""
        return Parameter(
            self.name,
            self.type,
            self.default,
            tuple(self.enum),
            self.minimum,
            self.maximum,
            self.max_length,
            self.description,
        )


class BuildFields(Model):
    """How the version was built. The store's properties stand in for fields that are left out; the
    signed provenance decides."""

    version: ShortText = ""
    """Id of the version."""
    commit: ShortText = ""
    """Commit of the source."""
    branch: ShortText = ""
    """Branch of the source."""
    builder: ShortText = ""
    """Builder, such as the address of a CI workflow."""
    time: ShortText = ""
    """When it was built (RFC 3339)."""


class WorkflowMetadata(Model):
    """Metadata of a workflow."""

    name: ObjectName
    """Name of the workflow, as submissions address it."""


class WorkflowFile(Model):
    """One version of a workflow: objects of the federation's kinds, submitted together, and the
    parameters that a submission may set."""

    api_version: Literal["federation.pinterest.com/v1alpha1"]
    """federation.pinterest.com/v1alpha1."""
    kind: Literal["Workflow"]
    """Workflow."""
    metadata: WorkflowMetadata
    """Metadata."""
    parameters: Annotated[list[ParameterFields], Field(max_length=64)] = Field(default_factory=list)
    """Values that a submission may set. Texts of the objects refer to them as ${parameters.NAME}.
    """
    build: BuildFields = Field(default_factory=BuildFields)
    """How the version was built."""
    objects: Annotated[list[AnyObject], Field(min_length=1, max_length=32)]
    """The objects, without a namespace: that of the submission is used."""

    @model_validator(mode="after")
    def _names_differ(self) -> "WorkflowFile":
        listed = [each.name for each in self.parameters]
        if twice := sorted({name for name in listed if listed.count(name) > 1}):
            raise PydanticCustomError(
                "twice", "parameter {name} is declared twice", {"name": twice[0]}
            )
        return self


def load(file: bytes, properties: Mapping[str, str] | None = None) -> Workflow:
    """Reads a workflow file; the store's properties stand in for what its build leaves out. Raises
    ArtifactRefused."""
    if len(file) > FILE_MAX:
        message = f"has {len(file)} bytes; a workflow file has at most {FILE_MAX}"
        raise refused(Reason.FILE_INVALID, "workflow", message)
    try:
        documents = decoding.from_yaml(file.decode(), LIMITS)
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 at byte {error.start}"
        raise refused(Reason.FILE_INVALID, "workflow", message) from None
    except FieldError as error:
        path = errors.join("workflow", error.path)
        raise refused(Reason.FILE_INVALID, path, error.message) from None
    if len(documents) != 1:
        message = f"holds {len(documents)} documents; a workflow file holds one"
        raise refused(Reason.FILE_INVALID, "workflow", message)
    try:
        model = WorkflowFile.model_validate(documents[0])
    except ValidationError as error:
        problems = read.from_pydantic(error, documents[0])
        raise ArtifactRefused(*_problems(problems[: read.MAX_PROBLEMS], "workflow")) from None
    if problems := list(_static_problems(model))[: read.MAX_PROBLEMS]:
        raise ArtifactRefused(*_problems(problems, "workflow"))
    stated = {**(properties or {}), **raw.present(model.build.model_dump())}
    return Workflow(
        model.metadata.name,
        tuple(each.parameter() for each in model.parameters),
        tuple(model.objects),
        Build(**{name: stated.get(name, "") for name in BuildFields.model_fields}),
    )


def _problems(
    pairs: Sequence[tuple[str, str]], root: str, reason: Reason = Reason.FILE_INVALID
) -> list[Problem]:
    return [Problem(reason, errors.join(root, path), message) for path, message in pairs]


def _static_problems(model: WorkflowFile) -> Iterator[tuple[str, str]]:
    """What is wrong with the objects whatever the parameters are."""
    declared = {each.name for each in model.parameters}
    known_names: set[tuple[str, str]] = set()
    kinds, first = table.PLATFORMS.kinds, ""
    for index, obj in enumerate(model.objects):
        path = f"objects[{index}]"
        kind = raw.text(obj, "kind")
        if kind not in kinds:
            known = ", ".join(kinds)
            yield f"{path}.kind", f"{kind[:80]!r} is not a kind that is submitted: {known}"
            continue
        for field in raw.mapping(obj, "metadata"):
            if field not in _METADATA:
                known = ", ".join(_METADATA)
                yield f"{path}.metadata.{field}", f"a workflow sets only {known}"
        named = f"{kind}/{raw.text(obj, 'metadata', 'name')[:80]}"
        first = first or named
        yield from _platform_problems(named, first, path)
        if "status" in obj:
            yield f"{path}.status", "is written by the platform"
        key = kind, raw.text(obj, "metadata", "name")
        if key in known_names:
            yield f"{path}.metadata.name", "an object of this kind and name is there twice"
        known_names.add(key)
        yield from _mark_problems(obj, path)
        yield from _reference_problems(obj, path, declared)


def _platform_problems(named: str, first: str, path: str) -> Iterator[tuple[str, str]]:
    """An object (KIND/NAME) of another platform than the first one of the file."""
    own, theirs = (table.PLATFORMS.name_of(each.partition("/")[0]) for each in (named, first))
    if own != theirs:
        message = (
            f"{named} runs on the platform {own}, and {first} on {theirs}: a workflow is for one"
            " platform, so put its objects into two files"
        )
        yield f"{path}.kind", message


def _mark_problems(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Labels and annotations of the object and of its templates that a file must not set."""
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _mark_problems(entry, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    for key, entry in value.items():
        under = errors.join(path, key)
        if key == "metadata" and isinstance(entry, dict):
            for field in ("labels", "annotations"):
                for name in filter(_is_reserved, raw.mapping(entry, field)):
                    domain = name.partition("/")[0]
                    message = f"labels and annotations of {domain} are not for workflow files"
                    yield f"{under}.{field}[{name}]", message
        yield from _mark_problems(entry, under)


def _is_reserved(name: str) -> bool:
    domain, slash, _ = name.lower().partition("/")
    ours = any(domain == each or domain.endswith(f".{each}") for each in _OURS)
    return bool(slash) and (ours or domain == _RESERVED) and name not in _HARMLESS


def _reference_problems(value: Any, path: str, declared: set[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        for escape, name in _REFERENCE.findall(value):
            if not escape and name not in declared:
                yield path, f"refers to a parameter that is not declared: {name[:80]!r}"
    elif isinstance(value, dict):
        for key, entry in value.items():
            if _REFERENCE.search(key):
                yield path, "parameters are filled into values, not into names of fields"
            yield from _reference_problems(entry, errors.join(path, key), declared)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _reference_problems(entry, f"{path}[{index}]", declared)


def value_problem(parameter: Parameter, value: Value) -> str:
    """Why the value is none of this parameter, "" when it is one."""
    wanted = _TYPES[parameter.type]
    if not isinstance(value, wanted) or (isinstance(value, bool) != (wanted is bool)):
        return f"must be {'an' if parameter.type == 'integer' else 'a'} {parameter.type}"
    if isinstance(value, int) and value not in INT64:
        return "is an integer of more than 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if parameter.enum and value not in parameter.enum:
        allowed = ", ".join(map(text_of, parameter.enum))
        return f"must be one of {allowed}"
    if isinstance(value, str):
        if len(value) > parameter.max_length:
            return f"has {len(value)} characters, at most {parameter.max_length} are allowed"
        if any(map(_is_control, value)):
            return "holds a control character"
        return ""
    if parameter.minimum is not None and value < parameter.minimum:
        return f"is {text_of(value)}, less than the minimum {parameter.minimum:g}"
    if parameter.maximum is not None and value > parameter.maximum:
        return f"is {text_of(value)}, more than the maximum {parameter.maximum:g}"
    return ""


def _is_control(character: str) -> bool:
    """Controls, marks of direction, halves of characters, and line ends that only Unicode knows."""
    category = unicodedata.category(character)
    return character not in "\n\t" and (category[0] == "C" or category in ("Zl", "Zp"))


def text_of(value: Value) -> str:
    """A value within other text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def values(declared: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Value]:
    """The value of each declared parameter. A text for a parameter of another type is read as its
    literal, as command lines give it. Raises ArtifactRefused with all problems."""
    problems: list[tuple[str, str]] = []
    known = {each.name for each in declared}
    problems += [(name[:80], "is not declared") for name in given if name not in known]
    filled: dict[str, Value] = {}
    for each in declared:
        value = given.get(each.name)
        if value is None:
            if each.default is None:
                problems.append((each.name, f"is required (a value of type {each.type})"))
            else:
                filled[each.name] = each.default
            continue
        if isinstance(value, str) and each.type != "string":
            value = _literal(each.type, value)
        if problem := value_problem(each, value):
            problems.append((each.name, problem))
        filled[each.name] = value
    if problems:
        shown = problems[: read.MAX_PROBLEMS]
        raise ArtifactRefused(*_problems(shown, "parameters", Reason.PARAMETER_INVALID))
    return filled


def _literal(type_: str, text: str) -> Value:
    """The value that a text spells; the text itself when it spells none."""
    if type_ == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if type_ == "number" and _NUMBER.fullmatch(text) else text


def render(
    workflow: Workflow, given: Mapping[str, Any], namespace: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, Value]]:
    """The objects in the namespace with all parameters filled in, valid to the schemas of their
    kinds, and the values. Raises ArtifactRefused."""
    filled = values(workflow.parameters, given)
    filling = _Filling(filled)
    objects = tuple(_placed(filling.filled(obj), namespace) for obj in workflow.objects)
    problems: list[Problem] = []
    for index, obj in enumerate(objects):
        root = f"workflow.objects[{index}]"
        kind = table.PLATFORMS.kinds[raw.text(obj, "kind")]
        if (given_version := raw.text(obj, "apiVersion")) != kind.api_version:
            message = f"must be {kind.api_version} for a {kind.kind}, not {given_version[:80]!r}"
            problems += _problems([("apiVersion", message)], root)
            continue
        problems += _problems([(each.path, each.message) for each in kind.problems(obj)], root)
    if problems:
        raise ArtifactRefused(*problems[: read.MAX_PROBLEMS])
    return objects, filled


def _placed(obj: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**obj, "metadata": {**raw.mapping(obj, "metadata"), "namespace": namespace}}


def project_of(obj: Obj, namespace: str) -> str:
    """The project of an object in this namespace."""
    kind = table.PLATFORMS.kinds[raw.text(obj, "kind")]
    return kind.project(_placed(dict(obj), namespace))


class _Filling:
    """Fills values into copies of objects, within a bound on all texts together."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values
        self.left = RENDERED_MAX

    def filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {key: self.filled(entry) for key, entry in value.items()}
        return [self.filled(entry) for entry in value] if isinstance(value, list) else value

    def _text(self, text: str) -> Any:
        whole = _REFERENCE.fullmatch(text)
        if whole is not None and not whole[1]:
            result: Any = self.values[whole[2]]
        else:
            result = _REFERENCE.sub(self._within, text)
        if isinstance(result, str):
            self.left -= len(result)
            if self.left < 0:
                message = f"its objects have more than {RENDERED_MAX} characters of text"
                raise refused(Reason.FILE_INVALID, "workflow.objects", message)
        return result

    def _within(self, match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else text_of(self.values[match[2]])
