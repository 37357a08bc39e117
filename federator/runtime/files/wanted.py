"""The secrets and the configuration that a workload names, as the runtime of its pods gets them.
Pure; the schema of workloads uses the same rules.

Both come as JSON in a variable of the injected containers: lists of what `spec.runtime.secrets` and
`spec.runtime.config` say.
"""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from federator.model import sources
from federator.model.errors import FieldError
from federator.model.sources import Reference

SECRETS: Final = "FEDERATOR_SECRETS"
CONFIG: Final = "FEDERATOR_CONFIG"
SECRETS_MAX: Final = 64
CONFIG_MAX: Final = 16
MODE: Final = 0o444
"""Of a secret that says none: containers of the pod run under users that nobody knows here."""
PATH_MAX: Final = 512
NAME_MAX: Final = 512
SEGMENT: Final = re.compile(r"(?!\.\.)[A-Za-z0-9_.-]{1,128}", re.ASCII)
"""A name of a file or folder; names that begin with .. are ours."""
_NAME: Final = re.compile(
    r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]*(/[A-Za-z0-9_:-][A-Za-z0-9_.:-]*)*(#[A-Za-z0-9_.:-]+)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class SecretFile:
    """One entry of `spec.runtime.secrets`."""

    name: str
    """In the store, without a value."""
    value: str
    """The one value that is wanted, as the file `path`; "" for all of them, as files in the folder
    `path`."""
    path: str
    mode: int = MODE


@dataclass(frozen=True, slots=True)
class ConfigTree:
    """One entry of `spec.runtime.config`."""

    artifact: Reference
    digest: str
    path: str


def path_problem(path: str) -> str:
    """Why a text is no path below a folder, "" if it is one."""
    if len(path) <= PATH_MAX and all(map(SEGMENT.fullmatch, path.split("/"))) and path != ".":
        return ""
    return (
        f"{path[:80]!r} is no relative path: letters, digits and . _ - between slashes, and no part"
        " that begins with .."
    )


def name_problem(name: str) -> str:
    """Why a text is no name of a secret, "" if it is one."""
    if len(name) <= NAME_MAX and _NAME.fullmatch(name):
        return ""
    return (
        f"{name[:80]!r} is no name of a secret: letters, digits and . _ : - between slashes, like"
        " ads/db, and #VALUE for one value of it"
    )


def overlap(paths: Sequence[str]) -> tuple[int, int] | None:
    """Indexes of two paths of which one is, or lies below, the other; None if there are none."""
    ordered = sorted((path.split("/"), index) for index, path in enumerate(paths))
    for (above, first), (below, second) in itertools.pairwise(ordered):
        if below[: len(above)] == above:
            return first, second
    return None


def secrets(text: str) -> tuple[SecretFile, ...]:
    """Reads the variable; empty for "". Raises FieldError."""
    files = []
    for index, entry in enumerate(_entries(text, SECRETS_MAX)):
        where = f"[{index}]"
        name, path = _text(entry, "name", where), _text(entry, "path", where)
        _refuse(name_problem(name), f"{where}.name")
        _refuse(path_problem(path), f"{where}.path")
        mode = entry.get("mode", MODE)
        if type(mode) is not int or not 0 <= mode <= 0o777:
            raise FieldError(f"{where}.mode", f"{mode!r} is no mode from 0 to 511 (0777)")
        bare, _, value = name.partition("#")
        files.append(SecretFile(bare, value, path, mode))
    _apart([each.path for each in files])
    return tuple(files)


def config(text: str) -> tuple[ConfigTree, ...]:
    """Reads the variable; empty for "". Raises FieldError."""
    trees = []
    for index, entry in enumerate(_entries(text, CONFIG_MAX)):
        where = f"[{index}]"
        artifact = sources.reference(_text(entry, "artifact", where), f"{where}.artifact")
        digest, path = _text(entry, "digest", where), _text(entry, "path", where)
        if not sources.DIGEST.fullmatch(digest):
            raise FieldError(f"{where}.digest", f"{digest[:80]!r} is no sha256:... digest")
        _refuse(path_problem(path), f"{where}.path")
        trees.append(ConfigTree(artifact, digest, path))
    _apart([each.path for each in trees])
    return tuple(trees)


def _entries(text: str, most: int) -> list[dict[str, Any]]:
    try:
        entries = json.loads(text) if text else []
    except (ValueError, RecursionError):
        raise FieldError("", "is not JSON") from None
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise FieldError("", "is no list of objects")
    if len(entries) > most:
        raise FieldError("", f"has {len(entries)} entries; at most {most} are accepted")
    return entries


def _text(entry: dict[str, Any], field: str, where: str) -> str:
    value = entry.get(field)
    if not isinstance(value, str):
        raise FieldError(f"{where}.{field}", "is needed, as a text")
    return value


def _refuse(problem: str, path: str) -> None:
    if problem:
        raise FieldError(path, problem)


def _apart(paths: Sequence[str]) -> None:
    if (pair := overlap(paths)) is not None:
        first, second = pair
        raise FieldError(
            f"[{second}].path",
            f"{paths[second]!r} is, or lies below, the path of entry {first}, {paths[first]!r}",
        )
