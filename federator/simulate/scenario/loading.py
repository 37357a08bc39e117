"""A scenario file with what a person changes for one run: `--set a.b=v` and the shorthands."""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from federator.api import decoding
from federator.api.decoding import Limits
from federator.model.errors import FieldError
from federator.simulate import bounded
from federator.simulate.inputs import Inputs
from federator.simulate.scenario import assembling, fields
from federator.simulate.scenario.schema import Scenario
from federator.simulate.traces import loading as traces
from federator.simulate.traces.problems import TraceError

_PART: Final = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")
Document = dict[str, Any]
LIMITS: Final = Limits(size=256 * 1024 * 1024, nodes=20_000_000)
"""Of a scenario: a recording of a large federation has all its workloads."""


class InvalidScenario(ValueError):
    """A scenario cannot be used: `errors` has each problem with the field's path."""

    def __init__(self, file: str, errors: Sequence[FieldError]) -> None:
        self.file, self.errors = file, tuple(errors)
        super().__init__("\n".join(f"{file}: {error}" for error in errors))


def document(path: Path) -> Document:
    """The document of a scenario file. Raises InvalidScenario."""
    try:
        documents = decoding.from_yaml(bounded.read(path, LIMITS.size).decode("utf-8"), LIMITS)
    except FieldError as bad:
        raise InvalidScenario(str(path), [bad]) from None
    except (OSError, UnicodeDecodeError) as trouble:
        why = getattr(trouble, "strerror", None) or str(trouble)
        raise InvalidScenario(str(path), [FieldError("", f"cannot be read: {why}")]) from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        message = "one document with fleet and demand is expected"
        raise InvalidScenario(str(path), [FieldError("", message)])
    return documents[0]


def of_folder(folder: Path) -> Document:
    """The scenario of a folder with clusters.csv and workloads.csv: as it is, under the default
    policy."""
    return {
        "name": folder.name,
        "fleet": {"table": {"path": "."}},
        "demand": {"trace": {"path": "."}},
    }


def of_trace(path: Path, *, fleet: bool) -> Document:
    """The scenario of a trace alone: as it is, under the default policy. `fleet`: one is given
    elsewhere, and the trace need not name one. Raises TraceError."""
    document: Document = {"name": path.stem, "demand": {"trace": {"path": path.name}}}
    if fleet:
        return document
    if traces.form_of(path) != "swf":
        raise TraceError(
            path.name,
            0,
            "",
            "names no fleet; give one with --fleet PATH: a table of nodes (node, cluster,"
            " cpu_milli, memory_mib, gpu, gpu_model) or of clusters (cluster, nodes, ...), or a"
            " folder with clusters.csv",
        )
    return {**document, "fleet": {"table": {"path": path.name}}}


def on_fleet(given: Document, fleet: Path) -> Document:
    """With the fleet of a table, a folder or a file of MemberClusters instead of its own."""
    return {**given, "fleet": {"table": {"path": str(fleet.resolve())}}}


def changed(given: Document, settings: Sequence[str]) -> Document:
    """With each `a.b[0].c=v` set; v is read as YAML. Raises FieldError."""
    result = copy.deepcopy(given)
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path:
            raise FieldError(setting, "a field and a value are expected: --set demand.scale=1.3")
        try:
            values = decoding.from_yaml(text)
        except FieldError as bad:
            raise FieldError(path, bad.message) from None
        _set(result, path, values[0] if values else None)
    return result


def _set(here: Any, path: str, value: Any) -> None:
    parts: list[str | int] = [int(index) if index else name for name, index in _PART.findall(path)]
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if isinstance(here, dict):
            key = str(part)
            if last:
                here[key] = value
                return
            here = here.setdefault(key, {})
            continue
        if not isinstance(here, list):
            raise FieldError(path, f"{part!r} is below a value that has no fields")
        index = int(part) if str(part).isdigit() else -1
        if not 0 <= index < len(here):
            raise FieldError(
                path, f"the list has {len(here)} entries, from [0] on; {part!r} is none of them"
            )
        if last:
            here[index] = value
            return
        here = here[index]


def losing(given: Document, loss: str) -> Document:
    """With `CLUSTER@TIME` lost at that time. Raises FieldError."""
    cluster, at, time = loss.rpartition("@")
    if not at or not cluster:
        raise FieldError("--lose", f"{loss!r}: CLUSTER@TIME is expected, as in us-east-1a@2d")
    return _with_event(given, {"at": moment(time, "--lose"), "lost": cluster})


def adding(given: Document, nodes: str) -> Document:
    """With `CLUSTER=N` or `CLUSTER=N@TIME` more nodes. Raises FieldError."""
    named, _, time = nodes.partition("@")
    cluster, equals, count = named.rpartition("=")
    if not equals or not cluster or not count.lstrip("+-").isdigit():
        raise FieldError("--add-nodes", f"{nodes!r}: CLUSTER=N or CLUSTER=N@TIME is expected")
    event = {
        "at": moment(time or "0", "--add-nodes"),
        "grown": {"cluster": cluster, "by": int(count)},
    }
    return _with_event(given, event)


def moment(text: str, option: str) -> int:
    """Seconds of a time that an option names. Raises FieldError."""
    try:
        return fields.seconds(text)
    except ValueError as bad:
        raise FieldError(option, str(bad)) from None


def _with_event(given: Document, event: Document) -> Document:
    events = given.get("events") or []
    if not isinstance(events, list):
        raise FieldError("events", "must be a list")
    return {**given, "events": [*events, event]}


def demanding(given: Document, scale: str) -> Document:
    """With so much of its demand. Raises FieldError."""
    try:
        factor = fields.fraction(scale)
        demand = given.get("demand")
        before = fields.fraction(demand.get("scale", 1) if isinstance(demand, dict) else 1)
    except ValueError as bad:
        raise FieldError("--scale-demand", str(bad)) from None
    return changed(given, [f"demand.scale={factor * before}"])


def under(given: Document, policy: Path) -> Document:
    """With the policies of a file instead of its own."""
    return {**given, "policies": [{"file": str(policy.resolve())}]}


def scenario(given: Document, file: str) -> Scenario:
    """The document, checked. Raises InvalidScenario with every problem."""
    try:
        return Scenario.model_validate(given)
    except ValidationError as bad:
        raise InvalidScenario(file, list(fields.problems(Scenario, bad))) from None


def inputs(given: Document, file: Path, variables: Mapping[str, str]) -> Inputs:
    """The inputs of a simulation. `file`: the scenario, or the folder, that it was read from.
    Raises InvalidScenario and TraceError."""
    checked = scenario(given, str(file))
    files = assembling.Files(file if file.is_dir() else file.parent, variables)
    try:
        return assembling.inputs(checked, files, file.stem)
    except FieldError as bad:
        raise InvalidScenario(str(file), [bad]) from None
