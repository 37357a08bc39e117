"""`make bench`: runs the benchmarks and prints our figure, the floor beside it, the ratio and the
gate of every row.

Each group of rows runs in a process of its own, so that none inherits another's memory; this one
collects, prints the table, writes build/bench.json and, at whole size, the rows of
docs/benchmarks.md (`document.py`). `--only S1,S4` for a part. Exit status 0 however the figures
are: a benchmark is read, not passed; `--strict` gives 1 when a gate is missed.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.bench import calibrate, document, harness
from tests.bench.harness import Judged, Result
from tests.bench.rows import Row
from tests.controlplane import build

OUT = Path(__file__).parents[2] / "build" / "bench.json"
GROUP_LIMIT_S = 12 * 60.0
VERSIONS = ("aiohttp", "msgspec", "uvloop", "numpy", "pydantic")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Benchmarks: ours, the floor, the ratio, the gate."
    )
    parser.add_argument("--only", default="", help="rows, such as S1,S4; all when left out")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="fraction of the prescribed sizes, for trying out"
    )
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a gate is missed")
    parser.add_argument("--group", default="", help=argparse.SUPPRESS)
    parser.add_argument("--out", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        rows = harness.chosen(options.only)
    except ValueError as bad:
        parser.error(str(bad))
    if options.group:
        return _measure(
            options.group, frozenset(row.id for row in rows), options.scale, Path(options.out)
        )
    return _all(rows, options.scale, strict=options.strict)


def _measure(group: str, wanted: frozenset[str], scale: float, out: Path) -> int:
    """In the child: one group; results are appended as they come, so that a group that breaks keeps
    what it has.
    """
    module = importlib.import_module(f"tests.bench.{group}")
    with out.open("w", encoding="utf-8") as file:
        for result in module.measure(wanted, scale):
            entry = {
                "id": result.id,
                "ours": result.ours,
                "floor": result.floor,
                "notes": dict(result.notes),
            }
            print(json.dumps({**entry, "failed": result.failed}), file=file, flush=True)
    return 0


def _all(rows: Sequence[Row], scale: float, *, strict: bool) -> int:
    begun = time.monotonic()
    score = calibrate.score()
    speed = score / calibrate.REFERENCE
    found: dict[str, Result] = {}
    for group in dict.fromkeys(row.group for row in rows):
        ids = [row.id for row in rows if row.group == group]
        _say(f"{', '.join(ids)} ...")
        since = time.monotonic()
        found |= _in_child(group, ids, scale)
        _say(f"{', '.join(ids)}: {time.monotonic() - since:.0f} s")
    judged = [harness.judge(row, found[row.id], speed) for row in rows]
    print(harness.table(judged))
    load = os.getloadavg()[0]
    print(
        f"\ncalibration {score:.0f} (reference {calibrate.REFERENCE:.0f}; at the end "
        f"{calibrate.score():.0f}), "
        f"{os.cpu_count()} cores, load {load:.1f}, CPython {platform.python_version()}, "
        f"{time.monotonic() - begun:.0f} s" + (f", sizes x {scale:g}" if scale != 1 else "")
    )
    _write(judged, score, scale)
    if scale == 1:
        document.write(judged, document.Reading(f"{datetime.now(UTC):%Y-%m-%d}", _commit(), score))
    return 1 if strict and not all(one.ok or one.row.preview for one in judged) else 0


def _in_child(group: str, ids: Sequence[str], scale: float) -> dict[str, Result]:
    """Runs one group in a process of its own; a row without a figure says why."""
    with tempfile.TemporaryDirectory(prefix="federator-bench-") as room:
        out = Path(room) / "results"
        options = [
            "--only",
            ",".join(ids),
            "--group",
            group,
            "--out",
            str(out),
            "--scale",
            str(scale),
        ]
        why = ""
        with (Path(room) / "log").open("w+", encoding="utf-8", errors="replace") as log:
            command = [sys.executable, "-m", "tests.bench.run", *options]
            try:
                done = subprocess.run(
                    command, check=False, timeout=GROUP_LIMIT_S, stdout=log, stderr=log
                )
                status = done.returncode
            except subprocess.TimeoutExpired:
                status, why = -1, f"not done within {GROUP_LIMIT_S:.0f} s"
            if status:
                log.seek(0)
                lines = [line.strip() for line in log.read().splitlines() if line.strip()]
                named = [line for line in lines if "Error" in line or "Unavailable" in line]
                why = why or (named or lines or [f"ended with status {status}"])[-1][:160]
                _say("\n".join(lines[-30:]))
        told = (
            [json.loads(line) for line in out.read_text("utf-8").splitlines()]
            if out.exists()
            else []
        )
    results = {entry["id"]: Result(**entry) for entry in told}
    return {
        name: results.get(name, Result(name, failed=why or "it was not measured")) for name in ids
    }


def _commit() -> str:
    """The commit that is measured, with "+" when the checkout differs from it; "-" outside a
    checkout.
    """
    command = ["git", "-C", str(OUT.parents[1]), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "-"
    return done.stdout.strip()


def _write(judged: Sequence[Judged], score: float, scale: float) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "calibration": {"score": round(score, 1), "reference": calibrate.REFERENCE},
        "machine": {"cores": os.cpu_count(), "system": platform.system(), "load": os.getloadavg()},
        "versions": {
            "python": platform.python_version(),
            "kubernetes": build.KUBERNETES,
            **{name: metadata.version(name) for name in ("federator", *VERSIONS)},
        },
        "scale": scale,
        "rows": [one.as_dict() for one in judged],
    }
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
