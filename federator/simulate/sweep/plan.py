"""What a sweep consists of: its file, and one task for each combination of values."""

import hashlib
import itertools
import json
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from federator import __version__
from federator.model.errors import FieldError
from federator.simulate.scenario import fields, loading
from federator.simulate.scenario.assembling import Files
from federator.simulate.scenario.loading import InvalidScenario

SEED: Final = "seed"
"""The field that combinations are averaged over."""
QUESTIONS: Final = frozenset({"demand", "events", SEED, "until", "warmUp"})
"""Fields of a scenario that nobody chooses: what comes, and for how long. The others (fleet,
policies, quotas) are choices."""
TASKS_MAX: Final = 100_000


class Sweep(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    scenario: Annotated[str, Field(min_length=1)]
    """The scenario that is changed, from the folder of this file."""
    vary: Annotated[dict[str, list[Any] | dict[str, Any]], Field(min_length=1)]
    """Field of the scenario -> its values; as a mapping, each value has a name that reports show.
    Field `.` takes mappings and sets all their fields at once.
    """
    sample: Annotated[int, Field(ge=1)] | None = None
    """So many combinations, drawn at random; without it all are run."""
    sample_seed: Annotated[int, Field(alias="sampleSeed")] = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One simulation. It can be sent to another process."""

    id: str
    """Digest of everything that the result depends on: the scenario with its changes, the content
    of the files that it names, the version of the program.
    """
    point: tuple[tuple[str, str], ...]
    """(field, value as reports show it), in the order of the file."""
    document: str
    """The scenario with the changes, as JSON."""
    file: str
    """What it was read from: other files are named from its folder."""
    times: str = ""
    """`until` and `warmUp` as given: tasks that share them are measured over one time."""
    span: str = ""
    """Digest of what the time that is measured depends on; "" where `until` and `warmUp` say it."""
    window: tuple[int, int] | None = None
    """Seconds from which and until which it is measured; None: what its inputs say."""

    @property
    def group(self) -> tuple[tuple[str, str], ...]:
        """The point without the seed."""
        return tuple(pair for pair in self.point if pair[0] != SEED)


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    tasks: tuple[Task, ...]
    questions: frozenset[str] = frozenset()
    """Fields of `vary` that are questions."""


def read(path: Path) -> Plan:
    """The tasks of a sweep's file. Every combination is checked against the scenario's schema here,
    before anything runs. Raises InvalidScenario with the file and every field that is wrong.
    """
    sweep = _sweep(path)
    base = (path.parent / sweep.scenario).resolve()
    given = loading.of_folder(base) if base.is_dir() else loading.document(base)
    digests: dict[Path, str] = {}
    files = Files(base if base.is_dir() else base.parent, os.environ)
    tasks: dict[str, Task] = {}
    for point in _points(sweep, path):
        title = ", ".join(f"{field}={shown}" for field, shown, _ in point)
        document = given
        try:
            for field, _, value in point:
                document = _with(document, field, value)
            checked = loading.scenario(document, f"{base} with {title}")
        except FieldError as bad:
            raise InvalidScenario(
                str(path), [FieldError(f"vary.{bad.path}", f"{bad.message} ({title})")]
            ) from None
        task = Task(
            _id(document, files, digests),
            tuple((field, shown) for field, shown, _ in point),
            json.dumps(document, default=str),
            str(base),
            json.dumps([document.get("until"), document.get("warmUp")], default=str),
            "" if isinstance(checked.until, int) else _span(document),
        )
        tasks.setdefault(task.id, task)
    asked = frozenset(field for field, values in sweep.vary.items() if _is_question(field, values))
    return Plan(sweep.name or path.stem, tuple(tasks.values()), asked)


def _is_question(field: str, values: list[Any] | dict[str, Any]) -> bool:
    """Whether a field of `vary` sets questions only; `.` does where all fields that it sets do."""
    if field != ".":
        return re.split(r"[.\[]", field)[0] in QUESTIONS
    given = values.values() if isinstance(values, dict) else values
    return all(_is_question(name, []) for value in given for name in value)


def _sweep(path: Path) -> Sweep:
    document = loading.document(path)
    try:
        return Sweep.model_validate(document)
    except ValidationError as bad:
        raise InvalidScenario(str(path), list(fields.problems(Sweep, bad))) from None


def _with(document: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    if field == ".":
        if not isinstance(value, dict):
            raise FieldError(field, "each value is a mapping of fields of the scenario")
        for name, nested in value.items():
            document = _with(document, name, nested)
        return document
    return loading.changed(document, [f"{field}={json.dumps(value)}"])


def _points(sweep: Sweep, path: Path) -> Iterator[tuple[tuple[str, str, Any], ...]]:
    """(field, value as shown, value) of every combination, or of those that are drawn."""
    axes: list[list[tuple[str, str, Any]]] = []
    for field, values in sweep.vary.items():
        named = (
            values.items()
            if isinstance(values, dict)
            else ((_shown(value), value) for value in values)
        )
        axes.append([(field, str(shown), value) for shown, value in named])
        if not axes[-1]:
            raise InvalidScenario(
                str(path), [FieldError(f"vary.{field}", "needs one value at least")]
            )
    count = 1
    for axis in axes:
        count *= len(axis)
    wanted = count if sweep.sample is None else min(sweep.sample, count)
    if wanted > TASKS_MAX:
        raise InvalidScenario(
            str(path),
            [FieldError("vary", f"makes {count:,} simulations; at most {TASKS_MAX:,} are run")],
        )
    if wanted == count:
        yield from itertools.product(*axes)
        return
    for number in sorted(random.Random(sweep.sample_seed).sample(range(count), wanted)):
        yield _combination(axes, number)


def _combination(
    axes: Sequence[Sequence[tuple[str, str, Any]]], number: int
) -> tuple[tuple[str, str, Any], ...]:
    """The combination of this number; the last axis changes fastest."""
    chosen = []
    for axis in reversed(axes):
        number, at = divmod(number, len(axis))
        chosen.append(axis[at])
    return tuple(reversed(chosen))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _id(document: Any, files: Files, digests: dict[Path, str]) -> str:
    """The digest of a task. The order of the fields is no part of it: it changes no result."""
    text = json.dumps(document, sort_keys=True, default=str)
    digest = hashlib.sha256(f"{__version__}\n{text}\n".encode())
    for path in sorted(set(_named(document, files))):
        if path not in digests:
            digests[path] = _content(path)
        digest.update(f"{path.name} {digests[path]}\n".encode())
    return digest.hexdigest()[:32]


def _span(document: Mapping[str, Any]) -> str:
    """The digest of the fields that say when the last work ends, or the last event is."""
    fields_of = {key: document.get(key) for key in (*sorted(QUESTIONS), "fleet")}
    if "recording" not in (document.get("demand") or {}):
        del fields_of["fleet"]
    return hashlib.sha256(json.dumps(fields_of, sort_keys=True, default=str).encode()).hexdigest()


def _named(value: Any, files: Files) -> Iterator[Path]:
    """Files and folders that a scenario names, in whatever field."""
    if isinstance(value, Mapping):
        for nested in value.values():
            yield from _named(nested, files)
    elif isinstance(value, list):
        for item in value:
            yield from _named(item, files)
    elif isinstance(value, str) and value and "\n" not in value:
        try:
            path = files.path(value)
            exists = path.exists()
        except (ValueError, OSError):
            return  # no name of a file
        if exists:
            yield path


def _content(path: Path) -> str:
    """Digest of a file, or of all files directly in a folder."""
    digest = hashlib.sha256()
    for entry in sorted(path.iterdir()) if path.is_dir() else [path]:
        if entry.is_file():
            with entry.open("rb") as file:
                digest.update(
                    f"{entry.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode()
                )
    return digest.hexdigest()
