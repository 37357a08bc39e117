"""All settings, in groups, with their defaults. `config/federator.yaml` has the same as data, with
the reasons; a test compares them.

Read once at start from a YAML file and from `FEDERATOR_GROUP__NAME` variables, which override it.
Unknown keys are errors. No other module reads the environment for settings.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from federator.api import decoding
from federator.dashboard.options import DashboardOptions
from federator.gateway.options import GatewayOptions
from federator.hub.history.options import HistoryOptions
from federator.hub.options import HubOptions
from federator.hub.query.options import QueryOptions
from federator.member.options import MemberOptions
from federator.model.errors import FieldError
from federator.model.kubernetes import selectors
from federator.process.oidc.options import OidcOptions
from federator.signer.options import SignerOptions

PREFIX = "FEDERATOR_"

MAY_BE_ZERO = frozenset(
    {
        "hub.batch_linger_s",  # a batch is taken at once
        "hub.capacity_copy_permille",  # every change is worth a copy
        "hub.deletions_permille",  # only the floor goes without waiting
        "hub.workload_probe_interval_s",  # no cluster is probed on a schedule
        "member.capacity_small_permille",  # no change is small
        "query.port",  # any free one
        "serve.port",  # any free one
    }
)
"""Settings that may be 0. A pause of 0 s would be a busy loop, and 0 workers do nothing."""


def _fleet(text: str) -> str | None:
    return selectors.check_label_value(text) if text else "a fleet has a name"


NAMES: Mapping[str, Callable[[str], str | None]] = {
    "hub.fleet": _fleet,
    "hub.credentials_namespace": selectors.dns1123_label,
    "gateway.secrets_namespace": selectors.dns1123_label,
    "hub.system_namespace": selectors.dns1123_label,
    "hub.lease_name": selectors.dns1123_subdomain,
    "member.system_namespace": selectors.dns1123_label,
}
"""Setting -> function that says why a text is no valid Kubernetes name, or None."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is written to stderr."""

    level: Annotated[str, Field(pattern="(?i)^(debug|info|warning|error)$")] = "info"
    """debug, info, warning or error."""
    format: Literal["json", "console", "auto"] = "auto"
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
    query: QueryOptions = field(default_factory=QueryOptions)
    history: HistoryOptions = field(default_factory=HistoryOptions)
    dashboard: DashboardOptions = field(default_factory=DashboardOptions)
    oidc: OidcOptions = field(default_factory=OidcOptions)
    gateway: GatewayOptions = field(default_factory=GatewayOptions)
    signer: SignerOptions = field(default_factory=SignerOptions)


def load(
    path: str = "",
    environ: Mapping[str, str] | None = None,
    *,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Settings:
    """Settings from a file (if given), the environment, and the command line (`overrides`, by
    group); later ones win. Raises FieldError with the setting's path."""
    given: dict[str, dict[str, Any]] = {}
    if path:
        try:
            document = _value(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as bad:
            raise FieldError("", f"the settings file {path} cannot be read: {bad}") from None
        except FieldError as bad:
            raise FieldError(
                bad.path, f"the settings file {path} cannot be read: {bad.message}"
            ) from None
        if not isinstance(document, Mapping | None):
            raise FieldError("", f"the settings file {path} must hold groups of settings")
        for group, values in (document or {}).items():
            if not isinstance(values, Mapping | None):
                raise FieldError(
                    group, f"the settings file {path} must hold settings of the group here, by name"
                )
            given[group] = dict(values or {})
    fields = defaults()
    for name, text in sorted((os.environ if environ is None else environ).items()):
        group, dot, setting = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and dot:
            try:
                # An empty variable is an empty text, as in a manifest, not YAML's null.
                is_text = not text or isinstance(fields.get(group, {}).get(setting), str)
                given.setdefault(group, {})[setting] = text if is_text else _value(text)
            except FieldError as bad:
                raise FieldError(
                    f"{group}.{setting}", f"{name} cannot be read: {bad.message}"
                ) from None
    for group, values in (overrides or {}).items():
        given.setdefault(group, {}).update(values)
    return _checked(given)


def _value(text: str) -> Any:
    """The one document of a YAML text, None for an empty one. Raises FieldError."""
    documents = decoding.from_yaml(text)
    if len(documents) > 1:
        raise FieldError("", f"one document is expected, not {len(documents)}")
    return documents[0] if documents else None


def _checked(given: Mapping[str, Mapping[str, Any]]) -> Settings:
    groups = {field.name: field for field in dataclasses.fields(Settings)}
    made: dict[str, Any] = {}
    for group, values in given.items():
        if group not in groups:
            raise FieldError(
                group,
                f"there is no group of settings {group!r}; there are {', '.join(sorted(groups))}",
            )
        kind = type(getattr(Settings(), group))
        names = {field.name for field in dataclasses.fields(kind)}
        for name in values:
            if name not in names:
                raise FieldError(
                    f"{group}.{name}", f"there is no setting {name!r} in the group {group!r}"
                )
        try:
            made[group] = TypeAdapter(kind).validate_python(dict(values))
        except ValidationError as bad:
            first = bad.errors()[0]
            place = ".".join([group, *(str(part) for part in first["loc"])])
            raise FieldError(place, f"{first['msg']}, not {first['input']!r}") from None
        for name in values:
            _check(f"{group}.{name}", getattr(made[group], name))
    settings = dataclasses.replace(Settings(), **made)
    _check_together(settings)
    return settings


def _check(path: str, value: object) -> None:
    """Checks one value by itself. Raises FieldError."""
    problem = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        problem = _misfit(path, value)
    elif path in NAMES:
        problem = NAMES[path](str(value))
    if problem:
        raise FieldError(path, problem)


def _misfit(path: str, number: float) -> str | None:
    """What is wrong with a number, or None."""
    if number < 0 or (number == 0 and path not in MAY_BE_ZERO):
        return f"must be {'0 or more' if path in MAY_BE_ZERO else 'more than 0'}, not {number}"
    if path.endswith("_permille") and number > 1000:
        return f"must be at most 1000, not {number}"
    return None if math.isfinite(number) else f"must be finite, not {number}"


def _check_together(settings: Settings) -> None:
    """Checks settings that depend on each other. Raises FieldError."""
    hub = settings.hub
    _check_query(settings.query)
    settings.oidc.check()
    settings.gateway.check()
    try:
        hub.lease()
    except ValueError as bad:
        raise FieldError("hub.lease_duration_s", str(bad)) from None
    try:
        hub.fence()
    except ValueError as bad:
        raise FieldError("hub.fence_lease_s", str(bad)) from None
    if hub.unready_after_s <= hub.probe_interval_s:
        raise FieldError(
            "hub.unready_after_s",
            f"must be longer than hub.probe_interval_s ({hub.probe_interval_s:g} s), not"
            f" {hub.unready_after_s:g}:"
            " members would be called silent between two probes",
        )


def _check_query(query: QueryOptions) -> None:
    """Checks settings of the query port that depend on each other. Raises FieldError."""
    files = {"cert_file": query.cert_file, "key_file": query.key_file, "ca_file": query.ca_file}
    missing = [name for name, path in files.items() if not path]
    if 0 < len(missing) < len(files):
        raise FieldError(
            f"query.{missing[0]}",
            "cert_file, key_file and ca_file are given together, or none of them",
        )


def defaults() -> dict[str, dict[str, Any]]:
    """Every setting at its default, by group: what `config/federator.yaml` must say."""
    return {name: plain(values) for name, values in dataclasses.asdict(Settings()).items()}


def groups() -> dict[str, type]:
    """The dataclass of every group, by its name."""
    return {
        field.name: type(getattr(Settings(), field.name)) for field in dataclasses.fields(Settings)
    }


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as YAML has them."""
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }
