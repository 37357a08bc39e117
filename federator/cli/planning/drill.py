"""`federator drill`: which workloads would have no place if a cluster, or a zone, were gone now."""

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from federator.cli import common
from federator.cli.planning import situations
from federator.model import plaintext

if TYPE_CHECKING:
    from federator.scheduling.drill import DrillResult

SHOWN: Final = 10
"""So many workloads without a place are listed of one loss."""
MANY: Final = 2000
"""With so many workloads all processors drill."""
INSTEAD: Final = "a drill reads what all workloads hold"


@click.command()
@click.option("--by", default="", help="Lose all clusters with one value of this label together.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    help="Files with the fleet and its decisions, as for place; not the federation.",
)
@click.option(
    "--a-minute",
    type=click.IntRange(1),
    default=None,
    help="Copies that move in a minute (default: hub.evacuated_copies_a_minute).",
)
@click.option(
    "-o", "--output", default="table", type=click.Choice(["table", "json", "yaml"]), help="Format."
)
@common.connection_options
def drill(by: str, files: tuple[str, ...], a_minute: int | None, output: str, **given: str) -> None:
    """Show for every cluster: if it were gone now, which workloads would have no place, and how
    long the rest would take to move. Nothing is changed. Exit 1: a workload would have no place."""
    from federator.advice import drills
    from federator.hub.options import HubOptions
    from federator.process import forking

    situation = situations.read(files, "default", given, INSTEAD)
    rate = HubOptions().evacuated_copies_a_minute if a_minute is None else a_minute
    many = len(situation.records) >= MANY
    each = functools.partial(forking.each, processes=forking.processors() if many else 1)
    outcomes = drills.of_all(situation, by, rate, each)
    if output == "table":
        _show(outcomes, by)
    else:
        common.show(common.dump({"losses": [_outcome(outcome) for outcome in outcomes]}, output))
    if any(outcome.unplaced for outcome in outcomes):
        sys.exit(1)


def _show(outcomes: "Sequence[DrillResult]", by: str) -> None:
    from federator.model.ask import Tier

    if not outcomes:
        common.show("There is no cluster to lose.")
        return
    lack = [f"NO PLACE: {tier.value}" for tier in Tier]
    headers = [by.upper() or "CLUSTER", "WORKLOADS", "COPIES", *lack, "REST MOVED IN"]
    rows = [
        [
            outcome.loss.name,
            str(outcome.workloads),
            str(outcome.copies),
            *(str(outcome.missing(tier)) for tier in Tier),
            _duration(outcome.recovery_s),
        ]
        for outcome in outcomes
    ]
    common.show(common.table(headers, rows))
    for outcome in outcomes:
        if outcome.loss.partly:
            named = ", ".join(outcome.loss.partly)
            common.show(f"\n{outcome.loss.name}: also in another {by}, so not lost: {named}")
        if outcome.after_scale_up:
            waiting = plaintext.counted(outcome.after_scale_up, "copy waits", "copies wait")
            common.show(f"\nWithout {outcome.loss.name}, {waiting} for nodes that clusters add.")
        if not outcome.unplaced:
            continue
        copies = sum(lacking.copies for lacking in outcome.unplaced)
        lacking = plaintext.counted(copies, "copy", "copies")
        common.show(f"\nWithout {outcome.loss.name}, {lacking} would have no place:")
        for each in outcome.unplaced[:SHOWN]:
            common.show(f"  {each.key} ({each.tier.value}): {each.copies}: {each.why}")
        if len(outcome.unplaced) > SHOWN:
            left = len(outcome.unplaced) - SHOWN
            more = plaintext.counted(left, "workload", "workloads")
            common.show(f"  ... and {more} more (-o json)")


def _duration(seconds: float) -> str:
    """`40s`, `12m`: rounded up, as a person plans."""
    whole = -int(-seconds // 1)
    return f"{whole}s" if whole < 120 else f"{-(-whole // 60)}m"


def _outcome(outcome: "DrillResult") -> dict[str, Any]:
    return {
        "name": outcome.loss.name,
        "clusters": list(outcome.loss.clusters),
        **({"notLost": list(outcome.loss.partly)} if outcome.loss.partly else {}),
        "workloads": outcome.workloads,
        "copies": outcome.copies,
        "recoverySeconds": round(outcome.recovery_s, 1),
        "afterScaleUp": outcome.after_scale_up,
        "unplaced": [
            {
                "workload": str(lacking.key),
                "tier": lacking.tier.value,
                "copies": lacking.copies,
                "why": lacking.why,
            }
            for lacking in outcome.unplaced
        ],
    }
