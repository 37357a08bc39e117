"""`spec.overrides` of placement policies: schema, checks and conversion to the core's overrides.

API servers check the types and the paths of patches. What a schema cannot express (resources inside
the value of a patch) is checked by the models, and again when the hub reads a policy.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.clusterchoice import Selector, selector_of
from federator.api.common import (
    ATOMIC,
    LIST_SET,
    ClusterName,
    DnsLabel,
    LabelKey,
    Model,
    list_map,
    many,
    rules,
)
from federator.api.raw import Obj
from federator.model import names, overrides
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.model.overrides import Override

FIELDS: Final = ("image", "command", "args", "env", "labels", "annotations", "jsonPatch")
"""What an entry may change, in the order in which it is applied."""
EMPTY_RULE = (
    " || ".join(f"has(self.{name})" for name in FIELDS),
    f"an override changes at least one of {', '.join(FIELDS)}",
)
IMAGE_RULE = (
    "has(self.registry) || has(self.repository) || has(self.tag)",
    "an image has at least one of registry, repository, tag",
)
RESOURCES: Final = (
    r"/(containers|initContainers)/[^/]+/resources(/|$)|/template/spec/resources(/|$)"
)
RESOURCES_RULE = (
    f"!self.path.matches('{RESOURCES}')",
    "an override cannot change requests or limits: the shape of a copy is one for all clusters",
)
VALUE: Final = "add, replace and test have a value, remove has none"
"""Not a rule of the schema: CEL cannot read a field without a type."""
PRIVATE_RULE = (
    f"self.all(key, !key.startsWith('{names.FEDERATION}/'))",
    f"keys that begin with {names.FEDERATION}/ are the federation's own",
)
PATH: Final = r"^/(metadata/(labels|annotations)/[^/]+|spec/(config|template|components)(/.+)?)$"
Text = Annotated[str, Field(max_length=4096)]
Notes = Annotated[dict[LabelKey, Text], Field(max_length=64, json_schema_extra=rules(PRIVATE_RULE))]


class OverrideClusters(Selector):
    """The clusters in which an override applies; all requirements must hold."""

    names: list[ClusterName] = many(1000, LIST_SET)
    """Only these clusters; empty for all."""


class ImageFields(Model):
    """Parts of an image that are replaced; others stay."""

    model_config = ConfigDict(json_schema_extra=rules(IMAGE_RULE))

    registry: Annotated[str, Field(max_length=253)] | None = None
    """Host of the registry, such as gcr.example:5000, with a path below it where there is one."""
    repository: Annotated[str, Field(max_length=253)] | None = None
    """Path below the registry, such as team/app."""
    tag: Annotated[str, Field(max_length=128)] | None = None
    """Tag, or a digest such as sha256:0123. It replaces both."""

    @model_validator(mode="after")
    def _changes_something(self) -> "ImageFields":
        if self.registry is None and self.repository is None and self.tag is None:
            raise PydanticCustomError("image", IMAGE_RULE[1])
        return self


class Variable(Model):
    """An environment variable."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Its name."""
    value: Text = ""
    """Its value."""


class PatchFields(Model):
    """One operation of a JSON Patch (RFC 6902)."""

    model_config = ConfigDict(json_schema_extra=rules(RESOURCES_RULE))

    op: Literal["add", "remove", "replace", "test"]
    """What is done. test refuses the whole override for a workload with another value there."""
    path: Annotated[str, Field(max_length=512, pattern=PATH)]
    """Pointer into the workload's object: below /spec/template, /spec/components or /spec/config,
    or a key of /metadata/labels or /metadata/annotations."""
    value: Any | None = None
    """Value for add, replace and test."""

    @model_validator(mode="after")
    def _keeps_the_shape(self) -> "PatchFields":
        if ("value" in self.model_fields_set) == (self.op == "remove"):
            raise PydanticCustomError("value", VALUE)
        if touches_resources(self.path, self.value):
            raise PydanticCustomError("resources", RESOURCES_RULE[1])
        return self


class OverrideFields(Model):
    """What differs in the slices of some clusters."""

    model_config = ConfigDict(json_schema_extra=rules(EMPTY_RULE))

    clusters: OverrideClusters | None = None
    """In which clusters; all when left out."""
    containers: list[DnsLabel] = many(64, LIST_SET)
    """Containers and init containers that image, command, args and env change. When left out, image
    and env change all of them, command and args the first container."""
    image: ImageFields | None = None
    """Parts of the image."""
    command: Annotated[list[Text], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """Replaces the command."""
    args: Annotated[list[Text], Field(max_length=64, json_schema_extra=ATOMIC)] | None = None
    """Replaces the arguments."""
    env: (
        Annotated[list[Variable], Field(max_length=64, json_schema_extra=list_map("name"))] | None
    ) = None
    """Environment variables; one of the same name is replaced."""
    labels: Notes | None = None
    """Labels of the workload in the cluster, of its native objects and of its pods."""
    annotations: Notes | None = None
    """Annotations of the workload in the cluster and of its pods."""
    json_patch: (
        Annotated[list[PatchFields], Field(max_length=32, json_schema_extra=ATOMIC)] | None
    ) = None
    """A JSON Patch of the workload, after the fields above."""

    @model_validator(mode="after")
    def _can_be_applied(self) -> "OverrideFields":
        entry = self.model_dump(by_alias=True, exclude_unset=True)
        if not any(entry.get(name) for name in FIELDS):
            raise PydanticCustomError("override", EMPTY_RULE[1])
        if (bad := next(_problems(entry, ""), None)) is not None:
            raise PydanticCustomError("override", "{problem}", {"problem": str(bad).lstrip(".")})
        return self


Overrides = Annotated[list[OverrideFields], Field(max_length=16, json_schema_extra=ATOMIC)]


def touches_resources(path: str, value: Any) -> bool:
    """Whether an operation of a patch writes requests or limits, at its path or in its value."""
    inside = path.startswith(("/spec/template", "/spec/components"))
    return inside and (re.search(RESOURCES, path) is not None or _has_resources(value))


def _has_resources(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value.get("resources")) or any(map(_has_resources, value.values()))
    return isinstance(value, list) and any(map(_has_resources, value))


def to_overrides(fields: Obj, policy: str) -> tuple[Override, ...]:
    """The overrides of a policy as the core reads them. `policy`: its kind and name. Total: an
    entry that cannot be used has a `problem`."""
    return tuple(
        _override(entry, f"spec.overrides[{index}]", policy)
        for index, entry in enumerate(raw.items(fields, "overrides"))
    )


def _override(entry: Any, path: str, policy: str) -> Override:
    clusters = raw.mapping(entry, "clusters")
    content = {name: entry[name] for name in ("containers", *FIELDS) if name in (entry or ())}
    bad = next(_problems(content, ""), None)
    labels = {name: value for name, value in clusters.items() if name != "names"}
    selector = selector_of(labels) if labels else None
    problem = str(bad).lstrip(".") if bad is not None else ""
    if selector is selectors.NOTHING:
        selector, problem = None, problem or "clusters: its selector cannot be read"
    return Override(
        policy=policy,
        path=path,
        content=overrides.canonical(content),
        names=raw.texts(clusters, "names"),
        selector=selector,
        problem=problem,
    )


def _problems(content: Obj, path: str) -> Iterator[FieldError]:
    """Why an entry cannot be used in any cluster; paths are below it."""
    for index, operation in enumerate(raw.items(content, "jsonPatch")):
        at = f"{path}.jsonPatch[{index}]"
        pointer = raw.text(operation, "path")
        if not re.fullmatch(PATH, pointer):
            yield FieldError(f"{at}.path", f"must match {PATH}, not {pointer[:80]!r}")
        elif touches_resources(pointer, raw.at(operation, "value")):
            yield FieldError(at, RESOURCES_RULE[1])
        elif ("value" in operation) == (raw.text(operation, "op") == "remove"):
            yield FieldError(at, VALUE)
    for field in ("labels", "annotations"):
        for key in raw.text_map(content, field):
            if key.startswith(f"{names.FEDERATION}/"):
                yield FieldError(f"{path}.{field}.{key}", PRIVATE_RULE[1])
    for name, value in content.items():
        if (bad := overrides.unknown_placeholder(value, f"{path}.{name}")) is not None:
            yield bad
