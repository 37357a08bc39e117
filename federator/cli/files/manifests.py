"""Reads manifests for `place` and `convert` from files, stdin, directories and kustomizations.
Nothing is skipped silently.

A directory with a kustomization is built with the user's own `kubectl` or `kustomize`. Charts and
templates need a tool that is not run from here; they are refused with the command that renders
them. A refusal ends the command with an error; `validate` checks the other files before.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from federator.cli import common
from federator.model.manifests import Manifest, Unreadable

SUFFIXES: Final = (".yaml", ".yml", ".json")
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
CHART: Final = "Chart.yaml"
STDIN: Final = "-"
BUILDERS: Final = (("kubectl", "kustomize"), ("kustomize", "build"))
BUILD_S: Final = 120.0
"""Deadline for building a kustomization, which may download its bases."""
NAMED_MAX: Final = 5
_TEMPLATE = re.compile(r"\{\{.*")


def _end(bad: Unreadable) -> None:
    common.fail(*bad.sentences)


def read(
    names: Sequence[str],
    *,
    recursive: bool,
    command: str,
    refused: Callable[[Unreadable], None] = _end,
) -> list[Manifest]:
    """The objects of all `names`, in the order given; files of a directory are sorted by path.

    `recursive` includes subdirectories. `command` is the caller's command for stdin, shown as
    advice in errors. `refused` is called for each file or directory that cannot be read; by default
    the first one ends the command.
    """
    if list(names).count(STDIN) > 1:
        common.fail(f"{STDIN} is given twice, but stdin can be read only once")
    objects: list[Manifest] = []
    for name in names:
        try:
            for part in _of(name, recursive=recursive, command=command):
                try:
                    objects += part()
                except Unreadable as bad:
                    refused(bad)
        except Unreadable as bad:
            refused(bad)
    return objects


def _of(name: str, *, recursive: bool, command: str) -> Iterator[Callable[[], list[Manifest]]]:
    """What reads each file of one name. Raises Unreadable."""
    path = Path(name)
    if name != STDIN and os.path.isdir(path):
        if _kustomization(path):
            yield lambda: list(_objects(_built(path, command), name, command))
            return
        for file in _files(path, recursive=recursive, command=command):
            yield functools.partial(_read, str(file), command)
    elif name == STDIN or os.path.exists(path):  # a pipe too: place -f <(kubectl get mc -o yaml)
        if path.name in KUSTOMIZATIONS:
            raise Unreadable(
                f"{name}: is a kustomization, not a manifest; give its directory, {path.parent}"
            )
        if path.name == CHART:
            raise Unreadable(_chart(path.parent, command))
        yield functools.partial(_read, name, command)
    else:
        raise Unreadable(f"{name}: there is no such file or directory")


def _read(name: str, command: str) -> list[Manifest]:
    return list(_objects(_text(name), name, command))


def _files(folder: Path, *, recursive: bool, command: str) -> list[Path]:
    """The manifest files of a directory, sorted; hidden files are left out.

    Raises Unreadable when the directory contains a chart or kustomizations: only the user knows
    which overlay and which values are meant.
    """
    manifests: list[Path] = []
    builds: list[Path] = []
    for base, below, files in os.walk(folder):
        here = Path(base)
        below[:] = sorted(name for name in below if not name.startswith(".")) if recursive else []
        if CHART in files:
            raise Unreadable(_chart(here, command))
        if _kustomization(here):
            builds.append(here)
        matching = (
            here / name
            for name in files
            if not name.startswith(".") and Path(name).suffix in SUFFIXES
        )
        manifests += [path for path in matching if path.is_file()]
    if builds:
        shown = ", ".join(map(str, sorted(builds)[:NAMED_MAX]))
        more = f" and {len(builds) - NAMED_MAX} more" if len(builds) > NAMED_MAX else ""
        raise Unreadable(
            f"{folder}: contains kustomizations ({shown}{more}); give the directory of one of them"
        )
    if not manifests:
        deeper = "" if recursive else " (subdirectories are not read)"
        raise Unreadable(f"{folder}: contains no manifest ({', '.join(SUFFIXES)}){deeper}")
    return sorted(manifests)


def _kustomization(folder: Path) -> bool:
    return any((folder / name).is_file() for name in KUSTOMIZATIONS)


def _chart(folder: Path, command: str) -> str:
    return (
        f"{folder}: is a chart, and its templates are not manifests; render it: helm template"
        f" {folder} | {command}"
    )


def _built(folder: Path, command: str) -> str:
    """The YAML that the user's own tool builds from a kustomization. Raises Unreadable without a
    tool, and when it fails."""
    builder = next(
        ((program, verb) for tool, verb in BUILDERS if (program := shutil.which(tool)) is not None),
        None,
    )
    if builder is None:
        raise Unreadable(
            f"{folder}: is a kustomization, but neither kubectl nor kustomize is on PATH to build"
            " it;"
            f" install one, or run elsewhere: kubectl kustomize {folder} | {command}"
        )
    shown = f"{Path(builder[0]).name} {builder[1]}"
    try:
        done = subprocess.run(
            (*builder, str(folder)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=BUILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"{folder}: {shown} did not finish within {BUILD_S:.0f} s") from None
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise Unreadable(f"{folder}: {shown} failed: {why}")
    return done.stdout.decode(errors="replace")


def _text(name: str) -> str:
    try:
        if name == STDIN:
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as bad:
        raise Unreadable(f"{name}: {bad}") from None


def _objects(text: str, origin: str, command: str) -> Iterator[Manifest]:
    from federator.kinds import read as reading

    try:
        objs = reading.load_yaml(text)
    except reading.InvalidObject as bad:
        lines = text.splitlines()
        line = next(
            (
                at
                for at, each in enumerate(lines, 1)
                if "{{" in each and not each.lstrip().startswith("#")
            ),
            0,
        )
        if line and (sample := _TEMPLATE.search(lines[line - 1])):
            raise Unreadable(
                f"{origin}: is a template, not a manifest (line {line}: {sample[0][:60]}); render"
                " it with its tool, "
                f"such as helm template CHART | {command} ({bad})"
            ) from None
        raise Unreadable(*(f"{origin}: {problem}" for problem in bad.errors)) from None
    for index, obj in enumerate(objs, 1):
        yield Manifest(obj, origin, index)
