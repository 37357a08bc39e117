"""How well the unit tests hold the pure core: plants small errors in it and counts how many of them
a test notices.

`make mutants` draws 100 by a seed, the same number from each subject, and prints those that
survived; it fails when fewer than 95 of 100 die. A mutant is dead when a test fails, the module
cannot be read, or the tests take far longer than without it. `python -m tests.mutation.run --only
NAME` tries the mutants of one name again; `--list` prints names.
"""

import argparse
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.child import CPU
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant, mutants

ROOT: Final = Path(__file__).parents[2]
SUBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "division": ("placement/division", "placement/webster"),
    "spread": ("placement/spread", "placement/filling", "placement/seating", "placement/domains"),
    "ledger": ("placement/ledger",),
    "quota": ("placement/quota",),
    "fold": ("status/fold", "status/aggregate"),
}
"""What is mutated: subject -> package and module; in which folder of the package a module is, is
looked up.
"""
NEEDED: Final = 0.95
PATIENCE: Final = 4.0
"""A mutant may take so many times the processor time of the tests without one, and `GRACE_S`
more."""
GRACE_S: Final = 20.0
ENDED: Final = (1, 2)
"""pytest's exit statuses for a failed test and for a file that cannot be read."""


@dataclass(frozen=True, slots=True)
class Case:
    """One mutant and how it is planted."""

    subject: str
    module: str
    index: int
    mutant: Mutant


@dataclass(frozen=True, slots=True)
class Ending:
    case: Case
    by: str
    """What noticed: a test, an error on reading, the time; empty for a survivor."""
    took_s: float


def file_of(module: str) -> Path:
    """The file of `package/module`, in whatever folder of its package it is. Raises LookupError."""
    package, _, name = module.partition("/")
    found = sorted((ROOT / "federator" / package).rglob(f"{name}.py"))
    if len(found) != 1:
        raise LookupError(
            f"federator/{package} has {len(found)} files {name}.py, and one is meant."
        )
    return found[0]


def cases() -> Iterator[Case]:
    """Every mutant of every subject, in a fixed order, equivalent ones included."""
    for subject, modules in SUBJECTS.items():
        for module in modules:
            path = file_of(module)
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for index, mutant in enumerate(mutants(dotted, path.read_text())):
                yield Case(subject, dotted, index, mutant)


def draw(pool: Sequence[Case], number: int, seed: int) -> list[Case]:
    """As many of each subject as of every other, by the seed; the equivalent ones are left out."""
    chance = random.Random(seed)
    drawn = []
    for place, subject in enumerate(SUBJECTS):
        own = [
            case for case in pool if case.subject == subject and case.mutant.name not in EQUIVALENT
        ]
        share = number // len(SUBJECTS) + (place < number % len(SUBJECTS))
        drawn += chance.sample(own, min(share, len(own)))
    return drawn


def stages(case: Case) -> list[list[str]]:
    """The tests that a mutant runs, tables and those that name or import its module first: most
    mutants die there, in seconds.

    Both stages together are all unit tests of its package and of the scheduling cycle above it.
    """
    package = case.module.split(".")[1]
    folder = ROOT / "tests" / "unit" / package
    files = sorted(folder.rglob("test_*.py"))
    texts = {file: file.read_text() for file in files}
    names, parent = {case.mutant.module, case.subject}, case.module.rpartition(".")[0]
    imported = re.compile(
        rf"^from {case.module} import|^from {parent} import .*\b{case.mutant.module}\b",
        re.MULTILINE,
    )
    own = {
        file
        for file, text in texts.items()
        if any(name in file.stem for name in names) or imported.search(text)
    }
    drawn = {file for file, text in texts.items() if "@given" in text}
    first = sorted({*files} - drawn | own, key=lambda file: (file in drawn, file not in own, file))
    rest = [file for file in files if file not in first]
    above = ROOT / "tests" / "unit" / "scheduling"
    return [_relative(first), [*_relative(rest), str(above.relative_to(ROOT))]]


def _relative(files: Sequence[Path]) -> list[str]:
    return [str(file.relative_to(ROOT)) for file in files]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of tests came to."""

    status: int
    """pytest's exit status; -SIGXCPU when the processor time was up."""
    told: str
    """The last line about a failure."""
    cpu_s: float

    @property
    def too_long(self) -> bool:
        return self.status == -signal.SIGXCPU


def run(module: str, index: str, tests: Sequence[str], limit_s: float) -> Run:
    """Runs tests with a mutant planted, for at most `limit_s` of processor time: how long they wait
    on a busy machine says nothing of the mutant."""
    child = [sys.executable, "-m", "tests.mutation.child", module, index, str(int(limit_s))]
    done = subprocess.run([*child, *tests], cwd=ROOT, capture_output=True, text=True, check=False)
    lines, last = done.stdout.splitlines(), done.stderr.rpartition(CPU)[2].strip()
    told = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return Run(
        done.returncode,
        (told or lines or done.stderr.splitlines() or [""])[-1],
        float(last) if CPU in done.stderr else limit_s,
    )


class Baseline:
    """The processor time of a stage's tests without a mutant; they must pass."""

    def __init__(self) -> None:
        self._took: dict[tuple[str, ...], float] = {}

    def limit_s(self, case: Case, tests: Sequence[str]) -> float:
        """Raises SystemExit where the tests fail although nothing is planted."""
        key = tuple(tests)
        if key not in self._took:
            ran = run(case.module, "none", tests, 3600)
            if ran.status != 0:
                raise SystemExit(f"The tests fail without a mutant: {ran.told}")
            self._took[key] = ran.cpu_s
        return self._took[key] * PATIENCE + GRACE_S


def end(case: Case, baseline: Baseline, *, quick: bool) -> Ending:
    """What became of a mutant; in a quick look, of the first stage alone."""
    began = time.monotonic()
    for tests in stages(case)[: 1 if quick else None]:
        limit_s = baseline.limit_s(case, tests)
        ran = run(case.module, str(case.index), tests, limit_s)
        if ran.too_long:
            return Ending(case, "the time was up", time.monotonic() - began)
        if ran.status in ENDED:
            by = ran.told.removeprefix("FAILED ").removeprefix("ERROR ")
            return Ending(case, by, time.monotonic() - began)
        if ran.status != 0:
            raise SystemExit(f"pytest ended with {ran.status} on {case.mutant.name}: {ran.told}")
    return Ending(case, "", time.monotonic() - began)


def report(endings: Sequence[Ending]) -> bool:
    """Prints the table and whether enough of them died."""
    dead = sum(bool(ending.by) for ending in endings)
    for subject in SUBJECTS:
        own = [ending for ending in endings if ending.case.subject == subject]
        if own:
            print(f"{subject:10} {sum(bool(ending.by) for ending in own):4} of {len(own)} died")
    for ending in endings:
        if not ending.by:
            print(
                f"survived: {ending.case.module}:{ending.case.mutant.line}  "
                f"{ending.case.mutant.name}"
            )
    print(
        f"mutants: {dead} of {len(endings)} died; {len(EQUIVALENT)} are known as equivalent "
        "and are not drawn"
    )
    return dead >= NEEDED * len(endings)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Plants small errors in the pure core and counts those that die."
    )
    parser.add_argument("--draw", type=int, default=100, help="how many mutants (100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="mutants whose name starts so"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the names of all mutants and end"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="run the first tests only, those without drawn examples",
    )
    parser.add_argument(
        "--told", action="store_true", help="say of each mutant, as it ends, what noticed it"
    )
    options = parser.parse_args()
    pool = list(cases())
    if options.list:
        for case in pool:
            print(f"{case.mutant.name}{'  (equivalent)' if case.mutant.name in EQUIVALENT else ''}")
        return 0
    if options.only:
        chosen = [case for case in pool if case.mutant.name.startswith(tuple(options.only))]
    else:
        chosen = draw(pool, options.draw, options.seed)
    if not chosen:
        print("no mutant has such a name", file=sys.stderr)
        return 2
    baseline = Baseline()
    for case in chosen:  # one after the other, before anything else runs beside it
        for tests in stages(case)[:1]:
            baseline.limit_s(case, tests)
    endings = []
    with ThreadPoolExecutor(options.jobs) as threads:
        for ending in threads.map(lambda case: end(case, baseline, quick=options.quick), chosen):
            endings.append(ending)
            if options.told:
                print(
                    f"{ending.took_s:5.0f} s  {ending.by or 'SURVIVED'}  {ending.case.mutant.name}",
                    flush=True,
                )
    return 0 if report(endings) else 1


if __name__ == "__main__":
    sys.exit(main())
