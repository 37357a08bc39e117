"""Every setting, in groups, with its default. `config/federator.yaml` is this file as data, with the reasons; a test
compares.

Read once at start from a YAML file and from `FEDERATOR_GROUP__NAME` variables (which win). Unknown keys are errors.
Nothing else in the package reads the environment for settings.
"""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from federator.api import decoding
from federator.hub.options import HubOptions
from federator.member.options import MemberOptions
from federator.model.errors import FieldError

PREFIX = "FEDERATOR_"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is written to stderr."""

    level: Annotated[str, Field(pattern="(?i)^(debug|info|warning|error)$")] = "info"
    """debug, info, warning or error."""
    format: str = "auto"
    """json, console, or auto: console on a terminal."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The port for metrics and probes."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 in a pod."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0 takes a free port and logs it."""
    enabled: bool = True
    """False where nothing may listen."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All groups."""

    hub: HubOptions = field(default_factory=HubOptions)
    member: MemberOptions = field(default_factory=MemberOptions)
    log: LogOptions = field(default_factory=LogOptions)
    serve: ServeOptions = field(default_factory=ServeOptions)


def load(path: str = "", environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from a file (if one is named) and the environment. Raises FieldError with the setting's path."""
    given: dict[str, dict[str, Any]] = {}
    if path:
        try:
            document = _value(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as bad:
            raise FieldError("", f"the settings file {path} cannot be read: {bad}") from None
        except FieldError as bad:
            raise FieldError(bad.path, f"the settings file {path} cannot be read: {bad.message}") from None
        if not isinstance(document, Mapping | None):
            raise FieldError("", f"the settings file {path} must hold groups of settings")
        for group, values in (document or {}).items():
            if not isinstance(values, Mapping | None):
                raise FieldError(group, f"the settings file {path} must hold settings of the group here, by name")
            given[group] = dict(values or {})
    for name, text in sorted((os.environ if environ is None else environ).items()):
        group, found, setting = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and found:
            try:
                # An empty variable is an empty text, as a manifest means it, and not YAML's null.
                given.setdefault(group, {})[setting] = _value(text) if text else ""
            except FieldError as bad:
                raise FieldError(f"{group}.{setting}", f"{name} cannot be read: {bad.message}") from None
    return _checked(given)


def _value(text: str) -> Any:
    """The one document of a YAML text, None for an empty one. Raises FieldError."""
    documents = decoding.from_yaml(text)
    if len(documents) > 1:
        raise FieldError("", f"one document is expected, not {len(documents)}")
    return documents[0] if documents else None


def _checked(given: Mapping[str, Mapping[str, Any]]) -> Settings:
    groups = {found.name: found for found in dataclasses.fields(Settings)}
    made: dict[str, Any] = {}
    for group, values in given.items():
        if group not in groups:
            raise FieldError(group, f"there is no group of settings {group!r}; there are {', '.join(sorted(groups))}")
        kind = type(getattr(Settings(), group))
        known = {found.name for found in dataclasses.fields(kind)}
        for name in values:
            if name not in known:
                raise FieldError(f"{group}.{name}", f"there is no setting {name!r} in the group {group!r}")
        try:
            made[group] = TypeAdapter(kind).validate_python(dict(values))
        except ValidationError as bad:
            first = bad.errors()[0]
            place = ".".join([group, *(str(part) for part in first["loc"])])
            raise FieldError(place, f"{first['msg']}, not {first['input']!r}") from None
    return dataclasses.replace(Settings(), **made)


def defaults() -> dict[str, dict[str, Any]]:
    """Every setting at its default, by group: what `config/federator.yaml` must say."""
    return {name: plain(values) for name, values in dataclasses.asdict(Settings()).items()}


def groups() -> dict[str, type]:
    """The dataclass of every group, by its name."""
    return {found.name: type(getattr(Settings(), found.name)) for found in dataclasses.fields(Settings)}


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as YAML has them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
