"""`spec.runtime`: the secrets and the configuration that the runtime of a workload's pods reads,
and the version of the runtime.

The lists reach the containers of the RuntimeProfile as variables; the role that reads them is named
in their arguments (`federator runtime --roles identity,secrets,config`).
"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from federator.api import raw
from federator.api.common import Model, Moment, checked, list_map, many
from federator.api.raw import Obj
from federator.model import sources
from federator.model.errors import FieldError
from federator.runtime.files import wanted

PATH: Final = "spec.runtime"
ROLES: Final = {"secrets": wanted.SECRETS, "config": wanted.CONFIG}
"""Field of spec.runtime, and role that reads it -> variable."""
PEM: Final = "-----BEGIN CERTIFICATE-----"
BUNDLES: Final = frozenset(
    {
        "FEDERATOR_TRUST_BUNDLE",
        "FEDERATOR_SECRETS_TRUST_BUNDLE",
        "FEDERATOR_CONFIG_TRUST_BUNDLE",
    }
)
"""Variables that hold certificates in PEM."""
DOMAIN: Final = "federator.example"
IMAGES: Final = ("federator:", "federator-runtime:")
"""The images of the project as they are named before they are in a registry."""


def _artifact_problem(text: str) -> str:
    try:
        sources.reference(text)
    except FieldError as bad:
        return bad.message
    return ""


def _moment_problem(text: str) -> str:
    if raw.epoch_s(text) > 0:
        return ""
    return f"{text[:40]!r} is no time such as 2027-03-01T00:00:00Z"


_Path = Annotated[
    str,
    Field(
        min_length=1,
        max_length=wanted.PATH_MAX,
        json_schema_extra={"pattern": r"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$"},
    ),
    checked("relative_path", wanted.path_problem),
]


class RuntimeSecret(Model):
    """A secret that the pods read with their certificate."""

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=wanted.NAME_MAX,
            json_schema_extra={"pattern": r"^[A-Za-z0-9_.:/-]+(#[A-Za-z0-9_.:-]+)?$"},
        ),
        checked("secret_name", wanted.name_problem),
    ]
    """Its name in the store, such as ads/db for all its values, or ads/db#password for one."""
    path: _Path
    """Below the folder of secrets: a folder with one file for each value, or the file of the one
    value."""
    mode: Annotated[int, Field(ge=0, le=0o777, json_schema_extra={"format": "int32"})] | None = None
    """Permissions of the files; 0444 when left out. JSON has no octal numbers: 0400 is 256."""


class RuntimeArtifact(Model):
    """An artifact that is on disk before the containers of the workload start."""

    artifact: Annotated[
        str, Field(min_length=1, max_length=sources.LONGEST), checked("artifact", _artifact_problem)
    ]
    """oci://HOST/REPOSITORY for an artifact of an OCI registry with one layer; https://HOST/PATH
    for a file of an HTTP repository. Archives (.tar, .tar.gz, .tgz, and layers that are tar) are
    unpacked."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """sha256:... of the manifest in the registry, or of the file."""
    path: _Path
    """Below the folder of configuration: the file, or the folder of an archive."""


class RuntimeVersion(Model):
    """A version of the RuntimeProfile to keep for a time."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    """`spec.version` of the RuntimeProfile in that version."""
    until: Annotated[Moment, checked("moment", _moment_problem)]
    """Until then the pods keep that version, whatever newer one there is; afterwards they get the
    present one in a roll-out."""


class RuntimeFields(Model):
    """What the runtime of the pods does for the workload."""

    secrets: list[RuntimeSecret] = many(wanted.SECRETS_MAX, list_map("path"))
    """Secrets, as files in memory; new versions follow while the pods run."""
    config: list[RuntimeArtifact] = many(wanted.CONFIG_MAX, list_map("path"))
    """Artifacts by digest, as files."""
    version: RuntimeVersion | None = None
    """The version of the RuntimeProfile that the pods keep for a time; the newest when left out."""

    @model_validator(mode="after")
    def _apart(self) -> "RuntimeFields":
        for field, entries in (("secrets", self.secrets), ("config", self.config)):
            paths = [entry.path for entry in entries]
            if (pair := wanted.overlap(paths)) is not None:
                first, second = pair
                raise PydanticCustomError(
                    "overlap",
                    "{field}[{second}].path {path} is, or lies below, the path of {field}[{first}]",
                    {"field": field, "first": first, "second": second, "path": paths[second]},
                )
        return self


# -- reading ------------------------------------------------------------------


def carried(runtime: Obj) -> dict[str, Any]:
    """What of spec.runtime the pods are made from: all but the version."""
    return {name: runtime[name] for name in ROLES if runtime.get(name)}


def check(obj: Obj, profile: Obj | None) -> None:
    """Raises FieldError if a workload names something that no container of its RuntimeProfile
    reads: its pods would start without it."""
    runtime = raw.mapping(obj, "spec", "runtime")
    if not runtime:
        return
    for field in ROLES:
        entries = raw.objects(runtime, field)
        if entries and not _reads(profile, field):
            name = raw.text(profile or raw.NO_FIELDS, "metadata", "name") or "default"
            raise FieldError(
                f"{PATH}.{field}",
                f"RuntimeProfile {name!r} has no container that reads this: its arguments have to"
                f" be runtime --roles with {field!r} among them",
            )
        paths = [raw.text(entry, "path") for entry in entries]
        if (pair := wanted.overlap(paths)) is not None:
            first, second = pair
            raise FieldError(
                f"{PATH}.{field}[{second}].path",
                f"{paths[second]!r} is, or lies below, the path of entry {first}, {paths[first]!r}",
            )


def _reads(profile: Obj | None, role: str) -> bool:
    support = raw.mapping(profile or raw.NO_FIELDS, "spec")
    return any(
        role in _roles(entry)
        for field in ("initContainers", "sidecars")
        for entry in raw.objects(support, field)
    )


def _roles(entry: Obj) -> set[str]:
    """The roles of `runtime --roles A,B` or `--roles=A,B` in the command of a container."""
    container = raw.mapping(entry, "container")
    words = [
        str(word)
        for field in ("command", "args")
        for word in (container.get(field) or ())
        if isinstance(container.get(field), list)
    ]
    named: set[str] = set()
    for index, word in enumerate(words):
        if word == "--roles" and index + 1 < len(words):
            named |= set(words[index + 1].split(","))
        elif word.startswith("--roles="):
            named |= set(word.removeprefix("--roles=").split(","))
    return {role.strip() for role in named}


def with_variables(obj: Obj, pod: Obj, own: frozenset[str]) -> dict[str, Any]:
    """The pod with the lists as variables in all containers that are not the workload's own. A
    workload without them gets the pod as it is: an upgrade restarts nothing."""
    runtime = raw.mapping(obj, "spec", "runtime")
    given = [
        {"name": variable, "value": json.dumps(entries, sort_keys=True, separators=(",", ":"))}
        for field, variable in ROLES.items()
        if (entries := raw.objects(runtime, field))
    ]
    if not given:
        return dict(pod)
    out = dict(pod)
    for field in ("initContainers", "containers"):
        if field in out:
            out[field] = [
                _given(container, given) if container.get("name") not in own else container
                for container in raw.objects(pod, field)
            ]
    return out


def _given(container: Obj, given: list[dict[str, Any]]) -> dict[str, Any]:
    own = raw.objects(container, "env")
    taken = {entry.get("name") for entry in own}
    return {**container, "env": [*own, *(each for each in given if each["name"] not in taken)]}


def unset(profile: Obj) -> Iterator[FieldError]:
    """Images and variables of a RuntimeProfile of `config` that an operator has to set, and has
    left as they were."""
    for field in ("initContainers", "sidecars"):
        for at, entry in enumerate(raw.objects(raw.mapping(profile, "spec"), field)):
            container = raw.mapping(entry, "container")
            if raw.text(container, "image").startswith(IMAGES):
                yield FieldError(
                    f"spec.{field}[{at}].container.image",
                    f"{raw.text(container, 'image')[:60]!r} names no registry; push the image to"
                    " yours, and put its address there (config/profiles/README.md)",
                )
            for index, variable in enumerate(raw.objects(container, "env")):
                if problem := _unset(raw.text(variable, "name"), raw.text(variable, "value")):
                    path = f"spec.{field}[{at}].container.env[{index}].value"
                    yield FieldError(path, problem)


def _unset(name: str, value: str) -> str:
    if name in BUNDLES and value and PEM not in value:
        return (
            f"{name} holds no certificate in PEM, but {value[:60]!r}; put the root of your trust"
            " domain there (config/profiles/README.md)"
        )
    if name == "FEDERATOR_TRUST_DOMAIN" and value == DOMAIN:
        return f"{name} is the example {DOMAIN!r}; put your trust domain there, as in the signer"
    return ""
