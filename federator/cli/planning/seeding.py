"""`federator simulate --seeds N`: the same question with several seeds, and what is chance in the
answer."""

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from federator.cli import common
from federator.cli.planning import simulating

if TYPE_CHECKING:
    from federator.simulate.sweep.plan import Task
    from federator.simulate.sweep.running import Result
    from federator.simulate.sweep.seeds import Chance, Paired


Given = tuple[Path, dict[str, Any]]
"""A scenario's file and document."""


def run(
    scenario: Given,
    other: Given | None,
    count: int,
    where: "tuple[str, Path | None]",
    output: str,
    *,
    quiet: bool,
) -> bool:
    """Simulates, and prints median and range of each figure, or the differences from another
    scenario. `where`: the address of a Dask scheduler or "", and the folder for files. Returns
    whether a measure of the scenario is out of its bounds in a seed."""
    from federator.simulate.report import forms
    from federator.simulate.sweep import running, seeds

    address, out = where
    planned = seeds.tasks(scenario[1], scenario[0], count, other)
    jobs = os.cpu_count() or 1
    runner = (
        running.dask(address, seeds.simulated)
        if address
        else running.processes(jobs, seeds.simulated)
    )
    try:
        results = _results(runner, planned, quiet=quiet)
        after = seeds.chances(planned, results)
        before = seeds.chances(planned, results, of=1) if other is not None else ()
    except (seeds.Failed, running.NoDask) as bad:
        common.fail(str(bad))
    missed = seeds.missed(planned, results)
    numbers = [int(task.point[0][1]) for task in planned]
    pairs = seeds.paired(before, after)
    document = _document(numbers, after, missed, pairs)
    if out is not None:
        files = {"seeds.json": _json(document), "seeds.csv": _csv(numbers, after, before)}
        forms.write(out, files)
    if output == "json":
        common.data(_json(document).decode())
        return bool(missed)
    common.say(
        _verdict(numbers, after, missed, drawn=simulating.is_drawn(scenario[1], scenario[0]))
    )
    common.say("")
    if pairs:
        common.say(_compared(pairs, len(numbers)))
        common.say("")
    common.show(_paired(pairs) if pairs else _table(after))
    if out is not None:
        common.say(f"figures of each seed: {out / 'seeds.csv'}", err=True)
    return bool(missed)


def _results(runner: Any, planned: "Sequence[Task]", *, quiet: bool) -> "dict[str, Result]":
    results: dict[str, Result] = {}
    for result in runner(planned):
        results[str(result["id"])] = result
        if not quiet:
            common.say(f"{len(results):,} of {len(planned):,} simulations are done", err=True)
    return results


def _verdict(
    numbers: Sequence[int], chances: "Sequence[Chance]", missed: dict[str, int], *, drawn: bool
) -> str:
    from federator.simulate.report import figures

    shown = {chance.key: chance for chance in chances}
    parts = []
    for key in ("never_started", "waited", "wait_p99_s"):
        if key in shown:
            chance = shown[key]
            least, most = min(chance.values), max(chance.values)
            spread = (
                f" ({figures.shown(key, least)} to {figures.shown(key, most)})"
                if least != most
                else ""
            )
            parts.append(f"{chance.name} {figures.shown(key, chance.median)}{spread}")
    text = f"Median of {len(numbers)} seeds, {numbers[0]} to {numbers[-1]}: {', '.join(parts)}."
    if not drawn:
        text += " Nothing in this scenario is drawn by the seed."
    for name, count in missed.items():
        text += f" {name} is out of its bounds in {count} of {len(numbers)} seeds."
    return text


def _compared(pairs: "Sequence[Paired]", count: int) -> str:
    from federator.simulate.report import figures
    from federator.simulate.sweep import seeds

    if count < seeds.LEAST:
        return (
            f"{count} seeds are too few to tell a difference from chance; take --seeds"
            f" {seeds.LEAST} or more."
        )
    sure = [pair for pair in pairs if pair.verdict in ("better", "worse")]
    if not sure:
        return "No figure differs by more than chance may explain."
    named = [
        f"{pair.after.name} {figures.shown(pair.after.key, pair.before.median)} →"
        f" {figures.shown(pair.after.key, pair.after.median)} ({pair.verdict})"
        for pair in sure[:3]
    ]
    return f"Beyond chance: {', '.join(named)}."


def _table(chances: "Sequence[Chance]") -> str:
    from federator.simulate.report import figures

    return common.table(
        ["FIGURE", "MEDIAN", "LEAST", "MOST"],
        [
            [
                chance.name,
                *(
                    figures.shown(chance.key, value)
                    for value in (chance.median, min(chance.values), max(chance.values))
                ),
            ]
            for chance in chances
        ],
    )


def _paired(pairs: "Sequence[Paired]") -> str:
    from federator.simulate.report import figures

    rows = []
    for pair in pairs:
        key, bounds = pair.after.key, pair.interval
        rows.append(
            [
                pair.after.name,
                figures.shown(key, pair.before.median),
                figures.shown(key, pair.after.median),
                "-" if bounds is None else " to ".join(_signed(key, bound) for bound in bounds),
                pair.verdict or "-",
            ]
        )
    return common.table(["FIGURE", "BEFORE", "AFTER", "DIFFERENCE (95 %)", "VERDICT"], rows)


def _signed(key: str, value: float) -> str:
    from federator.simulate.report import figures

    sign = "+" if value > 0 else "-" if value < 0 else ""
    return f"{sign}{figures.shown(key, abs(value))}"


def _document(
    numbers: Sequence[int],
    after: "Sequence[Chance]",
    missed: dict[str, int],
    pairs: "Sequence[Paired]",
) -> dict[str, Any]:
    from federator.simulate.sweep import seeds

    document: dict[str, Any] = {
        "seeds": list(numbers),
        "figures": {chance.key: seeds.document_of(chance, numbers) for chance in after},
        "missed": missed,
    }
    if pairs:
        document["differences"] = {
            pair.after.key: {
                "name": pair.after.name,
                "before": pair.before.median,
                "after": pair.after.median,
                "interval": pair.interval,
                "verdict": pair.verdict,
            }
            for pair in pairs
        }
    return document


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()


def _csv(numbers: Sequence[int], after: "Sequence[Chance]", before: "Sequence[Chance]") -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["seed", "figure", "value", *(["before"] if before else [])])
    old = {chance.key: chance.values for chance in before}
    for chance in after:
        for at, (seed, value) in enumerate(zip(numbers, chance.values, strict=True)):
            beside = [old[chance.key][at] if chance.key in old else ""] if before else []
            writer.writerow([seed, chance.key, value, *beside])
    return text.getvalue().encode()
