"""Reads manifests for `place` and `convert`: files, stdin, directories, kustomizations. Nothing is lost in silence.

A directory with a kustomization is built by the person's own `kubectl` or `kustomize`. What needs a tool that is not
run from here (a chart, a template) is refused with the command that renders it. Every refusal ends the command.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from federator.cli import common

SUFFIXES: Final = (".yaml", ".yml", ".json")
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
CHART: Final = "Chart.yaml"
STDIN: Final = "-"
BUILDERS: Final = (("kubectl", "kustomize"), ("kustomize", "build"))
BUILD_S: Final = 120.0
"""A kustomization may fetch what it is based on."""
NAMED_MAX: Final = 5
_TEMPLATE = re.compile(r"\{\{.*")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object. `origin` is the file, `-`, or the directory of a kustomization; `document` counts its objects from
    1."""

    obj: dict[str, Any]
    origin: str
    document: int

    @property
    def where(self) -> str:
        return f"{self.origin}, document {self.document}"


def read(names: Sequence[str], *, recursive: bool, command: str) -> list[Manifest]:
    """The objects of everything that was named, in the order given, those of directories in the order of their paths.

    `recursive` takes what lies below directories too. `command` is how the caller reads stdin, for advice.
    """
    if list(names).count(STDIN) > 1:
        common.fail(f"{STDIN} is named twice, and stdin can be read once only")
    return [manifest for name in names for manifest in _of(name, recursive=recursive, command=command)]


def _of(name: str, *, recursive: bool, command: str) -> Iterator[Manifest]:
    path = Path(name)
    if name != STDIN and os.path.isdir(path):
        if _kustomization(path):
            yield from _objects(_built(path, command), name, command)
            return
        for file in _files(path, recursive=recursive, command=command):
            yield from _objects(_text(str(file)), str(file), command)
    elif name == STDIN or os.path.exists(path):  # a pipe too: place -f <(kubectl get mc -o yaml)
        if path.name in KUSTOMIZATIONS:
            common.fail(f"{name}: is a kustomization, not a manifest; name its directory, {path.parent}")
        if path.name == CHART:
            common.fail(_chart(path.parent, command))
        yield from _objects(_text(name), name, command)
    else:
        common.fail(f"{name}: there is no such file or directory")


def _files(folder: Path, *, recursive: bool, command: str) -> list[Path]:
    """The manifests of a directory, by path; hidden ones are left out. Ends the command where one is rendered by a
    tool: which of several overlays is meant, and with which values, only its user knows."""
    found: list[Path] = []
    builds: list[Path] = []
    for base, below, files in os.walk(folder):
        here = Path(base)
        below[:] = sorted(one for one in below if not one.startswith(".")) if recursive else []
        if CHART in files:
            common.fail(_chart(here, command))
        if _kustomization(here):
            builds.append(here)
        wanted = (here / one for one in files if not one.startswith(".") and Path(one).suffix in SUFFIXES)
        found += [one for one in wanted if one.is_file()]
    if builds:
        shown = ", ".join(str(one) for one in sorted(builds)[:NAMED_MAX])
        more = f" and {len(builds) - NAMED_MAX} more" if len(builds) > NAMED_MAX else ""
        common.fail(f"{folder}: kustomizations lie below it ({shown}{more}); name the one that is meant")
    if not found:
        deeper = "" if recursive else " (what lies below its directories is not read)"
        common.fail(f"{folder}: holds no manifest ({', '.join(SUFFIXES)}){deeper}")
    return sorted(found)


def _kustomization(folder: Path) -> bool:
    return any((folder / name).is_file() for name in KUSTOMIZATIONS)


def _chart(folder: Path, command: str) -> str:
    return f"{folder}: is a chart, whose templates are no manifests; render it: helm template {folder} | {command}"


def _built(folder: Path, command: str) -> str:
    """What the person's own tool makes of a kustomization. Ends the command when there is none, or when it fails."""
    found = next(((program, verb) for tool, verb in BUILDERS if (program := shutil.which(tool)) is not None), None)
    if found is None:
        common.fail(
            f"{folder}: is a kustomization, and neither kubectl nor kustomize is on PATH to build it; where one is: "
            f"kubectl kustomize {folder} | {command}"
        )
    shown = f"{Path(found[0]).name} {found[1]}"
    try:
        done = subprocess.run(
            (*found, str(folder)), stdin=subprocess.DEVNULL, capture_output=True, timeout=BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        common.fail(f"{folder}: {shown} has not ended within {BUILD_S:.0f} s")
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        common.fail(f"{folder}: {shown} failed: {why}")
    return done.stdout.decode(errors="replace")


def _text(name: str) -> str:
    try:
        if name == STDIN:
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as bad:
        common.fail(f"{name}: {bad}")


def _objects(text: str, origin: str, command: str) -> Iterator[Manifest]:
    from federator.kinds import read as reading

    try:
        objs = reading.load_yaml(text)
    except reading.InvalidObject as bad:
        lines = text.splitlines()
        line = next((at for at, one in enumerate(lines, 1) if "{{" in one and not one.lstrip().startswith("#")), 0)
        if line and (sample := _TEMPLATE.search(lines[line - 1])):
            common.fail(
                f"{origin}: is a template, not a manifest (line {line}: {sample[0][:60]}); render it with its tool, "
                f"such as helm template CHART | {command} ({bad})"
            )
        common.fail(*(f"{origin}: {problem}" for problem in bad.errors))
    for index, obj in enumerate(objs, 1):
        yield Manifest(obj, origin, index)
