"""`federator simulate --explain WORK`: the time line of one work."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from federator.cli import common
from federator.cli.planning import simulating


def run(path: Path, document: dict[str, Any], work: str, output: str, *, quiet: bool) -> None:
    """Simulates a scenario and prints what happened to a work."""
    from federator.simulate.engine import run as engine
    from federator.simulate.report import timeline

    made = simulating.inputs(document, path)
    with simulating.progress(made, quiet=quiet) as progress:
        outcome = engine.run(made, progress)
    try:
        steps = timeline.of(outcome, work)
    except timeline.NoSuchWork as bad:
        common.fail(str(bad))
    if output == "json":
        rows = [dataclasses.asdict(step) for step in steps]
        common.data(json.dumps({"work": work, "steps": rows}, indent=2, ensure_ascii=False) + "\n")
        return
    rows_shown = [
        [simulating.date(step.at_s, made.origin_s), step.what, step.detail] for step in steps
    ]
    common.show(common.table(["AT", work.upper(), ""], rows_shown))
