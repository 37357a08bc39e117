"""What a document shows under a command, compared with what the command prints.

In a fenced block with lines that begin with `$ `, the lines after a command, until the next one or
the end, are what it prints, on stdout and stderr. `...` on a line of its own stands for lines left
out. Words, headings, columns, reasons and figures are compared as they are; what cannot be the same
twice is listed here, and nowhere else.
"""

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.house.sources import ROOT

LEFT_OUT: Final = "..."
PROGRAMS: Final = ("federator", "kubectl", "make", "helm", "git", "docker", "python")
SAFE: Final = "[bcdfghjklmnpqrstvwxz2456789]"
"""Of what API servers make names: no vowels, so that no word is taken for one."""
AGE: Final = r"(?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?"

CHANCE: Final[Sequence[tuple[str, str]]] = (
    (rf"(?<=  )(?=\d){AGE}(?: \(x\d+ over {AGE}\))?(?=  |$)", "AGE"),
    (r"\b\d+(?:\.\d+)? (?:ms|s|min|h) ago\b", "AGE ago"),
    (r"\b(since|after) \d+(?:\.\d+)? (?:ms|s|min|h)\b", r"\1 AGE"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
    (r"(?<=-)[0-9a-f]{8}(?=  |$)", "UIDHASH"),
    (rf"-{SAFE}{{4,10}}-{SAFE}{{5}}\b", "-HASH-POD"),
    (rf"(?<=\d)-{SAFE}{{5}}\b", "-POD"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
    (r"\bseq \d+", "seq N"),
    (r"\bv\d+\.\d+\.\d+\b", "VERSION"),
    (r"(?<=submission )[0-9a-f]{20}\b", "SUBMISSION"),
    (
        r"^process [0-9a-f]{12}(: .* from )\d{4}-\d\d-\d\dT\d{6}\.\d+Z-[0-9a-f]{12}-",
        r"process PROCESS\1FILE-",
    ),
    (r"(?<=last digest )[0-9a-f]{64}\b", "DIGEST"),
    (r"\b127\.0\.0\.1:\d+", "ADDRESS"),
)
"""Never the same twice: ages, times, names with chance in them, numbers of decisions, versions,
ports.
"""

MOMENTARY: Final[Sequence[tuple[str, str]]] = (
    (r"\b\d+ of (\d+ cpu free) +\d+\b", r"N of \1  N"),
    (
        r"^(\S+) +[1-9]\d* +\d+ +\d+ +\d+ +[\d]+ = [\d]+ \+ [\d]+ \+ [\d]+",
        r"\1  FIT  PLACED  READY  GOT  SCORE",
    ),
    (r"\bgets \d+ copies, \d+ of them held before", "gets N copies, N of them held before"),
    (
        r"\bmaxPerCluster (\d+) -> \d+ \(\+\d+, \d+ still missing\)",
        r"maxPerCluster \1 -> N (+N, N still missing)",
    ),
    (r"\{\"maxPerCluster\":\d+\}", '{"maxPerCluster":N}'),
    (r"^(TIME +Decision +)-( +)(?:[a-z0-9-]+ \d+(?:, )?)+", r"\1-\2SHARES"),
    (
        r"\b(?:eu|us)-(?:east|west)-\d[a-c](?: \(\d+ clusters? more\))? made no progress",
        "CLUSTER made no progress",
    ),
    (r"(?<= copies: )(?:\d+ in [a-z0-9-]+(?:, )?)+", "SHARES"),
    (r"-\d+-\d+-(\d+)-POD\b", r"-RANGE-\1-POD"),
    (r"\bstarted on (\S+?)-\d+-\d+ at\b", r"started on \1-NODE at"),
)
"""True figures of one moment. How 3000 copies or 400 shards are divided over five clusters, and
what is free there then, depends on which of the demo's thirteen workloads were admitted first, and
on which shards still ran; a score is what is free, too, and so are the machine of a pod, and how
many clusters a roll-out has stalled in when the first has. All others (what is asked for, placed,
ready or missing in all, bounds, limits, nodes) are compared.
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """One command of a document, and what is shown under it. None: its block shows commands
    only.
    """

    where: str
    text: str
    prints: tuple[str, ...] | None = None


def documents() -> list[Path]:
    """All that tell a user what to type; decisions tell what was, and what was left out."""
    found = sorted((ROOT / "docs").rglob("*.md"))
    return [ROOT / "README.md", *(path for path in found if path.parent.name != "decisions")]


def shown(paths: Sequence[Path] | None = None) -> Iterator[Shown]:
    """Commands of fenced blocks, in the order of the documents."""
    for path in documents() if paths is None else paths:
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            first = text.count("\n", 0, found.start(1)) + 1
            yield from _of_block(found[1], path.relative_to(ROOT), first)


def _of_block(block: str, path: Path, first: int) -> Iterator[Shown]:
    """The commands of one block. Without a prompt they are the lines that begin with a program."""
    lines = block.replace("\\\n", "  ").splitlines()
    begins = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for number, end in itertools.pairwise([*begins, len(lines)]):
        prints = tuple(line.rstrip() for line in lines[number + 1 : end])
        yield Shown(f"{path}:{first + number}", _plain(lines[number].removeprefix("$ ")), prints)
    for number, line in enumerate(lines if not begins else []):
        if line.strip().startswith(tuple(f"{one} " for one in PROGRAMS)):
            yield Shown(f"{path}:{first + number}", _plain(line.strip()))


def _plain(command: str) -> str:
    """Without its comment, and with single blanks between words."""
    found = re.split(r"\s+#\s", command)[0].strip()
    return found if "'" in found else re.sub(r"\s+", " ", found)


def under(path: str, command: str) -> tuple[str, ...]:
    """What a document shows under a command, for a test that runs it elsewhere. Raises
    LookupError.
    """
    for one in shown([ROOT / path]):
        if one.text == command and one.prints is not None:
            return one.prints
    raise LookupError(f"{path} does not show `$ {command}`")


def steady(line: str) -> str:
    """A line without what cannot be the same twice, its columns apart by two blanks."""
    for pattern, stands in (*CHANCE, *MOMENTARY):
        line = re.sub(pattern, stands, line)
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + re.sub(r"  +", "  ", line.strip())


def difference(prints: Sequence[str], printed: str) -> str:
    """In what a document differs from what was printed; "" for nothing."""
    wanted = [LEFT_OUT if line.strip() == LEFT_OUT else steady(line) for line in _trimmed(prints)]
    lines = [steady(line.rstrip()) for line in _trimmed(printed.splitlines())]
    if _matches(wanted, lines):
        return ""
    return "\n".join(difflib.unified_diff(wanted, lines, "shown", "printed", lineterm="", n=1))


def _trimmed(lines: Sequence[str]) -> list[str]:
    """Without empty lines at the end."""
    found = list(lines)
    while found and not found[-1].strip():
        del found[-1]
    return found


def _matches(wanted: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether the parts between the lines left out follow upon each other, from the first line to
    the last.
    """
    parts: list[list[str]] = [[]]
    for line in wanted:
        if line == LEFT_OUT:
            parts.append([])
        else:
            parts[-1].append(line)
    if len(parts) == 1:
        return parts[0] == list(lines)
    first, *middle, last = parts
    if list(lines[: len(first)]) != first:
        return False
    at = len(first)
    for part in middle:
        found = next(
            (
                n
                for n in range(at, len(lines) - len(part) + 1)
                if list(lines[n : n + len(part)]) == part
            ),
            None,
        )
        if found is None:
            return False
        at = found + len(part)
    return len(lines) - len(last) >= at and list(lines[len(lines) - len(last) :]) == last
