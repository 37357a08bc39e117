"""What the commands of the planner share: the inputs of a run, its progress, its errors as
sentences."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from federator.cli import common

if TYPE_CHECKING:
    from federator.simulate.inputs import Inputs
    from federator.simulate.report.measures import Measures
    from federator.simulate.report.page import Provenance

LINE_EVERY_S: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""
DRAW_EVERY_S: Final = 0.2
Progress = Callable[[int, int | None, int, int], None]


@contextmanager
def failures_reported() -> Iterator[None]:
    """Bad input ends the command with a sentence for each problem, and exit 1."""
    from federator.model.errors import FieldError
    from federator.simulate.scenario.loading import InvalidScenario
    from federator.simulate.traces.problems import TraceError

    try:
        yield
    except InvalidScenario as bad:
        common.fail(*(f"{bad.file}: {error}" for error in bad.errors))
    except (TraceError, FieldError) as bad:
        common.fail(str(bad))
    except MemoryError:
        common.fail("the simulation does not fit into the memory")
    except BrokenPipeError:
        raise  # click ends quietly for a reader that has gone
    except OSError as bad:
        common.fail(str(bad))


@contextmanager
def many_objects() -> Iterator[None]:
    """A million long-lived objects are made: the collector looks at them seldom."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass(frozen=True, slots=True)
class Changes:
    """What one run changes in a scenario, in the order in which it is done."""

    settings: Sequence[str] = ()
    lose: Sequence[str] = ()
    add_nodes: Sequence[str] = ()
    scale_demand: str = ""
    policy: str = ""
    capacity: str = ""
    fleet: str = ""

    def done(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document with the changes. Raises FieldError."""
        from federator.simulate.scenario import loading

        if self.fleet:
            document = loading.on_fleet(document, Path(self.fleet))
        document = loading.changed(document, self.settings)
        if self.capacity:
            document = loading.changed(document, [f"fleet.capacity={self.capacity}"])
        for loss in self.lose:
            document = loading.losing(document, loss)
        for nodes in self.add_nodes:
            document = loading.adding(document, nodes)
        if self.scale_demand:
            document = loading.demanding(document, self.scale_demand)
        return loading.under(document, Path(self.policy)) if self.policy else document

    @property
    def given(self) -> dict[str, str]:
        """Option -> what was given, for a report."""
        named = {
            "--fleet": self.fleet,
            "--set": ", ".join(self.settings),
            "--lose": ", ".join(self.lose),
            "--add-nodes": ", ".join(self.add_nodes),
            "--scale-demand": self.scale_demand,
            "--policy": self.policy,
            "--capacity": self.capacity,
        }
        return {option: value for option, value in named.items() if value}


NO_CHANGES: Final = Changes()


_TRACES: Final = frozenset({".csv", ".tsv", ".txt", ".swf"})
"""Suffixes of a trace, also in front of `.gz`; any other file is a scenario."""


def is_trace(path: Path) -> bool:
    """Whether a file is demand alone."""
    return (
        path.is_file()
        and (path.with_suffix("") if path.suffix == ".gz" else path).suffix in _TRACES
    )


def document(path: Path, changes: Changes = NO_CHANGES) -> dict[str, Any]:
    """The scenario of a file, a folder or a trace, with the changes of a run."""
    from federator.simulate.scenario import loading

    if path.is_dir():
        given = loading.of_folder(path)
    elif is_trace(path):
        given = loading.of_trace(path, fleet=bool(changes.fleet))
    else:
        given = loading.document(path)
    return changes.done(given)


def is_drawn(document: dict[str, Any], path: Path) -> bool:
    """Whether the seed of a scenario changes anything."""
    from federator.simulate.scenario import loading

    return loading.scenario(document, str(path)).drawn


def with_losses(path: Path, changes: Changes) -> Changes:
    """With the cluster and the time of each `largest@peak`: found by a simulation without these
    losses, and told on stderr. Raises FieldError."""
    import os

    from federator.simulate.engine import run
    from federator.simulate.report import figures
    from federator.simulate.scenario import loading

    if not any(map(figures.is_sought, changes.lose)):
        return changes
    without = replace(changes, lose=[loss for loss in changes.lose if not figures.is_sought(loss)])
    outcome = run.run(loading.inputs(document(path, without), path, os.environ))
    losses: list[str] = []
    for loss in changes.lose:
        if figures.is_sought(loss):
            moment = loss.rpartition("@")[2]
            at_s = None if moment == figures.PEAK else _since(moment, outcome.origin_s)
            settled, sentence = figures.sought(outcome, loss, at_s)
            common.say(f"note: {sentence}", err=True)
            losses.append(settled)
        else:
            losses.append(loss)
    return replace(changes, lose=losses)


def _since(moment: str, origin_s: int) -> int:
    """Seconds since second 0 of the time of a loss. Raises FieldError."""
    from federator.model.errors import FieldError
    from federator.simulate.scenario import fields

    try:
        return fields.since(fields.instant(moment), origin_s, "--lose")
    except ValueError as bad:
        raise bad if isinstance(bad, FieldError) else FieldError("--lose", str(bad)) from None


def inputs(document: dict[str, Any], path: Path) -> "Inputs":
    """The inputs of a run; what was missing in them is told on stderr."""
    import os

    from federator.simulate.scenario import loading

    made = loading.inputs(document, path, os.environ)
    for sentence in made.assumptions:
        common.say(f"note: {sentence}", err=True)
    return made


def in_one_window(made: "Inputs", other: "Inputs") -> "tuple[Inputs, Inputs]":
    """Both, measured over the time that both have. A note on stderr says if that is another time
    than one of them has alone. Raises FieldError where they have none."""
    from federator.simulate.sweep import window

    both = window.of_both(made, other)
    if both.note:
        common.say(f"note: {both.note}", err=True)
    return both.made, both.other


def made(path: Path, document: dict[str, Any], asked: Changes) -> "tuple[Inputs, Provenance]":
    """The inputs of a run, and where it comes from."""
    import yaml

    from federator import __version__
    from federator.kube import kubeyaml
    from federator.simulate.report import page

    built = inputs(document, path)
    text = yaml.dump(document, Dumper=kubeyaml.Dumper, sort_keys=False, allow_unicode=True)
    description = str(document.get("description") or "")
    return built, page.Provenance(__version__, str(path), text, asked.given, description)


def run(built: "Inputs", *, quiet: bool) -> "Measures":
    from federator.simulate.engine import run as engine
    from federator.simulate.report import measures

    with progress(built, quiet=quiet) as shown:
        return measures.measure(engine.run(built, shown))


@contextmanager
def progress(made: "Inputs", *, quiet: bool) -> Iterator[Progress]:
    """Tells how far a run is, on stderr: a bar at a terminal, else a line every ten seconds."""
    if quiet:
        yield lambda *_: None
        return
    shown = _Bar(made) if sys.stderr.isatty() else _Lines(made)
    with shown:
        yield shown.at


class _Shown:
    """Where a run is: its date, and how fast simulated time passes."""

    def __init__(self, made: "Inputs") -> None:
        self.origin_s = made.origin_s
        self.began = self.last = time.monotonic()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def due(self, every_s: float) -> bool:
        now = time.monotonic()
        if now - self.last < every_s:
            return False
        self.last = now
        return True

    def where(self, now_s: int) -> str:
        speed = now_s / max(time.monotonic() - self.began, 1e-3)
        return f"{date(now_s, self.origin_s)}, {speed:,.0f} times real time"

    def at(self, now_s: int, end_s: int | None, submitted: int, total: int) -> None:
        raise NotImplementedError


class _Lines(_Shown):
    def at(self, now_s: int, end_s: int | None, submitted: int, total: int) -> None:
        if self.due(LINE_EVERY_S):
            common.say(f"{self.where(now_s)}: {submitted:,} of {total:,} works submitted", err=True)


class _Bar(_Shown):
    def __init__(self, made: "Inputs") -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        super().__init__(made)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bar.add_task("", total=len(made.works))

    def __enter__(self) -> None:
        self.bar.start()

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def at(self, now_s: int, end_s: int | None, submitted: int, total: int) -> None:
        if self.due(DRAW_EVERY_S):
            self.bar.update(self.task, completed=submitted, description=self.where(now_s))


def date(at_s: int, origin_s: int) -> str:
    """The date of an instant; where there is no origin, the day of the simulation and the time."""
    if origin_s:
        return (datetime.fromtimestamp(origin_s, UTC) + timedelta(seconds=at_s)).strftime(
            "%Y-%m-%d %H:%M"
        )
    return f"day {at_s // 86400 + 1} {at_s % 86400 // 3600:02}:{at_s % 3600 // 60:02}"
